//! Arrays that programs and this process share as memory (`BPF_F_MMAPABLE`), so that reading them costs no
//! calls.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use aya::maps::Map;

use super::BpfError;

/// An array of 64-bit words in memory shared with the kernel's programs.
#[derive(Debug)]
pub struct Shared {
    words: NonNull<AtomicU64>,
    length: usize,
    /// The mapping keeps the array alive by itself, but programs that are loaded later name it by this
    /// descriptor.
    _map: Map,
}

// SAFETY: the memory is ours until it is unmapped, and is touched through atomic words only.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps an array of `length` words.
    pub fn new(map: Map, length: usize) -> Result<Self, BpfError> {
        let refused = |error| BpfError::Io { operation: "sharing a BPF array with the kernel", error };
        let Map::Array(data) = &map else {
            return Err(refused(io::ErrorKind::InvalidInput.into()));
        };
        // SAFETY: a fresh mapping of a descriptor that is open; the kernel refuses a length beyond the array.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length * size_of::<u64>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                data.fd().as_fd().as_raw_fd(),
                0,
            )
        };
        match NonNull::new(address.cast()) {
            Some(words) if address != libc::MAP_FAILED => Ok(Self { words, length, _map: map }),
            _ => Err(refused(io::Error::last_os_error())),
        }
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this length, is aligned to a page, lives as long as self, and all who write
        // to it, the programs in the kernel included, write whole words.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.length) }
    }

    /// The value of one word; 0 beyond the end.
    pub fn get(&self, index: usize) -> u64 {
        self.words().get(index).map_or(0, |word| word.load(Ordering::Relaxed))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` and nothing borrows it any more.
        let result = unsafe { libc::munmap(self.words.as_ptr().cast(), self.length * size_of::<u64>()) };
        debug_assert_eq!(result, 0, "munmap of what was mapped");
    }
}
