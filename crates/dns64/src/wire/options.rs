//! EDNS options: the RDATA of an OPT record (RFC 6891 6.1.2).

use super::{HEADER_LENGTH, Header, Message, Records, Section, rtype};

/// Option codes, by their IANA numbers.
pub mod option_code {
    #![allow(missing_docs)]
    /// RFC 7873.
    pub const COOKIE: u16 = 10;
    /// `edns-tcp-keepalive`, RFC 7828.
    pub const KEEPALIVE: u16 = 11;
    /// RFC 7830.
    pub const PADDING: u16 = 12;
    /// RFC 8914.
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
    /// The options of a message; none if it has no OPT record, or one that [`Message::opt`] takes for malformed.
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
/// [`crate::rewrite::append_edns`] leaves it. Returns the new length; the old one, and the message as it was, if there
/// is no room or no such record.
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
    let ends_message = last.rdata_at() + last.rdata.len() == message.len();
    (is_opt && ends_message).then_some(last.rdata_at())
}
