//! The search: from the trials so far to the next one. A pure function, so that a search can be replayed.
//!
//! A search looks for the highest load at which trials pass. The load is a rate in q/s, or a number of
//! connections that stand through the trial while queries go over all of them at one rate.

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
    /// Bisection; two trials that agree decide a load ([`Rule::TwoDecide`]), and the load found is confirmed.
    Verify,
    /// Trials at the highest load only, as many as told.
    Fixed {
        /// Number of trials at that load.
        trials: u32,
    },
    /// MLRsearch (RFC 9971): bounds for all of these goals; the first is the one that the search's result is
    /// about.
    Mlr(Vec<Goal>),
}

/// The search's frame.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchSpec {
    /// The rule by which loads are chosen.
    pub mode: Mode,
    /// The lowest load worth trying, at least 1.
    pub low: u64,
    /// The highest load that may be tried; of rates what the Tester is certified for.
    pub high: u64,
    /// Length of a trial in ns; the goals of [`Mode::Mlr`] have their own.
    pub trial_ns: u64,
    /// Stop when the bracket is narrower than this share of its lower bound, in percent; likewise.
    pub width_pct: f64,
    /// So many void trials in a row leave a load undecided, and the search goes on at other loads. This
    /// number times [`VOIDS_IN_SEARCH`](record::limits::VOIDS_IN_SEARCH) of them end the search, if they are
    /// more than [`VOID_SHARE`](record::limits::VOID_SHARE) of all; unless no trial had every answer: then it
    /// goes down first.
    pub voids_max: u32,
}

/// A trial that was run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Its load: a rate in q/s, or a number of connections.
    pub load: u64,
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
    pub fn of(TrialInput { load, duration_ns }: TrialInput, trial: &Trial, validity: Validity) -> Self {
        let failed = trial.scheduled.saturating_sub(validity.counted(trial));
        Self {
            load,
            duration_ns,
            outcome: trial.outcome,
            loss_ratio: failed as f64 / trial.scheduled.max(1) as f64,
        }
    }
}

/// What a trial is told (RFC 9971: trial input).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialInput {
    /// The load: a rate in q/s, or a number of connections.
    pub load: u64,
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
    /// Void trials left this load undecided, and no load passed: the search has no result.
    Unfit(u64),
}

/// The result of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchResult {
    /// The highest load that passed, 0 if none did.
    pub load: u64,
    /// From there to the lowest load above that failed; 0 at the ceiling. Where void trials ended the search
    /// and none had failed, to the highest load allowed.
    pub stop_width: u64,
    /// The highest load allowed passed.
    pub at_ceiling: bool,
    /// Void trials left this load undecided, which lies within the bracket.
    pub ended_by_voids: Option<u64>,
}

/// The bracket of the load: everything at `passed` and below counts as passed, `failed` and above as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bracket {
    /// The highest load that passed; 0 if none did.
    pub passed: u64,
    /// The lowest load that failed; one above the ceiling if none did.
    pub failed: u64,
}

/// What the trials so far say.
pub fn bracket(spec: &SearchSpec, history: &[Point]) -> Bracket {
    if let Mode::Mlr(goals) = &spec.mode {
        let first = goal_bounds(spec, &goals[..goals.len().min(1)], history);
        let of_first = |bound: fn(&GoalBounds) -> Option<u64>| first.first().and_then(bound);
        return Bracket {
            passed: of_first(|bounds| bounds.lower_qps).unwrap_or(0),
            failed: of_first(|bounds| bounds.upper_qps).unwrap_or(spec.high + 1),
        };
    }
    let standings = bisection::standings(spec, history);
    Bracket { passed: standings.passed().unwrap_or(0), failed: standings.failed().unwrap_or(spec.high + 1) }
}

/// The next step of a search.
pub fn next(spec: &SearchSpec, history: &[Point]) -> Next {
    let undecided = Undecided::of(spec, history);
    if let Some(last) = history.last().filter(|last| last.outcome == Outcome::Void) {
        if voids::are_too_many(spec, history) {
            return voids::lower(spec, history).unwrap_or_else(|| voids::known(spec, history, last.load));
        }
        if !undecided.has(last) {
            return Next::Try(TrialInput { load: last.load, duration_ns: last.duration_ns });
        }
    }
    let assumed = undecided.assumed(history);
    let next = match &spec.mode {
        Mode::Fixed { trials } => fixed(spec, &assumed, *trials),
        Mode::Rfc8219 | Mode::Verify => bisection::next(spec, &assumed),
        Mode::Mlr(goals) => mlr::next(spec, goals, &assumed),
    };
    match undecided.above(bracket(spec, history).passed) {
        // Without what was assumed the search would not be at its end.
        Some(load) if matches!(next, Next::Found(_)) && bracket(spec, &assumed) != bracket(spec, history) => {
            voids::known(spec, history, load)
        }
        _ => next,
    }
}

impl SearchSpec {
    fn trial(&self, load: u64) -> Next {
        Next::Try(TrialInput { load, duration_ns: self.trial_ns })
    }
}

fn fixed(spec: &SearchSpec, history: &[Point], trials: u32) -> Next {
    let done = history.iter().filter(|point| point.outcome != Outcome::Void).count() as u32;
    if done < trials {
        return spec.trial(spec.high);
    }
    let passed = history.iter().all(|point| point.outcome != Outcome::Fail);
    Next::Found(SearchResult {
        load: if passed { spec.high } else { 0 },
        stop_width: 0,
        at_ceiling: passed,
        ended_by_voids: None,
    })
}

/// How often a trial failed at the highest load that passed, or below.
pub fn loss_inversions(history: &[Point]) -> u32 {
    let highest_pass =
        history.iter().filter(|point| point.outcome == Outcome::Pass).map(|point| point.load).max();
    let inverted = |point: &&Point| point.outcome == Outcome::Fail && Some(point.load) <= highest_pass;
    history.iter().filter(inverted).count() as u32
}

/// The trials of a search that ends near `expected`, for a forecast: the server answers so many and no
/// more.
pub fn rehearse(spec: &SearchSpec, expected: u64) -> Vec<Point> {
    let mut history = Vec::new();
    while let Next::Try(TrialInput { load, duration_ns }) = next(spec, &history) {
        let loss_ratio = 1.0 - expected.min(load) as f64 / load.max(1) as f64;
        let outcome = if loss_ratio > 0.0 { Outcome::Fail } else { Outcome::Pass };
        history.push(Point { load, duration_ns, outcome, loss_ratio });
        if history.len() > 200 {
            break;
        }
    }
    history
}

#[cfg(test)]
mod tests;
