//! The set of listeners, replaced as a whole.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quinn::Endpoint;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::room::Context;
use super::session::{ListenerState, Session};
use super::{framed, https, quic};
use crate::codes::no_error;
use crate::tls::{Certificates, server_config};
use crate::{Limits, ListenSocket, Listener, Protocol, ServerTls, lock};

/// Accepting pauses so long when the process has no more descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why a set of listeners cannot be served.
#[derive(Debug)]
pub enum ListenError {
    /// This protocol does not run over this kind of socket.
    WrongSocket(Protocol),
    /// This protocol needs a certificate, and there is none.
    NoCertificate(Protocol),
    /// No listener with this protocol runs at this address.
    NotRunning(Protocol, SocketAddr),
    /// The socket cannot be used.
    Socket(Protocol, io::Error),
    /// The TLS library refused the settings.
    Tls(Protocol, String),
    /// The streams were started without a thread for clients.
    NoThreads,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongSocket(protocol) => write!(f, "{protocol} listener with a socket of the wrong kind"),
            Self::NoCertificate(protocol) => write!(f, "{protocol} listener without a certificate"),
            Self::NotRunning(protocol, address) => write!(f, "no {protocol} listener runs at {address}"),
            Self::Socket(protocol, error) => write!(f, "{protocol} listener: {error}"),
            Self::Tls(protocol, reason) => write!(f, "{protocol} listener: TLS: {reason}"),
            Self::NoThreads => f.write_str("no thread serves clients"),
        }
    }
}

impl std::error::Error for ListenError {}

pub(crate) struct Servers {
    certificates: Arc<Certificates>,
    /// The event loops of the threads that serve clients.
    threads: Arc<[runtime::Handle]>,
    running: Mutex<Vec<Running>>,
}

struct Running {
    place: Arc<ListenerState>,
    address: SocketAddr,
    retire: watch::Sender<bool>,
    endpoint: Option<Endpoint>,
}

/// What a new listener becomes.
enum Plan {
    /// That of the same protocol and address goes on; over QUIC with new settings.
    Keep(SocketAddr, Option<quinn::ServerConfig>),
    /// Each thread accepts from a descriptor of its own of the same socket.
    Tcp(SocketAddr, Vec<TcpListener>, Option<TlsAcceptor>),
    /// The thread with this number receives for all; connections are spread over the threads.
    Quic(SocketAddr, Endpoint, usize),
}

impl Servers {
    pub fn new(certificates: Arc<Certificates>, threads: Arc<[runtime::Handle]>) -> Self {
        Self { certificates, threads, running: Mutex::default() }
    }

    /// Nothing changes before everything is known to work.
    pub fn replace(
        &self,
        room: &Arc<Context>,
        listeners: Vec<Listener>,
        tls: Option<ServerTls>,
        limits: Limits,
    ) -> Result<(), ListenError> {
        if self.threads.is_empty() && !listeners.is_empty() {
            return Err(ListenError::NoThreads);
        }
        let mut running = lock(&self.running);
        let certified = tls.is_some() || self.certificates.is_set();
        let mut plans = Vec::with_capacity(listeners.len());
        for Listener { protocol, number, socket, path } in listeners {
            if protocol.is_encrypted() && !certified {
                return Err(ListenError::NoCertificate(protocol));
            }
            plans.push((
                ListenerState::new(protocol, number, &path),
                self.plan(protocol, socket, &running, limits)?,
            ));
        }
        if let Some(tls) = tls {
            self.certificates.set(tls);
        }
        room.guests.set_limits(limits);
        let mut before = std::mem::take(&mut *running);
        for (place, plan) in plans {
            running.extend(self.start(room, place, plan, &mut before));
        }
        before.iter().for_each(Running::retire);
        Ok(())
    }

    fn plan(
        &self,
        protocol: Protocol,
        socket: ListenSocket,
        running: &[Running],
        limits: Limits,
    ) -> Result<Plan, ListenError> {
        let socket_error = |error| ListenError::Socket(protocol, error);
        match (protocol, socket) {
            (_, ListenSocket::Kept(address)) => {
                if !running.iter().any(|listener| listener.is_at(protocol, address)) {
                    return Err(ListenError::NotRunning(protocol, address));
                }
                let quic =
                    protocol.is_over_udp().then(|| quic::config(protocol, self.certificates.clone(), limits));
                Ok(Plan::Keep(address, quic.transpose()?))
            }
            (Protocol::Quic | Protocol::Http3, ListenSocket::Udp(socket)) => {
                let address = socket.local_addr().map_err(socket_error)?;
                let thread = usize::from(address.port()) % self.threads.len();
                let _entered = self.threads[thread].enter();
                let endpoint = quic::endpoint(protocol, socket, self.certificates.clone(), limits)?;
                Ok(Plan::Quic(address, endpoint, thread))
            }
            (Protocol::Quic | Protocol::Http3, ListenSocket::Tcp(_)) | (_, ListenSocket::Udp(_)) => {
                Err(ListenError::WrongSocket(protocol))
            }
            (_, ListenSocket::Tcp(socket)) => {
                let address = socket.local_addr().map_err(socket_error)?;
                socket.set_nonblocking(true).map_err(socket_error)?;
                let share = |thread: &runtime::Handle| {
                    let _entered = thread.enter();
                    TcpListener::from_std(socket.try_clone()?)
                };
                let sockets =
                    self.threads.iter().map(share).collect::<io::Result<_>>().map_err(socket_error)?;
                let acceptor = if protocol.is_encrypted() {
                    let config = server_config(protocol, self.certificates.clone())
                        .map_err(|error| ListenError::Tls(protocol, error.to_string()))?;
                    Some(TlsAcceptor::from(Arc::new(config)))
                } else {
                    None
                };
                Ok(Plan::Tcp(address, sockets, acceptor))
            }
        }
    }

    /// Starts a listener, or takes it from those that ran before. `None` is one that is to be kept twice.
    fn start(
        &self,
        room: &Arc<Context>,
        place: ListenerState,
        plan: Plan,
        before: &mut Vec<Running>,
    ) -> Option<Running> {
        let place = Arc::new(place);
        let (retire, retired) = watch::channel(false);
        match plan {
            Plan::Keep(address, config) => {
                let index = before.iter().position(|listener| listener.is_at(place.protocol, address))?;
                let kept = before.swap_remove(index);
                kept.place.renew_from(&place);
                if let Some(endpoint) = &kept.endpoint {
                    endpoint.set_server_config(config);
                }
                Some(kept)
            }
            Plan::Tcp(address, sockets, acceptor) => {
                for (thread, socket) in self.threads.iter().zip(sockets) {
                    let (room, place, retired) = (room.clone(), place.clone(), retired.clone());
                    thread.spawn(Box::pin(accept(room, place, socket, acceptor.clone(), retired)));
                }
                Some(Running { place, address, retire, endpoint: None })
            }
            Plan::Quic(address, endpoint, thread) => {
                let (threads, room, place_of) = (self.threads.clone(), room.clone(), place.clone());
                let accept = quic::accept(room, place_of, endpoint.clone(), threads, retired);
                self.threads[thread].spawn(Box::pin(accept));
                Some(Running { place, address, retire, endpoint: Some(endpoint) })
            }
        }
    }

    /// Ends all listeners. Connections over QUIC are told at once; the others end with the thread.
    pub fn close(&self) {
        for listener in std::mem::take(&mut *lock(&self.running)) {
            listener.retire();
            if let Some(endpoint) = &listener.endpoint {
                endpoint.close(no_error(listener.place.protocol), b"");
            }
        }
    }
}

impl Running {
    fn is_at(&self, protocol: Protocol, address: SocketAddr) -> bool {
        self.place.protocol == protocol && self.address == address
    }

    fn retire(&self) {
        self.retire.send_replace(true);
        if let Some(endpoint) = &self.endpoint {
            endpoint.set_server_config(None);
        }
    }
}

/// Takes TCP connections until the listener is removed. Those that may not be, or are beyond the limits, are
/// reset at once: nothing is left of them, not even in the kernel.
async fn accept(
    room: Arc<Context>,
    place: Arc<ListenerState>,
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    mut retired: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = retired.changed() => return,
        };
        match accepted {
            Ok((stream, client)) => match admit(&room, &place, client, &retired) {
                Some(session) => drop(tokio::spawn(Box::pin(serve(session, stream, acceptor.clone())))),
                // With an error the connection has ended already.
                None => drop(stream.set_zero_linger()),
            },
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Takes a client in that may connect, if there is room.
fn admit(
    room: &Arc<Context>,
    place: &Arc<ListenerState>,
    client: SocketAddr,
    retired: &watch::Receiver<bool>,
) -> Option<Session> {
    let (gate, cells) = (room.guests.gate(), room.tally.of(place.protocol));
    if !gate.allows(client.ip()) {
        cells.strangers.add();
        return None;
    }
    if place.protocol.is_encrypted() && !gate.may_shake_hands(client.ip(), true) {
        cells.refused.add();
        return None;
    }
    Session::admit(room, place, client, retired)
}

/// The life of a connection over TCP. It ends at once when its place is needed for another.
async fn serve(session: Session, stream: TcpStream, acceptor: Option<TlsAcceptor>) {
    let usage = session.usage.clone();
    tokio::select! {
        () = converse(session, stream, acceptor) => {}
        () = usage.until_cut() => {}
    }
}

async fn converse(session: Session, stream: TcpStream, acceptor: Option<TlsAcceptor>) {
    // Without it answers may wait for one another; with an error the connection has ended already.
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = acceptor else {
        return framed::serve(&session, Box::pin(stream)).await;
    };
    let handshake = tokio::time::timeout(session.limits.message_timeout, acceptor.accept(stream)).await;
    let Ok(Ok(stream)) = handshake else {
        return session.cells().handshake_failures.add();
    };
    match session.place.protocol {
        Protocol::Https => https::serve(session, stream).await,
        _ => framed::serve(&session, Box::pin(stream)).await,
    }
}
