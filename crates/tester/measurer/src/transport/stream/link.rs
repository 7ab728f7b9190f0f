//! One connection, whatever carries it: octets on one side, messages on the other.

use engine::connections::Breakdown;
use sys::poll::Poller;

use super::https::HttpsLink;
use super::quic::{QuicLink, Room};
use super::tcp::TcpLink;

/// What a connection has to say.
#[derive(Debug)]
pub enum News<'a> {
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

/// A query that leaves.
pub(super) struct Leaving<'a> {
    /// Its place among the queries of the client.
    pub place: u64,
    pub now_ns: u64,
    pub octets: &'a [u8],
}

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// What it means for the queries that have no answer.
    pub why: Breakdown,
    /// In the words of the library or of the protocol: of a handshake that failed, or of a connection that
    /// the server closed.
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
    /// What connections over QUIC need beside.
    pub quic: Option<Box<Room>>,
}

/// As much as one call takes from a socket.
const INPUT_OCTETS: usize = 1 << 16;

impl Scratch {
    pub fn new() -> Self {
        let room = || vec![0; INPUT_OCTETS].into_boxed_slice();
        Self { input: room(), opened: room(), plain: Vec::new(), sealed: Vec::new(), quic: None }
    }

    pub fn quic(&mut self) -> &mut Room {
        self.quic.get_or_insert_default()
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
    /// Streams over QUIC.
    Quic(Box<QuicLink>),
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
            Self::Quic(link) => link.drive(now_ns, scratch, tell),
        }
    }

    /// Whether it takes a query now.
    pub fn has_room(&self) -> bool {
        match self {
            Self::Tcp(link) => link.has_room(),
            Self::Https(link) => link.has_room(),
            Self::Quic(link) => link.has_room(),
        }
    }

    /// Whether it will take no more queries, though answers may come.
    pub fn is_leaving(&self) -> bool {
        match self {
            Self::Tcp(_) => false,
            Self::Https(link) => link.is_leaving(),
            Self::Quic(link) => link.is_leaving(),
        }
    }

    /// Whether the client's next query needs another connection.
    pub fn is_worn(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Https(_) => false,
            Self::Quic(link) => link.is_worn(),
        }
    }

    /// Gives up answers that are overdue; returns for how many queries.
    pub fn expire(&mut self, now_ns: u64) -> u64 {
        match self {
            Self::Tcp(_) | Self::Quic(_) => 0,
            Self::Https(link) => link.expire(now_ns),
        }
    }

    /// Adds a query to those that leave with the next [`Link::flush`]. Only where it has room.
    pub fn push(&mut self, query: &Leaving<'_>, scratch: &mut Scratch) {
        match self {
            Self::Tcp(link) => link.push(query.octets, scratch),
            Self::Https(link) => link.push(query.octets, (query.place, query.now_ns), scratch),
            Self::Quic(link) => link.push(query, scratch),
        }
    }

    /// Sends what was added, in one write.
    ///
    /// # Errors
    /// The connection is over.
    pub fn flush(&mut self, now_ns: u64, (scratch, waiting): (&mut Scratch, Waiting<'_>)) -> Result<(), End> {
        match self {
            Self::Tcp(link) => link.flush(scratch, waiting),
            Self::Https(link) => link.flush(scratch, waiting),
            Self::Quic(link) => link.flush(now_ns, scratch),
        }
    }

    /// When it is to be driven though its socket is not ready, in ns.
    pub fn alarm_ns(&mut self) -> Option<u64> {
        match self {
            Self::Tcp(_) | Self::Https(_) => None,
            Self::Quic(link) => link.alarm_ns(),
        }
    }

    /// What the kernel dropped at its socket, where that is known.
    pub fn drops(&self) -> u64 {
        match self {
            Self::Tcp(_) | Self::Https(_) => 0,
            Self::Quic(link) => link.drops(),
        }
    }

    /// Says goodbye, as far as that can be done without waiting.
    pub fn close(&mut self, now_ns: u64, scratch: &mut Scratch) {
        match self {
            Self::Tcp(link) => link.close(scratch),
            Self::Https(link) => link.close(scratch),
            Self::Quic(link) => link.close(now_ns, scratch),
        }
    }
}
