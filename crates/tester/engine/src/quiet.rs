//! When the Tester waits for a quiet machine, and when it stops waiting.

use record::limits::{LOAD_SAMPLES, QUIET_TIME, QUIET_WAIT};
use record::{Cause, Outcome, Trial};

use crate::circumstances::LoadSample;
use crate::pacer::SECOND_NS;
use crate::verdict::{Limits, is_loaded};

/// The most that the Tester waits in a measurement whose trials take about so long, in ns: a short one is not
/// worth a long wait.
pub fn wait_max_ns(measurement_ns: u64) -> u64 {
    measurement_ns.min(QUIET_WAIT.value as u64 * SECOND_NS)
}

/// How long the Tester looks at the machine at once, in ns: longer than the quiet time by what the mean of
/// the first tenth needs.
pub const LOOK_NS: u64 = (QUIET_TIME.value as u64 + LOAD_SAMPLES.value as u64 / 2) * SECOND_NS / 10;

/// What others take of the processors, in percent of one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// The hypervisor.
    pub steal_pct: f64,
    /// Programs that are neither Tester nor server.
    pub other_programs_pct: f64,
}

/// What a look at the machine says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Look {
    /// No part of it counts as loaded, or the load cannot be read: the next trial may begin.
    Quiet,
    /// Others use the processors.
    Loaded(Load),
}

/// What the load of a look says, by the rule for the load of a trial.
pub fn judge(samples: &[LoadSample], limits: &Limits) -> Look {
    if !is_loaded(samples, limits) {
        return Look::Quiet;
    }
    let length_ns: u64 = samples.iter().map(LoadSample::length_ns).sum();
    let percent = |of: fn(&LoadSample) -> u64| {
        samples.iter().map(of).sum::<u64>() as f64 * 100.0 / length_ns.max(1) as f64
    };
    Look::Loaded(Load {
        steal_pct: percent(|sample| sample.steal_ns),
        other_programs_pct: percent(LoadSample::foreign_ns),
    })
}

/// Whether the Tester looks at the machine before the next trial: before the first one, and after a trial
/// that did not pass while others used the processors. A trial that passed was only made harder by them.
pub fn is_look_due(last: Option<&Trial>, limits: &Limits) -> bool {
    let Some(last) = last else { return true };
    let seen = last.observation.as_ref();
    let steal_pct = seen.and_then(|seen| seen.steal_pct).unwrap_or(0.0);
    let other_programs_pct = seen.and_then(record::Observation::other_programs_pct).unwrap_or(0.0);
    let is_by_others = matches!(
        last.cause.as_ref().map(|found| &found.cause),
        // What takes the Tester's processor may be a program that is not known from the server.
        Some(Cause::OtherLoad | Cause::TesterCpu)
    );
    last.outcome != Outcome::Pass
        && (is_by_others || steal_pct >= limits.steal_pct || other_programs_pct >= limits.foreign_load_pct)
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Bottleneck, Observation};

    const LIMITS: Limits = Limits::for_timeout(SECOND_NS);
    const TENTH_NS: u64 = SECOND_NS / 10;

    fn look(taken_ns: impl Fn(u64) -> (u64, u64)) -> Look {
        let sample = |at: u64| {
            let (steal_ns, other_ns) = taken_ns(at);
            let from_ns = at * TENTH_NS;
            let until_ns = from_ns + TENTH_NS;
            LoadSample { from_ns, until_ns, steal_ns, other_programs_ns: Some(other_ns) }
        };
        judge(&(0..LOOK_NS / TENTH_NS).map(sample).collect::<Vec<_>>(), &LIMITS)
    }

    #[test]
    fn a_machine_is_quiet_by_the_rule_that_judges_trials() {
        assert_eq!(look(|_| (TENTH_NS / 25, TENTH_NS / 10)), Look::Quiet);
        assert_eq!(judge(&[], &LIMITS), Look::Quiet, "what cannot be read is not waited for");
        let Look::Loaded(load) = look(|_| (TENTH_NS / 5, 0)) else { panic!("a fifth is taken") };
        assert!((load.steal_pct - 20.0).abs() < 1e-9 && load.other_programs_pct == 0.0, "{load:?}");
        assert!(
            matches!(look(|at| (0, if at == 6 { TENTH_NS } else { 0 })), Look::Loaded(_)),
            "a burst counts"
        );
    }

    #[test]
    fn the_tester_looks_before_the_first_trial_and_after_a_failure_under_load() {
        let trial = |outcome, cause: Option<Cause>, steal_pct| Trial {
            outcome,
            cause: cause.map(|cause| Bottleneck { cause, evidence: String::new() }),
            observation: Some(Observation { steal_pct: Some(steal_pct), ..Observation::default() }),
            ..Trial::default()
        };
        let due = |trial: &Trial| is_look_due(Some(trial), &LIMITS);
        assert!(is_look_due(None, &LIMITS));
        assert!(!due(&trial(Outcome::Pass, None, 50.0)), "a pass is a pass");
        assert!(due(&trial(Outcome::Fail, Some(Cause::DutCpu), 5.0)));
        assert!(!due(&trial(Outcome::Fail, Some(Cause::DutCpu), 1.0)));
        assert!(due(&trial(Outcome::Void, Some(Cause::TesterCpu), 0.0)));
        assert!(!due(&trial(Outcome::Void, Some(Cause::Interrupted), 0.0)));
        assert!(due(&trial(Outcome::Void, Some(Cause::OtherLoad), 22.0)));
        assert_eq!((wait_max_ns(SECOND_NS), wait_max_ns(3600 * SECOND_NS)), (SECOND_NS, 120 * SECOND_NS));
    }
}
