//! The AuthDNS: a zone is a function from question to answer.
//!
//! [`Zone`] is that function and knows no socket. A [`Responder`] lets [`faults`] befall its answers and an
//! [`Observer`] note its queries. A [`UdpService`] answers so at one socket, polled by whoever owns it; an
//! [`Authority`] is a whole server with threads for UDP, TCP and encrypted transports.
#![forbid(unsafe_code)]

mod certificate;
mod counters;
mod delayed;
pub mod echo;
pub mod faults;
pub mod kernel_program;
mod listen;
mod observe;
mod query;
mod responder;
mod server;
pub mod xdp_service;
mod zone;
pub mod zone_file;

/// The compiled XDP programs of `bpf/`.
mod objects {
    include!(concat!(env!("OUT_DIR"), "/objects.rs"));
}

pub use certificate::{self_signed, tls_pin};
pub use counters::{Counters, EncryptedCounters, Traffic};
pub use delayed::Delayed;
pub use faults::Reply;
pub use observe::{OBSERVED_QUERIES, Observation, Observer};
pub use query::Query;
pub use responder::Responder;
pub use server::{
    Authority, AuthorityConfig, ConnectionLimits, EncryptedConfig, Io, IoRefusal, StartError, UdpService,
};
pub use streams::{ServerTls, TlsError};
pub use zone::{
    ADDRESSES_MAX, ANSWER_OCTETS_MAX, Answer, EDNS_PAYLOAD_OCTETS, QueryKind, RecordsError, RecordsFile,
    Rules, Signing, SigningKey, TCP_ANSWER_OCTETS_MAX, TEXT_OCTETS_MAX, TTL_S_MAX, Transport, TrustAnchor,
    Zone, ZoneConfig, ZoneError,
};
