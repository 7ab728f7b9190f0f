//! Clients over QUIC: each query has its own stream (RFC 9250).

use std::net::UdpSocket;
use std::sync::Arc;

use bytes::BytesMut;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{
    Connecting, Connection, Endpoint, EndpointConfig, IdleTimeout, Incoming, ReadToEndError, RecvStream,
    SendStream, ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::listen::ListenError;
use super::pending::Reply;
use super::room::Context;
use super::session::{ListenerState, PendingAnswer, Session};
use crate::activity::Activity;
use crate::doq::{EXCESSIVE_LOAD, INTERNAL_ERROR, NO_ERROR, PROTOCOL_ERROR};
use crate::message::{self, FRAME_OCTETS_MAX, LENGTH_OCTETS, has_keepalive, only_frame, push_frame};
use crate::tls::{Certificates, server_config};
use crate::{Limits, Protocol};

/// Octets of one connection under way at once, each way.
const WINDOW_OCTETS: u32 = 256 << 10;

/// Handshakes that wait to be looked at.
const INCOMING_MAX: usize = 256;

/// How QUIC is spoken with clients.
pub(super) fn config(certificates: Arc<Certificates>, limits: Limits) -> Result<ServerConfig, ListenError> {
    let failed = |reason: String| ListenError::Tls(Protocol::Quic, reason);
    let tls = server_config(Protocol::Quic, certificates).map_err(|error| failed(error.to_string()))?;
    let crypto = QuicServerConfig::try_from(tls).map_err(|error| failed(error.to_string()))?;
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(u32::try_from(limits.pipelined.max(1)).unwrap_or(u32::MAX).into())
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .max_idle_timeout(IdleTimeout::try_from(limits.idle).ok())
        .stream_receive_window(VarInt::from_u32(FRAME_OCTETS_MAX as u32))
        .receive_window(VarInt::from_u32(WINDOW_OCTETS))
        .send_window(u64::from(WINDOW_OCTETS))
        .datagram_receive_buffer_size(None);
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    // Who may ask and how much is judged by the address a connection began with, so it has to stay.
    config.transport_config(Arc::new(transport)).max_incoming(INCOMING_MAX).migration(false);
    Ok(config)
}

/// A QUIC server at this socket. Must run inside the event loop's context.
pub(super) fn endpoint(
    socket: UdpSocket,
    certificates: Arc<Certificates>,
    limits: Limits,
) -> Result<Endpoint, ListenError> {
    let config = config(certificates, limits)?;
    Endpoint::new(EndpointConfig::default(), Some(config), socket, Arc::new(TokioRuntime))
        .map_err(|error| ListenError::Socket(Protocol::Quic, error))
}

/// Takes connections until the listener is removed.
pub(super) async fn accept(
    room: Arc<Context>,
    place: Arc<ListenerState>,
    endpoint: Endpoint,
    mut retired: watch::Receiver<bool>,
) {
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            _ = retired.changed() => return,
        };
        let Some(incoming) = incoming else { return };
        admit(&room, &place, incoming, &retired);
    }
}

fn admit(
    room: &Arc<Context>,
    place: &Arc<ListenerState>,
    incoming: Incoming,
    retired: &watch::Receiver<bool>,
) {
    let client = incoming.remote_address();
    if incoming.may_retry() && !incoming.remote_address_validated() && room.guests.is_crowded(client.ip()) {
        // It cannot fail for one that may.
        let _ = incoming.retry();
        return;
    }
    let Some(session) = Session::admit(room, place, client, retired) else { return incoming.refuse() };
    match incoming.accept() {
        Ok(connecting) => drop(tokio::spawn(Box::pin(serve(session, connecting)))),
        Err(_) => session.cells().handshake_failures.add(),
    }
}

async fn serve(session: Session, connecting: Connecting) {
    let Ok(Ok(connection)) = timeout(session.limits.message_timeout, connecting).await else {
        return session.cells().handshake_failures.add();
    };
    let session = Arc::new(session);
    let activity = Activity::new();
    loop {
        let (send, recv) = tokio::select! {
            accepted = connection.accept_bi() => match accepted {
                Ok(streams) => streams,
                Err(_) => return,
            },
            () = activity.idle(session.limits.idle) => break,
            () = session.retired() => break,
        };
        let (session, connection, in_use) = (session.clone(), connection.clone(), activity.begin());
        tokio::spawn(Box::pin(async move {
            let _in_use = in_use;
            answer(&session, &connection, send, recv).await;
        }));
    }
    activity.idle(std::time::Duration::ZERO).await;
    connection.close(NO_ERROR, b"");
}

async fn answer(session: &Session, connection: &Connection, mut send: SendStream, mut recv: RecvStream) {
    let patience = session.limits.message_timeout;
    let query = match timeout(patience, recv.read_to_end(FRAME_OCTETS_MAX)).await {
        Ok(Ok(octets)) => check(&octets),
        Ok(Err(ReadToEndError::TooLong)) => None,
        // The client took its query back, or has gone.
        Ok(Err(ReadToEndError::Read(_))) => return,
        Err(_) => {
            // Dropping its other half tells the client to stop.
            let _ = send.reset(PROTOCOL_ERROR);
            return session.cells().too_slow.add();
        }
    };
    let Some(query) = query else {
        connection.close(PROTOCOL_ERROR, b"");
        return session.cells().malformed.add();
    };
    // The semaphore is never closed.
    let Ok(permit) = session.pipeline.clone().acquire_owned().await else { return };
    let (sender, outcome) = oneshot::channel();
    session.offer(query, Reply::Stream(sender), permit);
    let outcome = tokio::select! {
        outcome = outcome => outcome,
        _ = connection.closed() => return,
    };
    let Some(held) = outcome.ok().flatten().and_then(|octets| session.hold(octets)) else {
        // It fails where the client has stopped the stream; then there is nobody to tell.
        let _ = send.reset(INTERNAL_ERROR);
        return;
    };
    session.cells().answers.add();
    if timeout(patience, write(&mut send, held)).await.is_err() {
        let _ = send.reset(EXCESSIVE_LOAD);
        session.cells().too_slow.add();
    }
}

/// The query of a stream: one frame and nothing else, the ID 0, no idle time (RFC 9250 4.2, 4.2.1, 5.5.2).
fn check(octets: &[u8]) -> Option<Vec<u8>> {
    only_frame(octets).ok().filter(|query| message::id(query) == 0 && !has_keepalive(query))
}

/// Writes the answer and waits until the client has all of it.
async fn write(send: &mut SendStream, mut held: PendingAnswer) {
    message::set_id(&mut held.octets, 0);
    let mut frame = BytesMut::with_capacity(LENGTH_OCTETS + held.octets.len());
    if push_frame(&mut frame, &held.octets) && send.write_all(&frame).await.is_ok() && send.finish().is_ok() {
        // Stopped or acknowledged, it is over.
        let _ = send.stopped().await;
    }
}
