//! Delayed answers: a bounded queue in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Things that are due at some time, the earliest first; what is due at the same time leaves in the order it
/// came.
#[derive(Debug)]
pub struct Delayed<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    capacity: usize,
    pushed: u64,
}

#[derive(Debug)]
struct Entry<T> {
    due_ns: u64,
    number: u64,
    value: T,
}

impl<T> Entry<T> {
    fn key(&self) -> (u64, u64) {
        (self.due_ns, self.number)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<T> Delayed<T> {
    /// A queue for up to `capacity` things; memory is taken as they come.
    pub fn new(capacity: usize) -> Self {
        Self { heap: BinaryHeap::new(), capacity, pushed: 0 }
    }

    /// Keeps `value` until `due_ns`.
    ///
    /// # Errors
    /// The queue is full: the value comes back.
    pub fn push(&mut self, due_ns: u64, value: T) -> Result<(), T> {
        if self.heap.len() >= self.capacity {
            return Err(value);
        }
        self.heap.push(Reverse(Entry { due_ns, number: self.pushed, value }));
        self.pushed += 1;
        Ok(())
    }

    /// The next that is due at `now_ns`.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<T> {
        self.next_due_ns().filter(|&due_ns| due_ns <= now_ns)?;
        self.heap.pop().map(|Reverse(entry)| entry.value)
    }

    /// When the next is due.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(entry)| entry.due_ns)
    }

    /// The number of answers that wait.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_leave_in_the_order_of_their_time() {
        let mut delayed = Delayed::new(4);
        for (due_ns, value) in [(30, 'c'), (10, 'a'), (30, 'd'), (20, 'b')] {
            assert_eq!(delayed.push(due_ns, value), Ok(()));
        }
        assert_eq!(delayed.push(1, 'x'), Err('x'), "it is full");
        assert_eq!((delayed.len(), delayed.next_due_ns()), (4, Some(10)));
        assert_eq!(delayed.pop_due(9), None);
        assert_eq!(
            (delayed.pop_due(25), delayed.pop_due(25), delayed.pop_due(25)),
            (Some('a'), Some('b'), None)
        );
        assert_eq!(
            (delayed.pop_due(30), delayed.pop_due(30), delayed.pop_due(u64::MAX)),
            (Some('c'), Some('d'), None)
        );
        assert!(delayed.is_empty() && delayed.next_due_ns().is_none());
    }
}
