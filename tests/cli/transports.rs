//! `sextant trial` and `search` over connections: against dns64d, the AuthDNS, NSD and CoreDNS, whose own
//! counts agree.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use record::{LossPlace, Outcome, Results, Trial};

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

/// NSD with a zone that has a AAAA for every name, over TCP and TLS, and its control socket.
struct Nsd {
    _running: Running,
    directory: tempfile::TempDir,
    tcp: String,
    tls: String,
}

/// A process that ends with the test.
pub(super) struct Running(pub(super) std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Nsd {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().display();
        certificate(directory.path());
        let (port, tls_port) = (free_port(), free_port());
        let zone = "$TTL 60\n@ SOA ns.dns64perf.test. admin.dns64perf.test. 1 60 60 60 60\n@ NS ns.dns64perf.test.\n\
                    ns A 192.0.2.1\n* AAAA 2001:db8::1\n";
        std::fs::write(directory.path().join("zone"), zone).unwrap();
        let config = format!(
            "server:\n ip-address: 127.0.0.1@{port}\n ip-address: 127.0.0.1@{tls_port}\n server-count: 1\n \
             username: \"\"\n chroot: \"\"\n database: \"\"\n zonesdir: \"{path}\"\n pidfile: \"{path}/pid\"\n \
             xfrdfile: \"{path}/xfrd\"\n xfrdir: \"{path}\"\n zonelistfile: \"{path}/list\"\n cookie-secret-file: \"\"\n \
             tls-service-key: \"{path}/key.pem\"\n tls-service-pem: \"{path}/cert.pem\"\n tls-port: {tls_port}\n \
             rrl-ratelimit: 0\nremote-control:\n control-enable: yes\n control-interface: {path}/control\n\
             zone:\n name: dns64perf.test\n zonefile: zone\n"
        );
        std::fs::write(directory.path().join("nsd.conf"), config).unwrap();
        let mut command = Command::new("nsd");
        command.arg("-d").arg("-c").arg(directory.path().join("nsd.conf"));
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdout(Stdio::null()).stderr(Stdio::null());
        let running = Running(command.spawn().unwrap());
        let (tcp, tls) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{tls_port}"));
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(&tls).is_err() {
            assert!(Instant::now() < until, "NSD does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { _running: running, directory, tcp, tls }
    }

    /// One of its counters.
    fn count(&self, counter: &str) -> u64 {
        let mut control = Command::new("nsd-control");
        control.arg("-c").arg(self.directory.path().join("nsd.conf")).arg("stats_noreset");
        let output = control.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{counter}=")));
        line.unwrap_or_else(|| panic!("{counter} in {text}")).parse().unwrap()
    }
}

#[test]
fn nsd_counts_the_same_queries() {
    if !testing::has_program("nsd", "nsd") {
        return;
    }
    let _alone = alone();
    let nsd = Nsd::start();
    for (server, transport, counter) in [(&nsd.tcp, "tcp", "num.tcp"), (&nsd.tls, "dot", "num.tls")] {
        let before = nsd.count(counter);
        let options = ["--transport", transport, "--validity", "response", "--queries-per-connection", "50"];
        let trial = tried(server, &options);
        is_answered(&trial);
        assert!(!trial.losses.contains_key(&LossPlace::ConnectionReset), "{:?}", trial.losses);
        // One more asked whether the server is there.
        assert_eq!(nsd.count(counter) - before, trial.sent + 1, "{transport}");
    }
}

#[test]
fn coredns_counts_the_same_queries_over_quic() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    certificate(path);
    let (port, metrics) = (free_port(), free_port());
    let text = format!(
        "quic://.:{port} {{\n bind ::1\n tls {path}/cert.pem {path}/key.pem\n prometheus [::1]:{metrics}\n\
         template IN AAAA {{\n answer \"{{{{ .Name }}}} 60 IN AAAA 2001:db8::1\"\n }}\n}}\n",
        path = path.display()
    );
    std::fs::write(path.join("Corefile"), text).unwrap();
    let mut command = Command::new("coredns");
    command.arg("-conf").arg(path.join("Corefile")).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(coredns) = command.spawn() else {
        return testing::skip("peer coredns", "CoreDNS is not installed: https://coredns.io has programs");
    };
    let _coredns = Running(coredns);
    let until = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(format!("[::1]:{metrics}")).is_err() {
        assert!(Instant::now() < until, "CoreDNS does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    let server = format!("[::1]:{port}");
    let options = ["--transport", "doq", "--validity", "response", "--queries-per-connection", "50"];
    let trial = tried(&server, &options);
    is_answered(&trial);
    let mut stream = TcpStream::connect(format!("[::1]:{metrics}")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let counted = text.lines().filter(|line| line.starts_with("coredns_dns_requests_total"));
    let counted: u64 =
        counted.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64).sum();
    assert_eq!(counted, trial.sent + 1, "{text}");
}
