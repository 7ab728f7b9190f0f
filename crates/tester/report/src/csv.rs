//! Every trial as a line of comma-separated values (RFC 4180, with line feeds).

use std::collections::BTreeSet;

use record::{Connections, LossPlace, Results, Trial};

use super::clean::printable;
use super::select::{Entry, dut_cpu_us_per_answer, every_trial, outcome_word, tester_cpu_pct};
use record::number::exact;

/// Places of loss that get a column; a record has about ten.
const PLACES: usize = 64;

type Cell = fn(&Trial) -> String;

/// The columns that hold the same of every trial: rates in q/s, times as their names say.
const COLUMNS: [(&str, Cell); 45] = [
    ("rate_qps", |t| t.rate_qps.to_string()),
    ("duration_s", |t| exact(t.duration_s)),
    ("started_utc", |t| t.started_utc.clone()),
    ("first_name", |t| t.first_name.to_string()),
    ("waited_s", |t| exact(t.waited_s)),
    ("outcome", |t| outcome_word(t.outcome).to_owned()),
    ("void", |t| t.void.clone().unwrap_or_default()),
    ("scheduled", |t| t.scheduled.to_string()),
    ("sent", |t| t.sent.to_string()),
    ("answered", |t| t.answered.to_string()),
    ("valid", |t| t.valid.to_string()),
    ("invalid", |t| t.invalid.to_string()),
    ("late", |t| t.late.to_string()),
    ("lost", |t| t.lost.to_string()),
    ("valid_compat", |t| t.valid_compat.to_string()),
    ("duplicates", |t| t.duplicates.to_string()),
    ("unexpected", |t| t.unexpected.to_string()),
    ("latency_p50_ns", |t| t.latency_ns.p50.to_string()),
    ("latency_p90_ns", |t| t.latency_ns.p90.to_string()),
    ("latency_p99_ns", |t| t.latency_ns.p99.to_string()),
    ("latency_p999_ns", |t| t.latency_ns.p999.to_string()),
    ("latency_max_ns", |t| t.latency_ns.max.to_string()),
    ("latency_mean_ns", |t| exact(t.latency_ns.mean)),
    ("latency_from_send_p50_ns", |t| t.latency_from_send_ns.p50.to_string()),
    ("latency_from_send_p99_ns", |t| t.latency_from_send_ns.p99.to_string()),
    ("schedule_error_p50_ns", |t| t.schedule_error_ns.p50.to_string()),
    ("schedule_error_p99_ns", |t| t.schedule_error_ns.p99.to_string()),
    ("schedule_error_p999_ns", |t| t.schedule_error_ns.p999.to_string()),
    ("schedule_error_max_ns", |t| t.schedule_error_ns.max.to_string()),
    ("window_1ms_worst_pct", |t| exact(t.windows.ms1.worst_pct)),
    ("window_1ms_cv_pct", |t| exact(t.windows.ms1.cv_pct)),
    ("window_10ms_worst_pct", |t| exact(t.windows.ms10.worst_pct)),
    ("window_10ms_cv_pct", |t| exact(t.windows.ms10.cv_pct)),
    ("window_10ms_off_pct", |t| exact(t.windows.ms10.off_pct)),
    ("window_100ms_worst_pct", |t| exact(t.windows.ms100.worst_pct)),
    ("window_100ms_cv_pct", |t| exact(t.windows.ms100.cv_pct)),
    ("dut_cpu_pct", |t| optional(t.observation.as_ref().and_then(|seen| seen.dut_cpu_pct))),
    ("dut_cpu_us_per_query", |t| optional(t.observation.as_ref().and_then(|seen| seen.dut_cpu_us_per_query))),
    ("dut_cpu_us_per_answer", |t| optional(dut_cpu_us_per_answer(t))),
    ("tester_cpu_pct", |t| optional(tester_cpu_pct(t))),
    ("foreign_cpu_pct", |t| optional(t.observation.as_ref().and_then(|seen| seen.foreign_cpu_pct))),
    ("auth_queries_per_query", |t| {
        optional(t.observation.as_ref().and_then(|seen| seen.auth_queries_per_query))
    }),
    ("connections", |t| of_connections(t, |seen| Some(seen.transport.connections as u64))),
    ("connections_closed_by_server", |t| of_connections(t, |seen| Some(seen.closed_by_server))),
    ("server_memory_octets_per_connection", |t| of_connections(t, |seen| seen.server_memory_octets)),
];

/// A header, then every trial of the record; empty cells where nothing is known.
pub fn trials_csv(results: &Results) -> String {
    let entries = every_trial(results);
    let places: BTreeSet<&LossPlace> = entries.iter().flat_map(|entry| entry.trial.losses.keys()).collect();
    let places: Vec<&LossPlace> = places.into_iter().take(PLACES).collect();
    let mut head: Vec<String> = ["phase", "run", "trial"].map(str::to_owned).to_vec();
    head.extend(COLUMNS.iter().map(|(name, _)| (*name).to_owned()));
    head.extend(places.iter().map(|place| format!("losses_{place}")));
    let mut out = row(&head);
    for entry in &entries {
        out += &row(&cells(entry, &places));
    }
    printable(out)
}

fn cells(entry: &Entry<'_>, places: &[&LossPlace]) -> Vec<String> {
    let run = entry.run.map(|run| run.to_string()).unwrap_or_default();
    let mut cells = vec![entry.phase.to_string(), run, entry.number.to_string()];
    cells.extend(COLUMNS.iter().map(|(_, cell)| cell(entry.trial)));
    cells.extend(places.iter().map(|place| entry.trial.losses.get(place).copied().unwrap_or(0).to_string()));
    cells
}

/// A record of quoted cells with its line feed.
pub(super) fn row(cells: &[String]) -> String {
    let mut line = cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",");
    line.push('\n');
    line
}

fn quoted(cell: &str) -> String {
    let plain = !cell.contains([',', '"', '\n', '\r']);
    if plain { cell.to_owned() } else { format!("\"{}\"", cell.replace('"', "\"\"")) }
}

fn of_connections(trial: &Trial, of: fn(&Connections) -> Option<u64>) -> String {
    trial.connections.as_ref().and_then(of).map(|number| number.to_string()).unwrap_or_default()
}

fn optional(value: Option<f64>) -> String {
    value.map(exact).unwrap_or_default()
}
