//! The clocks. Everything is measured on `CLOCK_MONOTONIC`, which neither jumps nor needs calibration.

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the call to fill.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(result, 0, "clock_gettime knows the clocks of this file on every Linux");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds on `CLOCK_MONOTONIC`.
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970 on `CLOCK_REALTIME`, the clock of the kernel's receive timestamps.
pub fn realtime_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Processor time that the calling thread has used, in nanoseconds.
pub fn thread_time_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}
