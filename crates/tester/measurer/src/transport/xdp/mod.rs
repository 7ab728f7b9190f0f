//! The `xdp` back-end: AF_XDP, past the kernel's network stack.
//!
//! Queries are written into memory that the kernel (or the device itself) sends from; an XDP program on the
//! device hands the server's answers to the socket of the receive queue they come by, before the stack sees
//! them. Everything else goes to the stack as usual.

mod device;
mod post;
mod redirect;
mod source;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::{Sent, Transport};
use device::Ring;
use post::AnswerBatch;
use sys::clock;
use sys::frame::{self, Template};

pub use device::{XdpConfig, XdpDevice, check};
pub use sys::xdp::XdpError;

/// The back-end of one lane.
///
/// Answers carry the time at which the program saw them, on the kernel's `CLOCK_MONOTONIC`. Where a driver
/// leaves no room for it before the frame, it is the time at which the ring was read: late by the time
/// between two calls of `receive`, and for answers to another lane by nothing more.
pub struct XdpTransport {
    device: Arc<XdpDevice>,
    lane: usize,
    /// Those of the lane's own queues, then those taken over from lanes that have finished.
    rings: Vec<Ring>,
    own_rings: usize,
    /// What was dropped at rings that the lane has left to others.
    drops_retired: u64,
    templates: Vec<Template>,
    /// Answers for the other lanes, of one call.
    outgoing: Vec<AnswerBatch>,
    incoming: AnswerBatch,
    malformed: u64,
    unstamped: u64,
}

/// What one lane saw besides answers to deliver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpCounters {
    /// Answers that found the ring of arrivals full.
    pub ring_full: u64,
    /// Answers dropped for another reason: no frame to put them in, or too long for it.
    pub dropped: u64,
    /// Times that the kernel found no frame to fill; with zero copy the device may have dropped as many.
    pub fill_empty: u64,
    /// Frames that the kernel refused to send because they were malformed; never, if all is well.
    pub send_invalid: u64,
    /// Answers for this lane that another one took and this one did not fetch.
    pub not_fetched: u64,
    /// Datagrams whose lengths contradict each other, or to a source that no socket has.
    pub malformed: u64,
    /// Answers whose time of arrival is that of reading the ring.
    pub unstamped: u64,
}

/// Answers taken from one queue at a time.
const BATCH: u32 = 256;
/// A query is never longer, as in the back-ends with sockets.
const QUERY_OCTETS_MAX: usize = 512;
/// A stamp that is older was not made for the frame before us.
const STAMP_AGE_MAX_NS: u64 = 10_000_000_000;

impl XdpTransport {
    /// Opens the sockets of a lane: it serves the receive queues `lane`, `lane + lanes`, and so on. Call it
    /// in the thread that uses them, or in the same network namespace.
    ///
    /// # Errors
    /// The queue is in use, the memory cannot be locked, the device went down.
    ///
    /// # Panics
    /// There are not so many lanes.
    pub fn new(device: &Arc<XdpDevice>, lane: usize) -> Result<Self, XdpError> {
        assert!(lane < device.lanes, "lane {lane} of {}", device.lanes);
        let is_own = |queue: u32| queue as usize % device.lanes == lane;
        device.close_orphans(is_own);
        let mut rings = Vec::new();
        for queue in (0..device.queues as u32).filter(|&queue| is_own(queue)) {
            rings.push(Ring::open(device, queue)?);
        }
        let first = lane * device.sockets_per_lane;
        let path = &device.path;
        let templates = device.reserved.sources[first..first + device.sockets_per_lane].iter();
        let templates = templates
            .filter_map(|&source| Template::new(path.source_mac, path.next_hop_mac, source, path.server))
            .collect();
        Ok(Self {
            device: device.clone(),
            lane,
            own_rings: rings.len(),
            drops_retired: 0,
            rings,
            templates,
            outgoing: (0..device.lanes).map(|_| AnswerBatch::default()).collect(),
            incoming: AnswerBatch::default(),
            malformed: 0,
            unstamped: 0,
        })
    }

    /// Whether the device reads and writes the memory itself.
    pub fn is_zero_copy(&self) -> bool {
        self.rings.iter().all(|ring| ring.socket.is_zero_copy())
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// Only those of a broken descriptor.
    pub fn counters(&self) -> io::Result<XdpCounters> {
        let mut sum = XdpCounters {
            not_fetched: self.device.mailboxes[self.lane].lost(),
            malformed: self.malformed,
            unstamped: self.unstamped,
            ..XdpCounters::default()
        };
        for ring in &self.rings[..self.own_rings] {
            let statistics = ring.socket.statistics()?;
            sum.ring_full += statistics.rx_ring_full;
            sum.dropped += statistics.rx_dropped;
            sum.fill_empty += statistics.rx_fill_ring_empty_descs;
            sum.send_invalid += statistics.tx_invalid_descs;
        }
        Ok(sum)
    }
}

impl Drop for XdpTransport {
    fn drop(&mut self) {
        self.retire();
    }
}

impl Transport for XdpTransport {
    fn send(&mut self, socket: usize, count: usize, write: &mut dyn FnMut(&mut [u8]) -> usize) -> Sent {
        let template = &self.templates[socket];
        let Some(ring) = self.rings.get_mut(socket % self.own_rings.max(1)) else {
            return Sent { failed: count, error: Some(io::ErrorKind::NotConnected.into()) };
        };
        let queue = &mut ring.socket;
        let (mut failed, mut unwritten) = (0, 0);
        for _ in 0..count {
            let mut octets = None;
            let taken = queue.send(|frame| {
                let written = write(&mut frame[template.payload_offset()..][..QUERY_OCTETS_MAX]);
                octets = Some(written);
                if written > 0 { template.complete(frame, written) } else { 0 }
            });
            if octets.is_none() {
                // The schedule goes on without it.
                write(&mut [0; QUERY_OCTETS_MAX]);
            }
            unwritten += usize::from(octets == Some(0));
            failed += usize::from(!taken);
        }
        let flushed = queue.flush();
        failed += queue.take_refused();
        match flushed {
            Ok(()) if failed == 0 => Sent::default(),
            Ok(()) if failed == unwritten => Sent { failed, error: Some(super::too_long(QUERY_OCTETS_MAX)) },
            Ok(()) => {
                let error = "the device refused frames: its queue is full, or it has no carrier";
                let error = self.device.explain(&io::Error::new(io::ErrorKind::WouldBlock, error));
                Sent { failed, error: Some(error) }
            }
            Err(error) => Sent { failed: count, error: Some(self.device.explain(&error)) },
        }
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(u64, usize, &[u8]) -> bool) -> io::Result<usize> {
        if self.device.has_orphans() {
            self.rings.append(&mut self.device.take_orphans());
        }
        let Self { device, lane, rings, outgoing, incoming, malformed, unstamped, .. } = self;
        let mut received = 0;
        for Ring { socket: queue, .. } in rings {
            if queue.has_pending() {
                queue.flush().map_err(|error| device.explain(&error))?;
            }
            if queue.look() == 0 {
                continue;
            }
            // Read after the ring was looked at, so that no stamp is later.
            let now_ns = clock::monotonic_ns();
            received += queue.receive(BATCH, |stamp_ns, octets| {
                let datagram = frame::parse(octets);
                let found =
                    datagram.and_then(|datagram| device.find(datagram.destination).zip(Some(datagram)));
                let Some(((to, socket), datagram)) = found else {
                    *malformed += 1;
                    return;
                };
                let stamp_ns =
                    stamp_ns.filter(|&at_ns| at_ns <= now_ns && now_ns - at_ns <= STAMP_AGE_MAX_NS);
                *unstamped += u64::from(stamp_ns.is_none());
                let at_ns = stamp_ns.unwrap_or(now_ns);
                if to == *lane {
                    deliver(at_ns, socket, datagram.payload);
                } else {
                    outgoing[to].push(at_ns, socket, datagram.payload);
                }
            });
        }
        if device.lanes > 1 {
            for (mailbox, post) in device.mailboxes.iter().zip(outgoing) {
                mailbox.leave(post);
            }
            device.mailboxes[*lane].collect(incoming);
            received += incoming.deliver(&mut |at_ns, socket, octets| {
                deliver(at_ns, socket, octets);
            });
        }
        Ok(received)
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        for ring in &mut self.rings {
            ring.socket.flush().map_err(|error| self.device.explain(&error))?;
        }
        sys::xdp::wait(self.rings.iter().map(|ring| ring.socket.as_fd()), Some(timeout_ns))
    }

    fn drops(&self) -> u64 {
        let dropped: u64 = self.rings.iter().map(|ring| ring.drops() - ring.drops_before).sum();
        self.drops_retired + dropped + self.device.mailboxes[self.lane].lost()
    }

    /// Leaves the rings to the other lanes, whose answers still come to them. Nothing can be sent then.
    fn retire(&mut self) {
        if self.device.lanes > 1 && !self.rings.is_empty() {
            let mut rings = std::mem::take(&mut self.rings);
            for ring in &mut rings {
                let drops = ring.drops();
                self.drops_retired += drops - ring.drops_before;
                ring.drops_before = drops;
            }
            self.own_rings = 0;
            self.device.leave_orphans(&mut rings);
        }
    }
}
