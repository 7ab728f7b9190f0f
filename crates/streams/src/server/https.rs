//! Clients over HTTPS: each query is a request of HTTP/2 (RFC 8484).

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::requests::{self, HEADERS_OCTETS_MAX};
use super::session::Session;
use crate::activity::Activity;
use crate::message::QUERY_OCTETS_MAX;

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
            let (head, body) = request.into_parts();
            let answer = requests::answer(&session, head, read(body)).await;
            // The buffer goes, and with it the hold, when the client has taken the last octet.
            Ok(answer.map(|held| held.map_or_else(Full::default, |held| Bytes::from_owner(held).into())))
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

/// The body of a request.
async fn read(body: Incoming) -> Result<Vec<u8>, StatusCode> {
    match Limited::new(body, QUERY_OCTETS_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes().into()),
        Err(error) if error.is::<LengthLimitError>() => Err(StatusCode::PAYLOAD_TOO_LARGE),
        Err(_) => Err(StatusCode::BAD_REQUEST),
    }
}
