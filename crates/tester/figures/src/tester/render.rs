//! The tables.

use super::{DNSPERF, Pacing, Record, Stall, Target, goals, kxdpgun};
use crate::Sample;
use crate::document::wrapped;
use crate::goals::section;
use crate::origin::versions;
use crate::sample::{legend, table};

/// The rendered block of `docs/performance/tester.md`: the conditions, all tables, and the goals.
pub fn block(record: &Record) -> String {
    let mut out = wrapped(&format!(
        "{}; {}. {}{}",
        record.origin.in_words(),
        versions(&record.programs),
        legend(record.rounds),
        record.origin.note()
    ));
    if !record.capacity.is_empty() {
        out += "\n## Answered queries, one processor\n";
    }
    for target in &record.capacity {
        out += &format!("\n### {}\n\n{}", target.name, capacity(target));
    }
    for (title, rows) in [("Evenness", &record.evenness), ("Rates that others miss", &record.rates)] {
        if !rows.is_empty() {
            out += &format!("\n## {title}\n\n{}", pacing(rows));
        }
    }
    if let Some(stall) = &record.stall {
        out += &format!("\n## The server stopped for 200 ms at 50,000 q/s\n\n{}", stopped(stall));
    }
    if let Some(lanes) = &record.lanes {
        out += &lanes.section();
    }
    if let Some(streams) = &record.streams {
        out += &streams.section();
    }
    out + &section(&goals::goals(record))
}

fn capacity(target: &Target) -> String {
    let head =
        ["tool", "answered, 1000 q/s", "answered, %", "processor, µs per answer", "x dnsperf", "x kxdpgun"];
    let of = |tool: &str| target.row(tool).map(|row| &row.answered_qps);
    let (dnsperf, kxdpgun) = (of(DNSPERF), of(&kxdpgun(10)));
    let ratio = |sample: &Sample, of: Option<&Sample>| {
        of.and_then(|of| sample.times(of)).map_or_else(|| "-".into(), |times| format!("{times:.2}"))
    };
    let rows = target.rows.iter().map(|row| {
        vec![
            row.tool.clone(),
            row.answered_qps.thousands(),
            row.answered_pct.decimals(1),
            row.busy_us.decimals(2),
            ratio(&row.answered_qps, dnsperf),
            ratio(&row.answered_qps, kxdpgun),
        ]
    });
    table(&head, &rows.collect::<Vec<_>>())
}

fn pacing(rows: &[Pacing]) -> String {
    let head = [
        "rate, q/s",
        "tool",
        "receiver",
        "cv in 1 ms, %",
        "cv in 10 ms, %",
        "worst 10 ms, %",
        "longest gap, ms",
        "arrived beyond rate x time",
    ];
    let row = |row: &Pacing| {
        vec![
            row.rate_qps.to_string(),
            row.tool.clone(),
            row.receiver.clone(),
            row.cv_1_ms_pct.decimals(2),
            row.cv_10_ms_pct.decimals(2),
            row.worst_10_ms_pct.decimals(2),
            row.gap_ms.decimals(0),
            row.excess.decimals(0),
        ]
    };
    table(&head, &rows.iter().map(row).collect::<Vec<_>>())
}

fn stopped(stall: &Stall) -> String {
    let row = |what: &str, [measured, expected, off_pct]: &[Sample; 3], decimals: usize| {
        vec![what.to_owned(), measured.decimals(decimals), expected.decimals(decimals), off_pct.decimals(2)]
    };
    let rows = [
        row("queries slower than 20 ms", &stall.slow, 0),
        row("p99, ms", &stall.p99_ms, 2),
        row("p99.9, ms", &stall.p999_ms, 2),
    ];
    table(&["sextant --io udp", "measured", "arithmetic", "off by, %"], &rows)
}
