//! A trial in DNS-OARC's schema for the figures of DNS tools (dns-metrics), as kxdpgun writes it too: one
//! JSON object a line.
//!
//! A `header`, then for each interval (where the list of queries was kept) a `stats_periodic`, an `event`
//! with the verdict, and a `stats_sum`. Times are in ns, instants since 1970.
//! `queries = responses + timeouts + interrupted`: a response that came after the timeout is `discarded`,
//! like second answers, and its query is one of the `timeouts`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use engine::matcher::rcode_name;
use engine::pacer::SECOND_NS;
use engine::querylog::{Class, QueryLog};
use hdrhistogram::Histogram;
use record::{Cause, LossPlace, Outcome, Trial};
use serde::Serialize;

use super::Finished;
use super::cuts::{Cut, cut};

/// The state of the schema that this follows.
const SCHEMA_VERSION: u32 = 20_240_530;

#[derive(Serialize)]
struct Object<'a, T> {
    runid: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    content: T,
}

#[derive(Serialize)]
struct Header<'a> {
    schema_version: u32,
    generator: &'static str,
    generator_version: &'static str,
    generator_params: &'a [String],
    time_units_per_sec: u64,
    stats_interval: f64,
    timeout: f64,
}

#[derive(Serialize)]
struct Event {
    msg: String,
    msg_type: &'static str,
}

#[derive(Serialize)]
struct Stats {
    since: u64,
    until: u64,
    queries: u64,
    responses: u64,
    timeouts: u64,
    interrupted: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    unexpected: Option<u64>,
    discarded: u64,
    response_rcodes: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_latency: Option<Latency>,
    conn_info: Connection,
}

/// In ns; the buckets are [lowest, highest, count].
#[derive(Serialize)]
struct Latency {
    avg: u64,
    min: u64,
    max: u64,
    stddev: u64,
    buckets: Vec<[u64; 3]>,
}

#[derive(Serialize)]
struct Connection {
    #[serde(rename = "type")]
    kind: &'static str,
    packets_sent: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    packets_received: Option<u64>,
    socket_errors: u64,
}

/// Writes the file; with the list of queries there are objects for its intervals.
///
/// # Errors
/// Those of the writer.
pub fn write(
    out: &mut impl Write,
    finished: &Finished<'_>,
    intervals: Option<(&QueryLog, u64)>,
) -> io::Result<()> {
    let trial = &finished.tried.trial;
    // Two trials never begin within one millisecond.
    let runid = format!("{}-{}", trial.started_utc, trial.rate_qps);
    let stats_interval =
        intervals.map_or(trial.duration_s, |(_, interval_ns)| interval_ns as f64 / SECOND_NS as f64);
    put(out, &runid, "header", header(finished, stats_interval))?;
    if let Some((log, interval_ns)) = intervals {
        cut(finished, log, interval_ns, |cut| put(out, &runid, "stats_periodic", periodic(finished, cut)))?;
    }
    put(out, &runid, "event", Event { msg: verdict(trial), msg_type: "outcome" })?;
    put(out, &runid, "stats_sum", sum(finished))
}

fn put<T: Serialize>(out: &mut impl Write, runid: &str, kind: &'static str, content: T) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &Object { runid, kind, content })?;
    out.write_all(b"\n")
}

fn header<'a>(finished: &Finished<'a>, stats_interval: f64) -> Header<'a> {
    Header {
        schema_version: SCHEMA_VERSION,
        generator: "sextant",
        generator_version: env!("CARGO_PKG_VERSION"),
        generator_params: finished.arguments,
        time_units_per_sec: SECOND_NS,
        stats_interval,
        timeout: finished.timeout_ns as f64 / SECOND_NS as f64,
    }
}

fn verdict(trial: &Trial) -> String {
    match trial.outcome {
        Outcome::Pass => "pass".into(),
        Outcome::Fail => "fail".into(),
        Outcome::Void => format!("void: {}", trial.void.as_deref().unwrap_or_default()),
    }
}

/// Of a trial that was cut short nobody knows what would have become of the queries without an answer.
fn split_lost(trial: &Trial, lost: u64) -> (u64, u64) {
    if trial.cause.as_ref().is_some_and(|found| found.cause == Cause::Interrupted) {
        (0, lost)
    } else {
        (lost, 0)
    }
}

fn sum(finished: &Finished<'_>) -> Stats {
    let trial = &finished.tried.trial;
    let (timeouts, interrupted) = split_lost(trial, trial.lost);
    let since = finished.tried.start_unix_ns;
    Stats {
        since,
        until: since + (trial.duration_s * SECOND_NS as f64).round() as u64,
        queries: trial.sent,
        responses: trial.valid + trial.invalid,
        timeouts: timeouts + trial.late,
        interrupted,
        unexpected: Some(trial.unexpected),
        discarded: trial.late + trial.duplicates,
        response_rcodes: trial.rcodes.clone(),
        response_latency: latency(&finished.tried.latency_ns),
        conn_info: Connection {
            kind: "udp",
            packets_sent: trial.sent,
            packets_received: Some(trial.answered + trial.duplicates + trial.unexpected),
            socket_errors: trial.losses.get(&LossPlace::OwnSendError).copied().unwrap_or(0),
        },
    }
}

/// Of the queries that were due in the interval; datagrams that belong to no query belong to no interval
/// either.
fn periodic(finished: &Finished<'_>, cut: &Cut) -> Stats {
    let [lost, valid, invalid, late] =
        [Class::Lost, Class::Valid, Class::Invalid, Class::Late].map(|class| cut.count(class));
    let (timeouts, interrupted) = split_lost(&finished.tried.trial, lost);
    let since = finished.tried.start_unix_ns + cut.start_ns;
    let queries = lost + valid + invalid + late;
    Stats {
        since,
        until: since + cut.length_ns,
        queries,
        responses: valid + invalid,
        timeouts: timeouts + late,
        interrupted,
        unexpected: None,
        discarded: late,
        response_rcodes: by_name(&cut.rcodes),
        response_latency: latency(&cut.latency_ns),
        conn_info: Connection {
            kind: "udp",
            packets_sent: queries,
            packets_received: None,
            socket_errors: cut.count(Class::SendError),
        },
    }
}

fn by_name(counts: &[u64; 16]) -> BTreeMap<String, u64> {
    let seen = counts.iter().zip(0u8..).filter(|(count, _)| **count > 0);
    seen.map(|(count, code)| (rcode_name(code), *count)).collect()
}

fn latency(latency_ns: &Histogram<u64>) -> Option<Latency> {
    if latency_ns.is_empty() {
        return None;
    }
    let buckets = latency_ns.iter_recorded().map(|step| {
        let value = step.value_iterated_to();
        [latency_ns.lowest_equivalent(value), latency_ns.highest_equivalent(value), step.count_at_value()]
    });
    Some(Latency {
        avg: latency_ns.mean().round() as u64,
        min: latency_ns.min(),
        max: latency_ns.max(),
        stddev: latency_ns.stdev().round() as u64,
        buckets: buckets.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::tests::{START_UNIX_NS, Sample};
    use serde_json::{Value, json};

    fn objects(interval_ns: Option<u64>) -> Vec<Value> {
        let sample = Sample::new();
        let mut out = Vec::new();
        let intervals = interval_ns.map(|interval_ns| (sample.log(), interval_ns));
        write(&mut out, &sample.finished(), intervals).unwrap();
        String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What the schema demands: the required members, and the types of all that it names.
    fn check(object: &Value) {
        assert!(object["runid"].is_string(), "{object}");
        let required: &[&str] = match object["type"].as_str().unwrap() {
            "header" => &["schema_version", "generator", "generator_version", "stats_interval"],
            "event" => &["msg"],
            "stats_periodic" | "stats_sum" => &["since", "until"],
            other => panic!("type {other}"),
        };
        required.iter().for_each(|name| assert!(!object[name].is_null(), "{name} in {object}"));
        let integers = [
            "/schema_version",
            "/time_units_per_sec",
            "/since",
            "/until",
            "/queries",
            "/responses",
            "/timeouts",
            "/interrupted",
            "/unexpected",
            "/discarded",
            "/response_latency/avg",
            "/response_latency/min",
            "/response_latency/max",
            "/response_latency/stddev",
            "/conn_info/packets_sent",
            "/conn_info/packets_received",
            "/conn_info/socket_errors",
        ];
        let is = |path: &str, kind: fn(&Value) -> bool| object.pointer(path).is_none_or(kind);
        integers.iter().for_each(|path| assert!(is(path, Value::is_u64), "{path} in {object}"));
        for path in ["/generator", "/generator_version", "/msg", "/msg_type"] {
            assert!(is(path, Value::is_string), "{path} in {object}");
        }
        assert!(is("/stats_interval", Value::is_number) && is("/timeout", Value::is_number));
        assert!(is("/generator_params", |list| list.as_array().unwrap().iter().all(Value::is_string)));
        assert!(is("/conn_info/type", |kind| kind == "udp"));
        assert!(is("/response_rcodes", |codes| codes.as_object().unwrap().values().all(Value::is_u64)));
        assert!(is("/response_latency/buckets", |buckets| {
            buckets.as_array().unwrap().iter().all(|bucket| {
                bucket.as_array().is_some_and(|triple| triple.len() == 3 && triple.iter().all(Value::is_u64))
            })
        }));
    }

    #[test]
    fn the_objects_keep_to_the_schema_and_add_up() {
        for interval_ns in [None, Some(300_000_000)] {
            let objects = objects(interval_ns);
            objects.iter().for_each(check);
            let kinds: Vec<&str> = objects.iter().map(|object| object["type"].as_str().unwrap()).collect();
            let periodic = if interval_ns.is_some() { 3 } else { 0 };
            assert_eq!(kinds[0], "header");
            assert_eq!(kinds.iter().filter(|kind| **kind == "stats_periodic").count(), periodic);
            assert_eq!(kinds[1 + periodic..], ["event", "stats_sum"]);
            for stats in &objects[1..] {
                let number = |name: &str| stats[name].as_u64().unwrap_or(0);
                assert_eq!(
                    number("queries"),
                    number("responses") + number("timeouts") + number("interrupted"),
                    "{stats}"
                );
            }
        }
    }

    #[test]
    fn the_sum_is_the_trial() {
        let objects = objects(Some(SECOND_NS));
        let sum = &objects[3];
        assert_eq!(sum["since"], START_UNIX_NS);
        assert_eq!(sum["until"], START_UNIX_NS + 800_000_000);
        assert_eq!(sum["response_rcodes"], json!({ "NOERROR": 4, "SERVFAIL": 1 }));
        assert_eq!([&sum["queries"], &sum["responses"], &sum["timeouts"]], [6, 3, 3]);
        assert_eq!(sum["response_latency"]["buckets"][0][2], 1);
        assert_eq!(objects[2]["msg"], "fail");
        assert_eq!(objects[0]["time_units_per_sec"], 1_000_000_000);
    }
}
