//! Reflectors: they answer every query with the query itself, so that a Tester and its path can be tested
//! without a server.
//!
//! No answer is longer than its query, and no response is ever answered, so two reflectors cannot keep each
//! other busy (but for [`Rule::Raw`]). [`pacing`] measures how evenly the queries arrived, by the kernel's
//! receive times.

pub mod pacing;
mod reflector;
mod worker;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use serde::Serialize;
use sys::udp::{Options, UdpSocket};

use pacing::Arrivals;
pub use reflector::{Reflector, ReflectorCounters};
use worker::Worker;

use crate::listen::advice;

/// The size of the sockets' buffers: a stall of some 10 ms at a million queries a second. The kernel counts
/// up to 4 KiB for each datagram, whatever its length.
pub const SOCKET_BUFFER_OCTETS: usize = 32 << 20;
/// The length of a DNS header (RFC 1035 section 4.1.1).
const HEADER_OCTETS: usize = 12;
/// The octet of the header that has the QR bit, and that bit.
const QR: (usize, u8) = (2, 0x80);

/// What is answered, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// What looks like a DNS query (QR clear, at least a header), with the same octets and QR set.
    #[default]
    Query,
    /// Every datagram that is not empty, with the same octets. Two such reflectors would keep each other
    /// busy.
    Raw,
}

impl Rule {
    /// Whether a datagram is answered.
    pub fn takes(self, octets: &[u8]) -> bool {
        match self {
            Self::Query => octets.len() >= HEADER_OCTETS && octets[QR.0] & QR.1 == 0,
            Self::Raw => !octets.is_empty(),
        }
    }

    /// Makes the answer of the octets of a datagram that is answered.
    pub fn answer(self, octets: &mut [u8]) {
        if self == Self::Query {
            octets[QR.0] |= QR.1;
        }
    }
}

/// What a reflector is started with.
#[derive(Clone, Debug)]
pub struct EchoConfig {
    /// The addresses to answer on. Port 0 takes a free one.
    pub listen: Vec<SocketAddr>,
    /// Threads, at least one. Each has a socket for each address; the kernel spreads the clients over them.
    pub threads: usize,
    /// The processors of these threads, used in turn; empty leaves the choice to the kernel.
    pub cpus: Vec<usize>,
    /// Answers leave as segments of longer messages, and queries may come so (`UDP_SEGMENT`, `UDP_GRO`).
    pub segments: bool,
    /// Never sleep: shorter latency for the price of a processor for each thread.
    pub spin: bool,
    /// How a datagram becomes its answer.
    pub rule: Rule,
    /// The receive buffer of every socket, in octets; the kernel grants less than it has, unless this process
    /// may force it.
    pub receive_buffer_octets: usize,
    /// How long a thread computes for each query before it answers it, in ns: what a server does, in place of
    /// nothing.
    pub work_ns: u64,
    /// Note when queries arrive. They then come one by one, for joined ones share one time.
    pub pacing: bool,
}

impl Default for EchoConfig {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            threads: 1,
            cpus: Vec::new(),
            segments: false,
            spin: false,
            rule: Rule::Query,
            receive_buffer_octets: SOCKET_BUFFER_OCTETS,
            work_ns: 0,
            pacing: false,
        }
    }
}

/// What a reflector has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Datagrams received.
    pub received: u64,
    /// Answers that the kernel took.
    pub answered: u64,
    /// Datagrams that are not answered: responses, and what is too short or too long for a query.
    pub ignored: u64,
    /// Answers that the kernel refused.
    pub not_sent: u64,
    /// Datagrams that the kernel dropped because a socket was full (`SO_MEMINFO`).
    pub dropped: u64,
    /// Calls to receive that failed.
    pub receive_failures: u64,
}

/// The same, written by one thread and read by others.
#[derive(Debug, Default)]
struct Gauge {
    received: AtomicU64,
    answered: AtomicU64,
    ignored: AtomicU64,
    not_sent: AtomicU64,
    receive_failures: AtomicU64,
}

/// Why a reflector did not start. It displays as one line.
#[derive(Debug)]
pub enum StartError {
    /// An address could not be had.
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// A thread could not be started, or not on its processor.
    Thread(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { address, error } => {
                let advice = advice(error);
                write!(f, "cannot listen on {address}: {error}{advice}")
            }
            Self::Thread(error) => write!(f, "cannot start the threads of the reflector: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// A running reflector on sockets. Dropping it stops its threads and waits for them.
pub struct Echo {
    threads: Vec<JoinHandle<Arrivals>>,
    sockets: Vec<Arc<UdpSocket>>,
    gauges: Vec<Arc<Gauge>>,
    local_addrs: Vec<SocketAddr>,
    stop: Arc<AtomicBool>,
}

impl Echo {
    /// Binds all addresses and starts the threads.
    ///
    /// # Errors
    /// An address cannot be had, or a thread cannot be started on its processor. Nothing is left running
    /// then.
    pub fn start(config: &EchoConfig) -> Result<Self, StartError> {
        let threads = config.threads.max(1);
        let mut echo = Self {
            threads: Vec::with_capacity(threads),
            sockets: Vec::new(),
            gauges: Vec::new(),
            local_addrs: Vec::new(),
            stop: Arc::default(),
        };
        let mut shares: Vec<Vec<Arc<UdpSocket>>> = vec![Vec::new(); threads];
        for &address in &config.listen {
            let sockets =
                bind(address, threads, config).map_err(|error| StartError::Bind { address, error })?;
            echo.local_addrs.extend(sockets.first().and_then(|socket| socket.local_addr().ok()));
            for (share, socket) in shares.iter_mut().zip(sockets) {
                echo.sockets.push(socket.clone());
                share.push(socket);
            }
        }
        let first_ns = Arc::new(AtomicU64::new(0));
        for (index, sockets) in shares.into_iter().enumerate() {
            let gauge = Arc::<Gauge>::default();
            echo.gauges.push(gauge.clone());
            let cpu = config.cpus.get(index % config.cpus.len().max(1)).copied();
            let arrivals = Arrivals::since(first_ns.clone());
            let worker = Worker::new(sockets, config, gauge, arrivals, echo.stop.clone());
            let thread = worker.and_then(|worker| worker.start(index, cpu)).map_err(StartError::Thread)?;
            echo.threads.push(thread);
        }
        Ok(echo)
    }

    /// The addresses it answers on, in the order of [`EchoConfig::listen`], with the ports that were free.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.local_addrs
    }

    /// What has been counted since the start.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        for gauge in &self.gauges {
            counters.received += gauge.received.load(Ordering::Relaxed);
            counters.answered += gauge.answered.load(Ordering::Relaxed);
            counters.ignored += gauge.ignored.load(Ordering::Relaxed);
            counters.not_sent += gauge.not_sent.load(Ordering::Relaxed);
            counters.receive_failures += gauge.receive_failures.load(Ordering::Relaxed);
        }
        let drops = self.sockets.iter().map(|socket| u64::from(socket.drops().unwrap_or(0)));
        counters.dropped = drops.sum();
        counters
    }

    /// Stops all threads, and returns the last counters and how many queries came in each millisecond since
    /// the first.
    pub fn stop(mut self) -> (Counters, Vec<u64>) {
        let mut series = Vec::new();
        for arrivals in self.join() {
            arrivals.add_to(&mut series);
        }
        (self.counters(), series)
    }

    fn join(&mut self) -> Vec<Arrivals> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).filter_map(|thread| thread.join().ok()).collect()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.join();
    }
}

/// A socket on the address for each thread.
fn bind(mut address: SocketAddr, threads: usize, config: &EchoConfig) -> io::Result<Vec<Arc<UdpSocket>>> {
    let options = Options {
        reuse_port: threads > 1,
        receive_buffer_octets: config.receive_buffer_octets,
        send_buffer_octets: SOCKET_BUFFER_OCTETS,
        timestamps: config.pacing,
        join: config.segments && !config.pacing,
        ..Options::default()
    };
    if options.reuse_port {
        // Sockets that share ports would share with another reflector too: a lone socket finds the port in
        // use.
        UdpSocket::bind(address, &Options::default())?;
    }
    let mut sockets = Vec::with_capacity(threads);
    for _ in 0..threads {
        let socket = UdpSocket::bind(address, &options)?;
        address = socket.local_addr()?;
        sockets.push(Arc::new(socket));
    }
    Ok(sockets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lb_only_queries_are_answered_and_by_themselves() {
        let mut query = *b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00";
        assert!(Rule::Query.takes(&query));
        Rule::Query.answer(&mut query);
        assert_eq!(query, *b"\x12\x34\x81\x00\x00\x01\x00\x00\x00\x00\x00\x00");
        assert!(!Rule::Query.takes(&query), "a response is never answered");
        assert!(!Rule::Query.takes(&query[..11]) && !Rule::Query.takes(b""));
        assert!(Rule::Raw.takes(&query) && Rule::Raw.takes(b"x") && !Rule::Raw.takes(b""));
        let before = query;
        Rule::Raw.answer(&mut query);
        assert_eq!(query, before);
    }
}
