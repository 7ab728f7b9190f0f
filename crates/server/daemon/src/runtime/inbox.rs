//! Messages from other threads to a worker.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use streams::{NoAnswer, Pulse};
use sys::poll::Waker;

use super::worker::NextGeneration;

/// How often is looked whether a worker goes by other settings.
const ADOPTION_POLL: Duration = Duration::from_micros(200);

pub(super) enum Event {
    /// A client's query from the room of the streams.
    Query(streams::Query),
    /// The end of a question asked over a stream, for the token of a machine of this generation.
    Answer {
        generation: u8,
        token: u64,
        octets: Result<Vec<u8>, NoAnswer>,
    },
    /// Go on with these settings and sockets.
    Adopt(Box<NextGeneration>),
    /// Say that the thread works.
    GiveSign,
    Stop,
}

/// A worker's inbox. It grows with what the room of the streams may have in progress, which is bounded there.
pub(super) struct Inbox {
    events: Mutex<Vec<Event>>,
    pub waker: Waker,
    /// The generation that the worker asks and answers by.
    adopted: AtomicU64,
    pub pulse: Pulse,
}

impl Inbox {
    /// That of the thread with this name.
    pub fn new(thread: &str) -> io::Result<Self> {
        Ok(Self {
            events: Mutex::new(Vec::new()),
            waker: Waker::new()?,
            adopted: AtomicU64::new(0),
            pulse: Pulse::new(thread),
        })
    }

    /// Asks the worker for a sign of life, and says whether it has given none since it was last asked.
    pub fn is_silent(&self) -> bool {
        self.pulse.is_silent(|_| self.push(Event::GiveSign))
    }

    /// The worker goes by this generation from now on.
    pub fn set_generation(&self, generation: u64) {
        self.adopted.store(generation, Ordering::Release);
    }

    /// Waits until the worker goes by this generation, or until then.
    pub fn wait_adopted(&self, generation: u64, deadline: Instant) {
        while self.adopted.load(Ordering::Acquire) < generation && Instant::now() < deadline {
            std::thread::sleep(ADOPTION_POLL);
        }
    }

    /// Hands a message over. Only the first of several wakes the worker.
    pub fn push(&self, event: Event) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let first = events.is_empty();
        events.push(event);
        drop(events);
        if first {
            self.waker.wake();
        }
    }

    /// Takes all messages; `into` must be empty.
    pub fn take(&self, into: &mut Vec<Event>) {
        self.waker.drain();
        std::mem::swap(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner), into);
    }
}
