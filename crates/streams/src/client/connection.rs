//! A connection to an upstream server, whatever it speaks.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{framed, https, quic};

/// So many questions in a row that went without an answer, and the connection is not used any more: the path
/// may be dead in a way nobody is told of.
const UNANSWERED_MAX: u32 = 4;

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The connection ended first; another may do better.
    Lost,
    /// The server cannot be reached, or what it said cannot be used.
    Unusable,
}

impl Failure {
    /// What keeps a connection from being made.
    pub fn from_error<E>(_: E) -> Self {
        Self::Unusable
    }

    /// What ends a connection that was made.
    pub fn lost<E>(_: E) -> Self {
        Self::Lost
    }
}

/// A connection that was made.
pub(super) struct Connection {
    link: Link,
    unanswered: AtomicU32,
}

pub(super) enum Link {
    Framed(framed::Link),
    Https(https::Link),
    Quic(quic::Link),
}

impl Connection {
    pub fn new(link: Link) -> Self {
        Self { link, unanswered: AtomicU32::new(0) }
    }

    /// Whether it may be asked again.
    pub fn is_usable(&self) -> bool {
        let is_closed = match &self.link {
            Link::Framed(link) => link.is_closed(),
            Link::Https(link) => link.is_closed(),
            Link::Quic(link) => link.is_closed(),
        };
        !is_closed && self.unanswered.load(Ordering::Relaxed) < UNANSWERED_MAX
    }

    /// Asks, and waits for the answer as long as the caller has patience.
    pub async fn exchange(&self, query: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut attempt = Attempt { connection: self, is_alive: None };
        let answer = match &self.link {
            Link::Framed(link) => link.exchange(query).await,
            Link::Https(link) => link.exchange(query).await,
            Link::Quic(link) => link.exchange(query).await,
        };
        attempt.is_alive = Some(answer != Err(Failure::Lost));
        answer
    }
}

struct Attempt<'a> {
    connection: &'a Connection,
    /// What its end says of the connection; none when the caller gave up and dropped it.
    is_alive: Option<bool>,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let unanswered = &self.connection.unanswered;
        match self.is_alive {
            Some(true) => unanswered.store(0, Ordering::Relaxed),
            Some(false) => unanswered.store(UNANSWERED_MAX, Ordering::Relaxed),
            None => drop(unanswered.fetch_add(1, Ordering::Relaxed)),
        }
    }
}
