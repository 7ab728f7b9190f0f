//! A sequence lock over words of 64 bits that one thread of this process writes and the program in the kernel
//! reads. Neither waits: a reader that met the writer has nothing.
//!
//! The serial number is odd while the writer is at work and another one afterwards. A reader takes it first,
//! gives up if it is odd, reads, takes it again, and gives up if it has changed. The program's half is `find`
//! and `repeat` of `bpf/repeat.h`; `read` below is the same in Rust, for the tests.

use std::sync::atomic::{AtomicU64, Ordering};

/// A word of the memory. The tests' words are those of a model checker.
pub(super) trait Word {
    /// Writes the word.
    fn store(&self, value: u64, order: Ordering);
    /// Sets bits of the word and returns what it was.
    fn fetch_or(&self, bits: u64, order: Ordering) -> u64;
    /// Adds to the word and returns what it was.
    fn fetch_add(&self, value: u64, order: Ordering) -> u64;
    /// A fence between operations on such words.
    fn fence(order: Ordering);
}

impl Word for AtomicU64 {
    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }

    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.fetch_or(bits, order)
    }

    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.fetch_add(value, order)
    }

    fn fence(order: Ordering) {
        std::sync::atomic::fence(order);
    }
}

/// Changes the words that the serial number guards. There must be one writer at a time. A writer that ended
/// in the midst has left an odd number, which stays odd until the next one is done.
pub(super) fn write<W: Word>(serial: &W, change: impl FnOnce()) {
    // A reader's second look is a read-modify-write, too. Where it comes before this one, the reader's loads
    // happened before the changes (release, acquire); where it comes after this one, the reader sees another
    // number.
    serial.fetch_or(1, Ordering::AcqRel);
    // The changes come after the odd number for whoever looks at them with loads and barriers only.
    W::fence(Ordering::Release);
    change();
    serial.fetch_add(1, Ordering::Release);
}

/// What the program does, with the weakest order that is enough: `copy` returns `None` where the words do not
/// fit.
#[cfg(test)]
pub(super) fn read<W: Word, T>(serial: &W, copy: impl FnOnce() -> Option<T>) -> Option<T> {
    let before = serial.fetch_or(0, Ordering::AcqRel);
    if before & 1 != 0 {
        return None;
    }
    let copied = copy()?;
    (serial.fetch_or(0, Ordering::AcqRel) == before).then_some(copied)
}
