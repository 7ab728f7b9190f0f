//! The spans in which queries may have failed for a reason other than the server: pauses of the Tester, load
//! of others on this machine, an AuthDNS that was slow.
//!
//! A disturbance explains a limited number of failures, and only of queries that were due in its windows.
//! Failures that no disturbance explains are the server's.

use std::ops::Range;

use record::limits::LOAD_SAMPLES;
use record::{Cause, Disturbance, Trial};

use super::Limits;
use crate::circumstances::{Circumstances, LoadSample};
use crate::pacer::{SECOND_NS, Schedule};
use crate::stats::{Stats, WINDOW_NS};

/// A span of windows of 10 ms, and so many failures in it that its cause explains.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The windows, by their number from the start of the schedule.
    pub windows: Range<usize>,
    /// What disturbed.
    pub cause: Cause,
    /// So many failures it explains at most.
    pub explains: u64,
}

impl Span {
    /// The failures in the span, of those of each window.
    fn failed(&self, failures: &[u32]) -> u64 {
        let end = self.windows.end.min(failures.len());
        let within = failures.get(self.windows.start..end).unwrap_or_default();
        within.iter().map(|&count| u64::from(count)).sum()
    }

    /// For the record.
    fn to_record(&self, failures: &[u32]) -> Disturbance {
        let seconds = |window: usize| window as f64 * WINDOW_NS as f64 / SECOND_NS as f64;
        Disturbance {
            from_s: seconds(self.windows.start),
            until_s: seconds(self.windows.end),
            cause: self.cause.clone(),
            explains: self.explains,
            failed: self.failed(failures),
        }
    }
}

/// Those spans in which queries failed, for the record: the earliest ones.
pub(crate) fn disturbances_in_record(spans: &[Span], failures: &[u32]) -> Vec<Disturbance> {
    let mut disturbances: Vec<Disturbance> = spans
        .iter()
        .map(|span| span.to_record(failures))
        .filter(|disturbance| disturbance.failed > 0)
        .collect();
    disturbances.sort_by(|one, other| one.from_s.total_cmp(&other.from_s));
    disturbances.truncate(Trial::DISTURBANCES_MAX);
    disturbances
}

/// How many of the failures of each window no span of these causes explains.
pub(super) fn unexplained(failures: &[u32], spans: &[Span], causes: &[Cause]) -> u64 {
    let mut left = failures.to_vec();
    for span in spans.iter().filter(|span| causes.contains(&span.cause)) {
        let mut explains = span.explains;
        let end = span.windows.end.min(left.len());
        for count in left.get_mut(span.windows.start..end).unwrap_or_default() {
            let taken = u64::from(*count).min(explains);
            *count -= taken as u32;
            explains -= taken;
        }
    }
    left.iter().map(|&count| u64::from(count)).sum()
}

/// All spans of a trial, by cause, those first that explain most; within a cause in the order of time.
pub(crate) fn disturbances(
    schedule: &Schedule,
    stats: &Stats,
    circumstances: &Circumstances,
    limits: &Limits,
) -> Vec<Span> {
    let pauses = stats.pauses().into_iter().map(|pause| Span {
        windows: pause.windows,
        cause: Cause::TesterCpu,
        explains: pause.displaced,
    });
    let window = |instant_ns: u64| (instant_ns.saturating_sub(schedule.start_ns) / WINDOW_NS) as usize;
    // A query may have waited for its answer since a timeout before.
    let due = |windows: &Range<usize>| windows.clone().map(|at| stats.due_in(at)).sum::<u64>();
    let slow = circumstances.auth_late.iter().map(|waited| {
        let windows = window(waited.start.saturating_sub(limits.timeout_ns))..window(waited.end) + 1;
        let explains = due(&windows);
        Span { windows, cause: Cause::AuthDns, explains }
    });
    let load = loaded(&circumstances.load, limits).filter_map(|(sample, taken_ns)| {
        let end_ns = sample.until_ns.checked_sub(1).filter(|&end_ns| end_ns >= schedule.start_ns)?;
        let within = window(sample.from_ns)..window(end_ns) + 1;
        let after = taken_ns.div_ceil(WINDOW_NS) as usize;
        // What was due in so much time.
        let within_ns = within.len() as u64 * WINDOW_NS;
        let explains = due(&within) as f64 * taken_ns as f64 / within_ns.max(1) as f64;
        Some(Span {
            windows: within.start.saturating_sub(1)..within.end + after,
            cause: Cause::OtherLoad,
            explains: explains.ceil() as u64,
        })
    });
    slow.chain(pauses).chain(load).collect()
}

/// Whether any of these samples of the load counts as loaded.
pub fn is_loaded(samples: &[LoadSample], limits: &Limits) -> bool {
    loaded(samples, limits).next().is_some()
}

/// The samples of the load that are above the limits with those around them, each with the time that was
/// taken from the server in it: at most its length, for the server waits for no more.
fn loaded<'a>(samples: &'a [LoadSample], limits: &Limits) -> impl Iterator<Item = (&'a LoadSample, u64)> {
    let (foreign_pct, steal_pct) = (limits.foreign_load_pct, limits.steal_pct);
    let around = LOAD_SAMPLES.value as usize / 2;
    samples.iter().enumerate().filter_map(move |(at, sample)| {
        let near = &samples[at.saturating_sub(around)..(at + around + 1).min(samples.len())];
        let length_ns: u64 = near.iter().map(LoadSample::length_ns).sum();
        let exceeds = |of: fn(&LoadSample) -> u64, pct: f64| {
            near.iter().map(of).sum::<u64>() as f64 * 100.0 >= pct * length_ns.max(1) as f64
        };
        let mut taken_ns = 0;
        if exceeds(|sample| sample.steal_ns, steal_pct) {
            taken_ns += sample.steal_ns;
        }
        if exceeds(LoadSample::foreign_ns, foreign_pct) {
            taken_ns += sample.foreign_ns();
        }
        (taken_ns > 0).then_some((sample, taken_ns.min(sample.length_ns())))
    })
}
