//! The work that messages cost, counted in steps: tests and fuzz targets hold bounds by it.
//!
//! A step is a record, an EDNS option, a label or a compression pointer that is read, written, compared or
//! hashed; a comparison of two numbers in a search; or 16 octets copied or compared. Steps depend on the
//! octets alone, not on the machine. They are counted where debug assertions are; other builds count nothing
//! and pay nothing.

#[cfg(debug_assertions)]
mod counter {
    use std::cell::Cell;

    thread_local! {
        static STEPS: Cell<u64> = const { Cell::new(0) };
    }

    /// Counts steps on this thread.
    pub fn add(steps: usize) {
        STEPS.set(STEPS.get() + steps as u64);
    }

    pub fn read() -> u64 {
        STEPS.get()
    }
}

#[cfg(not(debug_assertions))]
mod counter {
    /// Counts nothing.
    #[inline(always)]
    pub fn add(_: usize) {}

    pub fn read() -> u64 {
        0
    }
}

pub use counter::add;

/// Counts the copying, comparing or hashing of so many octets.
#[inline(always)]
pub fn add_octets(octets: usize) {
    add(1 + octets / 16);
}

/// The steps of some work on this thread; 0 in builds without debug assertions.
pub fn of(work: impl FnOnce()) -> u64 {
    let before = counter::read();
    work();
    counter::read() - before
}
