//! The rate search: from the trials so far to the next one. A pure function, so that a search can be
//! replayed.

mod bisection;
mod goal;
mod mlr;
mod recorded;
mod voids;

pub use goal::Goal;
pub use mlr::{GoalBounds, goal_bounds};

use crate::circumstances::Validity;
use record::standing::Rule;
use record::{Outcome, Trial};
use voids::Undecided;

/// How to search.
#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    /// Bisection, every trial counts (RFC 8219 9).
    Rfc8219,
    /// Bisection; two trials that agree decide a rate ([`Rule::TwoDecide`]), and the rate found is confirmed.
    Verify,
    /// Trials at the highest rate only, as many as told.
    Fixed {
        /// Number of trials at that rate.
        trials: u32,
    },
    /// MLRsearch (RFC 9971): bounds for all of these goals; the first is the one that the search's result is
    /// about.
    Mlr(Vec<Goal>),
}

/// The search's frame.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchSpec {
    /// The rule by which rates are chosen.
    pub mode: Mode,
    /// The lowest rate worth trying, in q/s, at least 1.
    pub low_qps: u64,
    /// The highest rate that may be tried, in q/s: what the Tester is certified for.
    pub high_qps: u64,
    /// Length of a trial in ns; the goals of [`Mode::Mlr`] have their own.
    pub trial_ns: u64,
    /// Stop when the bracket is narrower than this share of its lower bound, in percent; likewise.
    pub width_pct: f64,
    /// So many void trials in a row leave a rate undecided, and the search goes on at other rates. This
    /// number times [`VOIDS_IN_SEARCH`](record::limits::VOIDS_IN_SEARCH) of them end the search, if they are
    /// more than [`VOID_SHARE`](record::limits::VOID_SHARE) of all.
    pub voids_max: u32,
}

/// A trial that was run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Its rate in q/s.
    pub rate_qps: u64,
    /// The length that was asked for in ns.
    pub duration_ns: u64,
    /// Pass, fail or void.
    pub outcome: Outcome,
    /// The share of its queries that got no valid answer in time, from 0 to 1.
    pub loss_ratio: f64,
}

impl Point {
    /// What a trial says to the search that asked for it. Its schedule may be a little shorter than asked, as
    /// queries are whole, but it is as long as a full-length trial gets.
    pub fn of(TrialInput { rate_qps, duration_ns }: TrialInput, trial: &Trial, validity: Validity) -> Self {
        let failed = trial.scheduled.saturating_sub(validity.counted(trial));
        Self {
            rate_qps,
            duration_ns,
            outcome: trial.outcome,
            loss_ratio: failed as f64 / trial.scheduled.max(1) as f64,
        }
    }
}

/// What a trial is told (RFC 9971: trial input).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialInput {
    /// The rate in q/s.
    pub rate_qps: u64,
    /// The length of the schedule in ns.
    pub duration_ns: u64,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Run this trial.
    Try(TrialInput),
    /// The search is over.
    Found(SearchResult),
    /// Void trials left this rate undecided, in q/s, and no rate passed: the search has no result.
    Unfit(u64),
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchResult {
    /// The highest rate that passed, 0 if none did.
    pub qps: u64,
    /// From there to the lowest rate above that failed, in q/s; 0 at the ceiling. Where void trials ended the
    /// search and none had failed, to the highest rate allowed.
    pub stop_width_qps: u64,
    /// The highest rate allowed passed.
    pub at_ceiling: bool,
    /// Void trials left this rate undecided, in q/s, which lies within the bracket.
    pub ended_by_voids_qps: Option<u64>,
}

/// The bracket of the rate: everything at `passed_qps` and below counts as passed, `failed_qps` and above as
/// failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bracket {
    /// The highest rate that passed; 0 if none did.
    pub passed_qps: u64,
    /// The lowest rate that failed; one above the ceiling if none did.
    pub failed_qps: u64,
}

/// What the trials so far say.
pub fn bracket(spec: &SearchSpec, history: &[Point]) -> Bracket {
    if let Mode::Mlr(goals) = &spec.mode {
        let first = goal_bounds(spec, &goals[..goals.len().min(1)], history);
        let of_first = |bound: fn(&GoalBounds) -> Option<u64>| first.first().and_then(bound);
        return Bracket {
            passed_qps: of_first(|bounds| bounds.lower_qps).unwrap_or(0),
            failed_qps: of_first(|bounds| bounds.upper_qps).unwrap_or(spec.high_qps + 1),
        };
    }
    let standings = bisection::standings(spec, history);
    Bracket {
        passed_qps: standings.passed_qps().unwrap_or(0),
        failed_qps: standings.failed_qps().unwrap_or(spec.high_qps + 1),
    }
}

/// The next step of a search.
pub fn next(spec: &SearchSpec, history: &[Point]) -> Next {
    let undecided = Undecided::of(spec, history);
    if let Some(last) = history.last().filter(|last| last.outcome == Outcome::Void) {
        if voids::are_too_many(spec, history) {
            return voids::known(spec, history, last.rate_qps);
        }
        if !undecided.has(last) {
            return Next::Try(TrialInput { rate_qps: last.rate_qps, duration_ns: last.duration_ns });
        }
    }
    let assumed = undecided.assumed(history);
    let next = match &spec.mode {
        Mode::Fixed { trials } => fixed(spec, &assumed, *trials),
        Mode::Rfc8219 | Mode::Verify => bisection::next(spec, &assumed),
        Mode::Mlr(goals) => mlr::next(spec, goals, &assumed),
    };
    match undecided.above(bracket(spec, history).passed_qps) {
        // Without what was assumed the search would not be at its end.
        Some(rate_qps)
            if matches!(next, Next::Found(_)) && bracket(spec, &assumed) != bracket(spec, history) =>
        {
            voids::known(spec, history, rate_qps)
        }
        _ => next,
    }
}

impl SearchSpec {
    fn trial(&self, rate_qps: u64) -> Next {
        Next::Try(TrialInput { rate_qps, duration_ns: self.trial_ns })
    }
}

fn fixed(spec: &SearchSpec, history: &[Point], trials: u32) -> Next {
    let done = history.iter().filter(|point| point.outcome != Outcome::Void).count() as u32;
    if done < trials {
        return spec.trial(spec.high_qps);
    }
    let passed = history.iter().all(|point| point.outcome != Outcome::Fail);
    Next::Found(SearchResult {
        qps: if passed { spec.high_qps } else { 0 },
        stop_width_qps: 0,
        at_ceiling: passed,
        ended_by_voids_qps: None,
    })
}

/// How often a trial failed at the highest rate that passed, or below.
pub fn loss_inversions(history: &[Point]) -> u32 {
    let highest_pass =
        history.iter().filter(|point| point.outcome == Outcome::Pass).map(|point| point.rate_qps).max();
    let inverted = |point: &&Point| point.outcome == Outcome::Fail && Some(point.rate_qps) <= highest_pass;
    history.iter().filter(inverted).count() as u32
}

/// The trials of a search that ends near `expected_qps`, for a forecast: the server answers so many and no
/// more.
pub fn rehearse(spec: &SearchSpec, expected_qps: u64) -> Vec<Point> {
    let mut history = Vec::new();
    while let Next::Try(TrialInput { rate_qps, duration_ns }) = next(spec, &history) {
        let loss_ratio = 1.0 - expected_qps.min(rate_qps) as f64 / rate_qps.max(1) as f64;
        let outcome = if loss_ratio > 0.0 { Outcome::Fail } else { Outcome::Pass };
        history.push(Point { rate_qps, duration_ns, outcome, loss_ratio });
        if history.len() > 200 {
            break;
        }
    }
    history
}

#[cfg(test)]
mod tests;
