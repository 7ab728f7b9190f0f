//! `docs/results.schema.json` against real records and against what the programs write.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

#[path = "../support/seen.rs"]
mod seen;
mod validator;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use record::identifiers::analyse;
use record::{
    Answers, Attempt, BackgroundQueries, Bottleneck, CertificateUse, Connections, Disturbance, Dut,
    Experiments, Fact, FileQuestions, FoundConnections, Goal, GoalResult, GoalSummary, Interval, Latency,
    MedianInterval, Observation, Questions, RateInterval, Replay, Results, Steadiness, Transport, Trial,
};
use serde_json::{Value, json};
use validator::{Unknown, validate};

fn read(path: &str) -> Value {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn schema() -> Value {
    read("../../../docs/results.schema.json")
}

fn fixture(name: &str) -> Value {
    read(&format!("tests/fixtures/results-{name}.json"))
}

fn connections() -> Connections {
    let request = "POST https://dns.test/dns-query".to_owned();
    let transport =
        Transport { idle_s: Some(1.0), queries_sigma: Some(1.0), request, ..Transport::default() };
    let refusals = [("status 503".to_owned(), 1)].into();
    Connections {
        transport,
        refusals,
        server_memory_octets: Some(1),
        connect_ns: Some(Latency::default()),
        handshake_ns: Some(Latency::default()),
        ..Connections::default()
    }
}

fn replay() -> Replay {
    let left_out = [("responses".to_owned(), 1)].into();
    Replay { left_out, stopped: Some("octet 24".into()), ..Replay::default() }
}

fn questions() -> Questions {
    Questions {
        file: Some(FileQuestions::default()),
        templates: vec!["{walk:1-9}.test".into()],
        client_activity: Some("zipf:1".into()),
        ..Questions::default()
    }
}

/// What every summary and a search for connections have.
fn add_connections(results: &mut Results) {
    let summary = results.summary.as_mut().unwrap();
    summary.stop_width_connections = Some(1);
    summary.median_interval = Some(MedianInterval { low: 1, high: 2, confidence_pct: 95.0 });
    results.connections = results.summary.clone();
    results.settings.connections_range = Some([1, 2]);
    let found = FoundConnections { ended_by_voids: Some(1), ..FoundConnections::default() };
    results.runs[0].connections = Some(found);
}

/// A record in which every optional part is there.
fn full() -> Results {
    let mut results: Results = serde_json::from_value(fixture("quick")).unwrap();
    add_connections(&mut results);
    results.observed = Some(analyse(&seen::queries(), 4000, Some(2000)));
    results.settings.goals = vec![Goal::default()];
    results.settings.listen_s = Some(2.0);
    results.settings.transport = Some(connections().transport);
    results.settings.questions = Some(questions());
    results.goals = vec![GoalSummary::default()];
    results.dut =
        Dut { start_s: Some(0.1), start_memory_octets: Some(1), zone_names: Some(1), ..results.dut.clone() };
    results.steadiness = Some(Steadiness::default());
    let selftest = results.selftest.as_mut().unwrap();
    (selftest.certificate, selftest.attempts) = (Some(CertificateUse::default()), vec![Attempt::default()]);
    results.environment.facts.push(Fact {
        group: "a".into(),
        name: "b".into(),
        before: "c".into(),
        after: Some("d".into()),
    });
    results.interval = Some(RateInterval {
        below_qps: Some(1),
        failed_at_qps: Some(1),
        steal_pct: Some(1.0),
        other_programs_pct: Some(1.0),
        ..RateInterval::default()
    });
    let run = &mut results.runs[0];
    run.ended_by_voids_qps = Some(1);
    run.goals = vec![GoalResult { lower_qps: Some(1), upper_qps: None, ..GoalResult::default() }];
    run.trials.push(Trial {
        waited_s: 1.0,
        experiments: Some(Experiments::default()),
        cause: Some(Bottleneck::default()),
        disturbances: vec![Disturbance::default()],
        beside: Some(BackgroundQueries::default()),
        connections: Some(connections()),
        observation: Some(Observation {
            device_counters: BTreeMap::from([("link.rx_errors".to_owned(), 1)]),
            dut_sockets: Some(1),
            dut_cpu_us_per_answer: Some(1.0),
            interrupt_pct: Some(1.0),
            auth_probes: Some(5),
            auth_probes_late: Some(1),
            dut_datagrams_in: Some(1),
            dut_datagrams_out: Some(1),
            ..Observation::default()
        }),
        rcodes: BTreeMap::from([("NOERROR".to_owned(), 1)]),
        latency_curve: vec![(100.0, 1)],
        series: vec![Interval::default()],
        answers: vec![Answers::default()],
        replay: Some(replay()),
        ..Trial::default()
    });
    results
}

#[test]
fn records_of_earlier_runs_are_valid() {
    for name in ["quick", "interrupted", "started", "hostile"] {
        let faults = validate(&schema(), &fixture(name), Unknown::Allowed);
        assert_eq!(faults, Vec::<String>::new(), "{name}");
    }
}

/// The other way round: a field that is written and not described would be missing in the schema.
#[test]
fn whatever_is_written_is_described() {
    let written = serde_json::to_value(full()).unwrap();
    assert_eq!(validate(&schema(), &written, Unknown::Refused), Vec::<String>::new());
}

/// And back: a field that is described and never written would be a promise not kept.
#[test]
fn whatever_is_described_is_written_and_has_a_meaning() {
    let written = serde_json::to_value(full()).unwrap().to_string();
    let schema = schema();
    let objects = schema["$defs"].as_object().unwrap().values().chain([&schema]);
    for (name, property) in objects.filter_map(|object| object["properties"].as_object()).flatten() {
        // The two states of a measurement that this one is not in.
        assert!(name == "failed" || written.contains(&format!("\"{name}\":")), "{name} is never written");
        let meant = property["description"].is_string() || property["$ref"].is_string();
        let known_by_name = property["type"] == "integer" || property["type"] == "number";
        assert!(meant || known_by_name || name == "failed", "{name} has no description");
    }
}

#[test]
fn what_is_no_record_is_refused() {
    type Change = fn(&mut Value);
    let changes: [(Change, &str); 8] = [
        (|record| record["schema"] = json!(2), "/schema"),
        (|record| drop(record.as_object_mut().unwrap().remove("runs")), "runs"),
        (|record| record["state"] = json!("done"), "/state"),
        (|record| record["runs"][0]["qps"] = json!(-1), "/runs/0/qps"),
        (|record| record["runs"][0]["trials"][0]["outcome"] = json!("maybe"), "/outcome"),
        (|record| record["runs"][0]["trials"][0]["losses"]["late"] = json!("many"), "/losses/late"),
        (|record| record["settings"]["rate_range_qps"] = json!([1, 2, 3]), "/rate_range_qps"),
        (|record| record["runs"][0]["trials"][0]["latency_curve"] = json!([[1.0]]), "/latency_curve/0"),
    ];
    for (change, place) in changes {
        let mut record = fixture("quick");
        change(&mut record);
        let faults = validate(&schema(), &record, Unknown::Allowed);
        assert!(faults.iter().any(|fault| fault.contains(place)), "{place}: {faults:?}");
    }
}
