//! Clients that are slow, silent, many, broken or gone.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use streams::{Limits, Protocol};

use crate::common::*;

fn brief() -> Limits {
    Limits { message_timeout: Duration::from_millis(100), ..Limits::default() }
}

fn read_frame(stream: &mut impl Read) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message).unwrap();
    message
}

/// Whether the server has closed the connection, cleanly or not.
fn is_closed(stream: &mut impl Read) -> bool {
    match stream.read(&mut [0; 64]) {
        Ok(octets) => octets == 0,
        Err(error) => !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
    }
}

#[test]
fn octets_that_drip_in_are_put_together() {
    let server = Server::start(&[Protocol::Tcp], Limits::default(), answers);
    let mut stream = server.tcp(0);
    stream.set_nodelay(true).unwrap();
    let frames = [framed(&query(1, "a.test")), framed(&query(2, "b.test"))].concat();
    for octet in frames {
        stream.write_all(&[octet]).unwrap();
    }
    assert_eq!(read_frame(&mut stream), answer(&query(1, "a.test")));
    assert_eq!(read_frame(&mut stream), answer(&query(2, "b.test")));
}

#[test]
fn a_client_that_has_said_all_still_gets_its_answers() {
    let server = Server::start(&[Protocol::Tcp, Protocol::Tls], Limits::default(), |_| Reaction::Keep);
    let mut stream = server.tcp(0);
    stream.write_all(&framed(&query(1, "a.test"))).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    until("the query came", || server.queries.lock().unwrap().len() == 1);
    let token = server.queries.lock().unwrap()[0].token;
    server.streams.handle().answer(token, &answer(&query(1, "a.test")));
    assert_eq!(read_frame(&mut stream), answer(&query(1, "a.test")));
    assert!(is_closed(&mut stream));
}

#[test]
fn tls_clients_may_name_the_protocol_or_none_but_no_other() {
    let server = Server::start(&[Protocol::Tls], Limits::default(), answers);
    for alpn in [&[][..], &[&b"dot"[..]]] {
        let mut stream = server.tls(0, alpn);
        stream.write_all(&framed(&query(1, "a.test"))).unwrap();
        assert_eq!(read_frame(&mut stream), answer(&query(1, "a.test")));
    }
    let mut stream = server.tls(0, &[b"h2"]);
    assert!(stream.write_all(&framed(&query(1, "a.test"))).is_err() || is_closed(&mut stream));
    until("the failure is counted", || server.streams.counts().of(Protocol::Tls).handshake_failures == 1);
}

#[test]
fn half_a_message_is_waited_for_no_longer_than_allowed() {
    let server = Server::start(&[Protocol::Tcp, Protocol::Tls], brief(), answers);
    let mut plain = server.tcp(0);
    plain.write_all(&[0]).unwrap();
    assert!(is_closed(&mut plain));
    let mut encrypted = server.tls(1, &[]);
    encrypted.write_all(&[0, 40, 1, 2, 3]).unwrap();
    assert!(is_closed(&mut encrypted));
    for protocol in [Protocol::Tcp, Protocol::Tls] {
        until("it is counted", || server.streams.counts().of(protocol).too_slow == 1);
    }
}

#[test]
fn a_slow_loris_does_not_live_by_a_query_in_progress() {
    let server = Server::start(&[Protocol::Tcp], brief(), |_| Reaction::Keep);
    let mut stream = server.tcp(0);
    stream.write_all(&[&framed(&query(1, "a.test"))[..], &[0]].concat()).unwrap();
    assert!(is_closed(&mut stream));
    assert_eq!(server.queries.lock().unwrap().len(), 1);
}

#[test]
fn handshakes_that_stand_still_end() {
    let server = Server::start(&[Protocol::Tls, Protocol::Https], brief(), answers);
    for (number, protocol) in [Protocol::Tls, Protocol::Https].into_iter().enumerate() {
        let mut stream = server.tcp(number);
        stream.write_all(&[22, 3, 1]).unwrap();
        assert!(is_closed(&mut stream));
        let mut stream = server.tcp(number);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: dns.test\r\n\r\n").unwrap();
        until("both are counted", || server.streams.counts().of(protocol).handshake_failures == 2);
    }
}

#[test]
fn frames_shorter_than_a_header_end_the_connection() {
    let server = Server::start(&[Protocol::Tcp], Limits::default(), answers);
    for garbage in [&[0, 0][..], &[0, 11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]] {
        let mut stream = server.tcp(0);
        stream.write_all(garbage).unwrap();
        assert!(is_closed(&mut stream));
    }
    until("both are counted", || server.streams.counts().of(Protocol::Tcp).malformed == 2);
    assert!(server.queries.lock().unwrap().is_empty());
}

#[test]
fn a_message_that_ends_early_is_no_message() {
    let server = Server::start(&[Protocol::Tcp], Limits::default(), answers);
    let mut stream = server.tcp(0);
    stream.write_all(&[255, 255, 1, 2, 3]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(is_closed(&mut stream));
    until("it is counted", || server.streams.counts().of(Protocol::Tcp).malformed == 1);
}

#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let server =
        Server::start(&[Protocol::Tcp], brief(), |query| Reaction::Answer(longest_answer(&query.octets)));
    let mut stream = server.tcp(0);
    let frame = framed(&query(1, "a.test"));
    while stream.write_all(&frame).is_ok() {
        if server.streams.counts().of(Protocol::Tcp).too_slow == 1 {
            break;
        }
    }
    until("it is counted", || server.streams.counts().of(Protocol::Tcp).too_slow == 1);
    until("it has gone", || server.streams.counts().of(Protocol::Tcp).open == 0);
}

#[test]
fn queries_in_progress_are_bounded() {
    let limits = Limits { pipelined: 3, ..Limits::default() };
    let server = Server::start(&[Protocol::Tcp], limits, |_| Reaction::Keep);
    let mut stream = server.tcp(0);
    for id in 0..10 {
        stream.write_all(&framed(&query(id, "a.test"))).unwrap();
    }
    let handle = server.streams.handle();
    for answered in 0..10 {
        let expected = (answered + 3).min(10);
        until("further queries are taken", || server.queries.lock().unwrap().len() == expected);
        let token = server.queries.lock().unwrap()[answered].token;
        handle.answer(token, &answer(&query(answered as u16, "a.test")));
        assert_eq!(read_frame(&mut stream), answer(&query(answered as u16, "a.test")));
    }
}

#[test]
fn connections_are_bounded_and_all_come_back() {
    let limits = Limits {
        connections: 200,
        connections_per_network: 150,
        connections_per_address: 150,
        ..Limits::default()
    };
    let server = Server::start(&[Protocol::Tcp], limits, answers);
    let mut streams: Vec<TcpStream> = (0..300).map(|_| server.tcp(0)).collect();
    let counts = || *server.streams.counts().of(Protocol::Tcp);
    until("all are looked at", || counts().accepted + counts().refused == 300);
    until("those above the limit have gone", || counts().open == 150);
    assert_eq!((counts().evicted, counts().refused), (150, 0));
    let mut served = 0;
    for stream in &mut streams {
        let sent = stream.write_all(&framed(&query(1, "a.test"))).is_ok();
        served += usize::from(sent && stream.read(&mut [0; 2]).is_ok_and(|octets| octets == 2));
    }
    assert_eq!(served, 150);
    drop(streams);
    until("all have gone", || counts().open == 0);
    let mut stream = server.tcp(0);
    stream.write_all(&framed(&query(1, "a.test"))).unwrap();
    assert_eq!(read_frame(&mut stream), answer(&query(1, "a.test")));
}

#[test]
fn answers_to_clients_that_have_gone_go_nowhere() {
    let server = Server::start(&Protocol::UPSTREAM, Limits::default(), |_| Reaction::Keep);
    let protocols = Protocol::UPSTREAM.iter().enumerate().map(|(n, &p)| server.upstream(p, n)).collect();
    let asker = Asker::new(protocols);
    for protocol in Protocol::UPSTREAM {
        asker.send(protocol.index(), 1, query(1, "a.test"));
    }
    until("all queries came", || server.queries.lock().unwrap().len() == 4);
    drop(asker);
    let have_gone =
        |protocols: &[Protocol]| protocols.iter().all(|&p| server.streams.counts().of(p).open == 0);
    until("those that can be seen to have gone", || have_gone(&[Protocol::Https, Protocol::Quic]));
    let handle = server.streams.handle();
    for query in &*server.queries.lock().unwrap() {
        handle.answer(query.token, &answer(&query.octets));
        handle.answer(query.token, &answer(&query.octets));
        handle.forget(query.token);
    }
    handle.answer(u64::MAX, &[]);
    until("all have gone", || have_gone(&Protocol::UPSTREAM));
}

#[test]
fn an_owner_that_panics_loses_one_connection() {
    let server = Server::start(&[Protocol::Tcp], Limits::default(), |query| {
        assert_ne!(query.octets[1], 13, "the panic of this test");
        answers(query)
    });
    let mut stream = server.tcp(0);
    stream.write_all(&framed(&query(13, "a.test"))).unwrap();
    assert!(is_closed(&mut stream));
    let mut stream = server.tcp(0);
    stream.write_all(&framed(&query(1, "a.test"))).unwrap();
    assert_eq!(read_frame(&mut stream), answer(&query(1, "a.test")));
    until("the first has gone", || server.streams.counts().of(Protocol::Tcp).open == 1);
}
