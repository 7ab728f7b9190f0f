//! Packets of QUIC between a connection and its socket, and the time as the library wants it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};
use std::{fmt, io};

use sys::clock;
use sys::udp::{Options, ReceiveBatch, SendBatch, UdpSocket};

/// Packets are never longer: any path of QUIC takes so much (RFC 9000 14).
pub(super) const PACKET_OCTETS_MAX: usize = 1200;
/// The most packets of one call.
const PACKETS_MAX: usize = 64;
/// The most messages taken from a socket at a time, each of several packets perhaps, and the longest one.
const JOINED: usize = 16;
const JOINED_OCTETS_MAX: usize = 65_535;
/// The receive buffer of a socket, as far as the kernel allows it.
const RECEIVE_BUFFER_OCTETS: usize = 1 << 20;

/// Room that the QUIC connections of a thread share: each leaves it empty.
pub(in crate::transport::stream) struct Room {
    pub(super) incoming: ReceiveBatch,
    pub(super) outgoing: SendBatch,
    /// Packets that are being made.
    pub(super) packets: Vec<u8>,
    /// A query with its length.
    pub(super) frame: Vec<u8>,
    pub(super) clock: Clock,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            incoming: ReceiveBatch::new(JOINED, JOINED_OCTETS_MAX),
            outgoing: SendBatch::new(PACKETS_MAX, PACKET_OCTETS_MAX).segmenting(),
            packets: Vec::new(),
            frame: Vec::new(),
            clock: Clock { origin: Instant::now(), origin_ns: clock::monotonic_ns() },
        }
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").finish_non_exhaustive()
    }
}

/// One instant on both scales: an [`Instant`] is one of `CLOCK_MONOTONIC`, too, but does not tell it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin: Instant,
    origin_ns: u64,
}

impl Clock {
    pub fn instant(self, at_ns: u64) -> Instant {
        self.origin + Duration::from_nanos(at_ns.saturating_sub(self.origin_ns))
    }

    pub fn ns(self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.origin);
        self.origin_ns.saturating_add(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// A socket that talks to the server alone.
pub(super) fn socket(server: SocketAddr, source: Option<IpAddr>) -> io::Result<UdpSocket> {
    let options = Options {
        receive_buffer_octets: RECEIVE_BUFFER_OCTETS,
        timestamps: true,
        join: true,
        any_source: source.is_some(),
        single_peer: true,
        ..Options::default()
    };
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((source.unwrap_or(any), 0).into(), &options)?;
    socket.connect(server)?;
    Ok(socket)
}
