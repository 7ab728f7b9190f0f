//! Passes a reply on unchanged, except for the fields that concern one hop only: ID, flags, OPT record,
//! letter case of the question.

use dns64::rewrite::{OPT_LENGTH, copy_without_edns};
use dns64::steps;
use dns64::wire::{HEADER_LENGTH, Header, Malformed, Message, Record, Section, rcode, rtype};

use super::{ExtendedErrors, Form, Outcome, Source, write_empty};

/// Passes a reply on to the client: the ID, the flags RD, RA, CD, AD and AA, the OPT record and the spelling
/// of the question are the hop's and so ours.
///
/// # Errors
/// Records that cannot be read.
pub fn write(
    source: &Source<'_>,
    form: &Form,
    notes: &mut ExtendedErrors<'_>,
    out: &mut [u8],
) -> Result<(usize, Outcome), Malformed> {
    let (reply, asked) = (source.reply, &source.query.asked);
    let Layout { end, opt } = Layout::of(reply)?;
    let extended = opt.as_ref().map_or(0, |opt| opt.extended_rcode);
    // A client without EDNS would take the low bits of an extended error for something else.
    let rcode = if extended > 0 && !form.has_edns() { rcode::SERVFAIL } else { reply.header.rcode() };
    notes.set_extended_rcode(extended);
    let flags = source.flags(rcode);
    let octets = match &opt {
        None => copy_head(reply, end, 0, form.room(out)),
        Some(opt) if opt.is_last => copy_head(reply, opt.at, 1, form.room(out)),
        Some(_) => {
            let written = copy_without_edns(asked, reply, form.room(out))?;
            if written.truncated { 0 } else { written.octets }
        }
    };
    if octets == 0 {
        let octets = write_empty(form, asked, flags | Header::TC, notes, out);
        return Ok((octets, Outcome { synthesized: false, truncated: true }));
    }
    restore_head(source, flags, out);
    Ok((form.finish(out, octets, notes), Outcome::default()))
}

/// Where a message ends, whatever octets follow its last record, and where its OPT record stands.
struct Layout {
    end: usize,
    opt: Option<OptPlace>,
}

impl Layout {
    fn of(message: &Message<'_>) -> Result<Self, Malformed> {
        let (mut end, mut opt) = (message.question_end(), None);
        for record in message.records() {
            let record = record?;
            end = record.rdata_position() + record.rdata.len();
            match &mut opt {
                Some(OptPlace { is_last, .. }) => *is_last = false,
                None if record.rtype == rtype::OPT && record.section == Section::Additional => {
                    opt = Some(OptPlace::of(message, &record)?);
                }
                None => {}
            }
        }
        Ok(Self { end, opt })
    }
}

struct OptPlace {
    at: usize,
    is_last: bool,
    extended_rcode: u8,
}

impl OptPlace {
    fn of(message: &Message<'_>, record: &Record<'_>) -> Result<Self, Malformed> {
        // Before RDATA stand ten octets and the owner, which is the root.
        let at = record.rdata_position() - OPT_LENGTH;
        if message.octets()[at] != 0 {
            return Err(Malformed("owner of an OPT record is not the root"));
        }
        Ok(Self { at, is_last: true, extended_rcode: record.ttl.to_be_bytes()[0] })
    }
}

/// Copies the first octets of a message and takes `dropped` from ARCOUNT; 0 when they do not fit.
fn copy_head(reply: &Message<'_>, length: usize, dropped: u16, out: &mut [u8]) -> usize {
    let Some(place) = out.get_mut(..length) else { return 0 };
    steps::add_octets(length);
    place.copy_from_slice(&reply.octets()[..length]);
    let additionals = reply.header.counts[3] - dropped;
    place[10..12].copy_from_slice(&additionals.to_be_bytes());
    length
}

/// Gives a copied message the client's ID and the client's spelling of the question, which is as long as the
/// reply's.
fn restore_head(source: &Source<'_>, flags: u16, out: &mut [u8]) {
    let asked = &source.query.asked;
    let wire = asked.question.name.as_wire();
    out[..2].copy_from_slice(&asked.id.to_be_bytes());
    out[2..4].copy_from_slice(&flags.to_be_bytes());
    out[HEADER_LENGTH..HEADER_LENGTH + wire.len()].copy_from_slice(wire);
}
