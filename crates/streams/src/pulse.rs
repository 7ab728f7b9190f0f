//! Whether a thread still works.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A question to a thread, which the thread answers as soon as it has time. Whoever asks learns at the next
/// question whether the one before was answered, and never waits.
#[derive(Clone, Debug)]
pub struct Pulse {
    thread: Arc<str>,
    awaited: Arc<AtomicBool>,
}

impl Pulse {
    /// For the thread of this name.
    pub fn new(thread: &str) -> Self {
        Self { thread: thread.into(), awaited: Arc::default() }
    }

    /// The name of the thread.
    pub fn thread(&self) -> &str {
        &self.thread
    }

    /// Whether the last question has no answer yet. If it has one, `ask` must have the thread call
    /// [`Pulse::answer`].
    pub fn is_silent(&self, ask: impl FnOnce(Self)) -> bool {
        if self.awaited.swap(true, Ordering::Relaxed) {
            return true;
        }
        ask(self.clone());
        false
    }

    /// The thread works.
    pub fn answer(&self) {
        self.awaited.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_silent_from_the_second_question_to_its_answer() {
        let pulse = Pulse::new("test");
        assert!(!pulse.is_silent(|_| {}), "it was not asked before");
        assert!(pulse.is_silent(|_| panic!("it is not asked again")));
        pulse.answer();
        assert!(!pulse.is_silent(|asked| asked.answer()));
        assert!(!pulse.is_silent(|_| {}));
        assert_eq!(pulse.thread(), "test");
    }
}
