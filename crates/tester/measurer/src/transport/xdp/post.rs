//! Answers that arrive at the queue of one lane and belong to another.
//!
//! Which queue an answer arrives at is the device's choice, by a hash of addresses and ports, while the lane
//! that can match it is the one that asked. The kernel hands a frame to the socket of its queue alone; the
//! lanes therefore pass answers of other lanes on, with the time of arrival.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Answers one after the other.
#[derive(Default)]
pub(super) struct AnswerBatch {
    octets: Vec<u8>,
    letters: Vec<AnswerEntry>,
}

#[derive(Clone, Copy)]
struct AnswerEntry {
    at_ns: u64,
    socket: usize,
    octets: usize,
}

/// Where the other lanes leave the answers for one lane.
#[derive(Default)]
pub(super) struct Mailbox {
    has_post: AtomicBool,
    post: Mutex<AnswerBatch>,
    lost: AtomicU64,
}

/// A lane that does not look for so long has lost its trial; the memory is better used.
const POST_OCTETS_MAX: usize = 16 << 20;

impl AnswerBatch {
    /// Adds an answer.
    pub fn push(&mut self, at_ns: u64, socket: usize, answer: &[u8]) {
        self.octets.extend_from_slice(answer);
        self.letters.push(AnswerEntry { at_ns, socket, octets: answer.len() });
    }

    /// The memory it takes, in octets.
    fn room(&self) -> usize {
        self.octets.len() + self.letters.len() * size_of::<AnswerEntry>()
    }

    /// Hands over all answers, in order, and is empty then. Returns how many there were.
    pub fn deliver(&mut self, deliver: &mut dyn FnMut(u64, usize, &[u8])) -> usize {
        let mut rest = self.octets.as_slice();
        for letter in &self.letters {
            let (answer, after) = rest.split_at(letter.octets);
            deliver(letter.at_ns, letter.socket, answer);
            rest = after;
        }
        let count = self.letters.len();
        self.octets.clear();
        self.letters.clear();
        count
    }
}

impl Mailbox {
    /// Leaves what was collected, which is empty then. What does not fit is lost, and counted.
    pub fn leave(&self, post: &mut AnswerBatch) {
        if post.letters.is_empty() {
            return;
        }
        let mut held = self.post.lock().unwrap_or_else(PoisonError::into_inner);
        if held.room() + post.room() > POST_OCTETS_MAX {
            self.lost.fetch_add(post.letters.len() as u64, Ordering::Relaxed);
        } else {
            held.octets.extend_from_slice(&post.octets);
            held.letters.extend_from_slice(&post.letters);
            self.has_post.store(true, Ordering::Release);
        }
        post.octets.clear();
        post.letters.clear();
    }

    /// Exchanges what is there for an empty `post`.
    pub fn collect(&self, post: &mut AnswerBatch) {
        if self.has_post.load(Ordering::Acquire) {
            let mut held = self.post.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut *held, post);
            self.has_post.store(false, Ordering::Release);
        }
    }

    /// Answers lost because the lane did not look for them.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_arrive_in_order_and_too_many_are_counted() {
        let mailbox = Mailbox::default();
        let mut post = AnswerBatch::default();
        for (number, text) in [b"one".as_slice(), b"", b"three"].into_iter().enumerate() {
            post.push(number as u64, number + 7, text);
        }
        mailbox.leave(&mut post);
        assert_eq!(post.deliver(&mut |_, _, _| panic!("nothing is left")), 0);
        mailbox.collect(&mut post);
        let mut seen = Vec::new();
        assert_eq!(post.deliver(&mut |at, socket, text| seen.push((at, socket, text.to_vec()))), 3);
        assert_eq!(seen, [(0, 7, b"one".to_vec()), (1, 8, vec![]), (2, 9, b"three".to_vec())]);
        mailbox.collect(&mut post);
        assert_eq!(post.deliver(&mut |_, _, _| panic!("nothing came")), 0);
        post.push(0, 0, &vec![0; POST_OCTETS_MAX + 1]);
        mailbox.leave(&mut post);
        assert_eq!(mailbox.lost(), 1);
    }
}
