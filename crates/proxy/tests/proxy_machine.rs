//! dns64d's state machine against a scripted network: forged and late answers, timeouts, truncation, limits.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../dns64/tests/support/mod.rs"]
mod support;
mod talk;

use dns64::wire::{Header, Message, rcode};
use proptest::prelude::*;
use proxy::Settings;
use support::{lines, query, reply};
use talk::{Asked, MS, Sent, Talk, Way, settings, tcp_client, udp_client};

const A: &str = "www.example.com A";
const A_RECORD: &str = "an www.example.com 300 A 192.0.2.1";

/// A client has asked for A, and this is the query upstream.
fn one_in_flight(settings: Settings) -> (Talk, Asked) {
    let mut talk = Talk::new(settings);
    talk.client_asks(A);
    let asked = talk.asked(A);
    (talk, asked)
}

fn id_of(asked: &Asked) -> u16 {
    Header::parse(&asked.octets).unwrap().id
}

#[test]
fn forged_answers_are_ignored_and_the_true_one_is_taken() {
    let (mut talk, asked) = one_in_flight(settings());
    let (id, Way::Udp { socket }) = (id_of(&asked), asked.way) else { panic!() };
    let elsewhere = |upstream, socket| Asked { upstream, way: Way::Udp { socket }, ..asked.clone() };
    talk.server_sends(&asked, &reply(id.wrapping_add(1), A, 0, &[A_RECORD]));
    talk.server_sends(&elsewhere(0, (socket + 1) % 16), &reply(id, A, 0, &[A_RECORD]));
    talk.server_sends(&elsewhere(0, 99), &reply(id, A, 0, &[A_RECORD]));
    talk.server_sends(&elsewhere(7, socket), &reply(id, A, 0, &[A_RECORD]));
    talk.server_sends(&asked, &[0; 3]);
    assert_eq!(talk.machine.stats().upstream_unexpected, 5);
    talk.server_sends(&asked, &reply(id, "www.example.org A", 0, &[A_RECORD]));
    talk.server_sends(&asked, &reply(id, "www.example.com AAAA", 0, &[]));
    assert_eq!(talk.machine.stats().upstream_mismatched, 2);
    talk.silent();
    talk.replies(&asked, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.replies(&asked, 0, &[A_RECORD]);
    assert_eq!(talk.machine.stats().upstream_unexpected, 6, "a duplicate");
    talk.over();
}

#[test]
fn a_query_sent_back_or_an_answer_without_question_is_no_answer() {
    let (mut talk, asked) = one_in_flight(settings());
    talk.server_sends(&asked, &asked.octets.clone());
    talk.server_sends(
        &asked,
        &[&id_of(&asked).to_be_bytes()[..], &[0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0]].concat(),
    );
    talk.silent();
    assert_eq!(talk.machine.stats().upstream_mismatched, 2);
    assert_eq!(talk.machine.in_flight(), 1);
}

#[test]
fn repeated_mismatches_lead_to_tcp() {
    let (mut talk, asked) = one_in_flight(settings());
    for _ in 0..3 {
        talk.server_sends(&asked, &reply(id_of(&asked), "www.example.org A", 0, &[A_RECORD]));
    }
    let over_tcp = talk.asked(A);
    assert!(matches!(over_tcp.way, Way::Tcp { .. }));
    talk.replies(&asked, 0, &[A_RECORD]);
    talk.silent();
    talk.replies(&over_tcp, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn wrong_spelling_is_a_mismatch_where_spelling_was_drawn() {
    let (mut talk, asked) = one_in_flight(Settings { case_randomization: true, ..settings() });
    let sent = Message::parse(&asked.octets).unwrap().question.name;
    assert_ne!(sent.to_string(), "www.example.com.", "13 letters, drawn with a fixed seed");
    talk.server_sends(&asked, &reply(id_of(&asked), A, 0, &[A_RECORD]));
    assert_eq!(talk.machine.stats().upstream_mismatched, 1);
    talk.replies(&asked, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn silence_is_three_tries_and_then_servfail() {
    let (mut talk, first) = one_in_flight(settings());
    talk.wait(799 * MS);
    talk.silent();
    talk.wait(MS);
    let second = talk.asked(A);
    assert_ne!(id_of(&first), id_of(&second));
    talk.replies(&first, 0, &[A_RECORD]);
    talk.silent();
    talk.wait(800 * MS);
    talk.asked(A);
    talk.wait(800 * MS);
    talk.answered(A, rcode::SERVFAIL, &[]);
    talk.over();
    let stats = talk.machine.stats();
    assert_eq!((stats.timeouts, stats.retries, stats.upstream_unexpected), (3, 2, 1));
}

#[test]
fn the_deadline_ends_the_tries() {
    let settings = Settings { deadline_ns: 2_000 * MS, ..settings() };
    let mut talk = Talk::new(settings);
    talk.client_asks("www.example.com AAAA");
    talk.asked("www.example.com AAAA");
    talk.wait(800 * MS);
    talk.asked("www.example.com AAAA");
    talk.wait(800 * MS);
    talk.answered("www.example.com AAAA", rcode::SERVFAIL, &[]);
    talk.over();
}

#[test]
fn tries_go_to_the_next_server() {
    let (mut talk, first) = one_in_flight(Settings { upstreams: 3, ..settings() });
    talk.wait(800 * MS);
    let second = talk.asked(A);
    talk.wait(800 * MS);
    let third = talk.asked(A);
    let mut servers = [first.upstream, second.upstream, third.upstream];
    servers.sort_unstable();
    assert_eq!(servers, [0, 1, 2]);
    talk.replies(&third, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn an_unwilling_server_hands_over_to_the_next() {
    for unwilling in [rcode::SERVFAIL, rcode::REFUSED] {
        let (mut talk, first) = one_in_flight(Settings { upstreams: 2, ..settings() });
        talk.replies(&first, unwilling, &[]);
        let second = talk.asked(A);
        assert_ne!(first.upstream, second.upstream);
        talk.replies(&second, 0, &[A_RECORD]);
        talk.answered(A, 0, &[A_RECORD]);
        talk.over();
    }
}

/// Another server may not validate, and if it is silent, the rule would ask for A.
#[test]
fn failed_validation_is_an_answer_whatever_other_servers_there_are() {
    let aaaa = "www.example.com AAAA";
    let mut talk = Talk::new(Settings { upstreams: 2, ..settings() });
    talk.client_asks(aaaa);
    let first = talk.asked(aaaa);
    talk.replies(&first, rcode::SERVFAIL, &["opt 00 0f 00 02 00 06"]);
    talk.answered(aaaa, rcode::SERVFAIL, &[]);
    talk.over();
}

#[test]
fn all_servers_unwilling_is_an_answer() {
    let (mut talk, first) = one_in_flight(Settings { upstreams: 2, ..settings() });
    talk.replies(&first, rcode::REFUSED, &[]);
    for _ in 0..2 {
        let next = talk.asked(A);
        talk.replies(&next, rcode::REFUSED, &[]);
    }
    talk.answered(A, rcode::REFUSED, &[]);
    talk.over();
}

#[test]
fn an_unreachable_server_is_left_at_once() {
    let (mut talk, first) = one_in_flight(Settings { upstreams: 2, ..settings() });
    let Way::Udp { socket } = first.way else { panic!() };
    talk.machine.handle_upstream_unreachable(talk.now_ns, first.upstream, socket, &mut talk.sent);
    let second = talk.asked(A);
    assert_ne!(first.upstream, second.upstream);
    talk.replies(&second, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    for _ in 0..4 {
        talk.client_asks(A);
        let asked = talk.asked(A);
        assert_eq!(asked.upstream, second.upstream, "the dead one is left out");
        talk.replies(&asked, 0, &[A_RECORD]);
        talk.answered(A, 0, &[A_RECORD]);
    }
    talk.over();
}

#[test]
fn the_only_server_is_given_time_to_come_back() {
    let (mut talk, first) = one_in_flight(settings());
    let Way::Udp { socket } = first.way else { panic!() };
    talk.machine.handle_upstream_unreachable(talk.now_ns, 0, socket, &mut talk.sent);
    talk.machine.handle_upstream_unreachable(talk.now_ns, 9, 9, &mut talk.sent);
    talk.silent();
    talk.wait(800 * MS);
    let second = talk.asked(A);
    talk.replies(&second, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn a_truncated_answer_is_fetched_over_tcp() {
    let (mut talk, asked) = one_in_flight(settings());
    let mut truncated = reply(id_of(&asked), A, 0, &[]);
    truncated[2] |= (Header::TC >> 8) as u8;
    talk.server_sends(&asked, &truncated);
    let over_tcp = talk.asked(A);
    assert!(matches!(over_tcp.way, Way::Tcp { .. }));
    assert_eq!(over_tcp.upstream, asked.upstream);
    talk.replies(&over_tcp, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn a_tcp_failure_is_a_failed_try() {
    let (mut talk, first) = one_in_flight(Settings { tcp_only: true, ..settings() });
    let Way::Tcp { token } = first.way else { panic!("{first:?}") };
    talk.machine.handle_upstream_tcp(talk.now_ns, token, None, &mut talk.sent);
    let second = talk.asked(A);
    talk.replies(&first, 0, &[A_RECORD]);
    talk.silent();
    let Way::Tcp { token } = second.way else { panic!() };
    let wrong = reply(id_of(&second).wrapping_add(1), A, 0, &[A_RECORD]);
    talk.machine.handle_upstream_tcp(talk.now_ns, token, Some(&wrong), &mut talk.sent);
    let third = talk.asked(A);
    talk.wait(800 * MS);
    talk.answered(A, rcode::SERVFAIL, &[]);
    talk.replies(&third, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn an_answer_truncated_even_over_tcp_is_a_failed_try() {
    let (mut talk, first) = one_in_flight(Settings { tcp_only: true, ..settings() });
    let mut truncated = reply(id_of(&first), A, 0, &[A_RECORD]);
    truncated[2] |= (Header::TC >> 8) as u8;
    talk.server_sends(&first, &truncated);
    let second = talk.asked(A);
    talk.replies(&second, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn answers_respect_the_size_that_the_client_announced() {
    let many: Vec<String> = (0..80).map(|n| format!("an www.example.com 60 A 192.0.2.{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    // Each record takes 16 octets, header and question 33, OPT 11.
    for edns in [None, Some(512), Some(100), Some(1300)] {
        let mut talk = Talk::new(settings());
        talk.client_sends(&query(0x1234, A, edns.map(|size| (size, false))));
        let asked = talk.asked(A);
        talk.replies(&asked, 0, &many);
        let answer = talk.answer();
        let message = Message::parse(&answer).unwrap();
        assert!(message.header.has(Header::TC), "{edns:?}");
        assert_eq!(message.header.counts[1], 0);
        assert_eq!(message.edns().unwrap().is_some(), edns.is_some());
        talk.over();
    }
    for (edns, records) in [(Some(1232), 74), (Some(100), 29), (None, 29)] {
        let mut talk = Talk::new(settings());
        talk.client_sends(&query(0x1234, A, edns.map(|size| (size, false))));
        let asked = talk.asked(A);
        talk.replies(&asked, 0, &many[..records]);
        assert_eq!(lines(&talk.answer()).len(), records + usize::from(edns.is_some()), "{edns:?}");
    }
}

#[test]
fn tcp_clients_get_everything() {
    let many: Vec<String> =
        (0..2000).map(|n| format!("an www.example.com 60 A 192.0.{}.{}", n / 250, n % 250)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut talk = Talk::new(settings());
    talk.machine.handle_client(1, tcp_client(), &query(0x1234, "www.example.com AAAA", None), &mut talk.sent);
    let asked = talk.asked("www.example.com AAAA");
    talk.replies(&asked, 0, &[]);
    let asked = talk.asked(A);
    talk.replies(&asked, 0, &many);
    let answer = talk.answer();
    assert_eq!(lines(&answer).len(), 2000);
    talk.over();
}

#[test]
fn the_opt_record_of_the_server_is_replaced_by_ours() {
    let after_opt = "ar ns.example.com 60 A 192.0.2.53";
    for (edns, records, expected) in [
        (None, &[A_RECORD, "opt"][..], &[A_RECORD][..]),
        (None, &[A_RECORD, "opt", after_opt], &[A_RECORD, after_opt]),
        (None, &[A_RECORD, after_opt, "opt 00 0f 00 02 00 12"], &[A_RECORD, after_opt]),
        (Some((4096, false)), &[A_RECORD], &[A_RECORD, "opt 1232"]),
        (Some((4096, false)), &[A_RECORD, "opt"], &[A_RECORD, "opt 1232"]),
        (Some((4096, true)), &[A_RECORD, "opt", after_opt], &[A_RECORD, "opt 1232", after_opt]),
    ] {
        let mut talk = Talk::new(settings());
        talk.client_sends(&query(0x1234, A, edns));
        let asked = talk.asked(A);
        talk.replies(&asked, 0, records);
        let answer = talk.answer();
        assert_eq!(lines(&answer), expected);
        let ours = Message::parse(&answer).unwrap().edns().unwrap();
        assert_eq!(ours.map(|ours| ours.dnssec_ok), edns.map(|(_, dnssec_ok)| dnssec_ok));
        talk.over();
    }
}

#[test]
fn an_extended_error_reaches_edns_clients_and_is_servfail_for_others() {
    for (edns, expected) in [(None, rcode::SERVFAIL), (Some((1232, false)), 0)] {
        let mut talk = Talk::new(settings());
        talk.client_sends(&query(0x1234, A, edns));
        let asked = talk.asked(A);
        let mut octets = reply(id_of(&asked), A, 0, &["opt"]);
        let extended_at = octets.len() - 6;
        octets[extended_at] = 1;
        talk.server_sends(&asked, &octets);
        let answer = talk.answer();
        assert_eq!(Header::parse(&answer).unwrap().rcode(), expected);
        let extended = Message::parse(&answer).unwrap().edns().unwrap().map(|edns| edns.extended_rcode);
        assert_eq!(extended, edns.map(|_| 1));
        talk.over();
    }
}

#[test]
fn ad_passes_from_trusted_servers_only() {
    for trust_ad in [false, true] {
        let (mut talk, asked) = one_in_flight(Settings { trust_ad, ..settings() });
        assert_eq!(Header::parse(&asked.octets).unwrap().has(Header::AD), trust_ad);
        let mut octets = reply(id_of(&asked), A, 0, &[A_RECORD]);
        octets[2] |= (Header::AA >> 8) as u8;
        octets[3] |= Header::AD as u8;
        talk.server_sends(&asked, &octets);
        let header = Header::parse(&talk.answer()).unwrap();
        assert_eq!(header.has(Header::AD), trust_ad);
        assert!(!header.has(Header::AA));
    }
}

#[test]
fn a_malformed_answer_is_servfail() {
    let (mut talk, asked) = one_in_flight(settings());
    let mut octets = reply(id_of(&asked), A, 0, &[A_RECORD]);
    octets.pop();
    talk.server_sends(&asked, &octets);
    talk.answered(A, rcode::SERVFAIL, &[]);
    talk.over();
}

/// A pointer in the question can only lead into the header. This client asked for a name that the header, the pointer
/// and what follows happen to spell, and the name is longer than the whole answer.
#[test]
fn a_question_compressed_into_the_header_is_a_mismatch() {
    let mut talk = Talk::new(Settings { case_randomization: true, ..settings() });
    let name = [&[1, 0][..], &[10], &[0, 0, 0, 0, 0xc0, 5, 0, 1, 0, 1], &[0]].concat();
    let question = [&name[..], &[0, 1, 0, 1]].concat();
    talk.client_sends(&[&[0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &question].concat());
    let sent = talk.sent.queries.pop_front().unwrap();
    let head = [&id_of(&sent).to_be_bytes()[..], &[0x81, 0x80, 0]].concat();
    talk.server_sends(&sent, &[&head[..], &name].concat());
    assert_eq!(talk.machine.stats().upstream_mismatched, 1);
    talk.silent();
}

#[test]
fn refusals_answer_at_once_and_cost_no_slot() {
    let mut talk = Talk::new(settings());
    let stranger = proxy::inflight::Client { address: "192.0.2.9:99".parse().unwrap(), ..udp_client() };
    talk.machine.handle_client(1, stranger, &query(1, A, Some((4096, true))), &mut talk.sent);
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
fn the_oldest_query_makes_room() {
    let mut talk = Talk::new(Settings { in_flight: 2, ..settings() });
    let asked: Vec<Asked> = ["a.example A", "b.example A", "c.example A"]
        .into_iter()
        .map(|words| {
            talk.client_asks(words);
            talk.asked(words)
        })
        .collect();
    assert_eq!((talk.machine.in_flight(), talk.machine.stats().evicted), (2, 1));
    talk.replies(&asked[0], 0, &[]);
    talk.silent();
    for (asked, words) in asked[1..].iter().zip(["b.example A", "c.example A"]) {
        talk.replies(asked, 0, &[]);
        talk.answered(words, 0, &[]);
    }
    talk.over();
}

#[test]
fn ids_in_flight_on_one_socket_are_unique() {
    let mut talk = Talk::new(Settings { in_flight: 65_535, ports: 1, ..settings() });
    let mut seen = std::collections::HashSet::new();
    for _ in 0..20_000 {
        talk.client_asks(A);
        let asked = talk.asked(A);
        assert!(seen.insert(id_of(&asked)));
    }
    assert_eq!(talk.machine.in_flight(), 20_000);
}

#[test]
fn ids_and_ports_cannot_be_foretold_from_the_ones_before() {
    let draw = |seed| {
        let mut talk = Talk::new(settings());
        talk.machine = proxy::Machine::new(settings(), seed);
        let draws: Vec<(u16, Way)> = (0..64)
            .map(|_| {
                talk.client_asks(A);
                let asked = talk.asked(A);
                (id_of(&asked), asked.way)
            })
            .collect();
        draws
    };
    assert_eq!(draw([1; 32]), draw([1; 32]), "a simulation repeats itself");
    assert_ne!(draw([1; 32]), draw([2; 32]));
    let ports: std::collections::HashSet<_> =
        draw([3; 32]).iter().map(|(_, way)| format!("{way:?}")).collect();
    assert!(ports.len() > 8, "{}", ports.len());
}

#[derive(Clone, Debug)]
enum Event {
    Client(Vec<u8>),
    Query(u8, bool),
    Server(usize, usize, Vec<u8>),
    Reply(usize, u8, Vec<u8>),
    TcpEnds(usize),
    Unreachable(usize, usize),
    Wait(u64),
}

fn any_event() -> impl Strategy<Value = Event> {
    let octets = || prop::collection::vec(any::<u8>(), 0..80);
    prop_oneof![
        octets().prop_map(Event::Client),
        (any::<u8>(), any::<bool>()).prop_map(|(qtype, edns)| Event::Query(qtype, edns)),
        (0usize..4, 0usize..4, octets())
            .prop_map(|(upstream, socket, octets)| Event::Server(upstream, socket, octets)),
        (any::<usize>(), any::<u8>(), octets())
            .prop_map(|(which, flags, tail)| Event::Reply(which, flags, tail)),
        any::<usize>().prop_map(Event::TcpEnds),
        (0usize..4, 0usize..4).prop_map(|(upstream, socket)| Event::Unreachable(upstream, socket)),
        (0u64..1_000).prop_map(Event::Wait),
    ]
}

/// The answer to one of the queries seen so far: the right head, then anything.
fn any_answer(asked: &Asked, flags: u8, tail: &[u8]) -> Vec<u8> {
    let mut octets = asked.octets[..asked.octets.len() - 11].to_vec();
    octets[2] = 0x80 | flags & 0x02;
    octets[3] = flags & 0x0f;
    for (at, count) in [7, 9, 11].into_iter().zip([flags >> 4 & 1, flags >> 5 & 1, flags >> 6 & 1]) {
        octets[at] = count;
    }
    octets.extend(tail);
    octets
}

fn play(talk: &mut Talk, asked: &mut Vec<Asked>, event: Event) {
    match event {
        Event::Client(octets) => talk.client_sends(&octets),
        Event::Query(qtype, edns) => {
            let words = format!("www.example.com TYPE{}", if qtype < 128 { 28 } else { qtype });
            talk.client_sends(&query(7, &words, edns.then_some((1232, true))));
        }
        Event::Server(upstream, socket, octets) => {
            talk.machine.handle_upstream(talk.now_ns, upstream, socket, &octets, &mut talk.sent);
        }
        Event::Reply(which, flags, tail) if !asked.is_empty() => {
            let asked = &asked[which % asked.len()];
            talk.server_sends(asked, &any_answer(asked, flags, &tail));
        }
        Event::TcpEnds(which) if !asked.is_empty() => {
            if let Way::Tcp { token } = asked[which % asked.len()].way {
                talk.machine.handle_upstream_tcp(talk.now_ns, token, None, &mut talk.sent);
            }
        }
        Event::Reply(..) | Event::TcpEnds(_) => {}
        Event::Unreachable(upstream, socket) => {
            talk.machine.handle_upstream_unreachable(talk.now_ns, upstream, socket, &mut talk.sent);
        }
        Event::Wait(ms) => talk.wait(ms * MS),
    }
    asked.extend(talk.sent.queries.drain(..));
}

proptest! {
    /// Whatever clients and servers send, nothing panics, no slot leaks and every query ends exactly once.
    #[test]
    fn any_traffic_ends_in_peace(
        events in prop::collection::vec(any_event(), 0..120),
        upstreams in 1usize..4,
        case_randomization: bool,
        tcp_only: bool,
    ) {
        let settings = Settings { upstreams, ports: 2, in_flight: 5, case_randomization, tcp_only, ..settings() };
        let mut talk = Talk::new(settings);
        let mut asked = Vec::new();
        for event in events {
            play(&mut talk, &mut asked, event);
            prop_assert!(talk.machine.in_flight() <= 5);
        }
        talk.wait(10_000 * MS);
        talk.sent = Sent::default();
        talk.over();
        // Every ID is free again: late answers find nothing.
        let before = talk.machine.stats().upstream_unexpected;
        for asked in asked.iter().filter(|asked| matches!(asked.way, Way::Udp { .. })) {
            talk.server_sends(asked, &any_answer(asked, 0, &[]));
        }
        let udp = asked.iter().filter(|asked| matches!(asked.way, Way::Udp { .. })).count() as u64;
        prop_assert_eq!(talk.machine.stats().upstream_unexpected - before, udp);
    }
}
