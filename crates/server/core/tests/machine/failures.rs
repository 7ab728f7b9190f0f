//! Failures that are remembered (RFC 9520).

use dns64::wire::rcode;

use crate::support::query;
use crate::talk::{MS, S, Talk, extended_errors, settings, settings_with};
use crate::{A, A_RECORD, AAAA, SOA};

/// Lets all tries of a question end.
fn stay_silent(talk: &mut Talk, words: &str) {
    for _ in 0..3 {
        talk.asked(words);
        talk.wait(800 * MS);
    }
}

fn ask_with_edns(talk: &mut Talk, words: &str) {
    talk.client_sends(&query(0x1234, words, Some((1232, false))));
}

#[test]
fn a_silent_server_is_not_asked_again_at_once() {
    let mut talk = Talk::with_cache(settings());
    ask_with_edns(&mut talk, A);
    stay_silent(&mut talk, A);
    assert_eq!(extended_errors(&talk.answer()), [22]);
    ask_with_edns(&mut talk, A);
    let answer = talk.answer();
    assert_eq!(answer[3] & 0x0f, rcode::SERVFAIL);
    assert_eq!(extended_errors(&answer), [22, 13]);
    talk.over();
    assert_eq!(talk.machine.stats().failure_hits, 1);
}

#[test]
fn each_failure_counts_twice_as_long_as_the_one_before() {
    let mut talk = Talk::with_cache(settings());
    for life_s in [1, 2, 4] {
        talk.client_asks(A);
        talk.asked_and_told(A, rcode::SERVFAIL, &[]);
        talk.answered(A, rcode::SERVFAIL, &[]);
        talk.wait(life_s * S - 1);
        talk.client_asks(A);
        talk.answered(A, rcode::SERVFAIL, &[]);
        talk.wait(1);
    }
    talk.client_asks(A);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn a_success_ends_the_doubling() {
    let mut talk = Talk::with_cache(settings());
    for _ in 0..2 {
        for record in ["", "an www.example.com 1 A 192.0.2.1"] {
            talk.client_asks(A);
            let records = if record.is_empty() { vec![] } else { vec![record] };
            talk.asked_and_told(A, if record.is_empty() { rcode::REFUSED } else { 0 }, &records);
            talk.answer();
            talk.wait(S);
        }
    }
    talk.over();
}

#[test]
fn a_remembered_failure_of_aaaa_leads_to_a() {
    let mut talk = Talk::with_cache(settings());
    for round in 0..2 {
        talk.client_asks(AAAA);
        if round == 0 {
            // Once more with CD: it is no verdict.
            talk.asked_and_told(AAAA, rcode::SERVFAIL, &[]);
            talk.asked_and_told(AAAA, rcode::SERVFAIL, &[]);
            talk.asked_and_told(A, 0, &[A_RECORD]);
        }
        talk.answered(AAAA, 0, &["an www.example.com 300 AAAA 2001:db8:64::c000:201"]);
    }
    talk.over();
}

/// An address that was found forged is not got around, neither now nor from what is remembered (RFC 6147
/// 5.5).
#[test]
fn nothing_is_synthesized_over_a_remembered_bogus_answer() {
    for cause in [6u8, 7, 12] {
        let mut talk = Talk::with_cache(settings());
        talk.client_asks(A);
        talk.asked_and_told(A, 0, &[A_RECORD]);
        talk.answered(A, 0, &[A_RECORD]);
        for round in 0..3 {
            ask_with_edns(&mut talk, AAAA);
            if round == 0 {
                talk.asked_and_told(AAAA, rcode::SERVFAIL, &[&format!("opt 00 0f 00 02 00 {cause:02x}")]);
            }
            let answer = talk.answer();
            assert_eq!(answer[3] & 0x0f, rcode::SERVFAIL);
            let expected: &[u16] = if round == 0 { &[cause.into()] } else { &[cause.into(), 13] };
            assert_eq!(extended_errors(&answer), expected);
        }
        talk.over();
        assert_eq!(talk.machine.stats().failure_hits, 2);
    }
}

/// The verdict stands beside other extended errors.
#[test]
fn the_verdict_on_forged_data_is_found_among_other_errors() {
    let mut talk = Talk::with_cache(settings());
    for round in 0..2 {
        talk.client_asks(AAAA);
        if round == 0 {
            let errors = "opt 00 0f 00 02 00 16 00 0f 00 02 00 09";
            talk.asked_and_told(AAAA, rcode::SERVFAIL, &[errors]);
        }
        talk.answered(AAAA, rcode::SERVFAIL, &[]);
    }
    talk.over();
}

#[test]
fn a_failure_of_a_is_remembered_too() {
    let mut talk = Talk::with_cache(settings());
    for round in 0..2 {
        talk.client_asks(AAAA);
        if round == 0 {
            talk.asked_and_told(AAAA, 0, &[SOA]);
            talk.asked_and_told(A, rcode::REFUSED, &[]);
            talk.answered(AAAA, rcode::REFUSED, &[]);
        } else {
            talk.answered(AAAA, rcode::SERVFAIL, &[]);
        }
    }
    talk.over();
}

#[test]
fn the_first_time_is_the_operators() {
    let mut talk = Talk::with_cache(settings_with(|settings| settings.caching.failure_ttl_s = 30));
    talk.client_asks(A);
    talk.asked_and_told(A, rcode::SERVFAIL, &[]);
    talk.answer();
    talk.wait(29 * S);
    talk.client_asks(A);
    talk.answered(A, rcode::SERVFAIL, &[]);
    talk.wait(S);
    talk.client_asks(A);
    talk.asked(A);
}

/// Of the AAAA question that is, not of the A question that follows it.
#[test]
fn only_the_question_that_failed_before_says_so() {
    let mut talk = Talk::with_cache(settings());
    talk.client_asks(AAAA);
    talk.asked_and_told(AAAA, rcode::SERVFAIL, &[]);
    talk.asked_and_told(AAAA, rcode::SERVFAIL, &[]);
    talk.asked_and_told(A, 0, &["an www.example.com 0 A 192.0.2.1"]);
    talk.answer();
    ask_with_edns(&mut talk, AAAA);
    stay_silent(&mut talk, A);
    assert_eq!(extended_errors(&talk.answer()), [22]);
    talk.over();
}
