//! Which replies are believed: RFC 5452, RFC 7873 towards upstream servers.

use std::collections::HashSet;

use dns64::wire::{option_code, rcode, rtype};

use crate::support::server::Server;
use crate::support::upstream::{Packet, Query, Upstream};
use crate::{A, A_RECORD};

const FORGED: &str = "an www.example.com 300 A 203.0.113.66";

/// A server before whose true reply a forged one comes.
fn forged_first(forge: impl Fn(&Query) -> Packet + Send + 'static) -> Upstream {
    let upstream = Upstream::start();
    upstream.does(A, move |query| vec![forge(query), Packet::Reply(query.reply(0, &[A_RECORD]))]);
    upstream
}

/// Asks twice: the second answer shows what was kept.
fn assert_not_fooled(upstream: &Upstream) {
    let server = Server::before(upstream, "");
    for _ in 0..2 {
        server.ask(A).is(0, &[A_RECORD]);
    }
}

#[test]
fn rfc_5452_a_wrong_id_is_ignored() {
    assert_not_fooled(&forged_first(|query| {
        let mut octets = query.reply(0, &[FORGED]);
        octets[0] ^= 1;
        Packet::Reply(octets)
    }));
}

#[test]
fn rfc_5452_a_wrong_port_is_ignored() {
    assert_not_fooled(&forged_first(|query| Packet::Stray(query.reply(0, &[FORGED]))));
}

#[test]
fn rfc_5452_a_wrong_question_is_ignored() {
    assert_not_fooled(&forged_first(|query| {
        let mut octets = query.reply(0, &[FORGED]);
        octets[13] = b'x';
        Packet::Reply(octets)
    }));
    assert_not_fooled(&forged_first(|query| {
        let mut octets = query.reply(0, &[FORGED]);
        let end = query.message().question_end();
        octets[end - 3] = rtype::AAAA as u8;
        Packet::Reply(octets)
    }));
}

#[test]
fn rfc_5452_a_query_or_nonsense_is_no_reply() {
    assert_not_fooled(&forged_first(|query| Packet::Reply(query.octets.clone())));
    assert_not_fooled(&forged_first(|query| Packet::Reply(query.octets[..11].to_vec())));
    assert_not_fooled(&forged_first(|_| Packet::Reply(vec![0; 600])));
}

#[test]
fn rfc_5452_records_that_nobody_asked_for_are_neither_given_nor_kept() {
    let poison = [
        "an victim.example.net 300 A 203.0.113.66",
        "ns example.net 300 NS ns.attacker.example",
        "ar victim.example.net 300 A 203.0.113.66",
    ];
    let upstream = Upstream::saying(&[(A, 0, &[A_RECORD, poison[0], poison[1], poison[2]])]);
    let server = Server::before(&upstream, "");
    server.ask(A).is(0, &[A_RECORD]);
    server.ask("victim.example.net A").is(rcode::NXDOMAIN, &[]);
    server.ask(A).is(0, &[A_RECORD]);
}

#[test]
fn rfc_5452_repeated_mismatches_lead_to_tcp() {
    let upstream = Upstream::start();
    upstream.does(A, |query| {
        if query.over_tcp {
            return vec![Packet::Reply(query.reply(0, &[A_RECORD]))];
        }
        // The forger has guessed the ID, and cannot know the question.
        let mut octets = query.reply(0, &[FORGED]);
        octets[13] = b'x';
        (0..3).map(|_| Packet::Reply(octets.clone())).collect()
    });
    let server = Server::before(&upstream, "upstream.timeout_ms = 2000\nupstream.tries = 1");
    server.ask(A).is(0, &[A_RECORD]);
    assert!(upstream.received().last().unwrap().over_tcp);
}

#[test]
fn rfc_5452_ids_and_ports_vary() {
    let upstream = Upstream::start();
    let server = Server::before(&upstream, "upstream.ports = 64");
    for n in 0..200 {
        server.ask(&format!("n{n}.example.com A"));
    }
    let received = upstream.received();
    let ids: HashSet<u16> = received.iter().map(Query::id).collect();
    let ports: HashSet<u16> = received.iter().map(|query| query.from.port()).collect();
    // Four queries go from a port before another is drawn.
    assert!(ids.len() > 190 && ports.len() > 20, "{} IDs, {} ports", ids.len(), ports.len());
}

#[test]
fn the_spelling_is_drawn_and_wanted_back_where_that_is_switched_on() {
    let upstream = forged_first(|query| {
        let mut octets = query.reply(0, &[FORGED]);
        octets[13] ^= 0x20;
        // A forger cannot speak in a connection, where dns64d asks again.
        if query.over_tcp { Packet::Reply(query.reply(0, &[A_RECORD])) } else { Packet::Reply(octets) }
    });
    let server = Server::before(&upstream, "upstream.case_randomization = true");
    // The first answer shows that the server keeps spellings.
    server.ask("first.example.com A");
    server.ask(A).is(0, &[A_RECORD]);
    for n in 0..20 {
        server.ask(&format!("a-long-name-{n}.example.com A"));
    }
    let spellings: HashSet<String> =
        upstream.received().iter().map(|query| query.question().name.to_string()[..11].to_owned()).collect();
    assert!(spellings.len() > 5, "{spellings:?}");
}

#[test]
fn rfc_7873_servers_get_client_cookies_and_their_own_back() {
    let upstream = Upstream::start();
    upstream.replies("one.example.com A", |query| {
        let own = query.option(option_code::COOKIE).unwrap()[..8].to_vec();
        let cookie: String = own.iter().chain(&[0x5e; 8]).map(|octet| format!(" {octet:02x}")).collect();
        query.reply(3, &[&format!("opt 00 0a 00 10{cookie}")])
    });
    let server = Server::before(&upstream, "");
    server.ask("one.example.com A");
    // A forger does not know the cookie.
    upstream.does("two.example.com A", |query| {
        let forged = query.reply(0, &["an two.example.com 300 A 203.0.113.66"]);
        vec![Packet::Reply(if query.over_tcp { query.reply(3, &[]) } else { forged })]
    });
    server.ask("two.example.com A").is(rcode::NXDOMAIN, &[]);
    let received = upstream.received();
    let cookies: Vec<_> = received.iter().filter_map(|query| query.option(option_code::COOKIE)).collect();
    assert_eq!((cookies[0].len(), cookies[1].len()), (8, 16));
    assert!(cookies[1].starts_with(&cookies[0]) && cookies[1].ends_with(&[0x5e; 8]));
}
