//! A query as the back-ends hand it over.

use std::net::SocketAddr;

use crate::zone::Transport;

/// A query as it came.
#[derive(Clone, Copy, Debug)]
pub struct Query<'q> {
    /// The message.
    pub octets: &'q [u8],
    /// The client.
    pub from: SocketAddr,
    /// How it came.
    pub transport: Transport,
    /// When it came, in ns of the monotonic clock. A batch may share one reading, and none is needed where
    /// [`crate::Responder::needs_time`] says so.
    pub arrived_ns: u64,
}
