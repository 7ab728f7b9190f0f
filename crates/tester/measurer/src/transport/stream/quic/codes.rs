//! The error codes of DNS over QUIC (RFC 9250 4.3), and what the end of a connection means.

use engine::connections::Breakdown;
use quinn_proto::{ConnectionError, TransportError, TransportErrorCode, VarInt};
use rustls::AlertDescription;

use crate::transport::stream::in_words;
use crate::transport::stream::link::End;

/// The connection is not needed any more.
pub(super) const NO_ERROR: VarInt = VarInt::from_u32(0);
/// The server did what RFC 9250 4.3.3 forbids.
pub(super) const PROTOCOL_ERROR: VarInt = VarInt::from_u32(2);
/// The answer to a query is not wanted any more.
pub(super) const REQUEST_CANCELLED: VarInt = VarInt::from_u32(3);

/// The name of a code (RFC 9250 8.4), or its number.
pub(super) fn name(code: VarInt) -> String {
    let name = match code.into_inner() {
        0 => "DOQ_NO_ERROR",
        1 => "DOQ_INTERNAL_ERROR",
        2 => "DOQ_PROTOCOL_ERROR",
        3 => "DOQ_REQUEST_CANCELLED",
        4 => "DOQ_EXCESSIVE_LOAD",
        5 => "DOQ_UNSPECIFIED_ERROR",
        0xd098_ea5e => "DOQ_ERROR_RESERVED",
        other => return format!("code {other:#x}"),
    };
    name.to_owned()
}

/// Why a connection that was ready, or was not yet, is over. The texts that a server sends along are left
/// out: they may say anything.
pub(super) fn end(
    error: &ConnectionError,
    ready: bool,
    (no_error, name): (VarInt, &dyn Fn(VarInt) -> String),
) -> End {
    let (why, reason) = match error {
        ConnectionError::ApplicationClosed(close) if close.error_code == no_error => {
            (Breakdown::Closed, name(close.error_code))
        }
        ConnectionError::ApplicationClosed(close) => (Breakdown::Reset, name(close.error_code)),
        ConnectionError::ConnectionClosed(close) => of_transport(close.error_code, ready),
        ConnectionError::TransportError(error) if ready => (Breakdown::Reset, own_words(error)),
        ConnectionError::TransportError(error) => (Breakdown::Handshake, own_words(error)),
        ConnectionError::VersionMismatch => (Breakdown::Handshake, "no version in common".to_owned()),
        ConnectionError::Reset => (Breakdown::Reset, "stateless reset".to_owned()),
        ConnectionError::TimedOut if ready => (Breakdown::Closed, "idle timeout".to_owned()),
        ConnectionError::TimedOut => return Breakdown::TimedOut.into(),
        // Nobody asked a closed connection, and identifiers have no length.
        ConnectionError::LocallyClosed | ConnectionError::CidsExhausted => return Breakdown::Reset.into(),
    };
    let reason = if why == Breakdown::Handshake { in_words(&reason) } else { reason };
    End { why, reason: Some(reason) }
}

/// What the server's QUIC, or its TLS, said (RFC 9000 20.1).
fn of_transport(code: TransportErrorCode, ready: bool) -> (Breakdown, String) {
    let number = u64::from(code);
    let reason = match u8::try_from(number.wrapping_sub(0x100)) {
        Ok(alert) => format!("received fatal alert: {:?}", AlertDescription::from(alert)),
        Err(_) => format!("QUIC error {number:#x}: {code}"),
    };
    let why = match code {
        TransportErrorCode::CONNECTION_REFUSED if !ready => Breakdown::Refused,
        TransportErrorCode::NO_ERROR if ready => Breakdown::Closed,
        _ if ready => Breakdown::Reset,
        _ => Breakdown::Handshake,
    };
    (why, reason)
}

/// What our own side found, in the words of the library: of TLS without the number of its alert.
fn own_words(error: &TransportError) -> String {
    if error.reason.is_empty() { error.code.to_string() } else { error.reason.clone() }
}

#[cfg(test)]
mod tests {
    use quinn_proto::{ApplicationClose, ConnectionClose};

    use super::*;

    fn ended(error: &ConnectionError, ready: bool) -> (Breakdown, String) {
        let End { why, reason } = end(error, ready, (NO_ERROR, &name));
        (why, reason.unwrap_or_default())
    }

    #[test]
    fn codes_have_names_and_numbers() {
        let application = |code: u32| {
            let close = ApplicationClose { error_code: code.into(), reason: "anything\n".into() };
            ended(&ConnectionError::ApplicationClosed(close), true)
        };
        assert_eq!(application(0), (Breakdown::Closed, "DOQ_NO_ERROR".to_owned()));
        assert_eq!(application(4), (Breakdown::Reset, "DOQ_EXCESSIVE_LOAD".to_owned()));
        assert_eq!(application(0x77), (Breakdown::Reset, "code 0x77".to_owned()));
    }

    #[test]
    fn before_the_handshake_is_done_it_failed() {
        let transport = |code, ready| {
            let close = ConnectionClose { error_code: code, frame_type: None, reason: "".into() };
            ended(&ConnectionError::ConnectionClosed(close), ready)
        };
        let alert = TransportErrorCode::crypto(120);
        let (why, words) = transport(alert, false);
        let said = "received fatal alert: NoApplicationProtocol: ";
        assert!(why == Breakdown::Handshake && words.starts_with(said), "{words}");
        assert_eq!(transport(TransportErrorCode::CONNECTION_REFUSED, false).0, Breakdown::Refused);
        assert_eq!(transport(TransportErrorCode::NO_ERROR, true).0, Breakdown::Closed);
        let (why, words) = transport(TransportErrorCode::FLOW_CONTROL_ERROR, true);
        assert!(why == Breakdown::Reset && words.starts_with("QUIC error 0x3: "), "{words}");
        assert_eq!(ended(&ConnectionError::TimedOut, true), (Breakdown::Closed, "idle timeout".to_owned()));
        assert_eq!(ended(&ConnectionError::TimedOut, false).0, Breakdown::TimedOut);
    }
}
