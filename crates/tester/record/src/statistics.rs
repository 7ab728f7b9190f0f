//! Summaries of repeated searches, with their intervals, comparisons, drifts and changes.

mod bootstrap;
mod changes;
mod comparison;
mod order;
mod trend;

pub use bootstrap::{Interval, bca};
pub use changes::{CHANGES_MIN, Change, changes};
pub use comparison::{Comparison, RUNS_MIN, Verdict, compare, noise_floor_pct};
pub use order::{Side, abba};
pub use trend::{Drift, drift};

use crate::{GoalSummary, MedianInterval, Run, Settings, Steadiness, Summary};

/// The smallest value x of sorted `values` with F(x) >= `percent` / 100 (RFC 2330 11.3); `None` if there are
/// none.
pub fn percentile(sorted: &[u64], percent: f64) -> Option<u64> {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).checked_sub(1)?).copied()
}

/// Summarizes the rates of the runs, with the widest stop width among them; `None` if there are none.
pub fn summarize(rates_qps: &[u64], stop_width_qps: u64) -> Option<Summary> {
    let mut sorted = rates_qps.to_vec();
    sorted.sort_unstable();
    let n = sorted.len();
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let median = (sorted[(n - 1) / 2] as f64 + sorted[n / 2] as f64) / 2.0;
    Some(Summary {
        n,
        median,
        p1: percentile(&sorted, 1.0)?,
        p99: percentile(&sorted, 99.0)?,
        min,
        max,
        dispersion_pct: if median > 0.0 { (max - min) as f64 / median * 100.0 } else { 0.0 },
        median_interval: median_interval(&sorted),
        stop_width_qps,
        stop_width_connections: None,
    })
}

/// Summarizes the numbers of connections of the runs, likewise.
pub fn summarize_connections(numbers: &[u64], stop_width: u64) -> Option<Summary> {
    summarize(numbers, 0).map(|summary| Summary { stop_width_connections: Some(stop_width), ..summary })
}

/// The median; `None` if there are no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    Some((sorted.get(n.checked_sub(1)? / 2)? + sorted[n / 2]) / 2.0)
}

/// Summarizes each goal of a search over the runs that came to their end.
pub fn summarize_goals(settings: &Settings, runs: &[Run]) -> Vec<GoalSummary> {
    let of_goal = |(index, goal): (usize, &crate::Goal)| {
        let found: Vec<_> =
            runs.iter().filter(|run| run.came_to_its_end()).filter_map(|run| run.goals.get(index)).collect();
        let rates: Vec<u64> = found.iter().map(|one| one.lower_qps.unwrap_or(0)).collect();
        let width =
            found.iter().filter_map(|one| Some(one.upper_qps? - one.lower_qps?.min(one.upper_qps?))).max();
        let conditional: Vec<f64> = found.iter().map(|one| one.conditional_qps).collect();
        Some(GoalSummary {
            loss_pct: goal.loss_pct,
            exceed_pct: goal.exceed_pct,
            lower: summarize(&rates, width.unwrap_or(0))?,
            conditional_median_qps: median(&conditional)?,
        })
    };
    settings.goals.iter().enumerate().filter_map(of_goal).collect()
}

/// The loss ratios, in percent, whose goals make the noise index.
const NOISE_GOALS_PCT: [f64; 2] = [0.0, 0.01];

/// How steady the runs that came to their end are, in the order they were run; `None` before there are two.
pub fn steadiness(runs: &[Run], goals: &[GoalSummary]) -> Option<Steadiness> {
    let rates: Vec<f64> =
        runs.iter().filter(|run| run.came_to_its_end()).map(|run| run.found() as f64).collect();
    let at = |loss_pct: f64| {
        goals.iter().find(|goal| (goal.loss_pct - loss_pct).abs() < 1e-9).map(|goal| goal.lower.median)
    };
    let [strict, lenient] = NOISE_GOALS_PCT.map(at);
    let drift = drift(&rates);
    (rates.len() >= 2).then(|| Steadiness {
        drift_pct: drift.map(|drift| drift.change_pct),
        drift_p_value: drift.map(|drift| drift.p_value),
        noise_floor_pct: noise_floor_pct(&rates),
        noise_index_pct: strict
            .zip(lenient)
            .filter(|(strict, _)| *strict > 0.0)
            .map(|(strict, lenient)| (lenient / strict - 1.0) * 100.0),
    })
}

/// The narrowest pair of order statistics that holds the median with at least 95 % confidence: the ranks k
/// and n + 1 - k, whose coverage is 1 - 2 * P(Binomial(n, 1/2) < k). Fewer than six values allow none.
fn median_interval(sorted: &[u64]) -> Option<MedianInterval> {
    let n = sorted.len();
    let mut term = 0.5f64.powi(i32::try_from(n).ok()?);
    let (mut below, mut best) = (0.0, None);
    for k in 1..=n / 2 {
        below += term;
        term *= (n - k + 1) as f64 / k as f64;
        let coverage = 1.0 - 2.0 * below;
        if coverage < 0.95 {
            break;
        }
        best = Some(MedianInterval {
            low: sorted[k - 1],
            high: sorted[n - k],
            confidence_pct: coverage * 100.0,
        });
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_twenty_runs_p1_is_the_minimum_and_p99_the_maximum() {
        let rates: Vec<u64> = (1..=20).map(|k| k * 100).collect();
        let summary = summarize(&rates, 10).unwrap();
        assert_eq!((summary.p1, summary.p99, summary.median), (100, 2000, 1050.0));
        let interval = summary.median_interval.unwrap();
        assert_eq!((interval.low, interval.high), (600, 1500), "the 6th and the 15th");
        assert!((interval.confidence_pct - 95.86).abs() < 0.01);
        assert!((summary.dispersion_pct - 1900.0 / 1050.0 * 100.0).abs() < 1e-9);
    }

    #[test]
    fn few_runs_have_no_interval() {
        assert_eq!(summarize(&[], 0), None);
        let summary = summarize(&[5, 7, 6], 1).unwrap();
        assert_eq!((summary.median, summary.p1, summary.p99, summary.median_interval), (6.0, 5, 7, None));
        assert!(summarize(&[1, 2, 3, 4, 5, 6], 1).unwrap().median_interval.is_some());
    }

    #[test]
    fn goals_are_summarized_and_their_gap_is_the_noise() {
        use crate::{Goal, GoalResult};
        let goal = |loss_pct| Goal { loss_pct, ..Goal::default() };
        let settings = Settings { goals: vec![goal(0.0), goal(0.01)], ..Settings::default() };
        let result = |lower: u64| GoalResult {
            lower_qps: Some(lower),
            upper_qps: Some(lower + 7),
            conditional_qps: lower as f64 - 1.0,
            at_ceiling: false,
        };
        let run =
            |complete, a, b| Run { complete, qps: a, goals: vec![result(a), result(b)], ..Run::default() };
        let runs = [run(true, 1000, 1100), run(true, 1010, 1111), run(false, 1, 1)];
        let goals = summarize_goals(&settings, &runs);
        assert_eq!((goals[0].lower.median, goals[1].lower.median), (1005.0, 1105.5));
        assert_eq!((goals[0].conditional_median_qps, goals[1].lower.stop_width_qps), (1004.0, 7));
        let steady = steadiness(&runs, &goals).unwrap();
        assert!((steady.noise_index_pct.unwrap() - 10.0).abs() < 1e-9);
        assert_eq!((steady.drift_pct, steady.noise_floor_pct), (None, None), "too few runs");
        assert_eq!(steadiness(&runs[1..], &[]), None);
    }

    #[test]
    fn percentiles_follow_rfc_2330() {
        // The example of RFC 2330 11.3 (-2, 7, 7, 4, 18, -5), each value raised by 5.
        let sorted = [0, 3, 9, 12, 12, 23];
        assert_eq!(percentile(&sorted, 25.0), Some(3));
        assert_eq!(percentile(&sorted, 50.0), Some(9));
        assert_eq!(percentile(&sorted, 100.0), Some(23));
        assert_eq!(percentile(&[], 50.0), None);
    }
}
