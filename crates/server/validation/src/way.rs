//! The client for the upstream servers: side threads of `streams` whose answers are awaited.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use streams::{Answer, Handle, Streams, Upstream, UpstreamError};
use tokio::sync::oneshot;

use crate::lock;

/// Those who wait, by the tokens of their questions. Every question ends within its time, so this is bounded
/// by what the room of the streams has in flight.
type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Option<Vec<u8>>>>>>;

pub(crate) struct UpstreamClients {
    streams: Streams,
    waiting: Waiting,
    next_token: Arc<AtomicU64>,
}

impl UpstreamClients {
    pub fn start() -> io::Result<Self> {
        let waiting = Waiting::default();
        let ended = waiting.clone();
        let streams = Streams::start(
            "dns64d",
            0,
            |_| {},
            move |Answer { token, octets }| {
                if let Some(waiting) = lock(&ended).remove(&token) {
                    // Who asked may have given up.
                    let _ = waiting.send(octets.ok());
                }
            },
        )?;
        Ok(Self { streams, waiting, next_token: Arc::default() })
    }

    /// See [`Streams::silent_threads`].
    pub fn silent_threads(&self) -> Vec<String> {
        self.streams.silent_threads()
    }

    /// Gives the servers of a generation.
    pub fn set(&self, generation: u64, upstreams: Vec<Upstream>) -> Result<(), UpstreamError> {
        self.streams.set_upstreams(generation, upstreams)
    }

    pub fn to(&self, generation: u64, upstream: usize) -> UpstreamClient {
        let (waiting, next_token) = (self.waiting.clone(), self.next_token.clone());
        UpstreamClient { handle: self.streams.handle(), waiting, next_token, generation, upstream }
    }
}

/// The way to one upstream server.
#[derive(Clone)]
pub(crate) struct UpstreamClient {
    handle: Handle,
    waiting: Waiting,
    next_token: Arc<AtomicU64>,
    generation: u64,
    upstream: usize,
}

impl UpstreamClient {
    /// Asks, and waits for the answer to this very question.
    pub async fn ask(&self, query: Vec<u8>, timeout: Duration) -> Option<Vec<u8>> {
        let token = self.next_token.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        lock(&self.waiting).insert(token, sender);
        self.handle.ask(self.generation, self.upstream, token, query, timeout);
        answer.await.ok().flatten()
    }
}
