//! How the Measurer's queries leave and its answers come in: one trait, several back-ends.

mod gso;
mod source;
pub mod stream;
mod udp;
pub mod xdp;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::connections::{ConnectionStats, Fate};
use sys::bpf;
use sys::link::{self, PathError};
use xdp::{XdpConfig, XdpDevice, XdpTransport};

pub use source::{PortRange, SourcePrefix, Sources};
use stream::{PoolConfig, StreamConfig, StreamTransport};
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
    /// socket, and the octets; `deliver` tells whether it was the first answer to a query. Returns how many
    /// there were.
    ///
    /// # Errors
    /// Those that no later call can mend.
    fn receive(&mut self, deliver: &mut dyn FnMut(u64, usize, &[u8]) -> bool) -> io::Result<usize>;

    /// Hands over what became of queries beside their answers since the last call; of datagrams nothing is
    /// known.
    fn settle(&mut self, _tell: &mut dyn FnMut(Fate)) {}

    /// Sleeps until something arrives or the time, in ns, is over.
    ///
    /// # Errors
    /// Those that no later call can mend.
    fn wait(&mut self, timeout_ns: u64) -> io::Result<()>;

    /// Answers that were dropped at its own sockets or rings so far.
    fn drops(&self) -> u64;

    /// Its lane wants nothing more; others may, of what still comes in here.
    fn retire(&mut self) {}

    /// What its connections did, at the end; `None` if it has none.
    fn connections(&mut self) -> Option<ConnectionStats> {
        None
    }

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
    /// How connections are made, the most that one thread may have, and the seed of what is drawn.
    Streams(Box<StreamConfig>, usize, u64),
}

impl Opener {
    /// Prepares a back-end that asks in datagrams, for so many threads.
    ///
    /// # Errors
    /// The device cannot be used. [`Backend::Kernel`] has no transports.
    pub fn of_datagrams(backend: Backend, config: &UdpConfig, threads: usize) -> io::Result<Self> {
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
    /// in use. Until `stop` is set, connections are opened.
    pub fn open(
        &self,
        thread: usize,
        (config, timeout_ns): (&UdpConfig, u64),
        stop: &AtomicBool,
    ) -> io::Result<AnyTransport> {
        match self {
            Self::Streams(streams, connections_max, seed) => {
                let config = PoolConfig {
                    streams: StreamConfig::clone(streams),
                    server: config.server,
                    clients: config.sockets,
                    first_client: config.first_socket,
                    sources: config.sources,
                    timeout_ns,
                    connections_max: *connections_max,
                    seed: *seed,
                };
                StreamTransport::new(config, stop).map(|pool| AnyTransport::Streams(Box::new(pool)))
            }
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
            Self::Sockets { .. } | Self::Streams(..) => 0,
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
    /// Connections.
    Streams(Box<StreamTransport>),
}

impl AnyTransport {
    /// Connections that are ready for queries, before the first one.
    pub fn standing(&self) -> u64 {
        if let Self::Streams(pool) = self { pool.opened() } else { 0 }
    }
}

impl Transport for AnyTransport {
    fn send(&mut self, socket: usize, count: usize, write: &mut dyn FnMut(&mut [u8]) -> usize) -> Sent {
        match self {
            Self::Udp(udp) => udp.send(socket, count, write),
            Self::Xdp(xdp) => xdp.send(socket, count, write),
            Self::Streams(pool) => pool.send(socket, count, write),
        }
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(u64, usize, &[u8]) -> bool) -> io::Result<usize> {
        match self {
            Self::Udp(udp) => udp.receive(deliver),
            Self::Xdp(xdp) => xdp.receive(deliver),
            Self::Streams(pool) => pool.receive(deliver),
        }
    }

    fn settle(&mut self, tell: &mut dyn FnMut(Fate)) {
        if let Self::Streams(pool) = self {
            pool.settle(tell);
        }
    }

    fn connections(&mut self) -> Option<ConnectionStats> {
        if let Self::Streams(pool) = self { pool.connections() } else { None }
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        match self {
            Self::Udp(udp) => udp.wait(timeout_ns),
            Self::Xdp(xdp) => xdp.wait(timeout_ns),
            Self::Streams(pool) => pool.wait(timeout_ns),
        }
    }

    fn drops(&self) -> u64 {
        match self {
            Self::Udp(udp) => udp.drops(),
            Self::Xdp(xdp) => xdp.drops(),
            Self::Streams(pool) => pool.drops(),
        }
    }

    fn retire(&mut self) {
        match self {
            Self::Udp(udp) => udp.retire(),
            Self::Xdp(xdp) => xdp.retire(),
            Self::Streams(pool) => pool.retire(),
        }
    }

    fn icmp_errors(&self) -> u64 {
        match self {
            Self::Udp(udp) => udp.icmp_errors(),
            Self::Xdp(xdp) => xdp.icmp_errors(),
            Self::Streams(pool) => pool.icmp_errors(),
        }
    }

    fn fallback(&self) -> Option<&'static str> {
        match self {
            Self::Udp(udp) => udp.fallback(),
            Self::Xdp(xdp) => xdp.fallback(),
            Self::Streams(pool) => pool.fallback(),
        }
    }
}
