//! Results of other tools as reports: what our own outputs in their formats hold comes back.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::running::{alone, auth, sextant, stderr};

fn record(directory: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(directory.join("results.json")).unwrap()).unwrap()
}

#[test]
fn lists_and_figures_of_other_tools_become_reports() {
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let at = |name: &str| base.path().join(name).to_str().unwrap().to_owned();
    let (_auth, server) = auth();
    let (csv, json) = (at("dns64perf.csv"), at("figures.json"));
    let output = sextant(&[
        "trial",
        "--server",
        &server,
        "--rate",
        "500",
        "--duration",
        "2",
        "--json",
        "--compat-csv",
        &csv,
        "--dns-metrics",
        &json,
        "--interval",
        "1",
    ]);
    let trial: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)));

    let rendered = sextant(&["report", &csv]);
    assert!(rendered.status.success(), "{}", stderr(&rendered));
    assert!(base.path().join("dns64perf.report/report.html").exists());
    let taken = record(&base.path().join("dns64perf.report"));
    let own = &taken["runs"][0]["trials"][0];
    for field in ["sent", "valid", "rate_qps"] {
        assert_eq!(own[field], trial[field], "{field}");
    }
    assert_eq!(own["latency_ns"]["p50"], trial["latency_from_send_ns"]["p50"]);
    assert!(
        taken["environment"]["findings"][0]["evidence"].as_str().unwrap().contains("not when it was due")
    );

    let out = at("figures");
    let rendered = sextant(&["report", &json, "--out", &out]);
    assert!(rendered.status.success(), "{}", stderr(&rendered));
    let taken = record(Path::new(&out));
    let own = &taken["runs"][0]["trials"][0];
    assert_eq!((&own["sent"], &own["valid"]), (&trial["sent"], &trial["valid"]));
    assert_eq!((&own["rcodes"], own["series"].as_array().unwrap().len()), (&trial["rcodes"], 2));
    let (told, measured) = (own["latency_ns"]["p99"].as_f64(), trial["latency_ns"]["p99"].as_f64());
    assert!((told.unwrap() / measured.unwrap() - 1.0).abs() < 0.05, "{told:?} {measured:?}");
    assert!(taken["tool"].as_str().unwrap().starts_with("sextant "), "the generator that the header names");
}

#[test]
fn broken_files_are_refused_in_one_line() {
    let base = tempfile::tempdir().unwrap();
    let head = "dns64perf++ test parameters\nserver: ::1\nport: 53\nnumber of requests: 2\nburst size: 1\n\
                number of threads: 1\ndelay between bursts: 1000000 ns\n\n\
                query;thread id;tsent [ns];treceived [ns];received;answered;rtt [ns]\n";
    let sum = r#"{"type":"stats_sum","since":1,"until":2,"queries":5,"responses":9}"#;
    for (name, text, reason) in [
        ("notes.txt", "hello".to_owned(), "neither a list of queries"),
        ("empty.csv", String::new(), "neither a list of queries"),
        ("cut.csv", format!("{head}a;0;5;6;1"), "line 10: 5 columns instead of 7"),
        ("words.csv", format!("{head}a;0;now;6;1;1;1\n"), "line 10: the times are no whole numbers"),
        ("none.csv", format!("{head}a;0;0;0;0;0;-1\n"), "no query was sent"),
        ("years.csv", format!("{head}a;0;1;2;1;1;1\na;0;900000000000000;2;1;1;1\n"), "more than a day apart"),
        ("headless.csv", "dns64perf++ test parameters\n".to_owned(), "ends before its columns"),
        ("broken.json", "{\"type\":".to_owned(), "line 1: EOF"),
        ("other.json", "{}\n".to_owned(), "holds no stats_sum"),
        ("wrong.json", format!("{sum}\n"), "line 1: more responses than queries"),
    ] {
        let path = base.path().join(name);
        fs::write(&path, text).unwrap();
        let output = sextant(&["report", path.to_str().unwrap()]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(reason) && said.lines().count() == 1, "{name}: {said}");
    }
}
