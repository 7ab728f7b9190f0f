//! Opening sockets: all of them before the first thread starts, so that all errors come at once.

use std::io;
use std::net::{SocketAddr, TcpListener};

use sys::udp::{Options, UdpSocket};

use super::ServerError;
use super::ports::{Opener, UpstreamSocket};
use crate::config::{Config, UpstreamServer};

/// Room for the bursts of all clients; the kernel grants less where it must.
const CLIENT_BUFFER_OCTETS: usize = 8 << 20;

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
    let options = Options {
        reuse_port: true,
        receive_buffer_octets: CLIENT_BUFFER_OCTETS,
        send_buffer_octets: CLIENT_BUFFER_OCTETS,
        join: true,
        no_path_mtu: true,
        ..Options::default()
    };
    UdpSocket::bind(address, &options).map_err(|error| ServerError::listen(address, error))
}

/// For each upstream server that is asked over UDP the connected sockets of one thread.
pub(super) fn upstream_sockets(
    config: &Config,
    opener: &mut Opener,
) -> Result<Vec<Vec<UpstreamSocket>>, ServerError> {
    let sockets = |upstream: &UpstreamServer| {
        let count = if upstream.is_stream_only() { 0 } else { config.settings.asking.ports };
        let cannot = |error| ServerError::upstream(upstream.address, error);
        (0..count).map(|_| opener.open(upstream).map_err(cannot)).collect()
    };
    config.upstreams.iter().map(sockets).collect()
}
