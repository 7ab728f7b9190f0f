//! Tries: timeouts, the next server, streams.

use dns64::wire::rcode;

use crate::support::reply;
use crate::talk::{MS, S, Talk, TryTransport, settings, settings_for, settings_with};
use crate::{A, A_RECORD, one_in_flight};

#[test]
fn silence_is_three_tries_and_then_servfail() {
    let (mut talk, first) = one_in_flight(settings());
    talk.wait(799 * MS);
    talk.silent();
    talk.wait(MS);
    let second = talk.asked(A);
    assert_ne!(first.id(), second.id());
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
    let mut talk = Talk::new(settings_with(|settings| settings.asking.deadline_ns = 2 * S));
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
    let (mut talk, first) = one_in_flight(settings_for(3));
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
        let (mut talk, first) = one_in_flight(settings_for(2));
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
    let mut talk = Talk::new(settings_for(2));
    talk.client_asks(aaaa);
    let first = talk.asked(aaaa);
    talk.replies(&first, rcode::SERVFAIL, &["opt 00 0f 00 02 00 06"]);
    talk.answered(aaaa, rcode::SERVFAIL, &[]);
    talk.over();
}

#[test]
fn all_servers_unwilling_is_an_answer() {
    let (mut talk, first) = one_in_flight(settings_for(2));
    talk.replies(&first, rcode::REFUSED, &[]);
    for _ in 0..2 {
        let next = talk.asked(A);
        talk.replies(&next, rcode::REFUSED, &[]);
    }
    talk.answered(A, rcode::REFUSED, &[]);
    talk.over();
}

#[test]
fn an_unreachable_server_is_left_soon() {
    let (mut talk, first) = one_in_flight(settings_for(2));
    talk.unreachable(&first);
    talk.silent();
    talk.wait(100 * MS);
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
    talk.unreachable(&first);
    talk.machine.handle_upstream_unreachable(talk.now_ns, 9);
    talk.silent();
    talk.wait(800 * MS);
    let second = talk.asked(A);
    talk.replies(&second, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn a_truncated_answer_is_fetched_over_stream() {
    let (mut talk, asked) = one_in_flight(settings());
    talk.server_sends(&asked, &asked.truncated());
    let over_stream = talk.asked(A);
    assert!(matches!(over_stream.way, TryTransport::Stream { .. }));
    assert_eq!(over_stream.upstream, asked.upstream);
    talk.replies(&over_stream, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn a_stream_failure_is_a_failed_try() {
    let (mut talk, first) = one_in_flight(settings_with(|settings| settings.upstreams[0].stream_only = true));
    talk.stream_ends(&first);
    let second = talk.asked(A);
    talk.replies(&first, 0, &[A_RECORD]);
    talk.silent();
    talk.server_sends(&second, &reply(second.id().wrapping_add(1), A, 0, &[A_RECORD]));
    let third = talk.asked(A);
    talk.wait(800 * MS);
    talk.answered(A, rcode::SERVFAIL, &[]);
    talk.replies(&third, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn an_answer_truncated_even_over_stream_is_a_failed_try() {
    let (mut talk, first) = one_in_flight(settings_with(|settings| settings.upstreams[0].stream_only = true));
    talk.server_sends(&first, &first.truncated());
    let second = talk.asked(A);
    talk.replies(&second, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn a_malformed_answer_is_servfail() {
    let (mut talk, asked) = one_in_flight(settings());
    let mut octets = reply(asked.id(), A, 0, &[A_RECORD]);
    octets.pop();
    talk.server_sends(&asked, &octets);
    talk.answered(A, rcode::SERVFAIL, &[]);
    talk.over();
}
