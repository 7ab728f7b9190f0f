//! DNS messages as streams carry them: behind a length of two octets (RFC 1035 4.2.2), matched by ID and
//! question.

use bytes::{BufMut, BytesMut};
use dns64::wire::{HEADER_LENGTH, Header, Message, Section, rcode, rtype};

/// The longest message, and so the longest frame without its length.
pub const MESSAGE_OCTETS_MAX: usize = u16::MAX as usize;

/// The longest query of a client that is taken, in octets: a question, and an OPT record with much padding.
pub const QUERY_OCTETS_MAX: usize = 4_096;

/// The octets of a frame's length.
pub const LENGTH_OCTETS: usize = 2;

/// The longest frame in octets: length and message.
pub const FRAME_OCTETS_MAX: usize = LENGTH_OCTETS + MESSAGE_OCTETS_MAX;

/// The EDNS option that has no place in QUIC (RFC 9250 5.5.2).
const OPTION_KEEPALIVE: u16 = 11;

/// A frame shorter than a DNS header: nothing that follows can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort;

/// Takes the first whole message out of what has been read. `None`: it is not whole yet.
pub fn take_frame(input: &mut BytesMut) -> Result<Option<Vec<u8>>, TooShort> {
    let Some(&length) = input.first_chunk::<LENGTH_OCTETS>() else { return Ok(None) };
    let octets = usize::from(u16::from_be_bytes(length));
    if octets < HEADER_LENGTH {
        return Err(TooShort);
    }
    if input.len() < LENGTH_OCTETS + octets {
        return Ok(None);
    }
    let frame = input.split_to(LENGTH_OCTETS + octets);
    Ok(Some(frame[LENGTH_OCTETS..].to_vec()))
}

/// Appends a message with its length. One that is too long for any frame is left out, and `false` returned.
pub fn push_frame(output: &mut BytesMut, message: &[u8]) -> bool {
    let Ok(length) = u16::try_from(message.len()) else { return false };
    output.put_u16(length);
    output.put_slice(message);
    true
}

/// The message of a stream that carries exactly one.
pub fn only_frame(octets: &[u8]) -> Result<Vec<u8>, TooShort> {
    match octets.split_first_chunk::<LENGTH_OCTETS>() {
        Some((&length, message))
            if usize::from(u16::from_be_bytes(length)) == message.len() && message.len() >= HEADER_LENGTH =>
        {
            Ok(message.to_vec())
        }
        _ => Err(TooShort),
    }
}

/// The ID of a message at least as long as a header.
pub fn id(message: &[u8]) -> u16 {
    message.first_chunk().map_or(0, |id| u16::from_be_bytes(*id))
}

/// Writes the ID, the first two octets of a message; a shorter message stays as it is.
pub fn set_id(message: &mut [u8], id: u16) {
    if let Some(head) = message.first_chunk_mut() {
        *head = id.to_be_bytes();
    }
}

/// Whether `reply` is a response to the question of `query`. A server that could not read the query may leave
/// the question out (RFC 1035 4.1.1 leaves it open); then the ID has to do, which the caller has compared.
pub fn is_reply(query: &[u8], reply: &[u8]) -> bool {
    let Ok(header) = Header::parse(reply) else { return false };
    if !header.has(Header::QR) {
        return false;
    }
    if header.counts[0] == 0 && header.rcode() != rcode::NOERROR {
        return true;
    }
    match (Message::parse(query), Message::parse(reply)) {
        (Ok(query), Ok(reply)) => query.question() == reply.question(),
        _ => false,
    }
}

/// For how many seconds HTTP caches may keep an answer: its least TTL, or that of its absence (RFC 8484 5.1).
/// 0 for what is no answer.
pub fn lifetime_s(answer: &[u8]) -> u32 {
    let Ok(message) = Message::parse(answer) else { return 0 };
    if !matches!(message.header.rcode(), rcode::NOERROR | rcode::NXDOMAIN) || message.header.has(Header::TC) {
        return 0;
    }
    let mut least = None;
    for record in message.records() {
        let Ok(record) = record else { return 0 };
        let ttl_s = match record.section {
            Section::Answer => record.ttl,
            Section::Authority if record.rtype == rtype::SOA => {
                record.ttl.min(record.soa_minimum().unwrap_or(0))
            }
            _ => continue,
        };
        least = Some(least.map_or(ttl_s, |least: u32| least.min(ttl_s)));
    }
    least.unwrap_or(0)
}

/// Whether a message carries the EDNS option of the idle time (RFC 7828).
pub fn has_keepalive(message: &[u8]) -> bool {
    let Ok(message) = Message::parse(message) else { return false };
    let opt = message.records().map_while(Result::ok).find(|record| record.rtype == rtype::OPT);
    let mut options = opt.map_or(&[][..], |opt| opt.rdata);
    while let Some((&[a, b, c, d], rest)) = options.split_first_chunk() {
        if u16::from_be_bytes([a, b]) == OPTION_KEEPALIVE {
            return true;
        }
        options = rest.get(usize::from(u16::from_be_bytes([c, d]))..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests;
