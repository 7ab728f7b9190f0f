//! DNS-OARC's schema for the figures of DNS tools: JSON objects, one a line. Each `stats_sum` becomes a
//! trial.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use engine::matcher::rcode_name;
use engine::pacer::{SECOND_NS, Schedule};
use engine::stats::Stats;
use engine::trial::{Circumstances, Validity, conclude};
use engine::verdict::Limits;
use record::{Interval, Trial, Windows};
use serde::Deserialize;

use super::{ForeignRecord, ImportError, LONGEST_NS, Lines};

/// Intervals of a trial that are kept.
const INTERVALS: usize = 100_000;
/// A hundred million in every second of a day.
const QUERIES_MAX: u64 = 100_000_000 * 86_400;
/// The timeout that RFC 8219 asks for, where the file does not tell its own, in seconds.
const TIMEOUT_S: f64 = 1.0;

/// One line; what it is not about is absent.
#[derive(Deserialize)]
#[serde(default)]
struct Object {
    #[serde(rename = "type")]
    kind: String,
    generator: String,
    generator_version: String,
    generator_params: Vec<String>,
    time_units_per_sec: u64,
    timeout: f64,
    since: u64,
    until: u64,
    queries: u64,
    responses: u64,
    response_rcodes: BTreeMap<String, u64>,
    response_latency: Option<Latencies>,
}

impl Default for Object {
    fn default() -> Self {
        Self {
            kind: String::new(),
            generator: String::new(),
            generator_version: String::new(),
            generator_params: Vec::new(),
            time_units_per_sec: SECOND_NS,
            timeout: TIMEOUT_S,
            since: 0,
            until: 0,
            queries: 0,
            responses: 0,
            response_rcodes: BTreeMap::new(),
            response_latency: None,
        }
    }
}

/// Buckets of lowest, highest and count.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Latencies {
    buckets: Vec<[u64; 3]>,
}

pub(super) fn read(path: &Path) -> Result<ForeignRecord, ImportError> {
    let mut lines = Lines::open(path)?;
    let mut told = ForeignRecord {
        tool: "a tool that writes DNS-OARC's schema".into(),
        server: String::new(),
        command: Vec::new(),
        timeout_s: TIMEOUT_S,
        validity: record::Validity::Response,
        unknown: "The file holds counts and latencies alone: whether answers were right, how evenly the queries were sent and what the \
                  machine's counters said is unknown. Any response counts as an answer.",
        trials: Vec::new(),
    };
    let (mut periods, mut unit) = (Vec::new(), SECOND_NS);
    while let Some(line) = lines.next()? {
        if line.trim().is_empty() {
            continue;
        }
        let object: Object = serde_json::from_str(&line).map_err(|error| lines.wrong(error.to_string()))?;
        match object.kind.as_str() {
            "header" => {
                unit = object.time_units_per_sec.max(1);
                told.tool = format!("{} {}", object.generator, object.generator_version);
                told.command = object.generator_params;
                told.timeout_s = object.timeout;
            }
            "stats_periodic" if periods.len() < INTERVALS => periods.push(object),
            "stats_sum" => {
                let trial = trial(&object, &std::mem::take(&mut periods), unit, told.timeout_s);
                told.trials.push(trial.map_err(|what| lines.wrong(what))?);
            }
            _ => {}
        }
    }
    match told.trials.is_empty() {
        true => Err(ImportError::Empty(
            path.to_owned(),
            "holds no stats_sum: half written, or of a run that was broken off",
        )),
        false => Ok(told),
    }
}

fn trial(sum: &Object, periods: &[Object], unit: u64, timeout_s: f64) -> Result<Trial, &'static str> {
    let to_ns = |units: u64| {
        u64::try_from(u128::from(units) * u128::from(SECOND_NS) / u128::from(unit)).unwrap_or(u64::MAX)
    };
    let length_ns = to_ns(sum.until.saturating_sub(sum.since));
    if length_ns == 0 || length_ns > LONGEST_NS {
        return Err("`until` must be after `since`, and by less than a day");
    }
    let timed = sum.response_latency.iter().flat_map(|latencies| &latencies.buckets);
    let timed = timed.fold(0u64, |total, [_, _, count]| total.saturating_add(*count));
    if sum.queries > QUERIES_MAX || sum.responses > sum.queries || timed > sum.queries {
        return Err("more responses than queries, or more queries than any tool sends in a day");
    }
    let rate = u128::from(sum.queries) * u128::from(SECOND_NS) / u128::from(length_ns);
    let mut schedule =
        Schedule::new(0, u64::try_from(rate).unwrap_or(u64::MAX).clamp(1, SECOND_NS), length_ns);
    schedule.queries = sum.queries;
    let mut stats = Stats::new(schedule);
    let windows = Stats::windows_of(&schedule) - 1;
    for window in 0..windows {
        let until = |window: u64| (u128::from(sum.queries) * u128::from(window) / u128::from(windows)) as u64;
        stats.add_sent(window as usize, until(window + 1) - until(window));
    }
    stats.add_lateness(0, sum.queries);
    for [_, highest, count] in sum.response_latency.iter().flat_map(|latencies| &latencies.buckets) {
        stats.add_latency(to_ns(*highest), *count);
        stats.add_latency_from_send(to_ns(*highest), *count);
    }
    (stats.valid, stats.valid_compat) = (sum.responses, sum.responses);
    for code in 0..16u8 {
        stats.rcodes[usize::from(code)] = sum.response_rcodes.get(&rcode_name(code)).copied().unwrap_or(0);
    }
    let limits = Limits::for_timeout((timeout_s.clamp(1e-3, 3600.0) * SECOND_NS as f64) as u64);
    let trial = conclude(&schedule, &stats, &Circumstances::default(), &limits, Validity::Response);
    let series = periods.iter().map(|period| Interval {
        start_s: to_ns(period.since.saturating_sub(sum.since)) as f64 / SECOND_NS as f64,
        sent: period.queries,
        valid: period.responses,
        failed: period.queries.saturating_sub(period.responses),
    });
    let started = SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(to_ns(sum.since)));
    Ok(Trial {
        started_utc: started.map(|at| humantime::format_rfc3339_millis(at).to_string()).unwrap_or_default(),
        series: series.collect(),
        // Nobody counted them.
        windows: Windows::default(),
        answers: Vec::new(),
        ..trial
    })
}
