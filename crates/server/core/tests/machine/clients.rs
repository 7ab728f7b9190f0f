//! Clients' messages that are answered at once, or not at all.

use dns64::wire::{Header, Message, rcode};
use server_core::client::{Client, StreamKind};
use server_core::settings::RateLimit;

use crate::support::{lines, query};
use crate::talk::{S, Talk, extended_errors, settings, settings_with, stream_client, udp_client};
use crate::{A, A_RECORD};

#[test]
fn refusals_answer_at_once_and_cost_no_slot() {
    let mut talk = Talk::new(settings());
    let stranger = Client { address: "192.0.2.9:99".parse().unwrap(), ..udp_client() };
    talk.sends(stranger, &query(1, A, Some((4096, true))));
    let answer = talk.answer();
    assert_eq!((Header::parse(&answer).unwrap().rcode(), lines(&answer)), (5, vec!["opt 1232".to_owned()]));
    talk.client_sends(&[0x12, 0x34, 0x29, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(talk.answer(), [0x12, 0x34, 0xa9, 0x84, 0, 0, 0, 0, 0, 0, 0, 0], "NOTIMP for UPDATE");
    let mut version_1 = query(0x1234, A, Some((4096, false)));
    let version_at = version_1.len() - 5;
    version_1[version_at] = 1;
    talk.client_sends(&version_1);
    let answer = talk.answer();
    assert_eq!(Message::parse(&answer).unwrap().edns().unwrap().unwrap().extended_rcode, 1, "BADVERS");
    talk.over();
    assert_eq!(talk.machine.stats().refused, 3);
}

/// Nothing of these could be shared or kept: each would be work upstream for every query.
#[test]
fn attack_questions_that_no_forwarder_answers_start_nothing_upstream() {
    let mut talk = Talk::with_cache(settings());
    let refused = |talk: &mut Talk, octets: &[u8], code: u8, extended_error: u16| {
        talk.client_sends(octets);
        let answer = talk.answer();
        assert_eq!(Header::parse(&answer).unwrap().rcode(), code);
        assert_eq!(extended_errors(&answer), [extended_error]);
    };
    let with_edns = |words: &str| query(0x1234, words, Some((1232, false)));
    let mut iterative = with_edns(A);
    iterative[2] = 0;
    refused(&mut talk, &iterative, rcode::REFUSED, 20);
    let mut chaos = with_edns("version.bind TXT");
    let qclass_at = Message::parse(&chaos).unwrap().question_end() - 1;
    for class in [3, 4, 254, 255] {
        chaos[qclass_at] = class;
        refused(&mut talk, &chaos, rcode::REFUSED, 21);
    }
    refused(&mut talk, &with_edns("www.example.com TYPE128"), rcode::FORMERR, 30);
    for qtype in (129..255).chain([41]) {
        refused(&mut talk, &with_edns(&format!("www.example.com TYPE{qtype}")), rcode::NOTIMP, 21);
    }
    talk.over();
    assert_eq!(talk.machine.stats().upstream_queries, 0);
}

/// What the cache holds tells what others have asked for: a query without RD asks for just that.
#[test]
fn attack_the_cache_is_not_searched_for_what_others_asked() {
    let mut talk = Talk::with_cache(settings());
    talk.client_asks(A);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    let mut iterative = query(0x1234, A, None);
    iterative[2] = 0;
    talk.client_sends(&iterative);
    let answer = talk.answer();
    assert_eq!((Header::parse(&answer).unwrap().rcode(), lines(&answer).len()), (rcode::REFUSED, 0));
    talk.over();
}

#[test]
fn strangers_learn_why_they_are_refused() {
    let mut talk = Talk::new(settings());
    let stranger = Client { address: "[2001:db8::1]:99".parse().unwrap(), ..udp_client() };
    talk.sends(stranger, &query(1, A, Some((1232, false))));
    assert_eq!(extended_errors(&talk.answer()), [18]);
    talk.over();
}

#[test]
fn answers_and_our_own_queries_are_dropped() {
    let own: std::net::SocketAddr = "[::1]:4444".parse().unwrap();
    let mut talk = Talk::new(settings_with(|settings| {
        settings.own_sockets = std::sync::Arc::new([own].into_iter().collect());
    }));
    let mut reply = query(1, A, None);
    reply[2] |= 0x80;
    talk.client_sends(&reply);
    talk.sends(Client { address: own, ..udp_client() }, &query(1, A, None));
    talk.client_sends(&[0; 11]);
    talk.over();
    assert_eq!(talk.machine.stats().dropped, 3);
}

#[test]
fn queries_over_the_rate_are_dropped_or_sent_to_tcp() {
    let rate = RateLimit { per_second: 1, burst: 3, slip: 2 };
    let mut talk = Talk::with_cache(settings_with(|settings| settings.rate = Some(rate)));
    talk.client_asks(A);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    for _ in 0..6 {
        talk.client_asks(A);
    }
    for _ in 0..2 {
        talk.answered(A, 0, &[A_RECORD]);
    }
    for _ in 0..2 {
        let slipped = talk.answer();
        assert!(Header::parse(&slipped).unwrap().has(Header::TC) && lines(&slipped).is_empty());
    }
    talk.silent();
    talk.sends(stream_client(1, StreamKind::Tcp), &query(0x1234, A, None));
    talk.answered(A, 0, &[A_RECORD]);
    talk.wait(S);
    talk.client_asks(A);
    talk.answered(A, 0, &["an www.example.com 299 A 192.0.2.1"]);
    talk.over();
    let stats = talk.machine.stats();
    assert_eq!((stats.rate_slipped, stats.rate_dropped), (2, 2));
}

#[test]
fn networks_have_buckets_of_their_own() {
    let rate = RateLimit { per_second: 1, burst: 1, slip: 0 };
    let mut talk = Talk::with_cache(settings_with(|settings| settings.rate = Some(rate)));
    for (address, answers) in [("10.0.0.1:1", 1), ("10.0.0.2:1", 0), ("10.0.1.1:1", 1), ("[fd00::1]:1", 1)] {
        let client = Client { address: address.parse().unwrap(), ..udp_client() };
        talk.sends(client, &query(0x1234, "localhost A", None));
        assert_eq!(talk.sent.answers.len(), answers, "{address}");
        talk.sent.answers.clear();
    }
}

#[test]
fn names_of_our_own_are_not_asked_for() {
    let mut talk = Talk::new(settings());
    for (words, code, answers) in [
        ("ipv4only.arpa AAAA", 0, 2),
        ("ipv4only.arpa A", 0, 2),
        ("a.ipv4only.arpa A", rcode::NXDOMAIN, 0),
        ("_dns.resolver.arpa TYPE64", 0, 0),
        ("www.localhost A", 0, 1),
        ("www.invalid A", rcode::NXDOMAIN, 0),
        ("x.onion AAAA", rcode::NXDOMAIN, 0),
        ("printer.local AAAA", rcode::NXDOMAIN, 0),
        ("1.0.0.10.in-addr.arpa PTR", rcode::NXDOMAIN, 0),
        ("a.a.0.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa PTR", 0, 1),
        ("b.a.0.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa PTR", 0, 1),
    ] {
        talk.client_asks(words);
        let answer = talk.answer();
        let header = Header::parse(&answer).unwrap();
        assert_eq!((header.rcode(), header.counts[1]), (code, answers), "{words}");
    }
    talk.over();
    assert_eq!(talk.machine.stats().local, 11);
}

#[test]
fn synthesized_addresses_of_ipv4only_arpa_say_so() {
    let mut talk = Talk::new(settings());
    talk.client_sends(&query(1, "ipv4only.arpa AAAA", Some((1232, false))));
    assert_eq!(extended_errors(&talk.answer()), [29]);
    let ds = "ipv4only.arpa TYPE43";
    talk.client_asks(ds);
    talk.asked_and_told(ds, 0, &[]);
    talk.answered(ds, 0, &[]);
    talk.over();
}

#[test]
fn any_is_one_record_over_udp_and_forwarded_over_streams() {
    let any = "www.example.com ANY";
    let mut talk = Talk::with_cache(settings());
    talk.client_asks(any);
    let answer = talk.answer();
    assert_eq!(lines(&answer).len(), 1);
    assert_eq!(Message::parse(&answer).unwrap().answers().next().unwrap().rtype, 13, "HINFO");
    // Equal questions share one lookup and its reply.
    for client in 0..3 {
        talk.sends(stream_client(client, StreamKind::Tcp), &query(0x1234, any, None));
    }
    talk.asked_and_told(any, 0, &[A_RECORD]);
    talk.sends(stream_client(3, StreamKind::Tcp), &query(0x1234, any, None));
    for _ in 0..4 {
        talk.answered(any, 0, &[A_RECORD]);
    }
    talk.over();
    let mut talk = Talk::new(settings_with(|settings| settings.local.minimal_any = false));
    talk.client_asks(any);
    talk.asked(any);
}
