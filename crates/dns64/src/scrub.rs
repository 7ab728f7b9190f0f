//! Removes records that do not belong to the question from a reply (RFC 5452 6, RFC 2181 5.4.1).
//!
//! A server may add records that nobody asked for. An attacker who can make a server add records must gain
//! nothing.

mod plan;
#[cfg(test)]
mod tests;

use crate::effort::Effort;
use crate::rewrite::TYPE_TSIG;
use crate::wire::{CLASS_IN, Malformed, Message, Name, Overflow, Record, Section, Writer, rtype};
use plan::{Plan, is_of_type};

/// Takes out of a reply what does not belong to its question.
///
/// `Ok(None)`: there is no such thing, and the reply may be used as it is. Otherwise the reply is written
/// again into `out`, which is best as long as the longest message, and its length returned: the question and
/// the header as they were but for the counts, the OPT record at the end.
///
/// 1. Of the answer section stays the chain of CNAME and DNAME records from the question, and what its last
///    name has of the type asked for ([`crate::chain`]).
/// 2. Of the authority section stay the records of the names of the chain and of those above them; the NSEC
///    and NSEC3 records of the zones that are named there, which prove that something does not exist; and
///    their signatures.
/// 3. Of the additional section stay the records of the names of the chain and of those that the RDATA of the
///    records above names, and the OPT record.
/// 4. All else goes: other classes, TSIG, what stands behind the first 256 records of the authority and of
///    the additional section, and octets behind the last record.
///
/// # Errors
/// Malformed records, to which address records with RDATA of another length count; a chain that is too long
/// or a loop; names that cost too much to compare; or a reply that does not fit into `out`.
pub fn scrub(reply: &Message<'_>, out: &mut [u8]) -> Result<Option<usize>, Malformed> {
    let mut effort = Effort::of_message(reply.octets().len());
    if is_plain(reply, &mut effort)? {
        return Ok(None);
    }
    // Names and number of the OPT record are checked here.
    reply.edns()?;
    let mut effort = Effort::of_message(reply.octets().len());
    for record in reply.records() {
        check_length(&record?, &mut effort)?;
    }
    let plan = Plan::of(reply, &mut effort)?;
    let mut end = reply.question_end();
    for record in reply.records() {
        let record = record?;
        if !plan.keeps(&record) {
            return write(reply, &plan, out).map(Some);
        }
        end = end_of(&record);
    }
    if end == reply.octets().len() { Ok(None) } else { write(reply, &plan, out).map(Some) }
}

/// The position behind a record.
fn end_of(record: &Record<'_>) -> usize {
    record.rdata_position() + record.rdata.len()
}

/// Whether a reply is of the most common kind: records of the question's name, at most authority records of
/// names at or above it, and at most an OPT record. Nothing stands behind the last of them.
fn is_plain(reply: &Message<'_>, effort: &mut Effort) -> Result<bool, Malformed> {
    let (mut options, mut end) = (0, reply.question_end());
    for record in reply.records() {
        let record = record?;
        if matches!(record.rtype, rtype::CNAME | rtype::DNAME) {
            return Ok(false);
        }
        check_length(&record, effort)?;
        end = end_of(&record);
        let plain = match record.section {
            Section::Answer => record.owner_is_question_pointer() && is_of_type(&record, reply.qtype),
            Section::Authority => match is_above(&record, &reply.question().name, effort) {
                Err(_) if effort.is_used_up() => false,
                is_above => is_above?,
            },
            Section::Additional => {
                options += 1;
                // Anything but one octet is no root (RFC 6891 6.1.2): such a record is looked at below.
                record.rtype == rtype::OPT && options == 1 && reply.octets()[record.position()] == 0
            }
        };
        if !plain || record.class != reply.qclass && record.section != Section::Additional {
            return Ok(false);
        }
    }
    Ok(end == reply.octets().len())
}

/// Whether the owner is `name`, the question's, or stands above it.
fn is_above(record: &Record<'_>, name: &Name, effort: &mut Effort) -> Result<bool, Malformed> {
    if record.owner_is_question_pointer() {
        return Ok(true);
    }
    let owner = record.owner_within(effort)?;
    effort.spend(name.comparison_steps(&owner))?;
    Ok(name.is_under(&owner))
}

/// An address record has an address and nothing else (RFC 1035 3.4.1, RFC 3596 2.2), an alias a name and
/// nothing else. Whoever copies what a server calls so must not find more of it.
fn check_length(record: &Record<'_>, effort: &mut Effort) -> Result<(), Malformed> {
    let octets = match record.rtype {
        rtype::A => 4,
        rtype::AAAA => 16,
        rtype::CNAME | rtype::DNAME if record.name_in_rdata_within(0, effort)?.1 != record.rdata.len() => {
            return Err(Malformed("octets behind the name of an alias"));
        }
        _ => return Ok(()),
    };
    if record.class != CLASS_IN || record.rdata.len() == octets {
        return Ok(());
    }
    Err(Malformed("address record with RDATA of another length"))
}

/// Writes the records that the plan keeps.
fn write(reply: &Message<'_>, plan: &Plan, out: &mut [u8]) -> Result<usize, Malformed> {
    let no_room = |_: Overflow| Malformed("longer than its buffer when written again");
    let header = &reply.header;
    let mut writer = Writer::new(out, header.id, header.flags, &reply.question()).map_err(no_room)?;
    let mut options: Option<Record<'_>> = None;
    for record in reply.records() {
        let record = record?;
        if !plan.keeps(&record) {
            continue;
        }
        if record.rtype == rtype::OPT {
            options = Some(record);
        } else if !writer.copy(&record, record.ttl).map_err(no_room)? {
            return Err(Malformed("name in a record cannot be read"));
        }
    }
    if let Some(Record { rtype, class, ttl, rdata, .. }) = options {
        let section = Section::Additional;
        writer.record(section, &Name::ROOT, rtype, class, ttl, rdata).map_err(no_room)?;
    }
    Ok(writer.finish())
}
