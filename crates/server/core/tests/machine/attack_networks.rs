//! Attacks on other networks of clients: on their rate by streams and by forged datagrams, and on their
//! queries by floods of names that nobody answers.

use dns64::wire::{Header, option_code, rcode};
use server_core::Settings;
use server_core::client::{Client, StreamKind};
use server_core::settings::{AQuery, RateLimit};

use crate::support::query;
use crate::talk::{
    ClientQuery, MS, Talk, TryTransport, extended_errors, option, query_with_options, settings,
    settings_with, stream_client, udp_client,
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

/// What the fairness of tables is tested with: far more than any number of entries that is looked at.
const LARGE: usize = 1_000;

/// A client of the network of this number, which is not that of a flood.
fn from_network(number: usize) -> Client {
    from([10, 1, number as u8, 1])
}

/// One network asks for so many names.
fn flood(talk: &mut Talk, names: std::ops::Range<usize>, ending: &str) {
    for number in names {
        talk.sends(from([10, 0, 1, 1]), &query(1, &format!("x{number}.{ending}"), None));
    }
}

/// Queries of this many networks wait, and are answered at last, whatever `flood` does in between.
fn light_networks_are_answered(settings: Settings, networks: usize, ending: &str, flood: impl Fn(&mut Talk)) {
    let mut talk = Talk::new(settings);
    let words = |number| format!("www{number}.{ending}");
    for number in 0..networks {
        talk.sends(from_network(number), &query(0x1234, &words(number), None));
    }
    let asked: Vec<ClientQuery> = talk.sent.queries.drain(..).collect();
    assert!(asked.len() >= networks);
    flood(&mut talk);
    talk.sent.queries.clear();
    talk.sent.answers.clear();
    for asked in &asked {
        talk.replies(asked, rcode::NXDOMAIN, &[]);
    }
    let answered = talk.sent.answers.iter().filter(|(client, _)| client.address.ip() != FLOODING).count();
    assert_eq!(answered, networks);
}

const FLOODING: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 1, 1));

/// The oldest queries are those of others, more of them than any window: the flood gives up its own all the
/// same.
#[test]
fn attack_a_flood_does_not_push_out_the_oldest_queries_of_many_networks() {
    let settings = settings_with(|settings| settings.in_flight = LARGE);
    light_networks_are_answered(settings, 200, "slow.example A", |talk| {
        flood(talk, 0..3 * LARGE, "victim.example A");
        assert_eq!(talk.machine.stats().evicted as usize, 200 + 2 * LARGE);
    });
}

/// Each query for AAAA has two lookups, so that the lookups end their room before the queries do.
#[test]
fn attack_a_flood_of_two_lookups_for_each_query_gives_up_its_own() {
    let settings = settings_with(|settings| {
        settings.in_flight = LARGE;
        settings.in_flight_per_zone = LARGE;
        settings.asking.a_query = AQuery::Together;
    });
    light_networks_are_answered(settings, 200, "slow.example AAAA", |talk| {
        flood(talk, 0..LARGE - 300, "victim.example AAAA");
        assert_eq!((talk.machine.in_flight(), talk.machine.stats().evicted), (LARGE, 0));
    });
}

/// The oldest lookups of the zone are those of others: a light network finds a place there.
#[test]
fn attack_a_flood_of_one_zone_does_not_hide_behind_the_lookups_of_others() {
    let mut talk = Talk::new(settings_with(|settings| {
        (settings.in_flight, settings.in_flight_per_zone) = (LARGE, LARGE / 2);
    }));
    for number in 0..200 {
        let words = format!("www{number}.victim.example A");
        talk.sends(from_network(number), &query(1, &words, None));
    }
    flood(&mut talk, 0..LARGE, "victim.example A");
    talk.sent.queries.clear();
    let words = "www.victim.example A";
    talk.sends(from_network(250), &query(0x1234, words, None));
    talk.asked(words);
    assert_eq!((talk.machine.in_flight(), talk.machine.stats().evicted), (LARGE / 2, 1));
}

/// Every name of the flood is asked twice: what several of its clients wait for is the flood's all the same.
#[test]
fn attack_a_flood_that_asks_twice_is_given_up_too() {
    let mut talk = Talk::new(settings_with(|settings| {
        (settings.in_flight, settings.in_flight_per_zone) = (LARGE, LARGE / 2);
    }));
    (0..2).for_each(|_| flood(&mut talk, 0..LARGE / 2, "victim.example A"));
    talk.sent.queries.clear();
    let words = "www.victim.example A";
    talk.sends(from_network(1), &query(0x1234, words, None));
    talk.asked(words);
}

/// Random names below several domains fill one server, none of them its zone: a light network finds a place,
/// and the flood is told that there is none.
#[test]
fn attack_a_flood_at_one_server_does_not_close_out_other_networks() {
    let mut talk = Talk::with_cache(settings_with(|settings| {
        (settings.in_flight, settings.in_flight_per_zone) = (2 * LARGE, LARGE);
        settings.upstreams[0].in_flight = LARGE;
    }));
    flood(&mut talk, 0..LARGE / 2, "victim.example A");
    flood(&mut talk, 0..LARGE / 2, "victim.net A");
    let refused = "refused.victim.org A";
    talk.sent.queries.clear();
    talk.sends(from([10, 0, 1, 1]), &query(1, refused, Some((1232, false))));
    assert_eq!(extended_errors(&talk.answer()), [14]);
    talk.silent();
    let words = "www.example.com A";
    talk.sends(from_network(1), &query(0x1234, words, None));
    let asked = talk.asked(words);
    let stats = talk.machine.stats();
    assert_eq!((stats.evicted, stats.server_limited, talk.machine.in_flight()), (1, 1, LARGE));
    talk.replies(&asked, 0, &[]);
    talk.answered(words, 0, &[]);
    // That there was no room says nothing about the name.
    talk.sends(from_network(1), &query(0x1234, refused, None));
    talk.asked(refused);
}

/// A try that finds the server full, because of a limit of our own, is no failure of the name (RFC 9520).
#[test]
fn attack_a_full_server_is_not_remembered_as_a_failure_of_the_name() {
    let mut talk = Talk::with_cache(settings_with(|settings| settings.upstreams[0].in_flight = 1));
    let words = "www.example.com A";
    talk.client_asks(words);
    talk.asked(words);
    // Probes are asked beyond the limit.
    let now_ns = talk.now_ns;
    talk.machine.probe(now_ns, true, &mut talk.sent);
    talk.sent.queries.clear();
    talk.wait(800 * MS);
    talk.answered(words, rcode::SERVFAIL, &[]);
    talk.client_asks(words);
    talk.asked(words);
    assert_eq!(talk.machine.stats().failure_hits, 0);
}

/// Streams that are full say nothing about the server, which would be left out otherwise, nor about the name.
#[test]
fn attack_a_full_stream_is_neither_silence_nor_a_failure_of_the_name() {
    let mut talk = Talk::with_cache(settings_with(|settings| settings.upstreams[0].stream_only = true));
    for round in 0..40 {
        let words = "www.example.com A";
        talk.client_asks(words);
        let asked = talk.asked(words);
        let TryTransport::Stream { token } = asked.way else { panic!("{asked:?}") };
        talk.machine.handle_upstream_stream_full(talk.now_ns, token, &mut talk.sent);
        talk.answered(words, rcode::SERVFAIL, &[]);
        assert_eq!(talk.machine.stats().server_limited, round + 1);
    }
    assert!(talk.machine.upstream_counts(talk.now_ns).all(|counts| !counts.down && counts.timeouts == 0));
    assert!(talk.sent.notices.is_empty());
    talk.over();
}

/// A question that is refused takes a token, so that the rate holds for it, too.
#[test]
fn attack_refusals_are_within_the_rate() {
    for words in [LOCAL, "www.example TYPE251", "www.example TYPE128"] {
        let mut talk = Talk::new(settings_with(|settings| settings.rate = Some(LIMIT)));
        let mut octets = query(0x1234, words, None);
        if words == LOCAL {
            // RD.
            octets[2] = 0;
        }
        (0..100).for_each(|_| talk.client_sends(&octets));
        let stats = talk.machine.stats();
        assert_eq!((talk.sent.answers.len(), stats.refused, stats.rate_dropped), (3, 3, 97), "{words}");
        assert_eq!(talk.sent.unanswered.len(), 97);
        talk.sent.answers.clear();
        talk.over();
    }
}

/// Somebody writes the address of a victim outside `allow` into queries: the victim gets next to nothing.
#[test]
fn attack_refusals_of_strangers_are_no_reflector() {
    let mut talk = Talk::new(settings());
    for number in 0..10_000u32 {
        let stranger = from((0xc000_0200 | number & 0xff).to_be_bytes());
        talk.sends(stranger, &query(0x1234, "www.example A", Some((1232, false))));
    }
    let stats = *talk.machine.stats();
    assert_eq!((talk.sent.answers.len(), stats.refused, stats.strangers_dropped), (16, 16, 9_984));
    let refusal = talk.answer();
    assert_eq!(
        (Header::parse(&refusal).unwrap().rcode(), extended_errors(&refusal)),
        (rcode::REFUSED, vec![18])
    );
    // A client of `allow` is answered.
    talk.sent.answers.clear();
    talk.client_sends(&query(0x1234, LOCAL, None));
    assert_eq!(talk.sent.answers.len(), 1);
}
