//! The `xdp` back-end: AF_XDP, past the kernel's network stack.
//!
//! Queries are written into memory that the kernel (or the device itself) sends from; an XDP program on the device hands
//! the server's answers to the socket of the receive queue they come by, before the stack sees them. Everything else
//! passes as ever.

mod error;
mod post;
mod ring;
mod socket;
mod source;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Sent, Transport};
use crate::bpf::{self, BpfError, Mode, Redirect, RedirectCounters};
use crate::clock;
use crate::frame::{self, Template};
use crate::link::{self, Device, Path};
use post::{Mailbox, Post};
use socket::{Queue, XdpSocket};
use source::Reserved;

pub use error::XdpError;

/// What the lanes share.
#[derive(Clone, Debug)]
pub struct XdpConfig {
    /// The server to ask.
    pub server: SocketAddr,
    /// The device to leave by; by default that of the route to the server.
    pub device: Option<String>,
    /// The lanes, each with a thread of its own; they share the device's receive queues and the sources evenly.
    pub lanes: usize,
    /// The source of each socket of all lanes, those of the first lane first. The unspecified address stands for the
    /// kernel's choice, port 0 (for all or none) for free ports in a row. That answers to other addresses come to the
    /// device is the network's business: ARP, neighbour discovery or a route.
    pub sources: Vec<SocketAddr>,
    /// Where the program runs; by default in the driver if it can, else in the stack.
    pub mode: Option<Mode>,
    /// Copy, even where the device could read and write the memory itself.
    pub copy: bool,
    /// Serve only the first receive queues; answers on others are dropped, and counted.
    pub queues: Option<usize>,
    /// Answers that each queue holds while nobody looks, a power of two of at most 32,768.
    pub receive_frames: u32,
}

impl XdpConfig {
    /// A configuration for one lane with so many sockets at free ports, with default settings.
    pub fn new(server: SocketAddr, sockets: usize) -> Self {
        let any = if server.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0u8; 16]) };
        Self {
            server,
            device: None,
            lanes: 1,
            sources: vec![(any, 0).into(); sockets],
            mode: None,
            copy: false,
            queues: None,
            receive_frames: RECEIVE_FRAMES,
        }
    }
}

/// Eight milliseconds at a million answers per second: pauses of that length happen on virtual machines.
const RECEIVE_FRAMES: u32 = 8192;
/// More than any device's ring.
const RECEIVE_FRAMES_MAX: u32 = 32_768;
/// Answers taken from one queue at a time.
const BATCH: u32 = 256;
/// The kernel keeps so much of each chunk before the frame (`XDP_PACKET_HEADROOM`).
const HEADROOM_OCTETS: usize = 256;
/// A stamp that is older was not made for the frame before us.
const STAMP_AGE_MAX_NS: u64 = 10_000_000_000;

/// How long a queue may be busy with a socket that was closed.
const QUEUE_PATIENCE_NS: u64 = 500_000_000;
const QUEUE_PAUSE: Duration = Duration::from_millis(10);

/// The program on the device and what belongs to it, shared by the lanes. The device is free again when the last of them
/// is dropped, or the process ends in any way.
pub struct XdpDevice {
    path: Path,
    reserved: Reserved,
    lanes: usize,
    sockets_per_lane: usize,
    queues: usize,
    chunk_octets: u32,
    copy: bool,
    receive_frames: u32,
    mailboxes: Vec<Mailbox>,
    /// Rings of lanes that have finished: answers for the others still come to them.
    orphans: Mutex<Vec<Ring>>,
    has_orphans: AtomicBool,
    redirect: Mutex<Redirect>,
    mode: Mode,
}

impl XdpDevice {
    /// Finds the way to the server, reserves the ports, and puts the program on the device, in the network namespace of
    /// the calling thread.
    ///
    /// # Errors
    /// All that [`XdpError`] names but the memory.
    pub fn open(config: &XdpConfig) -> Result<Arc<Self>, XdpError> {
        check_capabilities()?;
        let path = match &config.device {
            Some(name) => {
                let device =
                    Device::named(name).map_err(|error| XdpError::Io("looking for the device", error))?;
                link::path_via(config.server, &device)?
            }
            None => link::path_to(config.server)?,
        };
        let ask = |error| XdpError::Io("asking the device for its properties", error);
        let available = path.device.rx_queues().map_err(ask)?;
        let queues = config.queues.unwrap_or(available).clamp(1, available);
        let lanes = config.lanes.max(1);
        if lanes > queues {
            return Err(XdpError::Queues { device: path.device.name, queues, lanes });
        }
        let frame_octets = path.device.mtu().map_err(ask)? + frame::ETHERNET_OCTETS;
        let reserved = Reserved::take(&config.sources, path.source)?;
        let sockets_per_lane = reserved.sources.len() / lanes;
        if sockets_per_lane == 0 {
            let message = format!("{} sources are too few for {lanes} threads", reserved.sources.len());
            return Err(XdpError::Sources(message));
        }
        let (server, ports, all) = (config.server, reserved.ports(), available as u32);
        let redirect = Redirect::attach(path.device.index, server, &ports, all, config.mode)?;
        Ok(Arc::new(Self {
            lanes,
            sockets_per_lane,
            queues,
            // Longer frames than the larger chunk holds are dropped, and counted; answers to a benchmark are none.
            chunk_octets: if frame_octets + HEADROOM_OCTETS <= 2048 { 2048 } else { 4096 },
            copy: config.copy || redirect.mode() == Mode::Generic,
            receive_frames: config.receive_frames.clamp(1, RECEIVE_FRAMES_MAX).next_power_of_two(),
            mailboxes: (0..lanes).map(|_| Mailbox::default()).collect(),
            orphans: Mutex::default(),
            has_orphans: AtomicBool::new(false),
            mode: redirect.mode(),
            redirect: Mutex::new(redirect),
            reserved,
            path,
        }))
    }

    /// The way to the server.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the program runs.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The receive queues served.
    pub fn queues(&self) -> usize {
        self.queues
    }

    /// The sockets that each lane has.
    pub fn sockets_per_lane(&self) -> usize {
        self.sockets_per_lane
    }

    /// The sources of all sockets.
    pub fn sources(&self) -> &[SocketAddr] {
        &self.reserved.sources
    }

    /// What became of the answers that the program saw: taken, or on a queue without a socket.
    pub fn answers(&self) -> RedirectCounters {
        lock(&self.redirect).counters()
    }

    /// The lane that asked, and its socket, by where the answer went.
    fn find(&self, destination: SocketAddr) -> Option<(usize, usize)> {
        let number = self.reserved.find(destination)?;
        let (lane, socket) = (number / self.sockets_per_lane, number % self.sockets_per_lane);
        (lane < self.lanes).then_some((lane, socket))
    }

    /// An error of sending, with the device.
    fn explain(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("sending on {}: {error}", self.path.device.name))
    }

    fn take_orphans(&self) -> Vec<Ring> {
        self.has_orphans.store(false, Ordering::Relaxed);
        std::mem::take(&mut *lock(&self.orphans))
    }
}

/// Nothing that is locked here can be left half done by a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The socket of a queue, as one lane sees it.
struct Ring {
    socket: XdpSocket,
    queue: u32,
    /// What had been dropped here before the lane took it over from another.
    drops_before: u64,
}

impl Ring {
    /// Opens the socket of a queue and gives it to the program.
    fn open(device: &XdpDevice, queue: u32) -> Result<Self, XdpError> {
        let wanted = Queue {
            device: device.path.device.index,
            queue,
            receive_frames: device.receive_frames,
            chunk_octets: device.chunk_octets,
            copy: device.copy,
        };
        let octets = socket::memory_octets(wanted.receive_frames, wanted.chunk_octets);
        // The kernel frees the queue of a socket that was closed a little later.
        let until_ns = clock::monotonic_ns() + QUEUE_PATIENCE_NS;
        let socket = loop {
            match XdpSocket::bind(&wanted) {
                Ok(socket) => break socket,
                Err(failed) if failed.is_busy() && clock::monotonic_ns() < until_ns => {
                    std::thread::sleep(QUEUE_PAUSE);
                }
                Err(failed) => {
                    return Err(XdpError::of_queue(&device.path.device.name, queue, octets, failed));
                }
            }
        };
        lock(&device.redirect).set_socket(queue, &socket)?;
        Ok(Self { socket, queue, drops_before: 0 })
    }

    fn drops(&self) -> u64 {
        let Ok(statistics) = self.socket.statistics() else { return 0 };
        // While the kernel copies, a frame that is missing is among the dropped.
        let starved = if self.socket.is_zero_copy() { statistics.rx_fill_ring_empty_descs } else { 0 };
        statistics.rx_ring_full + statistics.rx_dropped + starved
    }
}

/// All that is missing, so that it need not be granted one by one.
fn check_capabilities() -> Result<(), XdpError> {
    let mut missing = match bpf::available() {
        Err(bpf::Unavailable::Capabilities(missing)) => missing,
        Err(other) => return Err(XdpError::Program(BpfError::Unavailable(other))),
        Ok(()) => Vec::new(),
    };
    match socket::open() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => missing.push("CAP_NET_RAW"),
        Err(error) => return Err(XdpError::Kernel(error)),
        Ok(_) => {}
    }
    if missing.is_empty() { Ok(()) } else { Err(XdpError::Capabilities(missing)) }
}

/// The back-end of one lane.
///
/// Answers carry the time at which the program saw them, on the kernel's `CLOCK_MONOTONIC`. Where a driver leaves no
/// room for it before the frame, it is the time at which the ring was read: late by the time between two calls of
/// `receive`, and for answers to another lane by nothing more.
pub struct XdpTransport {
    device: Arc<XdpDevice>,
    lane: usize,
    /// Those of the lane's own queues, then those taken over from lanes that have finished.
    rings: Vec<Ring>,
    own_rings: usize,
    templates: Vec<Template>,
    /// Answers for the other lanes, of one call.
    outgoing: Vec<Post>,
    incoming: Post,
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

impl XdpTransport {
    /// Opens the sockets of a lane: it serves the receive queues `lane`, `lane + lanes`, and so on. Call it in the thread
    /// that uses them, or in the same network namespace.
    ///
    /// # Errors
    /// The queue is in use, the memory cannot be locked, the device went down.
    ///
    /// # Panics
    /// There are not so many lanes.
    pub fn new(device: &Arc<XdpDevice>, lane: usize) -> Result<Self, XdpError> {
        assert!(lane < device.lanes, "lane {lane} of {}", device.lanes);
        let is_own = |queue: u32| queue as usize % device.lanes == lane;
        // What an earlier transport of this lane has left.
        lock(&device.orphans).retain(|ring| !is_own(ring.queue));
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
            rings,
            templates,
            outgoing: (0..device.lanes).map(|_| Post::default()).collect(),
            incoming: Post::default(),
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
    /// Leaves the rings to the other lanes.
    fn drop(&mut self) {
        if self.device.lanes > 1 {
            let mut rings = std::mem::take(&mut self.rings);
            for ring in &mut rings {
                ring.drops_before = ring.drops();
            }
            lock(&self.device.orphans).append(&mut rings);
            self.device.has_orphans.store(true, Ordering::Relaxed);
        }
    }
}

impl Transport for XdpTransport {
    fn send(&mut self, socket: usize, count: usize, write: &mut dyn FnMut(&mut [u8]) -> usize) -> Sent {
        let template = &self.templates[socket];
        let queue = &mut self.rings[socket % self.own_rings].socket;
        let mut failed = 0;
        for _ in 0..count {
            let taken = queue.send(|frame| {
                let octets = write(&mut frame[template.payload_offset()..]);
                template.complete(frame, octets)
            });
            if !taken {
                // The schedule goes on without it.
                write(&mut [0; frame::HEADERS_V6_OCTETS + 1024]);
                failed += 1;
            }
        }
        let flushed = queue.flush();
        failed += queue.take_refused();
        match flushed {
            Ok(()) if failed == 0 => Sent::default(),
            Ok(()) => {
                let error = "the device refused frames: its queue is full, or it has no carrier";
                let error = self.device.explain(&io::Error::new(io::ErrorKind::WouldBlock, error));
                Sent { failed, error: Some(error) }
            }
            Err(error) => Sent { failed: count, error: Some(self.device.explain(&error)) },
        }
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(u64, usize, &[u8])) -> io::Result<usize> {
        if self.device.has_orphans.load(Ordering::Relaxed) {
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
            received += incoming.deliver(deliver);
        }
        Ok(received)
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        for ring in &mut self.rings {
            ring.socket.flush().map_err(|error| self.device.explain(&error))?;
        }
        socket::wait(self.rings.iter().map(|ring| &ring.socket), timeout_ns)
    }

    fn drops(&self) -> u64 {
        let dropped: u64 = self.rings.iter().map(|ring| ring.drops() - ring.drops_before).sum();
        dropped + self.device.mailboxes[self.lane].lost()
    }
}
