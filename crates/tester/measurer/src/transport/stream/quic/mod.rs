//! DNS over dedicated QUIC connections (RFC 9250) and over HTTP/3: QUIC without I/O of its own (quinn-proto),
//! driven by the lane's thread over a socket for each connection.

mod answers;
mod client;
mod codes;
mod dialect;
mod io;
mod link;

pub(super) use client::{Checked, QuicClient};
pub(super) use io::Room;
pub(super) use link::{QuicLink, Way};
