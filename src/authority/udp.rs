//! The AuthDNS on one UDP socket: receive a batch, answer, send.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use net::udp::{Options, ReceiveBatch, SendBatch, UdpSocket};

use super::counters::{SharedTraffic, Traffic};
use super::zone::{ANSWER_OCTETS_MAX, Answer, QueryKind, Transport, Zone};

/// Datagrams in one system call.
const BATCH_SLOTS: usize = 64;
/// Longer datagrams are no queries that the zone can answer.
const QUERY_OCTETS_MAX: usize = 1232;

/// A socket, the zone it answers from and its counters. It belongs to whoever polls it.
pub struct UdpService {
    socket: Arc<UdpSocket>,
    zone: Arc<Zone>,
    traffic: Arc<SharedTraffic>,
    queries: ReceiveBatch,
    answers: SendBatch,
    /// The thread of the [`Authority`](super::Authority) that serves it unless somebody took it.
    pub(super) worker: usize,
}

impl UdpService {
    /// Binds a socket; see [`UdpSocket::bind`].
    ///
    /// # Errors
    /// The address is in use or not of this machine, or the port needs privileges.
    pub fn bind(address: SocketAddr, options: &Options, zone: Arc<Zone>) -> io::Result<Self> {
        Ok(Self {
            socket: Arc::new(UdpSocket::bind(address, options)?),
            zone,
            traffic: Arc::default(),
            queries: ReceiveBatch::new(BATCH_SLOTS, QUERY_OCTETS_MAX),
            answers: SendBatch::new(BATCH_SLOTS, ANSWER_OCTETS_MAX).segmenting(),
            worker: 0,
        })
    }

    /// Answers what waits at the socket, at most `max_batches` of 64 datagrams; returns how many it took. Never blocks.
    ///
    /// # Errors
    /// Those of receiving. What was received before is answered.
    pub fn poll(&mut self, max_batches: usize) -> io::Result<usize> {
        let mut total = 0;
        for _ in 0..max_batches {
            let received = self.queries.receive(&self.socket)?;
            if received > 0 {
                self.answer_batch();
            }
            total += received;
            if received < BATCH_SLOTS {
                break;
            }
        }
        Ok(total)
    }

    fn answer_batch(&mut self) {
        let mut traffic = Traffic::default();
        for query in self.queries.iter() {
            self.answers.push(Some(query.from), query.local, |out| {
                let answer = if query.truncated {
                    Answer { octets: 0, kind: QueryKind::Malformed }
                } else {
                    self.zone.answer(query.octets, Transport::Udp, out)
                };
                traffic.count(answer);
                answer.octets
            });
        }
        let flushed = self.answers.flush(&self.socket);
        traffic.answers = flushed.sent as u64;
        traffic.send_failures = flushed.failed as u64;
        self.traffic.add(traffic);
    }

    /// The address it is bound to.
    ///
    /// # Errors
    /// Only those of a broken descriptor.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// What it has counted since it was bound.
    pub fn traffic(&self) -> Traffic {
        self.traffic.read()
    }

    /// What is needed to read its counters from elsewhere.
    pub(super) fn gauge(&self) -> UdpGauge {
        UdpGauge { socket: self.socket.clone(), traffic: self.traffic.clone() }
    }
}

impl AsFd for UdpService {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Reads the counters of a [`UdpService`] that another thread serves.
pub(super) struct UdpGauge {
    socket: Arc<UdpSocket>,
    traffic: Arc<SharedTraffic>,
}

impl UdpGauge {
    pub fn traffic(&self) -> Traffic {
        self.traffic.read()
    }

    /// What the kernel dropped at the socket; 0 where it does not tell.
    pub fn socket_drops(&self) -> u64 {
        self.socket.drops().unwrap_or(0).into()
    }
}
