//! Upstream servers over QUIC: each question has its own stream (RFC 9250).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bytes::BytesMut;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    ClientConfig, Connection, Endpoint, IdleTimeout, ReadToEndError, RecvStream, TransportConfig, VarInt,
};

use super::connection::Failure;
use super::server::IDLE;
use super::target::Target;
use crate::codes::{PROTOCOL_ERROR, REQUEST_CANCELLED};
use crate::message::{FRAME_OCTETS_MAX, has_keepalive, id, is_reply, only_frame, push_frame, set_id};

/// Octets of one connection's answers on their way at once.
const WINDOW_OCTETS: u32 = 256 << 10;

/// A connection with its own socket. It ends when it is idle, or when nobody holds this any more.
pub(super) struct Link(Connection);

/// How QUIC is spoken with servers.
pub(super) fn config(crypto: QuicClientConfig) -> ClientConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .max_idle_timeout(IdleTimeout::try_from(IDLE).ok())
        .stream_receive_window(VarInt::from_u32(FRAME_OCTETS_MAX as u32))
        .receive_window(VarInt::from_u32(WINDOW_OCTETS))
        .datagram_receive_buffer_size(None);
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    config
}

impl Link {
    pub async fn start(target: &Target, config: ClientConfig, name: &str) -> Result<Self, Failure> {
        let any = match target.address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let source = target.source.unwrap_or(SocketAddr::new(any, 0));
        let endpoint = Endpoint::client(source).map_err(Failure::from_error)?;
        let connecting = endpoint.connect_with(config, target.address, name).map_err(Failure::from_error)?;
        connecting.await.map(Self).map_err(Failure::from_error)
    }

    pub fn is_closed(&self) -> bool {
        self.0.close_reason().is_some()
    }

    pub async fn exchange(&self, query: &[u8]) -> Result<Vec<u8>, Failure> {
        let (mut send, recv) = self.0.open_bi().await.map_err(Failure::lost)?;
        let mut answer = AnswerStream(recv);
        // The ID must be 0 (RFC 9250 4.2.1).
        let mut query = query.to_vec();
        set_id(&mut query, 0);
        let mut frame = BytesMut::new();
        push_frame(&mut frame, &query);
        // A server may answer, or refuse, before it has read all: what it says counts, not what it read.
        if send.write_all(&frame).await.is_ok() {
            let _ = send.finish();
        }
        let octets = match answer.0.read_to_end(FRAME_OCTETS_MAX).await {
            Ok(octets) => octets,
            Err(ReadToEndError::Read(quinn::ReadError::Reset(_))) => return Err(Failure::Unusable),
            Err(ReadToEndError::Read(_)) => return Err(Failure::Lost),
            Err(ReadToEndError::TooLong) => Vec::new(),
        };
        match only_frame(&octets) {
            Ok(answer) if id(&answer) == 0 && !has_keepalive(&answer) => {
                if is_reply(&query, &answer) {
                    Ok(answer)
                } else {
                    Err(Failure::Unusable)
                }
            }
            _ => {
                self.0.close(PROTOCOL_ERROR, b"");
                Err(Failure::Unusable)
            }
        }
    }
}

/// The answer's half of a stream. When nobody waits for it any more, the server is told (RFC 9250 4.3.1).
struct AnswerStream(RecvStream);

impl Drop for AnswerStream {
    fn drop(&mut self) {
        // It fails when all has been read, and then there is nothing to cancel.
        let _ = self.0.stop(REQUEST_CANCELLED);
    }
}
