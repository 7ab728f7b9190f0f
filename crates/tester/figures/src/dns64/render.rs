//! The tables.

use super::{Cell, Latencies, OURS, Quotient, Rates, Record, SHARES_PCT, SecondMethod, Server, goals};
use crate::Program;
use crate::Sample;
use crate::document::wrapped;
use crate::goals::section;
use crate::origin::versions;
use crate::sample::{legend, table};

const RATES: [&str; 5] = [
    "server",
    "RFC 8219 rate, 1000 q/s",
    "kept up, 1000 q/s",
    "misses, closed loop, 1000 q/s",
    "hits, closed loop, 1000 q/s",
];
const COSTS: [&str; 6] = [
    "server",
    "a miss at 50 % of its rate, µs",
    "a miss, closed loop, µs",
    "a miss, its processor, µs",
    "a hit, closed loop, µs",
    "a hit, its processor, µs",
];
const SIZES: [&str; 4] =
    ["server", "start, s", "memory before the first query, MiB", "memory after the run, MiB"];

/// The rendered block of `docs/performance/dns64.md`: the conditions, all tables, and the goals.
pub fn block(record: &Record) -> String {
    let mut out = format!(
        "{}\n## Rates, one core\n\n{}",
        wrapped(&conditions(record)),
        rates(record, |server| Some(&server.one_core))
    );
    if record.servers.iter().any(|server| server.two_cores.is_some()) {
        let shared = if record.two_cores_shared { ", one of them shared with the Tester" } else { "" };
        let table = rates(record, |server| server.two_cores.as_ref());
        out += &format!("\n## Rates, two cores{shared}\n\n{table}");
    }
    out += &format!("\n## Processor time, one core\n\n{}", costs(record));
    out += &format!("\n## Latency, one core, names that are not cached\n\n{}", latencies(record));
    out += &format!("\n## Start, memory and receive buffers, one core\n\n{}", sizes(record));
    out += &format!("\n## Cached names and names with AAAA records, one core\n\n{}", shares(record));
    out + &section(&goals::goals(record))
}

/// The comparison of the README.
pub fn readme(record: &Record) -> String {
    let head = [
        "server",
        "RFC 8219 rate, 1000 q/s",
        "kept up, 1000 q/s",
        "processor time of a miss, µs",
        "of a hit, µs",
        "memory before the first query, MiB",
    ];
    let row = |server: &Server| {
        vec![
            format!("{} {}", server.name, server.version),
            server.one_core.rfc8219_qps.thousands(),
            server.one_core.kept_up_qps.thousands(),
            server.costs.miss_us.decimals(1),
            server.costs.hit_us.decimals(1),
            server.sizes.empty_mib.decimals(0),
        ]
    };
    let rows: Vec<Vec<String>> = record.servers.iter().map(row).collect();
    let Record { origin, search_s, .. } = record;
    let (origin, legend) = (origin.in_words(), legend(record.rounds));
    let conditions = format!("{origin}, one core for each server. {legend} Trials of {search_s} s.");
    format!("{}\n{}{}", wrapped(&conditions), table(&head, &rows), second_method(record))
}

/// What another method found of dns64d's rate; nothing if the record has none.
fn second_method(record: &Record) -> String {
    let rates = record.second_method.iter().filter(|second| second.quotient == Quotient::Rate);
    let found =
        |second: &SecondMethod| format!("{} to {} times that of {}", second.low, second.high, second.server);
    let found: Vec<String> = rates.map(found).collect();
    if found.is_empty() {
        return String::new();
    }
    let text = format!("By a second method the rate of dns64d is {}.", found.join(", and "));
    format!("\n{}", wrapped(&text))
}

/// The machine, the programs and the trials, in one paragraph.
fn conditions(record: &Record) -> String {
    let Record { origin, io, rounds, search_s, latency_s, cell_s, .. } = record;
    let program = |server: &Server| Program { name: server.name.clone(), version: server.version.clone() };
    let programs: Vec<Program> = record.servers.iter().map(program).collect();
    let lengths = if record.names_equally_long { "equally long" } else { "of random lengths" };
    let mut text = format!(
        "{}; {io}; {}. Names are {lengths}. {} Trials of {search_s} s (search), {latency_s} s (latency), {cell_s} s (closed loop).",
        origin.in_words(),
        versions(&programs),
        legend(*rounds)
    );
    for (what, servers) in [("SKIPPED", &record.missing), ("FAILED", &record.failures)] {
        if !servers.is_empty() {
            text += &format!(" {what}: {}.", servers.join("; "));
        }
    }
    text + &origin.note()
}

/// A column of a server, and how it is shown.
type Column<'a> = (&'a Sample, String);

/// A row for each server: samples, each with the quotient by dns64d's, and the steal meanwhile.
fn compared<'r>(
    record: &'r Record,
    head: &[&str],
    row: impl Fn(&'r Server) -> Option<(Vec<Column<'r>>, &'r Sample)>,
) -> String {
    let mut titles = vec![head[0]];
    head[1..].iter().for_each(|title| titles.extend([title, "dns64d's"]));
    titles.push("steal, %");
    let ours = record.server(OURS).and_then(&row).map(|(columns, _)| columns).unwrap_or_default();
    let line = |server: &'r Server| {
        let (columns, steal) = row(server)?;
        let mut cells = vec![server.name.clone()];
        for (at, (sample, shown)) in columns.iter().enumerate() {
            cells.extend([shown.clone(), ratio(sample, ours.get(at).map(|(sample, _)| *sample))]);
        }
        cells.push(steal.decimals(1));
        Some(cells)
    };
    table(&titles, &record.servers.iter().filter_map(line).collect::<Vec<_>>())
}

/// A median as a multiple of dns64d's.
fn ratio(sample: &Sample, ours: Option<&Sample>) -> String {
    ours.and_then(|ours| sample.times(ours)).map_or_else(|| "-".into(), |times| format!("x {times:.2}"))
}

fn rates<'r>(record: &'r Record, of: impl Fn(&'r Server) -> Option<&'r Rates>) -> String {
    compared(record, &RATES, |server| {
        let Rates { rfc8219_qps, kept_up_qps, misses_qps, hits_qps, steal_pct, .. } = of(server)?;
        let rates = [rfc8219_qps, kept_up_qps, misses_qps, hits_qps];
        Some((rates.map(|rate| (rate, rate.thousands())).to_vec(), steal_pct))
    })
}

fn costs(record: &Record) -> String {
    compared(record, &COSTS, |Server { costs, .. }| {
        let columns = [
            &costs.miss_half_us,
            &costs.miss_us,
            &costs.miss_processor_us,
            &costs.hit_us,
            &costs.hit_processor_us,
        ];
        Some((columns.map(|cost| (cost, cost.decimals(2))).to_vec(), &costs.steal_pct))
    })
}

fn sizes(record: &Record) -> String {
    let with_ratios = compared(record, &SIZES, |Server { sizes, .. }| {
        let columns = [&sizes.start_s, &sizes.empty_mib, &sizes.full_mib];
        Some((columns.map(|size| (size, size.decimals(2))).to_vec(), &sizes.steal_pct))
    });
    let buffer = |server: &Server| {
        let octets = server.receive_buffer_octets;
        let shown = octets
            .map_or_else(|| "not read".into(), |octets| format!("{:.2}", octets as f64 / f64::from(1 << 20)));
        vec![server.name.clone(), shown]
    };
    let buffers: Vec<Vec<String>> = record.servers.iter().map(buffer).collect();
    let head = ["server", "smallest receive buffer of its sockets, MiB (`ss -m`)"];
    format!("{with_ratios}\n{}", table(&head, &buffers))
}

fn latencies(record: &Record) -> String {
    let head = [
        "server",
        "load, % of its rate",
        "1000 q/s",
        "p50, µs",
        "dns64d's",
        "p99, µs",
        "dns64d's",
        "p99.9, µs",
        "dns64d's",
        "steal, %",
    ];
    let percentiles = |latencies: &Latencies| -> [Sample; 3] {
        [latencies.p50_us.clone(), latencies.p99_us.clone(), latencies.p999_us.clone()]
    };
    let row = |server: &Server, latencies: &Latencies| {
        let load_pct = latencies.load_pct;
        let ours = record.server(OURS).and_then(|ours| ours.latencies_at(load_pct)).map(percentiles);
        let mut cells = vec![server.name.clone(), load_pct.to_string(), latencies.rate_qps.thousands()];
        for (at, sample) in percentiles(latencies).iter().enumerate() {
            cells.extend([sample.decimals(0), ratio(sample, ours.as_ref().map(|ours| &ours[at]))]);
        }
        cells.push(latencies.steal_pct.decimals(1));
        cells
    };
    let mut rows = Vec::new();
    for server in &record.servers {
        rows.extend(server.latencies.iter().map(|latencies| row(server, latencies)));
    }
    table(&head, &rows)
}

/// Cached share by AAAA share: answers per second and µs for each.
fn shares(record: &Record) -> String {
    let mut head = vec!["server".to_owned(), "cached, %".to_owned()];
    for aaaa_pct in SHARES_PCT {
        head.extend([format!("{aaaa_pct} % with AAAA, 1000 q/s"), "dns64d's".into(), "µs each".into()]);
    }
    head.push("steal, %".into());
    let ours = |cached_pct: u8, at: usize| -> Option<&Cell> {
        let shares = record.server(OURS)?.shares.iter().find(|shares| shares.cached_pct == cached_pct)?;
        shares.cells.get(at)
    };
    let mut rows = Vec::new();
    for server in &record.servers {
        for shares in &server.shares {
            let mut cells = vec![server.name.clone(), shares.cached_pct.to_string()];
            for (at, cell) in shares.cells.iter().enumerate() {
                let of = ours(shares.cached_pct, at).map(|cell| &cell.answered_qps);
                cells.push(cell.answered_qps.thousands());
                cells.push(ratio(&cell.answered_qps, of));
                cells.push(cell.cpu_us.decimals(1));
            }
            cells.push(shares.steal_pct.decimals(1));
            rows.push(cells);
        }
    }
    table(&head.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
}
