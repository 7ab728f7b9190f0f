//! Messages written octet by octet: queries to upstream servers, their replies passed on, errors of our own.

use dns64::reverse;
use dns64::rewrite::{OPT_LENGTH, append_edns, copy_without_edns, write_empty};
use dns64::rule;
use dns64::wire::{
    Edns, HEADER_LENGTH, Header, Malformed, Message, NAME_LENGTH_MAX, Overflow, Question, Record, Section,
    Writer, rcode, rtype,
};

use super::inflight::{Channel, Query, Stage};
use super::screen::Refusal;
use super::settings::Settings;

/// The UDP payload size announced to upstream servers (RFC 9715).
pub const UPSTREAM_PAYLOAD_OCTETS: u16 = 1232;

/// The longest query: header, name, type and class, OPT.
pub const QUERY_OCTETS_MAX: usize = HEADER_LENGTH + NAME_LENGTH_MAX + 4 + OPT_LENGTH;

/// The TTL of the CNAME record from a synthesized address to its `in-addr.arpa` name, in seconds: it follows from the
/// prefix, which hardly ever changes.
const REVERSE_CNAME_TTL_S: u32 = 600;

/// The UDP answer that every client takes (RFC 1035 4.2.1).
const PLAIN_UDP_OCTETS: u16 = 512;

/// Writes the query for an upstream server. RD, CD and DO are the client's; its other EDNS options are hop by hop and
/// stay here.
pub fn write_upstream_query(
    settings: &Settings,
    query: &Query,
    question: &Question,
    id: u16,
    out: &mut [u8],
) -> usize {
    let flags = query.asked.answer_flags(0) & (Header::RD | Header::CD);
    let flags = if settings.trust_ad { flags | Header::AD } else { flags };
    let length = Writer::new(out, id, flags, question).map_or(0, Writer::finish);
    let edns = Edns {
        payload_octets: UPSTREAM_PAYLOAD_OCTETS,
        extended_rcode: 0,
        version: 0,
        dnssec_ok: query.asked.dnssec_ok,
    };
    append_edns(out, length, &edns)
}

/// The form that answers to one client take: how long they may be and whether they have an OPT record.
#[derive(Clone, Copy)]
pub struct Form {
    limit_octets: usize,
    edns: Option<Edns>,
}

impl Form {
    /// The form for a query.
    pub fn of(settings: &Settings, query: &Query) -> Self {
        let ours = settings.udp_payload_octets;
        let limit_octets = match query.client.channel {
            // A smaller announcement than 512 counts as 512 (RFC 6891 6.2.3).
            Channel::Udp { .. } => query.client_payload_octets.unwrap_or(0).max(PLAIN_UDP_OCTETS).min(ours),
            Channel::Tcp { .. } => u16::MAX,
        };
        let edns = query.client_payload_octets.map(|_| Edns {
            payload_octets: ours,
            extended_rcode: 0,
            version: 0,
            dnssec_ok: query.asked.dnssec_ok,
        });
        Self { limit_octets: limit_octets.into(), edns }
    }

    /// Writes an answer with `write`, which leaves room for the OPT record, and adds that record.
    pub fn write<T>(
        &self,
        out: &mut [u8],
        write: impl FnOnce(&mut [u8]) -> Result<(usize, T), Malformed>,
    ) -> Result<(usize, T), Malformed> {
        let limit = self.limit_octets.min(out.len());
        let room = if self.edns.is_some() { limit.saturating_sub(OPT_LENGTH) } else { limit };
        let (octets, value) = write(&mut out[..room])?;
        Ok((self.finish(&mut out[..limit], octets), value))
    }

    /// Writes an answer without records.
    pub fn write_empty(&self, query: &Query, flags: u16, out: &mut [u8]) -> usize {
        let octets = write_empty(&query.asked, flags, out);
        self.finish(out, octets)
    }

    fn finish(&self, out: &mut [u8], octets: usize) -> usize {
        match &self.edns {
            Some(edns) if octets > 0 => append_edns(out, octets, edns),
            _ => octets,
        }
    }
}

/// What an answer was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// It holds synthesized AAAA records.
    pub synthesized: bool,
    /// It did not fit and went out with TC.
    pub truncated: bool,
}

/// Writes the answer to a query from the reply to its last stage; `strip` takes excluded AAAA records out.
///
/// # Errors
/// Records that cannot be read.
pub fn write_answer(
    settings: &Settings,
    query: &Query,
    reply: &Message<'_>,
    strip: bool,
    out: &mut [u8],
) -> Result<(usize, Outcome), Malformed> {
    let (policy, asked, form) = (&settings.rule, &query.asked, Form::of(settings, query));
    match query.stage {
        Stage::A { ttl_cap_s } => form.write(out, |room| {
            let (written, count) = rule::synthesize(policy, asked, reply, ttl_cap_s, room)?;
            Ok((written.octets, Outcome { synthesized: count > 0, truncated: written.truncated }))
        }),
        Stage::Reverse { ipv4 } => form.write(out, |room| {
            let (style, target) = (settings.ptr.unwrap_or_default(), reverse::in_addr_arpa(ipv4));
            let written = reverse::answer(style, asked, &target, reply, REVERSE_CNAME_TTL_S, room)?;
            Ok((written.octets, Outcome { synthesized: false, truncated: written.truncated }))
        }),
        _ if strip => form.write(out, |room| {
            let written = rule::strip(policy, asked, reply, room)?;
            Ok((written.octets, Outcome { synthesized: false, truncated: written.truncated }))
        }),
        Stage::Plain | Stage::Aaaa => {
            let (octets, truncated) = pass_through(settings, query, reply, out)?;
            Ok((octets, Outcome { synthesized: false, truncated }))
        }
    }
}

/// Passes a reply on to the client as it is, but for what belongs to the hop: the ID, the flags RD, RA, CD and AA, the
/// OPT record and the case of the question. AD stays only with a trusted upstream server. Returns the length and
/// whether the answer was truncated.
///
/// # Errors
/// Records that cannot be read.
fn pass_through(
    settings: &Settings,
    query: &Query,
    reply: &Message<'_>,
    out: &mut [u8],
) -> Result<(usize, bool), Malformed> {
    let form = Form::of(settings, query);
    let opt = OptPlace::find(reply)?;
    let extended = opt.as_ref().map_or(0, |opt| opt.extended_rcode);
    // A client without EDNS would take the low bits of an extended error for something else.
    let rcode = if extended > 0 && form.edns.is_none() { rcode::SERVFAIL } else { reply.header.rcode() };
    let mut flags = query.asked.answer_flags(rcode);
    if settings.trust_ad {
        flags |= reply.header.flags & Header::AD;
    }
    let octets = match (&opt, &form.edns) {
        (Some(opt), Some(edns)) => copy_with_edns(reply, opt, edns, out),
        (Some(opt), None) if opt.is_last => copy_head(reply, opt.at, 1, out),
        (Some(_), None) => {
            let written = copy_without_edns(&query.asked, reply, out)?;
            if written.truncated { 0 } else { written.octets }
        }
        (None, _) => {
            let octets = copy_head(reply, reply.octets().len(), 0, out);
            form.finish(out, octets)
        }
    };
    if octets == 0 || octets > form.limit_octets {
        return Ok((form.write_empty(query, flags | Header::TC, out), true));
    }
    restore_head(query, flags, out);
    Ok((octets, false))
}

/// Where the OPT record of a message stands.
struct OptPlace {
    at: usize,
    is_last: bool,
    extended_rcode: u8,
}

impl OptPlace {
    fn find(message: &Message<'_>) -> Result<Option<Self>, Malformed> {
        let mut found = None;
        for record in message.records() {
            let record = record?;
            match &mut found {
                Some(Self { is_last, .. }) => *is_last = false,
                None if record.rtype == rtype::OPT && record.section == Section::Additional => {
                    found = Some(Self::of(message, &record)?);
                }
                None => {}
            }
        }
        Ok(found)
    }

    fn of(message: &Message<'_>, record: &Record<'_>) -> Result<Self, Malformed> {
        // RDATA is a part of the message; before it stand ten octets and the owner, which is the root.
        let rdata_at = record.rdata.as_ptr() as usize - message.octets().as_ptr() as usize;
        let at = rdata_at - OPT_LENGTH;
        if message.octets()[at] != 0 {
            return Err(Malformed("owner of an OPT record is not the root"));
        }
        Ok(Self { at, is_last: true, extended_rcode: record.ttl.to_be_bytes()[0] })
    }
}

/// Copies a message with the sizes and flags of its OPT record made ours; an extended error stays.
fn copy_with_edns(reply: &Message<'_>, opt: &OptPlace, edns: &Edns, out: &mut [u8]) -> usize {
    let octets = copy_head(reply, reply.octets().len(), 0, out);
    if octets > 0 {
        out[opt.at + 3..opt.at + 5].copy_from_slice(&edns.payload_octets.to_be_bytes());
        out[opt.at + 6] = 0;
        out[opt.at + 7] = if edns.dnssec_ok { 0x80 } else { 0 };
    }
    octets
}

/// Copies the first octets of a message and takes `dropped` from ARCOUNT; 0 when they do not fit.
fn copy_head(reply: &Message<'_>, length: usize, dropped: u16, out: &mut [u8]) -> usize {
    let Some(place) = out.get_mut(..length) else { return 0 };
    place.copy_from_slice(&reply.octets()[..length]);
    let additionals = reply.header.counts[3] - dropped;
    place[10..12].copy_from_slice(&additionals.to_be_bytes());
    length
}

/// Gives a copied message the client's ID and the client's spelling of the question, which is as long as the reply's.
fn restore_head(query: &Query, flags: u16, out: &mut [u8]) {
    let wire = query.asked.question.name.as_wire();
    out[..2].copy_from_slice(&query.asked.id.to_be_bytes());
    out[2..4].copy_from_slice(&flags.to_be_bytes());
    out[HEADER_LENGTH..HEADER_LENGTH + wire.len()].copy_from_slice(wire);
}

/// Writes a SERVFAIL of our own.
pub fn write_failure(settings: &Settings, query: &Query, out: &mut [u8]) -> usize {
    Form::of(settings, query).write_empty(query, query.asked.answer_flags(rcode::SERVFAIL), out)
}

/// Writes an error for a message that did not become a query: its ID, opcode and RD, and its question if it has one.
pub fn write_refusal(settings: &Settings, refusal: &Refusal, out: &mut [u8]) -> usize {
    try_write_refusal(settings, refusal, out).unwrap_or(0)
}

fn try_write_refusal(settings: &Settings, refusal: &Refusal, out: &mut [u8]) -> Result<usize, Overflow> {
    let kept = refusal.header.flags & (Header::OPCODE | Header::RD);
    let flags = Header::QR | Header::RA | kept | refusal.rcode & Header::RCODE;
    let octets = match &refusal.question {
        Some(question) => Writer::new(out, refusal.header.id, flags, question)?.finish(),
        None => {
            let head = out.get_mut(..HEADER_LENGTH).ok_or(Overflow)?;
            head.fill(0);
            head[..2].copy_from_slice(&refusal.header.id.to_be_bytes());
            head[2..4].copy_from_slice(&flags.to_be_bytes());
            HEADER_LENGTH
        }
    };
    if !refusal.edns {
        return Ok(octets);
    }
    let edns = Edns {
        payload_octets: settings.udp_payload_octets,
        extended_rcode: (refusal.rcode >> 4) as u8,
        version: 0,
        dnssec_ok: false,
    };
    Ok(append_edns(out, octets, &edns))
}
