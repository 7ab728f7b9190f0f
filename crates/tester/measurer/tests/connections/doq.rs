//! The same over QUIC.

use super::quic::{Behaviour, QuicServer};
use super::*;

use quinn_proto::Dir;

/// A certificate for DNS over QUIC, or for another protocol.
pub fn quic_certificate(alpn: &str) -> (ServerConfig, String) {
    let (config, pem) = certificate();
    let mut config = ServerConfig::clone(&config);
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    (config, pem)
}

fn over_quic(connections: usize, server: SocketAddr, options: &TlsOptions) -> StreamConfig {
    let tls = Tls::new(Protocol::Doq, options, server.ip()).unwrap();
    StreamConfig { protocol: Protocol::Doq, tls: Some(tls), ..streams(connections) }
}

/// A server whose clients may have so many streams at a time, and the way to it by four connections.
fn server(behaviour: Behaviour, streams: u32) -> (QuicServer, StreamConfig) {
    let server = QuicServer::start(behaviour, workload(), (quic_certificate("doq").0, streams));
    let config = over_quic(4, server.address, &TlsOptions::default());
    (server, config)
}

#[test]
fn each_query_has_its_stream_and_its_answer() {
    for behaviour in [Behaviour::Answer, Behaviour::InPieces] {
        for pipelined in [true, false] {
            let (server, config) = server(behaviour, 100);
            let (stats, seen) = tried(&plan(server.address, StreamConfig { pipelined, ..config }, 2000));
            assert_eq!((stats.valid, server.queries()), (400, 400), "{behaviour:?} {stats:?}");
            assert_eq!((seen.opened, seen.opened_before, seen.closed_by_server), (4, 4, 0));
            assert_eq!((stats.unexpected, stats.duplicates), (0, 0));
            assert_eq!((seen.handshake_ns.len(), seen.connect_ns.len()), (4, 0));
            assert_eq!(server.seen.wrong.load(Ordering::Relaxed), 0);
            assert_eq!(server.close_code(), 0, "DOQ_NO_ERROR");
        }
    }
}

#[test]
fn queries_wait_for_a_stream_where_the_server_allows_few() {
    // It allows the next one when the answer is acknowledged, which may take 25 ms (RFC 9000 13.2.1).
    let (server, config) = server(Behaviour::Answer, 1);
    let (stats, seen) = tried(&plan(server.address, config, 10_000));
    assert_eq!((stats.valid, server.queries()), (400, 400), "{:?}", stats.broken);
    assert!(seen.waiting_ns.len() > 100, "{}", seen.waiting_ns.len());

    // A server that never closes a stream: the others are taken back after twice the timeout.
    let (server, config) = self::server(Behaviour::Silent, 2);
    let (stats, _) = tried(&plan(server.address, config, 60));
    let full = stats.broken[&Breakdown::FlowControl];
    assert!(stats.broken.len() == 1 && full > 300, "{:?}", stats.broken);
    assert!(stats.sent >= 16 && server.seen.stopped.load(Ordering::Relaxed) >= 8, "{}", stats.sent);
}

#[test]
fn connections_end_and_sessions_are_resumed_where_asked() {
    let (config, pem) = quic_certificate("doq");
    let directory = tempfile::tempdir().unwrap();
    let authorities = directory.path().join("ca.pem");
    std::fs::write(&authorities, pem).unwrap();
    for (trust, resumption) in [(Trust::Anyone, true), (Trust::Authorities(authorities), false)] {
        let server = QuicServer::start(Behaviour::Answer, workload(), (config.clone(), 100));
        let options = TlsOptions { trust, name: Some(NAME.to_owned()), resumption };
        let streams =
            StreamConfig { queries_each: QueriesEach::fixed(20), ..over_quic(4, server.address, &options) };
        let (stats, seen) = tried(&plan(server.address, streams, 1000));
        assert_eq!((stats.valid, server.queries()), (400, 400), "{:?}", seen.handshake_failures);
        assert_eq!(seen.opened, server.seen.connections.load(Ordering::Relaxed));
        assert_eq!(seen.resumed, if resumption { seen.opened - 4 } else { 0 });
        assert_eq!(server.close_code(), 0);
    }
}

#[test]
fn what_the_server_ends_is_lost_with_its_code() {
    let (server, config) = server(Behaviour::ResetEach(5, 1), 100);
    let (stats, seen) = tried(&plan(server.address, config, 1000));
    assert_eq!((stats.valid, stats.broken), (320, lost([(Breakdown::StreamReset, 80)])));
    assert_eq!((seen.refusals, seen.closed_by_server), ([("DOQ_INTERNAL_ERROR".into(), 80)].into(), 0));

    for (code, why, name) in
        [(0, Breakdown::Closed, "DOQ_NO_ERROR"), (4, Breakdown::Reset, "DOQ_EXCESSIVE_LOAD")]
    {
        let (server, config) = self::server(Behaviour::CloseAt(4, code), 100);
        let config = StreamConfig { pipelined: false, ..config };
        let (stats, seen) = tried(&plan(server.address, config, 1000));
        // The fifth query of each connection, and those that wait behind it.
        assert!(stats.broken.len() == 1 && stats.broken[&why] >= 80, "{:?}", stats.broken);
        assert_eq!(
            (stats.valid + stats.broken[&why], stats.valid + seen.closed_by_server),
            (400, server.queries())
        );
        assert_eq!(seen.refusals, [(name.into(), seen.closed_by_server)].into());
        assert_eq!(server.queries(), stats.sent);
    }
}

#[test]
fn answers_against_the_protocol_end_the_connection() {
    for (octets, reason) in [
        (&[0, 4, 0, 0, 1, 2, 9][..], "more than one answer on a stream"),
        (&[0, 9, 0, 0, 1][..], "a stream ended before its answer was whole"),
        (&[][..], "a stream ended before its answer was whole"),
        (&[0, 4, 0, 1, 1, 2][..], "an answer whose message ID is not 0"),
    ] {
        let (server, config) = server(Behaviour::Wrong(100, octets), 100);
        let config = StreamConfig { pipelined: false, ..config };
        let (stats, seen) = tried(&Plan { rate_qps: 100, ..plan(server.address, config, 1000) });
        // Each connection ends with its first query, and with those that wait behind it.
        assert_eq!((stats.valid, stats.broken), (0, lost([(Breakdown::Reset, 40)])));
        assert_eq!(seen.refusals, [(reason.to_owned(), seen.closed_by_server)].into());
        assert_eq!(server.close_code(), 2, "DOQ_PROTOCOL_ERROR");
    }
    for dir in [Dir::Uni, Dir::Bi] {
        // It may open none.
        let (server, config) = server(Behaviour::Open(dir), 100);
        let (_, seen) = tried(&plan(server.address, config, 1000));
        assert_eq!((server.seen.wrong.load(Ordering::Relaxed), seen.opened), (0, 4));
    }
}

#[test]
fn connections_that_cannot_be_had_say_why() {
    let (config, _) = quic_certificate("doq");
    let (_, other) = quic_certificate("doq");
    let directory = tempfile::tempdir().unwrap();
    let authorities = directory.path().join("ca.pem");
    std::fs::write(&authorities, other).unwrap();
    for (trust, config, reason) in [
        (Trust::Authorities(authorities), config, "invalid peer certificate"),
        (Trust::Anyone, quic_certificate("h3").0, "received fatal alert: NoApplicationProtocol"),
    ] {
        let server = QuicServer::start(Behaviour::Answer, workload(), (config, 100));
        let options = TlsOptions { trust, name: Some(NAME.to_owned()), resumption: false };
        let (stats, seen) = tried(&plan(server.address, over_quic(2, server.address, &options), 1000));
        assert_eq!(stats.broken, lost([(Breakdown::Handshake, 400)]));
        assert_eq!((seen.opened, stats.sent), (0, 0));
        let reasons: Vec<_> = seen.handshake_failures.keys().collect();
        assert!(reasons.len() == 1 && reasons[0].contains(reason), "{reasons:?}");
    }
    let (refusing, config) = server(Behaviour::Refuse, 100);
    assert_eq!(tried(&plan(refusing.address, config, 1000)).0.broken, lost([(Breakdown::Refused, 400)]));
    let deaf = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = deaf.local_addr().unwrap();
    let config = over_quic(2, address, &TlsOptions::default());
    let (stats, seen) = tried(&plan(address, config.clone(), 100));
    assert_eq!(stats.broken, lost([(Breakdown::TimedOut, 400)]));
    assert_eq!((seen.opened, stats.never_left), (0, 400));
    drop(deaf);
    // Nobody listens: the kernel says so.
    assert_eq!(tried(&plan(address, config, 1000)).0.broken, lost([(Breakdown::Refused, 400)]));
}
