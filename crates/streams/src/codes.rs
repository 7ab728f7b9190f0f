//! The error codes of applications over QUIC: of DNS over QUIC (RFC 9250 4.3) and of HTTP/3 (RFC 9114 8.1).

use quinn::VarInt;

use crate::Protocol;

/// DOQ_NO_ERROR.
pub(crate) const NO_ERROR: VarInt = VarInt::from_u32(0);
/// DOQ_INTERNAL_ERROR.
pub(crate) const INTERNAL_ERROR: VarInt = VarInt::from_u32(1);
/// DOQ_PROTOCOL_ERROR.
pub(crate) const PROTOCOL_ERROR: VarInt = VarInt::from_u32(2);
/// DOQ_REQUEST_CANCELLED.
pub(crate) const REQUEST_CANCELLED: VarInt = VarInt::from_u32(3);
/// DOQ_EXCESSIVE_LOAD.
pub(crate) const EXCESSIVE_LOAD: VarInt = VarInt::from_u32(4);
/// H3_NO_ERROR.
const H3_NO_ERROR: VarInt = VarInt::from_u32(0x100);
/// H3_EXCESSIVE_LOAD.
pub(crate) const H3_EXCESSIVE_LOAD: VarInt = VarInt::from_u32(0x107);

/// That a connection of this protocol is not needed any more.
pub(crate) fn no_error(protocol: Protocol) -> VarInt {
    if protocol == Protocol::Http3 { H3_NO_ERROR } else { NO_ERROR }
}
