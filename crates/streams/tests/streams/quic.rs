//! QUIC clients and servers that break the rules of RFC 9250.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, ReadToEndError, ServerConfig, TransportConfig,
    VarInt,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use streams::{Limits, Protocol};

use crate::common::*;

/// DOQ_INTERNAL_ERROR, DOQ_PROTOCOL_ERROR and DOQ_REQUEST_CANCELLED (RFC 9250 4.3).
const INTERNAL_ERROR: VarInt = VarInt::from_u32(1);
const PROTOCOL_ERROR: VarInt = VarInt::from_u32(2);
const REQUEST_CANCELLED: VarInt = VarInt::from_u32(3);
/// DOQ_EXCESSIVE_LOAD.
const EXCESSIVE_LOAD: VarInt = VarInt::from_u32(4);

async fn connect(server: &Server) -> Connection {
    connect_as(server, TransportConfig::default()).await
}

async fn connect_as(server: &Server, transport: TransportConfig) -> Connection {
    let config = server.certificate.client(&[b"doq"]);
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(config).unwrap()));
    config.transport_config(Arc::new(transport));
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    endpoint.connect_with(config, server.addresses[0], NAME).unwrap().await.unwrap()
}

/// Sends these octets on a stream and reads what comes back.
async fn send(connection: &Connection, octets: &[u8]) -> Result<Vec<u8>, ReadToEndError> {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    // The server may end the connection before it has read what is too long.
    if send.write_all(octets).await.is_ok() {
        send.finish().unwrap();
    }
    recv.read_to_end(70_000).await
}

fn with_keepalive(mut message: Vec<u8>) -> Vec<u8> {
    message[11] = 1;
    message.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 4, 0, 11, 0, 0]);
    message
}

#[test]
fn what_is_no_single_query_ends_the_connection() {
    let server = Server::start(&[Protocol::Quic], Limits::default(), answers);
    let good = framed(&query(0, "a.test"));
    let cases = [
        framed(&query(1, "a.test")),
        framed(&with_keepalive(query(0, "a.test"))),
        [&good[..], &good].concat(),
        good[..good.len() - 1].to_vec(),
        framed(&[0; 11]),
        Vec::new(),
        vec![0; 65_600],
    ];
    let count = cases.len() as u64;
    for octets in cases {
        let error = blocking(async {
            let connection = connect(&server).await;
            let _ = send(&connection, &octets).await;
            connection.closed().await
        });
        let ConnectionError::ApplicationClosed(close) = error else { panic!("{error}") };
        assert_eq!(close.error_code, PROTOCOL_ERROR);
    }
    assert_eq!(server.streams.counts().of(Protocol::Quic).malformed, count);
    assert!(server.queries.lock().unwrap().is_empty());
}

#[test]
fn a_stream_that_does_not_end_is_reset_and_the_others_go_on() {
    let limits = Limits { message_timeout: Duration::from_millis(100), ..Limits::default() };
    let server = Server::start(&[Protocol::Quic], limits, answers);
    blocking(async {
        let connection = connect(&server).await;
        let (mut open, mut reply) = connection.open_bi().await.unwrap();
        open.write_all(&framed(&query(0, "a.test"))[..5]).await.unwrap();
        let reset = reply.read_to_end(10).await.unwrap_err();
        assert_eq!(reset, ReadToEndError::Read(quinn::ReadError::Reset(PROTOCOL_ERROR)));
        let query = query(0, "b.test");
        assert_eq!(send(&connection, &framed(&query)).await.unwrap(), framed(&answer(&query)));
    });
}

#[test]
fn a_query_without_an_answer_is_reset() {
    let server = Server::start(&[Protocol::Quic], Limits::default(), |_| Reaction::Forget);
    let reset = blocking(async { send(&connect(&server).await, &framed(&query(0, "a.test"))).await });
    assert_eq!(reset, Err(ReadToEndError::Read(quinn::ReadError::Reset(INTERNAL_ERROR))));
}

#[test]
fn queries_taken_back_are_in_progress_until_the_owner_ends_them() {
    let limits = Limits { pipelined: 2, ..Limits::default() };
    let server = Server::start(&[Protocol::Quic], limits, |query| {
        if query.octets[13] == b'a' { Reaction::Keep } else { answers(query) }
    });
    blocking(async {
        let connection = connect(&server).await;
        for _ in 0..2 {
            let (mut send, mut recv) = connection.open_bi().await.unwrap();
            send.write_all(&framed(&query(0, "a.test"))).await.unwrap();
            send.finish().unwrap();
            recv.stop(REQUEST_CANCELLED).unwrap();
        }
        while server.queries.lock().unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let third = query(0, "b.test");
        let frame = framed(&third);
        let mut asked = std::pin::pin!(send(&connection, &frame));
        let waits = tokio::time::timeout(Duration::from_millis(50), asked.as_mut()).await;
        assert!(waits.is_err() && server.queries.lock().unwrap().len() == 2);
        for token in [0, 1] {
            server.streams.handle().forget(token);
        }
        assert_eq!(asked.await.unwrap(), framed(&answer(&third)));
    });
}

#[test]
fn a_crowd_has_to_prove_its_addresses() {
    let limits = Limits { connections: 10, connections_per_network: 4, ..Limits::default() };
    let server = Server::start(&[Protocol::Quic], limits, answers);
    blocking(async {
        let mut connections = Vec::new();
        for _ in 0..4 {
            connections.push(connect(&server).await);
        }
        for connection in &connections {
            let query = query(0, "a.test");
            assert_eq!(send(connection, &framed(&query)).await.unwrap(), framed(&answer(&query)));
        }
    });
    assert_eq!(server.streams.counts().of(Protocol::Quic).accepted, 4);
}

#[test]
fn a_client_that_does_not_read_is_told_that_it_is_too_much() {
    let limits = Limits { message_timeout: Duration::from_millis(50), ..Limits::default() };
    let server =
        Server::start(&[Protocol::Quic], limits, |query| Reaction::Answer(longest_answer(&query.octets)));
    blocking(async {
        let mut transport = TransportConfig::default();
        transport.stream_receive_window(VarInt::from_u32(100));
        let connection = connect_as(&server, transport).await;
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        send.write_all(&framed(&query(0, "a.test"))).await.unwrap();
        send.finish().unwrap();
        while server.streams.counts().of(Protocol::Quic).too_slow == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let reset = recv.read_to_end(70_000).await.unwrap_err();
        assert_eq!(reset, ReadToEndError::Read(quinn::ReadError::Reset(EXCESSIVE_LOAD)));
    });
}

/// What a server says to a query.
type Lie = fn(&[u8]) -> Vec<u8>;

/// A server that reads each query and says what `lie` makes of it.
fn liar(certificate: &Certificate, lie: Lie) -> SocketAddr {
    let chain = vec![CertificateDer::from_pem_slice(certificate.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes()).unwrap();
    let builder =
        rustls::ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let mut config = builder.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"doq".to_vec()];
    let config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(config).unwrap()));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    // It ends with the test's process.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let runtime = Arc::new(quinn::TokioRuntime);
            let endpoint = Endpoint::new(Default::default(), Some(config), socket, runtime).unwrap();
            while let Some(incoming) = endpoint.accept().await {
                let Ok(connection) = incoming.await else { continue };
                while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                    let query = recv.read_to_end(70_000).await.unwrap();
                    let _ = send.write_all(&lie(&query[2..])).await;
                    let _ = send.finish();
                }
            }
        });
    });
    address
}

#[test]
fn lies_are_not_taken_for_answers() {
    let lies: [Lie; 6] = [
        |query| framed(&answer(&crate::common::query(id(query), "other.test"))),
        |query| framed(&[&[7, 7], &answer(query)[2..]].concat()),
        |query| framed(&with_keepalive(answer(query))),
        |query| [framed(&answer(query)), vec![1]].concat(),
        |query| framed(query),
        |_| Vec::new(),
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        let certificate = Certificate::new();
        let address = liar(&certificate, lie);
        let asker = Asker::new(vec![upstream(Protocol::Quic, address, Some(certificate.roots()))]);
        assert_eq!(asker.ask(0, query(9, "a.test")), None, "lie {number}");
        assert_eq!(asker.streams.counts().upstreams.failures, 1, "lie {number}");
    }
}

fn id(message: &[u8]) -> u16 {
    u16::from_be_bytes([message[0], message[1]])
}
