//! The limits of the rate: where queries were lost, and which processors were busy.

use std::collections::BTreeMap;

use maud::{Markup, html};
use record::{Observation, Results, Trial};

use super::connections::connections;
use super::{figure, missing};
use crate::charts;
use crate::clean::shortened;
use crate::select::{best_pass, deciding_failure, dut_cpu_us_per_answer, place, tester_cpu_pct, typical_run};
use crate::table::{Cell, Column, Table, table};
use crate::words::upper_first;
use record::number::{count, percent, rate_of, real, share, significant};

/// Wrong answers that are listed.
const REASONS: usize = 50;

/// Those of the losses and of the counters.
pub fn tables(results: &Results) -> Vec<Table> {
    let (failures, observed) = (failures(results), observed(results));
    let mut tables = Vec::new();
    if !failures.is_empty() {
        tables.push(accounting(&failures));
    }
    tables.extend(reasons(&failures));
    tables.extend(connections(results));
    if !observed.is_empty() {
        tables.extend([processor_table(&observed), counter_table(&observed)]);
    }
    tables
}

/// The trial that stopped each run, with the run's number.
fn failures(results: &Results) -> Vec<(usize, &Trial)> {
    let runs = results.runs.iter().enumerate();
    runs.filter_map(|(index, run)| Some((index + 1, deciding_failure(run)?))).collect()
}

/// The queries that were lost, and the connections.
pub fn losses(results: &Results) -> Markup {
    html! {
        (failed(results))
        @if let Some(table) = connections(results) { (table) }
    }
}

/// The flow of the deciding failure, and all deciding failures as rows.
fn failed(results: &Results) -> Markup {
    let failures = failures(results);
    if failures.is_empty() {
        return missing("No trial failed above a rate that was found: no loss decided.");
    }
    let typical = typical_run(results).and_then(|(number, run)| Some((number, deciding_failure(run)?)));
    html! {
        @if let Some((number, trial)) = typical {
            (figure(|size| charts::losses(trial, size), &html! {
                "Every query of the trial that stopped run " (number) " at " (rate_of(trial.rate_qps)) ", from the schedule to its \
                 end. The least streams are drawn wider than they are, to be seen."
            }))
        }
        div.places { (accounting(&failures)) }
        @if let Some(table) = reasons(&failures) { (table) }
    }
}

fn accounting(failures: &[(usize, &Trial)]) -> Table {
    let row = |(number, trial): &(usize, &Trial)| {
        let places: Vec<String> = (trial.losses.iter())
            .filter(|(_, number)| **number > 0)
            .take(12)
            .map(|(name, number)| format!("{}: {}", shortened(&place(name), 40), count(*number)))
            .collect();
        let missing = trial.scheduled.saturating_sub(trial.valid);
        vec![
            Cell::count(*number as u64),
            Cell::count(trial.rate_qps),
            Cell::count(trial.scheduled),
            Cell::count(trial.sent),
            Cell::count(trial.valid),
            Cell::count(trial.invalid),
            Cell::count(trial.late),
            Cell::count(trial.lost),
            Cell::number(&share(missing, trial.scheduled), missing as f64 / trial.scheduled.max(1) as f64),
            Cell::text(&places.join(", ")),
        ]
    };
    let columns = [
        Column("Run", true),
        Column("Rate, q/s", true),
        Column("Due", true),
        Column("Sent", true),
        Column("Valid", true),
        Column("Invalid", true),
        Column("Late", true),
        Column("Lost", true),
        Column("Without answer", true),
        Column("By place", false),
    ];
    table("The trial that stopped each run", &columns, failures.iter().map(row).collect()).named("losses")
}

fn reasons(failures: &[(usize, &Trial)]) -> Option<Table> {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for (reason, number) in failures.iter().flat_map(|(_, trial)| &trial.invalid_reasons) {
        let sum = all.entry(reason).or_default();
        *sum = sum.saturating_add(*number);
    }
    let rows =
        all.iter().take(REASONS).map(|(reason, number)| vec![Cell::text(reason), Cell::count(*number)]);
    let rows: Vec<Vec<Cell>> = rows.collect();
    let columns = [Column("Reason", false), Column("Answers", true)];
    (!rows.is_empty())
        .then(|| table("What the first invalid answers had wrong", &columns, rows).named("invalid-answers"))
}

/// The bottleneck with its evidence, and processor time and counters of the deciding trials.
pub fn processors(results: &Results) -> Markup {
    let typical = typical_run(results).and_then(|(number, run)| Some((number, best_pass(run)?)));
    let observed = observed(results);
    html! {
        @if let Some(found) = &results.bottleneck {
            p { "What limited the rate: " strong { (found.cause.as_str()) } "." @if !found.evidence.is_empty() { " " (upper_first(found.evidence.trim_end_matches('.'))) "." } }
        }
        @if let Some((number, trial)) = typical {
            (figure(|size| charts::processors(trial, size), &html! {
                "Processor time during the trial of run " (number) " that passed at " (rate_of(trial.rate_qps)) ". A thread near \
                 100 % can do no more."
            }))
        }
        @if observed.is_empty() {
            (missing("No counters of the machine were read."))
        } @else {
            (processor_table(&observed))
            (counter_table(&observed))
        }
    }
}

type Observed<'a> = (String, &'a Trial, &'a Observation);

fn observed(results: &Results) -> Vec<Observed<'_>> {
    let half = results.latency_trial.iter().map(|trial| ("half rate".to_owned(), trial));
    let decided = results.runs.iter().enumerate().flat_map(|(index, run)| {
        let passed = best_pass(run).map(|trial| (format!("run {}, passed", index + 1), trial));
        let failed = deciding_failure(run).map(|trial| (format!("run {}, failed", index + 1), trial));
        passed.into_iter().chain(failed)
    });
    half.chain(decided).filter_map(|(name, trial)| Some((name, trial, trial.observation.as_ref()?))).collect()
}

fn processor_table(observed: &[Observed<'_>]) -> Table {
    let micros = |value| Cell::maybe(value, |value| format!("{} µs", significant(value))).in_unit("µs");
    let percent = |value| Cell::maybe(value, percent).in_unit("%");
    let row = |(name, trial, seen): &Observed<'_>| {
        vec![
            Cell::text(name),
            Cell::count(trial.rate_qps),
            micros(dut_cpu_us_per_answer(trial)),
            percent(seen.dut_cpu_pct),
            percent(seen.dut_hottest_thread_pct),
            Cell::text(&shortened(seen.dut_hottest_thread.as_deref().unwrap_or(""), 30)),
            micros(seen.tester_cpu_us_per_query),
            percent(tester_cpu_pct(trial)),
            percent(seen.foreign_cpu_pct),
            percent(seen.steal_pct),
        ]
    };
    let columns = [
        Column("Trial", false),
        Column("Rate, q/s", true),
        Column("Server per answer", true),
        Column("Server", true),
        Column("Busiest thread", true),
        Column("Its name", false),
        Column("Tester per query", true),
        Column("Tester", true),
        Column("Anything else", true),
        Column("Hypervisor", true),
    ];
    let caption = "Processor time, in percent of one processor";
    table(caption, &columns, observed.iter().map(row).collect()).named("processors")
}

fn counter_table(observed: &[Observed<'_>]) -> Table {
    let whole = |value: Option<u64>| Cell::maybe(value.map(|value| value as f64), |value| real(value, 0));
    let row = |(name, trial, seen): &Observed<'_>| {
        vec![
            Cell::text(name),
            Cell::count(trial.rate_qps),
            whole(seen.dut_socket_drops),
            whole(seen.softnet_drops),
            whole(seen.device_tx_drops.zip(seen.device_rx_drops).map(|(tx, rx)| tx.saturating_add(rx))),
            whole(seen.auth_queries),
            whole(seen.auth_answers),
            whole(seen.auth_socket_drops),
            whole(seen.auth_probes_late),
            Cell::maybe(seen.auth_queries_per_query, |ratio| real(ratio, 3)),
            Cell::octets(seen.dut_memory_octets),
        ]
    };
    let columns = [
        Column("Trial", false),
        Column("Rate, q/s", true),
        Column("Dropped at server's socket", true),
        Column("Dropped before sockets", true),
        Column("Dropped by the device", true),
        Column("AuthDNS queries", true),
        Column("AuthDNS answers", true),
        Column("Dropped at AuthDNS", true),
        Column("AuthDNS late for the Tester", true),
        Column("AuthDNS queries per query", true),
        Column("Server's memory", true),
    ];
    table("Counters", &columns, observed.iter().map(row).collect()).named("counters")
}
