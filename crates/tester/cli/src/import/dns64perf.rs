//! dns64perf++'s list of queries (`dns64perf.csv`): six lines about the run, an empty one, column names, then
//! a line for each query.

use std::path::Path;
use std::time::{Duration, SystemTime};

use engine::pacer::{SECOND_NS, Schedule};
use engine::stats::Stats;
use engine::trial::{Circumstances, Validity, conclude};
use engine::verdict::Limits;
use record::Trial;

use super::{ForeignRecord, ImportError, LONGEST_NS, Lines};

pub(super) const FIRST_LINE: &str = "dns64perf++ test parameters";
const COLUMNS: &str = "query;thread id;tsent [ns];treceived [ns];received;answered;rtt [ns]";
/// The timeout that RFC 8219 asks for; the file does not tell its own.
const TIMEOUT_S: f64 = 1.0;

/// What the lines before the queries say.
#[derive(Default)]
struct Head {
    server: String,
    port: String,
    threads: u64,
    burst: u64,
    delay_ns: u64,
}

struct Row {
    sent_ns: u64,
    received_ns: u64,
    received: bool,
    answered: bool,
}

/// First and last sending, and how many there were.
struct Extent {
    first_ns: u64,
    last_ns: u64,
    queries: u64,
}

pub(super) fn read(path: &Path) -> Result<ForeignRecord, ImportError> {
    let mut lines = Lines::open(path)?;
    let head = head(&mut lines)?;
    let extent = extent(&mut lines, path)?;
    let trial = trial(path, &head, &extent)?;
    Ok(ForeignRecord {
        tool: "dns64perf++".into(),
        server: format!("{} port {}", head.server, head.port),
        command: Vec::new(),
        timeout_s: TIMEOUT_S,
        validity: record::Validity::Compat,
        unknown: "dns64perf++ notes when a query was sent, not when it was due: latency counts from the sending, and a late Tester does not \
                  show. Whether an answer counted was its own decision.",
        trials: vec![trial],
    })
}

fn head(lines: &mut Lines) -> Result<Head, ImportError> {
    let mut head = Head::default();
    while let Some(line) = lines.next()? {
        if line == COLUMNS {
            return Ok(head);
        }
        let Some((name, value)) = line.split_once(": ") else { continue };
        let number = || value.split(' ').next().and_then(|value| value.parse().ok()).unwrap_or(0);
        match name {
            "server" => head.server = value.to_owned(),
            "port" => head.port = value.to_owned(),
            "burst size" => head.burst = number(),
            "number of threads" => head.threads = number(),
            "delay between bursts" => head.delay_ns = number(),
            _ => {}
        }
    }
    Err(lines.wrong(format!("the file ends before its columns: {COLUMNS}")))
}

/// The next query; `None` at the end.
fn row(lines: &mut Lines) -> Result<Option<Row>, ImportError> {
    let Some(line) = lines.next()? else { return Ok(None) };
    let cells: Vec<&str> = line.split(';').collect();
    let [_, _, sent, received, is_received, is_answered, _] = cells[..] else {
        return Err(lines.wrong(format!("{} columns instead of 7: half written or cut off", cells.len())));
    };
    let parsed = (sent.parse().ok(), received.parse().ok());
    let (Some(sent_ns), Some(received_ns)) = parsed else {
        return Err(lines.wrong("the times are no whole numbers of nanoseconds"));
    };
    Ok(Some(Row { sent_ns, received_ns, received: is_received == "1", answered: is_answered == "1" }))
}

fn extent(lines: &mut Lines, path: &Path) -> Result<Extent, ImportError> {
    let mut extent = Extent { first_ns: u64::MAX, last_ns: 0, queries: 0 };
    while let Some(row) = row(lines)? {
        extent.queries += 1;
        if row.sent_ns > 0 {
            extent.first_ns = extent.first_ns.min(row.sent_ns);
            extent.last_ns = extent.last_ns.max(row.sent_ns);
        }
    }
    match extent.last_ns.checked_sub(extent.first_ns) {
        None => Err(ImportError::Empty(path.to_owned(), "no query was sent")),
        Some(length_ns) if length_ns > LONGEST_NS => Err(ImportError::Empty(
            path.to_owned(),
            "the queries lie more than a day apart: the times are wrong",
        )),
        Some(_) => Ok(extent),
    }
}

/// Counts the queries as a trial of ours would have.
fn trial(path: &Path, head: &Head, extent: &Extent) -> Result<Trial, ImportError> {
    let schedule = schedule(head, extent);
    let mut stats = Stats::new(schedule);
    let mut lines = Lines::open(path)?;
    self::head(&mut lines)?;
    while let Some(row) = row(&mut lines)? {
        if row.sent_ns == 0 {
            continue;
        }
        stats.note_sent(row.sent_ns, row.sent_ns);
        if row.answered {
            stats.note_valid(row.sent_ns, 0, row.received_ns);
            stats.valid_compat += 1;
        } else if row.received {
            stats.invalid += 1;
            *stats.defects.entry("late, or without an answer record".into()).or_default() += 1;
        }
    }
    let limits = Limits::for_timeout((TIMEOUT_S * SECOND_NS as f64) as u64);
    let trial = conclude(&schedule, &stats, &Circumstances::default(), &limits, Validity::Compat);
    let started = SystemTime::UNIX_EPOCH + Duration::from_nanos(extent.first_ns);
    Ok(Trial {
        started_utc: humantime::format_rfc3339_millis(started).to_string(),
        io: "sockets of dns64perf++".into(),
        ..trial
    })
}

/// The rate that it was told, or else the one that it had.
fn schedule(head: &Head, extent: &Extent) -> Schedule {
    let length_ns = (extent.last_ns - extent.first_ns).max(1);
    let had = u128::from(extent.queries.saturating_sub(1)) * u128::from(SECOND_NS) / u128::from(length_ns);
    let told = u128::from(head.threads) * u128::from(head.burst) * u128::from(SECOND_NS);
    let rate = told.checked_div(u128::from(head.delay_ns)).filter(|&rate| rate > 0).unwrap_or(had);
    let rate_qps = u64::try_from(rate).unwrap_or(u64::MAX).clamp(1, SECOND_NS);
    let duration_ns = (u128::from(extent.queries) * u128::from(SECOND_NS) / u128::from(rate_qps)) as u64;
    let mut schedule = Schedule::new(extent.first_ns, rate_qps, duration_ns.clamp(1, LONGEST_NS));
    schedule.queries = extent.queries;
    schedule
}
