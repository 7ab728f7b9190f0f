//! Somebody off the path who guesses: ports, IDs and spellings of queries, refusals of servers.

use dns64::wire::rcode;
use server_core::machine::Notice;
use server_core::upstreams::{GUARD_NS, NEAR_MISSES_MAX};

use crate::support::reply;
use crate::talk::{ClientQuery, MS, Talk, TryTransport, settings, settings_for, settings_with};
use crate::{A, A_RECORD};

const FALSE_A: &str = "an www.example.com 300 A 192.0.2.66";

/// A forger who knows the port, whatever it was, sends an answer with every ID.
fn all_ids_are_tried(talk: &mut Talk, asked: &ClientQuery) {
    for id in 0..=u16::MAX {
        talk.server_sends(asked, &reply(id, A, 0, &[FALSE_A]));
    }
}

#[test]
fn attack_with_a_known_port_and_every_id_has_one_guess() {
    let mut talk = Talk::with_cache(settings());
    talk.client_asks(A);
    let asked = talk.asked(A);
    all_ids_are_tried(&mut talk, &asked);
    assert!(talk.sent.answers.is_empty());
    let over_stream = talk.asked(A);
    assert!(over_stream.is_stream());
    talk.replies(&over_stream, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    let stats = *talk.machine.stats();
    assert_eq!((stats.upstream_near_misses, stats.upstream_unexpected), (1, 65_536));
    talk.client_asks(A);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn attack_that_goes_on_sends_all_lookups_of_the_server_over_streams_for_a_while() {
    let mut talk = Talk::new(settings());
    for number in 0..NEAR_MISSES_MAX {
        assert!(talk.sent.notices.is_empty(), "{number}");
        talk.client_asks(A);
        let asked = talk.asked(A);
        assert!(!asked.is_stream(), "{number}");
        all_ids_are_tried(&mut talk, &asked);
        talk.asked_and_told(A, 0, &[A_RECORD]);
        talk.answered(A, 0, &[A_RECORD]);
    }
    assert_eq!(talk.sent.notices, [Notice::Guessing(0)]);
    let counts = talk.machine.upstream_counts(talk.now_ns).next().unwrap();
    assert_eq!((counts.guarded, counts.near_misses), (true, NEAR_MISSES_MAX.into()));
    for words in [A, "other.example A"] {
        talk.client_asks(words);
        assert!(talk.asked_and_told(words, 0, &[]).is_stream());
        talk.answered(words, 0, &[]);
    }
    talk.wait(GUARD_NS);
    talk.client_asks(A);
    assert!(!talk.asked_and_told(A, 0, &[A_RECORD]).is_stream(), "the forger has gone");
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

/// The forger does not see what the client wants: the question alone makes a near miss.
#[test]
fn attack_is_seen_whatever_the_client_set_in_its_query() {
    for (dnssec_ok, checking_disabled) in [(false, true), (true, false), (true, true)] {
        let mut talk = Talk::new(settings());
        let mut octets = crate::support::query(0x1234, A, Some((1232, dnssec_ok)));
        octets[3] |= if checking_disabled { 0x10 } else { 0 };
        talk.client_sends(&octets);
        let asked = talk.asked(A);
        talk.server_sends(&asked, &reply(asked.id() ^ 1, A, 0, &[FALSE_A]));
        assert!(talk.asked(A).is_stream());
    }
}

/// A late answer of an earlier query, or a forged one elsewhere, says nothing of this query's port.
#[test]
fn an_answer_at_another_socket_is_no_near_miss() {
    let mut talk = Talk::new(settings());
    talk.client_asks(A);
    let asked = talk.asked(A);
    let TryTransport::Udp { socket } = asked.way else { panic!("{asked:?}") };
    let elsewhere = ClientQuery { way: TryTransport::Udp { socket: socket ^ 1 }, ..asked.clone() };
    talk.server_sends(&elsewhere, &reply(asked.id() ^ 1, A, 0, &[FALSE_A]));
    talk.server_sends(&asked, &reply(asked.id() ^ 1, "www.example.org A", 0, &[]));
    talk.silent();
    assert_eq!(talk.machine.stats().upstream_near_misses, 0);
    talk.replies(&asked, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn attack_with_port_and_id_fails_at_the_spelling_once_the_server_is_known_to_keep_it() {
    let mut talk = Talk::new(settings());
    talk.machine.probe(talk.now_ns, false, &mut talk.sent);
    let probe = talk.sent.queries.pop_front().unwrap();
    talk.replies(&probe, rcode::NXDOMAIN, &[]);
    assert!(talk.machine.upstream_counts(talk.now_ns).next().unwrap().spelled);
    talk.client_asks(A);
    let asked = talk.asked(A);
    talk.server_sends(&asked, &reply(asked.id(), A, 0, &[FALSE_A]));
    assert!(talk.sent.answers.is_empty());
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
    assert!(talk.sent.notices.is_empty(), "one does not make the server give up");
}

#[test]
fn a_server_that_does_not_keep_spellings_is_asked_in_the_clients() {
    let mut talk = Talk::new(settings());
    talk.client_asks(A);
    let asked = talk.asked(A);
    assert_ne!(asked.question().name.to_string(), "www.example.com.");
    talk.server_sends(&asked, &reply(asked.id(), A, 0, &[A_RECORD]));
    talk.answered(A, 0, &[A_RECORD]);
    assert_eq!(talk.sent.notices, [Notice::SpellingChanged(0)]);
    for _ in 0..3 {
        talk.client_asks(A);
        let asked = talk.asked_and_told(A, 0, &[A_RECORD]);
        assert_eq!(
            (asked.question().name.to_string(), asked.is_stream()),
            ("www.example.com.".into(), false)
        );
        talk.answered(A, 0, &[A_RECORD]);
    }
    talk.over();
}

#[test]
fn a_server_that_ceases_to_keep_spellings_is_understood() {
    let mut talk = Talk::new(settings());
    talk.keeps_spellings();
    for _ in 0..3 {
        assert!(talk.sent.notices.is_empty());
        talk.client_asks(A);
        let asked = talk.asked(A);
        talk.server_sends(&asked, &reply(asked.id(), A, 0, &[A_RECORD]));
        assert!(talk.asked_and_told(A, 0, &[A_RECORD]).is_stream());
        talk.answered(A, 0, &[A_RECORD]);
    }
    assert_eq!(talk.sent.notices, [Notice::SpellingChanged(0)]);
    talk.client_asks(A);
    let asked = talk.asked(A);
    talk.server_sends(&asked, &reply(asked.id(), A, 0, &[A_RECORD]));
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn attack_a_forged_refusal_neither_pauses_a_server_nor_costs_a_try() {
    let mut talk = Talk::with_cache(settings_for(2));
    talk.client_asks(A);
    let asked = talk.asked(A);
    for _ in 0..100 {
        talk.unreachable(&asked);
    }
    talk.silent();
    talk.wait(50 * MS);
    talk.replies(&asked, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.wait(1_000 * MS);
    assert!(talk.sent.notices.is_empty());
    assert_eq!((talk.machine.stats().retries, talk.shared.cache.counts().failures), (0, 0));
    talk.over();
}

/// Refusals with silence lead to another server; the last try is given all its time.
#[test]
fn attack_forged_refusals_of_all_servers_are_no_failure_to_remember() {
    let mut talk = Talk::with_cache(settings_for(2));
    talk.client_asks(A);
    let mut asked = talk.asked(A);
    for _ in 0..2 {
        talk.unreachable(&asked);
        talk.wait(100 * MS);
        let next = talk.asked(A);
        assert_ne!(next.upstream, asked.upstream);
        asked = next;
    }
    talk.unreachable(&asked);
    talk.wait(700 * MS);
    talk.silent();
    talk.replies(&asked, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    assert_eq!(talk.shared.cache.counts().failures, 0);
    talk.over();
}

#[test]
fn attack_what_was_learnt_of_a_server_outlives_a_reload() {
    let mut talk = Talk::new(settings());
    talk.client_asks(A);
    let asked = talk.asked(A);
    let cookie: Vec<String> =
        asked.cookie().unwrap().iter().chain(&[0x5e; 8]).map(|octet| format!("{octet:02x}")).collect();
    talk.replies(&asked, 0, &[A_RECORD, &format!("opt 00 0a 00 10 {}", cookie.join(" "))]);
    talk.answered(A, 0, &[A_RECORD]);
    let counts = talk.machine.upstream_counts(talk.now_ns).next().unwrap();
    assert!(counts.cookie && counts.spelled);
    // The same server has the number 1 from now on; 0 is another one.
    let mut next = Talk::seeded(settings_for(2), 0, [8; 32]);
    next.machine.inherit(&talk.machine, &[None, Some(0)]);
    let known: Vec<_> =
        next.machine.upstream_counts(1).map(|counts| (counts.cookie, counts.spelled)).collect();
    assert_eq!(known, [(false, false), (true, true)]);
    for _ in 0..8 {
        next.client_asks(A);
        let asked = next.asked(A);
        let sent = asked.cookie().unwrap();
        next.server_sends(&asked, &asked.reply(0, &[FALSE_A]));
        if asked.upstream == 0 {
            assert_eq!((sent.len(), next.sent.answers.pop_front().is_some()), (8, true));
        } else {
            assert!(sent.len() == 16 && next.sent.answers.is_empty(), "forged: the cookie is not there");
            next.asked_and_told(A, 0, &[A_RECORD]);
            return next.answered(A, 0, &[A_RECORD]);
        }
    }
    panic!("the known server was never asked");
}

#[test]
fn sockets_are_renewed_when_their_queries_have_ended() {
    let mut talk = Talk::new(settings_with(|settings| settings.asking.ports = 2));
    let mut seen = Vec::new();
    for _ in 0..4 {
        talk.client_asks(A);
        let asked = talk.asked(A);
        let TryTransport::Udp { socket } = asked.way else { panic!("{asked:?}") };
        seen.push(socket);
        talk.wait(MS);
        assert_eq!(talk.machine.drained_socket(talk.now_ns, 0), None, "it waits for an answer");
        talk.replies(&asked, 0, &[A_RECORD]);
        talk.answered(A, 0, &[A_RECORD]);
        assert_eq!(talk.machine.drained_socket(talk.now_ns, 0), Some(socket));
        talk.machine.socket_renewed(0, socket);
    }
    assert_eq!(talk.machine.drained_socket(talk.now_ns, 7), None, "no such server");
    talk.over();
}
