//! Whether the results of repetitions moved while they were taken.

use super::median;
use crate::identifiers::two_sided;

/// How values moved in the order they were taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// The median of the last third against that of the first, in percent of that.
    pub change_pct: f64,
    /// How probable at least so much order is by chance (Kendall's tau, two-sided).
    pub p_value: f64,
}

/// Of fewer values no order is improbable enough: four rise or fall by chance once in twelve times.
const VALUES_MIN: usize = 5;

/// The drift over values in the order they were taken: the first, middle and last third are the sentinels.
/// `None` with fewer than five, or if the first third is 0.
pub fn drift(in_order: &[f64]) -> Option<Drift> {
    let third = in_order.len() / 3;
    let start = median(&in_order[..third])?;
    let end = median(&in_order[in_order.len() - third..])?;
    (in_order.len() >= VALUES_MIN && start > 0.0)
        .then(|| Drift { change_pct: (end / start - 1.0) * 100.0, p_value: kendall_p_value(in_order) })
}

/// Up to so many values the distribution is counted, beyond it is nearly normal.
const COUNTED_MAX: usize = 40;

/// The probability of at least so many pairs in one order (Kendall, *Rank Correlation Methods*, 1948). Equal
/// values count for neither order, which makes the probability larger than it is.
fn kendall_p_value(values: &[f64]) -> f64 {
    let n = values.len();
    let mut score: i64 = 0;
    for (index, later) in values.iter().enumerate() {
        for earlier in &values[..index] {
            score += i64::from(later > earlier) - i64::from(later < earlier);
        }
    }
    if n > COUNTED_MAX { nearly(n, score) } else { counted(n, score) }
}

/// By the normal distribution, with the correction for a score that moves in steps of two.
fn nearly(n: usize, score: i64) -> f64 {
    let n = n as f64;
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    two_sided((score.abs() - 1).max(0) as f64 / deviation)
}

/// By all orders of n values.
fn counted(n: usize, score: i64) -> f64 {
    let pairs = n * n.saturating_sub(1) / 2;
    // At most so many inversions are as extreme; ties may make the score odd where it should be even.
    let inversions = (pairs - score.unsigned_abs() as usize).div_ceil(2);
    let extreme: f64 = inversion_shares(n).iter().take(inversions + 1).sum();
    (2.0 * extreme).min(1.0)
}

/// The share of the permutations of n values that have 0, 1, 2, ... inversions: the k-th value comes before 0
/// to k - 1 others.
fn inversion_shares(n: usize) -> Vec<f64> {
    let mut shares = vec![1.0];
    for k in 2..=n {
        let mut next = vec![0.0; shares.len() + k - 1];
        for (inversions, share) in shares.iter().enumerate() {
            for more in 0..k {
                next[inversions + more] += share / k as f64;
            }
        }
        shares = next;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tau_has_the_published_probabilities() {
        // Kendall's table of S for n = 5: P(S >= 8) = 0.042, P(S >= 10) = 0.0083; n = 10: P(S >= 25) = 0.0143
        // (one-sided).
        let five = [1.0, 2.0, 3.0, 5.0, 4.0];
        assert!((kendall_p_value(&five) - 2.0 * 5.0 / 120.0).abs() < 1e-12);
        assert!((kendall_p_value(&[1.0, 2.0, 3.0, 4.0, 5.0]) - 2.0 / 120.0).abs() < 1e-12);
        let ten = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 10.0, 9.0, 8.0, 7.0];
        // Six inversions of 45: S = 33.
        let counted: f64 = inversion_shares(10).iter().take(7).sum();
        assert!((kendall_p_value(&ten) - 2.0 * counted).abs() < 1e-12);
        let table: f64 = inversion_shares(10).iter().take(11).sum();
        assert!((table - 0.0143).abs() < 0.0001, "{table}");
    }

    #[test]
    fn counting_and_the_normal_distribution_agree() {
        for score in [0, 40, 100, 170, 250] {
            let (exact, near) = (counted(40, score), nearly(40, score));
            // Far out the normal distribution has the heavier tail.
            assert!((near - exact).abs() < 0.003, "{score}: {near} for {exact}");
        }
    }

    #[test]
    fn a_drift_shows_and_noise_does_not() {
        let falling: Vec<f64> = (0..9).map(|n| 1000.0 - 10.0 * f64::from(n)).collect();
        let drift_of_falling = drift(&falling).unwrap();
        assert!((drift_of_falling.change_pct - (930.0 / 990.0 - 1.0) * 100.0).abs() < 1e-9);
        assert!(drift_of_falling.p_value < 0.001);
        let noise = drift(&[5.0, 7.0, 6.0, 6.5, 5.5, 6.0]).unwrap();
        assert!(noise.p_value > 0.5);
        assert_eq!(drift(&[3.0; 5]), Some(Drift { change_pct: 0.0, p_value: 1.0 }));
        assert_eq!((drift(&[1.0, 2.0, 3.0, 4.0]), drift(&[0.0; 6]), drift(&[])), (None, None, None));
    }
}
