//! Why the server did not start, did not change or did not go on.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use sys::xdp::XdpError;

/// The process may not open more files (open(2)).
const EMFILE: i32 = 24;

/// Why the server did not start, did not change or did not go on.
#[derive(Debug)]
pub enum ServerError {
    /// Another program answers on this address.
    InUse(SocketAddr),
    /// This address cannot be listened on.
    Listen(SocketAddr, io::Error),
    /// The datagrams of this device cannot go past the stack.
    Xdp(String, XdpError),
    /// There is no way to this upstream server.
    Upstream(SocketAddr, io::Error),
    /// The process may not have so many sockets.
    Files(io::Error),
    /// There is no such processor, or it may not be used.
    Processor(usize),
    /// The certificate, its key, or the authorities for upstream servers.
    Tls(streams::TlsError),
    /// The file of trust anchors.
    Anchors(String),
    /// Listeners of TCP, TLS, HTTPS or QUIC cannot be opened.
    Streams(streams::ListenError),
    /// An upstream server on a stream.
    StreamUpstream(streams::UpstreamError),
    /// What was to be given up when all sockets were open; one line.
    Privileges(String),
    /// The system refused something else, named here.
    System(&'static str, io::Error),
}

impl ServerError {
    /// Of an address to listen on.
    pub(super) fn listen(address: SocketAddr, error: io::Error) -> Self {
        match (error.kind(), error.raw_os_error()) {
            (io::ErrorKind::AddrInUse, _) => Self::InUse(address),
            (_, Some(EMFILE)) => Self::Files(error),
            _ => Self::Listen(address, error),
        }
    }

    /// Of a socket towards an upstream server.
    pub(super) fn upstream(address: SocketAddr, error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(EMFILE) => Self::Files(error),
            _ => Self::Upstream(address, error),
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(address) => write!(
                f,
                "cannot listen on {address}: the port is in use by another program; stop it or choose another"
            ),
            Self::Listen(address, error) if error.kind() == io::ErrorKind::PermissionDenied => {
                write!(f, "cannot listen on {address}: {error}; ports below 1024 need CAP_NET_BIND_SERVICE")
            }
            Self::Listen(address, error) => write!(f, "cannot listen on {address}: {error}"),
            Self::Xdp(device, error) => {
                write!(
                    f,
                    "xdp.devices '{device}': {error}; without this device, dns64d uses its sockets there"
                )
            }
            Self::Upstream(address, error) => {
                write!(f, "cannot open a socket to upstream server {address}: {error}")
            }
            Self::Files(error) => write!(
                f,
                "cannot open all sockets: {error}; raise the limit (ulimit -n) or lower threads or upstream.ports"
            ),
            Self::Processor(cpu) => write!(
                f,
                "processor {cpu} of cpus may not be used; this process has {:?}",
                sys::cpu::available()
            ),
            Self::Tls(error) => error.fmt(f),
            Self::Anchors(reason) => write!(f, "upstream.anchors: {reason}"),
            Self::Streams(error) => error.fmt(f),
            Self::StreamUpstream(error) => error.fmt(f),
            Self::Privileges(error) => error.fmt(f),
            Self::System(what, error) => write!(f, "cannot {what}: {error}"),
        }
    }
}

impl std::error::Error for ServerError {}
