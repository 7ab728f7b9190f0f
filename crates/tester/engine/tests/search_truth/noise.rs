//! What many measurements on a noisy machine found, as a row of the second table.

use crate::cases::{Case, Claim, Search};
use crate::measurement::{Interval, Measured, Run};
use crate::table::{measurements, middle_and_lowest};

/// The measurements of one server on one machine by one search, with the seeds from 0 on.
pub struct NoisySample<'a> {
    case: &'a Case,
    search: &'a Search,
    all: Vec<Measured>,
}

/// The head of the table.
pub const HEAD: &str = "\
| search | machine | server | a rate | above | an interval | holds the knee | lower end | upper end | open | void | waited, s | minutes | longest |
|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
";
/// Where, behind the label, a row says how many measurements have a rate, and how many of these are too high.
pub const RATES: usize = 0;
pub const ABOVE: usize = 1;
/// Likewise, how many have an interval, and how many of these hold the knee.
pub const INTERVALS: usize = 2;
pub const HOLDS: usize = 3;

/// The first cells of a row.
pub fn label(search: &Search, case: &Case) -> String {
    format!("| `{}` | {} | {} | ", search.name, case.others.name, case.name)
}

impl<'a> NoisySample<'a> {
    pub fn new(case: &'a Case, search: &'a Search, seeds: u64) -> Self {
        Self { case, search, all: measurements(case, search, seeds) }
    }

    /// What a run claims: where the server's queue swallows what is too much, the rate that it kept up.
    fn claimed(&self, run: &Run) -> f64 {
        let qps = if Claim::of(self.search, self.case) == Claim::KeptUp { run.kept_qps } else { run.qps };
        qps as f64
    }

    fn is_too_high(&self, run: &Run) -> bool {
        self.claimed(run) > self.case.nature.knee_qps as f64 * (1.0 + self.search.width_pct / 100.0)
    }

    /// Measurements with a rate, and those of them whose rate is too high.
    pub fn rates(&self) -> (usize, usize) {
        let found: Vec<Run> =
            self.all.iter().filter_map(|one| Some(middle_and_lowest(&one.runs)?.0)).collect();
        (found.len(), found.iter().filter(|run| self.is_too_high(run)).count())
    }

    fn intervals(&self) -> Vec<Interval> {
        self.all.iter().filter_map(|measured| measured.interval).collect()
    }

    /// Measurements with an interval, and those of them whose interval holds the knee, up to the width of the
    /// search.
    pub fn held(&self) -> (usize, usize) {
        let knee_qps = self.case.nature.knee_qps;
        let holds = |found: &&Interval| {
            !self.is_too_high(&found.low) && found.high_qps.is_none_or(|high_qps| high_qps >= knee_qps)
        };
        let intervals = self.intervals();
        (intervals.len(), intervals.iter().filter(holds).count())
    }

    /// How long the longest one took, in minutes.
    pub fn longest_min(&self) -> f64 {
        self.all.iter().map(|measured| measured.length_ms).max().unwrap_or(0) as f64 / 60_000.0
    }

    /// A row of the table.
    pub fn row(&self) -> String {
        let share = |part: usize, whole: usize| match whole {
            0 => "-".to_owned(),
            _ => format!("{:.1}", part as f64 * 100.0 / whole as f64),
        };
        let knee_qps = self.case.nature.knee_qps as f64;
        let end = |mut ends: Vec<f64>| {
            ends.sort_by(f64::total_cmp);
            ends.get(ends.len() / 2).map_or("-".into(), |end| format!("{:.3}", end / knee_qps))
        };
        let mean = |of: fn(&Measured) -> f64| {
            format!("{:.1}", self.all.iter().map(of).sum::<f64>() / self.all.len() as f64)
        };
        let ((found, above), (intervals, held)) = (self.rates(), self.held());
        let (seeds, all) = (self.all.len(), self.intervals());
        let open = all.iter().filter(|interval| interval.high_qps.is_none()).count();
        let trials: usize = self.all.iter().map(|measured| measured.trials).sum();
        let voids: usize = self.all.iter().map(|measured| measured.voids).sum();
        let cells = [
            share(found, seeds),
            share(above, found),
            share(intervals, seeds),
            share(held, intervals),
            end(all.iter().map(|interval| self.claimed(&interval.low)).collect()),
            end(all.iter().filter_map(|interval| Some(interval.high_qps? as f64)).collect()),
            share(open, intervals),
            share(voids, trials),
            mean(|measured| measured.waited_ms as f64 / 1000.0),
            mean(|measured| measured.length_ms as f64 / 60_000.0),
            format!("{:.1}", self.longest_min()),
        ];
        format!("{}{} |\n", label(self.search, self.case), cells.join(" | "))
    }
}
