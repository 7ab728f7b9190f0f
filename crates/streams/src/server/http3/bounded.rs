//! Streams of QUIC that bring a limited number of octets. The library of HTTP/3 keeps a frame until it is
//! whole, however long its header says that it is.

use std::task::{Context, Poll};

use bytes::Buf;
use h3::error::Code;
use h3::quic::{
    Connection, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream, StreamErrorIncoming, StreamId,
    WriteBuf,
};

use crate::message::QUERY_OCTETS_MAX;
use crate::server::requests::HEADERS_OCTETS_MAX;

/// Octets of a request: its header fields, and twice as much as the longest query, so that a query that is
/// too long is refused by its status.
const REQUEST_OCTETS_MAX: usize = HEADERS_OCTETS_MAX as usize + 2 * QUERY_OCTETS_MAX;
/// Octets of a stream of the client's control. A client that says more, such as thousands of priorities,
/// needs another connection.
const CONTROL_OCTETS_MAX: usize = 64 << 10;

/// A connection whose streams are bounded.
pub(super) struct Bounded<C>(C);

impl<C> Bounded<C> {
    pub fn new(connection: C) -> Self {
        Self(connection)
    }
}

/// A stream that is bounded.
pub(super) struct Limited<S> {
    stream: S,
    /// Octets that it may still bring.
    left: usize,
    /// The library of the transport is reading, and could not be told to stop.
    reading: bool,
}

impl<S> Limited<S> {
    fn new(stream: S, left: usize) -> Self {
        Self { stream, left, reading: false }
    }
}

/// The stream of a request.
pub(super) type BoundedStream = Limited<h3_quinn::BidiStream<bytes::Bytes>>;

impl<B: Buf, C: Connection<B>> Connection<B> for Bounded<C> {
    type RecvStream = Limited<C::RecvStream>;
    type OpenStreams = Bounded<C::OpenStreams>;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        self.0.poll_accept_recv(cx).map_ok(|stream| Limited::new(stream, CONTROL_OCTETS_MAX))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        self.0.poll_accept_bidi(cx).map_ok(|stream| Limited::new(stream, REQUEST_OCTETS_MAX))
    }

    fn opener(&self) -> Self::OpenStreams {
        Bounded(self.0.opener())
    }
}

impl<B: Buf, C: OpenStreams<B>> OpenStreams<B> for Bounded<C> {
    type BidiStream = Limited<C::BidiStream>;
    type SendStream = C::SendStream;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        self.0.poll_open_bidi(cx).map_ok(|stream| Limited::new(stream, REQUEST_OCTETS_MAX))
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        self.0.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.0.close(code, reason);
    }
}

impl<S: RecvStream> RecvStream for Limited<S> {
    type Buf = S::Buf;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Self::Buf>, StreamErrorIncoming>> {
        let polled = self.stream.poll_data(cx);
        self.reading = polled.is_pending();
        let Poll::Ready(Ok(Some(octets))) = &polled else { return polled };
        match self.left.checked_sub(octets.remaining()) {
            Some(left) => {
                self.left = left;
                polled
            }
            None => {
                let error_code = Code::H3_EXCESSIVE_LOAD.value();
                self.stream.stop_sending(error_code);
                Poll::Ready(Err(StreamErrorIncoming::StreamTerminated { error_code }))
            }
        }
    }

    fn stop_sending(&mut self, error_code: u64) {
        // A stream that is left while it is read is stopped when it is dropped.
        if !self.reading {
            self.stream.stop_sending(error_code);
        }
    }

    fn recv_id(&self) -> StreamId {
        self.stream.recv_id()
    }
}

impl<B: Buf, S: SendStream<B>> SendStream<B> for Limited<S> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.stream.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.stream.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.stream.poll_finish(cx)
    }

    fn reset(&mut self, reset_code: u64) {
        self.stream.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.stream.send_id()
    }
}
