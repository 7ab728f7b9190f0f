//! Clients: listeners and their connections.

mod framed;
mod guests;
mod https;
mod listen;
mod pending;
mod quic;
mod session;

pub use listen::ListenError;

pub(crate) use guests::Guests;
pub(crate) use https::content_type;
pub(crate) use listen::Servers;
pub(crate) use pending::Pending;
pub(crate) use quic::PROTOCOL_ERROR as DOQ_PROTOCOL_ERROR;
