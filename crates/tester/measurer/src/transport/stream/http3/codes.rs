//! The error codes of HTTP/3 (RFC 9114 8.1, RFC 9204 6).

use std::fmt;

/// An error code: why a connection is ended, or a stream left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u64);

/// What arrives on this stream is not wanted any more: its sender is to be told so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop(pub Code);

impl Code {
    /// The connection is not needed any more.
    pub const NO_ERROR: Self = Self(0x100);
    /// A stream of a kind that may not be opened, or that nobody knows.
    pub const STREAM_CREATION: Self = Self(0x103);
    /// A stream that must stay was closed.
    pub const CLOSED_CRITICAL_STREAM: Self = Self(0x104);
    /// A frame where it may not be.
    pub const FRAME_UNEXPECTED: Self = Self(0x105);
    /// A frame whose payload does not fit.
    pub const FRAME: Self = Self(0x106);
    /// More than the Tester keeps.
    pub const EXCESSIVE_LOAD: Self = Self(0x107);
    /// An identifier that may not be used.
    pub const ID: Self = Self(0x108);
    /// A setting that may not be sent, or twice.
    pub const SETTINGS: Self = Self(0x109);
    /// The control stream began without settings.
    pub const MISSING_SETTINGS: Self = Self(0x10a);
    /// The answer to a request is not wanted any more.
    pub const REQUEST_CANCELLED: Self = Self(0x10c);
    /// Header fields that cannot be read.
    pub const QPACK_DECOMPRESSION_FAILED: Self = Self(0x200);
    /// Octets on the stream of a table that has no room.
    pub const QPACK_ENCODER_STREAM: Self = Self(0x201);
}

impl fmt::Display for Code {
    /// The name of the code, or its number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 17] = [
            "H3_NO_ERROR",
            "H3_GENERAL_PROTOCOL_ERROR",
            "H3_INTERNAL_ERROR",
            "H3_STREAM_CREATION_ERROR",
            "H3_CLOSED_CRITICAL_STREAM",
            "H3_FRAME_UNEXPECTED",
            "H3_FRAME_ERROR",
            "H3_EXCESSIVE_LOAD",
            "H3_ID_ERROR",
            "H3_SETTINGS_ERROR",
            "H3_MISSING_SETTINGS",
            "H3_REQUEST_REJECTED",
            "H3_REQUEST_CANCELLED",
            "H3_REQUEST_INCOMPLETE",
            "H3_MESSAGE_ERROR",
            "H3_CONNECT_ERROR",
            "H3_VERSION_FALLBACK",
        ];
        const OF_QPACK: [&str; 3] =
            ["QPACK_DECOMPRESSION_FAILED", "QPACK_ENCODER_STREAM_ERROR", "QPACK_DECODER_STREAM_ERROR"];
        let name = |names: &[&'static str], first: u64| {
            let place = usize::try_from(self.0.checked_sub(first)?).ok()?;
            names.get(place).copied()
        };
        match name(&NAMES, 0x100).or_else(|| name(&OF_QPACK, 0x200)) {
            Some(name) => f.write_str(name),
            None => write!(f, "code {:#x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names_and_numbers() {
        assert_eq!(Code::NO_ERROR.to_string(), "H3_NO_ERROR");
        assert_eq!(Code(0x110).to_string(), "H3_VERSION_FALLBACK");
        assert_eq!(Code::QPACK_DECOMPRESSION_FAILED.to_string(), "QPACK_DECOMPRESSION_FAILED");
        assert_eq!(Code(0x202).to_string(), "QPACK_DECODER_STREAM_ERROR");
        assert_eq!((Code(0x111).to_string(), Code(7).to_string()), ("code 0x111".into(), "code 0x7".into()));
    }
}
