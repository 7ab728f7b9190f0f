//! Writing an answer: header, question as it was asked, records with compressed names, OPT last.

use dns64::wire::{CLASS_IN, Edns, HEADER_LENGTH, Header, Message, Overflow, Section, Writer, rtype};

use super::EDNS_PAYLOAD_OCTETS;
use super::rule::{RecordSet, Reply, SetPart};

/// The length of an OPT record without options.
pub const OPT_OCTETS: usize = 11;

/// How much of a reply is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    All,
    /// Everything but the additional section.
    WithoutAdditional,
    Truncated,
}

/// Writes the answer to a query and returns its length.
///
/// # Errors
/// It does not fit.
pub fn write(
    query: &Message<'_>,
    edns: Option<Edns>,
    reply: &Reply,
    parts: Parts,
    out: &mut [u8],
) -> Result<usize, Overflow> {
    let mut set = if reply.authoritative { Header::AA } else { 0 };
    if parts == Parts::Truncated {
        set |= Header::TC;
    }
    let flags = answer_flags(&query.header, set, reply.rcode);
    let mut writer = Writer::new(out, query.header.id, flags, &query.question())?;
    let additional = if parts == Parts::All { &reply.additional[..] } else { &[] };
    let sections = [
        (Section::Answer, &reply.answer[..]),
        (Section::Authority, &reply.authority),
        (Section::Additional, additional),
    ];
    for (section, sets) in sections.into_iter().filter(|_| parts != Parts::Truncated) {
        for set in sets {
            write_set(&mut writer, section, set)?;
        }
    }
    if let Some(asked) = edns {
        // DO is copied (RFC 6891 6.1.1, RFC 3225 3).
        let extended_rcode = (reply.rcode >> 4) as u8;
        let own = Edns { payload_octets: EDNS_PAYLOAD_OCTETS, extended_rcode, version: 0, ..asked };
        writer.edns(&own, &[])?;
    }
    Ok(writer.finish())
}

fn write_set(writer: &mut Writer<'_>, section: Section, set: &RecordSet) -> Result<(), Overflow> {
    let RecordSet { owner, rtype, ttl_s, .. } = set;
    for rdata in set.rdatas.iter().filter(|_| set.shown != SetPart::Signature) {
        let write_rdata = |writer: &mut Writer<'_>| writer.rdata(*rtype, rdata);
        writer.record_with(section, owner, *rtype, CLASS_IN, *ttl_s, write_rdata)?;
    }
    match &set.signature {
        Some(rdata) => writer.record(section, owner, rtype::RRSIG, CLASS_IN, *ttl_s, rdata),
        None => Ok(()),
    }
}

/// An answer that is only a header: the question could not be read, or is of no known kind.
pub fn header_alone(query: &Header, rcode: u8, out: &mut [u8]) -> usize {
    let Some(header) = out.first_chunk_mut::<HEADER_LENGTH>() else { return 0 };
    *header = [0; HEADER_LENGTH];
    header[..2].copy_from_slice(&query.id.to_be_bytes());
    header[2..4].copy_from_slice(&answer_flags(query, 0, rcode.into()).to_be_bytes());
    HEADER_LENGTH
}

/// The flags of the answer to a query: QR, the opcode and RD copied (RFC 1035 4.1.1), the lower bits of the
/// RCODE.
///
/// RA, AD and CD stay clear: no recursion, no validation (RFC 4035 3.1.6).
fn answer_flags(query: &Header, set: u16, rcode: u16) -> u16 {
    Header::QR | (query.flags & (Header::OPCODE | Header::RD)) | set | (rcode & Header::RCODE)
}
