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
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use streams::{Limits, Protocol};
use tokio::net::TcpStream;

use crate::common::*;

type RequestBody = BoxBody<Bytes, Infallible>;

/// Sends one request on a connection of its own.
async fn request(
    server: &Server,
    request: Request<RequestBody>,
) -> hyper::Result<(StatusCode, HeaderMap, Bytes)> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(server.certificate.certificate.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(server.addresses[0]).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = connector.connect(ServerName::try_from(NAME).unwrap(), stream).await.unwrap();
    let (mut requests, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let response = requests.send_request(request).await?;
    let (status, headers) = (response.status(), response.headers().clone());
    Ok((status, headers, response.into_body().collect().await?.to_bytes()))
}

fn blocking<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.unwrap() })
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
