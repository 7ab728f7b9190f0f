//! Which replies are kept, and how long (RFC 2308 5, RFC 1034 3.6.1, RFC 2181 8).

use dns64::rewrite::full_rcode;
use dns64::wire::{Header, Malformed, Message, Section, rcode, rtype};

use super::ttls::sane_ttl_s;
use crate::settings::Caching;

/// How long a scrubbed reply may be kept, in seconds; `None` if it may not be kept at all.
///
/// 1. Truncated replies, failures and malformed ones are not kept.
/// 2. A reply with records of the type asked for: the least TTL of the answer section.
/// 3. A negative one, which a chain of CNAME records may lead to: also the TTL of the SOA record and its last
///    field. Without an SOA record it is not kept (RFC 2308 5).
/// 4. What the operator allows at most. Nothing is kept for 0 seconds.
pub fn lifetime_s(caching: &Caching, reply: &Message<'_>) -> Option<u32> {
    let rcode = full_rcode(reply).ok()?;
    let plain_lookup = !matches!(reply.qtype, rtype::OPT | 128..=254);
    let kept_rcode = [rcode::NOERROR, rcode::NXDOMAIN].map(u16::from).contains(&rcode);
    if !plain_lookup || !kept_rcode || reply.header.has(Header::TC) {
        return None;
    }
    let terms = Lifetimes::of(reply).ok()?;
    let life_s = if rcode == u16::from(rcode::NOERROR) && terms.answered {
        terms.answers_s
    } else {
        terms.answers_s.min(terms.negative_s?).min(caching.negative_ttl_max_s)
    };
    Some(life_s.min(caching.ttl_max_s)).filter(|&life_s| life_s > 0)
}

/// What the records of a reply say about its life.
struct Lifetimes {
    /// There are records of the type asked for.
    answered: bool,
    /// The least TTL of the answer section, in seconds.
    answers_s: u32,
    /// The life of a negative answer by the SOA record, in seconds.
    negative_s: Option<u32>,
}

impl Lifetimes {
    fn of(reply: &Message<'_>) -> Result<Self, Malformed> {
        let asked = reply.qtype;
        let mut terms = Self { answered: false, answers_s: u32::MAX, negative_s: None };
        for record in reply.records() {
            let record = record?;
            let ttl_s = sane_ttl_s(record.ttl);
            match record.section {
                Section::Answer => {
                    terms.answers_s = terms.answers_s.min(ttl_s);
                    terms.answered |= asked == record.rtype || asked == rtype::ANY;
                }
                Section::Authority if record.rtype == rtype::SOA => {
                    let minimum = record.soa_minimum().ok_or(Malformed("SOA record too short"))?;
                    let life_s = ttl_s.min(sane_ttl_s(minimum));
                    terms.negative_s = Some(terms.negative_s.map_or(life_s, |least_s| least_s.min(life_s)));
                }
                _ => {}
            }
        }
        Ok(terms)
    }
}
