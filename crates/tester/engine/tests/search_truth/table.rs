//! What many measurements found, as a row of the table.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::cases::{Case, Search};
use crate::measurement::{Measured, Run, measure};

/// The measurements of one server by one search, with the seeds from 0 on.
pub struct Sample<'a> {
    case: &'a Case,
    search: &'a Search,
    /// Of each measurement that has a result: the run in the middle and the lowest one.
    results: Vec<(Run, Run)>,
    seeds: u64,
    trials: usize,
    voids: usize,
}

impl<'a> Sample<'a> {
    pub fn new(case: &'a Case, search: &'a Search, seeds: u64) -> Self {
        let all = measurements(case, search, seeds);
        // Of an interval the lower end.
        let results = all.iter().filter_map(|measured| {
            middle_and_lowest(&measured.runs)
                .or_else(|| measured.interval.map(|found| (found.low, found.low)))
        });
        let results = results.collect();
        let trials = all.iter().map(|measured| measured.trials).sum();
        let voids = all.iter().map(|measured| measured.voids).sum();
        Self { case, search, results, seeds, trials, voids }
    }

    /// How many measurements have a figure above the knee by more than the width of the search.
    fn above(&self, figure: impl Fn(&(Run, Run)) -> u64) -> usize {
        let most = self.case.nature.knee_qps as f64 * (1.0 + self.search.width_pct / 100.0);
        self.results.iter().filter(|result| figure(result) as f64 > most).count()
    }

    /// How many results are too high.
    pub fn too_high(&self) -> usize {
        self.above(|(middle, _)| middle.qps)
    }

    /// Of how many results even the rate that the server kept up is too high.
    pub fn kept_too_high(&self) -> usize {
        self.above(|(middle, _)| middle.kept_qps)
    }

    /// Measurements with a result.
    pub fn found(&self) -> usize {
        self.results.len()
    }

    /// The result at this percentile, as a share of the knee (RFC 2330 11.3).
    pub fn percentile(&self, percent: usize) -> Option<f64> {
        let mut rates: Vec<u64> = self.results.iter().map(|(middle, _)| middle.qps).collect();
        rates.sort_unstable();
        let rank = (rates.len() * percent).div_ceil(100).checked_sub(1)?;
        Some(*rates.get(rank)? as f64 / self.case.nature.knee_qps as f64)
    }

    /// A row of the table.
    pub fn row(&self) -> String {
        let share = |part: usize, whole: usize| match whole {
            0 => "-".to_owned(),
            _ => format!("{:.1}", part as f64 * 100.0 / whole as f64),
        };
        let percentile = |percent| self.percentile(percent).map_or("-".into(), |share| format!("{share:.3}"));
        let found = self.results.len();
        let lowest = || share(self.above(|(_, lowest)| lowest.qps), found);
        let cells = [
            percentile(5),
            percentile(50),
            percentile(95),
            share(self.too_high(), found),
            if self.search.runs > 1 { lowest() } else { "-".into() },
            share(self.kept_too_high(), found),
            format!("{:.1}", self.trials as f64 / self.seeds as f64),
            share(self.voids, self.trials),
            share(self.seeds as usize - found, self.seeds as usize),
        ];
        format!("{}{} |\n", label(self.search, self.case), cells.join(" | "))
    }
}

/// Of some runs the one in the middle and the lowest one.
pub fn middle_and_lowest(runs: &[Run]) -> Option<(Run, Run)> {
    let mut runs = runs.to_vec();
    runs.sort_by_key(|run| run.qps);
    Some((*runs.get(runs.len().checked_sub(1)? / 2)?, *runs.first()?))
}

/// The head of the table.
pub const HEAD: &str = "\
| search | server | P5 | median | P95 | above | P1 above | kept up above | trials | void | no result |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|
";

/// Where, behind the label, a row says how many results are too high.
pub const ABOVE: usize = 3;
/// Likewise of the rates that the server kept up.
pub const KEPT_UP_ABOVE: usize = 5;

/// The first cells of a row.
pub fn label(search: &Search, case: &Case) -> String {
    format!("| `{}` | {} | ", search.name, case.name)
}

/// One for each seed, in their order, on all processors.
pub fn measurements(case: &Case, search: &Search, seeds: u64) -> Vec<Measured> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return done;
            }
            done.push((seed, measure(case, search, seed)));
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all: Vec<(u64, Measured)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    all.sort_by_key(|(seed, _)| *seed);
    all.into_iter().map(|(_, measured)| measured).collect()
}
