//! Waits for resources that an ending process still holds.

use std::thread;
use std::time::Duration;

use crate::clock;

/// A process that was killed lets go of its programs, sockets and ports when the kernel has cleaned up after
/// it.
const PATIENCE_NS: u64 = 2_000_000_000;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Tries again for a while as long as the error is that somebody else is there.
pub fn patiently<T, E>(is_taken: impl Fn(&E) -> bool, attempt: impl Fn() -> Result<T, E>) -> Result<T, E> {
    let until_ns = clock::monotonic_ns() + PATIENCE_NS;
    loop {
        match attempt() {
            Err(error) if is_taken(&error) && clock::monotonic_ns() < until_ns => thread::sleep(LOOK_EVERY),
            result => return result,
        }
    }
}
