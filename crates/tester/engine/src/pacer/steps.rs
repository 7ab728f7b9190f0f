//! Constant rates one after another.

use super::{constant_count, constant_ns};

/// The most steps of a schedule.
pub const STEPS_MAX: usize = 16;

/// Rates in q/s, each held for an equal part of the duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    rates_qps: [u64; STEPS_MAX],
    count: u8,
}

impl Steps {
    /// `None` if there are none, more than [`STEPS_MAX`], or one of them is 0.
    pub fn new(rates: &[u64]) -> Option<Self> {
        let mut rates_qps = [0; STEPS_MAX];
        rates_qps.get_mut(..rates.len())?.copy_from_slice(rates);
        (!rates.is_empty() && !rates.contains(&0)).then_some(Self { rates_qps, count: rates.len() as u8 })
    }

    /// The rates, at least one.
    pub fn rates_qps(&self) -> &[u64] {
        &self.rates_qps[..usize::from(self.count)]
    }

    /// Start of a step in ns; that of the step after the last is the duration.
    fn start_ns(&self, step: usize, duration_ns: u64) -> u64 {
        (u128::from(duration_ns) * step as u128 / u128::from(self.count)) as u64
    }

    /// Each step with its start, its length and its queries: those that are due before the next one starts.
    fn steps(&self, duration_ns: u64) -> impl Iterator<Item = (u64, u64, u64, u64)> {
        self.rates_qps().iter().enumerate().map(move |(step, &rate_qps)| {
            let start_ns = self.start_ns(step, duration_ns);
            let length_ns = self.start_ns(step + 1, duration_ns) - start_ns;
            let queries = length_ns.checked_sub(1).map_or(0, |last_ns| constant_count(last_ns, rate_qps));
            (start_ns, length_ns, rate_qps, queries)
        })
    }

    /// All queries of a schedule of this length.
    pub(super) fn queries(&self, duration_ns: u64) -> u64 {
        self.steps(duration_ns).map(|(.., queries)| queries).sum()
    }

    /// When query `n` is due, in ns after the start; queries after the last continue at the last rate.
    pub(super) fn due_ns(&self, n: u64, duration_ns: u64) -> u64 {
        let mut left = n;
        let mut last = (0, 1);
        for (start_ns, _, rate_qps, queries) in self.steps(duration_ns) {
            if left < queries {
                return start_ns + constant_ns(left, rate_qps);
            }
            left -= queries;
            last = (start_ns + constant_ns(queries, rate_qps), rate_qps);
        }
        last.0.saturating_add(constant_ns(left, last.1))
    }

    /// How many queries are due within so many ns.
    pub(super) fn count(&self, elapsed_ns: u64, duration_ns: u64) -> u64 {
        self.steps(duration_ns)
            .take_while(|(start_ns, ..)| *start_ns <= elapsed_ns)
            .map(|(start_ns, _, rate_qps, queries)| {
                constant_count(elapsed_ns - start_ns, rate_qps).min(queries)
            })
            .sum()
    }
}
