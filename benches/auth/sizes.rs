//! How long each server takes to start, and how much memory it has then, by the number of names.

use std::io;
use std::time::Duration;

use crate::place::{Content, Placement, Subject};
use figures::auth::Size;

/// The sizes that ours is started with, as powers of two.
const OURS_BITS: [u8; 5] = [16, 20, 24, 27, 32];
/// The sizes that peers are started with; those above the limit are left out.
const PEER_BITS: [u8; 6] = [16, 18, 20, 22, 24, 27];
/// How long ours may take to answer, and a peer to load.
const PATIENCE_OURS: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(900);
/// A peer is not started with more names than would take this share of the memory that is free.
const MEMORY_SHARE: f64 = 0.7;

/// A server with a number of names, over all rounds.
pub struct Row {
    subject: Subject,
    /// What was measured.
    pub measured: Size,
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
            let measured = Size { server: subject.name(), names_bits: bits, ..Size::default() };
            Row { subject, measured }
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
        let (subject, bits) = (rows[at].subject, rows[at].measured.names_bits);
        if place.missing(subject).is_some() || forecast_mib(rows, subject, bits) > free_mib() * MEMORY_SHARE {
            continue;
        }
        let patience = if subject.is_ours() { PATIENCE_OURS } else { PATIENCE };
        let server = place.start(subject, Content { names_bits: bits, aaaa_share: 100 }, patience)?;
        let (usage, row) = (server.usage(), &mut rows[at].measured);
        row.start_s.push(server.start_s());
        row.memory_mib.push(usage.memory_octets as f64 / f64::from(1 << 20));
        row.peak_mib.push(usage.peak_octets as f64 / f64::from(1 << 20));
        let Size { start_s, memory_mib, .. } = &*row;
        let (start, memory) = (start_s.decimals(3), memory_mib.decimals(1));
        eprintln!("{}, 2^{bits} names: start {start} s, {memory} MiB", subject.name());
    }
    place.forget_zone_files();
    Ok(())
}

/// MiB that a server will have, by the line through its smallest and its largest size so far; 0 with fewer
/// than two.
fn forecast_mib(rows: &[Row], subject: Subject, bits: u8) -> f64 {
    let of_server = rows.iter().filter(|row| row.subject == subject).map(|row| &row.measured);
    let mut measured = of_server.filter(|size| !size.memory_mib.is_empty());
    let (Some(first), Some(last)) = (measured.next(), measured.next_back()) else { return 0.0 };
    let (low, high) = (first.memory_mib.median(), last.memory_mib.median());
    let each = (high - low) / (names(last.names_bits) - names(first.names_bits));
    low + each * (names(bits) - names(first.names_bits))
}

fn names(bits: u8) -> f64 {
    (1u64 << bits) as f64
}

fn free_mib() -> f64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0.0) / 1024.0
}
