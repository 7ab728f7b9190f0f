//! What clients of HTTP/3 are told (RFC 9114, RFC 8484), and what those are that break the rules.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::{Buf, Bytes};
use http::{HeaderMap, Request, StatusCode};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, ConnectionError, Endpoint, VarInt, WriteError};
use streams::{Limits, Protocol};

use crate::common::*;

type Requests = h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>;

/// Error codes of RFC 9114 8.1.
const H3_NO_ERROR: VarInt = VarInt::from_u32(0x100);
const H3_CLOSED_CRITICAL_STREAM: VarInt = VarInt::from_u32(0x104);
const H3_EXCESSIVE_LOAD: VarInt = VarInt::from_u32(0x107);

async fn connect(server: &Server) -> Connection {
    let config = server.certificate.client(&[b"h3"]);
    let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(config).unwrap()));
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    endpoint.connect_with(config, server.addresses[0], NAME).unwrap().await.unwrap()
}

async fn client(server: &Server) -> Requests {
    let connection = h3_quinn::Connection::new(connect(server).await);
    let (mut driver, requests) = h3::client::new(connection).await.unwrap();
    tokio::spawn(async move { poll_fn(|context| driver.poll_close(context)).await });
    requests
}

async fn ask(requests: &mut Requests, request: Request<Vec<u8>>) -> (StatusCode, HeaderMap, Vec<u8>) {
    let (head, body) = request.into_parts();
    let mut stream = requests.send_request(Request::from_parts(head, ())).await.unwrap();
    if !body.is_empty() {
        // A server that has seen enough stops the stream.
        let _ = stream.send_data(body.into()).await;
    }
    let _ = stream.finish().await;
    let (head, ()) = stream.recv_response().await.unwrap().into_parts();
    let mut answer = Vec::new();
    while let Some(mut part) = stream.recv_data().await.unwrap() {
        answer.extend_from_slice(&part.copy_to_bytes(part.remaining()));
    }
    (head.status, head.headers, answer)
}

fn post(media_type: &str, octets: Vec<u8>) -> Request<Vec<u8>> {
    let uri = format!("https://{NAME}{PATH}");
    Request::post(uri).header("content-type", media_type).body(octets).unwrap()
}

fn get(path_and_query: &str) -> Request<Vec<u8>> {
    Request::get(format!("https://{NAME}{path_and_query}")).body(Vec::new()).unwrap()
}

#[test]
fn each_request_has_its_answer_or_its_status() {
    let server = Server::start(&[Protocol::Http3], Limits::default(), |query| {
        if query.octets[13] == b'b' { Reaction::Forget } else { answers(query) }
    });
    let asked = query(0, "a.test");
    let uri = format!("{PATH}?dns={}", BASE64_URL_SAFE_NO_PAD.encode(&asked));
    let dns = "application/dns-message";
    blocking(async {
        let mut requests = client(&server).await;
        for request in [get(&uri), post(dns, asked.clone())] {
            let (status, headers, body) = ask(&mut requests, request).await;
            assert_eq!((status, body), (StatusCode::OK, answer(&asked)));
            assert_eq!(
                (&headers["content-type"], &headers["cache-control"]),
                (&dns.parse().unwrap(), &"max-age=77".parse().unwrap())
            );
        }
        for (request, status) in [
            (post(dns, query(0, "b.test")), 503),
            (get("/elsewhere?dns=AAAB"), 404),
            (get(PATH), 400),
            (post(dns, vec![0; 11]), 400),
            (post(dns, vec![0; 70_000]), 413),
            (post("text/html", asked.clone()), 415),
            (Request::put(format!("https://{NAME}{PATH}")).body(Vec::new()).unwrap(), 405),
        ] {
            let (answered, _, body) = ask(&mut requests, request).await;
            assert_eq!((answered.as_u16(), body.len()), (status, 0));
        }
        // The connection goes on.
        assert_eq!(ask(&mut requests, get(&uri)).await.2, answer(&asked));
    });
    let counts = server.streams.counts();
    let counted = counts.of(Protocol::Http3);
    assert_eq!((counted.accepted, counted.queries, counted.answers), (1, 4, 3));
    assert_eq!(counted.malformed, 6);
}

#[test]
fn requests_that_are_too_long_are_refused() {
    let server = Server::start(&[Protocol::Http3], Limits::default(), answers);
    blocking(async {
        let connection = connect(&server).await;
        // HEADERS of a gibioctet.
        let (mut send, _recv) = connection.open_bi().await.unwrap();
        send.write_all(&[1, 0xc0, 0, 0, 0, 0x40, 0, 0, 0]).await.unwrap();
        let mut sent = 0;
        let stopped = loop {
            match send.write(&[0; 1000]).await {
                Ok(octets) => sent += octets,
                Err(error) => break error,
            }
        };
        assert_eq!(stopped, WriteError::Stopped(H3_EXCESSIVE_LOAD));
        assert!(sent < 500_000, "{sent}");
        // Control without an end.
        let mut control = connection.open_uni().await.unwrap();
        control.write_all(&[0, 4, 0]).await.unwrap();
        while control.write_all(&[&[0x21, 0x44, 0][..], &[0; 1024]].concat()).await.is_ok() {}
        let ConnectionError::ApplicationClosed(close) = connection.closed().await else { panic!() };
        assert_eq!(close.error_code, H3_CLOSED_CRITICAL_STREAM);
    });
}

#[test]
fn streams_without_a_request_end_the_connection() {
    let limits = Limits { message_timeout: Duration::from_millis(200), ..Limits::default() };
    let server = Server::start(&[Protocol::Http3], limits, answers);
    blocking(async {
        let connection = connect(&server).await;
        let mut streams = 0;
        while let Ok((mut send, recv)) = connection.open_bi().await {
            let _ = send.finish();
            drop(recv);
            streams += 1;
        }
        assert!((1000..3000).contains(&streams), "{streams}");
        let ConnectionError::ApplicationClosed(close) = connection.closed().await else { panic!() };
        assert_eq!(close.error_code, H3_NO_ERROR);
    });
}

#[test]
fn garbage_ends_its_own_connection_alone() {
    let limits = Limits { message_timeout: Duration::from_millis(200), ..Limits::default() };
    let server = Server::start(&[Protocol::Http3], limits, answers);
    let mut state = 1u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    blocking(async {
        for _ in 0..300 {
            let connection = connect(&server).await;
            for _ in 0..4 {
                let octets: Vec<u8> = (0..random()).map(|_| random()).collect();
                // The first ones are frames, mostly.
                let begin = [[1, 10], [0, 10], [0x41, 3], [4, 0]][usize::from(random() % 4)];
                let octets = [&begin[..], &octets].concat();
                if random() % 2 == 0 {
                    let Ok((mut send, _)) = connection.open_bi().await else { break };
                    let _ = send.write_all(&octets).await;
                    let _ = send.finish();
                } else {
                    let Ok(mut send) = connection.open_uni().await else { break };
                    let _ = send.write_all(&octets).await;
                }
            }
        }
        let asked = query(0, "a.test");
        let mut requests = client(&server).await;
        let (_, _, body) = ask(&mut requests, post("application/dns-message", asked.clone())).await;
        assert_eq!(body, answer(&asked));
    });
}
