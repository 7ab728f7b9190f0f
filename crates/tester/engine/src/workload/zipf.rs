//! Zipf's law: the k-th most popular of N names is asked in proportion to k^-s.
//!
//! Sampling by rejection-inversion (W. Hörmann, G. Derflinger: Rejection-inversion to generate variates from
//! monotone discrete distributions, ACM TOMACS 6, 1996): constant time whatever N, and no table.

use record::random;

/// A law over the ranks 1 to N.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zipf {
    names: f64,
    exponent: f64,
    /// H(3/2) - 1 and H(N + 1/2): the inversion's range.
    from: f64,
    to: f64,
    /// Candidates this near to their rank need no further test.
    near: f64,
}

impl Zipf {
    /// For 1 to 2^32 names and an exponent above 0 and up to 20.
    pub fn new(names: u64, exponent: f64) -> Self {
        let mut zipf = Self { names: names.max(1) as f64, exponent, from: 0.0, to: 0.0, near: 0.0 };
        zipf.from = zipf.integral(1.5) - 1.0;
        zipf.to = zipf.integral(zipf.names + 0.5);
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// The rank, from 0, that query `n` of a seed asks.
    pub fn rank(&self, seed: u64, n: u64) -> u64 {
        // One try in ten fails at worst; the bound only ends what cannot happen.
        for attempt in 0..64 {
            let unit = random::unit(random::at(seed, attempt, n));
            let point = self.to + unit * (self.from - self.to);
            let x = self.inverse(point);
            let rank = (x + 0.5).floor().clamp(1.0, self.names);
            if rank - x <= self.near || point >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64 - 1;
            }
        }
        0
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of x^-s from 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        over_expm1((1.0 - self.exponent) * log) * log
    }

    fn inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.exponent)).max(-1.0);
        (over_ln1p(t) * y).exp()
    }
}

/// (e^x - 1) / x, also near 0.
fn over_expm1(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 * (1.0 + x / 3.0) }
}

/// ln(1 + x) / x, also near 0.
fn over_ln1p(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x * (0.5 - x / 3.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranks_follow_the_law() {
        const DRAWS: u64 = 200_000;
        for (names, exponent) in [(10u64, 1.0), (100, 0.5), (1000, 0.9), (1000, 1.0), (50, 2.0), (1, 1.0)] {
            let zipf = Zipf::new(names, exponent);
            let mut counts = vec![0u64; names as usize];
            (0..DRAWS).for_each(|n| counts[zipf.rank(7, n) as usize] += 1);
            let total: f64 = (1..=names).map(|rank| (rank as f64).powf(-exponent)).sum();
            // Chi-square, with the mean number of ranks less one and a root of twice that as spread.
            let chi: f64 = counts
                .iter()
                .zip(1u64..)
                .map(|(count, rank)| {
                    let expected = DRAWS as f64 * (rank as f64).powf(-exponent) / total;
                    (*count as f64 - expected).powi(2) / expected
                })
                .sum();
            let freedom = (names - 1) as f64;
            assert!(chi <= freedom + 4.0 * (2.0 * freedom).sqrt(), "{names} {exponent}: {chi}");
        }
    }

    proptest! {
        #[test]
        fn every_rank_is_one_of_the_names(names in 1u64..=1 << 32, exponent in 0.01f64..20.0, n: u64, seed: u64) {
            let zipf = Zipf::new(names, exponent);
            prop_assert!(zipf.rank(seed, n) < names);
            prop_assert_eq!(zipf.rank(seed, n), zipf.rank(seed, n));
        }
    }
}
