//! When the n-th query is due: t0 + n / rate, exactly, for ever.
//!
//! The schedule is absolute: it is never spread again after a delay and never reset (paper 003 shows what happens to
//! testers that do), and it never waits for an answer.

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// An absolute schedule at a constant rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The instant of query 0, in ns on the caller's clock.
    pub start_ns: u64,
    /// Queries per second, at least 1.
    pub rate_qps: u64,
    /// How many queries there are.
    pub queries: u64,
}

impl Schedule {
    /// The schedule of a trial; a rate of 0 is taken as 1.
    pub fn new(start_ns: u64, rate_qps: u64, duration_ns: u64) -> Self {
        let rate_qps = rate_qps.max(1);
        let queries = u128::from(rate_qps) * u128::from(duration_ns) / u128::from(SECOND_NS);
        Self { start_ns, rate_qps, queries: u64::try_from(queries).unwrap_or(u64::MAX) }
    }

    /// The instant at which query `n` is due, rounded down to whole nanoseconds; no error adds up.
    pub fn due_ns(&self, n: u64) -> u64 {
        self.start_ns + (u128::from(n) * u128::from(SECOND_NS) / u128::from(self.rate_qps)) as u64
    }

    /// How many queries are due at `now_ns` or before.
    pub fn due_count(&self, now_ns: u64) -> u64 {
        if now_ns < self.start_ns {
            return 0;
        }
        // The first n that is due after now: n * second / rate >= elapsed + 1.
        let later = u128::from(now_ns - self.start_ns) + 1;
        let first_later = (later * u128::from(self.rate_qps)).div_ceil(u128::from(SECOND_NS));
        u64::try_from(first_later).unwrap_or(u64::MAX).min(self.queries)
    }

    /// The end of the schedule: the instant at which the query after the last would be due.
    pub fn end_ns(&self) -> u64 {
        self.due_ns(self.queries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_that_do_not_divide_a_second_are_exact() {
        for rate_qps in [70_000, 105_000, 150_000, 7, 1_000_003] {
            let schedule = Schedule::new(5, rate_qps, 10 * SECOND_NS);
            assert_eq!(schedule.queries, rate_qps * 10);
            assert_eq!(schedule.end_ns(), 5 + 10 * SECOND_NS);
        }
    }

    proptest! {
        #[test]
        fn count_and_instant_agree(rate_qps in 1u64..20_000_000, n in 0u64..1_000_000_000, start_ns in 0u64..1 << 60) {
            let schedule = Schedule { start_ns, rate_qps, queries: u64::MAX };
            let due = schedule.due_ns(n);
            prop_assert!(schedule.due_count(due) > n);
            if due > start_ns {
                prop_assert!(schedule.due_count(due - 1) <= n);
            }
        }
    }
}
