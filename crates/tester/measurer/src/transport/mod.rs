//! How the Measurer's queries leave and its answers come in: one trait, several back-ends.

mod gso;
mod source;
mod udp;
pub mod xdp;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use sys::bpf;
use sys::link::{self, PathError};
use xdp::{XdpConfig, XdpDevice, XdpTransport};

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
    /// Sends `count` queries with one of its sockets; `write` fills a buffer and returns the length, or 0 if
    /// the query does not fit: then it counts as refused.
    fn send(&mut self, socket: usize, count: usize, write: &mut dyn FnMut(&mut [u8]) -> usize) -> Sent;

    /// Hands over what has arrived, a bounded number: when it arrived (ns, `CLOCK_MONOTONIC`), at which
    /// socket, and the octets. Returns how many there were.
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

    /// Its lane wants nothing more; others may, of what still comes in here.
    fn retire(&mut self) {}

    /// How often the network said that a query was not delivered (ICMP), so far.
    fn icmp_errors(&self) -> u64 {
        0
    }

    /// Whether it could do its work in the way it was made for; otherwise what it did instead, in a few
    /// words.
    fn fallback(&self) -> Option<&'static str> {
        None
    }
}

/// The error of queries that do not fit the buffer that was offered for them.
fn too_long(octets_max: usize) -> io::Error {
    let message = format!("a query is longer than {octets_max} octets: leave out options or padding");
    io::Error::new(io::ErrorKind::InvalidInput, message)
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
    /// AF_XDP, past the kernel's network stack.
    Xdp,
    /// XDP programs generate the queries and take the answers ([`crate::kernel`]).
    Kernel,
}

impl Backend {
    /// Whether queries leave by sockets, so that their sources must be addresses of this machine.
    pub fn has_sockets(self) -> bool {
        matches!(self, Self::Udp | Self::Gso { .. })
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Gso { .. } => "gso",
            Self::Xdp => "xdp",
            Self::Kernel => "kernel",
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
pub fn check(backend: Backend, server: SocketAddr) -> Result<String, Unavailable> {
    match backend {
        Backend::Udp => Ok(backend.name().into()),
        Backend::Gso { allow_unsegmented } => match gso::unsegmented(server) {
            None => Ok(backend.name().into()),
            Some(_) if allow_unsegmented => Ok(format!("{} (unsegmented)", backend.name())),
            Some(why) => Err(Unavailable { backend, why }),
        },
        Backend::Xdp => match xdp::check(server) {
            Ok(()) => Ok(backend.name().into()),
            Err(why) => Err(Unavailable { backend, why: why.to_string() }),
        },
        Backend::Kernel => {
            let unavailable = |why: String| Unavailable { backend, why };
            bpf::available().map_err(|why| unavailable(why.to_string()))?;
            link::path_to(server).map_err(|why: PathError| unavailable(why.to_string()))?;
            Ok(backend.name().into())
        }
    }
}

/// What the threads' transports share.
pub enum Opener {
    /// Sockets share nothing.
    Sockets {
        /// Queries leave as segments.
        segmenting: bool,
    },
    /// The program on the device.
    Xdp(Arc<XdpDevice>),
}

impl Opener {
    /// Prepares a back-end for so many threads; `config` has the sockets of all of them.
    ///
    /// # Errors
    /// The device cannot be used. [`Backend::Kernel`] has no transports.
    pub fn new(backend: Backend, config: &UdpConfig, threads: usize) -> io::Result<Self> {
        match backend {
            Backend::Udp => Ok(Self::Sockets { segmenting: false }),
            Backend::Gso { .. } => Ok(Self::Sockets { segmenting: true }),
            Backend::Xdp => {
                let sources = config.sources.all(config.sockets, config.server);
                let config = XdpConfig { lanes: threads, sources, ..XdpConfig::new(config.server, 0) };
                XdpDevice::open(&config).map(Self::Xdp).map_err(io::Error::other)
            }
            Backend::Kernel => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Opens the transport of a thread.
    ///
    /// # Errors
    /// Those of the back-end's own: sockets that cannot be opened or bound, no route to the server, a queue
    /// in use.
    pub fn open(&self, thread: usize, config: &UdpConfig) -> io::Result<AnyTransport> {
        match self {
            Self::Sockets { segmenting: false } => UdpTransport::new(config).map(AnyTransport::Udp),
            Self::Sockets { segmenting: true } => UdpTransport::segmenting(config).map(AnyTransport::Udp),
            Self::Xdp(device) => {
                let transport = XdpTransport::new(device, thread).map_err(io::Error::other)?;
                Ok(AnyTransport::Xdp(transport))
            }
        }
    }

    /// Answers so far that came to a queue whose ring was nobody's.
    pub fn wrong_queue(&self) -> u64 {
        match self {
            Self::Sockets { .. } => 0,
            Self::Xdp(device) => device.answers().wrong_queue,
        }
    }
}

/// The transport of one of the Measurer's threads.
pub enum AnyTransport {
    /// UDP sockets, with or without segments.
    Udp(UdpTransport),
    /// AF_XDP rings.
    Xdp(XdpTransport),
}

impl Transport for AnyTransport {
    fn send(&mut self, socket: usize, count: usize, write: &mut dyn FnMut(&mut [u8]) -> usize) -> Sent {
        match self {
            Self::Udp(udp) => udp.send(socket, count, write),
            Self::Xdp(xdp) => xdp.send(socket, count, write),
        }
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(u64, usize, &[u8])) -> io::Result<usize> {
        match self {
            Self::Udp(udp) => udp.receive(deliver),
            Self::Xdp(xdp) => xdp.receive(deliver),
        }
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        match self {
            Self::Udp(udp) => udp.wait(timeout_ns),
            Self::Xdp(xdp) => xdp.wait(timeout_ns),
        }
    }

    fn drops(&self) -> u64 {
        match self {
            Self::Udp(udp) => udp.drops(),
            Self::Xdp(xdp) => xdp.drops(),
        }
    }

    fn retire(&mut self) {
        match self {
            Self::Udp(udp) => udp.retire(),
            Self::Xdp(xdp) => xdp.retire(),
        }
    }

    fn icmp_errors(&self) -> u64 {
        match self {
            Self::Udp(udp) => udp.icmp_errors(),
            Self::Xdp(xdp) => xdp.icmp_errors(),
        }
    }

    fn fallback(&self) -> Option<&'static str> {
        match self {
            Self::Udp(udp) => udp.fallback(),
            Self::Xdp(xdp) => xdp.fallback(),
        }
    }
}
