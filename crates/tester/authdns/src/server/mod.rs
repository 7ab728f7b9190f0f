//! The AuthDNS as a running server: UDP sockets spread over threads, a TCP listener, and event loops for
//! encrypted transports.

mod backend;
mod connection;
mod encrypted;
mod kernel;
mod late;
mod outbox;
mod tcp;
mod udp;
mod worker;
mod xdp;

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use streams::ListenError;
use sys::udp::Options;

use crate::counters::Counters;
use crate::faults::Faults;
use crate::listen::advice;
use crate::observe::Observer;
use crate::responder::Responder;
use crate::zone::{Transport, Zone};
use backend::Backend;
pub use backend::{Io, IoRefusal};
pub use encrypted::EncryptedConfig;
use encrypted::EncryptedService;
pub use tcp::ConnectionLimits;
use tcp::{TcpGauge, TcpService, listen};
use udp::UdpGauge;
pub use udp::UdpService;
use worker::Worker;

/// The default size of the sockets' buffers: a stall of a few ms at a million queries a second.
const SOCKET_BUFFER_OCTETS: usize = 8 << 20;
/// Free ports tried until one is free for UDP and TCP.
const FREE_PORT_TRIES: usize = 32;

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct AuthorityConfig {
    /// The addresses to answer on, over UDP and TCP. Port 0 takes a free one.
    pub listen: Vec<SocketAddr>,
    /// Threads for UDP, at least one. Each has a socket for each address; the kernel spreads the clients over
    /// them.
    pub threads: usize,
    /// The processors of these threads, used in turn; empty leaves the choice to the kernel.
    pub cpus: Vec<usize>,
    /// Whether number and processors of the threads are binding: [`Io::Kernel`], which runs on the processors
    /// that receive the queries, is refused then.
    pub in_threads: bool,
    /// Whether the addresses of `listen` answer over TCP, too.
    pub tcp: bool,
    /// What is served over TLS, HTTPS and QUIC.
    pub encrypted: Option<EncryptedConfig>,
    /// The bounds of connections.
    pub limits: ConnectionLimits,
    /// The size of the buffers of each UDP socket in octets; 0 leaves the system's default.
    pub socket_buffer_octets: usize,
    /// What befalls the answers; `None` for nothing.
    pub faults: Option<Arc<Faults>>,
    /// What notes the queries.
    pub observer: Option<Arc<Observer>>,
    /// How queries over UDP come in and answers leave.
    pub io: Io,
    /// The device for [`Io::Xdp`] and [`Io::Kernel`]; by default those that have the addresses.
    pub device: Option<String>,
}

impl Default for AuthorityConfig {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            threads: 1,
            cpus: Vec::new(),
            in_threads: false,
            tcp: true,
            encrypted: None,
            limits: ConnectionLimits::default(),
            socket_buffer_octets: SOCKET_BUFFER_OCTETS,
            faults: None,
            observer: None,
            io: Io::Udp,
            device: None,
        }
    }
}

/// Why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// There is no address to listen on.
    NoAddress,
    /// An address could not be had.
    Bind {
        /// How it was to answer there.
        transport: Transport,
        /// The address.
        address: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// A thread could not be started, or not on its processor.
    Thread(io::Error),
    /// The listeners of the encrypted transports could not be started.
    Encrypted(ListenError),
    /// This way of answering cannot do what is asked of it, with the reason.
    Io(Io, IoRefusal),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress => f.write_str("no address to listen on: give one as ADDRESS:PORT"),
            Self::Bind { transport, address, error } => {
                let advice = advice(error);
                write!(f, "cannot listen on {address} ({transport}): {error}{advice}")
            }
            Self::Thread(error) => write!(f, "cannot start the threads of the AuthDNS: {error}"),
            Self::Encrypted(error) => write!(f, "cannot serve encrypted transports: {error}"),
            Self::Io(io, reason) => write!(f, "--io {io}: {reason}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoAddress | Self::Io(..) => None,
            Self::Bind { error, .. } | Self::Thread(error) => Some(error),
            Self::Encrypted(error) => Some(error),
        }
    }
}

/// A running AuthDNS. Dropping it stops its threads and waits for them.
pub struct Authority {
    // In this order: the threads end before the sockets close.
    workers: Vec<Worker>,
    tcp: Option<TcpService>,
    encrypted: Option<EncryptedService>,
    local_addrs: Vec<SocketAddr>,
    udp_gauges: Vec<UdpGauge>,
    tcp_gauge: Arc<TcpGauge>,
    receive_failures: Arc<AtomicU64>,
    backend: Backend,
    observer: Option<Arc<Observer>>,
}

impl Authority {
    /// Binds all addresses, starts the threads and returns when they serve.
    ///
    /// # Errors
    /// An address cannot be had, or a thread cannot be started on its processor. Nothing is left running
    /// then.
    pub fn start(zone: Arc<Zone>, config: &AuthorityConfig) -> Result<Self, StartError> {
        if config.listen.is_empty() {
            return Err(StartError::NoAddress);
        }
        let responder = Responder::new(zone, config.faults.clone(), config.observer.clone());
        let mut services: Vec<Vec<UdpService>> = (0..config.threads.max(1)).map(|_| Vec::new()).collect();
        let (mut listeners, mut local_addrs) = (Vec::new(), Vec::new());
        for &address in &config.listen {
            let bound = bind(address, config, &responder)?;
            local_addrs.push(bound.address);
            listeners.extend(bound.listener);
            for (worker, mut service) in bound.services.into_iter().enumerate() {
                service.worker = worker;
                services[worker].push(service);
            }
        }
        let udp_gauges = services.iter().flatten().map(UdpService::gauge).collect();
        let (tcp_gauge, receive_failures) = (Arc::<TcpGauge>::default(), Arc::<AtomicU64>::default());
        let mut workers = Vec::with_capacity(services.len());
        for (index, services) in services.into_iter().enumerate() {
            let cpu = config.cpus.get(index % config.cpus.len().max(1)).copied();
            let worker = Worker::start(index, cpu, services, receive_failures.clone());
            workers.push(worker.map_err(StartError::Thread)?);
        }
        // Last, so that the sockets serve what it passes.
        let backend = Backend::start(config, &responder, &local_addrs, &receive_failures)?;
        let encrypted = config.encrypted.as_ref();
        let encrypted = encrypted
            .map(|wanted| EncryptedService::start(wanted, config.limits, config.threads, &responder))
            .transpose()?;
        let tcp =
            config.tcp.then(|| TcpService::start(listeners, config.limits, responder, tcp_gauge.clone()));
        let tcp = tcp.transpose().map_err(StartError::Thread)?;
        Ok(Self {
            workers,
            tcp,
            encrypted,
            local_addrs,
            udp_gauges,
            tcp_gauge,
            receive_failures,
            backend,
            observer: config.observer.clone(),
        })
    }

    /// The addresses it answers on, in the order of [`AuthorityConfig::listen`], with the ports that were
    /// free.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.local_addrs
    }

    /// The addresses it answers on over TLS, HTTPS and QUIC, in this order and in the order of
    /// [`EncryptedConfig`], with the ports that were free.
    pub fn encrypted_addrs(&self) -> &[(Transport, SocketAddr)] {
        self.encrypted.as_ref().map_or(&[], EncryptedService::addresses)
    }

    /// How it answers over UDP: what [`AuthorityConfig::io`] came to, never [`Io::Auto`].
    pub fn io(&self) -> Io {
        self.backend.io()
    }

    /// The same for people: where and how, and if [`Io::Auto`] did not come to the fastest, why.
    pub fn io_in_words(&self) -> &str {
        &self.backend.words
    }

    /// What notes the queries, if anything does.
    pub fn observer(&self) -> Option<&Arc<Observer>> {
        self.observer.as_ref()
    }

    /// Takes the program away that answers in the kernel, if there is one: the observer sees every query
    /// then.
    pub fn leave_kernel(&mut self) {
        self.backend.leave_kernel();
    }

    /// What has been counted since the start, by all threads and by those that have taken sockets.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters {
            tcp: self.tcp_gauge.traffic.read(),
            tcp_connections: self.tcp_gauge.connections.load(Ordering::Relaxed),
            tcp_connections_refused: self.tcp_gauge.refused.load(Ordering::Relaxed),
            udp_receive_failures: self.receive_failures.load(Ordering::Relaxed),
            ..Counters::default()
        };
        for gauge in &self.udp_gauges {
            counters.udp += gauge.traffic();
            counters.udp_socket_drops += gauge.socket_drops();
        }
        self.backend.add_to(&mut counters);
        if let Some(encrypted) = &self.encrypted {
            encrypted.add_to(&mut counters);
        }
        counters
    }

    /// Takes the UDP sockets out of the threads, which then sleep, for the caller to poll between its own
    /// work. Empty when they are taken already. TCP goes on.
    pub fn take_services(&self) -> Vec<UdpService> {
        self.workers.iter().flat_map(Worker::lend).collect()
    }

    /// Gives back what [`Authority::take_services`] took, for the threads to serve.
    pub fn give_back(&self, services: Vec<UdpService>) {
        let mut for_workers: Vec<Vec<UdpService>> = self.workers.iter().map(|_| Vec::new()).collect();
        for service in services {
            for_workers[service.worker].push(service);
        }
        for (worker, services) in self.workers.iter().zip(for_workers) {
            worker.give_back(services);
        }
    }

    /// Stops all threads, waits for them and returns the last counters.
    pub fn stop(mut self) -> Counters {
        self.workers.clear();
        self.backend.stop();
        self.tcp = None;
        if let Some(encrypted) = &mut self.encrypted {
            encrypted.stop();
        }
        self.counters()
    }
}

/// What stands on one address: a socket for each thread, and a listener where TCP is wanted.
struct BoundAddress {
    address: SocketAddr,
    services: Vec<UdpService>,
    listener: Option<TcpListener>,
}

fn bind(
    address: SocketAddr,
    config: &AuthorityConfig,
    responder: &Responder,
) -> Result<BoundAddress, StartError> {
    let tries = if address.port() == 0 { FREE_PORT_TRIES } else { 1 };
    let mut result = bind_once(address, config, responder);
    for _ in 1..tries {
        // A port that is free for UDP need not be for TCP.
        match &result {
            Err(StartError::Bind { error, .. }) if error.kind() == io::ErrorKind::AddrInUse => {
                result = bind_once(address, config, responder);
            }
            _ => break,
        }
    }
    result
}

fn bind_once(
    mut address: SocketAddr,
    config: &AuthorityConfig,
    responder: &Responder,
) -> Result<BoundAddress, StartError> {
    let udp_error = |error| StartError::Bind { transport: Transport::Udp, address, error };
    let options = Options {
        reuse_port: config.threads > 1,
        receive_buffer_octets: config.socket_buffer_octets,
        send_buffer_octets: config.socket_buffer_octets,
        // A device that joins the datagrams of a client (GRO) saves most of the way up to the socket.
        join: true,
        ..Options::default()
    };
    if options.reuse_port {
        // Sockets that share ports would share with another server of ours too: a lone socket finds the port
        // in use.
        sys::udp::UdpSocket::bind(address, &Options::default()).map_err(udp_error)?;
    }
    let mut services: Vec<UdpService> = Vec::with_capacity(config.threads);
    let mut bound = address;
    for _ in 0..config.threads.max(1) {
        let service = UdpService::bind(bound, &options, responder.clone()).map_err(udp_error)?;
        bound = service.local_addr().map_err(udp_error)?;
        services.push(service);
    }
    address = bound;
    let tcp_error = |error| StartError::Bind { transport: Transport::Tcp, address, error };
    let listener = config.tcp.then(|| listen(address, config.limits)).transpose().map_err(tcp_error)?;
    Ok(BoundAddress { address, services, listener })
}
