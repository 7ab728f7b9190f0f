//! Answers after their end of life (RFC 8767).

use dns64::wire::rcode;

use crate::support::{lines, query};
use crate::talk::{MS, S, Talk, extended_errors, settings, settings_with};
use crate::{A, A_RECORD, AAAA, AAAA_RECORD, SOA, SYNTHESIZED};

const STALE_A: &str = "an www.example.com 30 A 192.0.2.1";

/// A machine that has known a reply until some time ago.
fn once_known(words: &str, records: &[&str]) -> Talk {
    let mut talk = Talk::with_cache(settings());
    talk.client_asks(words);
    talk.asked_and_told(words, 0, records);
    talk.answered(words, 0, records);
    talk.wait(1_000 * S);
    talk
}

/// A machine that has known a AAAA denial and an address until some time ago.
fn once_synthesized() -> Talk {
    let mut talk = Talk::with_cache(settings());
    talk.client_asks(AAAA);
    talk.asked_and_told(AAAA, 0, &[SOA]);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(AAAA, 0, &[SYNTHESIZED]);
    talk.wait(1_000 * S);
    talk
}

#[test]
fn a_client_waits_for_its_timer_and_gets_the_stale_answer() {
    let mut talk = once_known(A, &[A_RECORD]);
    talk.client_sends(&query(0x1234, A, Some((1232, false))));
    talk.asked(A);
    talk.wait(800 * MS);
    talk.asked(A);
    talk.wait(800 * MS);
    let last = talk.asked(A);
    talk.wait(200 * MS - 1);
    talk.silent();
    talk.wait(1);
    let answer = talk.answer();
    assert_eq!(
        (lines(&answer), extended_errors(&answer)),
        (vec![STALE_A.into(), "opt 1232".into()], vec![3])
    );
    assert_eq!((talk.machine.waiting(), talk.machine.in_flight()), (0, 1), "the lookup goes on");
    talk.replies(&last, 0, &[A_RECORD]);
    talk.client_asks(A);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
    assert_eq!(talk.machine.stats().stale_answers, 1);
}

#[test]
fn a_fresh_answer_in_time_is_preferred() {
    let mut talk = once_known(A, &[A_RECORD]);
    talk.client_asks(A);
    let asked = talk.asked(A);
    talk.wait(799 * MS);
    talk.replies(&asked, 0, &["an www.example.com 300 A 192.0.2.9"]);
    talk.answered(A, 0, &["an www.example.com 300 A 192.0.2.9"]);
    talk.over();
}

#[test]
fn a_failure_leads_to_the_stale_answer_at_once_and_so_does_a_remembered_one() {
    for code in [rcode::SERVFAIL, rcode::REFUSED] {
        let mut talk = once_known(A, &[A_RECORD]);
        talk.client_asks(A);
        talk.asked_and_told(A, code, &[]);
        talk.answered(A, 0, &[STALE_A]);
        talk.client_asks(A);
        talk.answered(A, 0, &[STALE_A]);
        talk.over();
    }
}

#[test]
fn a_bogus_answer_is_not_got_around_by_a_stale_one() {
    let mut talk = once_known(A, &[A_RECORD]);
    talk.client_asks(A);
    talk.asked_and_told(A, rcode::SERVFAIL, &["opt 00 0f 00 02 00 06"]);
    talk.answered(A, rcode::SERVFAIL, &[]);
    talk.client_asks(A);
    talk.answered(A, rcode::SERVFAIL, &[]);
    talk.over();
}

#[test]
fn a_name_that_did_not_exist_does_not_exist_still() {
    let mut talk = Talk::with_cache(settings());
    talk.client_asks(A);
    talk.asked_and_told(A, rcode::NXDOMAIN, &[SOA]);
    talk.answer();
    talk.wait(100 * S);
    talk.client_sends(&query(0x1234, A, Some((1232, false))));
    talk.asked_and_told(A, rcode::SERVFAIL, &[]);
    let answer = talk.answer();
    assert_eq!((answer[3] & 0x0f, extended_errors(&answer)), (rcode::NXDOMAIN, vec![19]));
    talk.over();
}

/// The denial of AAAA is not forgotten because nobody confirms it any more.
#[test]
fn a_stale_answer_is_synthesized_by_timer() {
    let mut talk = once_synthesized();
    talk.client_sends(&query(0x1234, AAAA, Some((1232, false))));
    talk.asked(AAAA);
    talk.wait(1_800 * MS);
    let answer = talk.answer();
    assert_eq!(lines(&answer), [SYNTHESIZED, "opt 1232"]);
    assert_eq!(extended_errors(&answer), [3, 29]);
}

#[test]
fn a_stale_answer_is_synthesized_where_a_fails() {
    let mut talk = once_synthesized();
    talk.client_asks(AAAA);
    talk.asked_and_told(AAAA, 0, &[SOA]);
    talk.asked_and_told(A, rcode::SERVFAIL, &[]);
    talk.answered(AAAA, 0, &[SYNTHESIZED]);
    talk.over();
}

#[test]
fn a_stale_denial_lets_a_fresh_address_be_asked_for() {
    let mut talk = once_synthesized();
    talk.client_asks(AAAA);
    talk.asked_and_told(AAAA, rcode::SERVFAIL, &[]);
    talk.asked_and_told(AAAA, rcode::SERVFAIL, &[]);
    talk.asked_and_told(A, 0, &["an www.example.com 20 A 192.0.2.9"]);
    talk.answered(AAAA, 0, &["an www.example.com 20 AAAA 2001:db8:64::c000:209"]);
    talk.over();
}

/// A site with both protocols must not be led through NAT64 by a failure that passes.
#[test]
fn a_stale_native_address_is_preferred_to_synthesis_after_a_failure() {
    let stale = "an www.example.com 30 AAAA 2001:db8::1";
    let mut talk = once_known(AAAA, &[AAAA_RECORD]);
    talk.client_asks(AAAA);
    talk.asked_and_told(AAAA, rcode::SERVFAIL, &[]);
    talk.answered(AAAA, 0, &[stale]);
    talk.client_asks(AAAA);
    talk.answered(AAAA, 0, &[stale]);
    talk.over();
}

#[test]
fn what_is_too_old_is_not_given() {
    let mut talk = once_known(A, &[A_RECORD]);
    talk.wait(86_400 * S);
    talk.client_asks(A);
    talk.asked_and_told(A, rcode::SERVFAIL, &[]);
    talk.answered(A, rcode::SERVFAIL, &[]);
    talk.over();
}

#[test]
fn nothing_stale_is_given_where_that_is_switched_off() {
    let mut talk = Talk::with_cache(settings_with(|settings| settings.caching.stale = None));
    talk.client_asks(A);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answer();
    talk.wait(301 * S);
    talk.client_asks(A);
    talk.asked_and_told(A, rcode::SERVFAIL, &[]);
    talk.answered(A, rcode::SERVFAIL, &[]);
    talk.over();
}

/// A query that goes on to A keeps its place among those that wait.
#[test]
fn the_timer_counts_from_the_query_whatever_was_asked_since() {
    let mut talk = once_synthesized();
    talk.client_asks(AAAA);
    let aaaa = talk.asked(AAAA);
    talk.wait(500 * MS);
    talk.client_asks("other.example.com A");
    talk.asked("other.example.com A");
    talk.replies(&aaaa, 0, &[SOA]);
    talk.asked(A);
    talk.wait(1_300 * MS);
    talk.answered(AAAA, 0, &[SYNTHESIZED]);
}
