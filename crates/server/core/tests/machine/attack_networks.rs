//! Attacks on other networks of clients: on their rate by streams and by forged datagrams, and on their
//! queries by floods of names that nobody answers.

use dns64::wire::{Header, option_code, rcode};
use server_core::client::{Client, StreamKind};
use server_core::settings::RateLimit;

use crate::support::query;
use crate::talk::{
    Talk, extended_errors, option, query_with_options, settings_with, stream_client, udp_client,
};

const LIMIT: RateLimit = RateLimit { per_second: 1, burst: 3, slip: 2 };

/// A question that is answered at once.
const LOCAL: &str = "www.localhost A";

#[test]
fn a_stream_is_no_way_around_the_rate() {
    let kinds = [StreamKind::Tcp, StreamKind::Tls, StreamKind::Https, StreamKind::Quic];
    let mut talk = Talk::new(settings_with(|settings| settings.rate = Some(LIMIT)));
    for (token, kind) in (0u64..100).zip(kinds.into_iter().cycle()) {
        talk.sends(stream_client(token, kind), &query(0x1234, LOCAL, None));
    }
    assert_eq!((talk.sent.answers.len(), talk.sent.unanswered.len()), (3, 97));
    let stats = talk.machine.stats();
    assert_eq!((stats.rate_dropped, stats.rate_slipped, stats.accepted), (97, 0, 3));
}

#[test]
fn forged_datagrams_leave_the_streams_of_a_network_alone() {
    let mut talk = Talk::new(settings_with(|settings| settings.rate = Some(LIMIT)));
    for _ in 0..100 {
        talk.client_sends(&query(0x1234, LOCAL, None));
    }
    let truncated = |octets: &[u8]| Header::parse(octets).unwrap().has(Header::TC);
    assert!(talk.sent.answers.iter().any(|(_, octets)| truncated(octets)), "true clients are sent to TCP");
    talk.sent.answers.clear();
    talk.sends(stream_client(1, StreamKind::Tcp), &query(0x1234, LOCAL, None));
    let answer = talk.answer();
    assert_eq!((Header::parse(&answer).unwrap().rcode(), truncated(&answer)), (rcode::NOERROR, false));
}

/// The answer to a query without a cookie sends the client to TCP, so the client asks again with the cookie
/// of that answer.
#[test]
fn attack_forged_datagrams_do_not_close_out_a_client_with_a_server_cookie() {
    let mut talk = Talk::new(settings_with(|settings| settings.rate = Some(LIMIT)));
    let asked_with = |cookie: &[u8]| query_with_options(LOCAL, &[(option_code::COOKIE, cookie)]);
    let forged = [&b"FORGED__"[..], &[9; 16]].concat();
    for _ in 0..100 {
        talk.client_sends(&asked_with(&forged));
    }
    let (_, truncated) = talk.sent.answers.pop_front().unwrap();
    let cookie = option(&truncated, option_code::COOKIE).unwrap();
    talk.sent.answers.clear();
    for _ in 0..100 {
        talk.client_sends(&asked_with(&cookie));
    }
    let flags: Vec<bool> =
        talk.sent.answers.iter().map(|(_, octets)| Header::parse(octets).unwrap().has(Header::TC)).collect();
    assert_eq!(flags, [false; 3], "the rate holds for proven addresses, too, and TCP has the same bucket");
    let elsewhere = from([10, 0, 2, 1]);
    talk.sent.answers.clear();
    for _ in 0..4 {
        talk.sends(elsewhere, &asked_with(&cookie));
    }
    talk.sends(stream_client(1, StreamKind::Tcp), &query(0x1234, LOCAL, None));
    assert_eq!(talk.sent.answers.len(), 3, "the cookie proves one address, and streams share its bucket");
}

/// A client of this address.
fn from(address: [u8; 4]) -> Client {
    Client { address: (address, 5300).into(), ..udp_client() }
}

/// Random names below one domain, whose servers do not answer: the zone takes its part of the table, and the
/// questions for other zones find room.
#[test]
fn attack_a_flood_of_one_zone_leaves_room_for_others() {
    for domain in ["victim.example", "victim.co.example", "a.b.victim.example"] {
        let mut talk = Talk::new(settings_with(|settings| {
            (settings.in_flight, settings.in_flight_per_zone) = (16, 8);
        }));
        for number in 0..200u8 {
            let words = format!("x{number}.{domain} A");
            talk.sends(from([10, 0, 1, 1]), &query(0x1234, &words, Some((1232, false))));
        }
        let started = talk.sent.queries.len();
        assert!(started == 8 || domain != "victim.example" && started == 4, "{domain}: {started}");
        assert_eq!(
            (talk.sent.answers.len(), talk.machine.stats().zone_limited),
            (200 - started, 200 - started as u64)
        );
        let answer = talk.answer();
        assert_eq!(Header::parse(&answer).unwrap().rcode(), rcode::SERVFAIL);
        assert_eq!(extended_errors(&answer), [14]);
        talk.sent.answers.clear();
        talk.sent.queries.clear();
        for words in ["www.other.example A", "www.elsewhere.net A"] {
            talk.sends(from([10, 0, 1, 2]), &query(0x1234, words, None));
            talk.asked(words);
        }
        assert_eq!(talk.machine.stats().evicted, 0, "{domain}");
    }
}

/// The zone itself may be alive: networks that ask little there find a place, the flood gives it up.
#[test]
fn attack_a_flood_of_one_zone_does_not_close_out_other_networks() {
    let mut talk = Talk::new(settings_with(|settings| {
        (settings.in_flight, settings.in_flight_per_zone) = (16, 4);
    }));
    let words = "www.victim.example A";
    for number in 0..50u8 {
        talk.sends(from([10, 0, 1, number]), &query(1, &format!("x{number}.victim.example A"), None));
    }
    talk.sent.queries.clear();
    talk.sent.answers.clear();
    talk.sends(from([10, 0, 2, 1]), &query(0x1234, words, None));
    let asked = talk.asked(words);
    assert_eq!((talk.machine.stats().evicted, talk.machine.in_flight()), (1, 4));
    talk.replies(&asked, 0, &[]);
    talk.answered(words, 0, &[]);
    // The flood takes the place again, but no place of a network that holds as few.
    talk.sends(from([10, 0, 1, 1]), &query(1, "y.victim.example A", None));
    talk.sends(from([10, 0, 1, 1]), &query(1, "z.victim.example A", None));
    let stats = talk.machine.stats();
    assert_eq!((stats.evicted, stats.zone_limited, talk.machine.in_flight()), (1, 47, 4));
}

/// Names that nobody knows, asked for without end: the table of queries in flight fills up, and the flood
/// gives up its own queries, not those of others.
#[test]
fn a_flood_of_names_does_not_push_out_the_queries_of_another_network() {
    let mut talk = Talk::new(settings_with(|settings| settings.in_flight = 8));
    let words = "slow.example A";
    talk.sends(from([10, 0, 0, 1]), &query(0x1234, words, None));
    let asked = talk.asked(words);
    for number in 0..200u8 {
        talk.sends(from([10, 0, 1, number]), &query(1, &format!("x{number}.victim.example A"), None));
    }
    talk.sent.queries.clear();
    assert_eq!(talk.machine.stats().evicted, 193);
    talk.replies(&asked, 0, &[]);
    talk.answered(words, 0, &[]);
}
