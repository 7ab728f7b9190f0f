//! What became of the connections by which the trials asked.

use record::{Connections, Latency, Results};

use crate::clean::shortened;
use crate::select::{Entry, Phase, every_trial, outcome_word, place};
use crate::table::{Cell, Column, Table, table};
use record::number::{NONE, count, octets};

/// Kinds of failures and refusals that are listed for a trial.
const KINDS: usize = 6;

/// A row for each trial of the server; `None` where all queries went in datagrams.
pub fn connections(results: &Results) -> Option<Table> {
    let entries = every_trial(results).into_iter().filter(|entry| entry.phase != Phase::SelfTest);
    let rows: Vec<_> =
        entries.filter_map(|entry| entry.trial.connections.as_ref().map(|seen| row(&entry, seen))).collect();
    let columns = [
        Column("Trial", false),
        Column("Rate, q/s", true),
        Column("Outcome", false),
        Column("At a time", true),
        Column("Opened", true),
        Column("In the trial", true),
        Column("Resumed", true),
        Column("Connect, p50", true),
        Column("Handshake, p50", true),
        Column("Handshake, p99", true),
        Column("Queries that waited", true),
        Column("Ended by the server", true),
        Column("Server's memory for each", true),
        Column("Failed and refused", false),
    ];
    (!rows.is_empty()).then(|| table("Connections of each trial", &columns, rows).named("connections"))
}

fn row(entry: &Entry<'_>, seen: &Connections) -> Vec<Cell> {
    let name = match entry.run {
        Some(run) => format!("run {run}, {}", entry.number),
        None => format!("{}, {}", entry.phase, entry.number),
    };
    let time = |times: &Option<Latency>, of: fn(&Latency) -> u64| {
        times.as_ref().map_or_else(|| Cell::number(NONE, f64::NAN), |times| Cell::time(of(times)))
    };
    let memory = match seen.server_memory_octets {
        Some(each) => Cell::number(&octets(each), each as f64),
        None => Cell::number(NONE, f64::NAN),
    };
    let failed = seen.failed.iter().map(|(why, number)| (place(why), *number));
    let said = seen.handshake_failures.iter().chain(&seen.refusals);
    let kinds = failed.chain(said.map(|(kind, number)| (kind.clone(), *number)));
    let kinds: Vec<String> = kinds
        .take(KINDS)
        .map(|(kind, number)| format!("{}: {}", shortened(&kind, 40), count(number)))
        .collect();
    vec![
        Cell::text(&name),
        Cell::count(entry.trial.rate_qps),
        Cell::text(outcome_word(entry.trial.outcome)),
        Cell::count(seen.transport.connections as u64),
        Cell::count(seen.opened),
        Cell::count(seen.opened_in_trial),
        Cell::count(seen.resumed),
        time(&seen.connect_ns, |times| times.p50),
        time(&seen.handshake_ns, |times| times.p50),
        time(&seen.handshake_ns, |times| times.p99),
        Cell::count(seen.waited),
        Cell::count(seen.closed_by_server),
        memory,
        Cell::text(&kinds.join(", ")),
    ]
}
