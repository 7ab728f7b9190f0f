//! Clients over HTTPS: each query is a request (RFC 8484).

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::server::TlsStream;

use super::pending::Reply;
use super::session::Session;
use crate::activity::Activity;
use crate::message::{MESSAGE_OCTETS_MAX, lifetime_s};

/// The media type of DNS messages (RFC 8484 6).
pub(crate) const MEDIA_TYPE: &str = "application/dns-message";

/// The request's headers, with the longest query in the URI, that are read.
const HEADERS_OCTETS_MAX: u32 = 96 << 10;

/// Octets of one connection's requests on their way at once, and of one answer that wait for the client.
const WINDOW_OCTETS: u32 = 256 << 10;

type Answer = Response<Full<Bytes>>;
type Answering = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

/// Serves a client until the connection ends.
pub(super) async fn serve(session: Session, stream: TlsStream<TcpStream>) {
    let session = Arc::new(session);
    let activity = Activity::new();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(u32::try_from(session.limits.pipelined.max(1)).unwrap_or(u32::MAX))
        .max_header_list_size(HEADERS_OCTETS_MAX)
        .initial_stream_window_size(WINDOW_OCTETS)
        .initial_connection_window_size(WINDOW_OCTETS)
        .max_send_buf_size(WINDOW_OCTETS as usize);
    let service = service_fn(|request: Request<Incoming>| -> Answering {
        let (session, activity) = (session.clone(), activity.clone());
        Box::pin(async move {
            let _use = activity.begin();
            Ok(answer(&session, request).await)
        })
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // An error here is the client's, and it has been told by HTTP/2.
        _ = connection.as_mut() => return,
        () = activity.idle(session.limits.idle) => {}
        () = session.retired() => {}
    }
    connection.as_mut().graceful_shutdown();
    let leave = session.limits.message_timeout;
    if tokio::time::timeout(leave, connection).await.is_err() {
        session.cells().too_slow.add();
    }
}

async fn answer(session: &Session, request: Request<Incoming>) -> Answer {
    let query = match read_query(session, request).await {
        Ok(query) => query,
        Err(status) => {
            session.cells().malformed.add();
            return refusal(status);
        }
    };
    // The semaphore is never closed.
    let Ok(permit) = session.pipeline.clone().acquire_owned().await else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE);
    };
    let (sender, outcome) = oneshot::channel();
    session.offer(query, Reply::Stream(sender), permit);
    match outcome.await {
        Ok(Some(octets)) => {
            session.cells().answers.add();
            success(octets)
        }
        _ => refusal(StatusCode::SERVICE_UNAVAILABLE),
    }
}

/// The query of a request, or the status that says why there is none (RFC 8484 4.1).
async fn read_query(session: &Session, request: Request<Incoming>) -> Result<Vec<u8>, StatusCode> {
    if request.uri().path() != &*session.place.path() {
        return Err(StatusCode::NOT_FOUND);
    }
    let octets = match *request.method() {
        Method::GET => from_uri(request.uri().query().unwrap_or_default())?,
        Method::POST if !has_media_type(request.headers()) => {
            return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        }
        Method::POST => {
            let body = Limited::new(request.into_body(), MESSAGE_OCTETS_MAX).collect();
            match tokio::time::timeout(session.limits.message_timeout, body).await {
                Ok(Ok(body)) => body.to_bytes().into(),
                Ok(Err(error)) if error.is::<LengthLimitError>() => {
                    return Err(StatusCode::PAYLOAD_TOO_LARGE);
                }
                Ok(Err(_)) => return Err(StatusCode::BAD_REQUEST),
                Err(_) => return Err(StatusCode::REQUEST_TIMEOUT),
            }
        }
        _ => return Err(StatusCode::METHOD_NOT_ALLOWED),
    };
    if octets.len() < dns64::wire::HEADER_LENGTH {
        return Err(StatusCode::BAD_REQUEST);
    }
    Ok(octets)
}

/// The variable `dns` of a GET, in base64url without padding (RFC 8484 4.1.1).
fn from_uri(query: &str) -> Result<Vec<u8>, StatusCode> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("dns=")).ok_or(StatusCode::BAD_REQUEST)?;
    let octets = BASE64_URL_SAFE_NO_PAD.decode(value).map_err(|_| StatusCode::BAD_REQUEST)?;
    if octets.len() > MESSAGE_OCTETS_MAX {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    Ok(octets)
}

/// Whether the body is said to be a DNS message. Parameters of the media type mean nothing here.
pub(crate) fn has_media_type(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(MEDIA_TYPE)
}

fn success(octets: Vec<u8>) -> Answer {
    let lifetime = format!("max-age={}", lifetime_s(&octets));
    let mut response = Response::new(Full::from(octets));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(MEDIA_TYPE));
    if let Ok(lifetime) = lifetime.try_into() {
        headers.insert(CACHE_CONTROL, lifetime);
    }
    response
}

fn refusal(status: StatusCode) -> Answer {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, http::HeaderValue::from_static("GET, POST"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_of_a_get_is_found() {
        // The example of RFC 8484 4.1.1.
        let octets = from_uri("dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB").unwrap();
        assert_eq!(octets.len(), 33);
        assert_eq!(from_uri("a=b&dns=AAAB"), Ok(vec![0, 0, 1]));
        for garbage in ["", "dns", "DNS=AAAB", "dns=AAAB=", "dns=AA+/", "dns=A"] {
            assert_eq!(from_uri(garbage), Err(StatusCode::BAD_REQUEST), "{garbage}");
        }
        let long = format!("dns={}", "A".repeat(4 * 30_000));
        assert_eq!(from_uri(&long), Err(StatusCode::PAYLOAD_TOO_LARGE));
    }

    #[test]
    fn media_types_compare_without_case_and_parameters() {
        let with = |value: &'static str| {
            has_media_type(&HeaderMap::from_iter([(CONTENT_TYPE, http::HeaderValue::from_static(value))]))
        };
        assert!(with("application/dns-message") && with("Application/DNS-Message; charset=x"));
        assert!(!with("application/dns-json") && !with("") && !has_media_type(&HeaderMap::new()));
    }
}
