//! Clients over QUIC: connections, whatever is spoken over them, and DNS over QUIC, in which each query has
//! its own stream (RFC 9250).

use std::net::UdpSocket;
use std::sync::Arc;

use bytes::BytesMut;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{
    Connecting, Connection, Endpoint, EndpointConfig, IdleTimeout, Incoming, ReadToEndError, RecvStream,
    SendStream, ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use tokio::runtime;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::http3;
use super::listen::ListenError;
use super::pending::{PendingAnswer, Reply};
use super::room::Context;
use super::session::{ListenerState, Session};
use crate::activity::Activity;
use crate::codes::{EXCESSIVE_LOAD, INTERNAL_ERROR, NO_ERROR, PROTOCOL_ERROR};
use crate::message::{self, LENGTH_OCTETS, QUERY_OCTETS_MAX, has_keepalive, only_frame, push_frame};
use crate::tls::{Certificates, server_config};
use crate::{Limits, Protocol};

/// Octets of one connection's answers under way at once.
const SEND_WINDOW_OCTETS: u64 = 256 << 10;

/// The same over HTTP/3, whose library lets go of an answer when all of it is under way: from then on nobody
/// counts its octets.
const HTTP3_SEND_WINDOW_OCTETS: u64 = 64 << 10;

/// Octets of one connection's queries under way at once.
const RECEIVE_WINDOW_OCTETS: u32 = 64 << 10;

/// The longest query with the length before it.
const QUERY_FRAME_OCTETS_MAX: usize = LENGTH_OCTETS + QUERY_OCTETS_MAX;

/// Handshakes that wait to be looked at.
const INCOMING_MAX: usize = 256;

/// How QUIC is spoken with clients.
pub(super) fn config(
    protocol: Protocol,
    certificates: Arc<Certificates>,
    limits: Limits,
) -> Result<ServerConfig, ListenError> {
    let failed = |reason: String| ListenError::Tls(protocol, reason);
    let tls = server_config(protocol, certificates).map_err(|error| failed(error.to_string()))?;
    let crypto = QuicServerConfig::try_from(tls).map_err(|error| failed(error.to_string()))?;
    let (uni_streams, send_window) = match protocol {
        Protocol::Http3 => (http3::UNI_STREAMS_MAX, HTTP3_SEND_WINDOW_OCTETS),
        _ => (0, SEND_WINDOW_OCTETS),
    };
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(u32::try_from(limits.pipelined.max(1)).unwrap_or(u32::MAX).into())
        .max_concurrent_uni_streams(uni_streams.into())
        .max_idle_timeout(IdleTimeout::try_from(limits.idle).ok())
        .stream_receive_window(VarInt::from_u32(QUERY_FRAME_OCTETS_MAX as u32))
        .receive_window(VarInt::from_u32(RECEIVE_WINDOW_OCTETS))
        .send_window(send_window)
        .datagram_receive_buffer_size(None);
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    // Who may ask and how much is judged by the address a connection began with, so it has to stay.
    config.transport_config(Arc::new(transport)).max_incoming(INCOMING_MAX).migration(false);
    Ok(config)
}

/// A QUIC server at this socket. Must run inside the event loop's context.
pub(super) fn endpoint(
    protocol: Protocol,
    socket: UdpSocket,
    certificates: Arc<Certificates>,
    limits: Limits,
) -> Result<Endpoint, ListenError> {
    let config = config(protocol, certificates, limits)?;
    Endpoint::new(EndpointConfig::default(), Some(config), socket, Arc::new(TokioRuntime))
        .map_err(|error| ListenError::Socket(protocol, error))
}

/// Takes connections until the listener is removed.
pub(super) async fn accept(
    room: Arc<Context>,
    place: Arc<ListenerState>,
    endpoint: Endpoint,
    threads: Arc<[runtime::Handle]>,
    mut retired: watch::Receiver<bool>,
) {
    for thread in threads.iter().cycle() {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            _ = retired.changed() => return,
        };
        let Some(incoming) = incoming else { return };
        let Some((session, incoming)) = admit(&room, &place, incoming, &retired) else { continue };
        begin(thread, session, incoming);
    }
}

/// Begins a connection on this thread: a connection lives where its event loop is entered.
fn begin(thread: &runtime::Handle, session: Session, incoming: Incoming) {
    let _entered = thread.enter();
    match incoming.accept() {
        Ok(connecting) => drop(thread.spawn(Box::pin(serve(session, connecting)))),
        Err(_) => session.cells().handshake_failures.add(),
    }
}

/// Takes a client in that may connect, if there is room. No state of a connection exists yet. A client that
/// is not taken in hears nothing if it is a stranger, and otherwise that it is refused or has to prove its
/// address.
fn admit(
    room: &Arc<Context>,
    place: &Arc<ListenerState>,
    incoming: Incoming,
    retired: &watch::Receiver<bool>,
) -> Option<(Session, Incoming)> {
    let (gate, cells, client) =
        (room.guests.gate(), room.tally.of(place.protocol), incoming.remote_address());
    if !gate.allows(client.ip()) {
        cells.strangers.add();
        incoming.ignore();
        return None;
    }
    let proven = incoming.remote_address_validated() || !incoming.may_retry();
    let may_begin = gate.may_shake_hands(client.ip(), proven);
    if !proven && (!may_begin || room.guests.is_crowded(client.ip())) {
        // It cannot fail for one that may.
        let _ = incoming.retry();
        return None;
    }
    if !may_begin {
        cells.refused.add();
        incoming.refuse();
        return None;
    }
    match Session::admit(room, place, client, retired) {
        Some(session) => Some((session, incoming)),
        None => {
            incoming.refuse();
            None
        }
    }
}

async fn serve(session: Session, connecting: Connecting) {
    let session = Arc::new(session);
    let connecting = tokio::select! {
        connection = timeout(session.limits.message_timeout, connecting) => connection,
        () = session.usage.until_cut() => return,
    };
    let Ok(Ok(connection)) = connecting else {
        return session.cells().handshake_failures.add();
    };
    match session.place.protocol {
        Protocol::Http3 => http3::serve(session, connection).await,
        _ => converse(session, connection).await,
    }
}

async fn converse(session: Arc<Session>, connection: Connection) {
    let activity = Activity::new();
    loop {
        let (send, recv) = tokio::select! {
            accepted = connection.accept_bi() => match accepted {
                Ok(streams) => streams,
                Err(_) => return,
            },
            () = activity.idle(session.limits.idle) => break,
            () = session.retired() => break,
            () = session.usage.until_cut() => return connection.close(EXCESSIVE_LOAD, b""),
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
    let reading = session.charge(QUERY_OCTETS_MAX);
    let query = match timeout(patience, recv.read_to_end(QUERY_FRAME_OCTETS_MAX)).await {
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
    let Ok(permit) = session.usage.pipeline.clone().acquire_owned().await else { return };
    let (sender, outcome) = oneshot::channel();
    session.offer(query, Reply::Stream(sender), permit);
    drop(reading);
    let outcome = tokio::select! {
        outcome = outcome => outcome,
        _ = connection.closed() => return,
    };
    let answer = outcome.ok().flatten();
    let Some(answer) = answer.and_then(|answer| session.unless_too_many(answer)) else {
        // It fails where the client has stopped the stream; then there is nobody to tell.
        let _ = send.reset(INTERNAL_ERROR);
        return;
    };
    session.cells().answers.add();
    if timeout(patience, write(&mut send, answer)).await.is_err() {
        let _ = send.reset(EXCESSIVE_LOAD);
        session.cells().too_slow.add();
    }
}

/// The query of a stream: one frame and nothing else, the ID 0, no idle time (RFC 9250 4.2, 4.2.1, 5.5.2).
fn check(octets: &[u8]) -> Option<Vec<u8>> {
    only_frame(octets).ok().filter(|query| message::id(query) == 0 && !has_keepalive(query))
}

/// Writes the answer and waits until the client has all of it.
async fn write(send: &mut SendStream, answer: PendingAnswer) {
    let PendingAnswer { mut octets, charge: _counted } = answer;
    message::set_id(&mut octets, 0);
    let mut frame = BytesMut::with_capacity(LENGTH_OCTETS + octets.len());
    if !push_frame(&mut frame, &octets) {
        return;
    }
    // The frame is the only copy that waits.
    drop(octets);
    if send.write_chunk(frame.freeze()).await.is_ok() && send.finish().is_ok() {
        // Stopped or acknowledged, it is over.
        let _ = send.stopped().await;
    }
}
