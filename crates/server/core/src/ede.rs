//! Extended errors: why an answer is what it is (RFC 8914).

use dns64::wire::{append_option, option_code};

/// The codes that we send, by their IANA numbers.
pub mod code {
    /// For reasons that have no code.
    pub const OTHER: u16 = 0;
    /// The answer was expired, and no fresh one was to be had (RFC 8767).
    pub const STALE_ANSWER: u16 = 3;
    /// DNSSEC validation failed, or may have.
    pub const DNSSEC_INDETERMINATE: u16 = 5;
    /// The failure is a remembered one (RFC 9520).
    pub const CACHED_ERROR: u16 = 13;
    /// Too much is in progress for the name's zone.
    pub const NOT_READY: u16 = 14;
    /// The client may not ask us.
    pub const PROHIBITED: u16 = 18;
    /// As [`STALE_ANSWER`], for a name that did not exist.
    pub const STALE_NXDOMAIN_ANSWER: u16 = 19;
    /// A resolver does not answer queries without RD (RFC 8914 4.21).
    pub const NOT_AUTHORITATIVE: u16 = 20;
    /// The query asks for something that we do not do.
    pub const NOT_SUPPORTED: u16 = 21;
    /// No upstream server answered.
    pub const NO_REACHABLE_AUTHORITY: u16 = 22;
    /// An upstream server could not be reached.
    pub const NETWORK_ERROR: u16 = 23;
    /// An upstream server answered nonsense.
    pub const INVALID_DATA: u16 = 24;
    /// The answer holds addresses that no zone has: it was synthesized.
    pub const SYNTHESIZED: u16 = 29;
    /// No question may have this type (RFC 9824 9).
    pub const INVALID_QUERY_TYPE: u16 = 30;
}

/// The longest text that is sent, in octets.
const TEXT_OCTETS_MAX: usize = 128;

/// Adds an extended error to the message in the first `octets` of `out`, whose last record is its OPT record.
/// The text is for people; it is cut to 128 octets, and left out where only the code fits. Returns the new
/// length, the old one if there is no room.
pub fn append(out: &mut [u8], octets: usize, code: u16, text: &str) -> usize {
    let mut value = [0; 2 + TEXT_OCTETS_MAX];
    let text = cut(text);
    value[..2].copy_from_slice(&code.to_be_bytes());
    value[2..2 + text.len()].copy_from_slice(text.as_bytes());
    let with_text = append_option(out, octets, option_code::EXTENDED_ERROR, &value[..2 + text.len()]);
    if with_text > octets {
        return with_text;
    }
    append_option(out, octets, option_code::EXTENDED_ERROR, &value[..2])
}

/// As many whole characters as may be sent.
fn cut(text: &str) -> &str {
    let end = (0..=TEXT_OCTETS_MAX.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns64::rewrite::append_edns;
    use dns64::wire::{CLASS_IN, Edns, Header, Message, Name, Options, Question, Writer, rtype};
    use proptest::prelude::*;

    const EDNS: Edns = Edns { payload_octets: 1232, extended_rcode: 0, version: 0, dnssec_ok: false };

    /// An answer with an OPT record in a buffer of this size, and its length.
    fn answer(room: usize) -> (Vec<u8>, usize) {
        let question = Question { name: Name::ROOT, qtype: rtype::A, qclass: CLASS_IN };
        let mut out = vec![0; room];
        let octets = Writer::new(&mut out, 1, Header::QR, &question).unwrap().finish();
        let octets = append_edns(&mut out, octets, &EDNS);
        (out, octets)
    }

    fn error(message: &[u8]) -> (u16, String) {
        let message = Message::parse(message).unwrap();
        let (code, text) =
            Options::of(&message).find(option_code::EXTENDED_ERROR).unwrap().split_first_chunk().unwrap();
        (u16::from_be_bytes(*code), String::from_utf8(text.to_vec()).unwrap())
    }

    #[test]
    fn code_and_text_are_added() {
        let (mut out, octets) = answer(512);
        let octets = append(&mut out, octets, code::SYNTHESIZED, "64:ff9b::/96");
        assert_eq!(error(&out[..octets]), (29, "64:ff9b::/96".into()));
    }

    #[test]
    fn a_text_that_does_not_fit_is_left_out() {
        let (_, bare) = answer(512);
        for (room, expected) in [(bare + 6 + 4, Some("text")), (bare + 6 + 3, Some("")), (bare + 5, None)] {
            let (mut out, octets) = answer(room);
            let longer = append(&mut out, octets, code::OTHER, "text");
            match expected {
                Some(text) => assert_eq!(error(&out[..longer]), (0, text.into())),
                None => assert_eq!(longer, octets),
            }
        }
    }

    #[test]
    fn a_message_without_opt_stays_as_it_is() {
        let (mut out, octets) = answer(512);
        let without = octets - dns64::rewrite::OPT_LENGTH;
        out[11] = 0;
        assert_eq!(append(&mut out, without, code::OTHER, ""), without);
    }

    proptest! {
        #[test]
        fn texts_are_cut_between_characters(text in ".{0,200}") {
            let (mut out, octets) = answer(512);
            let octets = append(&mut out, octets, code::OTHER, &text);
            let (_, sent) = error(&out[..octets]);
            prop_assert!(text.starts_with(&sent) && sent.len() <= TEXT_OCTETS_MAX);
            prop_assert!(text.len() <= TEXT_OCTETS_MAX || sent.len() > TEXT_OCTETS_MAX - 4);
        }
    }
}
