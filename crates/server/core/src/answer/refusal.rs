//! Errors for messages that do not become queries.

use dns64::rewrite::append_edns;
use dns64::wire::{Edns, HEADER_LENGTH, Header, Overflow, Writer};

use crate::ede;
use crate::screen::Refusal;
use crate::settings::Settings;

/// Writes an error for a message that did not become a query: its ID, opcode and RD, and its question if it
/// has one.
pub fn write_refusal(settings: &Settings, refusal: &Refusal, out: &mut [u8]) -> usize {
    try_write(settings, refusal, out).unwrap_or(0)
}

fn try_write(settings: &Settings, refusal: &Refusal, out: &mut [u8]) -> Result<usize, Overflow> {
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
    let octets = append_edns(out, octets, &edns);
    Ok(match refusal.extended_error {
        Some(code) if settings.extended_errors => ede::append(out, octets, code, ""),
        _ => octets,
    })
}
