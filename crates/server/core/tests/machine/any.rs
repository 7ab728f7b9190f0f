//! Any traffic, in any order.

use std::collections::HashMap;

use dns64::wire::Header;
use proptest::prelude::*;
use server_core::Settings;
use server_core::client::{Channel, Client, StreamKind};
use server_core::settings::{AQuery, RateLimit};

use crate::support::query;
use crate::talk::{ClientQuery, MS, S, Talk, settings_for, stream_client, udp_client};

/// Lookups and clients' queries in flight at most.
const IN_FLIGHT: usize = 5;

#[derive(Clone, Debug)]
enum Event {
    /// A client sends octets.
    Client(Vec<u8>),
    /// A client asks.
    Query(Question),
    /// Octets come to an upstream server's socket.
    Server(usize, usize, Vec<u8>),
    /// A server answers one of the queries so far, with flags and a tail.
    Mangled(usize, u8, Vec<u8>),
    /// A server answers one of the queries so far, with one of [`REPLIES`].
    Reply(usize, usize),
    StreamEnds(usize),
    Unreachable(usize),
    Wait(u64),
}

#[derive(Clone, Debug)]
struct Question {
    words: &'static str,
    edns: bool,
    flags: u8,
    over_stream: bool,
}

const QUESTIONS: [&str; 9] = [
    "www.example.com AAAA",
    "www.example.com AAAA",
    "www.example.com AAAA",
    "www.example.com A",
    "WWW.example.com MX",
    "a.www.example.com AAAA",
    "www.example.com ANY",
    "ipv4only.arpa AAAA",
    "1.0.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa PTR",
];

const REPLIES: [(u8, &[&str]); 9] = [
    (0, &["ns example.com 20 SOA 20"]),
    (0, &["an www.example.com 20 AAAA 2001:db8::1"]),
    (0, &["an www.example.com 2 AAAA ::ffff:192.0.2.1", "opt"]),
    (0, &["an www.example.com 20 A 192.0.2.1"]),
    (0, &["an www.example.com 20 CNAME a.example.com", "an a.example.com 20 A 192.0.2.1"]),
    (2, &[]),
    (2, &["opt 00 0f 00 02 00 06"]),
    (3, &["ns example.com 20 SOA 20"]),
    (5, &[]),
];

fn any_question() -> impl Strategy<Value = Question> {
    let flags = prop::sample::select(vec![0u8, 0x10, 0x20]);
    (0..QUESTIONS.len(), any::<bool>(), flags, any::<bool>()).prop_map(
        |(question, edns, flags, over_stream)| Question {
            words: QUESTIONS[question],
            edns,
            flags,
            over_stream,
        },
    )
}

fn any_event() -> impl Strategy<Value = Event> {
    let octets = || prop::collection::vec(any::<u8>(), 0..80);
    prop_oneof![
        1 => octets().prop_map(Event::Client),
        4 => any_question().prop_map(Event::Query),
        1 => (0usize..4, 0usize..4, octets())
            .prop_map(|(upstream, socket, octets)| Event::Server(upstream, socket, octets)),
        2 => (any::<usize>(), any::<u8>(), octets())
            .prop_map(|(which, flags, tail)| Event::Mangled(which, flags, tail)),
        4 => (any::<usize>(), 0..REPLIES.len()).prop_map(|(which, reply)| Event::Reply(which, reply)),
        1 => any::<usize>().prop_map(Event::StreamEnds),
        1 => (0usize..4).prop_map(Event::Unreachable),
        2 => (0u64..1_000).prop_map(Event::Wait),
    ]
}

/// What differs between machines.
fn any_settings() -> impl Strategy<Value = Settings> {
    let a_query = prop::sample::select(vec![AQuery::Afterwards, AQuery::Together, AQuery::WhenLate]);
    (1usize..4, any::<[bool; 5]>(), a_query, 1usize..4).prop_map(|(servers, switches, a_query, limit)| {
        let [case_randomization, stream_only, cookies, stale, limited] = switches;
        let mut settings = settings_for(servers);
        settings.in_flight = IN_FLIGHT;
        settings.asking.ports = 2;
        (settings.asking.case_randomization, settings.asking.cookies) = (case_randomization, cookies);
        settings.asking.a_query = a_query;
        settings.upstreams[0].stream_only = stream_only;
        if !stale {
            settings.caching.stale = None;
        }
        if limited {
            settings.upstreams[0].in_flight = limit;
            settings.in_flight_per_zone = limit;
            settings.rate = Some(RateLimit { per_second: 5, burst: 10, slip: 2 });
        }
        settings
    })
}

/// The answer to one of the queries seen so far: the right head, then anything.
fn mangled(asked: &ClientQuery, flags: u8, tail: &[u8]) -> Vec<u8> {
    let mut octets = asked.head();
    octets[2] = 0x80 | flags & 0x02;
    octets[3] = flags & 0x0f;
    for (at, count) in [7, 9, 11].into_iter().zip([flags >> 4 & 1, flags >> 5 & 1, flags >> 6 & 1]) {
        octets[at] = count;
    }
    octets.extend(tail);
    octets
}

fn play(talk: &mut Talk, asked: &mut Vec<ClientQuery>, event: Event, token: u64) {
    let one = |which: usize| asked.get(which % asked.len().max(1)).cloned();
    match event {
        Event::Client(octets) => talk.client_sends(&octets),
        Event::Query(Question { words, edns, flags, over_stream }) => {
            let mut octets = query(7, words, edns.then_some((1232, true)));
            octets[3] |= flags;
            let client = if over_stream { stream_client(token, StreamKind::Tls) } else { udp_client() };
            talk.sends(client, &octets);
        }
        Event::Server(upstream, socket, octets) => {
            talk.machine.handle_upstream(talk.now_ns, upstream, socket, &octets, &mut talk.sent);
        }
        Event::Mangled(which, flags, tail) => {
            one(which)
                .into_iter()
                .for_each(|asked| talk.server_sends(&asked, &mangled(&asked, flags, &tail)));
        }
        Event::Reply(which, reply) => {
            let (rcode, records) = REPLIES[reply];
            one(which).into_iter().for_each(|asked| talk.replies(&asked, rcode, records));
        }
        Event::StreamEnds(which) => {
            one(which).into_iter().filter(ClientQuery::is_stream).for_each(|asked| talk.stream_ends(&asked));
        }
        Event::Unreachable(upstream) => {
            talk.machine.handle_upstream_unreachable(talk.now_ns, upstream);
        }
        Event::Wait(ms) => talk.wait(ms * MS),
    }
    asked.extend(talk.sent.queries.drain(..));
}

/// How often each query over a stream ended.
fn ends_by_token(talk: &Talk) -> HashMap<u64, u32> {
    let answered = talk.sent.answers.iter().map(|(client, _)| client);
    let mut ends = HashMap::new();
    for client in answered.chain(&talk.sent.unanswered) {
        if let Client { channel: Channel::Stream { token, .. }, .. } = client {
            *ends.entry(*token).or_insert(0) += 1;
        }
    }
    ends
}

proptest! {
    /// Whatever clients and servers send, nothing panics, no slot leaks and every query ends exactly once.
    #[test]
    fn any_traffic_ends_in_peace(
        settings in any_settings(),
        remembers: bool,
        events in prop::collection::vec(any_event(), 0..120),
    ) {
        let mut talk = if remembers { Talk::with_cache(settings) } else { Talk::new(settings) };
        let mut asked = Vec::new();
        for (token, event) in (0u64..).zip(events) {
            play(&mut talk, &mut asked, event, token);
            prop_assert!(talk.machine.in_flight() <= IN_FLIGHT && talk.machine.waiting() <= IN_FLIGHT);
        }
        talk.wait(3_600 * S);
        asked.extend(talk.sent.queries.drain(..));
        prop_assert!(ends_by_token(&talk).values().all(|&ends| ends == 1));
        let ended = (talk.sent.answers.len() + talk.sent.unanswered.len()) as u64;
        let stats = *talk.machine.stats();
        prop_assert_eq!(ended, stats.client_messages);
        talk.sent.answers.clear();
        talk.over();
        // Every ID is free again: late answers find nothing.
        for asked in asked.iter().filter(|asked| !asked.is_stream()) {
            talk.server_sends(asked, &mangled(asked, 0, &[]));
        }
        let udp = asked.iter().filter(|asked| !asked.is_stream()).count() as u64;
        prop_assert_eq!(talk.machine.stats().upstream_unexpected - stats.upstream_unexpected, udp);
    }

    /// Whoever asks, an answer to a client has the head of its query and can be read to its end.
    #[test]
    fn answers_are_well_formed(
        settings in any_settings(),
        events in prop::collection::vec(any_event(), 0..60),
    ) {
        let mut talk = Talk::with_cache(settings);
        let mut asked = Vec::new();
        for (token, event) in (0u64..).zip(events) {
            let is_query = matches!(event, Event::Query(_));
            play(&mut talk, &mut asked, event, token);
            for (_, octets) in talk.sent.answers.drain(..) {
                prop_assert!(Header::parse(&octets).unwrap().has(Header::QR));
                let parsed = domain::base::Message::from_octets(&octets[..]).unwrap();
                prop_assert!(!is_query || parsed.iter().all(|record| record.is_ok()));
            }
        }
    }
}
