//! Answers over encrypted transports that a fault delays: a thread hands them over when they are due.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use streams::Handle;
use sys::clock;

use super::tcp::DELAYED_MAX;
use crate::delayed::Delayed;

/// The handle of the thread. Dropping it ends the thread; what waits then is never sent.
pub(super) struct LateAnswers {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Answers, with the tokens of their queries.
    answers: Delayed<(u64, Box<[u8]>)>,
    ended: bool,
}

impl LateAnswers {
    /// Starts the thread.
    ///
    /// # Errors
    /// It cannot be had.
    pub fn start(handle: Handle) -> io::Result<Self> {
        let state = State { answers: Delayed::new(DELAYED_MAX), ended: false };
        let queue = Arc::new(Queue { state: Mutex::new(state), changed: Condvar::new() });
        let own = queue.clone();
        let thread =
            std::thread::Builder::new().name("auth-late".to_owned()).spawn(move || own.run(&handle))?;
        Ok(Self { queue, thread: Some(thread) })
    }

    /// Keeps an answer until `due_ns` of the monotonic clock; `false` when too many wait.
    pub fn push(&self, due_ns: u64, token: u64, octets: &[u8]) -> bool {
        let taken = self.queue.lock().answers.push(due_ns, (token, octets.into())).is_ok();
        self.queue.changed.notify_one();
        taken
    }
}

impl Drop for LateAnswers {
    fn drop(&mut self) {
        self.queue.lock().ended = true;
        self.queue.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn run(&self, handle: &Handle) {
        let mut state = self.lock();
        while !state.ended {
            let now_ns = clock::monotonic_ns();
            if let Some((token, octets)) = state.answers.pop_due(now_ns) {
                handle.answer(token, &octets);
                continue;
            }
            state = match state.answers.next_due_ns() {
                Some(due_ns) => {
                    let left = Duration::from_nanos(due_ns - now_ns);
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
