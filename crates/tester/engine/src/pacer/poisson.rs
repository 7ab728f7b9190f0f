//! The instants of a Poisson process with a known number of queries.
//!
//! Given their number, the instants of a Poisson process are independent and uniform over the time. Their
//! order statistics can be drawn one after another: of k that are left in the rest of the time, the first
//! comes after a share 1 - U^(1/k) of it.

use record::random::Sequence;

#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    random: Sequence,
    at_ns: f64,
    end_ns: f64,
    left: u64,
}

impl Arrivals {
    /// `queries` instants within `duration_ns`; each lane has its own.
    pub(super) fn new(seed: u64, lane: u64, queries: u64, duration_ns: u64) -> Self {
        // Below 2^53 ns, 104 days, every nanosecond is exact.
        Self { random: Sequence::new(seed, lane), at_ns: 0.0, end_ns: duration_ns as f64, left: queries }
    }

    /// The next instant, in ns after the start.
    pub(super) fn next_ns(&mut self) -> u64 {
        let share = -(self.random.unit().ln() / self.left.max(1) as f64).exp_m1();
        self.at_ns += (self.end_ns - self.at_ns) * share;
        self.left = self.left.saturating_sub(1);
        self.at_ns as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kolmogorov and Smirnov: the largest distance between two distribution functions, times the root of n,
    /// exceeds 1.63 once in a hundred times; the seeds are fixed.
    const KS_BOUND: f64 = 1.63;

    fn distance(sorted: &[f64], distribution: impl Fn(f64) -> f64) -> f64 {
        let n = sorted.len() as f64;
        let distances = sorted.iter().enumerate().map(|(rank, &value)| {
            let expected = distribution(value);
            (expected - rank as f64 / n).abs().max(((rank + 1) as f64 / n - expected).abs())
        });
        distances.fold(0.0, f64::max) * n.sqrt()
    }

    fn instants(seed: u64, lane: u64, queries: u64) -> Vec<f64> {
        let mut arrivals = Arrivals::new(seed, lane, queries, 1_000_000_000);
        (0..queries).map(|_| arrivals.next_ns() as f64).collect()
    }

    #[test]
    fn gaps_are_exponential_and_instants_uniform() {
        for seed in 0..5 {
            let instants = instants(seed, 0, 20_000);
            assert!(instants.is_sorted() && instants[19_999] < 1e9);
            let uniform = distance(&instants, |at| at / 1e9);
            let mut gaps: Vec<f64> = instants.windows(2).map(|pair| pair[1] - pair[0]).collect();
            gaps.sort_unstable_by(f64::total_cmp);
            let exponential = distance(&gaps, |gap| 1.0 - (-gap / 50_000.0).exp());
            assert!(uniform < KS_BOUND && exponential < KS_BOUND, "{seed}: {uniform} {exponential}");
        }
    }

    #[test]
    fn lanes_together_are_a_poisson_process_too() {
        let mut all: Vec<f64> = (0..4).flat_map(|lane| instants(9, lane, 5000)).collect();
        all.sort_unstable_by(f64::total_cmp);
        let mut gaps: Vec<f64> = all.windows(2).map(|pair| pair[1] - pair[0]).collect();
        gaps.sort_unstable_by(f64::total_cmp);
        assert!(distance(&gaps, |gap| 1.0 - (-gap / 50_000.0).exp()) < KS_BOUND);
        assert_ne!(instants(9, 0, 10), instants(9, 1, 10));
        assert_eq!(instants(9, 1, 10), instants(9, 1, 10));
    }
}
