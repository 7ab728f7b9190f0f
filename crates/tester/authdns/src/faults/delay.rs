//! How long answers wait.

use record::random::{mix, unit};

/// No answer waits longer, in ns: one minute.
pub const DELAY_NS_MAX: u64 = 60_000_000_000;

/// How delays are spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Every delay is the same.
    Constant,
    /// Normally, with this standard deviation in ns; what would be negative is none.
    Normal {
        /// The standard deviation in ns.
        deviation_ns: u64,
    },
    /// By Pareto's law: the shorter the tail's shape, the longer the tail; no mean exists from 1 downwards.
    Pareto {
        /// The exponent, positive.
        shape: f64,
    },
}

/// A distribution of delays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delay {
    /// The delay, the mean, or (of Pareto's law) the least delay, in ns.
    pub base_ns: u64,
    /// The distribution.
    pub spread: Distribution,
    /// Longer delays are cut to this, in ns, at most [`DELAY_NS_MAX`].
    pub max_ns: u64,
}

impl Delay {
    /// The delay of the `index`-th fault of a query with this draw.
    pub(crate) fn sample_ns(&self, bits: u64, index: u64) -> u64 {
        let base = self.base_ns as f64;
        let first = mix(bits.wrapping_add(index.wrapping_add(1)));
        let delay_ns = match self.spread {
            Distribution::Constant => base,
            // Box and Muller: two even numbers make a normal one.
            Distribution::Normal { deviation_ns } => {
                let (radius, angle) = (unit(first), unit(mix(!first)) * std::f64::consts::TAU);
                base + deviation_ns as f64 * (-2.0 * radius.ln()).sqrt() * angle.cos()
            }
            Distribution::Pareto { shape } => base * unit(first).powf(-1.0 / shape),
        };
        // A float becomes the nearest integer there is: below zero 0, without bound the largest.
        (delay_ns as u64).min(self.max_ns).min(DELAY_NS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn samples(base_ns: u64, spread: Distribution, max_ns: u64) -> Vec<u64> {
        let delay = Delay { base_ns, spread, max_ns };
        let mut samples: Vec<u64> = (0..100_000).map(|n| delay.sample_ns(mix(n), 0)).collect();
        samples.sort_unstable();
        samples
    }

    #[test]
    fn delays_follow_their_distribution() {
        assert!(samples(20 * MS, Distribution::Constant, DELAY_NS_MAX).iter().all(|&ns| ns == 20 * MS));

        let normal = samples(20 * MS, Distribution::Normal { deviation_ns: 5 * MS }, DELAY_NS_MAX);
        let quantile =
            |sorted: &[u64], share: f64| sorted[(share * sorted.len() as f64) as usize] as f64 / MS as f64;
        for (share, expected) in [(0.5, 20.0), (0.8413, 25.0), (0.0228, 10.0)] {
            assert!((quantile(&normal, share) - expected).abs() < 0.15, "{share}");
        }
        assert_eq!(samples(MS, Distribution::Normal { deviation_ns: 5 * MS }, DELAY_NS_MAX)[0], 0);

        // P(X > x) = (min / x)^shape.
        let pareto = samples(10 * MS, Distribution::Pareto { shape: 1.5 }, 500 * MS);
        for share in [0.5, 0.9, 0.99] {
            let expected = 10.0 * f64::powf(1.0 - share, -1.0 / 1.5);
            assert!((quantile(&pareto, share) / expected - 1.0).abs() < 0.06, "{share}");
        }
        assert_eq!((pareto[0] / MS, pareto.last().copied()), (10, Some(500 * MS)));
        assert_eq!(samples(u64::MAX, Distribution::Pareto { shape: 0.001 }, u64::MAX)[0], DELAY_NS_MAX);
    }
}
