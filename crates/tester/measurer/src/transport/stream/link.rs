//! One connection, whatever carries it: octets on one side, messages on the other.

use engine::connections::Breakdown;
use sys::poll::Poller;

use super::https::HttpsLink;
use super::tcp::TcpLink;

/// What a connection has to say.
pub(super) enum News<'a> {
    /// It is ready for queries.
    Ready {
        /// How long the transport layer took to connect, in ns, where it does so by itself.
        connect_ns: Option<u64>,
        /// How long the handshake took, in ns, where there is one.
        handshake_ns: Option<u64>,
        /// The handshake resumed a session.
        resumed: bool,
    },
    /// A message came, at this instant in ns (`CLOCK_MONOTONIC`).
    Message(u64, &'a [u8]),
    /// The query that is at this place among those of the client has left and will have no answer.
    Lost(u64, Breakdown),
    /// What the server said instead of an answer, or instead of taking more queries.
    Refused(String),
    /// For the answers to so many queries nobody waits any more.
    GivenUp(u64),
}

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub why: Breakdown,
    /// In the words of the library, of a handshake that failed.
    pub reason: Option<String>,
}

impl From<Breakdown> for End {
    fn from(why: Breakdown) -> Self {
        Self { why, reason: None }
    }
}

/// Room that the connections of a thread share: each leaves it empty.
pub(super) struct Scratch {
    /// What arrives.
    pub input: Box<[u8]>,
    /// What arrives and was encrypted.
    pub opened: Box<[u8]>,
    /// Messages to be sent.
    pub plain: Vec<u8>,
    /// The same, encrypted.
    pub sealed: Vec<u8>,
}

/// As much as one call takes from a socket.
const INPUT_OCTETS: usize = 1 << 16;

impl Scratch {
    pub fn new() -> Self {
        let room = || vec![0; INPUT_OCTETS].into_boxed_slice();
        Self { input: room(), opened: room(), plain: Vec::new(), sealed: Vec::new() }
    }
}

/// Where a connection is waited for.
#[derive(Clone, Copy)]
pub(super) struct Waiting<'a> {
    pub poller: &'a Poller,
    pub token: u64,
}

/// A connection.
pub(super) enum Link {
    /// Messages over TCP, with or without TLS.
    Tcp(TcpLink),
    /// Requests over HTTPS.
    Https(Box<HttpsLink>),
}

impl Link {
    /// Does what the socket is ready for; `tell` hears what came of it.
    ///
    /// # Errors
    /// The connection is over.
    pub fn drive(
        &mut self,
        now_ns: u64,
        (scratch, waiting): (&mut Scratch, Waiting<'_>),
        tell: &mut dyn FnMut(News<'_>),
    ) -> Result<(), End> {
        match self {
            Self::Tcp(link) => link.drive(now_ns, (scratch, waiting), tell),
            Self::Https(link) => link.drive(now_ns, (scratch, waiting), tell),
        }
    }

    /// Whether it takes a query now.
    pub fn has_room(&self) -> bool {
        match self {
            Self::Tcp(link) => link.has_room(),
            Self::Https(link) => link.has_room(),
        }
    }

    /// Whether it will take no more queries, though answers may come.
    pub fn is_leaving(&self) -> bool {
        match self {
            Self::Tcp(_) => false,
            Self::Https(link) => link.is_leaving(),
        }
    }

    /// Gives up answers that are overdue; returns for how many queries.
    pub fn expire(&mut self, now_ns: u64) -> u64 {
        match self {
            Self::Tcp(_) => 0,
            Self::Https(link) => link.expire(now_ns),
        }
    }

    /// Adds a query to those that leave with the next [`Link::flush`], with its place among those of the
    /// client and the time in ns. Only where it has room.
    pub fn push(&mut self, message: &[u8], at: (u64, u64), scratch: &mut Scratch) {
        match self {
            Self::Tcp(link) => link.push(message, scratch),
            Self::Https(link) => link.push(message, at, scratch),
        }
    }

    /// Sends what was added, in one write.
    ///
    /// # Errors
    /// The connection is over.
    pub fn flush(&mut self, scratch: &mut Scratch, waiting: Waiting<'_>) -> Result<(), End> {
        match self {
            Self::Tcp(link) => link.flush(scratch, waiting),
            Self::Https(link) => link.flush(scratch, waiting),
        }
    }

    /// Says goodbye, as far as that can be done without waiting.
    pub fn close(&mut self, scratch: &mut Scratch) {
        match self {
            Self::Tcp(link) => link.close(scratch),
            Self::Https(link) => link.close(scratch),
        }
    }
}
