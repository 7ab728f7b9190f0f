//! What is kept: RFC 2308, RFC 8020, RFC 8767, RFC 9520.

use std::time::{Duration, Instant};

use dns64::wire::rcode;

use crate::dnssec::authentic;
use crate::support::PATIENCE;
use crate::support::client::{Ask, ask, ask_edns};
use crate::support::server::{Server, config_text};
use crate::support::upstream::Upstream;
use crate::{A, A_RECORD, AAAA, SOA, SYNTHESIZED};

fn before(lines: &[(&str, u8, &[&str])], more: &str) -> (Upstream, Server) {
    let upstream = Upstream::saying(lines);
    let server = Server::before(&upstream, more);
    (upstream, server)
}

/// Asks until the TTL of the first record is below this.
fn ask_until_older(server: &Server, question: &Ask, ttl_s: u32) {
    let start = Instant::now();
    loop {
        let answer = question.over_udp(server.address());
        let first = answer.message().records().next().unwrap().unwrap().ttl;
        if first < ttl_s {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "the TTL does not fall");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_answer_is_given_again_with_less_to_live() {
    let (upstream, server) = before(&[(A, 0, &[A_RECORD])], "");
    server.ask(A).is(0, &[A_RECORD]);
    ask_until_older(&server, &ask(A), 300);
    upstream.was_asked(&[A]);
}

#[test]
fn a_synthesized_answer_is_made_again_from_both_replies() {
    let (upstream, server) = before(&[(AAAA, 0, &[SOA]), (A, 0, &[A_RECORD])], "");
    server.ask(AAAA).is(0, &[SYNTHESIZED]);
    ask_until_older(&server, &ask(AAAA), 60);
    server.ask(A);
    upstream.was_asked(&[AAAA, A]);
}

#[test]
fn nothing_is_kept_where_the_cache_is_off() {
    let (upstream, server) = before(&[(A, 0, &[A_RECORD])], "cache.size_mib = 0");
    for _ in 0..3 {
        server.ask(A).is(0, &[A_RECORD]);
    }
    upstream.was_asked(&[A, A, A]);
}

#[test]
fn rfc_2308_denials_are_kept_as_long_as_the_soa_says() {
    let (upstream, server) = before(&[(A, rcode::NXDOMAIN, &["ns example.com 60 SOA 60"])], "");
    server.ask(A).is(rcode::NXDOMAIN, &["ns example.com 60 SOA 60"]);
    ask_until_older(&server, &ask(A), 60);
    upstream.was_asked(&[A]);
    // Without a SOA record nothing says how long.
    upstream.says("empty.example.com A", 0, &[]);
    for _ in 0..2 {
        server.ask("empty.example.com A").is(0, &[]);
    }
    upstream.was_asked(&["empty.example.com A", "empty.example.com A"]);
}

#[test]
fn rfc_8020_below_a_name_that_does_not_exist_is_nothing() {
    let above = ("nothing.example.com A", rcode::NXDOMAIN, &["ns example.com 60 SOA 60"][..]);
    let below = "a.b.nothing.example.com AAAA";
    let upstream = authentic(&[above]);
    let server = Server::before(&upstream, "upstream.trust_ad = true");
    server.ask(above.0).is(rcode::NXDOMAIN, above.2);
    assert_eq!(server.ask(below).rcode(), rcode::NXDOMAIN);
    upstream.was_asked(&[above.0]);

    // Not where nobody has validated the denial, and not where the operator does not want it.
    for more in ["", "upstream.trust_ad = true\ncache.nxdomain_cut = false"] {
        let upstream = authentic(&[above]);
        let server = Server::before(&upstream, more);
        server.ask(above.0);
        server.ask(below);
        upstream.was_asked(&[above.0, below]);
    }
}

#[test]
fn rfc_9520_a_failure_is_remembered_and_three_tries_are_all() {
    let (upstream, server) = before(&[], "upstream.timeout_ms = 200\ncache.failure_ttl_s = 60");
    upstream.is_silent_on(A);
    for _ in 0..5 {
        server.ask(A).is(rcode::SERVFAIL, &[]);
    }
    upstream.was_asked(&[A, A, A]);
}

#[test]
fn rfc_9520_a_failure_is_forgotten_in_time() {
    let (upstream, server) = before(&[(A, rcode::SERVFAIL, &[])], "");
    server.ask(A).is(rcode::SERVFAIL, &[]);
    upstream.says(A, 0, &[A_RECORD]);
    let start = Instant::now();
    while server.ask(A).rcode() != 0 {
        assert!(start.elapsed() < PATIENCE, "the failure stays for ever");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(start.elapsed() >= Duration::from_millis(900), "it counts for a second at least");
    server.ask(A).is(0, &[A_RECORD]);
}

/// A dns64d that knows these answers, which have expired.
fn expired(lines: &[(&str, u8, &[&str])], more: &str) -> (Upstream, Server) {
    let (upstream, server) = before(lines, more);
    server.ask(lines[0].0);
    std::thread::sleep(Duration::from_millis(1_200));
    upstream.received();
    (upstream, server)
}

#[test]
fn rfc_8767_a_stale_answer_is_given_after_the_client_timer() {
    let (upstream, server) =
        expired(&[(A, 0, &["an www.example.com 1 A 192.0.2.1"])], "upstream.timeout_ms = 5000");
    upstream.is_silent_on(A);
    let start = Instant::now();
    let answer = ask_edns(A).over_udp(server.address());
    answer.is(0, &["an www.example.com 30 A 192.0.2.1"]);
    assert!(start.elapsed() >= Duration::from_millis(1_800));
    assert_eq!(answer.extended_errors(), [3]);
}

#[test]
fn rfc_8767_a_failure_leads_to_the_stale_answer_at_once() {
    let more = "cache.stale_client_timer_ms = 60000\ncache.stale_ttl_s = 17\nupstream.deadline_ms = 60000";
    let (upstream, server) = expired(&[(A, 0, &["an www.example.com 1 A 192.0.2.1"])], more);
    upstream.says(A, rcode::SERVFAIL, &[]);
    server.ask(A).is(0, &["an www.example.com 17 A 192.0.2.1"]);
}

#[test]
fn rfc_8767_stale_answers_keep_their_dns64_state() {
    let lines: [(&str, u8, &[&str]); 2] =
        [(AAAA, 0, &["ns example.com 1 SOA 60"]), (A, 0, &["an www.example.com 1 A 192.0.2.1"])];
    let (upstream, server) = expired(&lines, "cache.stale_client_timer_ms = 100");
    upstream.is_silent_on(AAAA);
    upstream.is_silent_on(A);
    let answer = ask_edns(AAAA).over_udp(server.address());
    answer.is(0, &["an www.example.com 30 AAAA 2001:db8:64::c000:201"]);
    assert!(answer.extended_errors().contains(&3), "{:?}", answer.extended_errors());
}

#[test]
fn rfc_8767_a_stale_native_address_is_not_replaced() {
    let native = "an www.example.com 1 AAAA 2001:db8::1";
    let (upstream, server) = expired(&[(AAAA, 0, &[native])], "");
    upstream.says(AAAA, rcode::SERVFAIL, &[]);
    upstream.says(A, 0, &[A_RECORD]);
    server.ask(AAAA).is(0, &["an www.example.com 30 AAAA 2001:db8::1"]);
}

#[test]
fn rfc_8767_can_be_switched_off() {
    let (upstream, server) = expired(&[(A, 0, &["an www.example.com 1 A 192.0.2.1"])], "cache.stale = false");
    upstream.says(A, rcode::SERVFAIL, &[]);
    server.ask(A).is(rcode::SERVFAIL, &[]);
}

#[test]
fn the_operator_can_flush_names() {
    let (upstream, _) = before(&[(A, 0, &[A_RECORD])], "");
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("control");
    let more = format!("control.socket = '{}'", socket.display());
    let server = Server::start(&config_text(&[upstream.address], &more));
    server.ask(A);
    for what in [&["www.example.com"][..], &["below", "example.com"], &["all"]] {
        upstream.was_asked(&[A]);
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_dns64d"))
            .args(["control", "--socket", socket.to_str().unwrap(), "flush"])
            .args(what)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        server.ask(A).is(0, &[A_RECORD]);
    }
}
