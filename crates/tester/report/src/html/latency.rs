//! Latency, its course in time, and how evenly the queries were sent.

use maud::{Markup, html};
use record::limits::WINDOW_DEVIATION;
use record::{Latency, Results, Trial, Window};

use super::{figure, missing};
use crate::charts;
use crate::select::{best_pass, deciding_failure, typical_run};
use crate::table::{Cell, Column, Table, table};
use record::number::rate_of;

/// The trials whose times matter: half rate, then the rate found by each run.
fn timed(results: &Results) -> Vec<(String, &Trial)> {
    let half = results.latency_trial.iter().map(|trial| ("half rate".to_owned(), trial));
    let best = results.runs.iter().enumerate();
    let best = best.filter_map(|(index, run)| Some((format!("run {}", index + 1), best_pass(run)?)));
    half.chain(best).collect()
}

/// The tail of each trial, drawn and in numbers.
pub fn latency(results: &Results) -> Markup {
    let trials = timed(results);
    if trials.is_empty() {
        return missing("No trial passed whose latency could be shown.");
    }
    html! {
        (figure(|size| charts::latency(results, size), &html! {
            "How slow the slowest answers were. Read it from the left: all answers, the slowest half (50 %), the slowest \
             hundredth (1 %), and so on to the rare ones. Latency counts from the instant at which a query was due, so that \
             a late Tester cannot hide a slow server."
        }))
        (from_schedule(&trials))
        details {
            summary { "The same from the actual sending" }
            (from_sending(&trials))
        }
    }
}

/// Those of latency and of pacing.
pub fn tables(results: &Results) -> Vec<Table> {
    let trials = timed(results);
    if trials.is_empty() {
        return Vec::new();
    }
    vec![from_schedule(&trials), from_sending(&trials), windows(&trials), lateness(&trials)]
}

fn from_schedule(trials: &[(String, &Trial)]) -> Table {
    times("Latency of valid answers, from the scheduled instant", trials, |trial| &trial.latency_ns)
        .named("latency")
}

fn from_sending(trials: &[(String, &Trial)]) -> Table {
    times("Latency of valid answers, from the sending", trials, |trial| &trial.latency_from_send_ns)
        .named("latency-from-sending")
}

fn times(caption: &str, trials: &[(String, &Trial)], of: fn(&Trial) -> &Latency) -> Table {
    let row = |(name, trial): &(String, &Trial)| {
        let latency = of(trial);
        let mut cells = vec![Cell::text(name), Cell::count(trial.rate_qps)];
        cells.extend([latency.p50, latency.p90, latency.p99, latency.p999, latency.max].map(Cell::time));
        cells.push(Cell::mean_time(latency.mean));
        cells
    };
    let columns = [
        Column("Trial", false),
        Column("Rate, q/s", true),
        Column("p50", true),
        Column("p90", true),
        Column("p99", true),
        Column("p99.9", true),
        Column("Slowest", true),
        Column("Mean", true),
    ];
    table(caption, &columns, trials.iter().map(row).collect())
}

/// The course of the trial at half rate, and of the failure that stopped the typical run.
pub fn seconds(results: &Results) -> Markup {
    let typical = typical_run(results);
    let failed = typical.and_then(|(number, run)| Some((number, deciding_failure(run)?)));
    let half = results.latency_trial.as_ref();
    let enough = |trial: &&Trial| trial.series.len() >= charts::PARTS_MIN;
    html! {
        @if let Some(trial) = half.filter(enough) {
            (figure(|size| charts::series(trial, size), &html! { "The trial at half the rate, " (rate_of(trial.rate_qps)) "." }))
            (figure(|size| charts::answers(trial, size), &html! { "Its answers: how long they took, and whether they said anything but NOERROR. The percentiles of a second are up to a quarter too high." }))
        }
        @if let Some((number, trial)) = failed.filter(|(_, trial)| enough(trial)) {
            (figure(|size| charts::series(trial, size), &html! {
                "The failure that stopped run " (number) ", " (rate_of(trial.rate_qps)) ": when queries went without a valid answer."
            }))
            (figure(|size| charts::answers(trial, size), &html! { "Its answers." }))
        }
        @if half.filter(enough).is_none() && failed.filter(|(_, trial)| enough(trial)).is_none() {
            (missing("No trial was long enough to show its course."))
        }
    }
}

/// Windows and lateness of the same trials.
pub fn pacing(results: &Results) -> Markup {
    let trials = timed(results);
    if trials.is_empty() {
        return missing("No trial passed whose pacing could be shown.");
    }
    html! {
        p {
            "A constant rate must be constant in every short window too: bursts measure a server's buffers, not the server. \
             Worst is the largest deviation of a window's count from the schedule, CV the coefficient of variation of all; \
             off is the share of windows that are more than " (WINDOW_DEVIATION.value) " % off."
        }
        @if let Some((name, trial)) = trials.first() {
            (figure(|size| charts::pacing(trial, size), &html! { "The trial of the first row below, " (name) ", " (rate_of(trial.rate_qps)) "." }))
        }
        (windows(&trials))
        (lateness(&trials))
    }
}

fn windows(trials: &[(String, &Trial)]) -> Table {
    let cells = |window: &Window| [window.worst_pct, window.cv_pct].map(Cell::percent);
    let row = |(name, trial): &(String, &Trial)| {
        let mut row = vec![Cell::text(name), Cell::count(trial.rate_qps)];
        row.extend([trial.windows.ms1, trial.windows.ms10, trial.windows.ms100].iter().flat_map(cells));
        row.push(Cell::percent(trial.windows.ms10.off_pct));
        row
    };
    let columns = [
        Column("Trial", false),
        Column("Rate, q/s", true),
        Column("1 ms worst", true),
        Column("1 ms CV", true),
        Column("10 ms worst", true),
        Column("10 ms CV", true),
        Column("100 ms worst", true),
        Column("100 ms CV", true),
        Column("10 ms off", true),
    ];
    table("Evenness of the sending", &columns, trials.iter().map(row).collect()).named("pacing")
}

fn lateness(trials: &[(String, &Trial)]) -> Table {
    let row = |(name, trial): &(String, &Trial)| {
        let late = &trial.schedule_error_ns;
        let mut row = vec![Cell::text(name), Cell::count(trial.rate_qps)];
        row.extend([late.p50, late.p99, late.p999, late.max].map(Cell::time));
        row
    };
    let columns = [
        Column("Trial", false),
        Column("Rate, q/s", true),
        Column("p50", true),
        Column("p99", true),
        Column("p99.9", true),
        Column("Latest", true),
    ];
    let caption = "How late queries were sent after their scheduled instant";
    table(caption, &columns, trials.iter().map(row).collect()).named("lateness")
}
