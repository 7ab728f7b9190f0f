//! The output of a UDP socket: a batch for answers that leave now, a bounded queue for answers that a fault
//! delays.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sys::udp::{SendBatch, UdpSocket};

use crate::counters::Traffic;
use crate::delayed::Delayed;
use crate::faults::Reply;
use crate::zone::ANSWER_OCTETS_MAX;

/// Datagrams in one system call.
const BATCH_SLOTS: usize = 64;
/// Answers that faults may keep waiting at one socket: more than a second of 100,000 q/s.
const DELAYED_MAX: usize = 1 << 17;

/// From where to where an answer goes: the address that was asked, at sockets of several, and the client.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddressPair {
    pub to: SocketAddr,
    pub from_local: Option<IpAddr>,
}

/// The answers that leave from one socket.
pub(super) struct Outbox {
    socket: Arc<UdpSocket>,
    batch: SendBatch,
    delayed: Delayed<(AddressPair, Box<[u8]>)>,
}

impl Outbox {
    pub fn new(socket: Arc<UdpSocket>) -> Self {
        let batch = SendBatch::new(BATCH_SLOTS, ANSWER_OCTETS_MAX).segmenting();
        Self { socket, batch, delayed: Delayed::new(DELAYED_MAX) }
    }

    /// Sends what `answer` writes, as often and as late as it says, counted from `now_ns`.
    #[inline]
    pub fn answer(
        &mut self,
        way: AddressPair,
        now_ns: u64,
        traffic: &mut Traffic,
        answer: impl FnOnce(&mut [u8]) -> Reply,
    ) {
        if self.batch.is_full() {
            self.flush(traffic);
        }
        let mut odd = None;
        self.batch.push(Some(way.to), way.from_local, |out| {
            let reply = answer(out);
            traffic.count(&reply);
            if reply.is_prompt() {
                return reply.answer.octets;
            }
            odd = Some((reply, Box::from(&out[..reply.answer.octets])));
            0
        });
        if let Some((reply, octets)) = odd {
            self.send_odd(way, now_ns, traffic, &reply, &octets);
        }
    }

    fn send_odd(
        &mut self,
        way: AddressPair,
        now_ns: u64,
        traffic: &mut Traffic,
        reply: &Reply,
        octets: &[u8],
    ) {
        for _ in 0..reply.copies {
            if reply.delay_ns == 0 {
                self.send(way, octets, traffic);
            } else if self.delayed.push(now_ns.saturating_add(reply.delay_ns), (way, octets.into())).is_err()
            {
                traffic.undelivered += 1;
            }
        }
    }

    fn send(&mut self, way: AddressPair, octets: &[u8], traffic: &mut Traffic) {
        if self.batch.is_full() {
            self.flush(traffic);
        }
        self.batch.push(Some(way.to), way.from_local, |out| {
            out[..octets.len()].copy_from_slice(octets);
            octets.len()
        });
    }

    /// Sends the delayed answers that are due.
    pub fn send_due(&mut self, now_ns: u64, traffic: &mut Traffic) {
        while let Some((way, octets)) = self.delayed.pop_due(now_ns) {
            self.send(way, &octets, traffic);
        }
        self.flush(traffic);
    }

    /// When [`Outbox::send_due`] has something to do.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.delayed.next_due_ns()
    }

    pub fn waiting(&self) -> usize {
        self.delayed.len()
    }

    /// Hands the batch to the kernel.
    pub fn flush(&mut self, traffic: &mut Traffic) {
        let flushed = self.batch.flush(&self.socket);
        traffic.answers += flushed.sent as u64;
        traffic.send_failures += flushed.failed as u64;
    }
}
