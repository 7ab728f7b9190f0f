//! The limits of short and few trials: how far a rate may be too high, and which losses stay unseen.

use record::number::{count, percent, seconds, time_ns};
use record::{Outcome, Results, Sought, Trial};

/// By how much the trials at a rate may overstate it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inflation {
    /// In percent of the rate that is sustained at least.
    pub pct: f64,
    /// How long after the end of the schedule the last answers came at most, in seconds.
    pub drain_s: f64,
    /// The length of that trial in seconds.
    pub trial_s: f64,
}

/// How far the rate may be too high because the trials that passed at it were short: a server with a queue
/// answers what came in the time T of a trial within T and the time in which its queue drains. `None` if no
/// trial passed at the rate.
pub fn inflation(results: &Results, rate_qps: u64) -> Option<Inflation> {
    if results.sought() != Sought::Rate {
        return None;
    }
    let timeout_s = results.settings.timeout_s;
    let of_trial = |trial: &Trial| {
        let drain_s = drain_s(trial).min(if timeout_s > 0.0 { timeout_s } else { f64::INFINITY });
        Inflation { pct: drain_s / trial.duration_s * 100.0, drain_s, trial_s: trial.duration_s }
    };
    let known = passed_at(results, rate_qps).filter(|trial| trial.duration_s > 0.0).map(of_trial);
    known.filter(|found| found.pct.is_finite()).max_by(|a, b| a.pct.total_cmp(&b.pct))
}

/// How long after the end of its schedule the last answer of a trial came at most, in seconds: by the slowest
/// answer to a query of each second, or of the whole trial where the seconds were not looked at.
pub fn drain_s(trial: &Trial) -> f64 {
    let slowest_s = |ns: u64| ns as f64 / 1e9;
    if trial.answers.is_empty() || trial.answers.len() != trial.series.len() {
        return slowest_s(trial.latency_ns.max);
    }
    let ends = trial.series.iter().skip(1).map(|next| next.start_s).chain([trial.duration_s]);
    let late =
        |(end_s, answers): (f64, &record::Answers)| end_s + slowest_s(answers.max_ns) - trial.duration_s;
    ends.zip(&trial.answers).map(late).fold(0.0, f64::max)
}

fn passed_at(results: &Results, load: u64) -> impl Iterator<Item = &Trial> {
    let (trials, sought) = (results.runs.iter().flat_map(|run| &run.trials), results.sought());
    trials.filter(move |trial| trial.outcome == Outcome::Pass && sought.of_trial(trial) == load)
}

impl Inflation {
    /// The whole sentence.
    pub fn words(&self) -> String {
        format!(
            "Trials of {} may overstate the rate by up to {}: the last answers took up to {}.",
            seconds(self.trial_s),
            percent(self.pct),
            time_ns(self.drain_s * 1e9)
        )
    }

    /// Whether it is more than the searches can tell apart.
    pub fn matters(&self, results: &Results) -> bool {
        let found = results.summary.as_ref().filter(|summary| summary.p1 > 0);
        let width_pct = found.map_or(0.0, |found| found.stop_width_qps as f64 / found.p1 as f64 * 100.0);
        self.pct > width_pct.max(results.settings.width_pct)
    }
}

/// Which losses would not show (the rule of three): after n queries without loss a loss ratio of less than
/// 3/n cannot be excluded. Nothing where a trial at the load failed, or none passed.
pub(crate) fn unseen(results: &Results, load: u64) -> Option<String> {
    let mut trials = results.runs.iter().flat_map(|run| &run.trials);
    let is_lossy = |trial: &Trial| trial.outcome == Outcome::Fail && results.sought().of_trial(trial) == load;
    if trials.any(is_lossy) {
        return None;
    }
    let queries = passed_at(results, load).fold(0u64, |sum, trial| sum.saturating_add(trial.scheduled));
    (queries >= 3).then(|| {
        format!("A loss of less than 1 query in {} would not show (rule of three, 95 %).", count(queries / 3))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Answers, Interval, Kind, Run};

    fn results(trial: Trial) -> Results {
        let mut results = Results::new(Kind::Bench);
        results.settings.timeout_s = 1.0;
        results.runs = vec![Run { trials: vec![trial], ..Run::default() }];
        results
    }

    #[test]
    fn the_drain_is_what_comes_after_the_schedule() {
        let answers = |max_ns| Answers { max_ns, ..Answers::default() };
        let part = |start_s| Interval { start_s, ..Interval::default() };
        let trial = Trial {
            rate_qps: 100,
            duration_s: 2.0,
            scheduled: 200,
            outcome: Outcome::Pass,
            series: vec![part(0.0), part(1.0)],
            answers: vec![answers(900_000_000), answers(240_000_000)],
            ..Trial::default()
        };
        let found = inflation(&results(trial.clone()), 100).unwrap();
        assert!((found.pct - 12.0).abs() < 1e-9, "{found:?}");
        let expected =
            "Trials of 2 s may overstate the rate by up to 12.00 %: the last answers took up to 240 ms.";
        assert_eq!(found.words(), expected);
        let mut unseen_seconds = Trial { answers: Vec::new(), ..trial };
        unseen_seconds.latency_ns.max = 5_000_000_000;
        let found = inflation(&results(unseen_seconds), 100).unwrap();
        assert_eq!((found.drain_s, found.pct), (1.0, 50.0), "the timeout is a bound as well");
        assert_eq!(inflation(&results(Trial::default()), 100), None);
    }

    #[test]
    fn what_few_queries_cannot_show_is_said_only_without_losses() {
        let trial = Trial { rate_qps: 100, scheduled: 300, outcome: Outcome::Pass, ..Trial::default() };
        let mut results = results(trial.clone());
        assert!(unseen(&results, 100).unwrap().contains("1 query in 100 would"));
        assert_eq!(unseen(&results, 99), None);
        results.runs[0].trials.push(Trial { outcome: Outcome::Fail, ..trial });
        assert_eq!(unseen(&results, 100), None);
    }
}
