//! An AF_XDP socket with memory of its own, bound to one queue of a device.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::ring::{Consumer, Mapping, Producer};
use crate::plain::Plain;

/// What a socket is made for.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// The device.
    pub device: u32,
    /// Its queue.
    pub queue: u32,
    /// Frames lent to the kernel for what arrives; a power of two.
    pub receive_frames: u32,
    /// Room for a received frame with the kernel's headroom: 2048 or 4096 octets.
    pub chunk_octets: u32,
    /// Frames in flight towards the device, at most; a power of two.
    pub send_slots: u32,
    /// Room for a frame to send: a part of a chunk, or all of it.
    pub slot_octets: u32,
    /// Do not try to share memory with the device.
    pub copy: bool,
}

/// The socket, its rings and its memory.
pub struct XdpSocket {
    fill: Producer<u64>,
    arrived: Consumer<libc::xdp_desc>,
    outgoing: Producer<libc::xdp_desc>,
    sent: Consumer<u64>,
    /// Slots for frames to send; the one used last, which is still in the cache, is used first.
    free: Vec<u64>,
    /// Frames that the device refused, not reported yet.
    refused: usize,
    zero_copy: bool,
    queue: Queue,
    socket: OwnedFd,
    memory: Mapping,
}

/// Which step failed.
#[derive(Debug)]
pub(super) struct Failed {
    /// What was being done.
    pub step: Step,
    /// What the kernel said.
    pub error: io::Error,
}

impl Failed {
    /// Whether another socket has the queue.
    pub fn is_busy(&self) -> bool {
        self.step == Step::Bind && self.error.raw_os_error() == Some(libc::EBUSY)
    }
}

/// The steps of making a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The socket itself: needs CAP_NET_RAW, and a kernel with AF_XDP.
    Socket,
    /// Memory that the kernel must not swap out.
    Memory,
    /// The rings.
    Rings,
    /// The device and the queue.
    Bind,
}

/// In copy mode the kernel accounts what is on its way to the buffer of the socket, at about 1 kB for each
/// frame.
const SEND_BUFFER_OCTETS: u32 = 16 << 20;
/// Kicks that moved nothing, after which others shall have a turn.
const STALLS_MAX: u32 = 4;
/// `XDP_MAX_TX_SKB_BUDGET` (linux/if_xdp.h, since 6.17): how many frames one kick sends in copy mode, instead
/// of 32.
const MAX_TX_SKB_BUDGET: libc::c_int = 9;
const BUDGET: u32 = 128;
/// The program puts the time of arrival here, before the frame.
const STAMP_OCTETS: usize = 8;

/// Opens a socket that is not bound to anything.
pub(super) fn open() -> io::Result<OwnedFd> {
    // SAFETY: on success the call returns a new descriptor that nobody else owns.
    unsafe {
        let socket = libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        Ok(OwnedFd::from_raw_fd(crate::check(socket)?))
    }
}

impl Queue {
    /// How much memory its socket lends to the kernel, in octets.
    pub fn memory_octets(&self) -> usize {
        self.receive_frames as usize * self.chunk_octets as usize
            + (self.send_slots * self.slot_octets) as usize
    }
}

impl XdpSocket {
    /// Makes a socket, lends it its memory, and binds it.
    pub(super) fn bind(queue: &Queue) -> Result<Self, Failed> {
        let at = |step| move |error| Failed { step, error };
        let socket = open().map_err(at(Step::Socket))?;
        let fd = socket.as_fd();
        let memory = register_memory(fd, queue).map_err(at(Step::Memory))?;
        for (option, entries) in [
            (libc::XDP_UMEM_FILL_RING, queue.receive_frames),
            (libc::XDP_UMEM_COMPLETION_RING, queue.send_slots),
            (libc::XDP_RX_RING, queue.receive_frames),
            (libc::XDP_TX_RING, queue.send_slots),
        ] {
            set_number(fd, libc::SOL_XDP, option, entries).map_err(at(Step::Rings))?;
        }
        let offsets = ring_offsets(fd).map_err(at(Step::Rings))?;
        let frames = queue.receive_frames;
        let first_slot = u64::from(frames) * u64::from(queue.chunk_octets);
        let rings = || -> io::Result<_> {
            Ok((
                Producer::map(fd, libc::XDP_UMEM_PGOFF_FILL_RING, offsets.fr, frames)?,
                Consumer::map(fd, libc::XDP_PGOFF_RX_RING as u64, offsets.rx, frames)?,
                Producer::map(fd, libc::XDP_PGOFF_TX_RING as u64, offsets.tx, queue.send_slots)?,
                Consumer::map(fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING, offsets.cr, queue.send_slots)?,
            ))
        };
        let (mut fill, arrived, outgoing, sent) = rings().map_err(at(Step::Rings))?;
        for frame in 0..u64::from(frames) {
            fill.push(frame * u64::from(queue.chunk_octets));
        }
        fill.publish();
        set_number(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER_OCTETS)
            .map_err(at(Step::Rings))?;
        // Older kernels refuse it: they send 32 frames for each kick and need more of them.
        let _ = set_number(fd, libc::SOL_XDP, MAX_TX_SKB_BUDGET, BUDGET);
        bind(fd, queue).map_err(at(Step::Bind))?;
        let zero_copy = is_zero_copy(fd).map_err(at(Step::Bind))?;
        let slot_octets = u64::from(queue.slot_octets);
        let free = (0..u64::from(queue.send_slots)).map(|slot| first_slot + slot * slot_octets).collect();
        Ok(Self { fill, arrived, outgoing, sent, free, refused: 0, zero_copy, queue: *queue, socket, memory })
    }

    /// Whether the device reads and writes the memory itself.
    pub fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Has `write` write a frame, whose length it returns, and puts it in line. False if that is 0, or if
    /// there is no room; then `write` is not called.
    pub fn send(&mut self, write: impl FnOnce(&mut [u8]) -> usize) -> bool {
        let Some(slot) = self.free_slot() else { return false };
        let slot_octets = self.queue.slot_octets as usize;
        let place = self.memory.at(slot as usize, slot_octets);
        // SAFETY: within the memory, and the slot was free: neither the kernel nor anybody else uses it.
        let frame = unsafe { std::slice::from_raw_parts_mut(place, slot_octets) };
        let octets = write(frame).min(frame.len());
        self.put_in_line(slot, octets)
    }

    /// Puts a slot with so many octets in line, or back where they are none.
    fn put_in_line(&mut self, slot: u64, octets: usize) -> bool {
        if octets == 0 {
            self.free.push(slot);
            return false;
        }
        let frame = libc::xdp_desc { addr: slot, len: octets as u32, options: 0 };
        let taken = self.outgoing.push(frame);
        debug_assert!(taken, "the ring holds as many frames as there are slots");
        taken
    }

    /// Lends up to `most` of the frames that the last look has shown, one after the other, each with room for
    /// an answer, whose length `answer` returns, 0 for none. Frames for whose answers there is no room wait.
    /// Returns how many were taken and how many answers are in line.
    pub fn exchange(
        &mut self,
        most: u32,
        mut answer: impl FnMut(&[u8], &mut [u8]) -> usize,
    ) -> (usize, usize) {
        let (mut taken, mut answered) = (0, 0);
        let Queue { chunk_octets, slot_octets, .. } = self.queue;
        while taken < most as usize
            && let Some(slot) = self.free_slot()
        {
            let Some(frame) = self.arrived.pop() else {
                self.free.push(slot);
                break;
            };
            taken += 1;
            let room = self.memory.at(slot as usize, slot_octets as usize);
            let place = self.memory.at(frame.addr as usize, frame.len as usize);
            // SAFETY: both are within the memory and apart: the kernel has handed the frame over and does not
            // use it until it is lent again below, and the slot was free.
            let (octets, room) = unsafe {
                (
                    std::slice::from_raw_parts(place, frame.len as usize),
                    std::slice::from_raw_parts_mut(room, slot_octets as usize),
                )
            };
            let length = answer(octets, room).min(room.len());
            answered += usize::from(self.put_in_line(slot, length));
            self.fill.push(frame.addr & !u64::from(chunk_octets - 1));
        }
        self.give_back(taken);
        (taken, answered)
    }

    /// Whether the next frame to send has a slot.
    pub fn has_room(&mut self) -> bool {
        let slot = self.free_slot();
        self.free.extend(slot);
        slot.is_some()
    }

    fn free_slot(&mut self) -> Option<u64> {
        if self.free.is_empty() {
            self.reclaim();
        }
        if self.free.is_empty() {
            self.flush().ok()?;
            self.reclaim();
        }
        self.free.pop()
    }

    /// Takes back the slots of frames that were sent.
    fn reclaim(&mut self) {
        if self.sent.look() == 0 {
            return;
        }
        while let Some(slot) = self.sent.pop() {
            self.free.push(slot);
        }
        self.sent.release();
    }

    /// Has the kernel send what is in line, as far as it can at once.
    ///
    /// # Errors
    /// The device is down or gone.
    pub fn flush(&mut self) -> io::Result<()> {
        self.outgoing.publish();
        let mut stalls = 0;
        let mut pending = self.outgoing.pending();
        while pending > 0 && stalls < STALLS_MAX && self.outgoing.needs_wakeup() {
            self.kick()?;
            let left = self.outgoing.pending();
            // With zero copy the device works on while we do.
            if self.zero_copy {
                break;
            }
            stalls += u32::from(left == pending);
            pending = left;
        }
        Ok(())
    }

    fn kick(&mut self) -> io::Result<()> {
        let fd = self.socket.as_raw_fd();
        // SAFETY: nothing is passed but the descriptor.
        let result =
            unsafe { libc::sendto(fd, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
        if result >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // More is in line, or no memory for it now.
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR) => Ok(()),
            // The device dropped a frame (`NET_XMIT_DROP`); those behind it wait for the next kick.
            Some(libc::EBUSY) if !self.zero_copy => {
                self.refused += 1;
                Ok(())
            }
            Some(libc::EBUSY) => Ok(()),
            _ => Err(error),
        }
    }

    /// Frames that the device refused since the last call.
    pub fn take_refused(&mut self) -> usize {
        std::mem::take(&mut self.refused)
    }

    /// Whether frames wait in line for a kick.
    pub fn has_pending(&self) -> bool {
        self.outgoing.pending() > 0
    }

    /// How many frames have arrived.
    pub fn look(&mut self) -> u32 {
        let arrived = self.arrived.look();
        // A device may say that it waits for memory just after it was given some, and nothing would ever
        // come.
        if arrived == 0 && self.fill.needs_wakeup() {
            self.poke();
        }
        arrived
    }

    /// Lends up to `most` of the frames that the last look has shown, one after the other, each with the time
    /// of its arrival (ns, `CLOCK_MONOTONIC`) if the program could note it, and lends the memory to the
    /// kernel again.
    pub fn receive(&mut self, most: u32, mut take: impl FnMut(Option<u64>, &[u8])) -> usize {
        let mut taken = 0;
        while taken < most as usize
            && let Some(frame) = self.arrived.pop()
        {
            taken += 1;
            let in_chunk = (frame.addr & u64::from(self.queue.chunk_octets - 1)) as usize;
            if in_chunk >= STAMP_OCTETS {
                let octets = STAMP_OCTETS + frame.len as usize;
                let place = self.memory.at(frame.addr as usize - STAMP_OCTETS, octets);
                // SAFETY: within the memory; the kernel has handed the frame over and does not use it until
                // it is lent again below.
                let lent = unsafe { std::slice::from_raw_parts_mut(place, octets) };
                let (stamp, octets) = lent.split_at_mut(STAMP_OCTETS);
                let at_ns = stamp.try_into().map_or(0, u64::from_ne_bytes);
                // A program that cannot note the time must not seem to have noted that of an earlier frame.
                stamp.fill(0);
                take((at_ns != 0).then_some(at_ns), octets);
            }
            self.fill.push(frame.addr - in_chunk as u64);
        }
        self.give_back(taken);
        taken
    }

    /// Lends the memory of frames that were taken to the kernel again.
    fn give_back(&mut self, taken: usize) {
        if taken > 0 {
            self.arrived.release();
            self.fill.publish();
            if self.fill.needs_wakeup() {
                self.poke();
            }
        }
    }

    /// Tells a device that waits for memory that there is some.
    fn poke(&self) {
        let (fd, null) = (self.socket.as_raw_fd(), std::ptr::null_mut());
        // SAFETY: nothing is passed but the descriptor. What fails here shows at the next kick.
        unsafe { libc::recvfrom(fd, null, 0, libc::MSG_DONTWAIT, null.cast(), std::ptr::null_mut()) };
    }

    /// What the kernel counted for this socket.
    ///
    /// # Errors
    /// Only those of a broken descriptor.
    pub fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        get(self.socket.as_fd(), libc::XDP_STATISTICS)
    }
}

/// Waits until something arrives at one of the sockets or the time, in ns, is over; for ever without one.
///
/// Each call names the sockets anew (ppoll(2)): an epoll instance would be told of each frame, also while
/// nobody waits, which was a twelfth of the processor time.
pub fn wait<'s>(sockets: impl Iterator<Item = BorrowedFd<'s>>, timeout_ns: Option<u64>) -> io::Result<()> {
    let waiting =
        |socket: BorrowedFd<'_>| libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut waiting: Vec<libc::pollfd> = sockets.map(waiting).collect();
    let timeout = timeout_ns.map(|timeout_ns| libc::timespec {
        tv_sec: (timeout_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the list has the length given, the timeout is null or a valid timespec, and no signal mask is
    // passed.
    let result = unsafe {
        libc::ppoll(waiting.as_mut_ptr(), waiting.len() as libc::nfds_t, timeout, std::ptr::null())
    };
    match crate::check(result) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Lends memory to the socket: first the frames for what arrives, then the slots for what is sent.
fn register_memory(socket: BorrowedFd<'_>, queue: &Queue) -> io::Result<Mapping> {
    let memory = Mapping::anonymous(queue.memory_octets())?;
    let registration = libc::xdp_umem_reg {
        addr: memory.at(0, memory.octets()) as u64,
        len: memory.octets() as u64,
        chunk_size: queue.chunk_octets,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    // SAFETY: the memory is the mapping's, which the socket's owner keeps for as long as the socket.
    unsafe { set(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)? };
    Ok(memory)
}

fn ring_offsets(socket: BorrowedFd<'_>) -> io::Result<libc::xdp_mmap_offsets> {
    get(socket, libc::XDP_MMAP_OFFSETS)
}

fn is_zero_copy(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let options: libc::xdp_options = get(socket, libc::XDP_OPTIONS)?;
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

fn bind(socket: BorrowedFd<'_>, queue: &Queue) -> io::Result<()> {
    // Without either flag the kernel takes zero copy where the device can, and copies where it cannot.
    let copying = if queue.copy { libc::XDP_COPY } else { 0 };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: copying | libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: queue.device,
        sxdp_queue_id: queue.queue,
        sxdp_shared_umem_fd: 0,
    };
    // SAFETY: the address is a valid sockaddr_xdp of that size.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            std::ptr::from_ref(&address).cast(),
            size_of::<libc::sockaddr_xdp>() as libc::socklen_t,
        )
    };
    crate::check(result).map(drop)
}

/// Sets an option to a number.
fn set_number(socket: BorrowedFd<'_>, level: libc::c_int, option: libc::c_int, value: u32) -> io::Result<()> {
    // SAFETY: a number of 32 bits names no memory.
    unsafe { set(socket, level, option, &value) }
}

/// Sets an option.
///
/// # Safety
/// Where the option lends memory to the kernel, the value names memory that nothing else is kept in until the
/// socket is closed.
unsafe fn set<T: Plain>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the kernel reads as many octets as the value has, all of them initialized; the caller answers
    // for memory that the value names.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    crate::check(result).map(drop)
}

/// Reads an option of AF_XDP; one that the kernel knows in a shorter form is an error.
fn get<T: Plain>(socket: BorrowedFd<'_>, option: libc::c_int) -> io::Result<T> {
    let mut value = T::zeroed();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most as many octets as the value has, and any octets are a value.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            option,
            std::ptr::from_mut(&mut value).cast(),
            &mut length,
        )
    };
    crate::check(result)?;
    if (length as usize) < size_of::<T>() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel is too old, 5.11 is needed"));
    }
    Ok(value)
}
