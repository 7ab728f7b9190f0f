use super::*;
use crate::tsig;
use crate::workload::tests::workload;
use crate::workload::{Choice, Feeds, QueryOptions, Recording, Variation, WorkloadSpec};
use SECOND_NS;
use dns64::rewrite::append_edns;
use dns64::wire::{
    CLASS_IN, Edns, Message, Name, Options, Section, Writer, append_option, option_code, rtype,
};
use proptest::prelude::*;
use std::sync::Arc;

pub(super) const START: u64 = 1_000_000_000;

fn lane(rate_qps: u64, lane: u64, lanes: u64, sockets: u64) -> Lane {
    let schedule = Schedule::new(START, rate_qps, SECOND_NS);
    let spec =
        LaneSpec { schedule, lane, lanes, sockets, timeout_ns: SECOND_NS, listen_ns: SECOND_NS, log: false };
    Lane::new(spec, workload(0))
}

/// The right answer to a query.
pub(super) fn answer(query: &[u8]) -> Vec<u8> {
    let message = Message::parse(query).unwrap();
    let number = workload(0).number_of(query).unwrap();
    let mut buffer = [0; 512];
    let mut writer = Writer::new(&mut buffer, message.header.id, Header::QR, &message.question()).unwrap();
    let address = workload(0).expected(number).octets();
    writer.record(Section::Answer, &message.question().name, rtype::AAAA, CLASS_IN, 60, &address).unwrap();
    let length = writer.finish();
    buffer[..length].to_vec()
}

/// Sends everything due and returns (socket, query) pairs.
pub(super) fn send_all(lane: &mut Lane, now_ns: u64) -> Vec<(usize, Vec<u8>)> {
    let mut sent = Vec::new();
    while let Some(batch) = lane.due(now_ns) {
        for _ in 0..batch.queries {
            let mut buffer = [0; 512];
            let length = lane.write(now_ns, &mut buffer);
            sent.push((batch.socket, buffer[..length].to_vec()));
        }
    }
    sent
}

#[test]
fn every_query_ends_in_exactly_one_class() {
    let mut lane = lane(1000, 0, 1, 4);
    let sent = send_all(&mut lane, START + SECOND_NS);
    assert_eq!(sent.len(), 1000);
    for (n, (socket, query)) in sent.iter().enumerate() {
        let due = START + n as u64 * 1_000_000;
        let reply = answer(query);
        match n % 10 {
            0 => lane.receive(due + SECOND_NS + 1, *socket, &reply),
            1 => lane.receive(due + 5, socket + 1, &reply),
            2 => lane.receive(due + 5, *socket, &[&[reply[0] ^ 1], &reply[1..]].concat()),
            3 => lane.receive(due + 5, *socket, &[&reply[..3], &[2], &reply[4..]].concat()),
            4 => false,
            _ => {
                assert!(lane.receive(due + 7_000_000, *socket, &reply));
                lane.receive(due + 8_000_000, *socket, &reply)
            }
        };
    }
    assert!(!lane.is_done(lane.listen_until_ns() - 1) && lane.is_done(lane.listen_until_ns()));
    let stats = lane.finish();
    assert_eq!((stats.sent, stats.valid, stats.invalid, stats.late), (1000, 500, 100, 100));
    assert_eq!((stats.duplicates, stats.unexpected), (500, 200));
    assert_eq!(stats.defects.get("SERVFAIL"), Some(&100));
    assert_eq!(stats.unexpected_reasons, [("wrong ID", 100), ("wrong socket", 100)].into());
    assert_eq!(stats.latency().p50 / 10_000, 700);
}

#[test]
fn what_is_overdue_is_lost_until_it_comes_late() {
    let mut lane = lane(1000, 0, 1, 1);
    let sent = send_all(&mut lane, START + SECOND_NS);
    for (n, (socket, query)) in sent.iter().enumerate().filter(|(n, _)| n % 4 != 0) {
        lane.receive(START + n as u64 * 1_000_000 + 5, *socket, &answer(query));
    }
    assert_eq!(lane.lost_so_far(START + SECOND_NS), 0);
    assert_eq!(lane.lost_so_far(START + SECOND_NS + 127_000_001), 32);
    assert_eq!(lane.lost_so_far(START + 3 * SECOND_NS), 240, "960 of 1000 are whole words");
    lane.receive(START + 3 * SECOND_NS, sent[8].0, &answer(&sent[8].1));
    assert_eq!(lane.lost_so_far(START + 3 * SECOND_NS), 239);
}

#[test]
fn the_longest_timeout_at_the_highest_rate_is_no_overflow() {
    let schedule = Schedule::new(0, 100_000_000, 86_400 * SECOND_NS);
    let timeout_ns = 86_400 * SECOND_NS;
    let spec =
        LaneSpec { schedule, lane: 0, lanes: 1, sockets: 1, timeout_ns, listen_ns: timeout_ns, log: false };
    assert!(spec.memory_octets() > 1 << 40, "the caller refuses what no machine has");
    let short = LaneSpec { schedule: Schedule::new(0, 300_000, SECOND_NS / 100), ..spec };
    assert!(short.memory_octets() < 1 << 20);
    assert_eq!(Lane::new(short, workload(0)).queries, 3000);
}

#[test]
fn a_lane_may_be_made_before_its_start_is_known() {
    let mut lane = lane(1000, 0, 1, 1);
    lane.start_at(START + 7);
    assert_eq!(lane.next_due_ns(), Some(START + 7));
    send_all(&mut lane, START + SECOND_NS);
    assert_eq!(lane.finish().series()[0].sent, 1000);
}

#[test]
fn lanes_share_the_schedule_without_gap_or_overlap() {
    let mut numbers: Vec<u64> = (0..3)
        .flat_map(|k| {
            let mut lane = lane(1000, k, 3, 2);
            assert_eq!(lane.next_due_ns(), Some(START + k * 1_000_000));
            send_all(&mut lane, START + SECOND_NS)
        })
        .map(|(_, query)| workload(0).number_of(&query).unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
}

#[test]
fn ids_in_flight_at_a_socket_differ() {
    let mut lane = lane(100_000, 0, 1, 3);
    let sent = send_all(&mut lane, START + SECOND_NS);
    let distinct: std::collections::HashSet<_> =
        sent.iter().map(|(socket, query)| (*socket, query[0], query[1])).collect();
    assert_eq!(distinct.len(), sent.len());
}

#[test]
fn a_sender_that_is_late_by_its_whole_schedule_gives_up() {
    let mut lane = lane(1000, 0, 1, 1);
    assert!(!lane.is_hopeless(START + 2 * SECOND_NS) && lane.is_hopeless(START + 2 * SECOND_NS + 1));
    send_all(&mut lane, START + SECOND_NS);
    assert!(!lane.is_hopeless(u64::MAX), "all is sent");
}

#[test]
fn a_tardy_sender_catches_up_in_small_batches() {
    let mut lane = lane(100_000, 0, 1, 4);
    let batch = lane.due(START + 100_000_000).unwrap();
    assert!(batch.queries <= 10, "1 % of a 10 ms window is 10 queries, not {}", batch.queries);
    assert_eq!(lane.due(START).unwrap().queries, 1);
    assert_eq!(lane.due(START - 1), None);
}

fn lane_with(text: &str, choice: Choice, sockets: u64) -> Lane {
    let schedule = Schedule::with_model(START, 1000, SECOND_NS, text.parse().unwrap());
    let spec = LaneSpec {
        schedule,
        lane: 0,
        lanes: 1,
        sockets,
        timeout_ns: SECOND_NS / 10,
        listen_ns: SECOND_NS,
        log: true,
    };
    let variation = Variation { choice, ..Variation::default() };
    Lane::new(spec, Workload::new(WorkloadSpec { variation, ..workload(0).spec().clone() }).unwrap())
}

/// An answer with any address, or another RCODE.
fn response(query: &[u8], rcode: u8) -> Vec<u8> {
    let mut reply = query.to_vec();
    reply[2] |= 0x80;
    reply[3] |= rcode;
    reply
}

#[test]
fn the_log_says_what_became_of_each() {
    let mut lane = lane_with("constant", Choice::Each, 2);
    let sent = send_all(&mut lane, START + SECOND_NS);
    lane.note_send_errors(1);
    for (n, (socket, query)) in sent.iter().enumerate().take(10) {
        let due = START + n as u64 * 1_000_000;
        match n % 3 {
            0 => lane.receive(due + 5, *socket, &answer(query)),
            1 => lane.receive(due + 6, *socket, &response(query, 5)),
            _ => lane.receive(due + SECOND_NS, *socket, &answer(query)),
        };
    }
    let stats = lane.finish();
    assert_eq!((stats.rcodes[0], stats.rcodes[5]), (7, 3));
    let log = stats.log.unwrap();
    assert_eq!(log.len(), 1000);
    let entry = |n| log.get(n).copied().unwrap();
    let due = START + 3_000_000;
    let sent_ns = START + SECOND_NS;
    let valid = Entry {
        scheduled_ns: due,
        sent_ns,
        received_ns: due + 5,
        class: Class::Valid,
        rcode: 0,
        compat: true,
    };
    assert_eq!(entry(3), valid);
    assert_eq!((entry(4).class, entry(4).rcode), (Class::Invalid, 5));
    assert_eq!((entry(5).class, entry(10).class), (Class::Late, Class::Lost));
    assert_eq!((entry(10).received_ns, entry(999).class), (0, Class::SendError));
}

#[test]
fn names_asked_often_are_told_apart_by_their_ids() {
    for choice in [Choice::Cached { share_pct: 100, hot_names: 3 }, Choice::Zipf { exponent: 2.0 }] {
        let mut lane = lane_with("constant", choice, 1);
        let sent = send_all(&mut lane, START + SECOND_NS);
        for (n, (socket, query)) in sent.iter().enumerate().rev() {
            let due = START + n as u64 * 1_000_000;
            let other = &sent[(n + 1) % sent.len()].1;
            // The right ID with another question, a wrong ID, then an answer, and it again.
            if query[12..28] != other[12..28] {
                lane.receive(due, *socket, &response(&[&query[..12], &other[12..]].concat(), 0));
                lane.stats.unexpected -= 1;
            }
            lane.receive(due, socket + 1, &response(query, 0));
            lane.receive(due + 7, *socket, &response(query, 3));
            lane.receive(due + 9, *socket, &response(query, 3));
        }
        let stats = lane.finish();
        assert_eq!((stats.sent, stats.invalid, stats.duplicates, stats.unexpected), (1000, 1000, 1000, 1000));
    }
}

#[test]
fn answers_after_a_wrap_of_the_ids_are_counted_once_each() {
    let schedule = Schedule::new(START, 200_000, SECOND_NS);
    let spec = LaneSpec {
        schedule,
        lane: 0,
        lanes: 1,
        sockets: 1,
        timeout_ns: SECOND_NS / 100,
        listen_ns: 10 * SECOND_NS,
        log: false,
    };
    for choice in [Choice::Each, Choice::Cached { share_pct: 100, hot_names: 1 }] {
        let variation = Variation { choice, any_response: true, ..Variation::default() };
        let spec_of = WorkloadSpec { variation, ..workload(0).spec().clone() };
        let mut lane = Lane::new(spec, Workload::new(spec_of).unwrap());
        let sent = send_all(&mut lane, START + SECOND_NS);
        // All at the end: only the last 10 ms are in time.
        for (socket, query) in &sent {
            lane.receive(START + SECOND_NS, *socket, &response(query, 0));
        }
        assert!(lane.is_done(START + SECOND_NS));
        let stats = lane.finish();
        assert_eq!((stats.valid, stats.late, stats.duplicates, stats.unexpected), (2000, 198_000, 0, 0));
    }
}

#[test]
fn a_poisson_process_sends_what_is_due_and_no_more() {
    let mut lane = lane_with("poisson:3", Choice::Each, 4);
    let (mut now_ns, mut sent) = (START, 0);
    while let Some(due_ns) = lane.next_due_ns() {
        assert!(due_ns >= now_ns && due_ns < START + SECOND_NS);
        now_ns = due_ns;
        sent += send_all(&mut lane, now_ns).len();
    }
    let stats = lane.finish();
    assert_eq!((sent, stats.sent, stats.lateness_ns.max()), (1000, 1000, 0));
    assert_eq!(stats.windows().ms10.worst_pct, 0.0);
}

#[test]
fn a_window_waits_for_answers_and_for_the_timeout() {
    let mut lane = lane_with("closed:3", Choice::Each, 2);
    let first = send_all(&mut lane, START);
    assert_eq!((first.len(), lane.due(START)), (3, None));
    assert_eq!(lane.next_due_ns(), Some(START + SECOND_NS / 10), "the oldest one's timeout");
    lane.receive(START + 5000, first[1].0, &answer(&first[1].1));
    lane.receive(START + 5000, first[1].0, &answer(&first[1].1));
    let second = send_all(&mut lane, START + 6000);
    assert_eq!(second.len(), 1, "a second answer frees nothing");
    let timeout = START + SECOND_NS / 10 + 1;
    assert_eq!(send_all(&mut lane, timeout).len(), 2, "two gave up");
    lane.receive(timeout + 1, first[0].0, &answer(&first[0].1));
    assert_eq!(lane.due(timeout + 1), None, "a late answer frees nothing");
    lane.receive(timeout + 1, second[0].0, &answer(&second[0].1));
    assert_eq!(send_all(&mut lane, timeout + 2).len(), 1, "one came in time");
    assert_eq!(lane.due(START + SECOND_NS), None, "the time is over");
    assert!(lane.next_due_ns().is_none() && lane.is_done(lane.listen_until_ns()));
    let stats = lane.finish();
    assert_eq!((stats.sent, stats.valid, stats.late, stats.duplicates), (7, 2, 1, 1));
    assert_eq!(stats.latency_ns.min(), 5000, "from the sending");
}

#[test]
fn an_experiment_ends_when_all_its_slots_have() {
    let mut lane = lane_with("experiments:4x3", Choice::Each, 2);
    let mut now_ns = START;
    while !lane.is_done(now_ns) {
        let sent = send_all(&mut lane, now_ns);
        assert!(sent.len() <= 4, "one for each slot");
        now_ns += 1000;
        for (socket, query) in &sent {
            lane.receive(now_ns, *socket, &answer(query));
        }
    }
    assert_eq!(now_ns, START + 3 * 64_000, "256 queries in rounds of four");
    let stats = lane.finish();
    let experiments = stats.experiments.to_record().unwrap();
    assert_eq!((experiments.count, experiments.mean_ns, experiments.sd_ns), (3, 64_000.0, 0.0));
    assert_eq!((stats.sent, stats.valid, stats.ran_out), (768, 768, None));
}

#[test]
fn a_closed_loop_that_has_sent_everything_does_not_wait_for_its_time() {
    let mut lane = lane_with("experiments:256x1", Choice::Each, 2);
    let sent = send_all(&mut lane, START);
    sent.iter()
        .skip(1)
        .for_each(|(socket, query)| assert!(lane.receive(START + 1000, *socket, &answer(query))));
    assert_eq!(lane.listen_until_ns(), START + SECOND_NS);
    assert!(lane.due(START + SECOND_NS / 10 + 1).is_none() && !lane.is_done(START + SECOND_NS - 1));
    assert!(lane.is_done(START + SECOND_NS));
    let stats = lane.finish();
    assert_eq!((stats.valid, stats.active_ns), (255, SECOND_NS / 10 + 1), "the last one gave up");
}

#[test]
fn a_burst_is_remembered_as_a_whole() {
    let model = "burst:10000".parse().unwrap();
    let schedule = Schedule::with_model(START, 1000, 10 * SECOND_NS, model);
    let (timeout_ns, listen_ns) = (SECOND_NS, SECOND_NS);
    let spec = LaneSpec { schedule, lane: 0, lanes: 1, sockets: 1, timeout_ns, listen_ns, log: false };
    let mut lane = Lane::new(spec, workload(0));
    let sent = send_all(&mut lane, START);
    sent.iter().for_each(|(socket, query)| assert!(lane.receive(START + 1000, *socket, &answer(query))));
    let stats = lane.finish();
    assert_eq!((sent.len(), stats.valid, stats.late), (10_000, 10_000, 0));
}

#[test]
fn a_slow_file_is_told_from_one_that_ended() {
    #[derive(Debug)]
    struct Trickle;
    struct Drops(usize);
    impl Feeds for Trickle {
        fn open(&self, _: u64, _: u64) -> Box<dyn Feed> {
            Box::new(Drops(0))
        }
    }
    impl Feed for Drops {
        fn ready(&mut self) -> usize {
            self.0 += 1;
            usize::from((2..5).contains(&self.0))
        }
        fn next(&mut self) -> Option<&[u8]> {
            Some(b"\x01a\0\0\x1c\0\x01")
        }
        fn ended(&mut self) -> Option<String> {
            (self.0 > 5).then(|| "it ended".into())
        }
    }
    let recording = Recording::Stream(Arc::new(Trickle));
    let choice = Choice::Recorded { recording, whole_messages: false };
    let mut lane = lane_with("constant", choice, 2);
    assert!(send_all(&mut lane, START + SECOND_NS).is_empty(), "nothing was read yet");
    let sent = send_all(&mut lane, START + SECOND_NS);
    assert_eq!(sent.len(), 3);
    lane.receive(START + 10, sent[0].0, &response(&sent[0].1, 3));
    assert_eq!(lane.due(START + SECOND_NS), None);
    assert!(lane.next_due_ns().is_none());
    let stats = lane.finish();
    assert_eq!((stats.starved, stats.valid, stats.ran_out.as_deref()), (2, 1, Some("it ended")));
}

proptest! {
    #[test]
    fn any_datagram_is_taken(octets in prop::collection::vec(any::<u8>(), 0..120), flip in 0usize..90, with: u8) {
        let mut lane = lane(1000, 0, 1, 1);
        let sent = send_all(&mut lane, START + 10_000_000);
        lane.receive(START, 0, &octets);
        let mut reply = answer(&sent[3].1);
        let at = flip % reply.len();
        reply[at] ^= with;
        lane.receive(START + 20_000_000, 0, &reply);
        let stats = lane.finish();
        prop_assert_eq!(stats.valid + stats.invalid + stats.late + stats.unexpected, 2);
    }
}

/// A lane of two sockets whose clients have cookies.
fn with_cookies() -> Lane {
    let options = QueryOptions { cookie: true, ..QueryOptions::default() };
    let variation = Variation { options, seed: 9, ..Variation::default() };
    let workload = Workload::new(WorkloadSpec { variation, ..workload(0).spec().clone() }).unwrap();
    let schedule = Schedule::new(START, 1000, SECOND_NS);
    let (timeout_ns, listen_ns) = (SECOND_NS, SECOND_NS);
    let spec = LaneSpec { schedule, lane: 0, lanes: 1, sockets: 2, timeout_ns, listen_ns, log: false };
    Lane::new(spec, workload)
}

/// The cookie option of a message.
fn cookie_of(message: &[u8]) -> Vec<u8> {
    let message = Message::parse(message).unwrap();
    Options::of(&message).find(option_code::COOKIE).unwrap().to_vec()
}

/// The right answer, with the client cookie of the query or another, and a server cookie.
fn answer_with_cookie(query: &[u8], client: &[u8], server: &[u8]) -> Vec<u8> {
    let mut reply = answer(query);
    let length = reply.len();
    reply.resize(length + 100, 0);
    let edns = Edns { payload_octets: 1232, extended_rcode: 0, version: 0, dnssec_ok: false };
    let length = append_edns(&mut reply, length, &edns);
    let length = append_option(&mut reply, length, option_code::COOKIE, &[client, server].concat());
    reply.truncate(length);
    reply
}

#[test]
fn every_source_keeps_the_servers_cookie_and_sends_it_back() {
    let mut lane = with_cookies();
    let first = send_all(&mut lane, START);
    let (socket, query) = &first[0];
    let client = cookie_of(query);
    assert_eq!(client.len(), 8);
    lane.receive(START + 5, *socket, &answer_with_cookie(query, &client, &[3; 16]));
    let later = send_all(&mut lane, START + SECOND_NS / 2);
    for (other, query) in &later {
        let expected =
            if other == socket { [&client[..], &[3; 16]].concat() } else { cookie_of(query)[..8].into() };
        assert_eq!(
            cookie_of(query),
            expected,
            "another source has a cookie of its own, and the server's not yet"
        );
    }
    assert!(later.iter().any(|(other, _)| other != socket) && later.iter().any(|(other, _)| other == socket));
    // The answers of others are discarded, and a server cookie that is none is not kept.
    let mine: Vec<_> = later.iter().filter(|(other, _)| other == socket).collect();
    lane.receive(START + SECOND_NS / 2, *socket, &answer_with_cookie(&mine[0].1, &[0; 8], &[4; 8]));
    lane.receive(START + SECOND_NS / 2, *socket, &answer_with_cookie(&mine[1].1, &client, &[5; 33]));
    let last = send_all(&mut lane, START + SECOND_NS);
    let (_, query) = last.iter().find(|(other, _)| other == socket).unwrap();
    assert_eq!(cookie_of(query)[8..], [3; 16]);
    let stats = lane.finish();
    assert_eq!((stats.valid, stats.unexpected), (2, 1));
    assert_eq!(stats.unexpected_reasons, [("wrong client cookie", 1)].into());
}

#[test]
fn signed_queries_need_signed_answers() {
    let secret = [1; 32];
    let key = Arc::new(tsig::Key::new(&Name::from_text("k").unwrap(), tsig::Algorithm::Sha256, &secret, 0));
    let variation = Variation { tsig: Some(key), ..Variation::default() };
    let workload = Workload::new(WorkloadSpec { variation, ..workload(0).spec().clone() }).unwrap();
    let schedule = Schedule::new(START, 1000, SECOND_NS);
    let (timeout_ns, listen_ns) = (SECOND_NS, SECOND_NS);
    let spec = LaneSpec { schedule, lane: 0, lanes: 1, sockets: 1, timeout_ns, listen_ns, log: false };
    let mut lane = Lane::new(spec, workload);
    let (socket, query) = send_all(&mut lane, START).remove(0);
    assert_eq!(Header::parse(&query).unwrap().counts[3], 2, "OPT and TSIG");
    // The answer of a server that knows no TSIG, right in all else.
    lane.receive(START + 5, socket, &answer(&query));
    let stats = lane.finish();
    assert_eq!((stats.valid, stats.invalid, stats.valid_compat), (0, 1, 1));
    assert_eq!(stats.defects, [("no TSIG".to_owned(), 1)].into());
}

/// A lane whose clients are not equally active.
fn drawn(lane: u64, (lanes, sockets): (u64, u64), text: &str) -> Lane {
    let schedule = Schedule::new(START, 200_000, SECOND_NS);
    let spec =
        LaneSpec { schedule, lane, lanes, sockets, timeout_ns: SECOND_NS, listen_ns: SECOND_NS, log: false };
    let variation = Variation { activity: text.parse().unwrap(), seed: 7, ..Variation::default() };
    Lane::new(spec, Workload::new(WorkloadSpec { variation, ..workload(0).spec().clone() }).unwrap())
}

#[test]
fn clients_ask_in_the_shares_of_their_law() {
    for (lanes, exponent) in [(1, 1.0), (2, 0.5), (1, 2.0)] {
        const CLIENTS: usize = 50;
        let mut lane = drawn(0, (lanes, CLIENTS as u64), &format!("zipf:{exponent}"));
        let sent = send_all(&mut lane, START + SECOND_NS);
        let mut counts = [0u64; CLIENTS];
        sent.iter().for_each(|(client, _)| counts[*client] += 1);
        let weight = |client: usize| (client as f64 + 1.0).powf(-exponent);
        let total: f64 = (0..CLIENTS).map(weight).sum();
        // Chi-square: its mean is the number of clients less one, its variance twice that.
        let apart = |client: usize| {
            let expected = sent.len() as f64 * weight(client) / total;
            (counts[client] as f64 - expected).powi(2) / expected
        };
        let chi: f64 = (0..CLIENTS).map(apart).sum();
        assert!(chi < 49.0 + 4.0 * 98f64.sqrt(), "{exponent}: {chi}");
    }
}

#[test]
fn unequal_clients_keep_the_schedule_and_every_account() {
    let (mut sent, mut valid) = (0, 0);
    for number in 0..2 {
        let mut lane = drawn(number, (2, 30), "zipf:1.1");
        let equal = &mut drawn(number, (2, 30), "in-turn");
        // Every 50 us a query: each leaves when it is due, as those in turn do, and asks for the same name.
        for at_ns in (0..=SECOND_NS / 10).step_by(50_000) {
            let now_ns = START + at_ns;
            let (asked, expected) = (send_all(&mut lane, now_ns), send_all(equal, now_ns));
            assert_eq!(asked.len(), expected.len());
            for ((client, query), (_, other)) in asked.iter().zip(&expected) {
                assert_eq!(query[2..], other[2..]);
                let reply = answer(query);
                assert!(!lane.receive(now_ns + 9, client + 1, &reply), "not the socket of its client");
                assert!(lane.receive(now_ns + 9, *client, &reply));
                assert!(!lane.receive(now_ns + 9, *client, &reply), "answered already");
            }
        }
        let stats = lane.finish();
        (sent, valid) = (sent + stats.sent, valid + stats.valid);
        assert_eq!((stats.duplicates, stats.unexpected, stats.invalid), (stats.sent, stats.sent, 0));
    }
    assert_eq!((sent, valid), (20_001, 20_001));
}
