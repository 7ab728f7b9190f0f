//! `sextant search --search-for connections`: the very limit of dns64d and of NSD is found.

use std::path::Path;
use std::process::Command;

use record::{Cause, Outcome, Results, Sought, State, Trial};

use super::running::{Background, alone, auth, free_port, sextant, stderr};
use super::transports::certificate;

/// dns64d that holds so many connections, over TCP and TLS at these ports, before an AuthDNS.
fn dns64d(base: &Path, upstream: &str, connections: u32) -> (Background, [u16; 2]) {
    certificate(base);
    let ports = [free_port(), free_port()];
    let [tcp, tls] = ports;
    let (config, path) = (base.join("dns64d.toml"), base.display());
    let text = format!(
        "listen = ['[::1]:{tcp}', 'tls://[::1]:{tls}']\nupstreams = ['{upstream}']\n\
         prefixes = ['2001:db8:64::/96']\n[limits]\nconnections = {connections}\n\
         connections_per_network = 1000\nconnections_per_address = 1000\n\
         [tls]\ncertificate = '{path}/cert.pem'\nkey = '{path}/key.pem'\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut dns64d = Command::new(env!("CARGO_BIN_EXE_dns64d"));
    dns64d.arg("--config").arg(&config);
    (Background::start(dns64d, "event=ready").0, ports)
}

/// A search of half-second trials at 200 q/s; what was said, and the record.
fn searched(base: &Path, server: &str, options: &[&str]) -> (String, Results) {
    let out = base.join(format!("record-{}", options.concat()));
    let search = ["search", "--server", server, "--search-for", "connections", "--rate", "200"];
    let short = ["--duration", "0.5", "--repetitions", "1", "--out", out.to_str().unwrap()];
    let output = sextant(&[&search[..], &short, options].concat());
    let text = std::fs::read_to_string(out.join("results.json"));
    let results = serde_json::from_str(&text.unwrap_or_else(|_| panic!("{}", stderr(&output)))).unwrap();
    (String::from_utf8(output.stdout).unwrap(), results)
}

/// Whether the machine let the search come to its end: no trial was void where it mattered, and none failed
/// with so many connections or fewer.
fn is_undisturbed(results: &Results, limit: u64) -> bool {
    let run = &results.runs[0];
    let number = |trial: &Trial| Sought::Connections.of_trial(trial);
    let failed = |trial: &Trial| trial.outcome == Outcome::Fail && number(trial) <= limit;
    run.came_to_its_end() && !run.trials.iter().any(failed)
}

#[test]
fn a_search_finds_the_very_limit_of_dns64d() {
    let _alone = alone();
    let (_auth, upstream) = auth();
    let base = tempfile::tempdir().unwrap();
    let (_dns64d, [tcp, tls]) = dns64d(base.path(), &upstream, 37);
    for (transport, port, threads) in [("tcp", tcp, "1"), ("tcp", tcp, "2"), ("dot", tls, "2")] {
        let options = ["--transport", transport, "--threads", threads, "--max-connections", "150"];
        let (said, results) = searched(base.path(), &format!("[::1]:{port}"), &options);
        let run = &results.runs[0];
        assert_eq!((results.sought(), run.connections.is_some()), (Sought::Connections, true));
        assert!(results.summary.is_none() && results.checklist.is_empty() && results.selftest.is_none());
        let mut passed = run.trials.iter().filter(|trial| trial.outcome == Outcome::Pass);
        assert!(passed.all(|trial| Sought::Connections.of_trial(trial) <= 37), "{said}");
        if !is_undisturbed(&results, 37) {
            testing::skip("busy machine", format!("{transport}, {threads} threads: {said}"));
            continue;
        }
        assert_eq!((run.found(), run.stop_width(), run.qps), (37, 1, 200), "{transport}, {threads}: {said}");
        assert_eq!(results.connections.as_ref().unwrap().p1, 37);
        assert!(said.contains("37 connections over") && said.contains("at 200 q/s together"), "{said}");
        assert_eq!(results.bottleneck.unwrap().cause, Cause::Connections);
        let trials = &results.runs[0].trials;
        let memory = |trial: &Trial| trial.connections.as_ref().unwrap().server_memory_octets;
        // It is read where all connections stand.
        let passed = trials.iter().filter(|trial| trial.outcome == Outcome::Pass);
        assert!(passed.clone().any(|trial| memory(trial).is_some()), "its processes are known: {said}");
        // The middle is tried first.
        assert_eq!(trials[0].connections.as_ref().unwrap().transport.connections, 75);
    }
}

#[test]
fn what_was_tried_bounds_what_is_said() {
    let _alone = alone();
    let (_auth, server) = auth();
    let base = tempfile::tempdir().unwrap();
    let options = ["--transport", "tcp", "--max-connections", "120"];
    let (said, results) = searched(base.path(), &server, &options);
    if !is_undisturbed(&results, 120) {
        return testing::skip("busy machine", said);
    }
    let run = &results.runs[0];
    assert_eq!((run.found(), run.at_ceiling, run.stop_width()), (120, true, 0));
    assert_eq!(results.bottleneck.as_ref().unwrap().cause, Cause::MostConnections);
    assert!(said.contains("held at least 120 connections over TCP"), "{said}");
    // 120 queries at 200 q/s take longer than half a second.
    assert!(run.trials.iter().any(|trial| (trial.duration_s - 0.6).abs() < 0.01));
    assert_eq!(results.state, State::Complete);
    let csv = std::fs::read_to_string(base.path().join(format!("record-{}/trials.csv", options.concat())));
    let csv = csv.unwrap();
    assert!(csv.lines().next().unwrap().contains(",connections,connections_closed_by_server,"), "{csv}");
}

#[test]
fn options_that_make_no_search_for_connections_are_named() {
    for (options, reason) in [
        ("--rate 5", "--rate is for --search-for connections"),
        ("--max-connections 5", "--max-connections is for --search-for connections"),
        ("--search-for connections", "say --transport tcp, dot, doh, doq or doh3"),
        ("--search-for connections --transport tcp --max-rate 5", "--max-rate is for a search for the rate"),
        (
            "--search-for connections --transport tcp --search mlr",
            "--search mlr is for a search for the rate",
        ),
        ("--search-for connections --transport tcp --connections 5", "say --max-connections"),
        (
            "--search-for connections --transport tcp --queries-per-connection 5",
            "the connections are to stay",
        ),
        ("--search-for connections --transport tcp --connection-idle 5", "the connections are to stay"),
        ("--search-for connections --transport tcp --threads 9 --max-connections 8", "each of the 9 threads"),
    ] {
        let words: Vec<&str> = options.split_ascii_whitespace().collect();
        let output = sextant(&[&["search", "--server", "[::1]:9"], &words[..]].concat());
        let said = stderr(&output);
        assert_eq!((output.status.code(), said.trim_end().lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(reason), "{options}: {said}");
    }
    let more = ["--search-for", "connections", "--transport", "tcp", "--max-connections", "1000000"];
    let output = sextant(&[&["search", "--server", "[::1]:9"], &more[..]].concat());
    let said = stderr(&output);
    assert!(said.contains("1000000 connections need") || said.contains("the connections need"), "{said}");
}
