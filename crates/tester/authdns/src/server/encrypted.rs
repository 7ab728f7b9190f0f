//! The AuthDNS over TLS (RFC 7858), HTTPS (RFC 8484; HTTP/2 and HTTP/3) and QUIC (RFC 9250): the event loops
//! of
//! `streams`.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use streams::{Counts, Handle, Limits, ListenSocket, Listener, Protocol, ServerTls, Streams};
use sys::clock;

use super::late::LateAnswers;
use super::tcp::listen;
use super::{ConnectionLimits, StartError};
use crate::counters::{Counters, EncryptedCounters, SharedTraffic, Traffic};
use crate::query::Query;
use crate::responder::Responder;
use crate::zone::{TCP_ANSWER_OCTETS_MAX, Transport};

/// The path of the resource of HTTPS and HTTP/3.
const PATH: &str = "/dns-query";
/// Queries of one connection in progress. Only delayed answers keep a query in progress for long.
const PIPELINED: usize = 1024;
/// A handshake, a message that has begun, and a write to a client that does not read may take so long.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// What is served over encrypted transports. Port 0 takes a free one.
#[derive(Clone, Debug)]
pub struct EncryptedConfig {
    /// The addresses to answer on over TLS.
    pub dot: Vec<SocketAddr>,
    /// The addresses to answer on over HTTPS, at `/dns-query`.
    pub doh: Vec<SocketAddr>,
    /// The addresses to answer on over QUIC.
    pub doq: Vec<SocketAddr>,
    /// The addresses to answer on over HTTP/3, at `/dns-query`.
    pub doh3: Vec<SocketAddr>,
    /// The certificate that clients are shown.
    pub tls: ServerTls,
}

impl EncryptedConfig {
    fn listen(&self) -> impl Iterator<Item = (Transport, SocketAddr)> {
        let all = [
            (Transport::Dot, &self.dot),
            (Transport::Doh, &self.doh),
            (Transport::Doq, &self.doq),
            (Transport::Doh3, &self.doh3),
        ];
        all.into_iter().flat_map(|(transport, addresses)| addresses.iter().map(move |&at| (transport, at)))
    }
}

/// The running event loops; dropping them ends their threads and closes all connections.
pub(super) struct EncryptedService {
    // In this order: the threads end before what they answer with goes. `None` when they have ended.
    streams: Option<Streams>,
    desk: Arc<Desk>,
    addresses: Vec<(Transport, SocketAddr)>,
    /// The last counters of the loops.
    ended: Counts,
}

/// What answers for all threads.
struct Desk {
    /// One for each thread.
    answerers: Vec<Mutex<Answerer>>,
    /// Queries, by the index of their protocol.
    traffic: [SharedTraffic; Protocol::ALL.len()],
    /// Set before the first listener.
    outlet: OnceLock<Outlet>,
}

struct Answerer {
    responder: Responder,
    out: Box<[u8; TCP_ANSWER_OCTETS_MAX]>,
}

/// Where answers go.
struct Outlet {
    handle: Handle,
    late: LateAnswers,
}

impl EncryptedService {
    /// Binds all addresses and starts as many threads for them.
    ///
    /// # Errors
    /// An address cannot be had, or a thread cannot be started.
    pub fn start(
        config: &EncryptedConfig,
        limits: ConnectionLimits,
        threads: usize,
        responder: &Responder,
    ) -> Result<Self, StartError> {
        let bound = config.listen().map(|(transport, address)| {
            bind(transport, address, limits).map_err(|error| StartError::Bind { transport, address, error })
        });
        let (listeners, addresses): (Vec<Listener>, Vec<_>) =
            bound.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let threads = threads.max(1);
        let desk = Arc::new(Desk::new(threads, responder));
        // The loops know the desk, the desk the loops: one of them must not keep the other.
        let answering = Arc::downgrade(&desk);
        let on_query = move |query: streams::Query| {
            if let Some(desk) = answering.upgrade() {
                desk.answer(&query);
            }
        };
        let streams = Streams::start("auth", threads, on_query, |_| {}).map_err(StartError::Thread)?;
        let handle = streams.handle();
        let late = LateAnswers::start(handle.clone()).map_err(StartError::Thread)?;
        let _ = desk.outlet.set(Outlet { handle, late });
        streams.listen(listeners, Some(config.tls.clone()), bounds(limits)).map_err(StartError::Encrypted)?;
        Ok(Self { addresses, desk, streams: Some(streams), ended: Counts::default() })
    }

    pub fn addresses(&self) -> &[(Transport, SocketAddr)] {
        &self.addresses
    }

    /// Ends the threads. What was delayed and not sent is counted from then on.
    pub fn stop(&mut self) {
        if let Some(streams) = self.streams.take() {
            self.ended = streams.stop();
        }
    }

    /// Sets the counters of the transports that are served.
    pub fn add_to(&self, counters: &mut Counters) {
        let counts = self.streams.as_ref().map_or(self.ended, Streams::counts);
        for (transport, counted) in [
            (Transport::Dot, &mut counters.dot),
            (Transport::Doh, &mut counters.doh),
            (Transport::Doq, &mut counters.doq),
            (Transport::Doh3, &mut counters.doh3),
        ] {
            if self.addresses.iter().any(|(served, _)| *served == transport) {
                *counted = Some(self.counters(transport, &counts));
            }
        }
    }

    fn counters(&self, transport: Transport, counts: &Counts) -> EncryptedCounters {
        let protocol = protocol(transport);
        let of_loops = counts.of(protocol);
        let mut traffic = self.desk.traffic[protocol.index()].read();
        traffic.answers = of_loops.answers;
        traffic.malformed += of_loops.malformed;
        traffic.dropped += of_loops.malformed;
        if self.streams.is_none() {
            traffic.undelivered = u64::try_from(traffic.unaccounted()).unwrap_or(0);
        }
        EncryptedCounters {
            traffic,
            connections: of_loops.accepted,
            handshake_failures: of_loops.handshake_failures,
            connections_refused: of_loops.refused,
            connections_evicted: of_loops.evicted,
            too_slow: of_loops.too_slow,
        }
    }
}

impl Desk {
    fn new(threads: usize, responder: &Responder) -> Self {
        let answerer = |_| {
            Mutex::new(Answerer { responder: responder.clone(), out: Box::new([0; TCP_ANSWER_OCTETS_MAX]) })
        };
        Self {
            answerers: (0..threads).map(answerer).collect(),
            traffic: Default::default(),
            outlet: OnceLock::new(),
        }
    }

    /// An answerer that no other thread uses, or the first.
    fn answerer(&self) -> MutexGuard<'_, Answerer> {
        let free = self.answerers.iter().find_map(|answerer| answerer.try_lock().ok());
        free.unwrap_or_else(|| self.answerers[0].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Answers a query, as often as a stream takes an answer: once at most.
    fn answer(&self, query: &streams::Query) {
        let Some(Outlet { handle, late }) = self.outlet.get() else { return };
        let mut answerer = self.answerer();
        let Answerer { responder, out } = &mut *answerer;
        let arrived_ns = if responder.needs_time() { clock::monotonic_ns() } else { 0 };
        let transport = transport(query.protocol);
        let asked = Query { octets: &query.octets, from: query.client, transport, arrived_ns };
        let reply = responder.respond(asked, &mut out[..]);
        let mut counted = Traffic::default();
        counted.count(&reply);
        self.traffic[query.protocol.index()].add(counted);
        let octets = &out[..reply.answer.octets.min(TCP_ANSWER_OCTETS_MAX)];
        if octets.is_empty() || reply.copies == 0 {
            handle.forget(query.token);
        } else if reply.delay_ns == 0 {
            handle.answer(query.token, octets);
        } else if !late.push(arrived_ns.saturating_add(reply.delay_ns), query.token, octets) {
            handle.forget(query.token);
        }
    }
}

/// Binds the socket of a listener; returns its address, too.
fn bind(
    transport: Transport,
    address: SocketAddr,
    limits: ConnectionLimits,
) -> io::Result<(Listener, (Transport, SocketAddr))> {
    let protocol = protocol(transport);
    let (socket, local) = if protocol.is_over_udp() {
        let socket = UdpSocket::bind(address)?;
        let local = socket.local_addr()?;
        (ListenSocket::Udp(socket), local)
    } else {
        let socket = listen(address, limits)?;
        let local = socket.local_addr()?;
        (ListenSocket::Tcp(socket), local)
    };
    let listener = Listener { protocol, number: 0, socket, path: PATH.to_owned() };
    Ok((listener, (transport, local)))
}

/// The bounds of the loops. One host of a test may have all connections.
fn bounds(limits: ConnectionLimits) -> Limits {
    Limits {
        connections: limits.connections,
        connections_per_network: usize::MAX,
        connections_per_address: usize::MAX,
        pipelined: PIPELINED,
        idle: limits.idle_timeout,
        message_timeout: MESSAGE_TIMEOUT,
    }
}

fn transport(protocol: Protocol) -> Transport {
    match protocol {
        Protocol::Tcp => Transport::Tcp,
        Protocol::Tls => Transport::Dot,
        Protocol::Https => Transport::Doh,
        Protocol::Quic => Transport::Doq,
        Protocol::Http3 => Transport::Doh3,
    }
}

fn protocol(transport: Transport) -> Protocol {
    match transport {
        Transport::Udp | Transport::Tcp => Protocol::Tcp,
        Transport::Dot => Protocol::Tls,
        Transport::Doh => Protocol::Https,
        Transport::Doq => Protocol::Quic,
        Transport::Doh3 => Protocol::Http3,
    }
}
