//! Upstream servers that close, lie or say nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use streams::{Limits, Protocol, Upstream};

use crate::common::*;

/// A TCP server that does `talk` with each connection, in its turn.
fn server(talk: impl Fn(usize, TcpStream) + Send + 'static) -> Upstream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with the test's process.
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            talk(number, stream);
        }
    });
    upstream(Protocol::Tcp, address, None)
}

fn read_query(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message).ok()?;
    Some(message)
}

#[test]
fn a_server_that_closes_after_each_answer_is_asked_again() {
    let asker = Asker::new(vec![server(|_, mut stream| {
        let query = read_query(&mut stream).unwrap();
        stream.write_all(&framed(&answer(&query))).unwrap();
    })]);
    for id in 0..20 {
        let query = query(id, "a.test");
        assert_eq!(asker.ask(0, query.clone()), Some(answer(&query)));
    }
    assert_eq!(asker.streams.counts().upstreams.connections, 20);
}

#[test]
fn a_question_is_sent_again_once_when_its_connection_ends() {
    let asker = Asker::new(vec![server(|number, mut stream| {
        let query = read_query(&mut stream).unwrap();
        if number == 1 {
            stream.write_all(&framed(&answer(&query))).unwrap();
        }
    })]);
    assert!(asker.ask(0, query(1, "a.test")).is_some());
    assert_eq!(asker.ask(0, query(1, "b.test")), None, "two connections ended before the answer");
    let counts = asker.streams.counts().upstreams;
    assert!(counts.retries >= 2 && counts.failures == 1);
}

#[test]
fn a_server_that_never_answers_costs_time_only_and_is_left() {
    let asker = Asker::new(vec![server(|number, mut stream| {
        if number == 0 {
            std::thread::spawn(move || while read_query(&mut stream).is_some() {});
        } else {
            while let Some(query) = read_query(&mut stream) {
                stream.write_all(&framed(&answer(&query))).unwrap();
            }
        }
    })]);
    for _ in 0..4 {
        assert_eq!(asker.ask_briefly(0, query(1, "a.test")), None);
    }
    assert!(asker.ask(0, query(1, "a.test")).is_some(), "on a new connection");
    assert_eq!(asker.streams.counts().upstreams.timeouts, 4);
}

#[test]
fn lies_are_not_taken_for_answers() {
    let asker = Asker::new(vec![server(|_, mut stream| {
        while let Some(query) = read_query(&mut stream) {
            let mut other_id = answer(&query);
            other_id[0] ^= 1;
            let other_question = answer(&crate::common::query(0, "other.test"));
            let other_question = [&query[..2], &other_question[2..]].concat();
            for lie in [&other_id, &other_question, &query, &answer(&query)] {
                stream.write_all(&framed(lie)).unwrap();
            }
        }
    })]);
    let query = query(77, "a.test");
    assert_eq!(asker.ask(0, query.clone()), Some(answer(&query)));
    assert_eq!(asker.streams.counts().upstreams.mismatched, 3);
}

#[test]
fn ids_on_the_wire_are_unique_and_not_the_owners() {
    let asker = Asker::new(vec![server(|_, mut stream| {
        let queries: Vec<_> = (0..300).map(|_| read_query(&mut stream).unwrap()).collect();
        let ids: std::collections::HashSet<_> = queries.iter().map(|query| [query[0], query[1]]).collect();
        assert_eq!(ids.len(), 300);
        for query in &queries {
            stream.write_all(&framed(&answer(query))).unwrap();
        }
    })]);
    for token in 0..300 {
        asker.send(0, token, query(4711, "a.test"));
    }
    for _ in 0..300 {
        assert_eq!(asker.next().octets, Ok(answer(&query(4711, "a.test"))));
    }
}

#[test]
fn garbage_ends_the_connection_and_the_question() {
    for garbage in [&[0, 1, 0][..], &[0, 0], &[255, 255, 1]] {
        let asker = Asker::new(vec![server(move |_, mut stream| {
            if read_query(&mut stream).is_some() {
                stream.write_all(garbage).unwrap();
            }
        })]);
        assert_eq!(asker.ask(0, query(1, "a.test")), None);
    }
}

#[test]
fn nobody_there_is_a_failure_at_once() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let asker = Asker::new(vec![upstream(Protocol::Tcp, address, None)]);
    assert_eq!(asker.ask(0, query(1, "a.test")), None);
    assert_eq!(asker.ask(0, query(1, "a.test")), None);
    assert_eq!(asker.ask(5, query(1, "a.test")), None, "no such server");
    assert_eq!(asker.ask(0, vec![1, 2]), None, "no message");
    assert!(asker.streams.counts().upstreams.connection_failures >= 1);
}

#[test]
fn certificates_are_verified() {
    let server = Server::start(&Protocol::UPSTREAM, Limits::default(), answers);
    let stranger = Certificate::new();
    for protocol in [Protocol::Tls, Protocol::Https, Protocol::Quic] {
        let right = server.upstream(protocol, protocol.index());
        let name = Upstream { tls_name: Some("other.test".to_owned()), ..right.clone() };
        let authority = Upstream { roots: Some(stranger.roots()), ..right.clone() };
        let asker = Asker::new(vec![name, authority, right]);
        assert_eq!(asker.ask(0, query(1, "a.test")), None, "{protocol}: a wrong name");
        assert_eq!(asker.ask(1, query(1, "a.test")), None, "{protocol}: a wrong authority");
        assert!(asker.ask(2, query(1, "a.test")).is_some(), "{protocol}");
    }
}

#[test]
fn https_refusals_are_failures() {
    let server = Server::start(&[Protocol::Https], Limits::default(), answers);
    let upstream = server.upstream(Protocol::Https, 0);
    let asker = Asker::new(vec![Upstream { path: "/elsewhere".to_owned(), ..upstream }]);
    assert_eq!(asker.ask(0, query(1, "a.test")), None);
    assert_eq!(asker.streams.counts().upstreams.failures, 1);
}

#[test]
fn unusable_upstreams_are_told_at_once() {
    let streams = streams::Streams::start("test", 0, |_| {}, |_| {}).unwrap();
    let address: SocketAddr = "127.0.0.1:853".parse().unwrap();
    let roots = Certificate::new().roots();
    let good = upstream(Protocol::Https, address, Some(roots));
    for (bad, part) in [
        (Upstream { tls_name: Some("not a name".to_owned()), ..good.clone() }, "no certificate can have"),
        (Upstream { path: "no path".to_owned(), ..good.clone() }, "no path of a URI"),
        (Upstream { roots: None, ..good.clone() }, "no trusted authorities"),
    ] {
        let error = streams.set_upstreams(1, vec![good.clone(), bad]).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn two_generations_can_be_asked() {
    let server = Server::start(&[Protocol::Tcp], Limits::default(), answers);
    let asker = Asker::new(vec![server.upstream(Protocol::Tcp, 0)]);
    let ask = |generation| {
        asker.handle.ask(generation, 0, 1, query(1, "a.test"), Duration::from_secs(20));
        asker.next().octets.is_ok()
    };
    assert!(ask(1) && !ask(2));
    asker.streams.set_upstreams(2, vec![server.upstream(Protocol::Tcp, 0)]).unwrap();
    assert!(ask(1) && ask(2));
    asker.streams.set_upstreams(3, vec![server.upstream(Protocol::Tcp, 0)]).unwrap();
    assert!(!ask(1) && ask(2) && ask(3));
}
