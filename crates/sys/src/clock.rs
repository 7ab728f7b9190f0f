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

/// The distance of the two clocks, to turn times on `CLOCK_REALTIME` into times on `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug)]
pub struct Distance {
    realtime_ns: u64,
    monotonic_ns: u64,
}

/// Two readings further apart than this, in ns, had a pause between them.
const CLOSE_NS: u64 = 2_000;
/// Attempts at reading the clocks without a pause.
const ATTEMPTS: u32 = 4;

impl Distance {
    /// Reads the clocks. A pause between two readings would shift every time by its length, so the real time
    /// is read between two readings of the monotonic one, again if these are far apart.
    pub fn read() -> Self {
        let mut best = (u64::MAX, Self { realtime_ns: 0, monotonic_ns: 0 });
        for _ in 0..ATTEMPTS {
            let (before_ns, realtime_ns, after_ns) = (monotonic_ns(), realtime_ns(), monotonic_ns());
            let apart_ns = after_ns - before_ns;
            if apart_ns < best.0 {
                best = (apart_ns, Self { realtime_ns, monotonic_ns: before_ns.midpoint(after_ns) });
            }
            if apart_ns < CLOSE_NS {
                break;
            }
        }
        best.1
    }

    /// The monotonic time of an event of the past; one that seems to come is taken for now.
    pub fn to_monotonic_ns(self, realtime_ns: u64) -> u64 {
        self.monotonic_ns.saturating_sub(self.realtime_ns.saturating_sub(realtime_ns))
    }

    /// The real time of a monotonic instant of the past or the near future.
    pub fn to_realtime_ns(self, monotonic_ns: u64) -> u64 {
        (self.realtime_ns + monotonic_ns).saturating_sub(self.monotonic_ns)
    }

    /// The monotonic time at which the clocks were read.
    pub fn monotonic_ns(self) -> u64 {
        self.monotonic_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_times_become_monotonic_ones() {
        let distance = Distance { realtime_ns: 1_000_000, monotonic_ns: 5_000 };
        assert_eq!(
            [1_000_000, 999_000, 1_000_500, 1].map(|at| distance.to_monotonic_ns(at)),
            [5_000, 4_000, 5_000, 0]
        );
        assert_eq!(
            [5_000, 4_000, 6_000].map(|at| distance.to_realtime_ns(at)),
            [1_000_000, 999_000, 1_001_000]
        );
        let before_ns = monotonic_ns();
        let (stamp_ns, distance) = (realtime_ns(), Distance::read());
        let at_ns = distance.to_monotonic_ns(stamp_ns);
        // The clocks may be adjusted meanwhile, by a little.
        assert!(at_ns + 1_000_000 >= before_ns && at_ns <= monotonic_ns());
        assert!(distance.monotonic_ns() >= before_ns);
    }
}
