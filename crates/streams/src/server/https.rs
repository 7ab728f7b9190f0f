//! Clients over HTTPS: each query is a request (RFC 8484).

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::server::TlsStream;

use super::pending::{PendingAnswer, Reply};
use super::session::Session;
use crate::activity::Activity;
use crate::message::{QUERY_OCTETS_MAX, lifetime_s};
use crate::request::{Head, MEDIA_TYPE, QueryLocation, content_type};

/// The request's headers that are read: a URI with the longest query in base64, and others.
const HEADERS_OCTETS_MAX: u32 = 12 << 10;

/// Octets of one connection's requests on their way at once: the least that HTTP/2 begins with (RFC 9113
/// 6.9.2).
const WINDOW_OCTETS: u32 = (64 << 10) - 1;

/// Octets of one request's body on their way at once.
const STREAM_WINDOW_OCTETS: u32 = QUERY_OCTETS_MAX as u32;

/// Octets of one answer that the library takes at once.
const SEND_OCTETS: usize = 256 << 10;

type Answer = Response<Full<Bytes>>;
type Answering = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

/// Serves a client until the connection ends. A client that does not take its answers is idle, and has the
/// time of a message to take them after the farewell.
pub(super) async fn serve(session: Session, stream: TlsStream<TcpStream>) {
    let session = Arc::new(session);
    let activity = Activity::new();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(u32::try_from(session.limits.pipelined.max(1)).unwrap_or(u32::MAX))
        .max_header_list_size(HEADERS_OCTETS_MAX)
        .initial_stream_window_size(STREAM_WINDOW_OCTETS)
        .initial_connection_window_size(WINDOW_OCTETS)
        .max_send_buf_size(SEND_OCTETS);
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
    let farewell = async {
        activity.idle(Duration::ZERO).await;
        tokio::time::sleep(session.limits.message_timeout).await;
    };
    tokio::select! {
        _ = connection => {}
        () = farewell => session.cells().too_slow.add(),
    }
}

async fn answer(session: &Session, request: Request<Incoming>) -> Answer {
    let reading = session.charge(QUERY_OCTETS_MAX);
    let query = match read_query(session, request).await {
        Ok(query) => query,
        Err(status) => {
            session.cells().malformed.add();
            return refusal(status);
        }
    };
    // The semaphore is never closed.
    let Ok(permit) = session.usage.pipeline.clone().acquire_owned().await else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE);
    };
    let (sender, outcome) = oneshot::channel();
    session.offer(query, Reply::Stream(sender), permit);
    drop(reading);
    match outcome.await.ok().flatten().and_then(|answer| session.unless_too_many(answer)) {
        Some(answer) => {
            session.cells().answers.add();
            success(answer)
        }
        None => refusal(StatusCode::SERVICE_UNAVAILABLE),
    }
}

/// The query of a request, or the status that says why there is none (RFC 8484 4.1).
async fn read_query(session: &Session, request: Request<Incoming>) -> Result<Vec<u8>, StatusCode> {
    let head = Head {
        method: request.method().as_str(),
        path: request.uri().path(),
        query: request.uri().query().unwrap_or_default(),
        content_type: content_type(request.headers()),
    };
    let place = head.place(&session.place.path())?;
    let octets = match place {
        QueryLocation::Uri(octets) => octets,
        QueryLocation::Body => {
            let body = Limited::new(request.into_body(), QUERY_OCTETS_MAX).collect();
            match tokio::time::timeout(session.limits.message_timeout, body).await {
                Ok(Ok(body)) => body.to_bytes().into(),
                Ok(Err(error)) if error.is::<LengthLimitError>() => {
                    return Err(StatusCode::PAYLOAD_TOO_LARGE);
                }
                Ok(Err(_)) => return Err(StatusCode::BAD_REQUEST),
                Err(_) => return Err(StatusCode::REQUEST_TIMEOUT),
            }
        }
    };
    if octets.len() < dns64::wire::HEADER_LENGTH {
        return Err(StatusCode::BAD_REQUEST);
    }
    if octets.len() > QUERY_OCTETS_MAX {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    Ok(octets)
}

fn success(answer: PendingAnswer) -> Answer {
    let lifetime = format!("max-age={}", lifetime_s(&answer.octets));
    // The buffer goes, and counts no more, when the client has taken the last octet.
    let mut response = Response::new(Full::from(Bytes::from_owner(answer)));
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
