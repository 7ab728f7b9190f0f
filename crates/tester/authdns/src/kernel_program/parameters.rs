//! The parameters of the program: `struct zone` and `struct place` of `bpf/authority.bpf.c`.

use std::net::{IpAddr, SocketAddr};

use dns64::names::LABEL_LENGTH;
use dns64::wire::{CLASS_IN, HEADER_LENGTH};
use dns64::{NameSpace, Prefix};
use sys::bpf::address_octets;
use sys::frame;
use sys::frame::{whole_words, word_at};
use zerocopy::{Immutable, IntoBytes};

/// As in `bpf/authority.bpf.c`.
const QUESTION_WORDS: usize = 8;
const RECORD_WORDS: usize = 7;
pub(super) const ADDRESSES: usize = 16;

/// The longest suffix in wire format, in octets: with type and class it must fit the program's words.
pub const SUFFIX_OCTETS_MAX: usize = 64;
const OPT_OCTETS: usize = 11;
/// Where the octet with the DO bit stands in an OPT record (RFC 6891 6.1.3).
const DNSSEC_OK_AT: usize = 7;
const DNSSEC_OK: u8 = 0x80;
const UDP_OCTETS: usize = 8;
const PROTOCOL_UDP: u64 = 17;
/// QR and AA.
const ANSWER_FLAGS: [u8; 2] = [0x84, 0];
/// Where the suffix begins in a query.
const SUFFIX_AT: usize = HEADER_LENGTH + 1 + LABEL_LENGTH;

/// An answer with an address of zeros.
#[derive(Clone, Copy, Debug)]
pub struct HotAnswer<'z> {
    /// The counts of the header, as they are without OPT.
    pub counts: [u8; 8],
    /// What follows the question, with an OPT record of 11 octets without DO at its end; 19 to 75 octets. Its
    /// owner is a pointer to the question, so that an address stands at octet 12.
    pub tail: &'z [u8],
}

/// The part of a zone that the program answers: A and AAAA of `nnn-nnn-nnn-nnn.SUFFIX`.
#[derive(Clone, Copy, Debug)]
pub struct HotZone<'z> {
    /// The suffix in wire format and lower case, at most [`SUFFIX_OCTETS_MAX`] octets.
    pub suffix: &'z [u8],
    /// The answer to A.
    pub a: HotAnswer<'z>,
    /// The answer to AAAA, where there is one.
    pub aaaa: HotAnswer<'z>,
    /// The answer to AAAA, where there is none.
    pub no_data: HotAnswer<'z>,
    /// In which the AAAA records lie.
    pub prefix: Prefix,
    /// How many of 100 names have a AAAA record ([`dns64::names::has_aaaa`]).
    pub aaaa_share_percent: u8,
    /// The names that exist; `None` for all.
    pub names: Option<NameSpace>,
    /// Queries with DO are left to the sockets: the zone is signed.
    pub passes_dnssec_ok: bool,
    /// Queries whose draw is below this, of 2^32, are left to the sockets, because a fault may meet them.
    pub fault_threshold: u64,
    /// The seed of the draws.
    pub fault_seed: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Immutable, IntoBytes)]
struct Masked {
    any: u64,
    want: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Immutable, IntoBytes)]
struct Record {
    counts: [u64; 2],
    sum: [u64; 2],
    dnssec_ok_sum: u64,
    words: [u64; RECORD_WORDS],
    last: u64,
    octets: u32,
    whole_words: u32,
}

/// The fields are explained in `bpf/authority.bpf.c`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Immutable, IntoBytes)]
pub(super) struct Zone {
    a: Record,
    aaaa: Record,
    no_data: Record,
    question: [Masked; QUESTION_WORDS],
    question_last: Masked,
    counts: [u64; 2],
    opt: u64,
    high_shift: u64,
    low_shift: u64,
    low_mask: u64,
    aaaa_percent: u64,
    names_mask: u64,
    names_first: u64,
    fault_threshold: u64,
    fault_seed: u64,
    question_octets: u32,
    question_words: u32,
    turn: u32,
    passes_dnssec_ok: u32,
}

impl Zone {
    /// Makes them.
    ///
    /// # Panics
    /// The suffix or an answer is longer or shorter than the fields' descriptions allow.
    pub(super) fn new(zone: &HotZone<'_>) -> Self {
        assert!(zone.suffix.len() <= SUFFIX_OCTETS_MAX, "a suffix of {} octets", zone.suffix.len());
        let record = |answer: &HotAnswer<'_>| Record::new(zone.suffix.len(), answer);
        let (high_shift, low_shift, low_mask) = zone.prefix.embedding();
        let (names_mask, names_first) = match zone.names {
            Some(names) => (!(names.size() - 1) & 0xffff_ffff, u32::from(names.address(0)).into()),
            None => (0, 0),
        };
        let mut parameters = Self {
            a: record(&zone.a),
            aaaa: record(&zone.aaaa),
            no_data: record(&zone.no_data),
            counts: [0, 1].map(|opt| u64::from_ne_bytes([0, 1, 0, 0, 0, 0, 0, opt])),
            opt: word_at(zone.a.tail, zone.a.tail.len() - OPT_OCTETS),
            high_shift,
            low_shift,
            low_mask,
            aaaa_percent: zone.aaaa_share_percent.into(),
            names_mask,
            names_first,
            fault_threshold: zone.fault_threshold,
            fault_seed: zone.fault_seed,
            turn: zone.suffix.len() as u32 % 2 * 8,
            passes_dnssec_ok: zone.passes_dnssec_ok.into(),
            ..Self::default()
        };
        parameters.set_question(zone.suffix);
        parameters
    }

    /// The suffix whatever its case, any type, and the class.
    fn set_question(&mut self, suffix: &[u8]) {
        // Before the suffix stands the end of the label, which the last word reaches if the suffix is short.
        const BEFORE: usize = 8;
        let (mut any, mut want) = (vec![0xff; BEFORE], vec![0xff; BEFORE]);
        for &octet in suffix {
            let case = u8::from(octet.is_ascii_alphabetic()) << 5;
            any.push(case);
            want.push(octet | case);
        }
        any.extend([0xff, 0xff, 0, 0]);
        want.extend([0xff, 0xff]);
        want.extend(CLASS_IN.to_be_bytes());
        let octets = any.len() - BEFORE;
        let word = |at: usize| Masked { any: word_at(&any, at), want: word_at(&want, at) };
        self.question_octets = octets as u32;
        self.question_words = (octets / 8) as u32;
        for (index, place) in self.question.iter_mut().take(octets / 8).enumerate() {
            *place = word(BEFORE + 8 * index);
        }
        self.question_last = word(BEFORE + octets - 8);
    }
}

impl Record {
    fn new(suffix_octets: usize, answer: &HotAnswer<'_>) -> Self {
        let octets = answer.tail.len().saturating_sub(OPT_OCTETS);
        let is_fit = (8..=(RECORD_WORDS + 1) * 8).contains(&octets);
        assert!(is_fit, "{octets} octets after the question");
        let mut record = Self {
            last: word_at(answer.tail, octets - 8),
            octets: octets as u32,
            whole_words: whole_words(0, octets) as u32,
            ..Self::default()
        };
        for (index, word) in record.words.iter_mut().take(record.whole_words as usize).enumerate() {
            *word = word_at(answer.tail, 8 * index);
        }
        for opt in [0, 1] {
            let mut counts = answer.counts;
            counts[7] += opt as u8;
            record.counts[opt] = u64::from_ne_bytes(counts);
            record.sum[opt] = sum(suffix_octets, counts, &answer.tail[..octets + opt * OPT_OCTETS]);
        }
        let flags_at = SUFFIX_AT + suffix_octets + 4 + octets + DNSSEC_OK_AT;
        let mut flags = [0; 2];
        flags[flags_at % 2] = DNSSEC_OK;
        record.dnssec_ok_sum = u16::from_ne_bytes(flags).into();
        record
    }
}

/// The checksum's sum over what is the same in all answers: flags, counts, all after the question, lengths,
/// protocol.
fn sum(suffix_octets: usize, counts: [u8; 8], tail: &[u8]) -> u64 {
    let mut message = vec![0; SUFFIX_AT + suffix_octets + 4];
    message[2..4].copy_from_slice(&ANSWER_FLAGS);
    message[4..HEADER_LENGTH].copy_from_slice(&counts);
    message.extend(tail);
    let length = frame::word((UDP_OCTETS + message.len()) as u64);
    frame::sum(&message) + 2 * length + frame::word(PROTOCOL_UDP)
}

/// The addresses and the device: `struct place` of `bpf/service.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Immutable, IntoBytes)]
pub(crate) struct ServiceAddresses {
    ipv6: [[u8; 16]; ADDRESSES],
    ipv4: [[u8; 4]; ADDRESSES],
    ipv6_port: [[u8; 2]; ADDRESSES],
    ipv4_port: [[u8; 2]; ADDRESSES],
    ipv6_count: u32,
    ipv4_count: u32,
    mac: [u8; 6],
    redirects: u16,
}

impl ServiceAddresses {
    pub(crate) fn new(listen: &[SocketAddr], mac: [u8; 6], redirects: bool) -> Self {
        let mut place = Self { mac, redirects: redirects.into(), ..Self::default() };
        for address in listen {
            let octets = address_octets(address.ip());
            let (count, port) = match address.ip() {
                IpAddr::V4(_) => (&mut place.ipv4_count, &mut place.ipv4_port),
                IpAddr::V6(_) => (&mut place.ipv6_count, &mut place.ipv6_port),
            };
            let index = *count as usize;
            if index == ADDRESSES {
                continue;
            }
            *count += 1;
            port[index] = address.port().to_be_bytes();
            match address.ip() {
                IpAddr::V4(address) => place.ipv4[index] = address.octets(),
                IpAddr::V6(_) => place.ipv6[index] = octets,
            }
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects;

    #[test]
    fn parameters_are_laid_out_as_in_the_programs() {
        let object = objects::AUTHORITY;
        sys::assert_layout!(object, "masked", Masked { any, want });
        sys::assert_layout!(
            object,
            "record",
            Record { counts, sum, dnssec_ok_sum, words, last, octets, whole_words }
        );
        sys::assert_layout!(
            object,
            "zone",
            Zone {
                a,
                aaaa,
                no_data,
                question,
                question_last,
                counts,
                opt,
                high_shift,
                low_shift,
                low_mask,
                aaaa_percent,
                names_mask,
                names_first,
                fault_threshold,
                fault_seed,
                question_octets,
                question_words,
                turn,
                passes_dnssec_ok,
            }
        );
        for object in [objects::AUTHORITY, objects::SERVICE] {
            sys::assert_layout!(
                object,
                "place",
                ServiceAddresses { ipv6, ipv4, ipv6_port, ipv4_port, ipv6_count, ipv4_count, mac, redirects }
            );
        }
    }
}
