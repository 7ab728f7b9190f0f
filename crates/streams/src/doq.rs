//! The error codes of DNS over QUIC (RFC 9250 4.3).

use quinn::VarInt;

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
