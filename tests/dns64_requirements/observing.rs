//! What operators see: metrics, the control socket, the log.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::PATIENCE;
use crate::support::client::ask_dnssec;
use crate::support::server::{Server, TERMINATE};
use crate::support::upstream::Upstream;
use crate::{A, A_RECORD, AAAA, SOA};

const NATIVE: &str = "native.example.com AAAA";
const ABSENT: &str = "absent.example.com AAAA";

/// A dns64d that has answered one question of each kind.
fn after_some_questions(more: &str) -> (Upstream, Server) {
    let upstream = Upstream::saying(&[
        (AAAA, 0, &[SOA]),
        (A, 0, &[A_RECORD]),
        (NATIVE, 0, &["an native.example.com 60 AAAA 2001:db8::1"]),
        (ABSENT, 3, &[SOA]),
    ]);
    let server = Server::before(&upstream, more);
    for words in [AAAA, NATIVE, ABSENT, A] {
        server.ask(words);
    }
    ask_dnssec(AAAA).flag(dns64::wire::Header::CD).over_udp(server.address());
    (upstream, server)
}

#[test]
fn metrics_tell_why_answers_were_passed_on() {
    let address = TcpListener::bind("[::1]:0").unwrap().local_addr().unwrap();
    let (_upstream, _server) = after_some_questions(&format!("metrics.listen = '{address}'"));
    let page = until(|| page(address), |page| page.contains("dns64d_answered_total 5\n"));
    for counter in ["synthesized", "passed_aaaa", "passed_nxdomain", "passed_validating"] {
        assert!(page.contains(&format!("\ndns64d_{counter}_total 1\n")), "{counter}\n{page}");
    }
}

/// The metrics by HTTP.
fn page(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

/// What is seen once it is as expected: threads tell their counters now and then.
#[track_caller]
fn until<T: std::fmt::Debug>(see: impl Fn() -> T, expected: impl Fn(&T) -> bool) -> T {
    let start = Instant::now();
    loop {
        let seen = see();
        if expected(&seen) {
            return seen;
        }
        assert!(start.elapsed() < PATIENCE, "{seen:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_control_socket_tells_the_counters_and_the_servers() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("control");
    let (upstream, _server) = after_some_questions(&format!("control.socket = '{}'", socket.display()));
    let control = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_dns64d"))
            .args(["control", "--socket", socket.to_str().unwrap()])
            .args(words)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let stats = || serde_json::from_str::<serde_json::Value>(&control(&["stats", "--json"])).unwrap();
    let stats = until(stats, |stats| stats["answered"] == 5);
    assert_eq!((&stats["accepted"], &stats["synthesized"]), (&5.into(), &1.into()));
    assert!(control(&["upstreams"]).contains(&upstream.address.to_string()));
}

#[test]
fn queries_can_be_logged() {
    let (_upstream, server) = after_some_questions("log.queries = true");
    let (code, log) = server.end(TERMINATE);
    assert_eq!(code, Some(0));
    for name in ["www.example.com", "native.example.com", "absent.example.com"] {
        assert!(log.contains(name), "{name}\n{log}");
    }
}
