//! Clients: listeners and their connections.

mod budget;
mod framed;
mod guests;
mod http3;
mod https;
mod listen;
mod pending;
mod pool;
mod quic;
mod requests;
mod room;
mod session;
mod usage;

pub use listen::ListenError;

pub(crate) use guests::ClientConnections;
pub(crate) use listen::Servers;
pub(crate) use pending::Pending;
pub(crate) use room::Context;
