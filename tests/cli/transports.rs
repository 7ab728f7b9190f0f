//! `sextant trial` and `search` over connections: against dns64d, whose own counts agree, and the AuthDNS.

use std::path::Path;
use std::process::Command;

use record::{Outcome, Results, Trial};

use super::running::{Background, alone, auth, free_port, sextant, stderr};

/// The name in the certificates.
pub(super) const NAME: &str = "dns.test";

/// A certificate and its key in this directory.
pub(super) fn certificate(directory: &Path) {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    std::fs::write(directory.join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(directory.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
}

/// A trial of 1000 q/s for a second.
pub(super) fn tried(server: &str, options: &[&str]) -> Trial {
    let fixed = ["trial", "--server", server, "--rate", "1000", "--duration", "1", "--json"];
    let output = sextant(&[&fixed, options].concat());
    let trial: Trial =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    assert_eq!(trial.sent, trial.answered + trial.lost);
    assert_eq!(trial.losses.values().sum::<u64>(), trial.scheduled - trial.valid);
    trial
}

/// Every query has an answer; on a busy machine some may be late.
pub(super) fn is_answered(trial: &Trial) {
    assert_eq!((trial.scheduled, trial.answered, trial.invalid), (1000, 1000, 0), "{:?}", trial.losses);
    assert!(trial.outcome == Outcome::Pass || trial.void.is_some() || trial.late > 0, "{:?}", trial.cause);
}

#[test]
fn the_authdns_answers_over_tcp_and_a_search_finds_its_rate() {
    let _alone = alone();
    let (_auth, server) = auth();
    let trial =
        tried(&server, &["--transport", "tcp", "--connections", "10", "--queries-per-connection", "20"]);
    is_answered(&trial);
    let seen = trial.connections.unwrap();
    assert_eq!((seen.transport.protocol.as_str(), seen.transport.queries_each), ("tcp", 20));
    assert!((50..=60).contains(&seen.opened), "{}", seen.opened);
    assert_eq!((trial.io.as_str(), seen.closed_by_server), ("tcp", 0));

    let base = tempfile::tempdir().unwrap();
    let out = base.path().join("record");
    let search =
        ["search", "--server", &server, "--transport", "tcp", "--search", "fixed", "--max-rate", "500"];
    let short = ["--duration", "0.5", "--repetitions", "1", "--out", out.to_str().unwrap()];
    let output = sextant(&[&search[..], &short].concat());
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let results: Results =
        serde_json::from_str(&std::fs::read_to_string(out.join("results.json")).unwrap()).unwrap();
    assert_eq!(results.settings.transport.unwrap().connections, 16);
    assert_eq!(results.runs[0].trials[0].connections.as_ref().unwrap().transport.protocol, "tcp");
}

#[test]
fn lengths_of_connections_are_drawn_by_the_seed() {
    let _alone = alone();
    let (_auth, server) = auth();
    let drawn = ["--transport", "tcp", "--queries-per-connection", "lognormal:20,1", "--seed", "5"];
    let opened: [u64; 2] = std::array::from_fn(|_| {
        let trial = tried(&server, &drawn);
        is_answered(&trial);
        let seen = trial.connections.unwrap();
        assert_eq!((seen.transport.queries_each, seen.transport.queries_sigma), (20, Some(1.0)));
        seen.opened
    });
    // The mean is 33 queries, and each of 16 clients begins in the midst of a connection.
    assert!(opened[0] == opened[1] && (25..80).contains(&opened[0]), "{opened:?}");
}

#[test]
fn a_bench_by_connections_tests_itself_by_connections() {
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let out = base.path().join("record");
    let bench =
        ["bench", "--transport", "dot", "--path", "loopback", "--search", "fixed", "--max-rate", "300"];
    let short =
        ["--duration", "0.5", "--repetitions", "1", "--full-selftest", "--out", out.to_str().unwrap()];
    let output = sextant(&[&bench[..], &short].concat());
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let results: Results =
        serde_json::from_str(&std::fs::read_to_string(out.join("results.json")).unwrap()).unwrap();
    assert_eq!(results.settings.transport.as_ref().unwrap().protocol, "dot");
    let selftest = &results.selftest.as_ref().unwrap().trials[0];
    assert_eq!(selftest.connections.as_ref().unwrap().transport.protocol, "dot");
    let seen = results.runs[0].trials[0].connections.as_ref().unwrap();
    assert_eq!((seen.opened, seen.transport.connections), (16, 16));
    assert!(seen.server_memory_octets.is_some());
    assert!(results.verdict.as_ref().unwrap().contains("over DoT"), "{:?}", results.verdict);
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("Connections of each trial"));
}

/// dns64d at work, and the address at which it listens by this scheme; its files are in this directory.
fn dns64d(directory: &Path, upstream: &str, scheme: &str) -> (Background, String) {
    certificate(directory);
    let (port, config, path) = (free_port(), directory.join("dns64d.toml"), directory.display());
    let text = format!(
        "listen = ['{scheme}://[::1]:{port}']\nupstreams = ['{upstream}']\nprefixes = ['2001:db8:64::/96']\n\
         control.socket = '{path}/control'\n[tls]\ncertificate = '{path}/cert.pem'\nkey = '{path}/key.pem'\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut dns64d = Command::new(env!("CARGO_BIN_EXE_dns64d"));
    dns64d.arg("--config").arg(&config);
    let (dns64d, _) = Background::start(dns64d, "event=ready");
    (dns64d, format!("[::1]:{port}"))
}

#[test]
fn dns64d_answers_over_quic_and_counts_the_same_queries() {
    counts_the_same_queries("quic", "quic_queries", &["--transport", "doq"]);
}

#[test]
fn dns64d_answers_over_http3_and_counts_the_same_queries() {
    for method in ["get", "post"] {
        counts_the_same_queries("h3", "http3_queries", &["--transport", "doh3", "--doh-method", method]);
    }
}

/// Asks dns64d at a listener of this scheme, whose queries this counter counts.
fn counts_the_same_queries(scheme: &str, counter: &str, transport: &[&str]) {
    let _alone = alone();
    let (_auth, upstream) = auth();
    let base = tempfile::tempdir().unwrap();
    let (_dns64d, server) = dns64d(base.path(), &upstream, scheme);
    let queries = || {
        let mut control = Command::new(env!("CARGO_BIN_EXE_dns64d"));
        control.args(["control", "--socket"]).arg(base.path().join("control")).args(["stats", "--json"]);
        let stats: serde_json::Value = serde_json::from_slice(&control.output().unwrap().stdout).unwrap();
        stats[counter].as_u64().unwrap_or_else(|| panic!("{stats}"))
    };
    let authority = format!("{}/cert.pem", base.path().display());
    let checked = ["--connections", "8", "--tls-name", NAME, "--tls-ca", &authority];
    let options = [transport, &checked].concat();
    let trial = tried(&server, &options);
    is_answered(&trial);
    let seen = trial.connections.unwrap();
    assert_eq!((seen.transport.protocol.as_str(), seen.opened, seen.opened_in_trial), (transport[1], 8, 0));
    assert!(seen.handshake_ns.as_ref().unwrap().max > 0 && seen.connect_ns.is_none());
    // One more asked whether the server is there.
    assert_eq!(queries(), trial.sent + 1);

    for more in [&["--tls-resumption"][..], &["--one-at-a-time"]] {
        let before = queries();
        let trial = tried(&server, &[&options[..], &["--queries-per-connection", "25"], more].concat());
        is_answered(&trial);
        let seen = trial.connections.unwrap();
        assert!((40..=56).contains(&seen.opened), "{}", seen.opened);
        assert_eq!(seen.resumed, if seen.transport.resumption { seen.opened_in_trial } else { 0 });
        assert_eq!(queries() - before, trial.sent + 1);
    }
}

#[test]
fn dns64d_answers_over_tls_and_its_certificate_is_checked() {
    let _alone = alone();
    let (_auth, upstream) = auth();
    let base = tempfile::tempdir().unwrap();
    let (_dns64d, server) = dns64d(base.path(), &upstream, "tls");
    let authority = format!("{}/cert.pem", base.path().display());
    let dot = ["--transport", "dot", "--connections", "8", "--tls-name", NAME];
    let trial = tried(&server, &[&dot[..], &["--tls-ca", &authority]].concat());
    is_answered(&trial);
    let seen = trial.connections.unwrap();
    assert_eq!((seen.opened, seen.opened_in_trial), (8, 0));
    assert_eq!(seen.transport.certificate, format!("checked against {authority} for {NAME}"));
    assert!(seen.handshake_ns.as_ref().unwrap().max > 0 && seen.connect_ns.as_ref().unwrap().max > 0);

    let resumed =
        tried(&server, &[&dot[..], &["--tls-resumption", "--queries-per-connection", "25"]].concat());
    is_answered(&resumed);
    let seen = resumed.connections.unwrap();
    assert_eq!(seen.resumed, seen.opened_in_trial);

    let wrong = ["trial", "--server", &server, "--rate", "10", "--tls-ca", &authority, "--transport", "dot"];
    let output = sextant(&[&wrong[..], &["--tls-name", "elsewhere.test"]].concat());
    let said = stderr(&output);
    assert_eq!((output.status.code(), said.trim_end().lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("the handshake with") && said.contains("not valid for name"), "{said}");
}

/// A server that sextant starts with a certificate: each query by a connection of its own, then by standing
/// ones.
fn started_peer_answers(peer: &str, transport: &str, options: &[&str]) {
    let _alone = alone();
    if let Err(missing) = lab::peers::find(peer).and_then(lab::peers::locate) {
        return testing::skip(&format!("peer {peer}"), &missing);
    }
    for each in ["1", "0"] {
        let fixed = ["trial", "--peer", peer, "--transport", transport, "--rate", "200", "--duration", "1"];
        let connections = ["--path", "loopback", "--queries-per-connection", each, "--json"];
        let output = sextant(&[&fixed, &connections[..], options].concat());
        let trial: Trial =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
        assert_eq!((trial.scheduled, trial.answered, trial.invalid), (200, 200, 0), "{:?}", trial.losses);
        let opened = trial.connections.unwrap().opened;
        assert!(if each == "1" { opened >= 200 } else { opened == 16 }, "{opened} connections");
    }
}

#[test]
fn dns64d_is_started_with_a_certificate() {
    started_peer_answers("dns64d", "dot", &[]);
    started_peer_answers("dns64d", "doh", &[]);
    started_peer_answers("dns64d", "doq", &[]);
    started_peer_answers("dns64d", "doh3", &[]);
}

#[test]
fn unbound_is_started_with_a_certificate() {
    started_peer_answers("unbound", "dot", &[]);
    started_peer_answers("unbound", "doh", &[]);
}

#[test]
fn knot_resolver_is_started_with_a_certificate() {
    started_peer_answers("knot-resolver", "dot", &[]);
    started_peer_answers("knot-resolver", "doh", &[]);
}

#[test]
fn dnsdist_is_started_with_a_certificate() {
    started_peer_answers("dnsdist", "dot", &["--aaaa-share", "100"]);
    started_peer_answers("dnsdist", "doh", &["--aaaa-share", "100"]);
}

#[test]
fn bind_takes_as_many_connections_as_are_asked_for() {
    started_peer_answers("bind", "tcp", &[]);
}

#[test]
fn a_server_that_is_not_there_is_said_in_one_line() {
    let server = format!("[::1]:{}", free_port());
    let output = sextant(&["trial", "--server", &server, "--rate", "10", "--transport", "tcp"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("nothing listens at") && said.contains("for TCP"), "{said}");
    for (options, reason) in [
        ("--looped --transport dot --tls-pin x", "no SHA-256 digest"),
        ("--looped --transport dot --tls-name x", "--tls-name is for --server"),
        ("--peer unbound --transport dot --tls-ca ca.pem", "ca.pem"),
        ("--peer totd --transport tcp", "totd is not configured for tcp here"),
        ("--peer bind --transport dot", "bind is not configured for dot here; dns64d, "),
        ("--peer dnsdist --transport dot", "(--aaaa-share 100)"),
        ("--server [::1]:9 --transport tcp --attack 10", "--attack sends datagrams"),
    ] {
        let words = ["trial", "--rate", "10"].into_iter().chain(options.split(' '));
        let output = sextant(&words.collect::<Vec<_>>());
        let said = stderr(&output);
        assert!(output.status.code() == Some(2) && said.contains(reason), "{said}");
    }
}
