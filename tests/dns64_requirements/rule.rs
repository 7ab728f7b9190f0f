//! When and from what AAAA records are synthesized: RFC 6147 5.1.

use std::time::{Duration, Instant};

use dns64::wire::{rcode, rtype};

use crate::support::client::ask;
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::{A, A_RECORD, AAAA, SOA, SYNTHESIZED};

/// An IPv4-only site, and a dns64d before it.
fn ipv4_only(more: &str) -> (Upstream, Server) {
    let upstream = Upstream::saying(&[(AAAA, 0, &[SOA]), (A, 0, &[A_RECORD])]);
    let server = Server::before(&upstream, more);
    (upstream, server)
}

#[test]
fn point_01_other_classes_are_refused() {
    let (upstream, server) = ipv4_only("");
    let mut chaos = ask(AAAA);
    *chaos.octets.last_mut().unwrap() = 3;
    let answer = chaos.over_udp(server.address());
    answer.is(rcode::REFUSED, &[]);
    assert_eq!(answer.message().qclass, 3);
    upstream.was_asked(&[]);
}

#[test]
fn point_02_a_native_address_passes_and_a_is_not_asked_for() {
    let native = "an www.example.com 60 AAAA 2001:db8::1";
    let upstream = Upstream::saying(&[(AAAA, 0, &[native]), (A, 0, &[A_RECORD])]);
    let server = Server::before(&upstream, "");
    server.ask(AAAA).is(0, &[native]);
    upstream.was_asked(&[AAAA]);
}

#[test]
fn point_03_a_name_error_passes_and_a_is_not_asked_for() {
    let upstream = Upstream::saying(&[(AAAA, rcode::NXDOMAIN, &[SOA]), (A, 0, &[A_RECORD])]);
    let server = Server::before(&upstream, "");
    server.ask(AAAA).is(rcode::NXDOMAIN, &[SOA]);
    upstream.was_asked(&[AAAA]);
}

#[test]
fn point_03_other_errors_count_as_no_address() {
    for code in [rcode::FORMERR, rcode::SERVFAIL, rcode::NOTIMP, rcode::REFUSED, 9] {
        let upstream = Upstream::saying(&[(AAAA, code, &[]), (A, 0, &[A_RECORD])]);
        let server = Server::before(&upstream, "");
        server.ask(AAAA).is(0, &["an www.example.com 300 AAAA 2001:db8:64::c000:201"]);
    }
}

#[test]
fn point_03_a_timeout_counts_as_servfail() {
    let (upstream, server) = ipv4_only("upstream.timeout_ms = 200");
    upstream.is_silent_on(AAAA);
    server.ask(AAAA).is(0, &["an www.example.com 300 AAAA 2001:db8:64::c000:201"]);
    upstream.was_asked(&[AAAA, AAAA, AAAA, A]);
}

#[test]
fn point_03_errors_can_be_left_to_the_client() {
    let (upstream, server) = ipv4_only("upstream.timeout_ms = 200\ndns64.on_aaaa_error = 'fail'");
    upstream.says(AAAA, rcode::SERVFAIL, &[]);
    server.ask(AAAA).is(rcode::SERVFAIL, &[]);
    upstream.is_silent_on("slow.example.com AAAA");
    server.ask("slow.example.com AAAA").is(rcode::SERVFAIL, &[]);
    assert!(upstream.received().iter().all(|query| query.question().qtype == rtype::AAAA));
}

#[test]
fn point_04_ipv4_mapped_addresses_count_as_absent() {
    let (upstream, server) = ipv4_only("");
    upstream.says(AAAA, 0, &["an www.example.com 60 AAAA ::ffff:192.0.2.9"]);
    server.ask(AAAA).is(0, &["an www.example.com 300 AAAA 2001:db8:64::c000:201"]);
}

#[test]
fn point_04_a_mixed_answer_loses_the_excluded_addresses() {
    let (upstream, server) = ipv4_only("");
    let native = "an www.example.com 60 AAAA 2001:db8::1";
    upstream.says(AAAA, 0, &["an www.example.com 60 AAAA ::ffff:192.0.2.9", native]);
    server.ask(AAAA).is(0, &[native]);
    upstream.was_asked(&[AAAA]);
}

#[test]
fn point_04_the_exclusion_set_is_the_operators() {
    let (upstream, server) = ipv4_only("dns64.exclude = ['2001:db8:bad::/48']");
    upstream.says(AAAA, 0, &["an www.example.com 60 AAAA 2001:db8:bad::1"]);
    server.ask(AAAA).is(0, &["an www.example.com 300 AAAA 2001:db8:64::c000:201"]);
    let mapped = "an mapped.example.com 60 AAAA ::ffff:192.0.2.9";
    upstream.says("mapped.example.com AAAA", 0, &[mapped]);
    server.ask("mapped.example.com AAAA").is(0, &[mapped]);
}

#[test]
fn point_05_a_chain_is_kept_and_its_end_is_the_owner() {
    let (upstream, server) = ipv4_only("");
    let chain = ["an www.example.com 60 CNAME a.example.com", "an a.example.com 60 CNAME b.example.com"];
    let [first, second] = chain;
    upstream.says(AAAA, 0, &[first, second, SOA]);
    upstream.says(A, 0, &[first, second, "an b.example.com 20 A 192.0.2.1"]);
    server.ask(AAAA).is(0, &[first, second, "an b.example.com 20 AAAA 2001:db8:64::c000:201"]);
    upstream.was_asked(&[AAAA, A]);
}

#[test]
fn point_05_a_dname_is_kept_beside_its_cname() {
    let (upstream, server) = ipv4_only("");
    let dname = "an example.com 60 DNAME example.net";
    let cname = "an www.example.com 60 CNAME www.example.net";
    upstream.says(AAAA, 0, &[dname, cname, "ns example.net 60 SOA 60"]);
    upstream.says(A, 0, &[dname, cname, "an www.example.net 20 A 192.0.2.1"]);
    server.ask(AAAA).is(0, &[dname, cname, "an www.example.net 20 AAAA 2001:db8:64::c000:201"]);
}

#[test]
fn point_06_an_empty_or_failed_a_reply_is_the_answer() {
    for (code, records) in
        [(0, &[SOA][..]), (rcode::NXDOMAIN, &[SOA]), (rcode::SERVFAIL, &[]), (rcode::REFUSED, &[])]
    {
        let (upstream, server) = ipv4_only("");
        upstream.says(A, code, records);
        server.ask(AAAA).is(code, records);
    }
}

#[test]
fn point_07_the_ttl_is_at_most_that_of_the_a_record() {
    let (upstream, server) = ipv4_only("");
    upstream.says(A, 0, &["an www.example.com 7 A 192.0.2.1"]);
    server.ask(AAAA).is(0, &["an www.example.com 7 AAAA 2001:db8:64::c000:201"]);
}

#[test]
fn point_07_the_ttl_is_capped_by_the_soa() {
    let (upstream, server) = ipv4_only("");
    upstream.says(AAAA, 0, &["ns example.com 20 SOA 3600"]);
    server.ask(AAAA).is(0, &["an www.example.com 20 AAAA 2001:db8:64::c000:201"]);
}

#[test]
fn point_07_the_ttl_is_capped_by_the_minimum_of_the_soa() {
    let (upstream, server) = ipv4_only("");
    upstream.says(AAAA, 0, &["ns example.com 3600 SOA 30"]);
    server.ask(AAAA).is(0, &["an www.example.com 30 AAAA 2001:db8:64::c000:201"]);
}

#[test]
fn point_07_the_ttl_is_600_s_at_most_without_a_soa() {
    let (upstream, server) = ipv4_only("");
    upstream.says(AAAA, 0, &[]);
    upstream.says(A, 0, &["an www.example.com 9999 A 192.0.2.1"]);
    server.ask(AAAA).is(0, &["an www.example.com 600 AAAA 2001:db8:64::c000:201"]);
}

#[test]
fn point_09_a_is_asked_for_afterwards_by_default() {
    let (upstream, server) = ipv4_only("");
    upstream.is_silent_on(AAAA);
    assert!(
        ask(AAAA)
            .within(Duration::from_millis(300), [0, 0, 0, 0, 0, 0, 0, 1].into(), server.address())
            .is_none()
    );
    upstream.was_asked(&[AAAA]);
}

#[test]
fn point_09_a_can_be_asked_for_together_with_aaaa() {
    let (upstream, server) = ipv4_only("upstream.a_query = 'together'");
    server.ask(AAAA).is(0, &[SYNTHESIZED]);
    upstream.was_asked(&[AAAA, A]);
    let native = "an six.example.com 60 AAAA 2001:db8::1";
    upstream.says("six.example.com AAAA", 0, &[native]);
    upstream.says("six.example.com A", 0, &["an six.example.com 60 A 192.0.2.1"]);
    server.ask("six.example.com AAAA").is(0, &[native]);
    let start = Instant::now();
    let mut received = Vec::new();
    while received.len() < 2 && start.elapsed() < crate::support::PATIENCE {
        received.extend(upstream.received());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(received.len(), 2, "A was asked for although it was not needed");
}

#[test]
fn point_09_a_can_be_asked_for_when_aaaa_is_late() {
    let (upstream, server) = ipv4_only("upstream.a_query = 'when-late'\nupstream.timeout_ms = 3000");
    // The server has shown how fast it is.
    for n in 0..20 {
        let name = format!("n{n}.example.com MX");
        server.ask(&name).is(rcode::NXDOMAIN, &[]);
    }
    upstream.received();
    upstream.replies(AAAA, |query| {
        std::thread::sleep(Duration::from_millis(400));
        query.reply(0, &[SOA])
    });
    server.ask(AAAA).is(0, &[SYNTHESIZED]);
    upstream.was_asked(&[AAAA, A]);
}

#[test]
fn point_12_other_types_pass_unchanged() {
    let hint = "an www.example.com 60 HTTPS hints-are-not-touched";
    for (words, records) in [
        (A, &[A_RECORD][..]),
        ("example.com NS", &["an example.com 60 NS ns.example.com", "ar ns.example.com 60 A 192.0.2.53"]),
        ("www.example.com HTTPS", &[hint]),
        ("www.example.com TYPE65280", &["an www.example.com 60 TYPE65280 unknown"]),
    ] {
        let upstream = Upstream::saying(&[(words, 0, records)]);
        let server = Server::before(&upstream, "");
        server.ask(words).is(0, records);
        upstream.was_asked(&[words]);
    }
}

#[test]
fn point_12_addresses_in_the_additional_section_are_not_synthesized() {
    let (upstream, server) = ipv4_only("");
    let others = ["ns example.com 60 NS ns.example.com", "ar ns.example.com 60 A 192.0.2.53"];
    upstream.says(A, 0, &[A_RECORD, others[0], others[1]]);
    server.ask(AAAA).is(0, &[SYNTHESIZED, others[0], others[1]]);
}

#[test]
fn point_13_the_other_sections_come_from_the_a_reply_with_one_soa_at_most() {
    let (upstream, server) = ipv4_only("");
    let authority = "ns example.com 50 NS ns.example.com";
    upstream.says(A, 0, &[A_RECORD, authority]);
    server.ask(AAAA).is(0, &[SYNTHESIZED, authority]);

    let names = ["empty.example.com AAAA", "empty.example.com A"];
    upstream.says(names[0], 0, &["ns example.com 60 SOA 10"]);
    upstream.says(names[1], 0, &["ns example.com 60 SOA 20"]);
    server.ask(names[0]).is(0, &["ns example.com 60 SOA 20"]);
}
