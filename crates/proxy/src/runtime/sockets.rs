//! Opening every socket before the first thread starts, so that all errors come at once.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use net::udp::{Options, UdpSocket};

use super::ServerError;
use crate::config::Config;

/// Room for the bursts of all clients; the kernel grants less where it must.
const CLIENT_BUFFER_OCTETS: usize = 8 << 20;

/// Room for the answers to the queries of one upstream socket.
const UPSTREAM_BUFFER_OCTETS: usize = 2 << 20;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// So often another port is tried when the operator left the choice and UDP and TCP do not agree on one.
const FREE_PORT_TRIES: usize = 16;

/// The process may not open more files (open(2)).
const EMFILE: i32 = 24;

/// All sockets.
pub(super) struct Sockets {
    /// The addresses listened on.
    pub addresses: Vec<SocketAddr>,
    /// What each thread takes.
    pub threads: Vec<ThreadSockets>,
}

/// The sockets of one thread.
pub(super) struct ThreadSockets {
    /// One UDP socket for each listen address, shared with the other threads by `SO_REUSEPORT`.
    pub listeners: Vec<UdpSocket>,
    /// The same TCP listeners in every thread; whoever comes first accepts.
    pub tcp_listeners: Vec<TcpListener>,
    /// For each upstream server its connected sockets.
    pub upstreams: Vec<Vec<UdpSocket>>,
}

impl Sockets {
    pub fn open(config: &Config, threads: usize) -> Result<Self, ServerError> {
        let mut opened = Self { addresses: Vec::new(), threads: Vec::new() };
        let mut tcp_listeners = Vec::new();
        for &address in &config.listen {
            let (address, listener) = claim(address, config.tcp_connections > 0)?;
            opened.addresses.push(address);
            tcp_listeners.extend(listener);
        }
        for _ in 0..threads.max(1) {
            opened.threads.push(ThreadSockets {
                listeners: opened
                    .addresses
                    .iter()
                    .map(|&address| listener(address))
                    .collect::<Result<_, _>>()?,
                tcp_listeners: tcp_listeners
                    .iter()
                    .map(TcpListener::try_clone)
                    .collect::<io::Result<_>>()
                    .map_err(|error| ServerError::System("share a TCP socket", error))?,
                upstreams: config
                    .upstreams
                    .iter()
                    .map(|&upstream| (0..config.settings.ports).map(|_| upstream_socket(upstream)).collect())
                    .collect::<Result<_, _>>()?,
            });
        }
        Ok(opened)
    }
}

/// The addresses of all upstream sockets, sorted.
pub(super) fn upstream_addresses(threads: &[ThreadSockets]) -> Result<Arc<[SocketAddr]>, ServerError> {
    let sockets = threads.iter().flat_map(|thread| thread.upstreams.iter().flatten());
    let mut addresses: Vec<SocketAddr> = sockets
        .map(UdpSocket::local_addr)
        .collect::<io::Result<_>>()
        .map_err(|error| ServerError::System("read the address of a socket", error))?;
    addresses.sort_unstable();
    Ok(addresses.into())
}

/// Makes sure that the address is ours alone, over UDP and TCP. `SO_REUSEPORT` would let two servers of one user share
/// it without a word, so a first socket asks without.
fn claim(wanted: SocketAddr, tcp: bool) -> Result<(SocketAddr, Option<TcpListener>), ServerError> {
    let mut result = try_claim(wanted, tcp);
    for _ in 1..FREE_PORT_TRIES {
        match &result {
            Err(error) if wanted.port() == 0 && error.kind() == io::ErrorKind::AddrInUse => {
                result = try_claim(wanted, tcp);
            }
            _ => break,
        }
    }
    result.map_err(|error| listen_error(wanted, error))
}

fn try_claim(wanted: SocketAddr, tcp: bool) -> io::Result<(SocketAddr, Option<TcpListener>)> {
    let probe = UdpSocket::bind(wanted, &Options::default())?;
    let address = probe.local_addr()?;
    let listener = if tcp { Some(net::tcp::listen(address, BACKLOG)?) } else { None };
    Ok((address, listener))
}

fn listener(address: SocketAddr) -> Result<UdpSocket, ServerError> {
    let options = Options { reuse_port: true, ..buffers(CLIENT_BUFFER_OCTETS) };
    UdpSocket::bind(address, &options).map_err(|error| listen_error(address, error))
}

fn listen_error(address: SocketAddr, error: io::Error) -> ServerError {
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::AddrInUse, _) => ServerError::InUse(address),
        (_, Some(EMFILE)) => ServerError::Files(error),
        _ => ServerError::Listen(address, error),
    }
}

/// A socket with a source port of the kernel's random choice.
fn upstream_socket(upstream: SocketAddr) -> Result<UdpSocket, ServerError> {
    let any: SocketAddr = match upstream {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    UdpSocket::bind(any, &buffers(UPSTREAM_BUFFER_OCTETS))
        .and_then(|socket| socket.connect(upstream).map(|()| socket))
        .map_err(|error| match error.raw_os_error() {
            Some(EMFILE) => ServerError::Files(error),
            _ => ServerError::Upstream(upstream, error),
        })
}

fn buffers(octets: usize) -> Options {
    Options { receive_buffer_octets: octets, send_buffer_octets: octets, ..Options::default() }
}
