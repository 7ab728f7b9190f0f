//! The `udp` and `gso` back-ends: connected sockets with sendmmsg and recvmmsg.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use super::{Sent, Sources, Transport};
use crate::clock;
use crate::poll::{Events, Interest, Poller};
use crate::process;
use crate::udp::{Options, ReceiveBatch, SendBatch, UdpSocket};

/// What the sockets of all threads are made with.
#[derive(Clone, Copy, Debug)]
pub struct UdpConfig {
    /// The server to ask.
    pub server: SocketAddr,
    /// The number of sockets, each with a source port of its own.
    pub sockets: usize,
    /// Addresses and ports to bind them to.
    pub sources: Sources,
    /// Receive buffer of each in octets.
    pub receive_buffer_octets: usize,
}

/// Queries leave one system call at a time, in batches where several are due.
pub struct UdpTransport {
    sockets: Vec<UdpSocket>,
    poller: Poller,
    events: Events,
    outgoing: SendBatch,
    incoming: ReceiveBatch,
    /// Of the queries; the receiving side counts its own.
    icmp_errors: u64,
    /// Made for segments.
    segmenting: bool,
}

/// The most queries of one call, and the most answers taken from one socket at a time.
const BATCH: usize = 64;
/// A query is never longer: header, name of 255 octets, type, class, OPT.
const QUERY_OCTETS_MAX: usize = 512;
/// Answers longer than this are cut; none of the benchmark's comes near.
const ANSWER_OCTETS_MAX: usize = 2048;
/// The most messages taken from one socket at a time where each may hold several answers, and the longest there is.
const JOINED: usize = 16;
const JOINED_OCTETS_MAX: usize = 65_535;

/// Open files besides the Measurer's sockets: pollers, the AuthDNS, the record.
const FILES_BESIDE: usize = 128;

impl UdpConfig {
    /// Whether so many sockets can be had; each also needs a source of its own.
    pub(super) fn check(&self) -> io::Result<()> {
        let Self { sockets, sources, server, .. } = self;
        let too_many = |message: String| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        if let Some(pairs) = sources.pairs().filter(|&pairs| pairs < *sockets as u64) {
            return too_many(format!(
                "{sockets} sockets need {sockets} sources, and the range given has {pairs}"
            ));
        }
        let (limit, needed) = (process::raise_file_limit(), (sockets + FILES_BESIDE) as u64);
        if needed > limit {
            return too_many(format!(
                "{sockets} sockets need {needed} open files, {limit} are allowed: ask for fewer, or raise the limit with 'ulimit -n {needed}'"
            ));
        }
        sources.check(*sockets, *server)
    }
}

impl UdpTransport {
    /// Opens those of the sockets that one thread has, by their numbers. With `segmenting`, equally long queries of a
    /// batch leave as one message, and answers may come likewise.
    ///
    /// # Errors
    /// A source that cannot be bound, too many open files, no route to the server; or a kernel that knows no segments
    /// (before 5.0).
    pub fn open(config: &UdpConfig, own: Range<usize>, segmenting: bool) -> io::Result<Self> {
        let (mut outgoing, mut incoming) =
            (SendBatch::new(BATCH, QUERY_OCTETS_MAX), (BATCH, ANSWER_OCTETS_MAX));
        if segmenting {
            (outgoing, incoming) = (outgoing.segmenting(), (JOINED, JOINED_OCTETS_MAX));
        }
        let options = Options {
            receive_buffer_octets: config.receive_buffer_octets,
            timestamps: true,
            join: segmenting,
            ..Options::default()
        };
        let poller = Poller::new()?;
        let mut sockets = Vec::with_capacity(own.len());
        for (index, number) in own.enumerate() {
            let socket = config.sources.bind(number, config.server, &options)?;
            socket.connect(config.server)?;
            poller.add(&socket, index as u64, Interest::Read)?;
            sockets.push(socket);
        }
        Ok(Self {
            events: Events::with_capacity(sockets.len()),
            sockets,
            poller,
            outgoing,
            incoming: ReceiveBatch::new(incoming.0, incoming.1),
            icmp_errors: 0,
            segmenting,
        })
    }
}

impl Transport for UdpTransport {
    fn send(&mut self, socket: usize, count: usize, write: &mut dyn FnMut(&mut [u8]) -> usize) -> Sent {
        for _ in 0..count.min(BATCH) {
            self.outgoing.push(None, None, &mut *write);
        }
        let flushed = self.outgoing.flush(&self.sockets[socket]);
        self.icmp_errors += flushed.icmp_errors as u64;
        Sent { failed: flushed.failed, error: flushed.error }
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(u64, usize, &[u8])) -> io::Result<usize> {
        if self.poller.wait(&mut self.events, Some(Duration::ZERO))? == 0 {
            return Ok(0);
        }
        let mut received = 0;
        for event in self.events.iter() {
            let socket = event.token as usize;
            self.incoming.receive(&self.sockets[socket])?;
            // The kernel notes arrivals on its real-time clock; read afresh, the distance of the clocks cannot be stale.
            let clocks = clock::Distance::read();
            for datagram in self.incoming.iter() {
                let at_ns = datagram.received_realtime_ns.map(|at_ns| clocks.to_monotonic_ns(at_ns));
                deliver(at_ns.unwrap_or(clocks.monotonic_ns()), socket, datagram.octets);
                received += 1;
            }
        }
        Ok(received)
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        self.poller.wait(&mut self.events, Some(Duration::from_nanos(timeout_ns))).map(drop)
    }

    fn drops(&self) -> u64 {
        self.sockets.iter().map(|socket| u64::from(socket.drops().unwrap_or(0))).sum()
    }

    fn icmp_errors(&self) -> u64 {
        self.icmp_errors + self.incoming.icmp_errors()
    }

    fn fallback(&self) -> Option<&'static str> {
        (self.segmenting && !self.outgoing.is_segmenting())
            .then_some("the device refused segments, queries left one by one")
    }
}
