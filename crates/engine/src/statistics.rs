//! Summaries of repeated searches.

use crate::record::{MedianInterval, Summary};

/// The smallest value x of sorted `values` with F(x) >= `percent` / 100 (RFC 2330 11.3); `None` if there are none.
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
    })
}

/// The narrowest pair of order statistics that holds the median with at least 95 % confidence: the ranks k and
/// n + 1 - k, whose coverage is 1 - 2 * P(Binomial(n, 1/2) < k). Fewer than six values allow none.
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
    fn percentiles_follow_rfc_2330() {
        // The example of RFC 2330 11.3 (-2, 7, 7, 4, 18, -5), each value raised by 5.
        let sorted = [0, 3, 9, 12, 12, 23];
        assert_eq!(percentile(&sorted, 25.0), Some(3));
        assert_eq!(percentile(&sorted, 50.0), Some(9));
        assert_eq!(percentile(&sorted, 100.0), Some(23));
        assert_eq!(percentile(&[], 50.0), None);
    }
}
