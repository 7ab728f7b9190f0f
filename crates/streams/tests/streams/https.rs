//! What HTTP clients are told (RFC 8484 4, 5).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, SizeHint};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use streams::{Limits, Protocol};
use tokio::net::TcpStream;

use crate::common::*;

/// More than the longest answer.
const WINDOW_OCTETS: u32 = 1 << 20;

type RequestBody = BoxBody<Bytes, Infallible>;

/// A client that takes so many octets of an answer before it has read any.
async fn connect(server: &Server, window_octets: u32) -> http2::SendRequest<RequestBody> {
    let config = server.certificate.client(&[b"h2"]);
    let stream = TcpStream::connect(server.addresses[0]).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = connector.connect(ServerName::try_from(NAME).unwrap(), stream).await.unwrap();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window_octets);
    let (requests, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    requests
}

/// Sends one request on a connection of its own.
async fn request(
    server: &Server,
    request: Request<RequestBody>,
) -> hyper::Result<(StatusCode, HeaderMap, Bytes)> {
    let response = connect(server, WINDOW_OCTETS).await.send_request(request).await?;
    let (status, headers) = (response.status(), response.headers().clone());
    Ok((status, headers, response.into_body().collect().await?.to_bytes()))
}

fn body(octets: &[u8]) -> RequestBody {
    Full::from(octets.to_vec()).boxed()
}

fn post(media_type: &str, octets: &[u8]) -> Request<RequestBody> {
    let uri = format!("https://{NAME}{PATH}");
    Request::post(uri).header("content-type", media_type).body(body(octets)).unwrap()
}

fn get(path_and_query: &str) -> Request<RequestBody> {
    Request::get(format!("https://{NAME}{path_and_query}")).body(body(&[])).unwrap()
}

fn https(limits: Limits) -> Server {
    Server::start(&[Protocol::Https], limits, answers)
}

#[test]
fn get_and_post_are_answered_with_a_lifetime() {
    let server = https(Limits::default());
    let query = query(0, "a.test");
    let encoded = BASE64_URL_SAFE_NO_PAD.encode(&query);
    for asked in [
        post("application/dns-message", &query),
        get(&format!("{PATH}?dns={encoded}")),
        get(&format!("{PATH}?a=b&dns={encoded}&c")),
    ] {
        let (status, headers, octets) = blocking(request(&server, asked)).unwrap();
        assert_eq!(status, StatusCode::OK);
        assert_eq!(headers["content-type"], "application/dns-message");
        assert_eq!(headers["cache-control"], "max-age=77");
        assert_eq!(octets, answer(&query));
    }
}

#[test]
fn what_is_no_query_is_refused_with_its_reason() {
    let server = https(Limits::default());
    let good = query(0, "a.test");
    let mut put = post("application/dns-message", &good);
    *put.method_mut() = http::Method::PUT;
    let elsewhere =
        Request::post(format!("https://{NAME}/")).header("content-type", "application/dns-message");
    let cases = [
        (get("/dns-query/x?dns=AAAB"), StatusCode::NOT_FOUND),
        (elsewhere.body(body(&good)).unwrap(), StatusCode::NOT_FOUND),
        (put, StatusCode::METHOD_NOT_ALLOWED),
        (post("application/json", &good), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (post("application/dns-message", &[0; 65_536]), StatusCode::PAYLOAD_TOO_LARGE),
        (get(&format!("{PATH}?dns={}", "A".repeat(5463))), StatusCode::PAYLOAD_TOO_LARGE),
        (post("application/dns-message", &[0; 11]), StatusCode::BAD_REQUEST),
        (post("application/dns-message", &[]), StatusCode::BAD_REQUEST),
        (get(PATH), StatusCode::BAD_REQUEST),
        (get(&format!("{PATH}?dns=not/base64url")), StatusCode::BAD_REQUEST),
        (get(&format!("{PATH}?dns=AAAB")), StatusCode::BAD_REQUEST),
    ];
    let count = cases.len();
    for (asked, expected) in cases {
        let text = format!("{} {}", asked.method(), asked.uri());
        let (status, headers, octets) = blocking(request(&server, asked)).unwrap();
        assert_eq!((status, octets.len()), (expected, 0), "{text}");
        let allow = headers.get("allow").map(|value| value.to_str().unwrap());
        assert_eq!(allow, (status == StatusCode::METHOD_NOT_ALLOWED).then_some("GET, POST"));
    }
    assert!(server.queries.lock().unwrap().is_empty());
    assert_eq!(server.streams.counts().of(Protocol::Https).malformed, count as u64);
}

/// A body that never comes.
struct Never;

impl Body for Never {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        std::task::Poll::Pending
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[test]
fn a_body_that_never_comes_is_not_waited_for() {
    let server = https(Limits { message_timeout: Duration::from_millis(50), ..Limits::default() });
    let asked =
        Request::post(format!("https://{NAME}{PATH}")).header("content-type", "application/dns-message");
    let (status, ..) = blocking(request(&server, asked.body(Never.boxed()).unwrap())).unwrap();
    assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
}

#[test]
fn headers_are_bounded() {
    let server = https(Limits::default());
    let mut asked = post("application/dns-message", &query(0, "a.test"));
    asked.headers_mut().insert("x-padding", "x".repeat(200_000).try_into().unwrap());
    let refused = blocking(request(&server, asked));
    assert!(!refused.is_ok_and(|(status, ..)| status == StatusCode::OK));
    assert!(server.queries.lock().unwrap().is_empty());
}

#[test]
fn requests_taken_back_are_in_progress_until_the_owner_ends_them() {
    let limits = Limits { pipelined: 2, ..Limits::default() };
    let server = Server::start(&[Protocol::Https], limits, |_| Reaction::Keep);
    blocking(async {
        let mut requests = connect(&server, WINDOW_OCTETS).await;
        for _ in 0..50 {
            let asked = requests.send_request(post("application/dns-message", &query(0, "a.test")));
            // Its future is dropped, and so the stream reset.
            let brief = tokio::time::timeout(Duration::from_millis(10), asked).await;
            assert!(brief.is_err());
        }
    });
    assert_eq!(server.queries.lock().unwrap().len(), 2);
}

#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let (idle, message_timeout) = (Duration::from_millis(50), Duration::from_millis(50));
    let limits = Limits { idle, message_timeout, ..Limits::default() };
    let server =
        Server::start(&[Protocol::Https], limits, |query| Reaction::Answer(longest_answer(&query.octets)));
    blocking(async {
        let mut requests = connect(&server, 100).await;
        let query = query(0, "a.test");
        let _unread = requests.send_request(post("application/dns-message", &query)).await.unwrap();
        while server.streams.counts().of(Protocol::Https).open > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    assert_eq!(server.streams.counts().of(Protocol::Https).too_slow, 1);
}

#[test]
fn answers_that_nobody_reads_are_bounded() {
    let server = Server::start(&[Protocol::Https], Limits::default(), |query| {
        Reaction::Answer(longest_answer(&query.octets))
    });
    blocking(async {
        let mut requests = connect(&server, 100).await;
        let query = query(0, "a.test");
        let mut unread = Vec::new();
        for _ in 0..8 {
            unread.push(requests.send_request(post("application/dns-message", &query)).await.unwrap());
        }
        let refused = requests.send_request(post("application/dns-message", &query)).await.unwrap();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        for response in unread {
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes().len(), 65_535);
        }
        let taken = requests.send_request(post("application/dns-message", &query)).await.unwrap();
        assert_eq!(taken.status(), StatusCode::OK);
    });
}
