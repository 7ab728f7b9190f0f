//! Cookies both ways (RFC 7873, RFC 9018).

use dns64::wire::{Header, option_code, rcode};
use server_core::client::Client;

use crate::talk::{
    ClientQuery, Talk, option, query_with_options, settings, settings_for, settings_with, udp_client,
};
use crate::{A, A_RECORD};

const COOKIE: u16 = option_code::COOKIE;
const SERVER_COOKIE: [u8; 8] = [0x5e; 8];

/// The OPT record of a reply with this COOKIE option, in words.
fn opt_with(cookie: &[u8]) -> String {
    let octets: Vec<String> = cookie.iter().map(|octet| format!("{octet:02x}")).collect();
    format!("opt 00 0a 00 {:02x} {}", cookie.len(), octets.join(" "))
}

/// What a server that has cookies sends back.
fn good_cookie(asked: &ClientQuery) -> String {
    opt_with(&[&asked.cookie().unwrap()[..8], &SERVER_COOKIE].concat())
}

#[test]
fn a_client_gets_a_server_cookie_that_is_good_later() {
    let mut talk = Talk::with_cache(settings());
    talk.client_sends(&query_with_options(A, &[(COOKIE, b"CLIENT__")]));
    talk.asked_and_told(A, 0, &[A_RECORD]);
    let given = option(&talk.answer(), COOKIE).unwrap();
    assert!(given.starts_with(b"CLIENT__") && given.len() == 24);
    for sent in [&given[..], &[given[..23].to_vec(), vec![0]].concat()] {
        talk.client_sends(&query_with_options(A, &[(COOKIE, sent)]));
        let answer = talk.answer();
        assert_eq!(option(&answer, COOKIE).unwrap(), given, "good or bad, a good one comes back");
        assert_eq!(answer[3] & 0x0f, 0);
    }
    let elsewhere = Client { address: "[::1]:5301".parse().unwrap(), ..udp_client() };
    talk.sends(elsewhere, &query_with_options(A, &[(COOKIE, &given)]));
    assert_eq!(option(&talk.answer(), COOKIE).unwrap(), given, "the port does not count");
    talk.over();
}

#[test]
fn a_malformed_cookie_is_an_error() {
    let mut talk = Talk::new(settings());
    for length in [0, 7, 9, 15, 41] {
        talk.client_sends(&query_with_options(A, &[(COOKIE, &vec![1; length])]));
        assert_eq!(Header::parse(&talk.answer()).unwrap().rcode(), rcode::FORMERR, "{length} octets");
    }
    talk.over();
}

#[test]
fn nobody_gets_cookies_where_they_are_switched_off() {
    let mut talk = Talk::new(settings_with(|settings| {
        (settings.cookies, settings.asking.cookies) = (false, false);
    }));
    talk.client_sends(&query_with_options(A, &[(COOKIE, b"CLIENT__")]));
    let asked = talk.asked_and_told(A, 0, &[A_RECORD]);
    assert_eq!(asked.cookie(), None);
    assert_eq!(option(&talk.answer(), COOKIE), None);
    talk.over();
}

#[test]
fn the_cookie_of_a_server_goes_into_the_next_query_to_it() {
    let mut talk = Talk::new(settings_for(2));
    let mut servers = std::collections::HashMap::new();
    for _ in 0..12 {
        talk.client_asks(A);
        let asked = talk.asked(A);
        let sent = asked.cookie().unwrap();
        match servers.insert(asked.upstream, sent[..8].to_vec()) {
            Some(known) => assert_eq!(sent, [&known[..], &SERVER_COOKIE].concat()),
            None => assert_eq!(sent.len(), 8),
        }
        talk.replies(&asked, 0, &[A_RECORD, &good_cookie(&asked)]);
        talk.answered(A, 0, &[A_RECORD]);
    }
    assert_ne!(servers[&0], servers[&1], "no server sees what another one gets");
    talk.over();
}

/// A machine whose server has sent a cookie, and another query to it.
fn known_to_have_cookies() -> (Talk, ClientQuery) {
    let mut talk = Talk::new(settings());
    talk.client_asks(A);
    let asked = talk.asked(A);
    talk.replies(&asked, 0, &[A_RECORD, &good_cookie(&asked)]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.client_asks(A);
    let asked = talk.asked(A);
    (talk, asked)
}

#[test]
fn an_answer_without_the_cookie_is_forged_and_the_stream_tells_the_truth() {
    for forgery in [opt_with(&[&[9; 8][..], &SERVER_COOKIE].concat()), "opt".to_owned()] {
        let (mut talk, asked) = known_to_have_cookies();
        talk.replies(&asked, 0, &["an www.example.com 300 A 192.0.2.66", &forgery]);
        assert!(talk.sent.answers.is_empty());
        let over_stream = talk.asked(A);
        assert!(over_stream.is_stream() && over_stream.cookie() == asked.cookie());
        talk.replies(&over_stream, 0, &[A_RECORD, &good_cookie(&over_stream)]);
        talk.answered(A, 0, &[A_RECORD]);
        talk.client_asks(A);
        let asked = talk.asked(A);
        assert_eq!(asked.cookie().unwrap().len(), 16, "it has cookies still");
        assert_eq!(talk.machine.stats().upstream_mismatched, 1);
    }
}

#[test]
fn a_server_that_gave_cookies_up_is_understood_after_one_stream() {
    let (mut talk, asked) = known_to_have_cookies();
    talk.replies(&asked, 0, &[A_RECORD, "opt"]);
    talk.asked_and_told(A, 0, &[A_RECORD, "opt"]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.client_asks(A);
    let asked = talk.asked_and_told(A, 0, &[A_RECORD, "opt"]);
    assert!(!asked.is_stream() && asked.cookie().unwrap().len() == 8);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn a_server_that_wants_a_better_cookie_is_asked_over_a_stream() {
    let mut talk = Talk::new(settings());
    talk.client_asks(A);
    let asked = talk.asked(A);
    let mut octets = asked.reply((rcode::BADCOOKIE & 0x0f) as u8, &[&good_cookie(&asked)]);
    let extended_at = octets.len() - 20 - 6;
    octets[extended_at] = (rcode::BADCOOKIE >> 4) as u8;
    talk.server_sends(&asked, &octets);
    let over_stream = talk.asked(A);
    assert!(over_stream.is_stream() && over_stream.cookie().unwrap().len() == 16);
    talk.replies(&over_stream, 0, &[A_RECORD, &good_cookie(&over_stream)]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn servers_asked_over_streams_get_no_cookies() {
    let mut talk = Talk::new(settings_with(|settings| settings.upstreams[0].stream_only = true));
    talk.client_asks(A);
    assert_eq!(talk.asked(A).cookie(), None);
}
