//! The messages between the owner and the side threads.

use std::fmt;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

/// How DNS messages are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TCP in the clear (RFC 7766).
    Tcp,
    /// TLS over TCP (RFC 7858).
    Tls,
    /// HTTP/2 over TLS (RFC 8484).
    Https,
    /// QUIC (RFC 9250).
    Quic,
    /// HTTP/3 (RFC 9114, RFC 8484), for clients alone.
    Http3,
}

impl Protocol {
    /// All of them, in the order of their indexes.
    pub const ALL: [Self; 5] = [Self::Tcp, Self::Tls, Self::Https, Self::Quic, Self::Http3];

    /// Those that upstream servers are asked by.
    pub const UPSTREAM: [Self; 4] = [Self::Tcp, Self::Tls, Self::Https, Self::Quic];

    /// Its place in [`Protocol::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Whether its packets are datagrams of UDP.
    pub fn is_over_udp(self) -> bool {
        matches!(self, Self::Quic | Self::Http3)
    }

    /// Whether it needs a certificate.
    pub fn is_encrypted(self) -> bool {
        self != Self::Tcp
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(["tcp", "tls", "https", "quic", "http3"][self.index()])
    }
}

/// A place where clients are served.
#[derive(Debug)]
pub struct Listener {
    /// The protocol of its clients.
    pub protocol: Protocol,
    /// The owner's number for it, given back in every [`Query`].
    pub number: usize,
    /// A socket that is bound, or the address of one that goes on.
    pub socket: ListenSocket,
    /// The path of the resource of HTTPS and HTTP/3, such as `/dns-query`; other protocols ignore it.
    pub path: String,
}

/// The socket of a [`Listener`].
#[derive(Debug)]
pub enum ListenSocket {
    /// Bound and listening: for TCP, TLS and HTTPS.
    Tcp(TcpListener),
    /// A bound UDP socket, for QUIC and HTTP/3.
    Udp(UdpSocket),
    /// That of the listener which already runs with this protocol and local address: it goes on, under the
    /// number and the path given now. The socket of a listener that is removed is closed soon after, over
    /// QUIC when its last connection has ended; until then nobody else can bind its address.
    Kept(SocketAddr),
}

/// Bounds on what clients may use. Beside these, the answers that wait for one client to take them are
/// bounded at 512 KiB: over TCP and TLS the connection is cut off then, over HTTPS, QUIC and HTTP/3 the
/// answer is left out. What waits for all clients together is bounded by [`Limits::waiting_octets_max`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections over TCP, and as many again over TLS, HTTPS, QUIC and HTTP/3 together, unfinished
    /// handshakes among them. Each of the two pools has the following limits for itself. When a limit is
    /// reached, another connection ends for the new one: that which has been idle for the longest time, of
    /// the client that holds the most.
    pub connections: usize,
    /// Connections of one network of clients: /24 of IPv4, /56 of IPv6.
    pub connections_per_network: usize,
    /// Connections of one address: one of IPv4, a /64 of IPv6.
    pub connections_per_address: usize,
    /// Queries of one connection in progress, at least 1. A client that sends more has to wait.
    pub pipelined: usize,
    /// A connection without a query in progress is closed after this time; earlier when more than half of the
    /// connections are taken, down to a tenth of this when all are.
    pub idle: Duration,
    /// A handshake, a message that has begun, and a write to a client that does not read may take so long.
    pub message_timeout: Duration,
}

/// What may wait for each connection on the average, in octets.
const WAITING_OCTETS_EACH: usize = 64 << 10;

/// What may wait where few connections are allowed, in octets.
const WAITING_OCTETS_LEAST: usize = 4 << 20;

impl Limits {
    /// The octets of queries and answers that may wait for all connections together: 64 KiB for each that is
    /// allowed, at least 4 MiB. When more wait, connections end: those that hold the most, of the network
    /// that holds the most.
    pub fn waiting_octets_max(&self) -> usize {
        self.connections.saturating_mul(2 * WAITING_OCTETS_EACH).max(WAITING_OCTETS_LEAST)
    }
}

impl Default for Limits {
    /// Twice 1024 connections, 512 for each network, 128 for each address, 100 queries in progress, 10 s of
    /// idleness (RFC 7766 6.2.3 leaves it at "a few seconds") and 5 s for a message.
    fn default() -> Self {
        Self {
            connections: 1024,
            connections_per_network: 512,
            connections_per_address: 128,
            pipelined: 100,
            idle: Duration::from_secs(10),
            message_timeout: Duration::from_secs(5),
        }
    }
}

/// A message from a client, at least as long as a DNS header and at most 4,096 octets.
///
/// The owner ends every query by [`crate::Handle::answer`] or [`crate::Handle::forget`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// What the answer must carry; never used twice.
    pub token: u64,
    /// The number of the listener it came by.
    pub listener: usize,
    /// The protocol that the query came by.
    pub protocol: Protocol,
    /// The client's address and port.
    pub client: SocketAddr,
    /// The message. Its ID is 0 over QUIC (RFC 9250 4.2.1), and mostly so over HTTPS and HTTP/3
    /// (RFC 8484 4.1).
    pub octets: Vec<u8>,
}

/// What became of a question to an upstream server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The token of [`crate::Handle::ask`].
    pub token: u64,
    /// A response to this very question, with the ID of the query.
    pub octets: Result<Vec<u8>, NoAnswer>,
}

/// Why a question to an upstream server has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// No connection, no answer in time, or one that cannot be used.
    Lost,
    /// Too many questions were in flight. This says nothing about the server.
    Full,
}
