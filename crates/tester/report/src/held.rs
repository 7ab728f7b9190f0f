//! In which trials a load held, counted over all trials of the record, whatever the search decided. The load
//! is what the search looked for ([`Sought`]).
//!
//! All sentences about a load go through [`held`], so that none contradicts a trial.

use super::goals::may_lose;
use record::number::{count, plural, seconds, share, short};
use record::{Outcome, Results, Run, Sought, Trial};

/// Losses that are named; of more the largest are.
const NAMED: usize = 4;

/// What the trials that are not void say of a load: those at it or below.
#[derive(Clone, Debug)]
pub struct Held<'a> {
    /// What the search looked for.
    sought: Sought,
    /// The load, in its unit.
    load: u64,
    /// The trials at or below it.
    pub trials: usize,
    /// Those of them that failed, but for losses that the first goal of the search allows; the largest share
    /// first. A trial that failed for another reason than losses is the last, and no goal allows it.
    pub lost: Vec<&'a Trial>,
    /// The shortest and the longest in seconds.
    lengths_s: (f64, f64),
}

/// How a load held in all runs of the search and in the trial at half the rate.
pub fn held(results: &Results, load: u64) -> Held<'_> {
    let trials = results.runs.iter().flat_map(|run| &run.trials).chain(&results.latency_trial);
    of_trials(results, load, trials)
}

/// How the lowest load of the runs held, if a trial at it or below lost too much. `None` with goals by which
/// such trials are expected.
pub(crate) fn lost_at_or_below(results: &Results) -> Option<Held<'_>> {
    let held = held(results, results.found()?.p1);
    (!held.lost.is_empty() && !may_lose(results)).then_some(held)
}

/// How the load of a run held in its own trials.
pub(crate) fn of_run<'a>(results: &Results, run: &'a Run) -> Held<'a> {
    of_trials(results, run.found(), &run.trials)
}

fn of_trials<'a>(results: &Results, load: u64, trials: impl IntoIterator<Item = &'a Trial>) -> Held<'a> {
    let sought = results.sought();
    let allowed = results.settings.goals.first().map_or(0.0, |goal| goal.loss_pct / 100.0);
    let concerns = |trial: &&Trial| trial.outcome != Outcome::Void && sought.of_trial(trial) <= load;
    let mut found = Held { sought, load, trials: 0, lost: Vec::new(), lengths_s: (f64::INFINITY, 0.0) };
    for trial in trials.into_iter().filter(concerns) {
        found.trials += 1;
        let (shortest, longest) = found.lengths_s;
        found.lengths_s = (shortest.min(trial.duration_s), longest.max(trial.duration_s));
        if trial.failed_beyond(allowed) {
            found.lost.push(trial);
        }
    }
    found.lost.sort_by(|a, b| b.loss_ratio().total_cmp(&a.loss_ratio()));
    found
}

impl<'a> Held<'a> {
    /// Whether there are trials, and none of them lost too much.
    pub fn is_everywhere(&self) -> bool {
        self.trials > 0 && self.lost.is_empty()
    }

    /// The load in words.
    pub(crate) fn load_in_words(&self) -> String {
        self.sought.in_words(self.load)
    }

    /// The lowest load at which a trial lost too much.
    pub fn lowest_lost(&self) -> Option<u64> {
        self.lost.iter().map(|trial| self.sought.of_trial(trial)).min()
    }

    /// In how many trials the load held, and what the others lost: `in 5 of 7 trials of 2 s at or below it; 2
    /// lost 5.20 % and 1.50 %`.
    pub fn words(&self) -> String {
        let lengths = match self.lengths_s {
            (shortest, longest) if shortest < longest => {
                format!("{} to {}", short(shortest), seconds(longest))
            }
            (_, longest) => seconds(longest),
        };
        let all = format!("{} of {lengths} at or below it", plural(self.trials, "trial", "trials"));
        if self.lost.is_empty() {
            return match self.trials {
                0 => "in no trial of the record".to_owned(),
                1 => format!("in the only trial of {lengths} at or below it"),
                _ => format!("in every one of {all}"),
            };
        }
        let held = count((self.trials - self.lost.len()) as u64);
        if self.sought == Sought::Connections {
            // A trial may lose a connection and no query.
            return format!("in {held} of {all}; {} failed", count(self.lost.len() as u64));
        }
        let otherwise = self.otherwise().count();
        let lost = match self.lost.len() - otherwise {
            0 => String::new(),
            lost => format!("; {} lost {}", count(lost as u64), self.losses(share_lost)),
        };
        let failed = match otherwise {
            0 => String::new(),
            failed => format!("; {} failed without a lost query", count(failed as u64)),
        };
        format!("in {held} of {all}{lost}{failed}")
    }

    /// Those that failed although every query had a valid answer: the cache was not filled beforehand, or a
    /// connection could not be had.
    pub(crate) fn otherwise(&self) -> impl Iterator<Item = &'a Trial> {
        self.lost.iter().copied().filter(|trial| trial.failed_queries() == 0)
    }

    /// The lost trials in words, the largest first and not more than [`NAMED`].
    pub(crate) fn losses(&self, in_words: impl Fn(&Trial) -> String) -> String {
        let lossy = || self.lost.iter().filter(|trial| trial.failed_queries() > 0);
        let mut named: Vec<String> = lossy().take(NAMED).map(|trial| in_words(trial)).collect();
        if lossy().count() > NAMED {
            return format!("{} and less", named.join(", "));
        }
        let last = named.pop().unwrap_or_default();
        if named.is_empty() { last } else { format!("{} and {last}", named.join(", ")) }
    }
}

/// The share of its queries that a trial lost: `3.14 %`.
pub(crate) fn share_lost(trial: &Trial) -> String {
    share(trial.failed_queries(), trial.scheduled)
}

/// What a trial lost, and where: `5,230 (3.14 %) at 83,203 q/s`.
pub(crate) fn lost_at(trial: &Trial, sought: Sought) -> String {
    let load = sought.in_words(sought.of_trial(trial));
    format!("{} ({}) at {load}", count(trial.failed_queries()), share_lost(trial))
}

/// Why a trial failed that lost nothing: `at 83,203 q/s: the cache could not be warmed: ...`.
pub(crate) fn failed_at(trial: &Trial, sought: Sought) -> String {
    let at = format!("at {}", sought.in_words(sought.of_trial(trial)));
    trial.cause.as_ref().map_or(at, |cause| cause.evidence.clone())
}
