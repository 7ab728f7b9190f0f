//! Who validates: RFC 6147 5.5.

use dns64::wire::{Header, rcode, rtype};

use crate::support::client::{ask, ask_dnssec, ask_edns};
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::{A, A_RECORD, AAAA, SOA, SYNTHESIZED};

const NATIVE: &str = "an www.example.com 60 AAAA 2001:db8::1";

/// The code of an extended error for answers of forged data.
const BOGUS: u8 = 6;

/// The OPT record with an extended error, in words.
fn opt_with(code: u8) -> String {
    format!("opt 00 0f 00 02 00 {code:02x}")
}

/// A server that sets AD on everything.
pub fn authentic(lines: &[(&str, u8, &[&str])]) -> Upstream {
    let upstream = Upstream::start();
    for (words, code, records) in lines {
        let (code, records) = (*code, records.iter().map(|&record| record.to_owned()).collect::<Vec<_>>());
        upstream.replies(words, move |query| {
            let mut octets = query.reply(code, &records.iter().map(String::as_str).collect::<Vec<_>>());
            octets[3] |= Header::AD as u8;
            octets
        });
    }
    upstream
}

const SITE: [(&str, u8, &[&str]); 2] = [(AAAA, 0, &[SOA]), (A, 0, &[A_RECORD])];

#[test]
fn point_14_synthesized_answers_never_have_ad() {
    let upstream = authentic(&SITE);
    let server = Server::before(&upstream, "upstream.trust_ad = true");
    for asked in [ask(AAAA), ask(AAAA).flag(Header::AD), ask_dnssec(AAAA)] {
        let answer = asked.over_udp(server.address());
        answer.is(0, &[SYNTHESIZED]);
        assert!(!answer.has(Header::AD));
    }
}

#[test]
fn point_14_dnssec_ok_reaches_the_upstream_server_in_both_queries() {
    let upstream = Upstream::saying(&SITE);
    let server = Server::before(&upstream, "");
    ask_dnssec(AAAA).over_udp(server.address()).is(0, &[SYNTHESIZED]);
    let received = upstream.received();
    assert_eq!(received.len(), 2);
    assert!(received.iter().all(|query| query.dnssec_ok() && !query.has(Header::CD)));
}

#[test]
fn point_14_signatures_over_a_are_not_passed_beside_aaaa() {
    let signature = "an www.example.com 300 RRSIG A";
    let upstream = Upstream::saying(&[(AAAA, 0, &[SOA]), (A, 0, &[A_RECORD, signature])]);
    let server = Server::before(&upstream, "");
    ask_dnssec(AAAA).over_udp(server.address()).is(0, &[SYNTHESIZED]);
}

#[test]
fn point_14_nothing_is_synthesized_over_a_bogus_denial() {
    let upstream = Upstream::start();
    let server = Server::before(&upstream, "");
    for code in [1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 27] {
        let words = format!("bogus{code}.example.com AAAA");
        upstream.says(&words, rcode::SERVFAIL, &[&opt_with(code)]);
        upstream.says(
            &format!("bogus{code}.example.com A"),
            0,
            &[&format!("an bogus{code}.example.com 60 A 192.0.2.1")],
        );
        for asked in [ask(&words), ask_dnssec(&words), ask_edns(&words), ask(&words)] {
            asked.over_udp(server.address()).is(rcode::SERVFAIL, &[]);
        }
        assert!(
            upstream.received().iter().all(|query| query.question().qtype == rtype::AAAA),
            "error {code}"
        );
    }
}

#[test]
fn point_14_attack_a_bare_servfail_of_a_validating_server_is_not_got_around() {
    let upstream = Upstream::saying(&[(A, 0, &[A_RECORD])]);
    upstream.replies(AAAA, |query| match query.has(Header::CD) {
        true => query.reply(0, &[SOA]),
        false => query.reply(rcode::SERVFAIL, &[]),
    });
    let server = Server::before(&upstream, "");
    let answer = ask_edns(AAAA).over_udp(server.address());
    answer.is(rcode::SERVFAIL, &[]);
    assert_eq!(answer.extended_errors(), [5]);
    upstream.was_asked(&[AAAA, AAAA]);
}

#[test]
fn point_14_a_bogus_denial_stays_one_in_the_cache() {
    let upstream = Upstream::saying(&[(AAAA, rcode::SERVFAIL, &[&opt_with(BOGUS)]), (A, 0, &[A_RECORD])]);
    let server = Server::before(&upstream, "cache.failure_ttl_s = 60");
    let first = ask_edns(AAAA).over_udp(server.address());
    first.is(rcode::SERVFAIL, &[]);
    assert!(first.extended_errors().contains(&BOGUS.into()), "{:?}", first.extended_errors());
    upstream.was_asked(&[AAAA]);
    let second = ask_edns(AAAA).over_udp(server.address());
    second.is(rcode::SERVFAIL, &[]);
    assert!(second.extended_errors().contains(&BOGUS.into()), "{:?}", second.extended_errors());
    upstream.was_asked(&[]);
}

#[test]
fn point_14_a_bogus_address_is_not_synthesized_from() {
    let upstream = Upstream::saying(&[(AAAA, 0, &[SOA]), (A, rcode::SERVFAIL, &[&opt_with(BOGUS)])]);
    let server = Server::before(&upstream, "");
    for _ in 0..2 {
        let answer = ask_dnssec(AAAA).over_udp(server.address());
        answer.is(rcode::SERVFAIL, &[]);
        assert!(answer.extended_errors().contains(&BOGUS.into()));
    }
}

#[test]
fn point_14_clients_that_validate_get_the_truth() {
    for switch in ["", "dns64.synthesize_with_cd = true"] {
        let upstream = Upstream::saying(&SITE);
        let server = Server::before(&upstream, switch);
        let answer = ask_dnssec(AAAA).flag(Header::CD).over_udp(server.address());
        answer.is(0, &[SOA]);
        assert!(answer.has(Header::CD));
        let received = upstream.received();
        assert!(received.len() == 1 && received[0].has(Header::CD) && received[0].dnssec_ok());
    }
}

#[test]
fn point_14_cd_alone_forbids_synthesis_unless_switched() {
    for (switch, records) in [("", SOA), ("dns64.synthesize_with_cd = true", SYNTHESIZED)] {
        let upstream = Upstream::saying(&SITE);
        let server = Server::before(&upstream, switch);
        ask(AAAA).flag(Header::CD).over_udp(server.address()).is(0, &[records]);
    }
}

#[test]
fn point_14_ad_is_believed_from_trusted_servers_alone() {
    for (trust, expected) in [("", false), ("upstream.trust_ad = true", true)] {
        let upstream = authentic(&[(AAAA, 0, &[NATIVE])]);
        let server = Server::before(&upstream, trust);
        // The second answer comes from the cache.
        for _ in 0..2 {
            let answer = ask(AAAA).flag(Header::AD).over_udp(server.address());
            answer.is(0, &[NATIVE]);
            assert_eq!(answer.has(Header::AD), expected);
        }
        assert_eq!(ask_dnssec(AAAA).over_udp(server.address()).has(Header::AD), expected);
        assert!(!ask(AAAA).over_udp(server.address()).has(Header::AD), "the client does not know AD");
    }
}

#[test]
fn point_14_excluded_addresses_take_ad_with_them() {
    let mapped = "an www.example.com 60 AAAA ::ffff:192.0.2.9";
    let upstream = authentic(&[(AAAA, 0, &[mapped, NATIVE])]);
    let server = Server::before(&upstream, "upstream.trust_ad = true");
    let answer = ask(AAAA).flag(Header::AD).over_udp(server.address());
    answer.is(0, &[NATIVE]);
    assert!(!answer.has(Header::AD));
}
