//! What other threads hand to a worker.

use std::io;
use std::sync::{Mutex, PoisonError};

use net::poll::Waker;

use super::worker::Adoption;

/// A message to a worker.
pub(super) enum Event {
    /// A client's query from the room of the streams.
    Query(streams::Query),
    /// The end of a question asked over a stream, for the token of a machine of this generation.
    Answer { generation: u8, token: u64, octets: Option<Vec<u8>> },
    /// Go on with these settings and sockets.
    Adopt(Box<Adoption>),
    /// End.
    Stop,
}

/// A worker's inbox. It grows with what the room of the streams may have in progress, which is bounded there.
pub(super) struct Inbox {
    events: Mutex<Vec<Event>>,
    pub waker: Waker,
}

impl Inbox {
    pub fn new() -> io::Result<Self> {
        Ok(Self { events: Mutex::new(Vec::new()), waker: Waker::new()? })
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
