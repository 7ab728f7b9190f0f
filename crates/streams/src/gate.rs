//! The owner's decision whether a client may connect.

use std::net::IpAddr;

/// Decides about clients before anything is spent on them: before a task, TLS, or the state of a QUIC
/// connection. The threads that accept ask for each connection, so the answer must be quick.
pub trait Gate: Send + Sync {
    /// Whether clients at this address may connect. The connection of any other is reset; its QUIC packets
    /// are ignored.
    fn allows(&self, client: IpAddr) -> bool;

    /// Whether the network of the client may begin one more handshake of TLS or QUIC now.
    ///
    /// An address is `proven` over TCP, and over QUIC after a Retry packet (RFC 9000 8.1). Where the address
    /// is not proven, a no asks the client for the proof; otherwise it ends the connection.
    fn may_shake_hands(&self, client: IpAddr, proven: bool) -> bool;
}

/// The gate of an owner that has set none.
pub(crate) struct OpenGate;

impl Gate for OpenGate {
    fn allows(&self, _: IpAddr) -> bool {
        true
    }

    fn may_shake_hands(&self, _: IpAddr, _: bool) -> bool {
        true
    }
}
