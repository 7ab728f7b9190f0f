//! Every MUST and SHOULD of RFC 8219 section 9 (and what it takes from RFC 2544 and RFC 9693): kept, not
//! kept, or not to be told from the record.
//!
//! Each row is computed from the trials and the values of the record. A row about trials is open as long as
//! no trial counts, that is, as long as every trial is void. A trial that the record holds is never
//! contradicted.

mod asking;
mod concluding;
mod preparing;
mod templates;
#[cfg(test)]
mod tests;

use record::{Level, NameChoice, Outcome, Questions, Requirement, Results, Run, Sought, Trial};

/// Whether a requirement is kept (`None`: it does not apply, or the record does not tell), and how, or why
/// not.
type Judgement = (Option<bool>, String);

/// A requirement with its judge.
struct Row {
    section: &'static str,
    level: Level,
    text: &'static str,
    judge: fn(&Results) -> Judgement,
}

const fn must(section: &'static str, text: &'static str, judge: fn(&Results) -> Judgement) -> Row {
    Row { section, level: Level::Must, text, judge }
}

const fn should(section: &'static str, text: &'static str, judge: fn(&Results) -> Judgement) -> Row {
    Row { section, level: Level::Should, text, judge }
}

const ROWS: [Row; 14] = [
    must("9.2", "The client's side uses IPv6", preparing::client_over_ipv6),
    must("9.2.1", "The Tester is tested without the DUT before it tests", preparing::selftest_first),
    should(
        "9.2.1",
        "In the self-test, answers within 0.25 of the timeout at 2*(1+delta)*r, delta at least 0.1",
        preparing::selftest_rate,
    ),
    must("9.2", "Queries are sent at a constant rate", asking::constant_rate),
    should("9.2", "A trial lasts at least 60 s", asking::trial_length),
    should("9.2", "The timeout is 1 s, and no higher one is used", asking::timeout),
    must("9.2", "An answer counts when it is in time and contains a AAAA record", asking::valid_reply),
    must(
        "9.2",
        "All names differ, or do not repeat before the DUT's cache is exhausted",
        asking::distinct_names,
    ),
    must("9.2", "The worst case is measured: nothing cached, no name has a AAAA record", asking::worst_case),
    must("9.2", "At the rate found, every query got a valid answer", concluding::no_loss),
    should("9.2", "The search is repeated at least 20 times", concluding::repetitions),
    should(
        "12",
        "Median, 1st and 99th percentile are given, with the number of repetitions",
        concluding::percentiles,
    ),
    should(
        "4",
        "Two seconds for residual replies and five for the DUT to restabilize (RFC 2544 23)",
        concluding::restabilisation,
    ),
    should("9.3", "The error of the search is given (RFC 9693 6)", concluding::search_error),
];

/// Judges a measurement as far as it came. A search for connections has no rows: RFC 8219 knows none.
pub fn checklist(results: &Results) -> Vec<Requirement> {
    if results.sought() == Sought::Connections {
        return Vec::new();
    }
    let judged = |Row { section, level, text, judge }: &Row| {
        let (kept, note) = judge(results);
        Requirement { section: (*section).into(), level: level.clone(), text: (*text).into(), kept, note }
    };
    ROWS.iter().map(judged).collect()
}

fn kept(note: impl Into<String>) -> Judgement {
    (Some(true), note.into())
}

fn not_kept(note: impl Into<String>) -> Judgement {
    (Some(false), note.into())
}

fn open(note: impl Into<String>) -> Judgement {
    (None, note.into())
}

fn judged(is_kept: bool, note: String) -> Judgement {
    (Some(is_kept), note)
}

/// What stands in a row about trials where no trial counts.
fn no_trial() -> Judgement {
    open("no trial counts")
}

/// The trials of the search.
fn trials(results: &Results) -> impl Iterator<Item = &Trial> {
    results.runs.iter().flat_map(|run| &run.trials)
}

/// The trials that asked the server, the one at half the rate among them.
fn asked(results: &Results) -> impl Iterator<Item = &Trial> {
    trials(results).chain(&results.latency_trial)
}

/// Those that count.
fn counted(results: &Results) -> impl Iterator<Item = &Trial> {
    trials(results).filter(|trial| trial.outcome != Outcome::Void)
}

fn complete(results: &Results) -> impl Iterator<Item = &Run> {
    results.runs.iter().filter(|run| run.complete)
}

/// What the queries asked; `None` where the record says it in words alone, as older programs did. Those wrote
/// no word where nothing was unusual.
fn questions(results: &Results) -> Option<Questions> {
    let settings = &results.settings;
    settings.questions.clone().or_else(|| settings.workload.is_empty().then(Questions::default))
}

/// Why names come again although nobody has gone through the range; `None` where they do not, or where only a
/// file knows.
fn repeats(choice: &NameChoice) -> Option<&'static str> {
    match choice {
        NameChoice::Cached => Some("a share of the queries asked names that the server had cached"),
        NameChoice::OverAndOver => Some("the names were asked over and over"),
        NameChoice::Zipf => Some("popular names were asked again (Zipf)"),
        _ => None,
    }
}

/// Whether two trials went through the same part of a range of names, which ends where it begins.
fn overlap(results: &Results, each: u64, size: u64) -> bool {
    let length = |trial: &Trial| trial.scheduled.saturating_mul(each);
    let mut parts: Vec<(u64, u64)> = asked(results)
        .filter(|trial| trial.scheduled > 0)
        .map(|trial| (trial.first_name % size, length(trial)))
        .collect();
    parts.sort_unstable();
    let starts = parts.iter().map(|(first, _)| *first);
    let first = parts.first().map(|(first, _)| first.saturating_add(size));
    let next = starts.skip(1).chain(first);
    parts.iter().zip(next).any(|((first, length), next)| first.saturating_add(*length) > next)
}
