//! The interval that a rate lies in, by every trial of a record, where void trials kept the searches from
//! their ends.
//!
//! A disturbance of the machine can only make a server look slower. The interval therefore has its lower end
//! from trials in which every query was answered, however disturbed, and its upper end from trials that
//! failed and count. docs/method.md has the argument, and a simulation.

use serde::{Deserialize, Serialize};

use crate::goals::Goal;
use crate::limits::{FOREIGN_LOAD_WARNING, STEAL};
use crate::standing::{Rule, Standing, Standings};
use crate::{Cause, Disturbance, Observation, Outcome, Results, Run, Trial};

/// Where a rate lies, and what kept the measurement from saying more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateInterval {
    /// The lower end in q/s: the highest rate that a trial shows and below which none failed; 0 if there is
    /// none.
    pub at_least_qps: u64,
    /// The rate of the trial that shows it, in q/s. The trial is void if this is more than the lower end: the
    /// Tester sent its queries late, and what it shows is the rate over the longer time.
    pub shown_at_qps: u64,
    /// The upper end in q/s: the lowest rate that a failed trial shows and above which no trial shows more;
    /// absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below_qps: Option<u64>,
    /// The rate of the trial that shows it, in q/s. The upper end is more if others took time from the server
    /// while it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at_qps: Option<u64>,
    /// The highest rate that was tried, in q/s.
    pub tried_qps: u64,
    /// Trials of all searches, and the one at half the rate.
    pub trials: u64,
    /// The void ones among them.
    pub void: u64,
    /// Processor time that the hypervisor took during these trials, in percent of one processor; absent where
    /// it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal_pct: Option<f64>,
    /// Processor time that other programs used meanwhile, likewise; absent also where the server's process is
    /// not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_programs_pct: Option<f64>,
}

impl RateInterval {
    /// Of the searches of a record; `None` if one of them came to its end, if void trials ended none, or if
    /// they were for connections.
    pub fn of(results: &Results) -> Option<Self> {
        let by_voids = results.runs.iter().any(|run| run.ended_by_voids_qps.is_some());
        let by_itself = results.runs.iter().any(Run::came_to_its_end);
        let trials = results.runs.iter().flat_map(|run| &run.trials).chain(&results.latency_trial);
        let trials: Vec<&Trial> = trials.collect();
        let settings = &results.settings;
        (by_voids && !by_itself).then(|| Self::of_trials(&trials, settings.goals.first(), settings.trial_s))
    }

    /// Of trials that may lose what the goal allows, if there is one. Shorter ones than `full_s`, in seconds,
    /// give no end: a queue swallows what is too much in them, and one unseen pause can be all of their
    /// losses.
    pub fn of_trials(trials: &[&Trial], goal: Option<&Goal>, full_s: f64) -> Self {
        let allowed = goal.map_or(0.0, |goal| goal.loss_pct / 100.0);
        let (at_least_qps, shown_at_qps) = lower_end(trials, allowed, full_s).unwrap_or((0, 0));
        let upper = upper_end(trials, allowed, full_s);
        Self {
            at_least_qps,
            shown_at_qps,
            below_qps: upper.map(|(refused_qps, _)| refused_qps),
            failed_at_qps: upper.map(|(_, rate_qps)| rate_qps),
            tried_qps: trials.iter().map(|trial| trial.rate_qps).max().unwrap_or(0),
            trials: trials.len() as u64,
            void: trials.iter().filter(|trial| trial.outcome == Outcome::Void).count() as u64,
            steal_pct: mean(trials, |trial| trial.observation.as_ref()?.steal_pct),
            other_programs_pct: mean(trials, |trial| trial.observation.as_ref()?.other_programs_pct()),
        }
    }

    /// Whether nothing can be said of the server.
    pub fn is_empty(&self) -> bool {
        self.at_least_qps == 0 && self.below_qps.is_none()
    }
}

/// The lower end and the rate of the trial that shows it, in q/s.
fn lower_end(trials: &[&Trial], allowed: f64, full_s: f64) -> Option<(u64, u64)> {
    let lowest_failed_qps =
        trials.iter().filter(|trial| trial.failed_beyond(allowed)).map(|trial| trial.rate_qps).min();
    let shown = trials.iter().filter(|trial| is_full(trial, full_s));
    let shown = shown.filter_map(|trial| Some((shown_qps(trial, allowed)?, trial.rate_qps)));
    shown.filter(|(shown_qps, _)| lowest_failed_qps.is_none_or(|failed_qps| *shown_qps < failed_qps)).max()
}

/// The upper end and the rate of the trial that shows it, in q/s. It takes a failure that decides: a marginal
/// one may be an unseen pause.
fn upper_end(trials: &[&Trial], allowed: f64, full_s: f64) -> Option<(u64, u64)> {
    let highest_shown_qps = trials.iter().filter_map(|trial| shown_qps(trial, allowed)).max().unwrap_or(0);
    let counted = trials.iter().map(|trial| (trial.rate_qps, trial.outcome, trial.loss_ratio()));
    let standings = Standings::new(Rule::TwoDecide, counted);
    let decided = trials.iter().filter(|trial| standings.of(trial.rate_qps) == Standing::Failed);
    let refused = decided.filter(|trial| is_full(trial, full_s));
    let refused = refused.filter_map(|trial| Some((refused_qps(trial, allowed)?, trial.rate_qps)));
    refused.filter(|(refused_qps, _)| *refused_qps > highest_shown_qps).min()
}

/// Whether a trial has the full length. A schedule may be a little shorter than was asked for, as queries are
/// whole.
fn is_full(trial: &Trial, full_s: f64) -> bool {
    trial.duration_s >= full_s * 0.99
}

/// The rate in q/s that a trial shows the server to answer; `None` if it shows none.
///
/// A trial that passed shows its rate. So does one that is void although every query was answered in time,
/// because the Tester was late: the queries of the time T left within T + e, where e is the largest lateness.
/// Evenly sent over that time they would have been easier to answer, not harder.
fn shown_qps(trial: &Trial, allowed: f64) -> Option<u64> {
    let is_whole = trial.scheduled > 0 && trial.duration_s > 0.0 && !trial.closed_loop;
    match trial.outcome {
        Outcome::Pass => Some(trial.rate_qps),
        Outcome::Fail => (!trial.failed_beyond(allowed)).then_some(trial.rate_qps),
        Outcome::Void if is_whole && trial.failed_queries() == 0 => {
            let late_s = trial.schedule_error_ns.max as f64 / 1e9;
            Some((trial.rate_qps as f64 * trial.duration_s / (trial.duration_s + late_s)) as u64)
        }
        Outcome::Void => None,
    }
}

/// The rate in q/s that a failed trial shows the server not to keep up; `None` if it shows none.
///
/// It is the trial's own where nobody took the processors. A server that lacked its processor for the share s
/// of the time keeps up r / (1 - s) at most, where it failed at r: s is the share of the whole trial, or of a
/// tenth of a second in which queries failed if that is larger. Of steal the kernel does not count all.
fn refused_qps(trial: &Trial, allowed: f64) -> Option<u64> {
    let seen = trial.observation.as_ref();
    let steal_pct = seen.and_then(|seen| seen.steal_pct).unwrap_or(0.0);
    let others_pct = seen.and_then(Observation::other_programs_pct).unwrap_or(0.0);
    let of_trial = if others_pct >= FOREIGN_LOAD_WARNING.value { others_pct / 100.0 } else { 0.0 };
    let share = largest_share_taken(trial)?.max(of_trial);
    (trial.failed_beyond(allowed) && steal_pct < STEAL.value && share <= SHARE_MAX)
        .then(|| (trial.rate_qps as f64 / (1.0 - share)).ceil() as u64)
}

/// Where others took more, a failure shows nothing.
const SHARE_MAX: f64 = 0.9;

/// The largest share of a tenth of a second that others took of the server's processor while queries failed,
/// as far as they met failures; `None` if the list of disturbances is not whole.
fn largest_share_taken(trial: &Trial) -> Option<f64> {
    // A span is a tenth, a window of 10 ms before it, and as much time after it as was taken in it.
    const BEFORE_S: f64 = 0.01;
    let share = |disturbance: &Disturbance| {
        let due = trial.rate_qps as f64 * (disturbance.until_s - disturbance.from_s - BEFORE_S);
        let of_span = disturbance.explains as f64 / due.max(f64::MIN_POSITIVE);
        if of_span < 0.5 { of_span / (1.0 - of_span) } else { 1.0 }
    };
    let by_load = trial.disturbances.iter().filter(|disturbance| disturbance.cause == Cause::OtherLoad);
    let is_whole = trial.disturbances.len() < Trial::DISTURBANCES_MAX;
    is_whole.then(|| by_load.map(share).fold(0.0, f64::max))
}

/// The mean over the time of the trials of which it is known.
fn mean(trials: &[&Trial], of: impl Fn(&Trial) -> Option<f64>) -> Option<f64> {
    let known = trials.iter().filter_map(|trial| Some((of(trial)?, trial.observation.as_ref()?.elapsed_s)));
    let (sum, time_s) = known.fold((0.0, 0.0), |(sum, time_s), (pct, s)| (sum + pct * s, time_s + s));
    (time_s > 0.0).then(|| sum / time_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, ScheduleError};
    use proptest::prelude::*;

    fn trial(rate_qps: u64, outcome: Outcome, failed: u64) -> Trial {
        let scheduled = rate_qps * 2;
        Trial { rate_qps, duration_s: 2.0, outcome, scheduled, valid: scheduled - failed, ..Trial::default() }
    }

    fn interval(trials: &[Trial]) -> (u64, Option<u64>) {
        let found = RateInterval::of_trials(&trials.iter().collect::<Vec<_>>(), None, 2.0);
        (found.at_least_qps, found.below_qps)
    }

    #[test]
    fn the_ends_are_a_pass_below_every_failure_and_a_failure_above_every_pass() {
        let (pass, fail) = (|qps| trial(qps, Outcome::Pass, 0), |qps| trial(qps, Outcome::Fail, qps));
        assert_eq!(interval(&[pass(5000), fail(8000), pass(6000)]), (6000, Some(8000)));
        assert_eq!(
            interval(&[pass(5000), fail(5500), pass(6000), fail(8000)]),
            (5000, Some(8000)),
            "contested"
        );
        assert_eq!(interval(&[pass(5000), trial(8000, Outcome::Void, 9)]), (5000, None), "it shows nothing");
        assert_eq!(interval(&[fail(5000), fail(8000)]), (0, Some(5000)));
        assert_eq!(interval(&[fail(5000), pass(5000)]), (0, None));
        let marginal = trial(5000, Outcome::Fail, 9);
        assert_eq!(interval(std::slice::from_ref(&marginal)), (0, None), "it may be an unseen pause");
        assert_eq!(interval(&[marginal.clone(), marginal]), (0, Some(5000)));
        let stolen = Observation { steal_pct: Some(5.0), ..Observation::default() };
        assert_eq!(interval(&[Trial { observation: Some(stolen), ..fail(5000) }]), (0, None));
        assert_eq!(interval(&[Trial { duration_s: 0.5, ..fail(5000) }]), (0, None), "a coarse trial");
        assert_eq!(interval(&[]), (0, None));
        assert!(RateInterval::of_trials(&[&trial(8000, Outcome::Void, 9)], None, 2.0).is_empty());
    }

    #[test]
    fn a_late_tester_with_every_answer_shows_the_rate_over_the_longer_time() {
        let late = ScheduleError { max: 500_000_000, ..ScheduleError::default() };
        let late = Trial { schedule_error_ns: late, ..trial(5000, Outcome::Void, 0) };
        let found = RateInterval::of_trials(&[&late], None, 2.0);
        assert_eq!((found.at_least_qps, found.shown_at_qps, found.tried_qps), (4000, 5000, 5000));
        assert_eq!(interval(&[late.clone(), trial(4000, Outcome::Fail, 1)]), (0, None));
        assert_eq!(interval(&[Trial { closed_loop: true, ..late }]), (0, None));
    }

    #[test]
    fn a_failure_under_load_shows_the_rate_of_an_undisturbed_server() {
        // A tenth of a second of which others took the half, and the spans around it.
        let span = |explains| Disturbance {
            from_s: 0.09,
            until_s: 0.25,
            cause: Cause::OtherLoad,
            explains,
            failed: 1000,
        };
        let failed =
            |explains| Trial { disturbances: vec![span(explains)], ..trial(5000, Outcome::Fail, 1000) };
        let found = RateInterval::of_trials(&[&failed(250)], None, 2.0);
        assert_eq!((found.below_qps, found.failed_at_qps), (Some(10_000), Some(5000)));
        assert_eq!(interval(&[failed(250), trial(6000, Outcome::Pass, 0)]), (0, Some(10_000)));
        assert_eq!(interval(&[failed(500)]), (0, None), "nothing was left of its processor");
        let many = Trial { disturbances: vec![span(1); Trial::DISTURBANCES_MAX], ..failed(1) };
        assert_eq!(interval(&[many]), (0, None));
    }

    #[test]
    fn a_goal_forgives_what_it_allows() {
        let goal = Goal { loss_pct: 1.0, ..Goal::default() };
        let (little, much) = (trial(1000, Outcome::Fail, 20), trial(2000, Outcome::Fail, 401));
        let found = RateInterval::of_trials(&[&little, &much], Some(&goal), 2.0);
        assert_eq!((found.at_least_qps, found.below_qps), (1000, Some(2000)));
    }

    #[test]
    fn a_search_that_came_to_its_end_needs_no_interval() {
        let seen =
            |pct, elapsed_s| Some(Observation { steal_pct: Some(pct), elapsed_s, ..Observation::default() });
        let with = |observation| Trial { observation, ..trial(1000, Outcome::Pass, 0) };
        let mut results = Results::new(Kind::Bench);
        results.runs = vec![Run { complete: true, trials: vec![with(seen(10.0, 1.0))], ..Run::default() }];
        assert_eq!(RateInterval::of(&results), None);
        results.runs[0].ended_by_voids_qps = Some(2000);
        results.runs.push(Run { trials: vec![with(seen(40.0, 2.0)), with(None)], ..Run::default() });
        let found = RateInterval::of(&results).unwrap();
        assert_eq!((found.at_least_qps, found.steal_pct, found.trials), (1000, Some(30.0), 3));
        results.runs.push(Run { complete: true, ..Run::default() });
        assert_eq!(RateInterval::of(&results), None);
    }

    proptest! {
        /// Nothing that counts failed at or below the lower end, and nothing passed from the upper end on.
        #[test]
        fn no_trial_contradicts_the_ends(trials in prop::collection::vec((1u64..20, 0u8..3, 1u64..9), 0..30)) {
            let outcomes = [Outcome::Void, Outcome::Pass, Outcome::Fail];
            let of = |(qps, which, lost): (u64, u8, u64)| {
                let outcome = outcomes[usize::from(which)];
                trial(qps * 100, outcome, if outcome == Outcome::Pass { 0 } else { lost })
            };
            let trials: Vec<Trial> = trials.into_iter().map(of).collect();
            let (at_least_qps, below_qps) = interval(&trials);
            for trial in &trials {
                match trial.outcome {
                    Outcome::Fail => prop_assert!(trial.rate_qps > at_least_qps),
                    Outcome::Pass => prop_assert!(below_qps.is_none_or(|below_qps| trial.rate_qps < below_qps)),
                    Outcome::Void => {}
                }
            }
            prop_assert!(below_qps.is_none_or(|below_qps| at_least_qps < below_qps));
        }
    }
}
