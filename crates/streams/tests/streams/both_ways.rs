//! Our client asks our server, over every protocol.

use std::collections::HashSet;
use std::time::Duration;

use streams::message::QUERY_OCTETS_MAX;
use streams::{Limits, Protocol};

use crate::common::*;

#[test]
fn questions_are_answered_with_their_own_ids() {
    let server = Server::start(&Protocol::UPSTREAM, Limits::default(), answers);
    let upstreams = Protocol::UPSTREAM.iter().enumerate().map(|(n, &p)| server.upstream(p, n)).collect();
    let asker = Asker::new(upstreams);
    for protocol in Protocol::UPSTREAM {
        for id in [0x1234, 0, 0xffff] {
            let query = query(id, "www.example.test");
            assert_eq!(asker.ask(protocol.index(), query.clone()), Some(answer(&query)), "{protocol}");
        }
        let counts = server.streams.counts();
        let of = counts.of(protocol);
        assert_eq!((of.queries, of.answers, of.accepted), (3, 3, 1), "{protocol}: one connection for all");
    }
    for query in &*server.queries.lock().unwrap() {
        assert_eq!(query.listener, query.protocol.index());
        assert!(query.client.ip().is_loopback());
        if matches!(query.protocol, Protocol::Quic | Protocol::Https) {
            assert_eq!(query.octets[..2], [0, 0], "the ID is 0 over {}", query.protocol);
        }
    }
    let counts = asker.streams.counts().upstreams;
    assert_eq!((counts.asked, counts.answered, counts.connections), (12, 12, 4));
}

#[test]
fn many_questions_share_a_connection() {
    let limits = Limits { pipelined: 50, ..Limits::default() };
    let server = Server::start(&Protocol::UPSTREAM, limits, answers);
    for protocol in Protocol::UPSTREAM {
        let asker = Asker::new(vec![server.upstream(protocol, protocol.index())]);
        for token in 0..500 {
            asker.send(0, token, query(token as u16, &format!("host{token}.example.test")));
        }
        let mut tokens = HashSet::new();
        for _ in 0..500 {
            let got = asker.next();
            let expected = answer(&query(got.token as u16, &format!("host{}.example.test", got.token)));
            assert_eq!(got.octets, Ok(expected), "{protocol}");
            tokens.insert(got.token);
        }
        assert_eq!(tokens.len(), 500);
        assert_eq!(asker.streams.counts().upstreams.connections, 1, "{protocol}");
    }
}

#[test]
fn the_longest_queries_and_answers_pass() {
    let server = Server::start(&Protocol::UPSTREAM, Limits::default(), |query| {
        Reaction::Answer(longest_answer(&query.octets))
    });
    for protocol in Protocol::UPSTREAM {
        let asker = Asker::new(vec![server.upstream(protocol, protocol.index())]);
        let mut query = query(5, "long.test");
        let expected = longest_answer(&query);
        query.resize(QUERY_OCTETS_MAX, 0);
        assert_eq!(asker.ask(0, query), Some(expected), "{protocol}");
    }
}

#[test]
fn answers_may_come_in_any_order() {
    let server = Server::start(&Protocol::UPSTREAM, Limits::default(), |_| Reaction::Keep);
    for protocol in Protocol::UPSTREAM {
        let asker = Asker::new(vec![server.upstream(protocol, protocol.index())]);
        for token in 0..10 {
            asker.send(0, token, query(1, &format!("n{token}.test")));
        }
        let mine = || {
            let queries = server.queries.lock().unwrap();
            queries.iter().filter(|query| query.protocol == protocol).cloned().collect::<Vec<_>>()
        };
        until("all queries came", || mine().len() == 10);
        for query in mine().iter().rev() {
            server.streams.handle().answer(query.token, &answer(&query.octets));
        }
        let mut tokens: Vec<u64> = (0..10).map(|_| asker.next()).map(|answer| answer.token).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, (0..10).collect::<Vec<_>>(), "{protocol}");
    }
}

#[test]
fn a_forgotten_query_fails_at_once_where_the_protocol_can_say_so() {
    let server = Server::start(&Protocol::UPSTREAM, Limits::default(), |_| Reaction::Forget);
    let upstreams = Protocol::UPSTREAM.iter().enumerate().map(|(n, &p)| server.upstream(p, n)).collect();
    let asker = Asker::new(upstreams);
    for protocol in Protocol::UPSTREAM {
        assert_eq!(asker.ask_briefly(protocol.index(), query(1, "a.test")), None, "{protocol}");
    }
    let counts = asker.streams.counts().upstreams;
    assert_eq!((counts.failures, counts.timeouts), (2, 2));
}

#[test]
fn the_address_is_a_name_as_well() {
    let server = Server::start(&Protocol::UPSTREAM, Limits::default(), answers);
    for protocol in [Protocol::Tls, Protocol::Https, Protocol::Quic] {
        let upstream = server.upstream(protocol, protocol.index());
        let asker = Asker::new(vec![streams::Upstream { tls_name: None, ..upstream }]);
        assert!(asker.ask(0, query(1, "a.test")).is_some(), "{protocol}");
    }
}

#[test]
fn questions_leave_from_the_source_address() {
    let server = Server::start(&Protocol::UPSTREAM, Limits::default(), answers);
    let source = "127.0.0.77".parse().unwrap();
    for protocol in Protocol::UPSTREAM {
        let upstream = server.upstream(protocol, protocol.index());
        let asker = Asker::new(vec![streams::Upstream { source: Some(source), ..upstream }]);
        assert!(asker.ask(0, query(1, "a.test")).is_some(), "{protocol}");
    }
    assert!(server.queries.lock().unwrap().iter().all(|query| query.client.ip() == source));
}

#[test]
fn idle_connections_are_closed_and_made_anew() {
    let limits = Limits { idle: Duration::from_millis(50), ..Limits::default() };
    let server = Server::start(&Protocol::UPSTREAM, limits, answers);
    for protocol in Protocol::UPSTREAM {
        let asker = Asker::new(vec![server.upstream(protocol, protocol.index())]);
        for _ in 0..3 {
            assert!(asker.ask(0, query(1, "a.test")).is_some(), "{protocol}");
            until("the server closes it", || server.streams.counts().of(protocol).open == 0);
        }
        assert_eq!(server.streams.counts().of(protocol).accepted, 3, "{protocol}");
    }
}
