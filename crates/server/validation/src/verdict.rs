//! Makes the answer for the owner from a verdict.

use std::time::{SystemTime, UNIX_EPOCH};

use dns64::rewrite::append_edns;
use dns64::wire::{
    Edns, Header, Malformed, Message, Overflow, Writer, append_option, option_code, rcode, rtype,
};

use crate::evidence::{Evidence, MESSAGE_OCTETS_MAX, TYPE_NSEC};

/// The payload size in our OPT records, in octets.
pub(crate) const PAYLOAD_OCTETS: u16 = 1232;

/// Extended errors (RFC 8914 4).
pub(crate) mod code {
    pub const BOGUS: u16 = 6;
    pub const SIGNATURE_EXPIRED: u16 = 7;
    pub const SIGNATURE_NOT_YET_VALID: u16 = 8;
    pub const DNSKEY_MISSING: u16 = 9;
    pub const RRSIGS_MISSING: u16 = 10;
    pub const NSEC_MISSING: u16 = 12;
}

/// What an answer is worth (RFC 4033 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Secure,
    Insecure,
    /// With the extended error that says why, and its text.
    Bogus(u16, String),
    /// The records that decide could not be had.
    Undecided,
}

impl Verdict {
    /// Bogus, for the best known reason. `text` is the validator's.
    pub fn bogus(evidence: &Evidence, text: &str) -> Self {
        let code = if text.starts_with("No DNSKEY") {
            code::DNSKEY_MISSING
        } else if evidence.has_expired {
            code::SIGNATURE_EXPIRED
        } else if evidence.is_early {
            code::SIGNATURE_NOT_YET_VALID
        } else if evidence.signatures == 0 {
            code::RRSIGS_MISSING
        } else if evidence.answers == 0 && evidence.proofs == 0 {
            code::NSEC_MISSING
        } else {
            code::BOGUS
        };
        Self::Bogus(code, text.to_owned())
    }
}

/// Writes what was judged as the answer to `query`: with AD where it is secure, and with DNSSEC records where
/// they are asked for (RFC 4035 3.2.1).
///
/// # Errors
/// Malformed records, which the evidence does not have.
pub(crate) fn write(query: &Message<'_>, evidence: &Evidence, is_secure: bool) -> Result<Vec<u8>, Malformed> {
    let no_room = |_: Overflow| Malformed("longer than a message when written again");
    let judged = Message::parse(&evidence.octets)?;
    let edns = query.edns()?;
    let wants_proofs = edns.is_some_and(|edns| edns.dnssec_ok);
    let flags = judged.header.flags | if is_secure { Header::AD } else { 0 };
    let mut octets = vec![0; MESSAGE_OCTETS_MAX];
    let mut writer = Writer::new(&mut octets, query.header.id, flags, &query.question()).map_err(no_room)?;
    for record in judged.records() {
        let record = record?;
        let is_proof = matches!(record.rtype, rtype::RRSIG | TYPE_NSEC | rtype::NSEC3);
        if is_proof && !wants_proofs && record.rtype != query.qtype {
            continue;
        }
        if !writer.copy(&record, record.ttl).map_err(no_room)? {
            return Err(Malformed("name in a record cannot be read"));
        }
    }
    let length = writer.finish();
    let length = with_edns(&mut octets, length, edns.as_ref());
    octets.truncate(length);
    Ok(octets)
}

/// Writes SERVFAIL with an extended error as the answer to `query` (RFC 4035 5.5, RFC 8914).
///
/// # Errors
/// Malformed records in the query.
pub(crate) fn write_bogus(query: &Message<'_>, code: u16, text: &str) -> Result<Vec<u8>, Malformed> {
    let mut octets = vec![0; 1024];
    let flags = Header::QR | Header::RA | query.header.flags & Header::RD | u16::from(rcode::SERVFAIL);
    let writer = Writer::new(&mut octets, query.header.id, flags, &query.question())
        .map_err(|_| Malformed("no room for a question"))?;
    let length = writer.finish();
    let edns = query.edns()?;
    let mut length = with_edns(&mut octets, length, edns.as_ref());
    if edns.is_some() {
        let value: Vec<u8> = code.to_be_bytes().into_iter().chain(text.bytes()).collect();
        length = append_option(&mut octets, length, option_code::EXTENDED_ERROR, &value);
    }
    octets.truncate(length);
    Ok(octets)
}

/// Adds an OPT record to the answer to a query that has one.
fn with_edns(octets: &mut [u8], length: usize, query: Option<&Edns>) -> usize {
    let Some(query) = query else { return length };
    let edns = Edns { payload_octets: PAYLOAD_OCTETS, extended_rcode: 0, version: 0, ..*query };
    append_edns(octets, length, &edns)
}

/// The time in seconds since 1970, modulo 2^32 as signatures have it.
pub(crate) fn unix_s() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32)
}
