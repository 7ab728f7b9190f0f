//! What the reader must know before trusting the rate, and what each does to the rate.

mod effect;
mod machine;

use record::{Outcome, Results, Severity, Sought, State, Trial, Validity};

use super::bounds::inflation;
use super::held::{failed_at, held, lost_at, lost_at_or_below};
use super::interval::{advice, interval};
use super::select::{Phase, Tally, every_trial};
use super::words::{at_ceiling, upper_first};
pub(crate) use effect::Effect;
use record::number::{plural, rate_of, seconds};

/// RFC 8219 9: a trial SHOULD last at least this long, in seconds.
const TRIAL_S: f64 = 60.0;
/// RFC 8219 9: a search SHOULD be repeated at least this often.
const REPETITIONS: usize = 20;
/// RFC 8219 9: no longer timeout SHOULD be used, in seconds.
const TIMEOUT_S: f64 = 1.0;

/// Caveats that the end of a measurement prints.
const REMARKS: usize = 3;

/// Something the reader must know before believing the numbers.
pub(crate) struct Caveat {
    pub severity: Severity,
    pub effect: Effect,
    pub title: String,
    /// What it means, in a sentence or two.
    pub text: String,
}

fn caveat(severity: Severity, effect: Effect, title: impl Into<String>, text: impl Into<String>) -> Caveat {
    Caveat { severity, effect, title: title.into(), text: text.into() }
}

/// Everything the reader must know, in the order of what it does to the rate.
pub(crate) fn caveats(results: &Results) -> Vec<Caveat> {
    let mut all = Vec::new();
    all.extend(state_caveat(results));
    all.extend(selftest_caveat(results));
    all.extend(ceiling_caveat(results));
    all.extend(rate_caveats(results));
    all.extend(cache_caveat(results));
    all.extend(trust_caveats(results));
    all.extend(deviation_caveat(results));
    all.extend(machine::caveats(results));
    all.sort_by(|a, b| b.effect.total_cmp(&a.effect).then(b.severity.cmp(&a.severity)));
    all
}

/// Of these what is printed at the end of a measurement: what bears on the rate most. Without a rate the
/// verdict alone says how the measurement ended.
pub(crate) fn remarks(results: &Results) -> Vec<Caveat> {
    let all = caveats(results).into_iter().filter(|caveat| caveat.effect != Effect::None);
    if results.found().is_some() { all.take(REMARKS).collect() } else { Vec::new() }
}

/// More runs can only lower the lowest rate.
fn state_caveat(results: &Results) -> Option<Caveat> {
    let done = results.runs.iter().filter(|run| run.complete).count();
    let planned = plural(results.settings.repetitions as usize, "run", "runs");
    let came = format!("{done} of {planned} were completed");
    let (severity, title, text) = match &results.state {
        State::Complete => return None,
        State::Running => (
            Severity::Warning,
            "Not finished",
            format!(
                "The measurement still runs, or it crashed; {came}. The numbers are what is known so far."
            ),
        ),
        State::Interrupted => (
            Severity::Warning,
            "Interrupted",
            format!("The measurement was interrupted; {came}. The numbers are what was measured until then."),
        ),
        State::Failed(reason) => {
            let reason = reason.trim_end_matches('.');
            let after = if reason.is_empty() { "" } else { "; " };
            (Severity::Fatal, "Failed", format!("{reason}{after}{came}."))
        }
    };
    Some(caveat(severity, Effect::Bound, title, text))
}

fn selftest_caveat(results: &Results) -> Option<Caveat> {
    match &results.selftest {
        Some(test) if test.passed => None,
        Some(test) if test.certified_qps > 0 => Some(caveat(
            Severity::Fatal,
            Effect::Worthless,
            "Self-test not passed",
            format!(
                "The Tester did not reach the {} that it needs for the highest rate of the search. It is fit to measure \
                 up to {}; do not trust rates above.",
                rate_of(test.required_qps),
                rate_of(test.certified_qps)
            ),
        )),
        Some(test) => Some(caveat(
            Severity::Fatal,
            Effect::Worthless,
            "Self-test not passed",
            format!(
                "The Tester did not reach the {} that it needs: no rate here can be trusted.",
                rate_of(test.required_qps)
            ),
        )),
        None if results.runs.is_empty() => None,
        None if results.sought() == Sought::Connections => Some(caveat(
            Severity::Warning,
            Effect::Unknown,
            "No self-test of connections",
            "No certificate tells how many connections this Tester can hold. The trials themselves tell of its end: \
             a trial is void if the Tester fell behind its schedule or had no port or no file for a connection. A \
             handshake that the Tester made slowly counts against the server.",
        )),
        None => Some(caveat(
            Severity::Warning,
            Effect::Unknown,
            "No self-test",
            "RFC 8219 9.2.1 asks for a self-test before any rate is measured: the Tester may be the limit.",
        )),
    }
}

/// The load of the AuthDNS in a trial with a cached share c and a AAAA share a is (1 - c) * (2 - a) for each
/// query.
fn cache_caveat(results: &Results) -> Option<Caveat> {
    let settings = &results.settings;
    let share = |pct: u8| f64::from(pct) / 100.0;
    let (cached, native) = (share(settings.cached_share_pct), share(settings.aaaa_share_pct));
    let expected = (1.0 - cached) * (2.0 - native);
    let trials = results.runs.iter().flat_map(|run| &run.trials);
    let seen =
        trials.filter_map(|trial| trial.observation.as_ref()?.auth_queries_per_query).reduce(f64::min)?;
    (cached > 0.0 && seen > expected * 1.1 + 0.02).then(|| {
        let text = format!(
            "At least {seen:.2} queries came to the AuthDNS for each query, where {expected:.2} were expected: the server \
             did not answer the cached share from a cache."
        );
        let effect = Effect::of_percent((seen / expected - 1.0) * 100.0);
        caveat(Severity::Warning, effect, "Not cached", text)
    })
}

fn ceiling_caveat(results: &Results) -> Option<Caveat> {
    let hit = results.runs.iter().filter(|run| run.at_ceiling).count();
    let certified = results.selftest.as_ref().map_or(0, |test| test.certified_qps);
    let beyond = results.runs.iter().filter(|run| certified > 0 && run.qps > certified).count();
    let noun = results.sought().noun();
    // Where all were, the verdict says so.
    if hit > 0 && !at_ceiling(results) {
        let text = format!(
            "{} passed at the highest {noun} that the search may try ({}): the true {noun} may be higher.",
            plural(hit, "run", "runs"),
            results.sought().in_words(results.range()[1])
        );
        return Some(caveat(Severity::Warning, Effect::Bound, "At the ceiling", text));
    }
    (beyond > 0).then(|| {
        let text = format!(
            "{} found a rate above the {} for which this Tester is certified.",
            plural(beyond, "run", "runs"),
            rate_of(certified)
        );
        caveat(Severity::Fatal, Effect::Worthless, "Beyond the certificate", text)
    })
}

/// What the trials say against the rate.
fn rate_caveats(results: &Results) -> Vec<Caveat> {
    let mut all = Vec::new();
    let found = interval(results);
    if found.is_some() {
        all.push(caveat(Severity::Warning, Effect::Bound, "An interval, no rate", advice(results)));
    }
    let least_qps = found.map(|found| found.at_least_qps);
    let Some(load) = results.found().map(|found| found.p1).or(least_qps) else { return all };
    let (held, sought) = (held(results, load), results.sought());
    if let Some(lowest) = held.lowest_lost() {
        let found =
            format!("{} at {} or below", plural(held.trials, "trial", "trials"), sought.in_words(load));
        let otherwise: Vec<String> = held.otherwise().map(|trial| failed_at(trial, sought)).collect();
        let lossy = held.lost.len() - otherwise.len();
        let mut text = String::new();
        if lossy > 0 {
            let losses = held.losses(|trial| lost_at(trial, sought));
            text += &format!("{lossy} of {found} lost queries: {losses}. ");
        }
        if !otherwise.is_empty() {
            text += &format!("{} of {found} failed: {}. ", otherwise.len(), otherwise.join(", "));
        }
        let rule = match sought {
            Sought::Rate => "By the rule of RFC 8219, where every trial counts,",
            Sought::Connections => "If every trial counts,",
        };
        text += &format!("{rule} the {} lies below {}.", sought.noun(), sought.in_words(lowest));
        let title = match sought {
            Sought::Rate if lossy > 0 => "Queries were lost at or below the rate",
            Sought::Rate => "Trials failed at or below the rate",
            Sought::Connections => "Trials failed at or below the number",
        };
        // By that rule the search would have stopped at least its width below.
        let width = results.found().map_or(0, |found| found.stop_width());
        let too_high = load.saturating_sub(lowest).saturating_add(width);
        let effect = Effect::of_percent(too_high as f64 / load.max(1) as f64 * 100.0);
        all.push(caveat(Severity::Warning, effect, title, text));
    }
    if let Some(found) = inflation(results, load).filter(|found| found.matters(results)) {
        let text = format!(
            "{} A server with a queue answers the queries that wait in the queue in that time.",
            found.words()
        );
        all.push(caveat(Severity::Warning, Effect::Percent(found.pct), "Short trials", text));
    }
    all
}

fn trust_caveats(results: &Results) -> Vec<Caveat> {
    let mut all = Vec::new();
    let trials = every_trial(results);
    let tally =
        Tally::of(trials.iter().filter(|entry| entry.phase == Phase::Search).map(|entry| entry.trial));
    if tally.void * 4 > tally.total() && interval(results).is_none() {
        let text = format!(
            "The Tester or other load disturbed too many trials: use a quieter machine, or a lower {}.",
            results.sought().highest_option()
        );
        let title = format!("{} of {} trials void", tally.void, tally.total());
        all.push(caveat(Severity::Warning, Effect::Unknown, title, text));
    }
    if let Some(trial) = results.latency_trial.as_ref().filter(|trial| trial.outcome != Outcome::Pass) {
        let why = trial.void.as_deref().unwrap_or("the server left queries unanswered although it had time");
        let text = format!("At {}: {}.", rate_of(trial.rate_qps), why.trim_end_matches('.'));
        all.push(caveat(Severity::Warning, Effect::None, "The latency trial did not pass", text));
    }
    let inversions: u64 = results.runs.iter().map(|run| u64::from(run.loss_inversions)).sum();
    if inversions > 0 {
        let noun = results.sought().noun();
        let text = format!(
            "A trial failed at a {noun} at which another passed, or below: losses came and went, so the {noun} is uncertain."
        );
        // What was lost at or below the rate says more.
        let is_said = lost_at_or_below(results).is_some();
        let effect = if is_said { Effect::None } else { Effect::Unknown };
        all.push(caveat(
            Severity::Info,
            effect,
            plural(inversions as usize, "loss inversion", "loss inversions"),
            text,
        ));
    }
    if results.settings.validity == Validity::Compat {
        let text = "Any NOERROR answer with a record counted as valid, right or wrong, as in dns64perf++.";
        let wrong = |trial: &Trial| {
            trial.valid_compat.saturating_sub(trial.valid) as f64 / trial.scheduled.max(1) as f64
        };
        let trials =
            results.runs.iter().flat_map(|run| &run.trials).filter(|trial| trial.outcome == Outcome::Pass);
        let effect = Effect::of_percent(trials.map(wrong).fold(0.0, f64::max) * 100.0);
        all.push(caveat(Severity::Info, effect, "Compatible validity", text));
    }
    all
}

fn deviation_caveat(results: &Results) -> Option<Caveat> {
    let short_of = deviations_of(results);
    let title = match short_of.first()?.0 {
        Deviation::TrialLength => "Trials shorter than RFC 8219 asks",
        Deviation::Repetitions => "Fewer repetitions than RFC 8219 asks",
        Deviation::Timeout => "Not as RFC 8219 asks",
    };
    let clauses: Vec<String> = short_of.into_iter().map(|(_, clause)| clause).collect();
    let seldom = if title.starts_with("Trials") { SELDOM } else { "" };
    let text = format!("{}. Take the result as an estimate.{seldom}", upper_first(&clauses.join("; ")));
    // How much few and short trials leave open shows in how far the runs differ.
    let spread = results.summary.as_ref().filter(|summary| summary.n > 1);
    let effect = spread.map_or(Effect::Unknown, |summary| Effect::Percent(summary.dispersion_pct));
    Some(caveat(Severity::Warning, effect, title, text))
}

/// Where the measurement asks less than RFC 8219 does, in short clauses.
pub(crate) fn deviations(results: &Results) -> Vec<String> {
    deviations_of(results).into_iter().map(|(_, clause)| clause).collect()
}

/// The largest excess of the rows of docs/method.md about servers that stall, with trials shorter than 60 s.
const SELDOM: &str = " Short trials may miss stalls of the server: simulated servers that stall were rated up to 65 % too \
                      high (docs/method.md).";

/// What of a measurement is less than RFC 8219 asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deviation {
    TrialLength,
    Repetitions,
    Timeout,
}

fn deviations_of(results: &Results) -> Vec<(Deviation, String)> {
    let settings = &results.settings;
    let mut all = Vec::new();
    if results.sought() != Sought::Rate {
        // RFC 8219 knows no search for connections.
        return all;
    }
    if settings.trial_s > 0.0 && settings.trial_s < TRIAL_S {
        let clause =
            format!("trials lasted {} where {} are asked", seconds(settings.trial_s), seconds(TRIAL_S));
        all.push((Deviation::TrialLength, clause));
    }
    let n = results.summary.as_ref().map_or(settings.repetitions as usize, |summary| summary.n);
    if n < REPETITIONS && !(n == 0 && results.runs.is_empty()) {
        let clause = format!("{} where {REPETITIONS} are asked", plural(n, "repetition", "repetitions"));
        all.push((Deviation::Repetitions, clause));
    }
    if settings.timeout_s > TIMEOUT_S {
        let clause = format!("a timeout of {} where at most 1 s is asked", seconds(settings.timeout_s));
        all.push((Deviation::Timeout, clause));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Observation, Run, Trial};

    #[test]
    fn a_share_that_was_not_cached_is_said_to_be_so() {
        for (auth_queries_per_query, warned) in [(1.0, false), (1.2, true), (2.0, true)] {
            let seen = Observation {
                auth_queries_per_query: Some(auth_queries_per_query),
                ..Observation::default()
            };
            let trial = Trial { observation: Some(seen), ..Trial::default() };
            let mut results = Results::new(record::Kind::Bench);
            results.runs = vec![Run { trials: vec![trial], ..Run::default() }];
            assert!(cache_caveat(&results).is_none(), "nothing was to be cached");
            results.settings.cached_share_pct = 50;
            assert_eq!(cache_caveat(&results).is_some(), warned, "{auth_queries_per_query}");
        }
    }
}
