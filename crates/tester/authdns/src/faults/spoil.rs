//! Changing an answer.

use dns64::wire::{CLASS_IN, HEADER_LENGTH, Header, Message, Name, Section, Writer, rcode, rtype};
use record::random::{below, mix};

use super::Effect;
use super::Reply;
use crate::zone::Transport;

/// The name server in the referral of a lame server.
const ROOT_SERVER: &str = "a.root-servers.net";
/// The TTL of that referral, as in the root zone.
const ROOT_TTL_S: u32 = 518_400;
/// The largest RCODE that needs no OPT record (RFC 6895 2.3).
const RCODE_MAX_PLAIN: u16 = 15;

/// Lets the effects on the content befall the answer at the start of `out`, those of the whole answer before
/// those of its parts. What does not apply to it changes nothing and is not noted in `reply`.
pub fn spoil(
    effects: &(impl Iterator<Item = Effect> + Clone),
    transport: Transport,
    bits: u64,
    reply: &mut Reply,
    out: &mut [u8],
) {
    let whole = |effect: &Effect| matches!(effect, Effect::Lame | Effect::Rcode(_));
    let truncation = |effect: &Effect| matches!(effect, Effect::Truncate) && transport == Transport::Udp;
    let parts = [Effect::Bogus, Effect::WrongQuestion, Effect::WrongId];
    let ordered = effects
        .clone()
        .find(whole)
        .into_iter()
        .chain(effects.clone().find(truncation))
        .chain(parts.into_iter().filter(|part| effects.clone().any(|effect| effect == *part)));
    for effect in ordered {
        let octets = reply.answer.octets;
        let changed = match effect {
            Effect::Rcode(rcode) => without_records(out, octets, Some(rcode)),
            Effect::Lame => referral_to_the_root(out, octets),
            Effect::Truncate => without_records(out, octets, None),
            Effect::Bogus => damage_signatures(&mut out[..octets]).then_some(octets),
            Effect::WrongQuestion => change_question(&mut out[..octets]).then_some(octets),
            _ => change_id(&mut out[..octets], bits).then_some(octets),
        };
        if let Some(octets) = changed {
            reply.answer.octets = octets;
            reply.faults.add(effect.kind());
        }
    }
}

/// Makes of an answer one without records: with this RCODE or, without one, with TC.
fn without_records(out: &mut [u8], octets: usize, rcode: Option<u16>) -> Option<usize> {
    let answer = Message::parse(&out[..octets]).ok()?;
    let (Header { id, mut flags, .. }, question) = (answer.header, answer.question());
    let mut edns = answer.edns().ok()?;
    match rcode {
        None => flags |= Header::TC,
        Some(rcode) => {
            if rcode > RCODE_MAX_PLAIN && edns.is_none() {
                return None;
            }
            flags = flags & !(Header::RCODE | Header::AA | Header::TC) | rcode & Header::RCODE;
            // Of these two alone an authority speaks.
            if [rcode::NOERROR, rcode::NXDOMAIN].map(u16::from).contains(&rcode) {
                flags |= Header::AA;
            }
            if let Some(edns) = &mut edns {
                edns.extended_rcode = (rcode >> 4) as u8;
            }
        }
    }
    let mut writer = Writer::new(out, id, flags, &question).ok()?;
    if let Some(edns) = edns {
        writer.edns(&edns, &[]).ok()?;
    }
    Some(writer.finish())
}

/// Makes of an answer a referral to the root, as servers gave it that knew no better.
fn referral_to_the_root(out: &mut [u8], octets: usize) -> Option<usize> {
    let answer = Message::parse(&out[..octets]).ok()?;
    let (Header { id, flags, .. }, question, edns) = (answer.header, answer.question(), answer.edns().ok()?);
    let flags = flags & !(Header::RCODE | Header::AA | Header::TC);
    let server = Name::from_text(ROOT_SERVER).ok()?;
    let mut writer = Writer::new(out, id, flags, &question).ok()?;
    writer.record(Section::Authority, &Name::ROOT, rtype::NS, CLASS_IN, ROOT_TTL_S, server.as_wire()).ok()?;
    if let Some(edns) = edns {
        writer.edns(&edns, &[]).ok()?;
    }
    Some(writer.finish())
}

/// Changes the last octet of every signature; tells whether there was one.
fn damage_signatures(answer: &mut [u8]) -> bool {
    let start = answer.as_ptr() as usize;
    let Ok(message) = Message::parse(answer) else { return false };
    let last_octets: Vec<usize> = message
        .records()
        .map_while(Result::ok)
        .filter(|record| record.rtype == rtype::RRSIG && !record.rdata.is_empty())
        .map(|record| record.rdata.as_ptr() as usize - start + record.rdata.len() - 1)
        .collect();
    for &at in &last_octets {
        answer[at] = !answer[at];
    }
    !last_octets.is_empty()
}

/// Changes the first character of QNAME, or the type where the name is the root.
fn change_question(answer: &mut [u8]) -> bool {
    if Message::parse(answer).is_err() {
        return false;
    }
    match answer[HEADER_LENGTH] {
        0 => answer[HEADER_LENGTH + 2] ^= 1,
        _ => {
            let first = &mut answer[HEADER_LENGTH + 1];
            *first = if first.eq_ignore_ascii_case(&b'x') { b'y' } else { b'x' };
        }
    }
    true
}

fn change_id(answer: &mut [u8], bits: u64) -> bool {
    let Some(id) = answer.first_chunk_mut::<2>() else { return false };
    // Not by zero, so that it is another.
    let change = 1 + below(mix(!bits), 0xffff) as u16;
    *id = (u16::from_be_bytes(*id) ^ change).to_be_bytes();
    true
}
