//! How many questions are in flight at one server.

use std::collections::VecDeque;
use std::sync::Mutex;

use tokio::sync::oneshot;

use crate::lock;

/// The places of the questions at a server. When all are taken, a new question takes that of the oldest one:
/// the owner has given up most of the old ones, where it has a limit of its own.
pub(super) struct Places {
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The questions, the oldest first. Those that have ended stay for a while.
    questions: VecDeque<oneshot::Sender<()>>,
    /// Places of questions that go on.
    taken: usize,
}

/// A place, until this is dropped.
pub(super) struct Place<'p> {
    places: &'p Places,
    end: oneshot::Receiver<()>,
    is_given_up: bool,
}

impl Places {
    /// So many places, at least one.
    pub fn new(max: usize) -> Self {
        Self { max: max.max(1), state: Mutex::default() }
    }

    /// A place for a question, which another gives up if need be.
    pub fn enter(&self) -> Place<'_> {
        let (sender, end) = oneshot::channel();
        let mut state = lock(&self.state);
        while state.taken >= self.max {
            let Some(oldest) = state.questions.pop_front() else { break };
            // It fails where the question has ended.
            if oldest.send(()).is_ok() {
                state.taken -= 1;
            }
        }
        if state.questions.len() >= 2 * self.max {
            state.questions.retain(|question| !question.is_closed());
        }
        state.questions.push_back(sender);
        state.taken += 1;
        Place { places: self, end, is_given_up: false }
    }
}

impl Place<'_> {
    /// Waits until another question takes this place.
    pub async fn given_up(&mut self) {
        // No sender is dropped while its question goes on.
        let _ = (&mut self.end).await;
        self.is_given_up = true;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.places.state);
        if !self.is_given_up && self.end.try_recv().is_err() {
            state.taken -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_the_oldest_question_gives_up_its_place_and_none_is_lost() {
        let places = Places::new(2);
        let taken = || lock(&places.state).taken;
        let mut held: Vec<Place<'_>> = (0..2).map(|_| places.enter()).collect();
        let new = places.enter();
        assert_eq!((held[0].end.try_recv(), taken()), (Ok(()), 2));
        held[0].is_given_up = true;
        held.remove(0);
        assert!(held[0].end.try_recv().is_err(), "it goes on");
        drop(held);
        assert_eq!(taken(), 1);
        for _ in 0..100 {
            drop(places.enter());
        }
        drop(new);
        assert_eq!(taken(), 0);
        assert!(lock(&places.state).questions.len() <= 4);
    }
}
