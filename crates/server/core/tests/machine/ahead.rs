//! A queries that do not wait for the AAAA reply (RFC 6147 5.1.8).

use dns64::wire::rcode;
use server_core::Settings;
use server_core::client::StreamKind;
use server_core::settings::AQuery;

use crate::support::{lines, query};
use crate::talk::{ClientQuery, MS, S, Talk, settings_with, stream_client};
use crate::{A, A_RECORD, AAAA, AAAA_RECORD, SOA, SYNTHESIZED};

fn asking(a_query: AQuery) -> Settings {
    settings_with(|settings| settings.asking.a_query = a_query)
}

/// A client has asked for AAAA, and these are the two queries upstream.
fn both_in_flight() -> (Talk, ClientQuery, ClientQuery) {
    let mut talk = Talk::new(asking(AQuery::Together));
    talk.client_asks(AAAA);
    let (aaaa, a) = (talk.asked(AAAA), talk.asked(A));
    (talk, aaaa, a)
}

#[test]
fn together_in_this_order() {
    let (mut talk, aaaa, a) = both_in_flight();
    talk.replies(&aaaa, 0, &[SOA]);
    talk.silent();
    talk.replies(&a, 0, &[A_RECORD]);
    talk.answered(AAAA, 0, &[SYNTHESIZED]);
    talk.over();
}

#[test]
fn together_in_the_other_order() {
    let (mut talk, aaaa, a) = both_in_flight();
    talk.replies(&a, 0, &[A_RECORD]);
    talk.silent();
    talk.replies(&aaaa, 0, &[SOA]);
    talk.answered(AAAA, 0, &[SYNTHESIZED]);
    talk.over();
}

#[test]
fn a_native_address_needs_no_a() {
    let (mut talk, aaaa, a) = both_in_flight();
    talk.replies(&aaaa, 0, &[AAAA_RECORD]);
    talk.answered(AAAA, 0, &[AAAA_RECORD]);
    talk.replies(&a, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn a_held_error_is_the_answer_as_it_would_be_afterwards() {
    let (mut talk, aaaa, a) = both_in_flight();
    talk.replies(&a, rcode::REFUSED, &[]);
    talk.replies(&aaaa, 0, &[SOA]);
    talk.answered(AAAA, rcode::REFUSED, &[]);
    talk.over();
}

#[test]
fn a_held_failure_is_servfail() {
    let (mut talk, aaaa, _) = both_in_flight();
    for _ in 0..2 {
        talk.wait(800 * MS);
        talk.asked(AAAA);
        talk.asked(A);
    }
    talk.wait(800 * MS);
    talk.answered(AAAA, rcode::SERVFAIL, &[]);
    talk.replies(&aaaa, 0, &[SOA]);
    talk.over();
}

#[test]
fn a_silent_aaaa_ends_with_the_address_that_is_held() {
    let (mut talk, _, a) = both_in_flight();
    talk.replies(&a, 0, &[A_RECORD]);
    talk.wait(800 * MS);
    talk.asked(AAAA);
    talk.wait(800 * MS);
    talk.asked(AAAA);
    talk.wait(800 * MS);
    talk.answered(AAAA, 0, &["an www.example.com 300 AAAA 2001:db8:64::c000:201"]);
    talk.over();
}

#[test]
fn two_clients_share_both_lookups() {
    let (mut talk, aaaa, a) = both_in_flight();
    talk.client_asks(AAAA);
    talk.silent();
    talk.replies(&a, 0, &[A_RECORD]);
    talk.replies(&aaaa, 0, &[SOA]);
    for _ in 0..2 {
        talk.answered(AAAA, 0, &[SYNTHESIZED]);
    }
    talk.over();
}

#[test]
fn what_is_known_is_not_asked_for() {
    let mut talk = Talk::with_cache(asking(AQuery::Together));
    talk.client_asks(A);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answer();
    talk.client_asks(AAAA);
    let aaaa = talk.asked(AAAA);
    talk.silent();
    talk.replies(&aaaa, 0, &[SOA]);
    talk.answered(AAAA, 0, &[SYNTHESIZED]);
    talk.over();
}

#[test]
fn nothing_is_given_up_for_a_query_ahead() {
    let mut talk = Talk::new(settings_with(|settings| {
        settings.asking.a_query = AQuery::Together;
        settings.in_flight = 2;
    }));
    talk.client_asks("other.example A");
    let other = talk.asked("other.example A");
    talk.client_asks(AAAA);
    let aaaa = talk.asked(AAAA);
    talk.silent();
    talk.replies(&other, 0, &[]);
    talk.answered("other.example A", 0, &[]);
    talk.replies(&aaaa, 0, &[SOA]);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(AAAA, 0, &[SYNTHESIZED]);
    talk.over();
}

/// The room of a query ahead is needed more by a client that has nothing in flight; it is asked afterwards
/// then.
#[test]
fn a_query_ahead_that_was_given_up_is_asked_afterwards() {
    let mut talk = Talk::new(settings_with(|settings| {
        settings.asking.a_query = AQuery::Together;
        settings.in_flight = 3;
    }));
    talk.client_asks(AAAA);
    let (aaaa, _) = (talk.asked(AAAA), talk.asked(A));
    // A truncated reply leads to a stream: the AAAA lookup is the younger one now.
    talk.server_sends(&aaaa, &aaaa.truncated());
    let aaaa = talk.asked(AAAA);
    for words in ["1.example A", "2.example A"] {
        talk.client_asks(words);
        talk.asked_and_told(words, 0, &[]);
        talk.answered(words, 0, &[]);
    }
    for words in ["3.example A", "4.example A"] {
        talk.client_asks(words);
        talk.asked(words);
    }
    talk.replies(&aaaa, 0, &[SOA]);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(AAAA, 0, &[SYNTHESIZED]);
}

#[test]
fn a_late_aaaa_lets_a_be_asked() {
    let mut talk = Talk::new(asking(AQuery::WhenLate));
    talk.client_asks(AAAA);
    let aaaa = talk.asked(AAAA);
    talk.wait(49 * MS);
    talk.silent();
    talk.wait(MS);
    let a = talk.asked(A);
    talk.replies(&a, 0, &[A_RECORD]);
    talk.replies(&aaaa, 0, &[SOA]);
    talk.answered(AAAA, 0, &[SYNTHESIZED]);
    talk.over();
}

#[test]
fn one_in_time_does_not() {
    let mut talk = Talk::new(asking(AQuery::WhenLate));
    talk.client_asks(AAAA);
    talk.asked_and_told(AAAA, 0, &[SOA]);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(AAAA, 0, &[SYNTHESIZED]);
    talk.wait(S);
    talk.over();
}

/// Its place is another's by then.
#[test]
fn a_query_that_has_ended_asks_for_nothing() {
    let mut talk = Talk::new(asking(AQuery::WhenLate));
    talk.client_asks(AAAA);
    talk.asked_and_told(AAAA, 0, &[AAAA_RECORD]);
    talk.answered(AAAA, 0, &[AAAA_RECORD]);
    talk.wait(30 * MS);
    talk.client_asks("other.example.com AAAA");
    talk.asked("other.example.com AAAA");
    talk.wait(30 * MS);
    talk.silent();
    talk.wait(20 * MS);
    talk.asked("other.example.com A");
}

/// A server that sends long replies must not fill the memory with them.
#[test]
fn a_long_reply_is_not_held_but_asked_for_again() {
    let many: Vec<String> =
        (0..300).map(|n| format!("an www.example.com 300 A 192.0.{}.{}", n / 250, n % 250)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for remembers in [false, true] {
        let settings = asking(AQuery::Together);
        let mut talk = if remembers { Talk::with_cache(settings) } else { Talk::new(settings) };
        talk.sends(stream_client(1, StreamKind::Tcp), &query(0x1234, AAAA, None));
        let (aaaa, a) = (talk.asked(AAAA), talk.asked(A));
        talk.replies(&a, 0, &many);
        talk.replies(&aaaa, 0, &[SOA]);
        if !remembers {
            talk.asked_and_told(A, 0, &many);
        }
        assert_eq!(lines(&talk.answer()).len(), 300);
        talk.over();
    }
}
