//! The `udp` and `gso` back-ends: connected sockets with sendmmsg and recvmmsg.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::{Sent, Sources, Transport};
use sys::clock;
use sys::poll::{Events, Interest, Poller};
use sys::udp::{Options, ReceiveBatch, SendBatch, UdpSocket};

/// What the sockets of one thread are made with.
#[derive(Clone, Copy, Debug)]
pub struct UdpConfig {
    /// The server to ask.
    pub server: SocketAddr,
    /// The number of sockets, each with a source port of its own.
    pub sockets: usize,
    /// Sockets of the threads before this one.
    pub first_socket: usize,
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
/// The most messages taken from one socket at a time where each may hold several answers, and the longest
/// there is.
const JOINED: usize = 16;
const JOINED_OCTETS_MAX: usize = 65_535;

impl UdpTransport {
    /// Opens the sockets.
    ///
    /// # Errors
    /// A source that cannot be bound, too many open files, or no route to the server.
    pub fn new(config: &UdpConfig) -> io::Result<Self> {
        let batches = (SendBatch::new(BATCH, QUERY_OCTETS_MAX), ReceiveBatch::new(BATCH, ANSWER_OCTETS_MAX));
        Self::with(config, batches, false)
    }

    /// Opens sockets that send equally long queries of a batch as one message and take answers likewise.
    ///
    /// # Errors
    /// Likewise, or a kernel that cannot (before 5.0).
    pub fn segmenting(config: &UdpConfig) -> io::Result<Self> {
        let outgoing = SendBatch::new(BATCH, QUERY_OCTETS_MAX).segmenting();
        Self::with(config, (outgoing, ReceiveBatch::new(JOINED, JOINED_OCTETS_MAX)), true)
    }

    fn with(
        config: &UdpConfig,
        (outgoing, incoming): (SendBatch, ReceiveBatch),
        segmenting: bool,
    ) -> io::Result<Self> {
        let options = Options {
            receive_buffer_octets: config.receive_buffer_octets,
            timestamps: true,
            join: segmenting,
            ..Options::default()
        };
        let poller = Poller::new()?;
        let mut sockets = Vec::with_capacity(config.sockets);
        for index in 0..config.sockets {
            let socket = config.sources.bind(config.first_socket + index, config.server, &options)?;
            socket.connect(config.server)?;
            poller.add(&socket, index as u64, Interest::Read)?;
            sockets.push(socket);
        }
        Ok(Self {
            events: Events::with_capacity(sockets.len()),
            sockets,
            poller,
            outgoing,
            incoming,
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
        let unwritten = count - self.outgoing.len();
        let flushed = self.outgoing.flush(&self.sockets[socket]);
        self.icmp_errors += flushed.icmp_errors as u64;
        let too_long = || super::too_long(QUERY_OCTETS_MAX);
        Sent {
            failed: flushed.failed + unwritten,
            error: flushed.error.or_else(|| (unwritten > 0).then(too_long)),
        }
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(u64, usize, &[u8]) -> bool) -> io::Result<usize> {
        if self.poller.wait(&mut self.events, Some(Duration::ZERO))? == 0 {
            return Ok(0);
        }
        let mut received = 0;
        for event in self.events.iter() {
            let socket = event.token as usize;
            self.incoming.receive(&self.sockets[socket])?;
            // The kernel notes arrivals on its real-time clock; read afresh, the distance of the clocks
            // cannot be stale.
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
        // Answers that came joined and were dropped together are one drop to the kernel.
        self.sockets.iter().map(|socket| u64::from(socket.drops().unwrap_or(0))).sum()
    }

    fn icmp_errors(&self) -> u64 {
        self.icmp_errors + self.incoming.icmp_errors()
    }

    fn fallback(&self) -> Option<&'static str> {
        (self.segmenting && self.outgoing.refused_segments())
            .then_some("the device refused segments, queries left one by one")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_that_do_not_fit_count_as_refused() {
        let server = UdpSocket::bind("[::1]:0".parse().unwrap(), &Options::default()).unwrap();
        let config = UdpConfig {
            server: server.local_addr().unwrap(),
            sockets: 1,
            first_socket: 0,
            sources: Sources::default(),
            receive_buffer_octets: 0,
        };
        let mut transport = UdpTransport::new(&config).unwrap();
        let mut lengths = [20, 0, 30].into_iter();
        let sent = transport.send(0, 3, &mut |_| lengths.next().unwrap_or(0));
        assert_eq!(sent.failed, 1);
        assert!(sent.error.unwrap().to_string().contains("longer than 512 octets"));
        let mut received = ReceiveBatch::new(4, 64);
        assert_eq!(received.receive(&server).unwrap(), 2);
    }
}
