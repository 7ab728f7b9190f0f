//! The rate search: from the trials so far to the next one. A pure function, so that a search can be replayed.

use crate::record::{Outcome, Trial};
use crate::trial::Validity;

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Bisection, every trial counts (RFC 8219 9).
    Rfc8219,
    /// Bisection; a rate that failed marginally is tried again and fails only when it failed twice in a row.
    Verify,
    /// Trials at the highest rate only, as many as told.
    Fixed {
        /// How many.
        trials: u32,
    },
}

/// The search's frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchSpec {
    /// How.
    pub mode: Mode,
    /// The lowest rate worth trying, in q/s, at least 1.
    pub low_qps: u64,
    /// The highest rate that may be tried, in q/s: what the Tester is certified for.
    pub high_qps: u64,
    /// Stop when the bracket is narrower than this share of its lower bound, in percent.
    pub width_pct: f64,
    /// So many void trials in a row at one rate end the search.
    pub voids_max: u32,
}

/// A trial that was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its rate in q/s.
    pub rate_qps: u64,
    /// What became of it.
    pub outcome: Outcome,
    /// It failed, but so few queries that a pause of the machine may have done it: at most [`MARGINAL_PCT`].
    pub marginal: bool,
}

/// Up to this share of failed queries, in percent, a failure is marginal.
pub const MARGINAL_PCT: f64 = 5.0;

impl Point {
    /// What a trial says to the search.
    pub fn of(trial: &Trial, validity: Validity) -> Self {
        let failed = trial.scheduled.saturating_sub(validity.counted(trial));
        let marginal =
            trial.outcome == Outcome::Fail && failed as f64 <= trial.scheduled as f64 * MARGINAL_PCT / 100.0;
        Self { rate_qps: trial.rate_qps, outcome: trial.outcome, marginal }
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Run a trial at this rate.
    Try(u64),
    /// The search is over.
    Found(Found),
    /// The Tester failed too often at this rate: nothing can be said of the server.
    Unfit(u64),
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The highest rate that passed, 0 if none did.
    pub qps: u64,
    /// From there to the lowest rate above that failed, in q/s; 0 at the ceiling.
    pub stop_width_qps: u64,
    /// The highest rate allowed passed.
    pub at_ceiling: bool,
}

/// The bracket of the rate: everything at `passed_qps` and below counts as passed, `failed_qps` and above as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bracket {
    /// The highest rate that passed; 0 if none did.
    pub passed_qps: u64,
    /// The lowest rate that failed; one above the ceiling if none did.
    pub failed_qps: u64,
}

/// What the trials so far say.
pub fn bracket(spec: &SearchSpec, history: &[Point]) -> Bracket {
    let mut bracket = Bracket { passed_qps: 0, failed_qps: spec.high_qps + 1 };
    let mut doubted = None;
    for point in history {
        match point.outcome {
            Outcome::Void => {}
            Outcome::Pass => {
                bracket.passed_qps = bracket.passed_qps.max(point.rate_qps);
                doubted = None;
            }
            Outcome::Fail
                if spec.mode == Mode::Verify && point.marginal && doubted != Some(point.rate_qps) =>
            {
                doubted = Some(point.rate_qps);
            }
            Outcome::Fail => {
                bracket.failed_qps = bracket.failed_qps.min(point.rate_qps);
                doubted = None;
            }
        }
    }
    bracket
}

/// The next step of a search.
pub fn next(spec: &SearchSpec, history: &[Point]) -> Next {
    if let Some(last) = history.last() {
        let again = history.iter().rev().take_while(|point| **point == *last).count() as u32;
        match last.outcome {
            Outcome::Void if again >= spec.voids_max => return Next::Unfit(last.rate_qps),
            Outcome::Void => return Next::Try(last.rate_qps),
            Outcome::Fail if spec.mode == Mode::Verify && is_doubted(spec, history) => {
                return Next::Try(last.rate_qps);
            }
            _ => {}
        }
    }
    let now = bracket(spec, history);
    match spec.mode {
        Mode::Fixed { trials } => fixed(spec, history, trials),
        Mode::Rfc8219 | Mode::Verify => bisect(spec, now),
    }
}

/// Whether the last trial failed for the first time at its rate.
fn is_doubted(spec: &SearchSpec, history: &[Point]) -> bool {
    let Some((last, before)) = history.split_last() else { return false };
    bracket(spec, history) == bracket(spec, before) && bracket(spec, before).failed_qps > last.rate_qps
}

fn fixed(spec: &SearchSpec, history: &[Point], trials: u32) -> Next {
    let done = history.iter().filter(|point| point.outcome != Outcome::Void).count() as u32;
    if done < trials {
        return Next::Try(spec.high_qps);
    }
    let passed = history.iter().all(|point| point.outcome != Outcome::Fail);
    Next::Found(Found { qps: if passed { spec.high_qps } else { 0 }, stop_width_qps: 0, at_ceiling: passed })
}

fn bisect(spec: &SearchSpec, bracket: Bracket) -> Next {
    let Bracket { passed_qps, failed_qps } = bracket;
    // A lower rate failed where a higher one passed: the pass stands, and the search is as narrow as it gets.
    let width = failed_qps.saturating_sub(passed_qps);
    let enough = ((passed_qps as f64 * spec.width_pct / 100.0) as u64).max(1);
    let found = Found { qps: passed_qps, stop_width_qps: width, at_ceiling: false };
    if passed_qps >= spec.high_qps {
        return Next::Found(Found { stop_width_qps: 0, at_ceiling: true, ..found });
    }
    if failed_qps <= spec.low_qps || (passed_qps > 0 && width <= enough) {
        // Nothing above has been refused yet: the ceiling itself decides.
        return if failed_qps > spec.high_qps { Next::Try(spec.high_qps) } else { Next::Found(found) };
    }
    Next::Try((passed_qps + width / 2).clamp(spec.low_qps, spec.high_qps))
}

/// How often a rate failed below one that passed.
pub fn loss_inversions(history: &[Point]) -> u32 {
    let highest_pass =
        history.iter().filter(|point| point.outcome == Outcome::Pass).map(|point| point.rate_qps).max();
    let below = |point: &&Point| point.outcome == Outcome::Fail && Some(point.rate_qps) < highest_pass;
    history.iter().filter(below).count() as u32
}

/// About how many trials a search takes that ends near `expected_qps`, for a forecast.
pub fn trials_expected(spec: &SearchSpec, expected_qps: u64) -> u32 {
    let mut history = Vec::new();
    while let Next::Try(rate_qps) = next(spec, &history) {
        let outcome = if rate_qps <= expected_qps { Outcome::Pass } else { Outcome::Fail };
        // Near the capacity a failure is marginal.
        let marginal =
            outcome == Outcome::Fail && rate_qps as f64 <= expected_qps as f64 * (1.0 + MARGINAL_PCT / 100.0);
        history.push(Point { rate_qps, outcome, marginal });
        if history.len() > 200 {
            break;
        }
    }
    history.len() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spec(mode: Mode) -> SearchSpec {
        SearchSpec { mode, low_qps: 10, high_qps: 100_000, width_pct: 1.0, voids_max: 3 }
    }

    /// Searches a server that answers everything up to `capacity` q/s.
    fn search(spec: &SearchSpec, mut outcome: impl FnMut(u64) -> Outcome) -> (Next, Vec<Point>) {
        let mut history = Vec::new();
        loop {
            match next(spec, &history) {
                Next::Try(rate_qps) => {
                    let outcome = outcome(rate_qps);
                    history.push(Point { rate_qps, outcome, marginal: outcome == Outcome::Fail });
                }
                end => return (end, history),
            }
            assert!(history.len() < 100, "the search does not end");
        }
    }

    fn up_to(capacity: u64) -> impl Fn(u64) -> Outcome {
        move |rate| if rate <= capacity { Outcome::Pass } else { Outcome::Fail }
    }

    #[test]
    fn the_ceiling_and_the_floor_end_the_search() {
        let (end, history) = search(&spec(Mode::Rfc8219), up_to(1_000_000));
        assert_eq!(end, Next::Found(Found { qps: 100_000, stop_width_qps: 0, at_ceiling: true }));
        assert_eq!(history.last().unwrap().rate_qps, 100_000);
        let (end, _) = search(&spec(Mode::Rfc8219), up_to(0));
        assert_eq!(end, Next::Found(Found { qps: 0, stop_width_qps: 10, at_ceiling: false }));
    }

    #[test]
    fn a_void_trial_is_repeated_and_many_end_the_search() {
        let mut voids = 2;
        let (end, history) = search(&spec(Mode::Rfc8219), |rate| {
            if rate == 50_000 && voids > 0 {
                voids -= 1;
                return Outcome::Void;
            }
            up_to(60_000)(rate)
        });
        assert!(matches!(end, Next::Found(found) if found.qps <= 60_000 && found.qps > 59_000), "{end:?}");
        assert!(history[..3].iter().all(|point| point.rate_qps == 50_000));
        assert_eq!(search(&spec(Mode::Verify), |_| Outcome::Void).0, Next::Unfit(50_000));
    }

    #[test]
    fn verify_wants_two_failures() {
        let mut first = true;
        let mut once = |rate| {
            if rate == 50_000 && std::mem::take(&mut first) {
                return Outcome::Fail;
            }
            up_to(60_000)(rate)
        };
        let (end, history) = search(&spec(Mode::Verify), &mut once);
        assert!(matches!(end, Next::Found(found) if found.qps > 59_000), "{end:?}");
        let fails_at =
            |rate| history.iter().filter(|p| p.rate_qps == rate && p.outcome == Outcome::Fail).count();
        assert_eq!((fails_at(50_000), fails_at(75_000)), (1, 2));

        first = true;
        let plain = |rate| {
            if rate == 50_000 && std::mem::take(&mut first) { Outcome::Fail } else { up_to(60_000)(rate) }
        };
        let (end, _) = search(&spec(Mode::Rfc8219), plain);
        assert!(
            matches!(end, Next::Found(found) if found.qps < 50_000),
            "one unlucky trial excludes the upper half"
        );
    }

    #[test]
    fn only_marginal_failures_are_verified() {
        let fail = |marginal| Point { rate_qps: 50_000, outcome: Outcome::Fail, marginal };
        assert_eq!(next(&spec(Mode::Verify), &[fail(true)]), Next::Try(50_000));
        assert_eq!(next(&spec(Mode::Verify), &[fail(false)]), Next::Try(25_000));
        let trial = |valid| Trial { outcome: Outcome::Fail, scheduled: 1000, valid, ..Trial::default() };
        let marginal = |trial: &Trial, validity| Point::of(trial, validity).marginal;
        assert!(marginal(&trial(950), Validity::Strict) && !marginal(&trial(949), Validity::Strict));
        let compat = Trial { valid_compat: 999, ..trial(0) };
        assert!(marginal(&compat, Validity::Compat) && !marginal(&compat, Validity::Strict));
    }

    #[test]
    fn a_fixed_rate_is_tried_as_often_as_told() {
        let (end, history) = search(&spec(Mode::Fixed { trials: 4 }), up_to(100_000));
        assert_eq!(end, Next::Found(Found { qps: 100_000, stop_width_qps: 0, at_ceiling: true }));
        assert_eq!(history.len(), 4);
        assert!(
            matches!(search(&spec(Mode::Fixed { trials: 1 }), up_to(5)).0, Next::Found(found) if found.qps == 0)
        );
    }

    #[test]
    fn inversions_are_counted() {
        let point = |rate_qps, outcome| Point { rate_qps, outcome, marginal: false };
        let history = [point(10, Outcome::Fail), point(20, Outcome::Pass), point(30, Outcome::Fail)];
        assert_eq!(loss_inversions(&history), 1);
        assert_eq!(loss_inversions(&history[2..]), 0);
    }

    proptest! {
        #[test]
        fn a_steady_server_is_found_within_the_width(capacity in 10u64..99_000, verify: bool) {
            let mode = if verify { Mode::Verify } else { Mode::Rfc8219 };
            let (end, _) = search(&spec(mode), up_to(capacity));
            let Next::Found(found) = end else { return Err(TestCaseError::fail(format!("{end:?}"))) };
            prop_assert!(found.qps <= capacity);
            prop_assert!(found.qps + found.stop_width_qps > capacity);
            prop_assert!(found.stop_width_qps as f64 <= (found.qps as f64 * 0.01).max(1.0));
        }

        #[test]
        fn any_server_ends_the_search(outcomes in prop::collection::vec(0u8..3, 100)) {
            let mut outcomes = outcomes.into_iter();
            search(&spec(Mode::Verify), |_| match outcomes.next() {
                Some(0) => Outcome::Void,
                Some(1) => Outcome::Pass,
                _ => Outcome::Fail,
            });
        }
    }
}
