//! Listeners and certificates that change while clients are connected.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use streams::{Limits, ListenError, ListenSocket, Listener, Protocol, ServerTls, Upstream};

use crate::common::*;

fn kept(server: &Server, protocol: Protocol, old: usize, number: usize) -> Listener {
    let socket = ListenSocket::Kept(server.addresses[old]);
    Listener { protocol, number, socket, path: PATH.to_owned() }
}

/// The listeners of all protocols, which go on under numbers from `first` on.
fn all_kept(server: &Server, first: usize) -> Vec<Listener> {
    Protocol::UPSTREAM
        .map(|protocol| kept(server, protocol, protocol.index(), first + protocol.index()))
        .into()
}

fn show(server: &Server, certificate: &Certificate) {
    server.streams.listen(all_kept(server, 0), Some(certificate.tls()), Limits::default()).unwrap();
}

#[test]
fn kept_listeners_go_on_under_new_numbers() {
    let server = Server::start(&Protocol::UPSTREAM, Limits::default(), answers);
    let upstreams = Protocol::UPSTREAM.iter().enumerate().map(|(n, &p)| server.upstream(p, n)).collect();
    let asker = Asker::new(upstreams);
    let ask_all = || {
        for protocol in Protocol::UPSTREAM {
            assert!(asker.ask(protocol.index(), query(1, "a.test")).is_some(), "{protocol}");
        }
    };
    ask_all();
    server.streams.listen(all_kept(&server, 10), None, Limits::default()).unwrap();
    ask_all();
    assert_eq!(asker.streams.counts().upstreams.connections, 4, "running connections go on");
    let queries = server.queries.lock().unwrap();
    assert!(queries[4..].iter().all(|query| query.listener == 10 + query.protocol.index()));
}

#[test]
fn removed_listeners_accept_no_more_and_end_when_idle() {
    let server = Server::start(&Protocol::UPSTREAM, Limits::default(), |query| {
        if query.octets.ends_with(b"\x04last\0\0\x1c\0\x01") { Reaction::Keep } else { answers(query) }
    });
    let upstreams: Vec<Upstream> =
        Protocol::UPSTREAM.iter().enumerate().map(|(n, &p)| server.upstream(p, n)).collect();
    let asker = Asker::new(upstreams.clone());
    for protocol in Protocol::UPSTREAM {
        assert!(asker.ask(protocol.index(), query(1, "first")).is_some());
        asker.send(protocol.index(), 1, query(1, "last"));
    }
    until("the last queries came", || server.queries.lock().unwrap().len() == 8);
    server.streams.listen(Vec::new(), None, Limits::default()).unwrap();
    for query in &*server.queries.lock().unwrap() {
        server.streams.handle().answer(query.token, &answer(&query.octets));
    }
    for _ in Protocol::UPSTREAM {
        assert!(asker.next().octets.is_ok(), "queries in progress are still answered");
    }
    until("all connections end", || {
        Protocol::UPSTREAM.iter().all(|&p| server.streams.counts().of(p).open == 0)
    });
    let late = Asker::new(upstreams);
    for protocol in Protocol::UPSTREAM {
        assert_eq!(late.ask(protocol.index(), query(1, "first")), None, "{protocol}");
    }
}

#[test]
fn a_set_that_cannot_be_served_changes_nothing() {
    let server = Server::start(&[Protocol::Tcp], Limits::default(), answers);
    let (quic, _) = listener(Protocol::Quic, 1);
    let wrong = Listener { protocol: Protocol::Tls, ..quic };
    let error = server.streams.listen(vec![wrong], None, Limits::default()).unwrap_err();
    assert!(matches!(error, ListenError::WrongSocket(Protocol::Tls)), "{error}");
    let absent = kept(&server, Protocol::Quic, 0, 1);
    let error = server.streams.listen(vec![absent], None, Limits::default()).unwrap_err();
    assert!(matches!(error, ListenError::NotRunning(Protocol::Quic, _)), "{error}");
    let asker = Asker::new(vec![server.upstream(Protocol::Tcp, 0)]);
    assert!(asker.ask(0, query(1, "a.test")).is_some());

    let bare = streams::Streams::start("test", 1, |_| {}, |_| {}).unwrap();
    let error = bare.listen(vec![listener(Protocol::Https, 0).0], None, Limits::default()).unwrap_err();
    assert!(matches!(error, ListenError::NoCertificate(Protocol::Https)), "{error}");
    bare.stop();
}

#[test]
fn a_new_certificate_is_shown_in_new_handshakes_only() {
    let server = Server::start(&Protocol::UPSTREAM, Limits::default(), answers);
    let next = Certificate::new();
    for protocol in [Protocol::Tls, Protocol::Https, Protocol::Quic] {
        show(&server, &server.certificate);
        let old = server.upstream(protocol, protocol.index());
        let new = Upstream { roots: Some(next.roots()), ..old.clone() };
        let asker = Asker::new(vec![old.clone(), old, new.clone(), new]);
        assert!(asker.ask(0, query(1, "a.test")).is_some());
        assert!(asker.ask(2, query(1, "a.test")).is_none());
        show(&server, &next);
        assert!(asker.ask(0, query(1, "a.test")).is_some(), "{protocol}: on the running connection");
        assert!(asker.ask(1, query(1, "a.test")).is_none(), "{protocol}: the old one is not shown any more");
        assert!(asker.ask(3, query(1, "a.test")).is_some(), "{protocol}: the new one is");
    }
}

#[test]
fn new_limits_count_for_new_connections() {
    let server = Server::start(&[Protocol::Tcp], Limits::default(), answers);
    let none = Limits { connections: 0, ..Limits::default() };
    server.streams.listen(vec![kept(&server, Protocol::Tcp, 0, 0)], None, none).unwrap();
    assert_eq!(server.tcp(0).read(&mut [0; 1]).unwrap_or(0), 0, "closed at once");
    assert_eq!(server.streams.counts().of(Protocol::Tcp).refused, 1);
}

#[test]
fn the_end_ends_everything() {
    let server = Server::start(&Protocol::UPSTREAM, Limits::default(), answers);
    let upstreams = Protocol::UPSTREAM.iter().enumerate().map(|(n, &p)| server.upstream(p, n)).collect();
    let asker = Asker::new(upstreams);
    for protocol in Protocol::UPSTREAM {
        assert!(asker.ask(protocol.index(), query(1, "a.test")).is_some());
    }
    let mut stream = server.tcp(0);
    let (handle, address) = (server.streams.handle(), server.addresses[0]);
    server.streams.stop();
    assert!(!stream.read(&mut [0; 1]).is_ok_and(|octets| octets > 0));
    assert!(TcpStream::connect(address).is_err());
    handle.answer(1, &[0; 12]);
    handle.ask(1, 0, 1, query(1, "a.test"), Duration::from_secs(1));
    for protocol in Protocol::UPSTREAM {
        assert_eq!(asker.ask_briefly(protocol.index(), query(1, "a.test")), None, "{protocol}");
    }
    drop(stream.write(&[0]));
}

#[test]
fn unusable_certificates_are_told_apart() {
    let (good, other) = (Certificate::new(), Certificate::new());
    for (certificate, key, part) in [
        ("", good.key.as_str(), "no usable certificate"),
        ("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", &good.key, "no usable certificate"),
        (&good.certificate, "", "no usable private key"),
        (&good.certificate, &other.key, "cannot be used together"),
    ] {
        let error = ServerTls::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let error =
        ServerTls::load("/nowhere/a.pem".as_ref(), "/nowhere/b.pem".as_ref()).unwrap_err().to_string();
    assert!(error.contains("/nowhere/a.pem"), "{error}");
}
