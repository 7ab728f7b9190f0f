//! What a DNS64 server does with a reply (RFC 6147 5).
//!
//! [`next_step`] looks at the reply to the AAAA query; [`synthesize`] writes the answer from the reply to the
//! A query. Only the records of the question's chain count in an answer section ([`crate::chain`]).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::chain::{Position, follow};
use crate::prefix::{Prefix, is_bound_to_link};
use crate::range::Range;
use crate::rewrite::{ClientQuery, NXDOMAIN, Stop, WrittenAnswer, address, copy, rewrite};
use crate::wire::{CLASS_IN, Malformed, Message, Name, Options, Record, Section, Writer, option_code};
use crate::wire::{rcode, rtype};

/// The TTL of synthesized records is at most this where the AAAA reply had no SOA, in seconds (RFC 6147
/// 5.1.7).
pub(crate) const TTL_WITHOUT_SOA_S: u32 = 600;

/// IPv4-mapped addresses, the exclusion set by default (RFC 6147 5.1.4).
pub(crate) const IPV4_MAPPED: Range = Range::v6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96);

/// What follows an AAAA query that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnAaaaError {
    /// Ask for A, as if there were no AAAA (RFC 6147 5.1.2 and 5.1.3).
    #[default]
    Synthesize,
    /// Give the error to the client, so that a passing failure does not send a dual-stack site through the
    /// NAT64.
    Fail,
}

/// Which prefixes an IPv4 address is written into where there are several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrefixChoice {
    /// Each of them (RFC 6147 5.2): the client chooses.
    #[default]
    All,
    /// One of them, another at each turn: answers stay short, and the load goes to all NAT64s.
    Rotated,
}

/// How the AAAA records of a name are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AaaaPolicy {
    /// They count, but for the excluded ones.
    #[default]
    Rule,
    /// They count as absent, every one: the name is reached by IPv4 through the NAT64 (RFC 6147 5.1.4).
    Always,
}

/// The settings of the DNS64 rule.
#[derive(Clone, Debug)]
pub struct Policy {
    /// IPv4 addresses are written into these, in this order.
    pub prefixes: Vec<Prefix>,
    /// Into each of them, or into one.
    pub spread: PrefixChoice,
    /// IPv4 ranges with a prefix of their own, or none at all; the longest match counts.
    pub mappings: Vec<Mapping>,
    /// AAAA records in these ranges count as absent (RFC 6147 5.1.4).
    pub excluded: Vec<Range>,
    /// What follows an AAAA query that failed.
    pub on_aaaa_error: OnAaaaError,
    /// Synthesize for clients that set CD without DO.
    pub synthesize_with_cd: bool,
    /// The well-known prefix carries global IPv4 addresses only (RFC 6052 3.1).
    pub strict_well_known: bool,
}

impl Default for Policy {
    /// The well-known prefix and the RFC's choices.
    fn default() -> Self {
        Self {
            prefixes: vec![Prefix::WELL_KNOWN],
            spread: PrefixChoice::All,
            mappings: Vec::new(),
            excluded: vec![IPV4_MAPPED],
            on_aaaa_error: OnAaaaError::Synthesize,
            synthesize_with_cd: false,
            strict_well_known: true,
        }
    }
}

/// The prefix for a range of IPv4 addresses (RFC 6147 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The IPv4 addresses that the mapping is for.
    pub range: Range,
    /// Their only prefix; `None` means that nothing is synthesized for them.
    pub prefix: Option<Prefix>,
}

impl Policy {
    /// The prefixes that an IPv4 address is written into: none for loopback, link-local and multicast
    /// addresses, which are no hosts behind a NAT64. With [`PrefixChoice::Rotated`] that is one: number
    /// `turn`, modulo the count, of those that may carry the address.
    pub fn prefixes_for(&self, ipv4: Ipv4Addr, turn: usize) -> impl Iterator<Item = &Prefix> {
        let mapping = self
            .mappings
            .iter()
            .filter(|mapping| mapping.range.contains(ipv4.into()))
            .max_by_key(|mapping| mapping.range.length_bits());
        let chosen = mapping.map_or(self.prefixes.as_slice(), |mapping| mapping.prefix.as_slice());
        let may_carry = move |prefix: &&Prefix| !self.strict_well_known || prefix.may_carry(ipv4);
        let is_host = !is_bound_to_link(ipv4);
        let fitting = chosen.iter().filter(move |prefix| is_host && may_carry(prefix));
        let (skipped, taken) = match self.spread {
            PrefixChoice::All => (0, usize::MAX),
            PrefixChoice::Rotated => (turn % fitting.clone().count().max(1), 1),
        };
        fitting.skip(skipped).take(taken)
    }

    /// The IPv4 address that an address under one of the prefixes stands for.
    pub fn ipv4_of(&self, ipv6: Ipv6Addr) -> Option<Ipv4Addr> {
        let mapped = self.mappings.iter().filter_map(|mapping| mapping.prefix.as_ref());
        self.prefixes.iter().chain(mapped).find_map(|prefix| prefix.extract(ipv6))
    }

    /// Whether DNS64 has any part in this question: class IN, type AAAA, and no client that validates for
    /// itself (RFC 6147 5, 5.5). DO with CD forbids synthesis; CD alone forbids it unless the operator chose
    /// otherwise.
    pub fn applies_to(&self, asked: &ClientQuery) -> bool {
        let kept_by_client = asked.checking_disabled && (asked.dnssec_ok || !self.synthesize_with_cd);
        asked.question.qtype == rtype::AAAA && asked.question.qclass == CLASS_IN && !kept_by_client
    }

    fn excludes(&self, ipv6: Ipv6Addr) -> bool {
        self.excluded.iter().any(|range| range.contains(ipv6.into()))
    }

    fn excludes_record(&self, record: &Record<'_>) -> bool {
        address::<16>(record, rtype::AAAA).is_some_and(|octets| self.excludes(octets.into()))
    }
}

/// What to do with the reply to a AAAA query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Give the reply to the client as it is.
    PassThrough,
    /// Give the reply to the client without the excluded AAAA records: [`strip`].
    StripExcluded,
    /// Ask for A and [`synthesize`].
    AskA {
        /// The TTL of synthesized records is at most this, in seconds.
        ttl_cap_s: u32,
    },
    /// Answer SERVFAIL: there is no reply, and nothing may be synthesized.
    Fail,
}

/// Decides what follows the AAAA query. `reply` is `None` when the upstream servers did not answer in time.
pub fn next_step(
    policy: &Policy,
    treatment: AaaaPolicy,
    asked: &ClientQuery,
    reply: Option<&Message<'_>>,
) -> Step {
    let after_error = |otherwise| match policy.on_aaaa_error {
        OnAaaaError::Synthesize => Step::AskA { ttl_cap_s: TTL_WITHOUT_SOA_S },
        OnAaaaError::Fail => otherwise,
    };
    match reply {
        None if policy.applies_to(asked) => after_error(Step::Fail),
        None => Step::Fail,
        Some(_) if !policy.applies_to(asked) => Step::PassThrough,
        Some(reply) => match AaaaSummary::of(policy, treatment, asked, reply) {
            Err(Malformed(_)) => after_error(Step::Fail),
            Ok(AaaaSummary { rcode: 0, kept: 0, ttl_cap_s, .. }) => Step::AskA { ttl_cap_s },
            Ok(AaaaSummary { rcode: 0, excluded: 0, .. }) => Step::PassThrough,
            Ok(AaaaSummary { rcode: 0, .. }) => Step::StripExcluded,
            // The name does not exist at all: there is no A record either (RFC 6147 5.1.2).
            Ok(AaaaSummary { rcode: NXDOMAIN, .. }) => Step::PassThrough,
            // The error is the upstream's verdict on forged data; an A record would get around it.
            Ok(AaaaSummary { bogus: true, .. }) => Step::PassThrough,
            Ok(_) => after_error(Step::PassThrough),
        },
    }
}

/// What the rule must know of a reply to a AAAA query.
struct AaaaSummary {
    rcode: u16,
    /// The number of AAAA records outside the excluded ranges.
    kept: u32,
    /// AAAA records that count as absent.
    excluded: u32,
    ttl_cap_s: u32,
    /// An extended error says that DNSSEC validation failed.
    bogus: bool,
}

impl AaaaSummary {
    fn of(
        policy: &Policy,
        treatment: AaaaPolicy,
        asked: &ClientQuery,
        reply: &Message<'_>,
    ) -> Result<Self, Malformed> {
        let rcode = u16::from(reply.header.rcode());
        let mut survey = Self { rcode, kept: 0, excluded: 0, ttl_cap_s: TTL_WITHOUT_SOA_S, bogus: false };
        let mut soa_seen = false;
        for record in reply.records() {
            let record = record?;
            match (record.section, record.rtype) {
                (Section::Authority, rtype::SOA) if !soa_seen => {
                    // The SOA's own TTL and its last field both bound the life of a negative answer (RFC 2308
                    // 5).
                    let minimum = record.soa_minimum().ok_or(Malformed("SOA record too short"))?;
                    survey.ttl_cap_s = sane_ttl(record.ttl).min(sane_ttl(minimum));
                    soa_seen = true;
                }
                (Section::Additional, rtype::OPT) => {
                    survey.rcode |= (record.ttl >> 24 << 4) as u16;
                    survey.bogus |= says_bogus(record.rdata);
                }
                _ => {}
            }
        }
        follow(reply, &asked.question.name, |place, _, record| {
            if (place, record.rtype) != (Position::End, rtype::AAAA) {
                return Ok(());
            }
            match address::<16>(record, rtype::AAAA) {
                Some(_) if treatment == AaaaPolicy::Always => survey.excluded += 1,
                Some(octets) if policy.excludes(octets.into()) => survey.excluded += 1,
                Some(_) => survey.kept += 1,
                None => return Err(Malformed("AAAA record without 16 octets of RDATA")),
            }
            Ok(())
        })?;
        Ok(survey)
    }
}

/// A TTL with the top bit set counts as zero (RFC 2181 8).
fn sane_ttl(ttl_s: u32) -> u32 {
    if ttl_s > i32::MAX as u32 { 0 } else { ttl_s }
}

/// Whether a reply says with an extended error that DNSSEC validation failed (RFC 8914 4).
pub fn failed_validation(reply: &Message<'_>) -> bool {
    let mut options = reply.records().map_while(Result::ok).filter(|record| record.rtype == rtype::OPT);
    options.any(|record| says_bogus(record.rdata))
}

/// Whether an error reply may be the verdict of DNSSEC validation without saying so: SERVFAIL (RFC 4035 5.5),
/// and no extended error with another reason.
pub fn may_be_failed_validation(reply: &Message<'_>) -> bool {
    if reply.header.rcode() != rcode::SERVFAIL {
        return false;
    }
    let options = Options::of(reply);
    let mut reasons = options.iter().filter(|(code, _)| *code == option_code::EXTENDED_ERROR);
    !reasons
        .any(|(_, value)| value.first_chunk().is_some_and(|info| is_other_reason(u16::from_be_bytes(*info))))
}

/// Whether an extended error's code gives a reason for SERVFAIL that has nothing to do with validation (RFC
/// 8914 4): not ready, not allowed, not reachable, or nonsense.
pub fn is_other_reason(info_code: u16) -> bool {
    matches!(info_code, 14..=18 | 20..=24)
}

/// Whether the options of an OPT record hold an extended error of failed validation (RFC 8914 4).
fn says_bogus(options: &[u8]) -> bool {
    Options::new(options).iter().any(|(code, value)| {
        let info = value.first_chunk().map(|info| u16::from_be_bytes(*info));
        code == option_code::EXTENDED_ERROR && info.is_some_and(is_validation_failure)
    })
}

/// Whether an extended error's code says that DNSSEC validation failed (RFC 8914 4).
pub fn is_validation_failure(info_code: u16) -> bool {
    matches!(info_code, 1 | 2 | 5..=12 | 27)
}

/// Writes the answer to a AAAA question from the reply to the A query of the same name, into `out`, whose
/// length is the client's limit. Returns also how many AAAA records were synthesized.
///
/// Every A record at the end of the question's chain becomes one AAAA record for each of its prefixes
/// ([`Policy::prefixes_for`], at this `turn`), under its own owner, with a TTL of at most `ttl_cap_s`
/// seconds. The chain of CNAME and DNAME records stays whole; signatures over A records go, and so does what
/// does not belong to the chain. Authority and additional section are the A reply's. An A reply that is empty
/// or an error is the basis of the answer as it is, RCODE included (RFC 6147 5.1.6, 5.4).
///
/// # Errors
/// Malformed records in the reply.
pub fn synthesize(
    policy: &Policy,
    turn: usize,
    asked: &ClientQuery,
    a_reply: &Message<'_>,
    ttl_cap_s: u32,
    out: &mut [u8],
) -> Result<(WrittenAnswer, u32), Malformed> {
    let mut synthesized = 0;
    let written = rewrite(asked, a_reply, out, |writer| {
        follow(a_reply, &asked.question.name, |place, owner, record| {
            match (place, record.rtype) {
                (Position::Link, _) => copy(writer, record)?,
                (Position::End, rtype::A) => {
                    let ipv4 = address::<4>(record, rtype::A)
                        .ok_or(Malformed("A record without 4 octets of RDATA"))?;
                    let ttl_s = sane_ttl(record.ttl).min(ttl_cap_s);
                    let prefixes = policy.prefixes_for(ipv4.into(), turn);
                    synthesized += write_addresses(prefixes, owner, ipv4.into(), ttl_s, writer)?;
                }
                (Position::End, _) => {}
            }
            Ok(())
        })
    })?;
    Ok((written, if written.truncated { 0 } else { synthesized }))
}

fn write_addresses<'p>(
    prefixes: impl Iterator<Item = &'p Prefix>,
    owner: &Name,
    ipv4: Ipv4Addr,
    ttl_s: u32,
    writer: &mut Writer<'_>,
) -> Result<u32, Stop> {
    let mut written = 0;
    for prefix in prefixes {
        let ipv6 = prefix.embed(ipv4).octets();
        writer.record(Section::Answer, owner, rtype::AAAA, CLASS_IN, ttl_s, &ipv6)?;
        written += 1;
    }
    Ok(written)
}

/// Writes a reply to a AAAA query without its excluded AAAA records, without the signatures that no longer
/// fit, and without what does not belong to the question's chain.
///
/// # Errors
/// Malformed records in the reply.
pub fn strip(
    policy: &Policy,
    asked: &ClientQuery,
    reply: &Message<'_>,
    out: &mut [u8],
) -> Result<WrittenAnswer, Malformed> {
    rewrite(asked, reply, out, |writer| {
        follow(reply, &asked.question.name, |place, _, record| {
            let kept = match place {
                Position::Link => true,
                Position::End => record.rtype == rtype::AAAA && !policy.excludes_record(record),
            };
            if kept { copy(writer, record) } else { Ok(()) }
        })
    })
}
