//! Requests of DNS over HTTPS and what they are answered with (RFC 8484), whichever HTTP carries them.

use std::future::Future;

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::pending::{PendingAnswer, Reply};
use super::session::Session;
use crate::message::{QUERY_OCTETS_MAX, lifetime_s};
use crate::request::{Head, MEDIA_TYPE, QueryLocation, content_type};

/// The request's headers that are read: a URI with the longest query in base64, and others.
pub(super) const HEADERS_OCTETS_MAX: u32 = 12 << 10;

/// A response; its body is the answer, where there is one.
pub(super) type Answer = Response<Option<PendingAnswer>>;

/// Answers a request. `body` reads what follows its head, if the query is there. The head goes when the query
/// is known: it is longer than the query, and nobody counts it.
pub(super) async fn answer(
    session: &Session,
    head: Parts,
    body: impl Future<Output = Result<Vec<u8>, StatusCode>>,
) -> Answer {
    let reading = session.charge(QUERY_OCTETS_MAX);
    let query = match read_query(session, &head, body).await {
        Ok(query) => query,
        Err(status) => {
            session.cells().malformed.add();
            return refusal(status);
        }
    };
    drop(head);
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
async fn read_query(
    session: &Session,
    head: &Parts,
    body: impl Future<Output = Result<Vec<u8>, StatusCode>>,
) -> Result<Vec<u8>, StatusCode> {
    let said = Head {
        method: head.method.as_str(),
        path: head.uri.path(),
        query: head.uri.query().unwrap_or_default(),
        content_type: content_type(&head.headers),
    };
    let octets = match said.place(&session.place.path())? {
        QueryLocation::Uri(octets) => octets,
        QueryLocation::Body => match timeout(session.limits.message_timeout, body).await {
            Ok(body) => body?,
            Err(_) => return Err(StatusCode::REQUEST_TIMEOUT),
        },
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
    let mut response = Response::new(Some(answer));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    if let Ok(lifetime) = lifetime.try_into() {
        headers.insert(CACHE_CONTROL, lifetime);
    }
    response
}

fn refusal(status: StatusCode) -> Answer {
    let mut response = Response::new(None);
    *response.status_mut() = status;
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, POST"));
    }
    response
}
