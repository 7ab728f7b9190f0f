//! Full tables.

use dns64::wire::rcode;
use server_core::client::StreamKind;
use server_core::machine::Notice;

use crate::support::query;
use crate::talk::{ClientQuery, Talk, settings_with, stream_client};

#[test]
fn the_oldest_query_makes_room() {
    let mut talk = Talk::new(settings_with(|settings| settings.in_flight = 2));
    let asked: Vec<ClientQuery> = ["a.example A", "b.example A", "c.example A"]
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
fn a_client_on_a_stream_is_told_that_there_is_no_answer() {
    let mut talk = Talk::new(settings_with(|settings| settings.in_flight = 1));
    let first = stream_client(1, StreamKind::Tcp);
    talk.sends(first, &query(0x1234, "a.example A", None));
    talk.asked("a.example A");
    talk.sends(stream_client(2, StreamKind::Tls), &query(0x1234, "b.example A", None));
    assert_eq!((&talk.sent.unanswered[..], &talk.sent.notices[..]), (&[first][..], &[Notice::Full][..]));
    talk.asked_and_told("b.example A", 0, &[]);
    talk.answered("b.example A", 0, &[]);
    talk.over();
    assert_eq!(talk.machine.stats().evicted, 1);
}

#[test]
fn a_query_that_has_gone_on_to_a_is_still_the_oldest() {
    let mut talk = Talk::new(settings_with(|settings| settings.in_flight = 2));
    talk.client_asks("a.example AAAA");
    let aaaa = talk.asked("a.example AAAA");
    talk.client_asks("b.example A");
    let other = talk.asked("b.example A");
    talk.replies(&aaaa, 0, &[]);
    talk.asked("a.example A");
    talk.client_asks("c.example A");
    let last = talk.asked("c.example A");
    assert_eq!(talk.machine.stats().evicted, 1, "nobody else has to go");
    for (asked, words) in [(other, "b.example A"), (last, "c.example A")] {
        talk.replies(&asked, 0, &[]);
        talk.answered(words, 0, &[]);
    }
    talk.over();
}

/// Past saturation the machine goes on answering.
#[test]
fn far_too_many_queries_leave_the_newest_in_flight() {
    let mut talk = Talk::new(settings_with(|settings| settings.in_flight = 100));
    let mut asked = Vec::new();
    for number in 0..10_000 {
        let words = format!("{number}.example AAAA");
        talk.client_asks(&words);
        asked.push((talk.asked(&words), words));
    }
    assert_eq!((talk.machine.in_flight(), talk.machine.waiting()), (100, 100));
    for (asked, words) in &asked[9_900..] {
        talk.replies(asked, rcode::NXDOMAIN, &[]);
        talk.answered(words, rcode::NXDOMAIN, &[]);
    }
    talk.over();
    assert_eq!(talk.machine.stats().evicted, 9_900);
}
