//! HTTP/3 as a client of DNS over HTTPS speaks it (RFC 9114, RFC 8484): octets of the streams of a QUIC
//! connection on one side, queries and their answers on the other. No socket and no clock is here.

mod codes;
mod fields;
mod frames;
mod request;
mod session;

pub use codes::{Code, Stop};
pub use session::Http3Session;
pub(super) use session::INCOMING_MAX;
