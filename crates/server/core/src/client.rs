//! Clients and their queries.

use std::net::{IpAddr, SocketAddr};

use dns64::rewrite::ClientQuery;

/// Who asked, and the way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// The client's address and port.
    pub address: SocketAddr,
    /// Where it asked, as an index of the configuration's list of listeners.
    pub listener: usize,
    /// How its query came.
    pub channel: Channel,
}

/// The way of a client's query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// To a UDP socket, by its number, and to this address of it where the socket has several.
    Udp {
        /// The number of the listening socket.
        socket: usize,
        /// The address the query was sent to, from which the answer must leave.
        local: Option<IpAddr>,
    },
    /// Past the kernel's stack, in a frame to an address and port of a UDP socket.
    Frame {
        /// The number of the listening socket.
        socket: u32,
        /// The address the query was sent to, from which the answer must leave.
        local: IpAddr,
        /// The ring that the frame came by, by its number.
        ring: u16,
        /// The Ethernet address that it came from.
        mac: [u8; 6],
    },
    /// Over a stream. Tokens are never used again.
    Stream {
        /// Names the query to the room of the streams.
        token: u64,
        /// What the stream is.
        kind: StreamKind,
    },
}

/// What matters of a stream to an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// TCP: the idle time may be told (RFC 7828).
    Tcp,
    /// TLS over TCP: that, and answers may be padded.
    Tls,
    /// HTTPS, of HTTP/2 or HTTP/3: answers may be padded.
    Https,
    /// QUIC: answers may be padded.
    Quic,
}

impl Channel {
    /// Whether the answer leaves in a datagram.
    pub fn is_udp(&self) -> bool {
        matches!(self, Self::Udp { .. } | Self::Frame { .. })
    }

    /// Whether nobody on the way can read the answer, so that its length is worth hiding (RFC 7830).
    pub fn is_encrypted(&self) -> bool {
        matches!(self, Self::Stream { kind, .. } if *kind != StreamKind::Tcp)
    }

    /// Whether the client can be told the idle time of its connection (RFC 7828 3.1, RFC 9250 5.5.2).
    pub fn has_idle_time(&self) -> bool {
        matches!(self, Self::Stream { kind: StreamKind::Tcp | StreamKind::Tls, .. })
    }
}

/// A client's query.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// What is asked.
    pub asked: ClientQuery,
    /// The client understands the AD bit: it set DO or AD (RFC 6840 5.7, 5.8).
    pub wants_ad: bool,
    /// What its OPT record said, if it sent one.
    pub edns: Option<ClientEdns>,
}

/// What matters of a client's OPT record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientEdns {
    /// The UDP payload size announced.
    pub payload_octets: u16,
    /// Its client cookie, where it sent a well-formed COOKIE option (RFC 7873).
    pub cookie: Option<[u8; 8]>,
    /// It sent the option edns-tcp-keepalive (RFC 7828).
    pub keepalive: bool,
    /// It sent the option Padding (RFC 7830).
    pub padding: bool,
}
