//! An answer to a client, written from the reply to another question.

use crate::effort::Effort;
use crate::wire::{
    CLASS_IN, Edns, HEADER_LENGTH, Header, Malformed, Message, NAME_LENGTH_MAX, Overflow, Question, Record,
    Section, Writer, rcode, rtype,
};

/// The room that an answer needs at least: the header and the longest question.
pub const ROOM_MIN_OCTETS: usize = HEADER_LENGTH + NAME_LENGTH_MAX + 4;

/// The length of an OPT record without options (RFC 6891 6.1.2).
pub const OPT_LENGTH: usize = 11;

pub(crate) const TYPE_TSIG: u16 = 250;

/// What an answer takes over from the query of a client.
#[derive(Clone, Copy, Debug)]
pub struct ClientQuery {
    /// The ID of the query (RFC 1035 4.1.1).
    pub id: u16,
    /// Its question, the case of its name kept.
    pub question: Question,
    /// The RD bit of the query (RFC 1035 4.1.1).
    pub recursion_desired: bool,
    /// The CD bit of the query (RFC 4035 3.2.2).
    pub checking_disabled: bool,
    /// The DO bit of the query (RFC 3225).
    pub dnssec_ok: bool,
}

impl ClientQuery {
    /// The second word of the header of an answer without AA and AD: QR and RA are set, RD and CD repeat the
    /// query's.
    pub fn answer_flags(&self, rcode: u8) -> u16 {
        let mut flags = Header::QR | Header::RA | u16::from(rcode) & Header::RCODE;
        if self.recursion_desired {
            flags |= Header::RD;
        }
        if self.checking_disabled {
            flags |= Header::CD;
        }
        flags
    }
}

/// An answer that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenAnswer {
    /// The length of the message in octets.
    pub octets: usize,
    /// It did not fit: TC is set and the answer section is empty (RFC 2181 9).
    pub truncated: bool,
}

/// Why an answer section could not be written.
pub(crate) enum Stop {
    Overflow,
    Malformed(Malformed),
}

impl From<Overflow> for Stop {
    fn from(_: Overflow) -> Self {
        Self::Overflow
    }
}

impl From<Malformed> for Stop {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// Writes an answer whose answer section is `answers`' and whose RCODE, authority and additional sections are
/// the reply's: at most one SOA, no OPT (it is hop by hop), no TSIG. An extended RCODE becomes SERVFAIL. AD
/// and AA are never set.
pub(crate) fn rewrite(
    asked: &ClientQuery,
    reply: &Message<'_>,
    out: &mut [u8],
    answers: impl FnOnce(&mut Writer<'_>) -> Result<(), Stop>,
) -> Result<WrittenAnswer, Malformed> {
    // The answer has no OPT record yet: the low bits of an extended error alone would say something else.
    let rcode = u8::try_from(full_rcode(reply)?).ok().filter(|&rcode| rcode < 16).unwrap_or(rcode::SERVFAIL);
    let flags = asked.answer_flags(rcode);
    let Ok(mut writer) = Writer::new(out, asked.id, flags, &asked.question) else {
        return Ok(WrittenAnswer { octets: 0, truncated: true });
    };
    let written = answers(&mut writer).and_then(|()| write_other_sections(&mut writer, reply));
    match written {
        Ok(()) => Ok(WrittenAnswer { octets: writer.finish(), truncated: false }),
        Err(Stop::Malformed(malformed)) => Err(malformed),
        Err(Stop::Overflow) => Ok(write_truncated(asked, flags, out)),
    }
}

/// Authority records of a positive answer, and additional records, are left out where they do not fit
/// (RFC 2181 9). So are those whose names cost too much to read.
fn write_other_sections(writer: &mut Writer<'_>, reply: &Message<'_>) -> Result<(), Stop> {
    let [_, answers, authorities, additionals] = reply.header.counts;
    if authorities == 0 && additionals == 0 {
        return Ok(());
    }
    let mut soa_seen = false;
    let mut effort = Effort::of_message(reply.octets().len());
    for record in reply.records() {
        let record = record?;
        match (record.section, record.rtype) {
            (Section::Answer, _) | (Section::Additional, rtype::OPT | TYPE_TSIG) => continue,
            (Section::Authority, rtype::SOA) if std::mem::replace(&mut soa_seen, true) => continue,
            _ => {}
        }
        match copy_within(writer, &record, &mut effort) {
            Err(_) if effort.is_used_up() => return Ok(()),
            Err(Stop::Overflow) if answers > 0 || record.section == Section::Additional => return Ok(()),
            copied => copied?,
        }
    }
    Ok(())
}

pub(crate) fn copy(writer: &mut Writer<'_>, record: &Record<'_>) -> Result<(), Stop> {
    copy_within(writer, record, &mut Effort::of_one_name())
}

fn copy_within(writer: &mut Writer<'_>, record: &Record<'_>, effort: &mut Effort) -> Result<(), Stop> {
    if writer.copy_within(record, record.ttl, effort)? {
        Ok(())
    } else {
        Err(Malformed("name in a record cannot be read").into())
    }
}

/// Writes a reply again without its OPT record, wherever that stands.
///
/// # Errors
/// Malformed records in the reply.
pub fn copy_without_edns(
    asked: &ClientQuery,
    reply: &Message<'_>,
    out: &mut [u8],
) -> Result<WrittenAnswer, Malformed> {
    let mut effort = Effort::of_message(reply.octets().len());
    rewrite(asked, reply, out, |writer| {
        for record in reply.records() {
            let record = record?;
            if record.section != Section::Answer {
                break;
            }
            copy_within(writer, &record, &mut effort)?;
        }
        Ok(())
    })
}

/// Writes an answer of header and question alone; empty where not even that fits.
pub fn write_empty(asked: &ClientQuery, flags: u16, out: &mut [u8]) -> usize {
    Writer::new(out, asked.id, flags, &asked.question).map_or(0, Writer::finish)
}

fn write_truncated(asked: &ClientQuery, flags: u16, out: &mut [u8]) -> WrittenAnswer {
    WrittenAnswer { octets: write_empty(asked, flags | Header::TC, out), truncated: true }
}

/// Adds an OPT record without options to the message in the first `octets` of `out`; returns its new length,
/// the old one if there is no room.
pub fn append_edns(out: &mut [u8], octets: usize, edns: &Edns) -> usize {
    let Some(place) = out.get_mut(octets..octets + OPT_LENGTH) else { return octets };
    let [type_high, type_low] = rtype::OPT.to_be_bytes();
    let [payload_high, payload_low] = edns.payload_octets.to_be_bytes();
    let flags = if edns.dnssec_ok { 0x80 } else { 0 };
    let [extended, version] = [edns.extended_rcode, edns.version];
    place.copy_from_slice(&[
        0,
        type_high,
        type_low,
        payload_high,
        payload_low,
        extended,
        version,
        flags,
        0,
        0,
        0,
    ]);
    let count = u16::from_be_bytes([out[10], out[11]]).saturating_add(1);
    out[10..12].copy_from_slice(&count.to_be_bytes());
    octets + OPT_LENGTH
}

/// The RCODE with its upper bits from the OPT record (RFC 6891 6.1.3).
///
/// # Errors
/// Malformed records.
pub fn full_rcode(message: &Message<'_>) -> Result<u16, Malformed> {
    let low = u16::from(message.header.rcode());
    Ok(message.edns()?.map_or(low, |edns| u16::from(edns.extended_rcode) << 4 | low))
}

/// The name-error code as the header holds it.
pub(crate) const NXDOMAIN: u16 = rcode::NXDOMAIN as u16;

/// Whether a record is an address record of class IN with RDATA of the right length.
pub(crate) fn address<const OCTETS: usize>(record: &Record<'_>, rtype: u16) -> Option<[u8; OCTETS]> {
    if record.rtype == rtype && record.class == CLASS_IN { record.rdata.try_into().ok() } else { None }
}
