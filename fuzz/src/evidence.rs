//! Any octets as a reply that is to be validated: what the validator is shown is part of the reply, within
//! its limits, and comes out the same when it goes in again.
//!
//! An input is an octet that chooses the trust anchors, four octets with the time, and the reply.

use std::sync::LazyLock;

use dns64::wire::{Header, Malformed, Message, Name, Record, Section, rtype};
use validation::Anchors;
use validation::evidence::Evidence;

use super::input::Input;
use super::judge;

/// Where RRSIG RDATA have expiration, inception and signer's name (RFC 4034 3.1).
const EXPIRATION_AT: usize = 8;
const INCEPTION_AT: usize = 12;
const SIGNER_AT: usize = 18;

/// The root's, and one below it.
static ANCHORS: LazyLock<[Anchors; 2]> = LazyLock::new(|| {
    let below = "example. IN DS 1 13 2 \
        0000000000000000000000000000000000000000000000000000000000000000\n";
    [Anchors::iana(), Anchors::parse(below).expect("a DS record")]
});

/// Picks the evidence out of the reply.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let anchors = &ANCHORS[usize::from(input.octet() % 2)];
    let unix_s = u32::from_be_bytes(input.array());
    let Ok(reply) = Message::parse(input.0) else { return };
    let Ok(evidence) = Evidence::of(&reply, anchors, unix_s) else { return };
    let seen = judge::records(&evidence.octets);
    let kept = Message::parse(&evidence.octets).expect("a message");
    assert_eq!(kept.header.id, reply.header.id);
    assert_eq!(kept.question(), reply.question());
    assert!(![Header::AD, Header::CD, Header::TC].into_iter().any(|flag| kept.header.has(flag)));
    let records = all(&kept).expect("records that can be read");
    assert_eq!(records.len(), seen.len());
    account(&evidence, &records);
    are_of(&records, &all(&reply).expect("what was malformed is no evidence"));
    for record in records.iter().filter(|record| record.rtype == rtype::RRSIG) {
        may_count(record, unix_s);
    }
    let again = Evidence::of(&kept, anchors, unix_s).expect("evidence of evidence");
    assert_eq!(again.octets, evidence.octets);
    assert!(!again.has_expired && !again.is_early);
}

fn all<'m>(message: &Message<'m>) -> Result<Vec<Record<'m>>, Malformed> {
    message.records().collect()
}

/// Every record is in one count, or is a SOA record.
fn account(evidence: &Evidence, records: &[Record<'_>]) {
    let count = |is_one: &dyn Fn(&&Record<'_>) -> bool| records.iter().filter(is_one).count();
    let is_signature = |record: &Record<'_>| record.rtype == rtype::RRSIG;
    assert_eq!(evidence.signatures, count(&|record| is_signature(record)));
    assert_eq!(evidence.answers, count(&|record| !is_signature(record) && record.section == Section::Answer));
    let is_proof = |record: &&Record<'_>| record.section == Section::Authority && record.rtype != rtype::SOA;
    assert_eq!(evidence.proofs, count(&|record| !is_signature(record) && is_proof(record)));
    assert!(records.iter().all(|record| record.section != Section::Additional));
}

/// What was kept stands in the reply, in the same order, with the same TTL or a longer one.
fn are_of(kept: &[Record<'_>], reply: &[Record<'_>]) {
    let mut rest = reply.iter();
    for record in kept {
        let is_same = |own: &Record<'_>| {
            (own.section, own.rtype, own.class) == (record.section, record.rtype, record.class)
                && own.ttl >= record.ttl
                && own.owner().ok() == record.owner().ok()
        };
        assert!(rest.any(is_same), "a record that the reply does not have");
    }
}

/// A signature of a zone at or above its owner, in its time (RFC 4035 5.3.1).
fn may_count(signature: &Record<'_>, unix_s: u32) {
    let word = |at: usize| {
        u32::from_be_bytes(
            *signature.rdata[at..].first_chunk().expect("what stands before the signer's name"),
        )
    };
    let (signer, _) = Name::parse(signature.rdata, SIGNER_AT).expect("a signer");
    assert!(signature.owner().expect("an owner").is_under(&signer));
    assert!((word(EXPIRATION_AT).wrapping_sub(unix_s) as i32) > 0, "it is over");
    assert!((word(INCEPTION_AT).wrapping_sub(unix_s) as i32) <= 0, "it is early");
    assert!(signature.ttl <= word(EXPIRATION_AT).wrapping_sub(unix_s));
}
