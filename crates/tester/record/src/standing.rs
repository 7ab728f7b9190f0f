//! The result of all trials of a bisection: which loads passed, which failed, which are open.
//!
//! A load is a rate in q/s, or a number of standing connections.
//!
//! The search applies this module to its history, and reports apply it to a record, so that both agree.

use std::collections::BTreeMap;

use crate::limits::MARGINAL_LOSS;
use crate::{Outcome, SearchMode};

/// How the trials at a load decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Any failure fails its load (RFC 8219 9).
    EveryTrial,
    /// Two trials that agree decide, a third one where the first two differ; passes and marginal failures
    /// weigh the same. A failure with a larger loss than [`MARGINAL_LOSS`] decides alone.
    TwoDecide,
}

impl Rule {
    /// The rule of a search; `None` of MLRsearch, whose goals have their own, and of searches not known here.
    pub fn of(search: &SearchMode) -> Option<Self> {
        match search {
            SearchMode::Rfc8219 | SearchMode::Fixed => Some(Self::EveryTrial),
            SearchMode::Verify => Some(Self::TwoDecide),
            SearchMode::Mlr | SearchMode::Other(_) => None,
        }
    }
}

/// What the trials at one load say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// They decided that the load stands.
    Passed,
    /// One trial passed, and by the rule a second one must confirm it before a search ends with this load.
    PassedOnce,
    /// They do not decide: there is none, one marginal failure, or as many of these as passes.
    Open,
    /// They decided that the load failed.
    Failed,
}

/// The trials at one load that are not void.
#[derive(Clone, Copy, Debug, Default)]
struct Trials {
    passed: u32,
    failed_marginally: u32,
    failed_clearly: u32,
}

impl Trials {
    fn add(&mut self, outcome: Outcome, loss_ratio: f64) {
        match outcome {
            Outcome::Void => {}
            Outcome::Pass => self.passed += 1,
            // A failure without a loss is no small loss: the server failed before the trial.
            Outcome::Fail if loss_ratio > 0.0 && loss_ratio <= MARGINAL_LOSS.value / 100.0 => {
                self.failed_marginally += 1;
            }
            Outcome::Fail => self.failed_clearly += 1,
        }
    }

    fn standing(self, rule: Rule) -> Standing {
        let Self { passed, failed_marginally, failed_clearly } = self;
        let failed = failed_marginally + failed_clearly;
        match rule {
            Rule::EveryTrial if failed > 0 => Standing::Failed,
            Rule::EveryTrial if passed > 0 => Standing::Passed,
            Rule::TwoDecide if failed_clearly > 0 || failed >= 2 && failed > passed => Standing::Failed,
            Rule::TwoDecide if passed >= 2 && passed > failed => Standing::Passed,
            Rule::TwoDecide if (passed, failed) == (1, 0) => Standing::PassedOnce,
            Rule::EveryTrial | Rule::TwoDecide => Standing::Open,
        }
    }
}

/// The loads of a search by what their trials say.
#[derive(Clone, Debug)]
pub struct Standings {
    rule: Rule,
    loads: BTreeMap<u64, Trials>,
}

impl Standings {
    /// Of trials as their load, their outcome, and the share of their queries without a valid answer
    /// in time, from 0 to 1. Void trials say nothing.
    pub fn new(rule: Rule, trials: impl IntoIterator<Item = (u64, Outcome, f64)>) -> Self {
        let mut loads: BTreeMap<u64, Trials> = BTreeMap::new();
        for (load, outcome, loss_ratio) in trials.into_iter().filter(|trial| trial.1 != Outcome::Void) {
            loads.entry(load).or_default().add(outcome, loss_ratio);
        }
        Self { rule, loads }
    }

    /// What the trials at a load say.
    pub fn of(&self, load: u64) -> Standing {
        self.loads.get(&load).copied().unwrap_or_default().standing(self.rule)
    }

    /// The lowest load that failed: every load above failed with it.
    pub fn failed(&self) -> Option<u64> {
        self.loads
            .iter()
            .find(|(_, trials)| trials.standing(self.rule) == Standing::Failed)
            .map(|(&load, _)| load)
    }

    /// The highest load below [`Self::failed`] that stands, be it confirmed or not.
    pub fn passed(&self) -> Option<u64> {
        let passed = |standing| matches!(standing, Standing::Passed | Standing::PassedOnce);
        self.below_failed().filter(|(_, standing)| passed(*standing)).map(|(load, _)| load).last()
    }

    /// The lowest load below [`Self::failed`] that was tried and is not decided.
    pub fn open(&self) -> Option<u64> {
        self.below_failed().find(|(_, standing)| *standing == Standing::Open).map(|(load, _)| load)
    }

    fn below_failed(&self) -> impl Iterator<Item = (u64, Standing)> {
        let failed = self.failed().unwrap_or(u64::MAX);
        let below = self.loads.iter().take_while(move |(load, _)| **load < failed);
        below.map(|(&load, trials)| (load, trials.standing(self.rule)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARGINAL: f64 = 0.05;
    const CLEAR: f64 = 0.051;

    fn standing(rule: Rule, losses: &[f64]) -> Standing {
        let outcome = |loss: f64| if loss > 0.0 { Outcome::Fail } else { Outcome::Pass };
        Standings::new(rule, losses.iter().map(|&loss| (100, outcome(loss), loss))).of(100)
    }

    #[test]
    fn by_the_rfc_one_failure_fails_the_rate() {
        assert_eq!(standing(Rule::EveryTrial, &[]), Standing::Open);
        assert_eq!(standing(Rule::EveryTrial, &[0.0]), Standing::Passed);
        assert_eq!(standing(Rule::EveryTrial, &[0.0, 0.0, 1e-9]), Standing::Failed);
    }

    #[test]
    fn two_decide_and_a_pass_weighs_as_much_as_a_marginal_failure() {
        let two = |losses: &[f64]| standing(Rule::TwoDecide, losses);
        assert_eq!(two(&[0.0]), Standing::PassedOnce);
        assert_eq!(two(&[MARGINAL]), Standing::Open);
        for contested in [[0.0, MARGINAL], [MARGINAL, 0.0]] {
            assert_eq!(two(&contested), Standing::Open);
            assert_eq!(two(&[contested[0], contested[1], 0.0]), Standing::Passed);
            assert_eq!(two(&[contested[0], contested[1], MARGINAL]), Standing::Failed);
        }
        assert_eq!(two(&[0.0, 0.0]), Standing::Passed);
        assert_eq!(two(&[MARGINAL, MARGINAL]), Standing::Failed);
        assert_eq!(two(&[0.0, 0.0, MARGINAL, MARGINAL]), Standing::Open, "nobody outvotes anybody");
        assert_eq!(two(&[0.0, 0.0, CLEAR]), Standing::Failed, "a clear failure decides alone");
    }

    #[test]
    fn a_failure_without_a_loss_decides_alone() {
        let trials = [(100, Outcome::Pass, 0.0), (100, Outcome::Pass, 0.0), (100, Outcome::Fail, 0.0)];
        assert_eq!(Standings::new(Rule::TwoDecide, trials).of(100), Standing::Failed);
    }

    #[test]
    fn no_rate_stands_at_or_above_one_that_failed() {
        let trials = [(10, Outcome::Pass), (20, Outcome::Fail), (20, Outcome::Pass), (30, Outcome::Pass)];
        let trials = |rule| Standings::new(rule, trials.map(|(qps, outcome)| (qps, outcome, MARGINAL)));
        let every = trials(Rule::EveryTrial);
        assert_eq!((every.passed(), every.failed(), every.open()), (Some(10), Some(20), None));
        let two = trials(Rule::TwoDecide);
        assert_eq!((two.passed(), two.failed(), two.open()), (Some(30), None, Some(20)));
        let void = Standings::new(Rule::TwoDecide, [(5, Outcome::Void, 1.0)]);
        assert_eq!((void.passed(), void.failed(), void.open()), (None, None, None));
    }
}
