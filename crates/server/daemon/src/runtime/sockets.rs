//! Opening sockets: all of them before the first thread starts, so that all errors come at once.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use sys::udp::{Options, UdpSocket};

use super::ServerError;
use crate::config::Config;

/// Room for the bursts of all clients; the kernel grants less where it must.
const CLIENT_BUFFER_OCTETS: usize = 8 << 20;

/// Room for the answers to the queries of one upstream socket.
const UPSTREAM_BUFFER_OCTETS: usize = 1 << 20;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// So often another port is tried when the operator left the choice and UDP and TCP do not agree on one.
const FREE_PORT_TRIES: usize = 16;

/// Makes sure that the address is ours alone, over UDP and, where wanted, TCP. `SO_REUSEPORT` would let two
/// servers of one user share it without a word, so a first socket asks without.
pub(super) fn claim(wanted: SocketAddr, tcp: bool) -> Result<(SocketAddr, Option<TcpListener>), ServerError> {
    let mut result = try_claim(wanted, tcp);
    for _ in 1..FREE_PORT_TRIES {
        match &result {
            Err(error) if wanted.port() == 0 && error.kind() == io::ErrorKind::AddrInUse => {
                result = try_claim(wanted, tcp);
            }
            _ => break,
        }
    }
    result.map_err(|error| ServerError::listen(wanted, error))
}

fn try_claim(wanted: SocketAddr, tcp: bool) -> io::Result<(SocketAddr, Option<TcpListener>)> {
    let probe = UdpSocket::bind(wanted, &Options::default())?;
    let address = probe.local_addr()?;
    let listener = if tcp { Some(sys::tcp::listen(address, BACKLOG)?) } else { None };
    Ok((address, listener))
}

pub(super) fn stream_listener(address: SocketAddr) -> Result<TcpListener, ServerError> {
    sys::tcp::listen(address, BACKLOG).map_err(|error| ServerError::listen(address, error))
}

/// One thread's UDP socket at an address, which it shares with the other threads by `SO_REUSEPORT`.
pub(super) fn listener(address: SocketAddr) -> Result<UdpSocket, ServerError> {
    let options = Options { reuse_port: true, ..buffers(CLIENT_BUFFER_OCTETS) };
    UdpSocket::bind(address, &options).map_err(|error| ServerError::listen(address, error))
}

/// For each upstream server that is asked over UDP the connected sockets of one thread.
pub(super) fn upstream_sockets(config: &Config) -> Result<Vec<Vec<UdpSocket>>, ServerError> {
    let sockets = |upstream: &crate::config::UpstreamServer| {
        let ports = if upstream.is_stream_only() { 0 } else { config.settings.asking.ports };
        (0..ports).map(|_| upstream_socket(upstream.address, upstream.source)).collect()
    };
    config.upstreams.iter().map(sockets).collect()
}

/// A socket with a source port of the kernel's random choice.
fn upstream_socket(upstream: SocketAddr, source: Option<IpAddr>) -> Result<UdpSocket, ServerError> {
    let any: IpAddr = match upstream {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let local = SocketAddr::new(source.unwrap_or(any), 0);
    UdpSocket::bind(local, &buffers(UPSTREAM_BUFFER_OCTETS))
        .and_then(|socket| socket.connect(upstream).map(|()| socket))
        .map_err(|error| ServerError::upstream(upstream, error))
}

/// The addresses of all upstream sockets of all threads, sorted.
pub(super) fn own_addresses(threads: &[Vec<Vec<UdpSocket>>]) -> Result<Arc<[SocketAddr]>, ServerError> {
    let mut addresses: Vec<SocketAddr> = threads
        .iter()
        .flatten()
        .flatten()
        .map(UdpSocket::local_addr)
        .collect::<io::Result<_>>()
        .map_err(|error| ServerError::System("read the address of a socket", error))?;
    addresses.sort_unstable();
    Ok(addresses.into())
}

fn buffers(octets: usize) -> Options {
    Options { receive_buffer_octets: octets, send_buffer_octets: octets, join: true, ..Options::default() }
}
