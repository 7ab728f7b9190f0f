//! EDNS options: the RDATA of an OPT record (RFC 6891 6.1.2).

use super::{HEADER_LENGTH, Header, Message, Records, Section, rtype};
use crate::steps;

/// Option codes, by their IANA numbers.
pub mod option_code {
    #![allow(missing_docs)]
    /// DNS cookies (RFC 7873).
    pub const COOKIE: u16 = 10;
    /// `edns-tcp-keepalive`, RFC 7828.
    pub const KEEPALIVE: u16 = 11;
    /// Padding (RFC 7830).
    pub const PADDING: u16 = 12;
    /// Extended DNS errors (RFC 8914).
    pub const EXTENDED_ERROR: u16 = 15;
}

/// Code and length before the value of an option.
const HEAD_OCTETS: usize = 4;

/// The options of an OPT record.
///
/// ```
/// use dns64::wire::Options;
/// let options = Options::new(&[0, 12, 0, 1, 0xff, 0, 11, 0, 0]);
/// assert_eq!(options.find(12), Some(&[0xff][..]));
/// assert_eq!(options.iter().count(), 2);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// The options of a message; none if it has no OPT record, or one that [`Message::opt`] takes for
    /// malformed.
    pub fn of(message: &Message<'a>) -> Self {
        message.opt().ok().flatten().map_or_else(Self::default, |record| Self(record.rdata))
    }

    /// The options in the RDATA of an OPT record.
    pub fn new(rdata: &'a [u8]) -> Self {
        Self(rdata)
    }

    /// Codes and values in their order, up to the first option that runs over the end.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let ([code @ .., length_high, length_low], tail) = rest.split_first_chunk::<HEAD_OCTETS>()?;
            steps::add(1);
            let length = usize::from(u16::from_be_bytes([*length_high, *length_low]));
            let (value, tail) = tail.split_at_checked(length)?;
            rest = tail;
            Some((u16::from_be_bytes(*code), value))
        })
    }

    /// The value of the first option with this code.
    pub fn find(&self, code: u16) -> Option<&'a [u8]> {
        self.iter().find(|(found, _)| *found == code).map(|(_, value)| value)
    }
}

/// Adds an option to the message in the first `octets` of `out`, whose last record must be its OPT record, as
/// [`crate::rewrite::append_edns`] leaves it. Returns the new length; the old one, and the message as it was,
/// if there is no room or no such record.
pub fn append_option(out: &mut [u8], octets: usize, code: u16, value: &[u8]) -> usize {
    try_append(out, octets, code, value).unwrap_or(octets)
}

fn try_append(out: &mut [u8], octets: usize, code: u16, value: &[u8]) -> Option<usize> {
    let rdata_at = rdata_of_last_opt(out.get(..octets)?)?;
    let end = octets + HEAD_OCTETS + value.len();
    let value_length = u16::try_from(value.len()).ok()?;
    let rdata_length = u16::try_from(end - rdata_at).ok()?;
    let (head, tail) = out.get_mut(octets..end)?.split_at_mut(HEAD_OCTETS);
    head[..2].copy_from_slice(&code.to_be_bytes());
    head[2..].copy_from_slice(&value_length.to_be_bytes());
    tail.copy_from_slice(value);
    out[rdata_at - 2..rdata_at].copy_from_slice(&rdata_length.to_be_bytes());
    Some(end)
}

/// Where the RDATA of the OPT record begins that ends the message.
fn rdata_of_last_opt(message: &[u8]) -> Option<usize> {
    let header = Header::parse(message).ok()?;
    // An error may go out without a question.
    let records_at = match header.counts[0] {
        0 => HEADER_LENGTH,
        _ => Message::parse(message).ok()?.question_end(),
    };
    let last = Records::new(message, &header, records_at).last()?.ok()?;
    let is_opt = last.rtype == rtype::OPT && last.section == Section::Additional;
    let ends_message = last.rdata_position() + last.rdata.len() == message.len();
    (is_opt && ends_message).then_some(last.rdata_position())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::append_edns;
    use crate::wire::{CLASS_IN, Edns, Name, Question, Writer};
    use proptest::prelude::*;

    const EDNS: Edns = Edns { payload_octets: 1232, extended_rcode: 0, version: 0, dnssec_ok: true };

    /// A message with one A record and an empty OPT record in a buffer of this size, and its length.
    fn message(room: usize) -> (Vec<u8>, usize) {
        let name = Name::from_text("www.example").unwrap();
        let question = Question { name, qtype: rtype::A, qclass: CLASS_IN };
        let mut out = vec![0; room];
        let mut writer = Writer::new(&mut out, 7, Header::QR, &question).unwrap();
        writer.record(Section::Answer, &name, rtype::A, CLASS_IN, 60, &[192, 0, 2, 1]).unwrap();
        let octets = writer.finish();
        let octets = append_edns(&mut out, octets, &EDNS);
        (out, octets)
    }

    fn found(message: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let message = Message::parse(message).unwrap();
        Options::of(&message).iter().map(|(code, value)| (code, value.to_vec())).collect()
    }

    #[test]
    fn options_are_added_one_after_the_other() {
        let (mut out, octets) = message(512);
        let octets = append_option(&mut out, octets, option_code::KEEPALIVE, &[0, 100]);
        let octets = append_option(&mut out, octets, option_code::PADDING, &[]);
        assert_eq!(found(&out[..octets]), [(11, vec![0, 100]), (12, vec![])]);
        let theirs = domain::base::Message::from_octets(&out[..octets]).unwrap();
        let opt = theirs.opt().unwrap();
        assert_eq!(opt.opt().len(), 4 + 2 + 4);
        assert_eq!((opt.udp_payload_size(), opt.dnssec_ok()), (1232, true));
        assert_eq!(theirs.answer().unwrap().count(), 1);
    }

    #[test]
    fn an_option_without_room_changes_nothing() {
        let (_, octets) = message(512);
        for (room, fits) in [(octets + 4 + 3, true), (octets + 4 + 2, false), (octets, false)] {
            let (mut out, octets) = message(room);
            let before = out.clone();
            let longer = append_option(&mut out, octets, option_code::COOKIE, &[1, 2, 3]);
            assert_eq!(longer > octets, fits, "{room}");
            assert!(fits || out == before);
        }
        let (mut out, octets) = message(200_000);
        assert_eq!(append_option(&mut out, octets, option_code::PADDING, &[0; 65_536]), octets);
        assert_eq!(append_option(&mut out, octets, option_code::PADDING, &[0; 65_532]), octets);
        assert_eq!(append_option(&mut out, octets, option_code::PADDING, &[0; 65_531]), octets + 65_535);
    }

    #[test]
    fn a_message_must_end_with_its_opt_record() {
        let (mut out, octets) = message(512);
        let padded = octets + 1;
        assert_eq!(append_option(&mut out, padded, option_code::PADDING, &[]), padded);
        out[11] = 0;
        assert_eq!(append_option(&mut out, octets, option_code::PADDING, &[]), octets, "no OPT record");
        assert_eq!(append_option(&mut out, 513, option_code::PADDING, &[]), 513, "beyond the buffer");
    }

    #[test]
    fn an_error_without_a_question_takes_options() {
        let mut out = [0; 64];
        let octets = append_edns(&mut out, HEADER_LENGTH, &EDNS);
        let octets = append_option(&mut out, octets, option_code::COOKIE, &[9; 8]);
        assert_eq!(octets, HEADER_LENGTH + 11 + 12);
        let header = Header::parse(&out).unwrap();
        let opt = Records::new(&out[..octets], &header, HEADER_LENGTH).last().unwrap().unwrap();
        assert_eq!(Options::new(opt.rdata).find(option_code::COOKIE), Some(&[9; 8][..]));
    }

    #[test]
    fn options_end_at_the_first_that_runs_over_the_end() {
        let options = Options::new(&[0, 10, 0, 1, 9, 0, 15, 0, 3, 0, 6]);
        assert_eq!(options.iter().collect::<Vec<_>>(), [(10, &[9][..])]);
        assert_eq!(options.find(option_code::EXTENDED_ERROR), None);
        assert_eq!(Options::new(&[0, 10, 0]).iter().count(), 0);
    }

    #[test]
    fn a_message_with_two_opt_records_has_no_options() {
        let (mut out, octets) = message(512);
        let octets = append_option(&mut out, octets, option_code::COOKIE, &[9; 8]);
        assert_eq!(found(&out[..octets]).len(), 1);
        let octets = append_edns(&mut out, octets, &EDNS);
        assert_eq!(found(&out[..octets]).len(), 0);
    }

    proptest! {
        #[test]
        fn any_octets_are_read_and_written_without_a_panic(
            mut octets in prop::collection::vec(any::<u8>(), 0..100), questions in 0u8..3, length in 0usize..120,
        ) {
            if let Some(count) = octets.get_mut(5) {
                *count = questions;
            }
            prop_assert!(Options::new(&octets).iter().count() <= octets.len() / HEAD_OCTETS);
            let longer = append_option(&mut octets, length, option_code::COOKIE, &[9; 8]);
            prop_assert!(longer == length || longer == length + 12 && longer <= octets.len());
        }

        #[test]
        fn what_is_added_is_found(options in prop::collection::vec((any::<u16>(), prop::collection::vec(any::<u8>(), 0..20)), 0..8)) {
            let (mut out, mut octets) = message(512);
            for (code, value) in &options {
                octets = append_option(&mut out, octets, *code, value);
            }
            prop_assert_eq!(found(&out[..octets]), options);
        }
    }
}
