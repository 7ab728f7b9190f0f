//! Change points: where a history of results jumps and stays.

use super::median;
use crate::random::{Sequence, below};

/// A jump between two neighbours of a history.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The index of the first value after it.
    pub at: usize,
    /// The median of the values after it, up to the next change, against that of those before, in percent of
    /// that.
    pub change_pct: f64,
    /// How probable so clear a division of this part of the history is if its order is chance.
    pub p_value: f64,
}

/// A history must be so long that any change can be told from chance: of eight values in two fours.
pub const CHANGES_MIN: usize = 8;

/// A change that chance alone makes no more often than this is reported.
const P_VALUE_MAX: f64 = 0.05;
const SHUFFLES: u32 = 999;

/// The changes of a history by at least `threshold_pct`, oldest first: the clearest division first, then
/// those of its parts, each held against the same values in random order. The same history gives the same
/// changes.
pub fn changes(history: &[f64], threshold_pct: f64) -> Vec<Change> {
    let mut found = Vec::new();
    divide(history, 0, &mut found);
    found.sort_by_key(|&(at, _)| at);
    let ends: Vec<usize> = found.iter().map(|&(at, _)| at).collect();
    let segment = |from: Option<&usize>, to: Option<&usize>| {
        median(&history[from.copied().unwrap_or(0)..to.copied().unwrap_or(history.len())])
    };
    let change = |(index, &(at, p_value)): (usize, &(usize, f64))| {
        let before = segment(index.checked_sub(1).and_then(|index| ends.get(index)), Some(&at))?;
        let after = segment(Some(&at), ends.get(index + 1))?;
        Some(Change { at, change_pct: (after / before - 1.0) * 100.0, p_value })
    };
    let all = found.iter().enumerate().filter_map(change);
    all.filter(|change| change.change_pct.abs() >= threshold_pct).collect()
}

fn divide(values: &[f64], offset: usize, found: &mut Vec<(usize, f64)>) {
    if values.len() < CHANGES_MIN {
        return;
    }
    let (at, clarity) = clearest(values);
    let mut random = Sequence::new(values.len() as u64, offset as u64);
    let mut shuffled = values.to_vec();
    let as_clear = (0..SHUFFLES).filter(|_| {
        shuffle(&mut shuffled, &mut random);
        clearest(&shuffled).1 >= clarity
    });
    let p_value = (as_clear.count() + 1) as f64 / f64::from(SHUFFLES + 1);
    if p_value > P_VALUE_MAX || clarity <= 0.0 {
        return;
    }
    found.push((offset + at, p_value));
    divide(&values[..at], offset, found);
    divide(&values[at..], offset + at, found);
}

/// Where the means on both sides differ most, weighed by how many values they stand on, and how much (the
/// statistic of binary segmentation: the share of the squares that the division explains).
fn clearest(values: &[f64]) -> (usize, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let (mut best, mut sum) = ((0, 0.0), 0.0);
    for (index, value) in values.iter().enumerate().take(values.len() - 1) {
        sum += value - mean;
        let left = (index + 1) as f64;
        let clarity = sum * sum * n / (left * (n - left));
        if clarity > best.1 {
            best = (index + 1, clarity);
        }
    }
    best
}

fn shuffle(values: &mut [f64], random: &mut Sequence) {
    for last in (1..values.len()).rev() {
        values.swap(last, below(random.bits(), last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values within 1 % of these levels.
    fn history(levels: &[(usize, f64)]) -> Vec<f64> {
        let mut random = Sequence::new(3, 3);
        let mut around = |level: f64| level * (1.0 + (random.unit() - 0.5) / 50.0);
        levels.iter().flat_map(|&(count, level)| vec![level; count]).map(&mut around).collect()
    }

    #[test]
    fn jumps_are_found_where_they_are() {
        let found = changes(&history(&[(10, 100.0), (12, 90.0), (10, 99.0)]), 2.0);
        assert_eq!(found.iter().map(|change| change.at).collect::<Vec<_>>(), [10, 22]);
        assert!((found[0].change_pct + 10.0).abs() < 1.0 && (found[1].change_pct - 10.0).abs() < 1.0);
        assert!(found.iter().all(|change| change.p_value <= 0.05));
    }

    #[test]
    fn noise_and_small_changes_are_none() {
        assert_eq!(changes(&history(&[(30, 100.0)]), 2.0), []);
        assert_eq!(changes(&[5.0; 20], 0.0), []);
        assert_eq!(changes(&history(&[(15, 100.0), (15, 98.0)]), 5.0), [], "below the threshold");
        assert_eq!(changes(&[1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0], 2.0), [], "too short");
    }

    #[test]
    fn false_alarms_are_as_rare_as_said() {
        let mut random = Sequence::new(11, 0);
        let mut quiet = || (0..12).map(|_| 100.0 + random.unit()).collect::<Vec<f64>>();
        // Sixty would not do: 8 came in one such lot, although 2000 bring 102. The bounds are three standard
        // deviations.
        let alarms = (0..600).filter(|_| !changes(&quiet(), 0.0).is_empty()).count();
        assert!((14..=46).contains(&alarms), "{alarms} of 600 where 30 are expected");
    }
}
