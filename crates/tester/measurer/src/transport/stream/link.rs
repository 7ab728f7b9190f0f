//! What a connection and the thread that drives it tell and lend each other.

use engine::connections::Breakdown;
use sys::poll::Poller;

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
