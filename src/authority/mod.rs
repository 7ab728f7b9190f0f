//! The AuthDNS: a zone is a function from question to answer.
//!
//! [`Zone`] is that function and knows no socket. A [`Responder`] lets [`faults`] befall its answers and an [`Observer`]
//! note its queries. A [`UdpService`] answers so at one socket, polled by whoever owns it; an [`Authority`] is a whole
//! server with threads for UDP and TCP.

mod backend;
mod connection;
mod counters;
mod delayed;
pub mod faults;
mod hot;
mod kernel;
mod observe;
mod outbox;
mod responder;
mod response;
mod rule;
mod server;
mod tcp;
mod udp;
mod worker;
mod xdp;
mod zone;

pub use backend::{Io, IoRefusal};
pub use counters::{Counters, Traffic};
pub use delayed::Delayed;
pub use observe::{OBSERVED_QUERIES, Observation, Observer};
pub use responder::{Query, Reply, Responder};
pub use rule::{RecordsError, RecordsFile, Signing, SigningKey, TEXT_OCTETS_MAX, TrustAnchor};
pub use server::{Authority, AuthorityConfig, StartError};
pub use tcp::TcpLimits;
pub use udp::UdpService;
pub use zone::{
    ADDRESSES_MAX, ANSWER_OCTETS_MAX, Answer, EDNS_PAYLOAD_OCTETS, QueryKind, Rules, TCP_ANSWER_OCTETS_MAX,
    TTL_S_MAX, Transport, Zone, ZoneConfig, ZoneError,
};
