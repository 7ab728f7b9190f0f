//! The hot case: A or AAAA of a name of the rule, with at most a plain OPT record, answered from three
//! templates.
//!
//! The templates are cut out of answers of [`Rule`], so that templates and rule give the same octets; a
//! property test compares both. Every other question is left to the rule.

use crate::kernel_program::{HotAnswer, HotZone};
use dns64::names::{self, LABEL_LENGTH};
use dns64::wire::{CLASS_IN, HEADER_LENGTH, Header, NAME_LENGTH_MAX, rtype};

use super::response::OPT_OCTETS;
use super::rule::Rule;
use super::{Answer, QueryKind, Transport, Zone, ZoneConfig};

/// A buffer of this many octets holds every hot answer.
const HOT_OCTETS_MAX: usize = 512;
/// Room for what follows the question in the longest of the templates: an SOA record of 50 octets, and OPT.
const TAIL_OCTETS: usize = 64;
/// Where the suffix begins in a query for a name of the rule.
const SUFFIX_AT: usize = HEADER_LENGTH + 1 + LABEL_LENGTH;
/// Where RDATA begins after the question: a pointer, type, class, TTL and length stand before it.
const RDATA_AT: usize = 12;
/// Where the octet with the DO bit stands in an OPT record (RFC 6891 6.1.3).
const DO_AT: usize = 7;
const DO: u8 = 0x80;

const A_IN: u32 = (rtype::A as u32) << 16 | CLASS_IN as u32;
const AAAA_IN: u32 = (rtype::AAAA as u32) << 16 | CLASS_IN as u32;

const _: () = assert!(HEADER_LENGTH + NAME_LENGTH_MAX + 4 + TAIL_OCTETS <= HOT_OCTETS_MAX);

/// The part of the zone that the hot case needs.
#[derive(Clone, Debug)]
pub(crate) struct Hot {
    /// The suffix in wire format and lower case.
    suffix: Box<[u8]>,
    /// For each octet of the suffix the bit that makes a letter lower case, or zero.
    case_bits: Box<[u8]>,
    a: Template,
    aaaa: Template,
    no_data: Template,
    /// Whether the templates are what the rule says: not where names have several addresses or fixed records.
    applies: bool,
    /// Whether the zone is signed, so that DO queries are left to the rule.
    dnssec: bool,
}

impl Hot {
    /// Asks the rule for one answer of each kind.
    pub fn learn(rule: &Rule) -> Self {
        let suffix = rule.suffix.as_wire();
        Self {
            suffix: suffix.into(),
            case_bits: suffix.iter().map(|octet| u8::from(octet.is_ascii_alphabetic()) << 5).collect(),
            a: Template::learn(rule, A_IN, 0),
            aaaa: Template::learn(rule, AAAA_IN, 100),
            no_data: Template::learn(rule, AAAA_IN, 0),
            applies: rule.has_hot_answers(),
            dnssec: rule.config.signing.is_some(),
        }
    }

    /// The answer, where this is the hot case.
    #[inline]
    pub fn answer(&self, config: &ZoneConfig, query: &[u8], out: &mut [u8]) -> Option<Answer> {
        let out: &mut [u8; HOT_OCTETS_MAX] = out.first_chunk_mut()?;
        let (question, additional) = query.split_at_checked(SUFFIX_AT + self.suffix.len() + 4)?;
        let (name, type_and_class) = question.split_last_chunk::<4>()?;
        let opt = Opt::read(additional)?;
        if !self.applies || (self.dnssec && opt.dnssec_ok != 0) {
            return None;
        }
        if !is_plain_query(name, opt) || !self.is_suffix(&name[SUFFIX_AT..]) {
            return None;
        }
        let ipv4 = names::parse_label(&name[HEADER_LENGTH + 1..SUFFIX_AT])?;
        if config.names.is_some_and(|names| names.index(ipv4).is_none()) {
            return None;
        }
        let (head, tail) = out.split_at_mut(question.len());
        head.copy_from_slice(question);
        let tail: &mut [u8; TAIL_OCTETS] = tail.first_chunk_mut()?;
        let (kind, length) = match u32::from_be_bytes(*type_and_class) {
            A_IN => {
                let length = self.a.write(head, tail, opt);
                tail[RDATA_AT..RDATA_AT + 4].copy_from_slice(&ipv4.octets());
                (QueryKind::A, length)
            }
            AAAA_IN if names::has_aaaa(ipv4, config.aaaa_share_percent) => {
                let length = self.aaaa.write(head, tail, opt);
                let ipv6 = config.aaaa_prefix.embed(ipv4);
                tail[RDATA_AT..RDATA_AT + 16].copy_from_slice(&ipv6.octets());
                (QueryKind::Aaaa, length)
            }
            AAAA_IN => (QueryKind::Aaaa, self.no_data.write(head, tail, opt)),
            _ => return None,
        };
        Some(Answer { octets: question.len() + length, kind })
    }

    /// The same for the program in the kernel, which gives the same answers.
    fn for_kernel(&self, config: &ZoneConfig) -> HotZone<'_> {
        HotZone {
            suffix: &self.suffix,
            a: self.a.for_kernel(),
            aaaa: self.aaaa.for_kernel(),
            no_data: self.no_data.for_kernel(),
            prefix: config.aaaa_prefix,
            aaaa_share_percent: config.aaaa_share_percent,
            names: config.names,
            passes_dnssec_ok: self.dnssec,
            fault_threshold: 0,
            fault_seed: 0,
        }
    }

    /// Whether these octets, as many as the suffix has, are the suffix, whatever the case (RFC 4343).
    fn is_suffix(&self, octets: &[u8]) -> bool {
        let cases = self.case_bits.iter().zip(&self.suffix);
        octets.iter().zip(cases).fold(0, |other, (octet, (bit, lower))| other | ((octet | bit) ^ lower)) == 0
    }
}

impl Zone {
    /// What a program in the kernel must know to answer the usual queries of this zone with the same octets;
    /// `None` where names have several addresses or fixed records, so that no three templates hold their
    /// answers.
    pub fn hot_zone(&self) -> Option<HotZone<'_>> {
        self.hot.applies.then(|| self.hot.for_kernel(self.config()))
    }
}

/// Whether the header is that of a query with one question and no records but the OPT, and the first label
/// has the length of those of the rule. `name` is the message as far as the end of QNAME.
fn is_plain_query(name: &[u8], opt: Opt) -> bool {
    const RESPONSE_OR_OPCODE: u8 = ((Header::QR | Header::OPCODE) >> 8) as u8;
    name[2] & RESPONSE_OR_OPCODE == 0
        && name[4..HEADER_LENGTH] == [0, 1, 0, 0, 0, 0, 0, opt.count]
        && name[HEADER_LENGTH] == LABEL_LENGTH as u8
}

/// What follows the question of a hot query: nothing, or an OPT record of version 0 without options.
#[derive(Clone, Copy)]
struct Opt {
    /// 0 or 1.
    count: u8,
    dnssec_ok: u8,
}

impl Opt {
    fn read(additional: &[u8]) -> Option<Self> {
        const TYPE: [u8; 2] = rtype::OPT.to_be_bytes();
        if additional.is_empty() {
            return Some(Self { count: 0, dnssec_ok: 0 });
        }
        match *<&[u8; OPT_OCTETS]>::try_from(additional).ok()? {
            [0, high, low, _, _, _, 0, flags, _, 0, 0] if [high, low] == TYPE => {
                Some(Self { count: 1, dnssec_ok: flags & DO })
            }
            _ => None,
        }
    }
}

/// The octets after the question, OPT at their end, and the counts of the header without it.
#[derive(Clone, Debug)]
struct Template {
    octets: [u8; TAIL_OCTETS],
    /// Without OPT.
    length: usize,
    counts: [u8; 8],
}

impl Template {
    /// Cuts a template out of an answer of a zone like `rule`'s with this share of AAAA records.
    fn learn(rule: &Rule, type_and_class: u32, aaaa_share_percent: u8) -> Self {
        let mut query = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, LABEL_LENGTH as u8];
        query.extend(b"000-000-000-000");
        query.extend(rule.suffix.as_wire());
        query.extend(type_and_class.to_be_bytes());
        let question_end = query.len();
        query.extend([0, 0, rtype::OPT as u8, 2, 0, 0, 0, 0, 0, 0, 0]);

        let mut answer = [0; HOT_OCTETS_MAX];
        let end = rule.of_all_hosts(aaaa_share_percent).answer(&query, Transport::Tcp, &mut answer).octets;
        let mut octets = [0; TAIL_OCTETS];
        let tail = &answer[question_end..end];
        octets[..tail.len()].copy_from_slice(tail);
        let mut counts = [0; 8];
        counts.copy_from_slice(&answer[4..HEADER_LENGTH]);
        counts[7] -= 1;
        Self { octets, length: tail.len() - OPT_OCTETS, counts }
    }

    fn for_kernel(&self) -> HotAnswer<'_> {
        HotAnswer { counts: self.counts, tail: &self.octets[..self.length + OPT_OCTETS] }
    }

    /// Completes the header and writes all but the address; returns the length after the question.
    #[inline]
    fn write(&self, head: &mut [u8], tail: &mut [u8; TAIL_OCTETS], opt: Opt) -> usize {
        const FLAGS: u8 = ((Header::QR | Header::AA) >> 8) as u8;
        const RECURSION_DESIRED: u8 = (Header::RD >> 8) as u8;
        head[2] = FLAGS | (head[2] & RECURSION_DESIRED);
        head[3] = 0;
        head[4..HEADER_LENGTH].copy_from_slice(&self.counts);
        head[HEADER_LENGTH - 1] += opt.count;
        *tail = self.octets;
        tail[self.length + DO_AT] = opt.dnssec_ok;
        self.length + usize::from(opt.count) * OPT_OCTETS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rules, Signing, SigningKey};
    use proptest::prelude::*;

    fn zone(aaaa_share_percent: u8, names: Option<&str>, prefix: &str) -> Zone {
        let names = names.map(|names| names.parse().unwrap());
        let (ttl_s, negative_ttl_s, aaaa_prefix) = (300, 7, prefix.parse().unwrap());
        Zone::new(ZoneConfig {
            aaaa_share_percent,
            names,
            ttl_s,
            negative_ttl_s,
            aaaa_prefix,
            ..ZoneConfig::default()
        })
        .unwrap()
    }

    /// The same zone with all rules, and signed.
    fn with_extras(zone: &Zone) -> Zone {
        let signing = Signing { key: SigningKey::from_seed("a test"), inception_s: 1, expiration_s: 2 };
        let rules = Rules { short: true, wildcard: true, chains: true, types: true, reverse: true };
        Zone::new(ZoneConfig { rules, signing: Some(signing), ..zone.config().clone() }).unwrap()
    }

    fn query(address: u32, flags: u16, qtype: u16, upper_case: u32, opt: Option<[u8; 11]>) -> Vec<u8> {
        let mut query = vec![0xab, 0xcd];
        query.extend(flags.to_be_bytes());
        query.extend([0, 1, 0, 0, 0, 0, 0, u8::from(opt.is_some()), LABEL_LENGTH as u8]);
        let mut label = [0; LABEL_LENGTH];
        names::write_label(address.into(), &mut label);
        query.extend(label);
        let suffix = b"\x09dns64perf\x04test\0";
        let cased = |(bit, octet): (usize, &u8)| {
            if upper_case >> bit & 1 == 1 { octet.to_ascii_uppercase() } else { *octet }
        };
        query.extend(suffix.iter().enumerate().map(cased));
        query.extend(qtype.to_be_bytes());
        query.extend([0, 1]);
        query.extend(opt.into_iter().flatten());
        query
    }

    /// The hot way's answer, if it takes the query, must be the general way's.
    fn compare(zone: &Zone, query: &[u8]) -> Result<bool, TestCaseError> {
        let (mut hot, mut general) = ([0xaa; HOT_OCTETS_MAX], [0x55; HOT_OCTETS_MAX]);
        let Some(answer) = zone.hot.answer(zone.config(), query, &mut hot) else { return Ok(false) };
        for transport in [Transport::Udp, Transport::Tcp] {
            prop_assert_eq!(answer, zone.rule.answer(query, transport, &mut general));
            prop_assert_eq!(&hot[..answer.octets], &general[..answer.octets]);
        }
        Ok(true)
    }

    #[test]
    fn the_usual_queries_are_hot() {
        let zone = zone(50, None, "2001:2:0:aaaa::/96");
        for qtype in [rtype::A, rtype::AAAA] {
            for opt in [
                None,
                Some([0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0]),
                Some([0, 0, 41, 16, 0, 0, 0, 0x80, 0, 0, 0]),
            ] {
                for address in 0x0a00_0000..0x0a00_0010 {
                    assert!(compare(&zone, &query(address, 0x0100, qtype, address, opt)).unwrap());
                }
            }
        }
    }

    #[test]
    fn what_the_templates_do_not_say_is_left_to_the_rule() {
        let plain = zone(50, None, "2001:2:0:aaaa::/96");
        let signed = with_extras(&plain);
        let several = Zone::new(ZoneConfig { addresses_per_name: 2, ..plain.config().clone() }).unwrap();
        let opt = |dnssec_ok| Some([0, 0, 41, 16, 0, 0, 0, dnssec_ok, 0, 0, 0]);
        for (zone, opt, is_hot) in [
            (&plain, opt(0x80), true),
            (&signed, opt(0x80), false),
            (&signed, opt(0), true),
            (&signed, None, true),
            (&several, None, false),
        ] {
            assert_eq!(compare(zone, &query(7, 0, rtype::A, 0, opt)).unwrap(), is_hot);
        }
    }

    #[test]
    fn the_longest_suffix_is_hot() {
        let suffix = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(45)].join(".");
        let too_long = format!("{suffix}d");
        let zone = Zone::new(ZoneConfig { suffix, ..ZoneConfig::default() }).unwrap();
        let mut query = query(7, 0, rtype::AAAA, 0, Some([0, 0, 41, 2, 0, 0, 0, 0, 0, 0, 0]));
        query.splice(SUFFIX_AT..SUFFIX_AT + 16, zone.hot.suffix.iter().copied());
        assert!(compare(&zone, &query).unwrap());
        assert!(Zone::new(ZoneConfig { suffix: too_long, ..ZoneConfig::default() }).is_err());
    }

    proptest! {
        #[test]
        fn both_ways_give_the_same_octets(
            share in prop::sample::select(vec![0u8, 1, 50, 99, 100]),
            range in prop::sample::select(vec![None, Some("10.0.0.0/8"), Some("0.0.0.0/0")]),
            prefix in prop::sample::select(vec!["2001:2::/32", "2001:2::/40", "2001:2::/48", "2001:2::/56", "2001:2::/64", "2001:2::/96"]),
            (address, in_range) in (any::<u32>(), any::<bool>()),
            flags: u16, hostile_flags: bool,
            qtype in prop::sample::select(vec![1u16, 28, 255, 2, 41]),
            upper_case: u32,
            opt in prop::option::of((any::<u16>(), any::<u32>(), any::<bool>())),
            damage in prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>())),
        ) {
            let address = if in_range { 0x0a00_0000 | address >> 8 } else { address };
            let opt = opt.map(|(payload, ttl, plain)| {
                let ([a, b], [c, d, e, f]) = (payload.to_be_bytes(), ttl.to_be_bytes());
                [0, 0, 41, a, b, c, if plain { 0 } else { d }, e, f, 0, 0]
            });
            let flags = if hostile_flags { flags } else { flags & 0x07ff };
            let mut query = query(address, flags, qtype, upper_case, opt);
            if let Some((at, octet)) = damage {
                let at = at.index(query.len());
                query[at] = octet;
            }
            let zone = zone(share, range, prefix);
            compare(&zone, &query)?;
            compare(&with_extras(&zone), &query)?;
        }
    }
}
