//! Better, same or worse: two sets of repeated measurements against a practical threshold.

use serde::Serialize;

use super::bootstrap::{Interval, bca};
use super::median;

/// What a comparison says of the second set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Higher by more than the threshold, for certain.
    Better,
    /// Within the threshold, for certain.
    Same,
    /// Lower by more than the threshold, for certain.
    Worse,
    /// The interval reaches across the threshold, or there are too few values for one.
    Inconclusive,
}

/// A comparison of two sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The ratio of the second median to the first, with its 95 % interval; none with fewer than [`RUNS_MIN`]
    /// values or a median of 0.
    pub ratio: Option<Interval>,
    /// The threshold in percent.
    pub threshold_pct: f64,
    /// The verdict that the interval allows.
    pub verdict: Verdict,
}

/// Of fewer values no order is improbable enough: two sets of three lie apart by chance once in ten times.
pub const RUNS_MIN: usize = 4;

/// The confidence of all intervals here.
const CONFIDENCE: f64 = 0.95;
/// Any seed does; a fixed one gives the same verdict for the same results.
const SEED: u64 = 8219;

impl Comparison {
    /// What it says of another threshold.
    pub fn at(&self, threshold_pct: f64) -> Verdict {
        let Some(Interval { low, high, .. }) = self.ratio else { return Verdict::Inconclusive };
        let (worse, better) = (1.0 - threshold_pct / 100.0, 1.0 + threshold_pct / 100.0);
        if high < worse {
            Verdict::Worse
        } else if low > better {
            Verdict::Better
        } else if low >= worse && high <= better {
            Verdict::Same
        } else {
            Verdict::Inconclusive
        }
    }

    /// Whether the second set is not certainly within so many percent below the first, nor certainly lower.
    pub fn may_be_worse(&self, by_pct: f64) -> bool {
        self.ratio.is_none_or(|ratio| ratio.low < 1.0 - by_pct / 100.0)
    }
}

/// Compares the second set with the first.
pub fn compare(first: &[f64], second: &[f64], threshold_pct: f64) -> Comparison {
    let enough = first.len().min(second.len()) >= RUNS_MIN;
    let ratio = if enough { ratio(first, second) } else { None };
    let comparison = Comparison { ratio, threshold_pct, verdict: Verdict::Inconclusive };
    Comparison { verdict: comparison.at(threshold_pct), ..comparison }
}

/// The ratio of the medians, second to first.
fn ratio(first: &[f64], second: &[f64]) -> Option<Interval> {
    let medians = |sets: &[Vec<f64>]| {
        let middle = |set: &Vec<f64>| median(set).unwrap_or(f64::NAN);
        middle(&sets[1]) / middle(&sets[0])
    };
    bca(&[first, second], medians, CONFIDENCE, SEED)
}

/// The noise floor of an A/A comparison in percent: how far the ratio of two halves of the same measurement,
/// taken in turns, may lie from 1. `None` if the halves have fewer than [`RUNS_MIN`] values.
pub fn noise_floor_pct(in_order: &[f64]) -> Option<f64> {
    if in_order.len() < 2 * RUNS_MIN {
        return None;
    }
    let half = |start: usize| in_order.iter().skip(start).step_by(2).copied().collect::<Vec<f64>>();
    let Interval { low, high, .. } = ratio(&half(0), &half(1))?;
    Some((1.0 - low).max(high - 1.0).max(0.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: [f64; 6] = [99_000.0, 100_000.0, 100_500.0, 99_500.0, 100_200.0, 99_800.0];

    fn against(factor: f64, threshold_pct: f64) -> Verdict {
        compare(&RATES, &RATES.map(|rate| rate * factor), threshold_pct).verdict
    }

    #[test]
    fn verdicts_follow_the_interval() {
        assert_eq!(against(1.0, 2.0), Verdict::Same);
        assert_eq!(against(0.9, 2.0), Verdict::Worse);
        assert_eq!(against(1.1, 2.0), Verdict::Better);
        assert_eq!(against(0.98, 2.0), Verdict::Inconclusive, "the interval reaches across the threshold");
        assert_eq!(against(0.98, 5.0), Verdict::Same);
        assert_eq!(against(0.98, 0.5), Verdict::Worse);
    }

    #[test]
    fn few_runs_and_no_rate_are_inconclusive() {
        assert_eq!(compare(&RATES[..3], &RATES, 2.0).verdict, Verdict::Inconclusive);
        let nothing = compare(&[0.0; 5], &RATES, 2.0);
        assert_eq!((nothing.verdict, nothing.ratio), (Verdict::Inconclusive, None));
        assert!(nothing.may_be_worse(2.0));
    }

    #[test]
    fn whether_it_may_be_worse_is_another_question() {
        let better = compare(&RATES, &RATES.map(|rate| rate * 1.02), 2.0);
        assert_eq!(better.verdict, Verdict::Inconclusive);
        assert!(!better.may_be_worse(2.0));
    }

    #[test]
    fn the_noise_floor_is_that_of_equal_halves() {
        assert_eq!(noise_floor_pct(&RATES), None, "halves of three");
        assert_eq!(noise_floor_pct(&[7.0; 8]), Some(0.0));
        let noisy = [90.0, 110.0, 95.0, 105.0, 100.0, 100.0, 108.0, 92.0];
        let floor = noise_floor_pct(&noisy).unwrap();
        assert!((5.0..25.0).contains(&floor), "{floor}");
    }
}
