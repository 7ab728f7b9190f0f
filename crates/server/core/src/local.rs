//! Questions that are answered without an upstream server: names whose records the RFCs give, and ANY over
//! UDP.
//!
//! | name | answer |
//! |---|---|
//! | `ipv4only.arpa` | A 192.0.0.170 and .171, AAAA of both under each prefix of the view (RFC 8880 7.1) |
//! | the reverse names of all these addresses | PTR `ipv4only.arpa` (RFC 8880 7.2) |
//! | `localhost` and below | A 127.0.0.1, AAAA `::1` (RFC 6761 6.3) |
//! | `invalid`, `onion` and below | NXDOMAIN (RFC 6761 6.4, RFC 7686 2) |
//! | `resolver.arpa` and below | no records: there is no designated resolver (RFC 9462 4, 6.4) |
//! | `local`, `home.arpa`, `service.arpa` and below, the reverse names of private addresses | the zone has SOA and NS alone ([`zones`]) |
//!
//! Other types have no records there. DS of a zone in `arpa` is asked upstream: it belongs to the zone above.
//! A PTR question for an address under a prefix leads to a reverse name: where that is private, the answer is
//! local, too (RFC 6147 5.3.1).

mod zones;

use std::net::{Ipv4Addr, Ipv6Addr};

use dns64::Prefix;
use dns64::prefix::IPV4ONLY_ARPA;
use dns64::reverse::{self, Style};
use dns64::rewrite::{ClientQuery, write_empty};
use dns64::wire::{CLASS_IN, Header, Name, Overflow, Question, Section, Writer, rcode, rtype};

use crate::answer::REVERSE_CNAME_TTL_S;
use crate::domains::Routes;
use crate::ede;
use crate::settings::{Local, View};
use zones::private_zone;

/// An answer of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalAnswer {
    /// The question is not ours.
    None,
    /// The answer was written.
    Written {
        /// Its length.
        octets: usize,
        /// The extended error that belongs to it.
        ede: Option<u16>,
    },
}

/// The TTL of special names, in seconds: what RFC 6303 3 recommends for local zones.
const SPECIAL_TTL_S: u32 = 10_800;

/// The TTL of the answer to ANY, in seconds.
const ANY_TTL_S: u32 = 3_600;

/// HINFO with CPU "RFC8482" and no OS (RFC 8482 4.2).
const ANY_HINFO: &[u8] = b"\x07RFC8482\0";

const IPV4ONLY: &[u8] = b"\x08ipv4only\x04arpa\0";
const IPV4ONLY_REVERSE: [&[u8]; 2] =
    [b"\x03170\x010\x010\x03192\x07in-addr\x04arpa\0", b"\x03171\x010\x010\x03192\x07in-addr\x04arpa\0"];
const RESOLVER: &[u8] = b"\x08resolver\x04arpa\0";
const LOCALHOST: &[u8] = b"\x09localhost\0";
const NON_EXISTENT: [&[u8]; 2] = [b"\x07invalid\0", b"\x05onion\0"];

/// The mailbox in the SOA records of local zones (RFC 6303 3).
const RESPONSIBLE: &[u8] = b"\x06nobody\x07invalid\0";

/// Writes the answer to a question of class IN into `out`, whose length is the client's limit, if the
/// question is one that is answered here. A private zone in which `routes` have a domain is not. The answer
/// has no OPT record; an answer that does not fit has TC and no records.
pub fn answer(
    local: &Local,
    view: &View,
    routes: &Routes,
    asked: &ClientQuery,
    over_udp: bool,
    out: &mut [u8],
) -> LocalAnswer {
    let Some(reply) = find(local, view, routes, asked, over_udp) else { return LocalAnswer::None };
    let ede = matches!(reply.content, Content::Synthesized(_)).then_some(ede::code::SYNTHESIZED);
    LocalAnswer::Written { octets: reply.write(asked, out), ede }
}

fn find<'v>(
    local: &Local,
    view: &'v View,
    routes: &Routes,
    asked: &ClientQuery,
    over_udp: bool,
) -> Option<Reply<'v>> {
    let question = &asked.question;
    if question.qclass != CLASS_IN {
        return None;
    }
    if local.ipv4only
        && let Some(reply) = ipv4only(local.ipv4only_ttl_s, view, question)
    {
        return Some(reply);
    }
    if local.special_names
        && let Some(reply) = special(question)
    {
        return Some(reply);
    }
    if local.private_zones
        && let Some(reply) = private(view, routes, question)
    {
        return Some(reply);
    }
    let any = Reply { content: Content::HostInfo, ttl_s: ANY_TTL_S, zone: Name::ROOT, alias: None };
    (local.minimal_any && over_udp && question.qtype == rtype::ANY).then_some(any)
}

/// What is answered, before it is written.
struct Reply<'v> {
    content: Content<'v>,
    ttl_s: u32,
    /// The owner of the SOA record of negative answers.
    zone: Name,
    /// The name asked for is an alias of this one.
    alias: Option<Name>,
}

enum Content<'v> {
    NoName,
    NoData,
    Ipv4(&'static [Ipv4Addr]),
    Ipv6(Ipv6Addr),
    /// Both addresses of `ipv4only.arpa` under each prefix, at least one.
    Synthesized(&'v [Prefix]),
    /// A PTR record to `ipv4only.arpa`.
    Pointer,
    /// The SOA record of the zone.
    Soa,
    /// Its NS record: the zone itself (RFC 6303 3).
    NameServer,
    HostInfo,
}

fn ipv4only<'v>(ttl_s: u32, view: &'v View, question: &Question) -> Option<Reply<'v>> {
    let reply = |content, zone| Some(Reply::of(content, ttl_s, zone));
    for zone in [IPV4ONLY, IPV4ONLY_REVERSE[0], IPV4ONLY_REVERSE[1]] {
        match Position::of(&question.name, zone) {
            None => {}
            Some(Position::Below) => return reply(Content::NoName, zone),
            Some(Position::Apex) if question.qtype == rtype::DS => return None,
            Some(Position::Apex) if zone == IPV4ONLY => return reply(at_ipv4only(view, question), zone),
            Some(Position::Apex) => {
                let has_pointer = matches!(question.qtype, rtype::PTR | rtype::ANY);
                return reply(if has_pointer { Content::Pointer } else { Content::NoData }, zone);
            }
        }
    }
    if question.qtype != rtype::PTR {
        return None;
    }
    let ipv4 = view.rule.as_ref()?.ipv4_of(reverse::ipv6_of(&question.name)?)?;
    IPV4ONLY_ARPA.contains(&ipv4).then_some(Reply::of(Content::Pointer, ttl_s, IPV4ONLY))
}

/// Clients learn the prefixes from this answer (RFC 7050): it has all of them, whatever their spread and
/// whatever CD and DO say. Where nothing may be synthesized below the name, or the view has no rule, there is
/// no AAAA record.
fn at_ipv4only<'v>(view: &'v View, question: &Question) -> Content<'v> {
    match question.qtype {
        // ANY may be answered by a part of what is there (RFC 8482 4.1).
        rtype::A | rtype::ANY => Content::Ipv4(&IPV4ONLY_ARPA),
        rtype::AAAA => match &view.rule {
            Some(rule) if !rule.prefixes.is_empty() && !view.never.covers(&question.name) => {
                Content::Synthesized(&rule.prefixes)
            }
            _ => Content::NoData,
        },
        _ => Content::NoData,
    }
}

fn special(question: &Question) -> Option<Reply<'static>> {
    let reply = |content, zone| Some(Reply::of(content, SPECIAL_TTL_S, zone));
    if Position::of(&question.name, LOCALHOST).is_some() {
        return match question.qtype {
            rtype::A | rtype::ANY => reply(Content::Ipv4(&[Ipv4Addr::LOCALHOST]), LOCALHOST),
            rtype::AAAA => reply(Content::Ipv6(Ipv6Addr::LOCALHOST), LOCALHOST),
            _ => reply(Content::NoData, LOCALHOST),
        };
    }
    if Position::of(&question.name, RESOLVER).is_some() {
        return reply(Content::NoData, RESOLVER);
    }
    let zone = NON_EXISTENT.into_iter().find(|zone| Position::of(&question.name, zone).is_some())?;
    reply(Content::NoName, zone)
}

/// A question for a private name, which means something in this network at most.
fn private(view: &View, routes: &Routes, question: &Question) -> Option<Reply<'static>> {
    let (style, target) = match pointer_target(view, question) {
        Some((style, target)) => (style, Some(target)),
        None => (Style::Answer, None),
    };
    let name = target.as_ref().unwrap_or(&question.name);
    let zone = private_zone(name)?;
    let is_apex = zone == *name;
    if routes.is_named(name) || is_apex && question.qtype == rtype::DS && zones::has_parent(&zone) {
        return None;
    }
    let content = match question.qtype {
        _ if !is_apex || !zones::has_parent(&zone) => Content::NoName,
        rtype::SOA | rtype::ANY => Content::Soa,
        rtype::NS => Content::NameServer,
        _ => Content::NoData,
    };
    let alias = target.filter(|_| style == Style::Cname);
    Some(Reply { content, ttl_s: SPECIAL_TTL_S, zone, alias })
}

/// The `in-addr.arpa` name that a PTR question for an address under a prefix leads to (RFC 6147 5.3.1).
fn pointer_target(view: &View, question: &Question) -> Option<(Style, Name)> {
    let style = view.ptr.filter(|_| question.qtype == rtype::PTR)?;
    let ipv4 = view.rule.as_ref()?.ipv4_of(reverse::ipv6_of(&question.name)?)?;
    Some((style, reverse::in_addr_arpa(ipv4)))
}

/// Where a name stands in a zone.
enum Position {
    Apex,
    Below,
}

impl Position {
    /// `None` outside of the zone, whose name is in wire format and lower case.
    fn of(name: &Name, zone: &[u8]) -> Option<Self> {
        let own = name.as_wire();
        let skip = own.len().checked_sub(zone.len())?;
        if !own[skip..].eq_ignore_ascii_case(zone) {
            return None;
        }
        // The ending must begin where a label does.
        let mut at = 0;
        while at < skip {
            at += usize::from(own[at]) + 1;
        }
        (at == skip).then_some(if skip == 0 { Self::Apex } else { Self::Below })
    }
}

impl<'v> Reply<'v> {
    /// An answer of the zone of this name, in wire format.
    fn of(content: Content<'v>, ttl_s: u32, zone: &[u8]) -> Self {
        // A constant of this file is always a name; the root stands for the impossible.
        let zone = Name::parse(zone, 0).map_or(Name::ROOT, |(name, _)| name);
        Self { content, ttl_s, zone, alias: None }
    }

    fn write(&self, asked: &ClientQuery, out: &mut [u8]) -> usize {
        let no_name = matches!(self.content, Content::NoName);
        let flags = asked.answer_flags(if no_name { rcode::NXDOMAIN } else { rcode::NOERROR });
        self.try_write(asked, flags, out)
            .unwrap_or_else(|Overflow| write_empty(asked, flags | Header::TC, out))
    }

    fn try_write(&self, asked: &ClientQuery, flags: u16, out: &mut [u8]) -> Result<usize, Overflow> {
        let mut writer = Writer::new(out, asked.id, flags, &asked.question)?;
        let own = &asked.question.name;
        if let Some(alias) = &self.alias {
            let put_alias = |writer: &mut Writer<'_>| writer.name(alias);
            let (section, ttl_s) = (Section::Answer, REVERSE_CNAME_TTL_S);
            writer.record_with(section, own, rtype::CNAME, CLASS_IN, ttl_s, put_alias)?;
        }
        let mut put =
            |rtype, rdata: &[u8]| writer.record(Section::Answer, own, rtype, CLASS_IN, self.ttl_s, rdata);
        match self.content {
            Content::NoName | Content::NoData => self.write_soa(Section::Authority, &mut writer)?,
            Content::Soa => self.write_soa(Section::Answer, &mut writer)?,
            Content::NameServer => put(rtype::NS, self.zone.as_wire())?,
            Content::Ipv4(addresses) => {
                addresses.iter().try_for_each(|ipv4| put(rtype::A, &ipv4.octets()))?;
            }
            Content::Ipv6(ipv6) => put(rtype::AAAA, &ipv6.octets())?,
            Content::Synthesized(prefixes) => {
                let pairs = prefixes.iter().flat_map(|prefix| IPV4ONLY_ARPA.map(|ipv4| prefix.embed(ipv4)));
                pairs.into_iter().try_for_each(|ipv6| put(rtype::AAAA, &ipv6.octets()))?;
            }
            Content::Pointer => put(rtype::PTR, IPV4ONLY)?,
            Content::HostInfo => put(rtype::HINFO, ANY_HINFO)?,
        }
        Ok(writer.finish())
    }

    /// The SOA record of a local zone (RFC 6303 3), which tells how long the answer may be kept (RFC 2308 3).
    fn write_soa(&self, section: Section, writer: &mut Writer<'_>) -> Result<(), Overflow> {
        const SERIAL_REFRESH_RETRY_EXPIRE: [u32; 4] = [1, 3600, 1200, 604_800];
        writer.record_with(section, &self.zone, rtype::SOA, CLASS_IN, self.ttl_s, |writer| {
            writer.name(&self.zone)?;
            writer.put(RESPONSIBLE)?;
            let numbers = SERIAL_REFRESH_RETRY_EXPIRE.iter().chain([&self.ttl_s]);
            numbers.into_iter().try_for_each(|number| writer.put(&number.to_be_bytes()))
        })
    }
}
