//! Upstream servers over HTTPS: each question is a request (RFC 8484).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::connection::Failure;
use super::server::IDLE;
use crate::activity::Activity;
use crate::message::{MESSAGE_OCTETS_MAX, is_reply, set_id};
use crate::request::{MEDIA_TYPE, content_type, is_message_type};

/// A server that says nothing for so long is asked whether it is there, and has as long again to say so.
const PING_EVERY: Duration = Duration::from_secs(5);

/// Requests at once before the server has said how many it takes: more would be refused by a modest one.
const STREAMS_AT_FIRST: usize = 10;

/// Octets of one connection's answers on their way at once.
const WINDOW_OCTETS: u32 = 256 << 10;

/// A connection. It ends when it is idle, or when nobody holds this any more.
pub(super) struct Link {
    requests: SendRequest<Full<Bytes>>,
    activity: Arc<Activity>,
    uri: Uri,
}

impl Link {
    pub async fn start(stream: TlsStream<TcpStream>, uri: Uri) -> Result<Self, Failure> {
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return Err(Failure::Unusable);
        }
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_max_send_streams(STREAMS_AT_FIRST)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_EVERY)
            .initial_stream_window_size(WINDOW_OCTETS)
            .initial_connection_window_size(WINDOW_OCTETS);
        let handshake = builder.handshake(TokioIo::new(stream)).await;
        let (requests, connection) = handshake.map_err(Failure::from_error)?;
        let activity = Activity::new();
        let watched = activity.clone();
        tokio::spawn(Box::pin(async move {
            tokio::select! {
                // Its error reaches all requests on it.
                _ = connection => {}
                () = watched.idle(IDLE) => {}
            }
        }));
        Ok(Self { requests, activity, uri })
    }

    pub fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }

    pub async fn exchange(&self, query: &[u8]) -> Result<Vec<u8>, Failure> {
        let _use = self.activity.begin();
        let request = self.request(query)?;
        let response = self.requests.clone().send_request(request).await.map_err(Failure::lost)?;
        if response.status() != StatusCode::OK || !is_message_type(content_type(response.headers())) {
            return Err(Failure::Unusable);
        }
        let body = Limited::new(response.into_body(), MESSAGE_OCTETS_MAX).collect().await;
        let answer: Vec<u8> = match body {
            Ok(body) => body.to_bytes().into(),
            Err(error) if error.is::<LengthLimitError>() => return Err(Failure::Unusable),
            Err(_) => return Err(Failure::Lost),
        };
        if is_reply(query, &answer) { Ok(answer) } else { Err(Failure::Unusable) }
    }

    /// A POST with the ID 0, so that caches on the way find equal questions equal (RFC 8484 4.1).
    fn request(&self, query: &[u8]) -> Result<Request<Full<Bytes>>, Failure> {
        let mut query = query.to_vec();
        set_id(&mut query, 0);
        Request::builder()
            .method(Method::POST)
            .uri(self.uri.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE))
            .header(ACCEPT, HeaderValue::from_static(MEDIA_TYPE))
            .body(Full::from(query))
            .map_err(Failure::from_error)
    }
}
