//! What is kept of replies, and how it comes back.

use dns64::wire::{Header, rcode};

use crate::support::{lines, query};
use crate::talk::{S, Talk, extended_errors, settings, settings_with};
use crate::{A, A_RECORD, AAAA, AAAA_RECORD, SOA, SYNTHESIZED};

/// A machine that has asked for A and been told.
fn one_known() -> Talk {
    let mut talk = Talk::with_cache(settings());
    talk.client_asks(A);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk
}

/// A machine that has asked for AAAA, then A, and synthesized.
fn one_synthesized() -> Talk {
    let mut talk = Talk::with_cache(settings());
    talk.client_asks(AAAA);
    talk.asked_and_told(AAAA, 0, &[SOA]);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(AAAA, 0, &[SYNTHESIZED]);
    talk
}

#[test]
fn a_reply_is_kept_for_its_ttl_which_falls() {
    let mut talk = one_known();
    for left_s in [200, 100] {
        talk.wait(100 * S);
        talk.client_asks(A);
        talk.answered(A, 0, &[&format!("an www.example.com {left_s} A 192.0.2.1")]);
    }
    talk.wait(100 * S);
    talk.client_asks(A);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
    let stats = talk.machine.stats();
    assert_eq!((stats.cache_hits, stats.cache_misses, stats.stale_answers), (2, 2, 0));
}

#[test]
fn the_spelling_is_that_of_each_client() {
    let mut talk = one_known();
    talk.client_asks("WWW.Example.com A");
    talk.answered("WWW.Example.com A", 0, &["an WWW.Example.com 300 A 192.0.2.1"]);
    talk.over();
}

/// What is kept is what servers said, not what was made of it.
#[test]
fn synthesis_is_done_anew_with_the_ttls_that_are_left() {
    let mut talk = one_synthesized();
    talk.wait(10 * S);
    talk.client_asks(AAAA);
    talk.answered(AAAA, 0, &["an www.example.com 20 AAAA 2001:db8:64::c000:201"]);
    talk.client_asks(A);
    talk.answered(A, 0, &["an www.example.com 290 A 192.0.2.1"]);
    talk.over();
}

#[test]
fn an_expired_denial_is_asked_for_and_the_address_is_not() {
    let mut talk = one_synthesized();
    talk.wait(30 * S);
    talk.client_asks(AAAA);
    talk.asked_and_told(AAAA, 0, &[SOA]);
    talk.answered(AAAA, 0, &[SYNTHESIZED]);
    talk.over();
}

#[test]
fn negative_replies_are_kept_as_long_as_their_soa_says() {
    for code in [rcode::NXDOMAIN, 0] {
        let mut talk = Talk::with_cache(settings_with(|settings| settings.caching.prefetch = false));
        let words = "www.example.com MX";
        talk.client_asks(words);
        talk.asked_and_told(words, code, &[SOA]);
        talk.answered(words, code, &[SOA]);
        talk.wait(29 * S);
        talk.client_asks(words);
        talk.answered(words, code, &["ns example.com 1 SOA 30"]);
        talk.wait(S);
        talk.client_asks(words);
        talk.asked_and_told(words, code, &[]);
        talk.answered(words, code, &[]);
        talk.client_asks(words);
        talk.asked_and_told(words, code, &[SOA]);
        talk.answered(words, code, &[SOA]);
        talk.over();
    }
}

#[test]
fn questions_that_differ_in_do_or_cd_have_entries_of_their_own() {
    let mut talk = one_known();
    talk.client_sends(&query(0x1234, A, Some((1232, true))));
    talk.asked_and_told(A, 0, &[A_RECORD, "an www.example.com 300 RRSIG A"]);
    assert_eq!(lines(&talk.answer()).len(), 3);
    let mut checking_disabled = query(0x1234, A, None);
    checking_disabled[3] |= Header::CD as u8;
    talk.client_sends(&checking_disabled);
    talk.asked_and_told(A, 0, &["an www.example.com 300 A 192.0.2.66"]);
    assert_eq!(lines(&talk.answer()), ["an www.example.com 300 A 192.0.2.66"]);
    talk.client_asks(A);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn ttls_are_cut_to_the_limit() {
    let mut talk = Talk::with_cache(settings_with(|settings| settings.caching.ttl_max_s = 100));
    talk.client_asks(A);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answer();
    talk.wait(99 * S);
    talk.client_asks(A);
    talk.answered(A, 0, &["an www.example.com 1 A 192.0.2.1"]);
    talk.wait(S);
    talk.client_asks(A);
    talk.asked_and_told(A, 0, &[A_RECORD]);
}

#[test]
fn an_entry_that_is_asked_for_near_its_end_is_renewed_once() {
    let mut talk = one_known();
    talk.wait(271 * S);
    for _ in 0..2 {
        talk.client_asks(A);
        talk.answered(A, 0, &["an www.example.com 29 A 192.0.2.1"]);
    }
    talk.asked_and_told(A, 0, &["an www.example.com 300 A 192.0.2.2"]);
    talk.silent();
    talk.client_asks(A);
    talk.answered(A, 0, &["an www.example.com 300 A 192.0.2.2"]);
    talk.over();
    assert_eq!(talk.machine.stats().prefetches, 1);
}

#[test]
fn a_client_that_comes_too_late_for_the_entry_waits_for_its_renewal() {
    let mut talk = one_known();
    talk.wait(299 * S + 500_000_000);
    talk.client_asks(A);
    talk.answered(A, 0, &["an www.example.com 1 A 192.0.2.1"]);
    let renewal = talk.asked(A);
    talk.wait(S / 2);
    talk.client_asks(A);
    talk.silent();
    talk.replies(&renewal, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn nothing_is_renewed_where_that_is_switched_off() {
    let mut talk = Talk::with_cache(settings_with(|settings| settings.caching.prefetch = false));
    talk.client_asks(A);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answer();
    talk.wait(290 * S);
    talk.client_asks(A);
    talk.answer();
    talk.over();
}

/// The server of [`A`] says NXDOMAIN, with AD.
fn securely_denied(talk: &mut Talk) {
    talk.client_asks(A);
    let asked = talk.asked(A);
    let mut reply = asked.reply(rcode::NXDOMAIN, &[SOA]);
    reply[3] |= Header::AD as u8;
    talk.server_sends(&asked, &reply);
    talk.answered(A, rcode::NXDOMAIN, &[SOA]);
}

/// RFC 8020: a name that does not exist has no names below it, where that is secure.
#[test]
fn a_name_that_does_not_exist_denies_those_below() {
    for (switched_on, trusted) in [(true, true), (true, false), (false, true)] {
        let mut talk = Talk::with_cache(settings_with(|settings| {
            settings.caching.nxdomain_cut = switched_on;
            settings.upstreams[0].trust_ad = trusted;
        }));
        securely_denied(&mut talk);
        for words in ["a.b.www.example.com AAAA", "www.example.com AAAA"] {
            talk.client_asks(words);
            if !switched_on || !trusted {
                talk.asked_and_told(words, rcode::NXDOMAIN, &[SOA]);
                talk.answered(words, rcode::NXDOMAIN, &[SOA]);
            } else {
                talk.answered(words, rcode::NXDOMAIN, &["ns example.com 30 SOA 30"]);
            }
        }
        talk.client_asks("wwww.example.com A");
        talk.asked("wwww.example.com A");
    }
}

/// An old NXDOMAIN must not deny a name that is known to exist now.
#[test]
fn a_name_that_exists_again_denies_nothing() {
    let mut talk = Talk::with_cache(settings_with(|settings| settings.upstreams[0].trust_ad = true));
    let below = "a.www.example.com A";
    securely_denied(&mut talk);
    let mut checking_disabled = query(1, AAAA, None);
    checking_disabled[3] |= Header::CD as u8;
    talk.client_sends(&checking_disabled);
    talk.asked_and_told(AAAA, 0, &[AAAA_RECORD]);
    talk.answer();
    talk.wait(30 * S);
    talk.client_asks(below);
    talk.asked(below);
}

#[test]
fn extended_errors_of_servers_come_back_from_the_cache() {
    let mut talk = Talk::with_cache(settings());
    for round in 0..2 {
        talk.client_sends(&query(0x1234, A, Some((1232, false))));
        if round == 0 {
            talk.asked_and_told(A, 0, &[A_RECORD, "opt 00 0f 00 02 00 04"]);
        }
        assert_eq!(extended_errors(&talk.answer()), [4], "forged answer, says the server");
    }
    talk.over();
}
