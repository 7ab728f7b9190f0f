//! How the Measurer's queries leave and its answers come in: one trait, several back-ends.

mod gso;
mod source;
mod udp;

use std::fmt;
use std::io;

pub use source::{PortRange, SourcePrefix, Sources};
pub use udp::{UdpConfig, UdpTransport};

/// What became of the queries of one call.
#[derive(Debug, Default)]
pub struct Sent {
    /// Queries that were refused; the others were taken.
    pub failed: usize,
    /// Why, for the last of them.
    pub error: Option<io::Error>,
}

/// A back-end of the Measurer. One belongs to one thread.
pub trait Transport {
    /// Sends `count` queries with one of its sockets; `write` fills a buffer and returns the length.
    fn send(&mut self, socket: usize, count: usize, write: &mut dyn FnMut(&mut [u8]) -> usize) -> Sent;

    /// Hands over what has arrived, a bounded number: when it arrived (ns, `CLOCK_MONOTONIC`), at which socket, and
    /// the octets. Returns how many there were.
    ///
    /// # Errors
    /// Those that no later call can mend.
    fn receive(&mut self, deliver: &mut dyn FnMut(u64, usize, &[u8])) -> io::Result<usize>;

    /// Sleeps until something arrives or the time, in ns, is over.
    ///
    /// # Errors
    /// Those that no later call can mend.
    fn wait(&mut self, timeout_ns: u64) -> io::Result<()>;

    /// Answers that were dropped at its own sockets or rings so far.
    fn drops(&self) -> u64;

    /// Answers that came to a queue whose ring was not its own, and could not be counted, so far.
    fn wrong_queue(&self) -> u64 {
        0
    }

    /// How often the network said that a query was not delivered (ICMP), so far.
    fn icmp_errors(&self) -> u64 {
        0
    }

    /// Whether it could do its work in the way it was made for; otherwise what it did instead, in a few words.
    fn fallback(&self) -> Option<&'static str> {
        None
    }
}

/// The back-ends there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// UDP sockets with sendmmsg and recvmmsg.
    #[default]
    Udp,
    /// The same, with the queries of a batch as segments of one message and answers joined likewise.
    Gso {
        /// Also where the messages reach the server's machine whole, so that no packets are on the wire.
        allow_unsegmented: bool,
    },
}

impl Backend {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Gso { .. } => "gso",
        }
    }
}

/// Why a back-end cannot run here: one line, with what to do.
#[derive(Debug)]
pub struct Unavailable {
    backend: Backend,
    why: String,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--io {} cannot run here: {}", self.backend.name(), self.why)
    }
}

impl std::error::Error for Unavailable {}

/// Whether a back-end can ask this server from here; if so, what the record shall call it.
///
/// # Errors
/// It cannot, and why.
pub fn check(backend: Backend, config: &UdpConfig) -> Result<String, Unavailable> {
    match backend {
        Backend::Udp => Ok(backend.name().into()),
        Backend::Gso { allow_unsegmented } => match gso::unsegmented(config.server) {
            None => Ok(backend.name().into()),
            Some(_) if allow_unsegmented => Ok(format!("{} (unsegmented)", backend.name())),
            Some(why) => Err(Unavailable { backend, why }),
        },
    }
}

/// The transport of one of the Measurer's threads.
pub enum AnyTransport {
    /// UDP sockets, with or without segments.
    Udp(UdpTransport),
}

/// Opens the transport of a thread.
///
/// # Errors
/// Those of the back-end's own: sockets that cannot be opened or bound, no route to the server.
pub fn open(backend: Backend, config: &UdpConfig) -> io::Result<AnyTransport> {
    match backend {
        Backend::Udp => UdpTransport::new(config).map(AnyTransport::Udp),
        Backend::Gso { .. } => UdpTransport::segmenting(config).map(AnyTransport::Udp),
    }
}

impl Transport for AnyTransport {
    fn send(&mut self, socket: usize, count: usize, write: &mut dyn FnMut(&mut [u8]) -> usize) -> Sent {
        match self {
            Self::Udp(udp) => udp.send(socket, count, write),
        }
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(u64, usize, &[u8])) -> io::Result<usize> {
        match self {
            Self::Udp(udp) => udp.receive(deliver),
        }
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        match self {
            Self::Udp(udp) => udp.wait(timeout_ns),
        }
    }

    fn drops(&self) -> u64 {
        match self {
            Self::Udp(udp) => udp.drops(),
        }
    }

    fn wrong_queue(&self) -> u64 {
        match self {
            Self::Udp(udp) => udp.wrong_queue(),
        }
    }

    fn icmp_errors(&self) -> u64 {
        match self {
            Self::Udp(udp) => udp.icmp_errors(),
        }
    }

    fn fallback(&self) -> Option<&'static str> {
        match self {
            Self::Udp(udp) => udp.fallback(),
        }
    }
}
