//! Selects the records of a reply that the validator sees.
//!
//! The validator looks for the keys of whatever zone a signature names, and takes the state of that zone for
//! the state of what is signed: a signature "of" an unsigned zone would make forged records insecure instead
//! of bogus. The validator also remembers a good signature for longer than the signature is valid. The rules
//! of RFC 4035 5.3.1 that need no key are therefore applied here, before the validator sees the records.

use std::collections::{HashMap, HashSet};

use dns64::wire::{Header, Malformed, Message, Name, Overflow, Record, Section, Writer, rtype};

use crate::Anchors;

pub(crate) const TYPE_NSEC: u16 = 47;

/// The longest message.
pub(crate) const MESSAGE_OCTETS_MAX: usize = 65_535;

/// Records of a reply at most.
const RECORDS_MAX: usize = 512;

/// Sets of records, by owner and type, in a reply at most: the validator compares each with each.
const SETS_MAX: usize = 128;

/// Where the signer's name begins in the RDATA of an RRSIG record (RFC 4034 3.1).
const SIGNER_AT: usize = 18;

/// A reply that may be judged.
#[derive(Debug)]
pub struct Evidence {
    /// The reply with the records that count.
    pub octets: Vec<u8>,
    /// A signature was left out because its time is over.
    pub has_expired: bool,
    /// A signature was left out because its time has not come.
    pub is_early: bool,
    /// Signatures that are left.
    pub signatures: usize,
    /// NSEC and NSEC3 records that are left.
    pub proofs: usize,
    /// Records of the answer section that are left, without signatures.
    pub answers: usize,
}

/// Owner, in lower case, and type of records that are signed together (RFC 4034 3.1).
type Set = (Vec<u8>, u16);

fn set_of(owner: &Name, rtype: u16) -> Set {
    (owner.to_lowercase().as_wire().to_vec(), rtype)
}

/// What an RRSIG record says before its signature (RFC 4034 3.1).
struct Signature {
    owner: Name,
    covered: u16,
    original_ttl_s: u32,
    expiration_s: u32,
    inception_s: u32,
    signer: Name,
    ttl_s: u32,
}

impl Evidence {
    /// Picks out of a reply, at this time in seconds since 1970 modulo 2^32:
    ///
    /// 1. The answer section, and of the authority section SOA, NSEC and NSEC3 records. AD speaks for all
    ///    records of both (RFC 4035 3.2.3), and nobody signs what else may stand there.
    /// 2. Of the signatures those of a zone at or above the owner, at or below the trust anchor that counts,
    ///    and within their time (RFC 4035 5.3.1).
    /// 3. TTLs no longer than the original one and the rest of the signature's time (RFC 4035 5.3.3).
    ///
    /// # Errors
    /// Malformed or too many records.
    pub fn of(reply: &Message<'_>, anchors: &Anchors, unix_s: u32) -> Result<Self, Malformed> {
        let mut evidence = Self {
            octets: Vec::new(),
            has_expired: false,
            is_early: false,
            signatures: 0,
            proofs: 0,
            answers: 0,
        };
        let mut kept = Vec::new();
        let mut signatures = Vec::new();
        let mut sets = HashSet::new();
        for record in reply.records() {
            let record = record?;
            let Some(covered) = counting_type(&record, reply.qclass) else { continue };
            if record.rtype == rtype::RRSIG {
                let Some(signature) = Signature::of(&record)? else { continue };
                if !signature.may_count(anchors) || !evidence.is_timely(&signature, unix_s) {
                    continue;
                }
                signatures.push(signature);
            }
            sets.insert(set_of(&record.owner()?, covered));
            kept.push((record, covered));
            if kept.len() > RECORDS_MAX || sets.len() > SETS_MAX {
                return Err(Malformed("more records than are judged"));
            }
        }
        evidence.signatures = signatures.len();
        for (record, _) in kept.iter().filter(|(record, _)| record.rtype != rtype::RRSIG) {
            match record.section {
                Section::Answer => evidence.answers += 1,
                _ => evidence.proofs += usize::from(record.rtype != rtype::SOA),
            }
        }
        evidence.octets = write(reply, &kept, &signatures, unix_s)?;
        Ok(evidence)
    }

    fn is_timely(&mut self, signature: &Signature, unix_s: u32) -> bool {
        // Serial numbers (RFC 4034 3.1.5).
        let is_after = |a: u32, b: u32| (a.wrapping_sub(b) as i32) > 0;
        let is_early = is_after(signature.inception_s, unix_s);
        let has_expired = !is_after(signature.expiration_s, unix_s);
        self.is_early |= is_early;
        self.has_expired |= has_expired;
        !is_early && !has_expired
    }
}

/// The type that a record has or signs, if it counts.
fn counting_type(record: &Record<'_>, qclass: u16) -> Option<u16> {
    if record.class != qclass {
        return None;
    }
    let covered = match (record.rtype, record.rdata) {
        (rtype::RRSIG, &[high, low, ..]) => u16::from_be_bytes([high, low]),
        (rtype, _) => rtype,
    };
    match record.section {
        Section::Answer => Some(covered),
        Section::Authority => {
            Some(covered).filter(|covered| matches!(*covered, rtype::SOA | TYPE_NSEC | rtype::NSEC3))
        }
        Section::Additional => None,
    }
}

impl Signature {
    /// Reads an RRSIG record; `None` if it has no signature or its signer's name is compressed, which must
    /// not be (RFC 4034 3.1.7).
    fn of(record: &Record<'_>) -> Result<Option<Self>, Malformed> {
        let Some(head) = record.rdata.first_chunk::<SIGNER_AT>() else { return Ok(None) };
        let Ok((signer, end)) = Name::parse(record.rdata, SIGNER_AT) else { return Ok(None) };
        if end != SIGNER_AT + signer.as_wire().len() || end >= record.rdata.len() {
            return Ok(None);
        }
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        Ok(Some(Self {
            owner: record.owner()?,
            covered: u16::from_be_bytes([head[0], head[1]]),
            original_ttl_s: word(4),
            expiration_s: word(8),
            inception_s: word(12),
            signer,
            ttl_s: record.ttl,
        }))
    }

    /// Whether its zone may sign its owner. What stands at a zone cut and belongs to the parent is signed
    /// from above an anchor there.
    fn may_count(&self, anchors: &Anchors) -> bool {
        let belongs_to_parent = matches!(self.covered, rtype::DS | TYPE_NSEC);
        let anchored = anchors.above(&self.owner).is_none_or(|anchor| self.signer.is_under(anchor));
        self.owner.is_under(&self.signer) && (anchored || belongs_to_parent)
    }

    /// How long the records may be kept that it signs.
    fn ttl_max_s(&self, unix_s: u32) -> u32 {
        self.ttl_s.min(self.original_ttl_s).min(self.expiration_s.wrapping_sub(unix_s))
    }
}

fn write(
    reply: &Message<'_>,
    kept: &[(Record<'_>, u16)],
    signatures: &[Signature],
    unix_s: u32,
) -> Result<Vec<u8>, Malformed> {
    let no_room = |_: Overflow| Malformed("longer than a message when written again");
    let mut octets = vec![0; MESSAGE_OCTETS_MAX];
    let flags = reply.header.flags & !(Header::AD | Header::CD | Header::TC);
    let mut writer = Writer::new(&mut octets, reply.header.id, flags, &reply.question()).map_err(no_room)?;
    let mut limits_s: HashMap<Set, u32> = HashMap::new();
    for signature in signatures {
        let limit_s = limits_s.entry(set_of(&signature.owner, signature.covered)).or_insert(u32::MAX);
        *limit_s = signature.ttl_max_s(unix_s).min(*limit_s);
    }
    for (record, covered) in kept {
        let ttl_max_s = limits_s.get(&set_of(&record.owner()?, *covered)).copied();
        if !writer.copy(record, record.ttl.min(ttl_max_s.unwrap_or(u32::MAX))).map_err(no_room)? {
            return Err(Malformed("name in a record cannot be read"));
        }
    }
    let length = writer.finish();
    octets.truncate(length);
    Ok(octets)
}
