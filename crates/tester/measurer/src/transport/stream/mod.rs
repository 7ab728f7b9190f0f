//! Queries by connections: DNS over TCP (RFC 7766), TLS (RFC 7858), HTTPS (RFC 8484; HTTP/2 and HTTP/3) and
//! QUIC (RFC 9250).
//!
//! A client (a socket of the lane) has one connection at a time, and opens the next one when a query is due
//! and none is there. A [`StreamTransport`] drives the connections of a thread from one epoll loop; a link
//! is one connection: octets on one side, messages on the other.

mod connection;
mod framing;
mod http3;
mod https;
mod link;
mod octets;
mod pool;
mod probe;
mod quic;
mod reason;
mod tcp;
mod tls;

use std::fmt;
use std::net::SocketAddr;

pub use http3::{Code, Http3Session, Stop};
pub use https::{Https, Method, Session, WrongPath};
pub use link::{End, News};
pub(crate) use octets::is_own_limit;
pub use pool::StreamTransport;
pub use probe::{Unanswered, probe};
pub(crate) use reason::in_words;
pub use tls::{Pin, Tls, TlsError, TlsOptions, Trust};

use engine::queries_each::QueriesEach;

use super::Sources;

/// How queries are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// TCP, each message behind its length (RFC 7766).
    Tcp,
    /// The same over TLS (RFC 7858).
    Dot,
    /// HTTP/2 over TLS (RFC 8484).
    Doh,
    /// Dedicated QUIC connections, a stream for each query (RFC 9250).
    Doq,
    /// HTTP/3 over QUIC (RFC 9114, RFC 8484).
    Doh3,
}

impl Protocol {
    /// Its name on the command line and in the record.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Dot => "dot",
            Self::Doh => "doh",
            Self::Doq => "doq",
            Self::Doh3 => "doh3",
        }
    }

    /// Whether it needs [`StreamConfig::tls`].
    pub fn has_tls(self) -> bool {
        self != Self::Tcp
    }

    /// Whether it needs [`StreamConfig::https`].
    pub fn has_https(self) -> bool {
        matches!(self, Self::Doh | Self::Doh3)
    }

    /// Whether its connections are those of QUIC.
    pub(crate) fn is_over_quic(self) -> bool {
        matches!(self, Self::Doq | Self::Doh3)
    }

    /// Whether the kernel keeps the port of a closed connection for a while (TIME_WAIT).
    pub(crate) fn keeps_ports(self) -> bool {
        !self.is_over_quic()
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How connections are made and used.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    /// How queries are carried.
    pub protocol: Protocol,
    /// Connections at a time, of all threads together.
    pub connections: usize,
    /// Queries of each connection, after which a new one takes its place.
    pub queries_each: QueriesEach,
    /// Several queries of a connection may wait for their answers; otherwise one at a time.
    pub pipelined: bool,
    /// A connection without a query for so long is closed, in ns; `None`: it stays.
    pub idle_ns: Option<u64>,
    /// How handshakes are done; needed where [`Protocol::has_tls`].
    pub tls: Option<Tls>,
    /// What is asked for; needed where [`Protocol::has_https`].
    pub https: Option<Https>,
}

/// What the connections of one thread are made with.
#[derive(Clone, Debug)]
pub(crate) struct PoolConfig {
    pub streams: StreamConfig,
    pub server: SocketAddr,
    /// Clients of this thread, at least one.
    pub clients: usize,
    /// Clients of the threads before this one.
    pub first_client: usize,
    pub sources: Sources,
    /// Of a query, of an attempt to connect, and of the answers to the last queries of a connection, in ns.
    pub timeout_ns: u64,
    /// The most connections at a time, with those that wait for their last answers.
    pub connections_max: usize,
    /// Of the numbers of queries, where they are drawn.
    pub seed: u64,
}
