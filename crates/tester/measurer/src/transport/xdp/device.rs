//! The device that queries leave by and answers come in by: the part of the back-end that the lanes share.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sys::bpf::{Mode, Redirect, RedirectCounters};
use sys::frame;
use sys::link::{self, Device, Path};
use sys::patience::patiently;
use sys::xdp::{Queue, XdpError, XdpSocket, bind_queue, check_capabilities, chunk_octets};

use super::post::Mailbox;
use super::redirect::attach_redirect;
use super::source::Reserved;

/// What the lanes share.
#[derive(Clone, Debug)]
pub struct XdpConfig {
    /// The server to ask.
    pub server: SocketAddr,
    /// The device to leave by; by default that of the route to the server.
    pub device: Option<String>,
    /// The lanes, each with a thread of its own; they share the device's receive queues and the sources
    /// evenly.
    pub lanes: usize,
    /// The source of each socket of all lanes, those of the first lane first. The unspecified address stands
    /// for the kernel's choice, port 0 (for all or none) for free ports in a row. That answers to other
    /// addresses come to the device is the network's business: ARP, neighbour discovery or a route.
    pub sources: Vec<SocketAddr>,
    /// Where the program runs; by default in the driver if it can, else in the stack.
    pub mode: Option<Mode>,
    /// Copy, even where the device could read and write the memory itself.
    pub copy: bool,
    /// Serve only the first receive queues; answers on others are dropped, and counted.
    pub queues: Option<usize>,
    /// Answers that each queue holds while nobody looks, at most 32,768, rounded up to a power of two.
    /// Devices with many queues get fewer for each, so that all take about 128 MiB.
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
/// The most that a queue and a device get, and the fewest that a queue gets in a device of many.
const RECEIVE_FRAMES_MAX: u32 = 32_768;
const DEVICE_FRAMES_MAX: u32 = 65_536;
const MANY_QUEUES_FRAMES: u32 = 1024;
/// Frames in flight towards the device, at most; a power of two.
const SEND_SLOTS: u32 = 2048;
/// Room for a frame to send: headers and 962 octets at least.
const SLOT_OCTETS: u32 = 1024;
/// The program on the device and what belongs to it, shared by the lanes. The device is free again when the
/// last of them is dropped, or the process ends in any way.
pub struct XdpDevice {
    pub(super) path: Path,
    pub(super) reserved: Reserved,
    pub(super) lanes: usize,
    pub(super) sockets_per_lane: usize,
    pub(super) queues: usize,
    chunk_octets: u32,
    copy: bool,
    receive_frames: u32,
    pub(super) mailboxes: Vec<Mailbox>,
    /// Rings of lanes that have finished: answers for the others still come to them.
    orphans: Mutex<Vec<Ring>>,
    has_orphans: AtomicBool,
    redirect: Mutex<Redirect>,
    mode: Mode,
}

impl XdpDevice {
    /// Finds the way to the server, reserves the ports, and puts the program on the device, in the network
    /// namespace of the calling thread.
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
        // A Measurer that was killed a moment ago may not be gone yet, and a child that is just being started
        // holds what its parent has closed until it runs. That goes for the ports and for the program.
        let reserve = || Reserved::take(&config.sources, path.source);
        let is_taken = |error: &XdpError| matches!(error, XdpError::Port(_, why) if why.kind() == io::ErrorKind::AddrInUse);
        let reserved = patiently(is_taken, reserve)?;
        let sockets_per_lane = reserved.sources.len() / lanes;
        if sockets_per_lane == 0 {
            let message = format!("{} sources are too few for {lanes} threads", reserved.sources.len());
            return Err(XdpError::Sources(message));
        }
        let (server, ports, all) = (config.server, reserved.ports(), available as u32);
        let redirect = attach_redirect(path.device.index, server, &ports, all, config.mode)?;
        Ok(Arc::new(Self {
            lanes,
            sockets_per_lane,
            queues,
            // Longer frames than the larger chunk holds are dropped, and counted; answers to a benchmark are
            // none.
            chunk_octets: chunk_octets(frame_octets),
            copy: config.copy || redirect.mode() == Mode::Generic,
            receive_frames: frames_per_queue(config.receive_frames, queues as u32),
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
    pub(super) fn find(&self, destination: SocketAddr) -> Option<(usize, usize)> {
        let number = self.reserved.find(destination)?;
        let (lane, socket) = (number / self.sockets_per_lane, number % self.sockets_per_lane);
        (lane < self.lanes).then_some((lane, socket))
    }

    /// An error of sending, with the device.
    pub(super) fn explain(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("sending on {}: {error}", self.path.device.name))
    }

    /// Whether finished lanes have left rings that nobody serves.
    pub(super) fn has_orphans(&self) -> bool {
        self.has_orphans.load(Ordering::Relaxed)
    }

    /// Leaves rings for the other lanes to serve.
    pub(super) fn leave_orphans(&self, rings: &mut Vec<Ring>) {
        lock(&self.orphans).append(rings);
        self.has_orphans.store(true, Ordering::Relaxed);
    }

    /// Closes rings that earlier transports have left.
    pub(super) fn close_orphans(&self, of_queue: impl Fn(u32) -> bool) {
        lock(&self.orphans).retain(|ring| !of_queue(ring.queue));
    }

    /// Takes the rings that finished lanes have left.
    pub(super) fn take_orphans(&self) -> Vec<Ring> {
        self.has_orphans.store(false, Ordering::Relaxed);
        std::mem::take(&mut *lock(&self.orphans))
    }
}

/// The frames for each queue, of as many as are wanted.
fn frames_per_queue(wanted: u32, queues: u32) -> u32 {
    let share = (DEVICE_FRAMES_MAX / queues.max(1)).max(MANY_QUEUES_FRAMES);
    let most = (share + 1).next_power_of_two() / 2;
    wanted.clamp(1, RECEIVE_FRAMES_MAX).next_power_of_two().min(most)
}

/// Nothing that is locked here can be left half done by a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The socket of a queue, as one lane sees it.
pub(super) struct Ring {
    pub socket: XdpSocket,
    queue: u32,
    /// What had been dropped here before the lane took it over from another.
    pub drops_before: u64,
}

impl Ring {
    /// Opens the socket of a queue and gives it to the program.
    pub fn open(device: &XdpDevice, queue: u32) -> Result<Self, XdpError> {
        let wanted = Queue {
            device: device.path.device.index,
            queue,
            receive_frames: device.receive_frames,
            chunk_octets: device.chunk_octets,
            send_slots: SEND_SLOTS,
            slot_octets: SLOT_OCTETS,
            copy: device.copy,
        };
        let socket = bind_queue(&mut lock(&device.redirect), &device.path.device, &wanted)?;
        Ok(Self { socket, queue, drops_before: 0 })
    }

    /// Answers dropped here since it was opened.
    pub fn drops(&self) -> u64 {
        let Ok(statistics) = self.socket.statistics() else { return 0 };
        // While the kernel copies, a frame that is missing is among the dropped.
        let starved = if self.socket.is_zero_copy() { statistics.rx_fill_ring_empty_descs } else { 0 };
        statistics.rx_ring_full + statistics.rx_dropped + starved
    }
}

/// Whether the back-end can ask this server from here, as far as that can be told without touching the
/// device.
///
/// # Errors
/// A kernel without AF_XDP, missing capabilities, or no way over Ethernet.
pub fn check(server: SocketAddr) -> Result<(), XdpError> {
    check_capabilities()?;
    link::path_to(server)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_does_not_grow_with_the_queues() {
        assert_eq!(frames_per_queue(RECEIVE_FRAMES, 1), RECEIVE_FRAMES);
        assert_eq!(frames_per_queue(RECEIVE_FRAMES, 8), RECEIVE_FRAMES);
        assert_eq!(frames_per_queue(RECEIVE_FRAMES, 63), 1024);
        assert_eq!((frames_per_queue(0, 1), frames_per_queue(100, 1)), (1, 128));
        assert_eq!(frames_per_queue(u32::MAX, 1), RECEIVE_FRAMES_MAX);
    }
}
