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

#[test]
fn recursion_desired_goes_upstream_as_it_is() {
    let mut talk = Talk::new(settings());
    let mut octets = query(0x1234, A, None);
    octets[2] = 0;
    talk.client_sends(&octets);
    let asked = talk.asked(A);
    assert!(!Header::parse(&asked.octets).unwrap().has(Header::RD));
    talk.replies(&asked, 0, &[A_RECORD]);
    assert!(!Header::parse(&talk.answer()).unwrap().has(Header::RD));
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
    for _ in 0..2 {
        talk.sends(stream_client(1, StreamKind::Tcp), &query(0x1234, any, None));
        talk.asked_and_told(any, 0, &[A_RECORD]);
        talk.answered(any, 0, &[A_RECORD]);
    }
    talk.over();
    let mut talk = Talk::new(settings_with(|settings| settings.local.minimal_any = false));
    talk.client_asks(any);
    talk.asked(any);
}
