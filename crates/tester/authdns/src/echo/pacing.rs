//! How evenly queries came, as an independent receiver sees it: counts in windows of 1, 10 and 100 ms.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// The most milliseconds that are kept: 17 minutes.
const SERIES_MS_MAX: usize = 1 << 20;
const NS_IN_MS: u64 = 1_000_000;
/// The unit in which the beginning and the end of the load are found, in ms.
const EDGE_MS: usize = 10;
/// The windows, in ms.
const WIDTHS_MS: [usize; 3] = [1, 10, 100];

/// What one thread notes: the queries of each millisecond since the first one of all threads.
pub struct Arrivals {
    first_ns: Arc<AtomicU64>,
    series: Vec<u64>,
}

impl Arrivals {
    /// Nothing yet. `first_ns` is shared by the threads, and 0 until the first query.
    pub fn since(first_ns: Arc<AtomicU64>) -> Self {
        Self { first_ns, series: Vec::new() }
    }

    /// Notes a query that arrived at this time, in ns on any one clock.
    pub fn note(&mut self, at_ns: u64) {
        let first_ns = match self.first_ns.compare_exchange(0, at_ns, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => at_ns,
            Err(first_ns) => first_ns,
        };
        // Another thread's query may have come an instant before the one that was noted first.
        let ms = (at_ns.saturating_sub(first_ns) / NS_IN_MS) as usize;
        if ms >= SERIES_MS_MAX {
            return;
        }
        if ms >= self.series.len() {
            self.series.resize(ms + 1, 0);
        }
        self.series[ms] += 1;
    }

    /// Adds what was noted to the sum of all threads.
    pub fn add_to(&self, sum: &mut Vec<u64>) {
        sum.resize(sum.len().max(self.series.len()), 0);
        for (all, own) in sum.iter_mut().zip(&self.series) {
            *all += own;
        }
    }
}

/// The verdict on a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pacing {
    /// Queries in the part that is judged.
    pub queries: u64,
    /// Queries before and after it.
    pub outside: u64,
    /// Where it begins, in ms after the first query.
    pub begin_ms: usize,
    /// The length of the part that is judged, in ms.
    pub length_ms: usize,
    /// Queries per second in it.
    pub mean_qps: f64,
    /// What the deviations refer to: the rate that was wanted, or the mean.
    pub nominal_qps: f64,
    /// The longest time without a query, in whole ms.
    pub silence_longest_ms: usize,
    /// Windows of 1, 10 and 100 ms.
    pub windows: Vec<Windows>,
}

/// The counts in windows of one width.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Windows {
    /// The width of the windows in ms.
    pub width_ms: usize,
    /// How many whole ones the part has.
    pub windows: usize,
    /// Standard deviation of the counts in percent of their mean (coefficient of variation).
    pub cv_pct: f64,
    /// The same for a sender without fault at the nominal rate: a window has whole queries only.
    pub cv_ideal_pct: f64,
    /// The largest deviation from the nominal count, in percent of it, with its sign.
    pub worst_pct: f64,
    /// Where that window begins, in ms after the first query.
    pub worst_at_ms: usize,
    /// Windows without a query.
    pub empty: usize,
    /// The fewest queries in a window.
    pub fewest: u64,
    /// The most.
    pub most: u64,
}

impl Pacing {
    /// Judges the load of a series of queries per millisecond. Probes before the load and stragglers after it
    /// do not count: the part judged lies between the first and the last 10 ms that have at least half the
    /// queries of the median 10 ms with any, and these two are left out for they may be filled in part.
    /// `None` where nothing is left.
    pub fn of(series: &[u64], nominal_qps: Option<f64>) -> Option<Self> {
        let (begin, end) = edges(series)?;
        let body = &series[begin..end];
        let queries: u64 = body.iter().sum();
        let mean_qps = queries as f64 * 1e3 / body.len() as f64;
        let nominal_qps = nominal_qps.unwrap_or(mean_qps);
        let windows = |width: &usize| Windows::of(body, *width, begin, nominal_qps);
        Some(Self {
            queries,
            outside: series.iter().sum::<u64>() - queries,
            begin_ms: begin,
            length_ms: body.len(),
            mean_qps,
            nominal_qps,
            silence_longest_ms: body.split(|&count| count > 0).map(<[u64]>::len).max().unwrap_or(0),
            windows: WIDTHS_MS.iter().filter_map(windows).collect(),
        })
    }
}

/// Where the part that is judged begins and ends, in ms.
fn edges(series: &[u64]) -> Option<(usize, usize)> {
    let tens: Vec<u64> = series.chunks(EDGE_MS).map(|ten| ten.iter().sum()).collect();
    let mut filled: Vec<u64> = tens.iter().copied().filter(|&count| count > 0).collect();
    filled.sort_unstable();
    let median = *filled.get(filled.len() / 2)?;
    let loaded = |count: &u64| count * 2 >= median;
    let (first, last) = (tens.iter().position(loaded)?, tens.iter().rposition(loaded)?);
    let (begin, end) = ((first + 1) * EDGE_MS, last * EDGE_MS);
    (begin < end).then_some((begin, end))
}

impl Windows {
    fn of(body: &[u64], width: usize, begin: usize, nominal_qps: f64) -> Option<Self> {
        let counts: Vec<u64> = body.chunks_exact(width).map(|window| window.iter().sum()).collect();
        let number = counts.len() as f64;
        let (&fewest, &most) = (counts.iter().min()?, counts.iter().max()?);
        let mean = counts.iter().sum::<u64>() as f64 / number;
        let variance = counts.iter().map(|&count| (count as f64 - mean).powi(2)).sum::<f64>() / number;
        let nominal = nominal_qps * width as f64 / 1e3;
        let deviation_pct = |count: u64| (count as f64 - nominal) / nominal * 100.0;
        let apart = |at: &usize| deviation_pct(counts[*at]).abs();
        let worst = (0..counts.len()).max_by(|a, b| apart(a).total_cmp(&apart(b)))?;
        let fraction = nominal.fract();
        Some(Self {
            width_ms: width,
            windows: counts.len(),
            cv_pct: percent_of(variance.sqrt(), mean),
            cv_ideal_pct: percent_of((fraction * (1.0 - fraction)).sqrt(), nominal),
            worst_pct: deviation_pct(counts[worst]),
            worst_at_ms: begin + worst * width,
            empty: counts.iter().filter(|&&count| count == 0).count(),
            fewest,
            most,
        })
    }
}

/// Zero of nothing, where there may be nothing.
fn percent_of(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole * 100.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The series of arrivals at these times.
    fn series(times_ns: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut arrivals = Arrivals::since(Arc::default());
        times_ns.into_iter().for_each(|at_ns| arrivals.note(at_ns));
        let mut sum = Vec::new();
        arrivals.add_to(&mut sum);
        sum
    }

    /// The times of a sender without fault.
    fn even(rate_qps: u64, seconds: u64) -> impl Iterator<Item = u64> {
        (0..rate_qps * seconds).map(move |n| 1_700_000_000_000_000_000 + n * 1_000_000_000 / rate_qps)
    }

    #[test]
    fn lb_an_even_load_has_no_deviation() {
        let pacing = Pacing::of(&series(even(100_000, 2)), None).unwrap();
        assert_eq!((pacing.begin_ms, pacing.length_ms, pacing.queries), (10, 1980, 198_000));
        assert_eq!((pacing.mean_qps, pacing.nominal_qps, pacing.outside), (100_000.0, 100_000.0, 2000));
        assert_eq!(pacing.silence_longest_ms, 0);
        for (windows, number) in pacing.windows.iter().zip([1980, 198, 19]) {
            assert_eq!(windows.windows, number);
            assert_eq!((windows.cv_pct, windows.cv_ideal_pct, windows.worst_pct), (0.0, 0.0, 0.0));
            assert_eq!((windows.fewest, windows.most), (100 * windows.width_ms as u64, windows.most));
        }
    }

    #[test]
    fn lb_whole_queries_are_the_floor_of_the_variation() {
        // 70.4 queries in each millisecond: 70 or 71.
        let pacing = Pacing::of(&series(even(70_400, 3)), Some(70_400.0)).unwrap();
        let [one, ten, hundred] = &pacing.windows[..] else { panic!("three widths") };
        assert_eq!((one.fewest, one.most, ten.fewest), (70, 71, 704));
        assert!((one.cv_pct - one.cv_ideal_pct).abs() < 0.01, "{one:?}");
        assert!((one.cv_ideal_pct - 0.24_f64.sqrt() / 70.4 * 100.0).abs() < 1e-6);
        assert!(ten.cv_pct < 1e-9 && hundred.cv_pct < 1e-9);
    }

    #[test]
    fn lb_bursts_holes_and_wrong_rates_are_seen_where_they_are() {
        // All queries of two milliseconds in the second of them.
        let bursty = even(100_000, 1).map(|at_ns| at_ns / 2_000_000 * 2_000_000 + 1_000_000);
        let pacing = Pacing::of(&series(bursty), None).unwrap();
        let one = &pacing.windows[0];
        assert_eq!((one.cv_pct, one.worst_pct.abs(), one.fewest, one.most), (100.0, 100.0, 0, 200));
        assert_eq!((one.empty * 2, pacing.windows[1].cv_pct), (one.windows, 0.0));
        assert_eq!(pacing.silence_longest_ms, 1);

        // A pause of 30 ms whose queries are lost.
        let start = 1_700_000_000_000_000_000;
        let holed = even(100_000, 1).filter(|at_ns| !(500_000_000..530_000_000).contains(&(at_ns - start)));
        let pacing = Pacing::of(&series(holed), Some(100_000.0)).unwrap();
        assert_eq!(
            (pacing.silence_longest_ms, pacing.windows[0].empty, pacing.windows[1].empty),
            (30, 30, 3)
        );
        let [_, ten, hundred] = &pacing.windows[..] else { panic!("three widths") };
        assert!((500..530).contains(&ten.worst_at_ms) && ten.worst_pct == -100.0, "{ten:?}");
        // The windows begin 10 ms after the first query: a third of the pause lies in the one before.
        assert_eq!((hundred.worst_pct, hundred.worst_at_ms), (-20.0, 510));

        let pacing = Pacing::of(&series(even(101_000, 1)), Some(100_000.0)).unwrap();
        assert_eq!(
            (pacing.mean_qps, pacing.windows[1].worst_pct, pacing.windows[1].cv_pct),
            (101_000.0, 1.0, 0.0)
        );
    }

    #[test]
    fn lb_probes_and_stragglers_do_not_count() {
        let start = 1_700_000_000_000_000_000;
        let load = even(20_000, 1).map(|at_ns| at_ns + 300_000_000);
        let whole = [start].into_iter().chain(load).chain([start + 1_900_000_000]);
        let pacing = Pacing::of(&series(whole), None).unwrap();
        assert_eq!((pacing.begin_ms, pacing.length_ms, pacing.mean_qps), (310, 980, 20_000.0));
        assert_eq!((pacing.outside, pacing.silence_longest_ms), (402, 0));
    }

    #[test]
    fn lb_too_little_is_not_judged() {
        assert_eq!(Pacing::of(&[], None), None);
        assert_eq!(Pacing::of(&[0; 50], None), None);
        assert_eq!(Pacing::of(&[7; 20], None), None, "two edges and nothing between");
        assert_eq!(Pacing::of(&[7; 30], None).unwrap().length_ms, 10);
    }

    #[test]
    fn lb_threads_share_their_first_query() {
        let first_ns = Arc::default();
        let (mut one, mut other) = (Arrivals::since(Arc::clone(&first_ns)), Arrivals::since(first_ns));
        one.note(5_000_000);
        other.note(4_999_999);
        other.note(7_500_000);
        other.note(u64::MAX);
        let mut sum = Vec::new();
        one.add_to(&mut sum);
        other.add_to(&mut sum);
        assert_eq!(sum, [2, 0, 1]);
    }
}
