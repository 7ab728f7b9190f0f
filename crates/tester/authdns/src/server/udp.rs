//! The AuthDNS on one UDP socket: receive a batch, answer, send.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use sys::clock;
use sys::udp::{Datagram, Options, ReceiveBatch, UdpSocket};

use super::outbox::{AddressPair, Outbox};
use crate::counters::{SharedTraffic, Traffic};
use crate::faults::Reply;
use crate::query::Query;
use crate::responder::Responder;
use crate::zone::{Answer, QueryKind, Transport};

/// Messages in one system call.
const BATCH_SLOTS: usize = 64;
/// What a message holds at most: several queries of one client, where they arrive joined.
const MESSAGE_OCTETS_MAX: usize = 65_535;

/// A socket, what answers at it and its counters. It belongs to whoever polls it.
pub struct UdpService {
    socket: Arc<UdpSocket>,
    responder: Responder,
    traffic: Arc<SharedTraffic>,
    queries: ReceiveBatch,
    outbox: Outbox,
    /// The thread of the [`Authority`](super::Authority) that serves it unless somebody took it.
    pub(super) worker: usize,
}

impl UdpService {
    /// Binds a socket; see [`UdpSocket::bind`].
    ///
    /// # Errors
    /// The address is in use or not of this machine, or the port needs privileges.
    pub fn bind(address: SocketAddr, options: &Options, responder: Responder) -> io::Result<Self> {
        let socket = Arc::new(UdpSocket::bind(address, options)?);
        Ok(Self {
            outbox: Outbox::new(socket.clone()),
            socket,
            responder,
            traffic: Arc::default(),
            queries: ReceiveBatch::new(BATCH_SLOTS, MESSAGE_OCTETS_MAX),
            worker: 0,
        })
    }

    /// Sends the delayed answers that are due, then answers what waits at the socket, at most `max_batches`
    /// of 64 messages (each of one or more datagrams); returns how many it took. Never blocks.
    ///
    /// # Errors
    /// Those of receiving. What was received before is answered.
    pub fn poll(&mut self, max_batches: usize) -> io::Result<usize> {
        if self.next_due_ns().is_some() {
            let mut traffic = Traffic::default();
            self.outbox.send_due(clock::monotonic_ns(), &mut traffic);
            self.traffic.add(traffic);
        }
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

    /// When [`UdpService::poll`] has a delayed answer to send though nothing comes, in ns of the monotonic
    /// clock.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.outbox.next_due_ns()
    }

    fn answer_batch(&mut self) {
        let mut traffic = Traffic::default();
        let arrived_ns = if self.responder.needs_time() { clock::monotonic_ns() } else { 0 };
        for Datagram { octets, from, local, truncated, .. } in self.queries.iter() {
            let way = AddressPair { to: from, from_local: local };
            self.outbox.answer(way, arrived_ns, &mut traffic, |out| {
                if truncated {
                    return Reply::plain(Answer { octets: 0, kind: QueryKind::Malformed });
                }
                self.responder.respond(Query { octets, from, transport: Transport::Udp, arrived_ns }, out)
            });
        }
        self.outbox.flush(&mut traffic);
        self.traffic.add(traffic);
    }

    /// The address it is bound to.
    ///
    /// # Errors
    /// Only those of a broken descriptor.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// What is needed to read its counters from elsewhere.
    pub(super) fn gauge(&self) -> UdpGauge {
        UdpGauge { socket: self.socket.clone(), traffic: self.traffic.clone() }
    }
}

impl Drop for UdpService {
    fn drop(&mut self) {
        self.traffic.add(Traffic { undelivered: self.outbox.waiting() as u64, ..Traffic::default() });
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
