//! How long each server takes to start, and how much memory it has then, by the number of names.

use std::io;
use std::time::Duration;

use crate::place::{Content, Placement, Subject};
use crate::table::{Sample, table};

/// The sizes that ours is started with, as powers of two.
const OURS_BITS: [u8; 5] = [16, 20, 24, 27, 32];
/// The sizes that peers are started with; those above the limit are left out.
const PEER_BITS: [u8; 6] = [16, 18, 20, 22, 24, 27];
/// Where the forecast for peers ends: a /5, the names of a trial of 60 s at 2.2 million q/s.
const FORECAST_BITS: u8 = 27;
/// How long ours may take to answer, and a peer to load.
const PATIENCE_OURS: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(900);
/// A peer is not started with more names than would take this share of the memory that is free.
const MEMORY_SHARE: f64 = 0.7;

/// A server with a number of names, over all rounds.
pub struct Row {
    subject: Subject,
    bits: u8,
    start_s: Sample,
    memory_mib: Sample,
    peak_mib: Sample,
}

/// All servers with all sizes, peers up to 2^`names_max_bits`.
pub fn rows(names_max_bits: u8) -> Vec<Row> {
    let mut rows = Vec::new();
    for subject in Subject::ALL {
        // On sockets or AF_XDP, Knot loads the same zone in the same way.
        if subject == Subject::Peer("knot-xdp") {
            continue;
        }
        let sizes: &[u8] = if subject.is_ours() { &OURS_BITS } else { &PEER_BITS };
        let sizes = sizes.iter().filter(|&&bits| subject.is_ours() || bits <= names_max_bits);
        rows.extend(sizes.map(|&bits| {
            let sample = Sample::default;
            Row { subject, bits, start_s: sample(), memory_mib: sample(), peak_mib: sample() }
        }));
    }
    rows
}

/// Starts every server once with every size that memory allows.
///
/// # Errors
/// One does not start.
pub fn round(place: &Placement, rows: &mut [Row]) -> io::Result<()> {
    for at in 0..rows.len() {
        let (subject, bits) = (rows[at].subject, rows[at].bits);
        if place.missing(subject).is_some() || forecast_mib(rows, subject, bits) > free_mib() * MEMORY_SHARE {
            continue;
        }
        let patience = if subject.is_ours() { PATIENCE_OURS } else { PATIENCE };
        let server = place.start(subject, Content { names_bits: bits, aaaa_share: 100 }, patience)?;
        let (usage, row) = (server.usage(), &mut rows[at]);
        row.start_s.push(server.start_s());
        row.memory_mib.push(usage.memory_octets as f64 / f64::from(1 << 20));
        row.peak_mib.push(usage.peak_octets as f64 / f64::from(1 << 20));
        eprintln!("{}", row.cells().join(", "));
    }
    place.forget_zone_files();
    Ok(())
}

/// MiB that a server will have, by the line through its smallest and its largest size so far.
fn forecast_mib(rows: &[Row], subject: Subject, bits: u8) -> f64 {
    line(rows, subject, |row| row.memory_mib.median()).map_or(0.0, |(fixed, each)| fixed + each * names(bits))
}

/// What a value is without names, and what each name adds; `None` with fewer than two sizes.
fn line(rows: &[Row], subject: Subject, value: impl Fn(&Row) -> f64) -> Option<(f64, f64)> {
    let mut measured = rows.iter().filter(|row| row.subject == subject && !row.memory_mib.is_empty());
    let first = measured.next()?;
    let last = measured.next_back()?;
    let each = (value(last) - value(first)) / (names(last.bits) - names(first.bits));
    Some((value(first) - each * names(first.bits), each))
}

fn names(bits: u8) -> f64 {
    (1u64 << bits) as f64
}

fn free_mib() -> f64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0.0) / 1024.0
}

impl Row {
    fn cells(&self) -> Vec<String> {
        vec![
            self.subject.name(),
            format!("2^{}", self.bits),
            self.start_s.decimals(3),
            self.memory_mib.decimals(1),
            self.peak_mib.decimals(1),
        ]
    }
}

/// The table, and the forecast for peers.
pub fn rendered(rows: &[Row]) -> String {
    let head = ["server", "names", "start, s", "memory, MiB", "most ever, MiB"];
    let measured = rows.iter().filter(|row| !row.start_s.is_empty());
    let mut text = table(&head, &measured.map(Row::cells).collect::<Vec<_>>());
    let forecast = Subject::ALL.into_iter().filter(|subject| !subject.is_ours()).filter_map(|subject| {
        let (memory, octets) = line(rows, subject, |row| row.memory_mib.median())?;
        let (start, seconds) = line(rows, subject, |row| row.start_s.median())?;
        let factor = names(FORECAST_BITS) / names(largest_bits(rows, subject)?);
        Some(vec![
            subject.name(),
            format!("{:.0}", octets * f64::from(1 << 20)),
            format!("{:.2}", seconds * 1e6),
            format!("{:.1}", (memory + octets * names(FORECAST_BITS)) / 1024.0),
            format!("{:.0}", start + seconds * names(FORECAST_BITS)),
            format!("{factor:.0}"),
        ])
    });
    let forecast: Vec<_> = forecast.collect();
    if !forecast.is_empty() {
        let head = [
            "server",
            "octets per name",
            "µs per name",
            "2^27 names, GiB (extrapolated)",
            "2^27 names, s to start (extrapolated)",
            "factor beyond what was measured",
        ];
        text += &format!("\n{}", table(&head, &forecast));
    }
    text
}

fn largest_bits(rows: &[Row], subject: Subject) -> Option<u8> {
    let measured = rows.iter().filter(|row| row.subject == subject && !row.start_s.is_empty());
    measured.map(|row| row.bits).max()
}

/// The longest start in seconds and the most memory in MiB of ours, over all back-ends and sizes.
pub fn ours_worst(rows: &[Row]) -> Option<(f64, f64)> {
    let ours = || rows.iter().filter(|row| row.subject.is_ours() && !row.start_s.is_empty());
    ours().next()?;
    let start_s = ours().map(|row| row.start_s.median()).fold(0.0, f64::max);
    Some((start_s, ours().map(|row| row.peak_mib.median()).fold(0.0, f64::max)))
}
