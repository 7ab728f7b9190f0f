//! DNS over streams: TCP (RFC 7766), TLS (RFC 7858), HTTPS (RFC 8484) and QUIC (RFC 9250), as server and as
//! client. HTTPS is HTTP/2 for both, and HTTP/3 (RFC 9114) for the server.
//!
//! All of it runs in side threads with event loops of their own: some serve clients, another asks upstream
//! servers. The owner binds the sockets, says by a [`Gate`] who may connect, gets whole messages in callbacks
//! on these threads, and hands answers back through a [`Handle`] from any thread:
//!
//! ```text
//! client --stream--> [Streams] --on_query(Query)--> owner --Handle::answer(token)--> client
//! owner --Handle::ask(token)--> [Streams] --stream--> upstream --> on_answer(Answer) --> owner
//! ```
//!
//! The crate knows the framing of DNS messages and little of what is in them: the ID, the question by which
//! an answer is matched, the TTLs that make an HTTP lifetime. Whatever comes from the network is bounded in
//! size, in number and in time, and a task that fails takes its own connection with it and nothing else.

#![forbid(unsafe_code)]

mod activity;
mod client;
mod codes;
mod counts;
mod duplex;
mod gate;
pub mod message;
mod protocol;
mod pulse;
pub mod request;
mod room;
mod server;
mod tls;

pub use client::{UPSTREAM_IN_FLIGHT_MAX, Upstream, UpstreamError};
pub use counts::{Counts, ProtocolCounts, UpstreamCounts};
pub use gate::Gate;
pub use protocol::{Answer, Limits, ListenSocket, Listener, NoAnswer, Protocol, Query};
pub use pulse::Pulse;
pub use room::{Handle, Streams};
pub use server::ListenError;
pub use tls::{Roots, ServerTls, TlsError};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. A task that panicked with the lock held leaves data that is still whole: no lock here spans two
/// changes that belong together.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
