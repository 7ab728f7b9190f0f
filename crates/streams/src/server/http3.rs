//! Clients over HTTP/3: each query is a request on a stream of QUIC (RFC 9114, RFC 8484).

mod bounded;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes};
use h3::error::{Code, ConnectionError, StreamError};
use h3::server::{RequestResolver, RequestStream};
use http::StatusCode;
use quinn::Connection;
use tokio::time::timeout;

use super::requests::{self, Answer, HEADERS_OCTETS_MAX};
use super::session::Session;
use crate::activity::Activity;
use crate::codes::H3_EXCESSIVE_LOAD;
use crate::message::QUERY_OCTETS_MAX;
use bounded::{Bounded, BoundedStream};

/// Streams that the client opens for its control, its tables of header fields, and what else it may have to
/// say (RFC 9114 6.2), at a time.
pub(super) const UNI_STREAMS_MAX: u32 = 8;

/// Streams of one connection that ended without a request. The library notes each of them until the
/// connection ends.
const UNUSED_STREAMS_MAX: usize = 1000;

type Requests = h3::server::Connection<Bounded<h3_quinn::Connection>, Bytes>;
type Resolver = RequestResolver<Bounded<h3_quinn::Connection>, Bytes>;
type Stream = RequestStream<BoundedStream, Bytes>;

/// Serves a client until the connection ends, as over HTTP/2.
pub(super) async fn serve(session: Arc<Session>, connection: Connection) {
    let transport = Bounded::new(h3_quinn::Connection::new(connection.clone()));
    let mut builder = h3::server::builder();
    builder.max_field_section_size(HEADERS_OCTETS_MAX.into()).send_grease(false);
    let mut requests: Requests = tokio::select! {
        built = timeout(session.limits.message_timeout, builder.build(transport)) => match built {
            Ok(Ok(requests)) => requests,
            Ok(Err(error)) => return note(&session, &error),
            Err(_) => return session.cells().too_slow.add(),
        },
        () = session.usage.until_cut() => return connection.close(H3_EXCESSIVE_LOAD, b""),
    };
    let (activity, unused) = (Activity::new(), Arc::new(AtomicUsize::new(0)));
    while unused.load(Ordering::Relaxed) < UNUSED_STREAMS_MAX {
        let resolver = tokio::select! {
            accepted = requests.accept() => match accepted {
                Ok(Some(resolver)) => resolver,
                Ok(None) => break,
                Err(error) => return note(&session, &error),
            },
            () = activity.idle(session.limits.idle) => break,
            () = session.retired() => break,
            () = session.usage.until_cut() => return connection.close(H3_EXCESSIVE_LOAD, b""),
        };
        let (session, connection) = (session.clone(), connection.clone());
        let (in_use, unused) = (activity.begin(), unused.clone());
        tokio::spawn(Box::pin(async move {
            let _in_use = in_use;
            tokio::select! {
                () = answer(&session, resolver, &unused) => {}
                _ = connection.closed() => {}
            }
        }));
    }
    let farewell = async {
        // Nothing is accepted from here on: the next request of the client is the first one that is refused.
        // A client may leave no room for these words.
        let _ = timeout(session.limits.message_timeout, requests.shutdown(1)).await;
        activity.idle(Duration::ZERO).await;
        tokio::time::sleep(session.limits.message_timeout).await;
    };
    tokio::select! {
        _ = connection.closed() => {}
        () = farewell => {}
        () = session.usage.until_cut() => connection.close(H3_EXCESSIVE_LOAD, b""),
    }
}

/// Notes the end of a connection, if it is the client's fault that it is over.
fn note(session: &Session, error: &ConnectionError) {
    if matches!(error, ConnectionError::Local { .. }) && !error.is_h3_no_error() {
        session.cells().malformed.add();
    }
}

async fn answer(session: &Session, resolver: Resolver, unused: &AtomicUsize) {
    let patience = session.limits.message_timeout;
    let (head, mut stream) = match timeout(patience, resolver.resolve_request()).await {
        Ok(Ok((request, stream))) => (request.into_parts().0, stream),
        unresolved => {
            unused.fetch_add(1, Ordering::Relaxed);
            return match unresolved {
                Err(_) => session.cells().too_slow.add(),
                Ok(Err(StreamError::StreamError { .. } | StreamError::HeaderTooBig { .. })) => {
                    session.cells().malformed.add();
                }
                // The client took its query back, or the connection is over.
                Ok(_) => {}
            };
        }
    };
    let answer = requests::answer(session, head, read(&mut stream)).await;
    // The end of the request has come, mostly; whatever else there is, is not read (RFC 9114 4.1).
    tokio::select! {
        biased;
        _ = stream.recv_data() => {}
        () = std::future::ready(()) => {}
    }
    stream.stop_sending(Code::H3_NO_ERROR);
    match timeout(patience, write(&mut stream, answer)).await {
        // With an error the client has gone or does not want it.
        Ok(_) => {}
        Err(_) => {
            stream.stop_stream(Code::H3_EXCESSIVE_LOAD);
            session.cells().too_slow.add();
        }
    }
}

/// The body of a request.
async fn read(stream: &mut Stream) -> Result<Vec<u8>, StatusCode> {
    let mut body = Vec::new();
    loop {
        match stream.recv_data().await {
            Ok(Some(mut part)) if body.len() + part.remaining() <= QUERY_OCTETS_MAX => {
                while part.has_remaining() {
                    let chunk = part.chunk();
                    body.extend_from_slice(chunk);
                    let taken = chunk.len();
                    part.advance(taken);
                }
            }
            Ok(Some(_)) => return Err(StatusCode::PAYLOAD_TOO_LARGE),
            Ok(None) => return Ok(body),
            Err(_) => return Err(StatusCode::BAD_REQUEST),
        }
    }
}

async fn write(stream: &mut Stream, answer: Answer) -> Result<(), StreamError> {
    let (head, body) = answer.into_parts();
    stream.send_response(http::Response::from_parts(head, ())).await?;
    if let Some(held) = body {
        stream.send_data(Bytes::from_owner(held)).await?;
    }
    stream.finish().await
}
