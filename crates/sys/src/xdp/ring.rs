//! The rings that a process and the kernel share (kernel documentation, `networking/af_xdp.rst`).
//!
//! Each ring has one producer and one consumer, and each of the two indices has one writer. Entries are
//! written before the producer's index is (release) and read after it is (acquire); the same holds for the
//! consumer's index and reuse.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::plain::Plain;

/// Memory that was mapped, unmapped when this is dropped.
pub(super) struct Mapping {
    start: NonNull<u8>,
    octets: usize,
}

// SAFETY: the memory belongs to the process, not to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Fresh memory, all of it present.
    pub fn anonymous(octets: usize) -> io::Result<Self> {
        Self::map(octets, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    fn map(octets: usize, flags: libc::c_int, file: libc::c_int, offset: libc::off_t) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses where; nothing that is mapped already is touched.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), octets, access, flags | libc::MAP_POPULATE, file, offset)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, octets })
    }

    pub fn octets(&self) -> usize {
        self.octets
    }

    /// A pointer to what stands at an offset; `size` octets from there are within.
    pub fn at(&self, offset: usize, size: usize) -> *mut u8 {
        let end = offset.checked_add(size);
        assert!(end.is_some_and(|end| end <= self.octets), "{size} octets at {offset} of {}", self.octets);
        // SAFETY: just checked to be within the mapping.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours alone, and its users own it, so that none is left.
        let result = unsafe { libc::munmap(self.start.as_ptr().cast(), self.octets) };
        debug_assert_eq!(result, 0, "munmap of what was mapped");
    }
}

struct Ring<T> {
    mapping: Mapping,
    offsets: libc::xdp_ring_offset,
    entries: u32,
    entry: std::marker::PhantomData<T>,
}

impl<T: Plain> Ring<T> {
    fn map(
        socket: BorrowedFd<'_>,
        page: u64,
        offsets: libc::xdp_ring_offset,
        entries: u32,
    ) -> io::Result<Self> {
        assert!(entries.is_power_of_two());
        let octets = offsets.desc as usize + entries as usize * size_of::<T>();
        let mapping = Mapping::map(octets, libc::MAP_SHARED, socket.as_raw_fd(), page as libc::off_t)?;
        Ok(Self { mapping, offsets, entries, entry: std::marker::PhantomData })
    }

    fn index(&self, offset: u64) -> &AtomicU32 {
        let place = self.mapping.at(offset as usize, size_of::<AtomicU32>());
        // SAFETY: within the mapping, which lives as long as `self`; the kernel aligns the indices to cache
        // lines and treats them as atomic.
        unsafe { &*place.cast::<AtomicU32>() }
    }

    fn producer(&self) -> &AtomicU32 {
        self.index(self.offsets.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.index(self.offsets.consumer)
    }

    fn entry(&self, index: u32) -> *mut T {
        let place = (index & (self.entries - 1)) as usize * size_of::<T>();
        self.mapping.at(self.offsets.desc as usize + place, size_of::<T>()).cast()
    }
}

/// A ring that the process fills: frames to be filled (fill ring) or to be sent (TX ring).
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// The next entry to write; those before it and from the kernel's view of the index on are not published
    /// yet.
    next: u32,
    /// The kernel's index when it was last looked at.
    consumed: u32,
}

impl<T: Plain> Producer<T> {
    /// Maps the ring that starts at a page offset of the socket.
    pub fn map(
        socket: BorrowedFd<'_>,
        page: u64,
        offsets: libc::xdp_ring_offset,
        entries: u32,
    ) -> io::Result<Self> {
        Ok(Self { ring: Ring::map(socket, page, offsets, entries)?, next: 0, consumed: 0 })
    }

    /// Writes an entry, which the kernel does not see yet. False if the ring is full.
    pub fn push(&mut self, value: T) -> bool {
        if self.next.wrapping_sub(self.consumed) == self.ring.entries {
            self.consumed = self.ring.consumer().load(Ordering::Acquire);
            if self.next.wrapping_sub(self.consumed) == self.ring.entries {
                return false;
            }
        }
        // SAFETY: the entry is within the mapping and aligned, and the kernel has consumed what stood there.
        unsafe { self.ring.entry(self.next).write(value) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Shows the kernel what was written.
    pub fn publish(&self) {
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// How many entries the kernel has not consumed.
    pub fn pending(&self) -> u32 {
        self.next.wrapping_sub(self.ring.consumer().load(Ordering::Acquire))
    }

    /// Whether the kernel wants a system call to go on with this ring. It may want one just after it was
    /// asked, so ask again while anything is pending.
    pub fn needs_wakeup(&self) -> bool {
        self.ring.index(self.ring.offsets.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// A ring that the kernel fills: frames that arrived (RX ring) or are sent (completion ring).
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    /// The next entry to take.
    next: u32,
    /// The kernel's index when it was last looked at.
    produced: u32,
}

impl<T: Plain> Consumer<T> {
    /// Maps the ring that starts at a page offset of the socket.
    pub fn map(
        socket: BorrowedFd<'_>,
        page: u64,
        offsets: libc::xdp_ring_offset,
        entries: u32,
    ) -> io::Result<Self> {
        Ok(Self { ring: Ring::map(socket, page, offsets, entries)?, next: 0, produced: 0 })
    }

    /// Looks what the kernel has produced; returns how many entries can be taken.
    pub fn look(&mut self) -> u32 {
        self.produced = self.ring.producer().load(Ordering::Acquire);
        self.produced.wrapping_sub(self.next)
    }

    /// Takes the next entry of those that the last look has shown.
    pub fn pop(&mut self) -> Option<T> {
        if self.next == self.produced {
            return None;
        }
        // SAFETY: the entry is within the mapping and aligned, and the kernel has published it and writes it
        // no more until it is released; any octets are a value of a `Plain` type.
        let value = unsafe { self.ring.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(value)
    }

    /// Gives the places of the entries taken back to the kernel.
    pub fn release(&self) {
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}
