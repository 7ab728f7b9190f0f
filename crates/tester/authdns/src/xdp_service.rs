//! A server on AF_XDP: datagrams to its addresses come in by the rings of a device and are answered by the
//! same ring. Frames that are no plain datagrams, and frames on a queue without a ring, are left to the
//! stack.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use sys::bpf::{BpfError, Mode, Object, Redirect, RedirectCounters};
use sys::frame::{self, QueryFrame};
use sys::link::Device;
use sys::xdp::{self, Queue, XdpError, XdpSocket, bind_queue, check_capabilities, chunk_octets};
use zerocopy::IntoBytes;

use crate::kernel_program::ServiceAddresses;
use crate::objects;

/// Memory of all queues of a device together, in frames each way, and what one queue gets at most and at
/// least: 8 MiB for one, at most 32 MiB for up to 64.
const DEVICE_FRAMES: u32 = 8192;
const QUEUE_FRAMES_MAX: u32 = 2048;
const QUEUE_FRAMES_MIN: u32 = 128;
/// Queries answered before the answers leave.
const BATCH: u32 = 64;

/// The program on a device. The device is free again when this is dropped, or the process ends in any way.
pub struct XdpService {
    redirect: Redirect,
    /// The device.
    pub device: Device,
    queues: usize,
    chunk_octets: u32,
}

impl XdpService {
    /// Puts the program on a device, in the network namespace of the calling thread. Nothing is taken from
    /// the stack until a ring is opened.
    ///
    /// # Errors
    /// All that [`XdpError`] names but ports and memory.
    pub fn open(device: Device, listen: &[SocketAddr], mode: Option<Mode>) -> Result<Self, XdpError> {
        check_capabilities()?;
        let ask = |error| XdpError::Io("asking the device for its properties", error);
        let mac = device.hardware_address().map_err(ask)?;
        let queues = device.rx_queues().map_err(ask)?;
        let frame_octets = device.mtu().map_err(ask)? + frame::ETHERNET_OCTETS;
        let redirect = attach(device.index, listen, mac, queues as u32, mode)?;
        Ok(Self { redirect, device, queues, chunk_octets: chunk_octets(frame_octets) })
    }

    /// The receive queues of the device.
    pub fn queues(&self) -> usize {
        self.queues
    }

    /// Opens the ring of a queue: from now on its datagrams come there.
    ///
    /// # Errors
    /// The queue is in use, the memory cannot be locked, the device went down.
    pub fn ring(&mut self, queue: u32) -> Result<ServiceRing, XdpError> {
        let frames = DEVICE_FRAMES / self.queues.next_power_of_two() as u32;
        let frames = frames.clamp(QUEUE_FRAMES_MIN, QUEUE_FRAMES_MAX);
        let wanted = Queue {
            device: self.device.index,
            queue,
            receive_frames: frames,
            chunk_octets: self.chunk_octets,
            send_slots: frames,
            slot_octets: self.chunk_octets,
            copy: self.redirect.mode() == Mode::Generic,
        };
        let socket = bind_queue(&mut self.redirect, &self.device, &wanted)?;
        Ok(ServiceRing { socket })
    }

    /// Where the program runs.
    pub fn mode(&self) -> Mode {
        self.redirect.mode()
    }

    /// The datagrams that came to a ring, and those left to the stack because their queue had none.
    pub fn counters(&self) -> RedirectCounters {
        self.redirect.counters()
    }
}

/// Puts the program of a server on a device: UDP datagrams in frames to `mac` for one of the addresses
/// `listen` go to the socket of the queue they arrive on, of `queues` queues; all else passes, also where a
/// queue has no socket.
///
/// # Errors
/// XDP is not available, or the device is missing, occupied or takes no program.
fn attach(
    device: u32,
    listen: &[SocketAddr],
    mac: [u8; 6],
    queues: u32,
    mode: Option<Mode>,
) -> Result<Redirect, BpfError> {
    let place = ServiceAddresses::new(listen, mac, false);
    let (globals, sizes) = ([("place", place.as_bytes())], [("sockets", queues.max(1))]);
    let object = Object::load("service", objects::SERVICE, &globals, &sizes)?;
    Redirect::attach("service", object, device, mode)
}

/// The ring of one queue, for one thread.
pub struct ServiceRing {
    socket: XdpSocket,
}

/// What came of a call of [`ServiceRing::serve`] or [`ServiceRing::flush`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Datagrams taken.
    pub taken: usize,
    /// Answers that left, or are in line.
    pub answered: usize,
    /// Answers that the device refused.
    pub refused: usize,
}

impl ServiceRing {
    /// Has up to 64 datagrams that have come answered, one after the other: `answer` writes an answer's
    /// frame, by [`QueryFrame::complete`], and returns its length, 0 for none. Then sends what is in line.
    /// Never blocks.
    ///
    /// # Errors
    /// The device is down or gone.
    pub fn serve(
        &mut self,
        mut answer: impl FnMut(&QueryFrame<'_>, &mut [u8]) -> usize,
    ) -> io::Result<Served> {
        if self.socket.look() == 0 {
            return if self.socket.has_pending() { self.flush() } else { Ok(Served::default()) };
        }
        let exchange =
            |octets: &[u8], out: &mut [u8]| QueryFrame::parse(octets).map_or(0, |asked| answer(&asked, out));
        let (taken, answered) = self.socket.exchange(BATCH, exchange);
        let flushed = self.flush()?;
        Ok(Served { taken, answered, ..flushed })
    }

    /// Puts a frame in line; false if there is no room.
    pub fn send(&mut self, frame: &[u8]) -> bool {
        self.socket.send(|out| match out.get_mut(..frame.len()) {
            Some(out) => {
                out.copy_from_slice(frame);
                frame.len()
            }
            None => 0,
        })
    }

    /// Sends what is in line.
    ///
    /// # Errors
    /// The device is down or gone.
    pub fn flush(&mut self) -> io::Result<Served> {
        self.socket.flush()?;
        Ok(Served { refused: self.socket.take_refused(), ..Served::default() })
    }

    /// Whether answers are in line that the device has not taken.
    pub fn has_pending(&self) -> bool {
        self.socket.has_pending()
    }

    /// Datagrams that were dropped because the ring was full.
    pub fn drops(&self) -> u64 {
        self.socket.statistics().map_or(0, |statistics| statistics.rx_ring_full + statistics.rx_dropped)
    }
}

impl AsFd for ServiceRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Waits until something comes to one of the rings, another descriptor can be read, or the time, in ns, is
/// over.
///
/// # Errors
/// Only those of a broken descriptor.
pub fn wait(rings: &[ServiceRing], other: &impl AsFd, timeout_ns: Option<u64>) -> io::Result<()> {
    xdp::wait(rings.iter().map(AsFd::as_fd).chain([other.as_fd()]), timeout_ns)
}
