//! Clients that ask the same at the same time share one lookup.

use dns64::wire::{Header, Message, rcode};

use crate::support::{lines, query};
use crate::talk::{MS, Talk, settings, settings_with};
use crate::{A, A_RECORD, AAAA, SOA, SYNTHESIZED};

#[test]
fn many_clients_are_one_lookup() {
    let mut talk = Talk::new(settings());
    for _ in 0..100 {
        talk.client_asks(A);
    }
    talk.asked_and_told(A, 0, &[A_RECORD]);
    for _ in 0..100 {
        talk.answered(A, 0, &[A_RECORD]);
    }
    talk.over();
    assert_eq!((talk.machine.stats().coalesced, talk.machine.stats().upstream_queries), (99, 1));
}

#[test]
fn they_go_on_to_a_together() {
    let mut talk = Talk::new(settings());
    for _ in 0..3 {
        talk.client_asks(AAAA);
    }
    talk.asked_and_told(AAAA, 0, &[SOA]);
    talk.client_asks(A);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    for _ in 0..3 {
        talk.answered(AAAA, 0, &[SYNTHESIZED]);
    }
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn each_gets_its_own_id_spelling_and_form() {
    let mut talk = Talk::new(settings());
    talk.client_sends(&query(1, A, None));
    talk.client_sends(&query(2, "WWW.EXAMPLE.COM A", Some((4096, false))));
    talk.asked_and_told(A, 0, &[A_RECORD, "opt"]);
    let (first, second) = (talk.answer(), talk.answer());
    let ids = [&first, &second].map(|octets| Header::parse(octets).unwrap().id);
    assert_eq!(ids, [1, 2]);
    assert_eq!(lines(&first), [A_RECORD]);
    assert_eq!(lines(&second), ["an WWW.EXAMPLE.COM 300 A 192.0.2.1", "opt 1232"]);
    talk.over();
}

#[test]
fn other_questions_are_lookups_of_their_own() {
    let mut talk = Talk::new(settings());
    talk.client_sends(&query(1, A, None));
    talk.client_sends(&query(2, A, Some((1232, true))));
    let mut checking_disabled = query(3, A, None);
    checking_disabled[3] |= Header::CD as u8;
    talk.client_sends(&checking_disabled);
    let queries: Vec<_> = (0..3).map(|_| talk.asked(A)).collect();
    let dnssec_ok = |octets: &[u8]| Message::parse(octets).unwrap().edns().unwrap().unwrap().dnssec_ok;
    assert_eq!(
        queries.iter().map(|asked| dnssec_ok(&asked.octets)).collect::<Vec<_>>(),
        [false, true, false]
    );
    for (asked, id) in queries.iter().zip(1..) {
        talk.replies(asked, 0, &[A_RECORD]);
        assert_eq!(Header::parse(&talk.answer()).unwrap().id, id);
    }
    talk.over();
}

#[test]
fn a_failure_reaches_all() {
    let mut talk = Talk::new(settings());
    for _ in 0..3 {
        talk.client_asks(A);
    }
    for _ in 0..3 {
        talk.asked(A);
        talk.wait(800 * MS);
    }
    for _ in 0..3 {
        talk.answered(A, rcode::SERVFAIL, &[]);
    }
    talk.over();
}

/// A query that joins late has its own deadline.
#[test]
fn one_that_joins_the_last_try_is_answered_by_it() {
    let mut talk = Talk::new(settings_with(|settings| settings.asking.tries = 2));
    talk.client_asks(A);
    talk.asked(A);
    talk.wait(800 * MS);
    let last = talk.asked(A);
    talk.wait(700 * MS);
    talk.client_asks(A);
    talk.replies(&last, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}
