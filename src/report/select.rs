//! Finding the trials of a record that matter.

use engine::record::{Outcome, Results, Run, Trial};
use engine::trial::place;

/// A trial with its place in the record.
pub struct Entry<'a> {
    /// `self-test`, `search` or `latency`.
    pub phase: &'static str,
    /// The repetition of the search, from 1.
    pub run: Option<usize>,
    /// Its number within the phase or run, from 1.
    pub number: usize,
    /// The trial.
    pub trial: &'a Trial,
}

/// Every trial of the record: self-test, runs, latency.
pub fn every_trial(results: &Results) -> Vec<Entry<'_>> {
    let selftest = results
        .selftest
        .iter()
        .flat_map(|test| &test.trials)
        .enumerate()
        .map(|(index, trial)| Entry { phase: "self-test", run: None, number: index + 1, trial });
    let search = results.runs.iter().enumerate().flat_map(|(run, found)| {
        found.trials.iter().enumerate().map(move |(index, trial)| Entry {
            phase: "search",
            run: Some(run + 1),
            number: index + 1,
            trial,
        })
    });
    let latency =
        results.latency_trial.iter().map(|trial| Entry { phase: "latency", run: None, number: 1, trial });
    selftest.chain(search).chain(latency).collect()
}

/// The trial at the rate that the run found.
pub fn best_pass(run: &Run) -> Option<&Trial> {
    run.trials.iter().rfind(|trial| trial.outcome == Outcome::Pass && trial.rate_qps == run.qps)
}

/// The trial that stopped the run: the last failure at the lowest rate above the one it found.
pub fn deciding_failure(run: &Run) -> Option<&Trial> {
    let failures =
        run.trials.iter().filter(|trial| trial.outcome == Outcome::Fail && trial.rate_qps > run.qps);
    failures.rev().min_by_key(|trial| trial.rate_qps)
}

/// The run whose rate is nearest to the median, and its number from 1: the one that stands for all.
pub fn typical_run(results: &Results) -> Option<(usize, &Run)> {
    let median = results.summary.as_ref().map_or(0.0, |summary| summary.median);
    let found = results.runs.iter().enumerate().filter(|(_, run)| run.qps > 0);
    let nearest = found.min_by(|(_, a), (_, b)| {
        let distance = |run: &Run| (run.qps as f64 - median).abs();
        distance(a).total_cmp(&distance(b))
    });
    let any = || results.runs.iter().enumerate().find(|(_, run)| !run.trials.is_empty());
    nearest.or_else(any).map(|(index, run)| (index + 1, run))
}

/// How many trials passed, failed and were void.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    /// Every query answered.
    pub pass: usize,
    /// The server lost some.
    pub fail: usize,
    /// The Tester was at fault.
    pub void: usize,
}

impl Tally {
    /// Over these trials.
    pub fn of<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Self {
        let mut tally = Self::default();
        for trial in trials {
            match trial.outcome {
                Outcome::Pass => tally.pass += 1,
                Outcome::Fail => tally.fail += 1,
                Outcome::Void => tally.void += 1,
            }
        }
        tally
    }

    /// All of them.
    pub fn total(self) -> usize {
        self.pass + self.fail + self.void
    }
}

/// The word for an outcome.
pub fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "pass",
        Outcome::Fail => "fail",
        Outcome::Void => "void",
    }
}

/// A place of loss as a person reads it; names that a later version may use are shown as they are.
pub fn place(name: &str) -> String {
    let words = match name {
        place::OWN_SEND_ERROR => "Tester could not send",
        place::UNSENT => "not sent by the Tester",
        place::OWN_SOCKET_DROP => "Tester's socket full",
        place::WRONG_QUEUE => "wrong queue of the Tester's device",
        place::OWN_DEVICE_DROP => "Tester's device",
        place::SOFTNET_DROP => "this machine's kernel",
        place::SERVER_SOCKET_DROP => "server's socket full",
        place::AUTH_SOCKET_DROP => "AuthDNS's socket full",
        place::SERVER_SILENT => "server silent",
        place::LATE => "answered too late",
        place::WRONG_ANSWER => "answered wrongly",
        _ => return name.replace('_', " "),
    };
    words.to_owned()
}

/// Processor time of the Tester during a trial, in percent of one processor.
pub fn tester_cpu_pct(trial: &Trial) -> Option<f64> {
    let seen = trial.observation.as_ref()?;
    let microseconds = seen.tester_cpu_us_per_query? * trial.sent as f64;
    (seen.elapsed_s > 0.0).then(|| microseconds / 1e6 / seen.elapsed_s * 100.0)
}
