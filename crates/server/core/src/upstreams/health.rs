//! The health of an upstream server: its round-trip times, and whether it is excluded for a while.

/// So many tries without an answer in a row, whatever the names, and the server is left out: one name whose
/// AAAA query its authoritative servers leave unanswered must not condemn the resolver.
pub const FAILURES_MAX: u16 = 16;

/// How long a server is left out before it is given another chance.
pub const PAUSE_NS: u64 = 2_000_000_000;

/// Of the smoothed round-trip time a new one changes an eighth (RFC 6298 2.3).
const SMOOTHING: u64 = 8;

/// The step of the estimate of the 95th percentile, as a part of the estimate.
const PERCENTILE_STEP: u64 = 64;

/// The estimate before the first answer.
const P95_UNKNOWN_NS: u64 = 50_000_000;

/// One server's state.
#[derive(Clone, Debug)]
pub(super) struct Health {
    failures: u16,
    down_until_ns: u64,
    srtt_ns: u64,
    p95_ns: u64,
}

impl Default for Health {
    fn default() -> Self {
        Self { failures: 0, down_until_ns: 0, srtt_ns: 0, p95_ns: P95_UNKNOWN_NS }
    }
}

impl Health {
    pub fn is_up(&self, now_ns: u64) -> bool {
        self.down_until_ns <= now_ns
    }

    pub fn srtt_ns(&self) -> u64 {
        self.srtt_ns
    }

    pub fn p95_ns(&self) -> u64 {
        self.p95_ns
    }

    /// Returns whether it was down.
    pub fn answered(&mut self, rtt_ns: u64) -> bool {
        let rtt_ns = rtt_ns.max(1);
        self.srtt_ns = match self.srtt_ns {
            0 => rtt_ns,
            srtt_ns => srtt_ns - srtt_ns / SMOOTHING + rtt_ns.div_ceil(SMOOTHING),
        };
        // Up 19 steps for each answer that is later, down one for each that is not: in balance where 5 of 100
        // are.
        let step = (self.p95_ns / PERCENTILE_STEP).max(1);
        self.p95_ns = if rtt_ns > self.p95_ns {
            self.p95_ns.saturating_add(19 * step / 20)
        } else {
            self.p95_ns.saturating_sub(step / 20).max(1)
        };
        self.failures = 0;
        std::mem::take(&mut self.down_until_ns) != 0
    }

    /// Returns whether it is down from now on.
    pub fn timed_out(&mut self, now_ns: u64) -> bool {
        self.failures = self.failures.saturating_add(1);
        self.failures >= FAILURES_MAX && self.pause(now_ns, PAUSE_NS)
    }

    /// Returns whether it was up.
    pub fn pause(&mut self, now_ns: u64, pause_ns: u64) -> bool {
        let until_ns = self.down_until_ns.max(now_ns.saturating_add(pause_ns));
        std::mem::replace(&mut self.down_until_ns, until_ns) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Random;

    #[test]
    fn the_95th_percentile_is_found() {
        let (mut health, mut random) = (Health::default(), Random::new([1; 32]));
        // Even between 0 and 65.535 ms.
        for _ in 0..20_000 {
            health.answered(u64::from(random.word()) * 1000);
        }
        let expected_ns = 62_260_000f64;
        let found = health.p95_ns() as f64 / expected_ns;
        assert!((0.85..1.15).contains(&found), "{} ns", health.p95_ns());
    }

    #[test]
    fn the_smoothed_time_follows() {
        let mut health = Health::default();
        health.answered(8_000_000);
        assert_eq!(health.srtt_ns(), 8_000_000);
        for _ in 0..100 {
            health.answered(1_000_000);
        }
        assert!((1_000_000..1_010_000).contains(&health.srtt_ns()), "{}", health.srtt_ns());
    }
}
