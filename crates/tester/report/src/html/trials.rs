//! Every trial of the measurement in one table.

use maud::{Markup, html};
use record::{Outcome, Results, Sought, Trial};

use super::missing;
use crate::clean::shortened;
use crate::select::{Entry, every_trial, outcome_word};
use crate::table::{Cell, Column, Table, table};
use crate::words::upper_first;
use record::number::{NONE, seconds};

/// In the order they were run.
pub fn trials(results: &Results) -> Markup {
    let entries = every_trial(results);
    if entries.is_empty() {
        return missing("No trial has been run.");
    }
    html! { (all(results, &entries)) }
}

pub fn tables(results: &Results) -> Vec<Table> {
    vec![all(results, &every_trial(results))]
}

fn all(results: &Results, entries: &[Entry<'_>]) -> Table {
    table_of("All trials, in the order they were run", entries, results.sought()).named("trials")
}

/// What the search looked for has the second column.
pub(crate) fn table_of(caption: &str, entries: &[Entry<'_>], sought: Sought) -> Table {
    let columns = [
        Column("Trial", false),
        Column(sought.head(), true),
        Column("Length", true),
        Column("Outcome", false),
        Column("Sent", true),
        Column("Valid", true),
        Column("Invalid", true),
        Column("Late", true),
        Column("Lost", true),
        Column("p50", true),
        Column("p99", true),
        Column("Slowest", true),
        Column("Sent late by, p99", true),
        Column("10 ms worst", true),
        Column("Reason", false),
    ];
    let rows = entries.iter().enumerate().map(|(index, entry)| row(index, entry, sought)).collect();
    table(caption, &columns, rows)
}

fn row(index: usize, entry: &Entry<'_>, sought: Sought) -> Vec<Cell> {
    let trial = entry.trial;
    let name = match entry.run {
        Some(run) => format!("run {run}, {}", entry.number),
        None => format!("{}, {}", entry.phase, entry.number),
    };
    let time = |value: u64| if trial.valid > 0 { Cell::time(value) } else { Cell::number(NONE, f64::NAN) };
    vec![
        Cell::markup(html! { (name) }, &name, &index.to_string()),
        Cell::count(sought.of_trial(trial)),
        Cell::number(&seconds(trial.duration_s), trial.duration_s).in_unit("s"),
        Cell::markup(outcome(trial), outcome_word(trial.outcome), outcome_word(trial.outcome)),
        Cell::count(trial.sent),
        Cell::count(trial.valid),
        Cell::count(trial.invalid),
        Cell::count(trial.late),
        Cell::count(trial.lost),
        time(trial.latency_ns.p50),
        time(trial.latency_ns.p99),
        time(trial.latency_ns.max),
        Cell::time(trial.schedule_error_ns.p99),
        Cell::percent(trial.windows.ms10.worst_pct),
        Cell::text(&shortened(&reason(trial), 240)),
    ]
}

/// Why it did not pass.
fn reason(trial: &Trial) -> String {
    let cause = trial
        .cause
        .as_ref()
        .map(|found| format!("{} ({})", upper_first(found.cause.as_str()), found.evidence));
    trial.void.iter().cloned().chain(cause).collect::<Vec<_>>().join("; ")
}

/// By word, sign and colour; the reason of a void one for the pointer.
fn outcome(trial: &Trial) -> Markup {
    let sign = match trial.outcome {
        Outcome::Pass => "●",
        Outcome::Fail => "✕",
        Outcome::Void => "◇",
    };
    let word = outcome_word(trial.outcome);
    html! { span.(word) title=[&trial.void] { (sign) " " (word) } }
}
