//! Attacks on memory: clients that send long queries, or ask for long answers and do not take them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use streams::message::QUERY_OCTETS_MAX;
use streams::{Limits, Protocol};

use crate::attack::{asker, connect, host};
use crate::common::*;

/// One network asks for the longest answers on all its connections and takes none. What waits stays within
/// the bound, and another client gets its answers, the longest, too.
#[test]
fn attack_long_answers_that_nobody_takes_stay_within_the_bound() {
    let limits = Limits {
        connections: 64,
        connections_per_network: 64,
        connections_per_address: 64,
        pipelined: 4,
        idle: PATIENCE,
        message_timeout: PATIENCE,
    };
    let most = limits.waiting_octets_max() as u64;
    assert_eq!(most, 8 << 20);
    // An answer of each thread of the server and of the owner may be counted before a connection has ended.
    let most = most + (1 + CLIENT_THREADS as u64) * (64 << 10);
    let server =
        Server::start(&[Protocol::Tcp], limits, |query| Reaction::Answer(longest_answer(&query.octets)));
    let queries = framed(&query(1, "long.test")).repeat(64);
    let client = asker(&server, &[Protocol::Tcp], host(2, 1));
    let expected = longest_answer(&query(5, "a.test"));
    let mut attackers: Vec<TcpStream> = Vec::new();
    let (began, mut fullest) = (Instant::now(), 0);
    // The limits of connections are never reached.
    while server.streams.counts().of(Protocol::Tcp).evicted < 20 {
        assert!(began.elapsed() < PATIENCE, "the budget is never used up: {fullest}");
        attackers.truncate(45);
        for _ in 0..5 {
            let mut attacker = connect(&server, 0, host(1, 1));
            attacker.write_all(&queries).unwrap();
            attackers.insert(0, attacker);
        }
        let waiting = server.streams.counts().waiting_octets;
        assert!(waiting <= most, "{waiting} octets wait");
        fullest = fullest.max(waiting);
        assert!(client.ask(0, query(5, "a.test")).as_ref() == Some(&expected), "the client is answered");
    }
    assert_eq!(client.streams.counts().upstreams.connections, 1, "the client's connection was never cut");
    drop((attackers, client));
    until("nothing waits any more", || server.streams.counts().waiting_octets == 0);
}

/// What waits is let go of over every protocol, whether the client takes it or leaves.
#[test]
fn attack_clients_that_leave_leave_nothing_behind() {
    let server = Server::start(&Protocol::UPSTREAM, Limits::default(), |query| match query.token % 3 {
        0 => Reaction::Forget,
        1 => Reaction::Keep,
        _ => Reaction::Answer(longest_answer(&query.octets)),
    });
    for protocol in Protocol::UPSTREAM {
        let asker = Asker::new(vec![server.upstream(protocol, protocol.index())]);
        for token in 0..30 {
            asker.handle.ask(1, 0, token, query(1, &format!("n{token}.test")), Duration::from_millis(300));
        }
        (0..30).for_each(|_| drop(asker.next()));
    }
    let kept: Vec<u64> = server.queries.lock().unwrap().iter().map(|query| query.token).collect();
    kept.into_iter().for_each(|token| server.streams.handle().forget(token));
    until("nothing waits any more", || server.streams.counts().waiting_octets == 0);
}

/// A query longer than any is refused before it is read.
#[test]
fn attack_a_long_query_over_tcp_is_not_waited_for() {
    let server = Server::start(&[Protocol::Tcp], Limits::default(), answers);
    let mut stream = server.tcp(0);
    stream.write_all(&(QUERY_OCTETS_MAX as u16 + 1).to_be_bytes()).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "the connection ends");
    until("it is counted", || server.streams.counts().of(Protocol::Tcp).malformed == 1);
    assert!(server.queries.lock().unwrap().is_empty());
}
