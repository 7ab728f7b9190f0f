//! The tables.

use super::{Rates, Record, Size, goals, is_ours};
use crate::document::wrapped;
use crate::goals::section;
use crate::origin::versions;
use crate::sample::{legend, table};

/// Where the forecast for peers ends: a /5, the names of a trial of 60 s at 2.2 million q/s.
const FORECAST_BITS: u8 = 27;

/// The rendered block of `docs/performance/auth.md`: the conditions, all tables, and the goals.
pub fn block(record: &Record) -> String {
    let mut out = conditions(record);
    out += &format!("\n## Socket buffers\n\n{}", buffers(record));
    if !record.aaaa.is_empty() {
        out += &format!("\n## Answered queries, one worker\n\n{}", rates(&record.aaaa));
    }
    if !record.half_nodata.is_empty() {
        out += &format!("\n## Half of the answers are NODATA\n\n{}", rates(&record.half_nodata));
    }
    if !record.sizes.is_empty() {
        out += &format!("\n## Start and memory\n\n{}", sizes(&record.sizes));
    }
    out + &section(&goals::goals(record))
}

fn conditions(record: &Record) -> String {
    let missing = match record.missing.as_slice() {
        [] => String::new(),
        missing => format!(" SKIPPED: {}.", missing.join("; ")),
    };
    let Record { origin, programs, rounds, other_rounds, .. } = record;
    wrapped(&format!(
        "{}; {}. {} The rate with 99.9 % answered is searched in the first round; other types, start and \
         memory are measured in the first {other_rounds}.{missing}{}",
        origin.in_words(),
        versions(programs),
        legend(*rounds),
        origin.note()
    ))
}

fn buffers(record: &Record) -> String {
    if record.receive_buffers.is_empty() {
        return "This record has none: the benchmark did not read them back yet.\n".to_owned();
    }
    let row = |buffer: &super::Buffer| {
        vec![buffer.server.clone(), format!("{:.2}", buffer.octets as f64 / f64::from(1 << 20))]
    };
    let rows: Vec<Vec<String>> = record.receive_buffers.iter().map(row).collect();
    table(&["server", "smallest receive buffer of its sockets, MiB (`ss -m`)"], &rows)
}

fn rates(rows: &[Rates]) -> String {
    let head = [
        "server",
        "asked by",
        "names",
        "most answered, 1000 q/s",
        "99.9 % answered, 1000 q/s",
        "its processes, µs per answer",
        "its processor, µs per answer",
        "both processors, µs per answer",
    ];
    let row = |row: &Rates| {
        vec![
            row.server.clone(),
            row.generator.clone(),
            format!("2^{}", row.names_bits),
            row.peak_qps.thousands(),
            row.loss_free_qps.thousands(),
            row.process_us.decimals(2),
            row.core_us.decimals(2),
            row.both_us.decimals(2),
        ]
    };
    table(&head, &rows.iter().map(row).collect::<Vec<_>>())
}

/// The table, and the forecast for peers.
fn sizes(rows: &[Size]) -> String {
    let head = ["server", "names", "start, s", "memory, MiB", "most ever, MiB"];
    let row = |row: &Size| {
        vec![
            row.server.clone(),
            format!("2^{}", row.names_bits),
            row.start_s.decimals(3),
            row.memory_mib.decimals(1),
            row.peak_mib.decimals(1),
        ]
    };
    let measured = rows.iter().filter(|row| !row.start_s.is_empty());
    let text = table(&head, &measured.map(row).collect::<Vec<_>>());
    let mut peers: Vec<&str> =
        rows.iter().map(|row| row.server.as_str()).filter(|name| !is_ours(name)).collect();
    peers.dedup();
    let forecast: Vec<Vec<String>> = peers.into_iter().filter_map(|peer| forecast(rows, peer)).collect();
    if forecast.is_empty() {
        return text;
    }
    let head = [
        "server",
        "octets per name",
        "µs per name",
        "2^27 names, GiB (extrapolated)",
        "2^27 names, s to start (extrapolated)",
        "factor beyond what was measured",
    ];
    format!("{text}\n{}", table(&head, &forecast))
}

fn names(bits: u8) -> f64 {
    2f64.powi(bits.into())
}

/// What a peer would need for 2^27 names, by the line through its smallest and its largest zone.
fn forecast(rows: &[Size], server: &str) -> Option<Vec<String>> {
    let mut measured = rows.iter().filter(|row| row.server == server && !row.memory_mib.is_empty());
    let (first, last) = (measured.next()?, measured.next_back()?);
    let line = |value: fn(&Size) -> f64| {
        let each = (value(last) - value(first)) / (names(last.names_bits) - names(first.names_bits));
        (value(first) - each * names(first.names_bits), each)
    };
    let (memory, mib_each) = line(|row| row.memory_mib.median());
    let (start, seconds_each) = line(|row| row.start_s.median());
    Some(vec![
        server.to_owned(),
        format!("{:.0}", mib_each * f64::from(1 << 20)),
        format!("{:.2}", seconds_each * 1e6),
        format!("{:.1}", (memory + mib_each * names(FORECAST_BITS)) / 1024.0),
        format!("{:.0}", start + seconds_each * names(FORECAST_BITS)),
        format!("{:.0}", names(FORECAST_BITS) / names(last.names_bits)),
    ])
}
