//! Finding the trials of a record that matter.

use std::fmt;

use record::{LossPlace, Outcome, Results, Run, Trial, Validity};

/// The part of a measurement that a trial belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The Tester alone.
    SelfTest,
    /// A run of the search.
    Search,
    /// The latency under normal load.
    Latency,
}

impl Phase {
    /// Its word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SelfTest => "self-test",
            Self::Search => "search",
            Self::Latency => "latency",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A trial with its place in the record.
pub struct Entry<'a> {
    /// The part of the measurement.
    pub phase: Phase,
    /// The repetition of the search, from 1.
    pub run: Option<usize>,
    /// Its number within the phase or run, from 1.
    pub number: usize,
    pub trial: &'a Trial,
}

/// Every trial of the record: self-test, runs, latency.
pub(crate) fn every_trial(results: &Results) -> Vec<Entry<'_>> {
    let selftest = results
        .selftest
        .iter()
        .flat_map(|test| &test.trials)
        .enumerate()
        .map(|(index, trial)| Entry { phase: Phase::SelfTest, run: None, number: index + 1, trial });
    let search = results.runs.iter().enumerate().flat_map(|(run, found)| {
        found.trials.iter().enumerate().map(move |(index, trial)| Entry {
            phase: Phase::Search,
            run: Some(run + 1),
            number: index + 1,
            trial,
        })
    });
    let latency = results.latency_trial.iter().map(|trial| Entry {
        phase: Phase::Latency,
        run: None,
        number: 1,
        trial,
    });
    selftest.chain(search).chain(latency).collect()
}

/// The trial at the load that the run found.
pub(crate) fn best_pass(run: &Run) -> Option<&Trial> {
    run.trials.iter().rfind(|trial| trial.outcome == Outcome::Pass && load(run, trial) == run.found())
}

/// The trial that stopped the run: the last failure at the lowest load above the one it found.
pub(crate) fn deciding_failure(run: &Run) -> Option<&Trial> {
    let failures =
        run.trials.iter().filter(|trial| trial.outcome == Outcome::Fail && load(run, trial) > run.found());
    failures.rev().min_by_key(|trial| load(run, trial))
}

/// The load of a trial of the run.
fn load(run: &Run, trial: &Trial) -> u64 {
    run.sought().of_trial(trial)
}

/// The run whose load is nearest to the median, and its number from 1: the one that stands for all.
pub(crate) fn typical_run(results: &Results) -> Option<(usize, &Run)> {
    let median = results.found().map_or(0.0, |summary| summary.median);
    let found = results.runs.iter().enumerate().filter(|(_, run)| run.found() > 0);
    let nearest = found.min_by(|(_, a), (_, b)| {
        let distance = |run: &Run| (run.found() as f64 - median).abs();
        distance(a).total_cmp(&distance(b))
    });
    let any = || results.runs.iter().enumerate().find(|(_, run)| !run.trials.is_empty());
    nearest.or_else(any).map(|(index, run)| (index + 1, run))
}

/// How many trials passed, failed and were void.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    pub pass: usize,
    pub fail: usize,
    pub void: usize,
}

impl Tally {
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

    pub fn total(self) -> usize {
        self.pass + self.fail + self.void
    }
}

pub(crate) fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "pass",
        Outcome::Fail => "fail",
        Outcome::Void => "void",
    }
}

/// A place of loss as a person reads it; names that a later version may use are shown as they are.
pub fn place(place: &LossPlace) -> String {
    let words = match place {
        LossPlace::OwnSendError => "Tester could not send",
        LossPlace::Unsent => "not sent by the Tester",
        LossPlace::OwnSocketDrop => "Tester's socket full",
        LossPlace::WrongQueue => "wrong queue of the Tester's device",
        LossPlace::OwnDeviceDrop => "Tester's device",
        LossPlace::SoftnetDrop => "this machine's kernel",
        LossPlace::ServerSocketDrop => "server's socket full",
        LossPlace::AuthSocketDrop => "AuthDNS's socket full",
        LossPlace::ServerSilent => "server silent",
        LossPlace::ConnectionRefused => "connection refused",
        LossPlace::ConnectionUnreachable => "no way to the server",
        LossPlace::ConnectionTimedOut => "connection timed out",
        LossPlace::ConnectionReset => "connection reset",
        LossPlace::ConnectionClosed => "connection closed",
        LossPlace::HandshakeFailed => "handshake failed",
        LossPlace::FlowControl => "flow control",
        LossPlace::HttpStatus => "other status than 200",
        LossPlace::HttpMalformed => "response without a message",
        LossPlace::StreamReset => "stream reset",
        LossPlace::GoAway => "connection left (GOAWAY)",
        LossPlace::OwnConnectionLimit => "connections all in use",
        LossPlace::Late => "answered too late",
        LossPlace::WrongAnswer => "answered wrongly",
        LossPlace::Other(name) => return name.replace('_', " "),
    };
    words.to_owned()
}

/// Processor time of the server for each answer that counts, in microseconds: older records divide by the
/// queries sent alone.
pub(crate) fn dut_cpu_us_per_answer(trial: &Trial) -> Option<f64> {
    let seen = trial.observation.as_ref()?;
    let answers = if trial.validity == Validity::Compat { trial.valid_compat } else { trial.valid };
    let from_sent =
        || Some(seen.dut_cpu_us_per_query.filter(|_| answers > 0)? * trial.sent as f64 / answers as f64);
    seen.dut_cpu_us_per_answer.or_else(from_sent)
}

/// Processor time of the Tester during a trial, in percent of one processor.
pub(crate) fn tester_cpu_pct(trial: &Trial) -> Option<f64> {
    let seen = trial.observation.as_ref()?;
    let microseconds = seen.tester_cpu_us_per_query? * trial.sent as f64;
    (seen.elapsed_s > 0.0).then(|| microseconds / 1e6 / seen.elapsed_s * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_divided_by_answers_in_older_records_too() {
        let seen = |per_answer| record::Observation {
            dut_cpu_us_per_query: Some(6.0),
            dut_cpu_us_per_answer: per_answer,
            ..record::Observation::default()
        };
        let mut trial = Trial { sent: 100, valid: 50, valid_compat: 60, ..Trial::default() };
        trial.observation = Some(seen(None));
        assert_eq!(dut_cpu_us_per_answer(&trial), Some(12.0));
        trial.validity = Validity::Compat;
        assert_eq!(dut_cpu_us_per_answer(&trial), Some(10.0));
        trial.valid_compat = 0;
        assert_eq!(dut_cpu_us_per_answer(&trial), None);
        trial.observation = Some(seen(Some(7.0)));
        assert_eq!(dut_cpu_us_per_answer(&trial), Some(7.0));
    }
}
