//! The views: the keys of `[dns64]`, and the keys of each `[[view]]`, which replace those of `[dns64]`.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use dns64::prefix::PrefixError;
use dns64::range::RangeError;
use dns64::rule::{Mapping, Policy};
use dns64::{Prefix, Range};
use server_core::domains::Domains;
use server_core::settings::View;

use super::keys::{self, Rule, Text, Texts, Top};
use super::place::{Result, SourceText};
use super::upstreams::{domain, lower_case};
use super::{Listen, address};

/// The name of the view that takes whom no other takes.
pub(super) const REST: &str = "default";

/// All views; the last takes everybody.
pub(super) fn views(place: &SourceText<'_>, raw: &Top, listen: &[Listen]) -> Result<Vec<View>> {
    let rest = View { name: REST.to_owned(), ..View::default() };
    let base = with_keys(place, rest, Some(&raw.prefixes), &raw.dns64)?;
    let mut views: Vec<View> = Vec::new();
    for (index, view) in raw.view.iter().enumerate() {
        let (table, at) = (format!("view[{index}]"), view.span().start);
        let read = view_of(place, &table, view.get_ref(), at, &base, listen)?;
        if views.iter().any(|other| other.name == read.name) {
            return Err(place.key_error(&format!("{table}.name"), at, "another view has this name"));
        }
        if !is_reachable(&read, &views, listen.len()) {
            let reason = "earlier views match all its clients: move this view up, or remove it";
            return Err(place.error_at(at, reason));
        }
        views.push(read);
    }
    // Without it, somebody has a view already.
    if is_reachable(&base, &views, listen.len()) {
        views.push(base);
    }
    Ok(views)
}

fn view_of(
    place: &SourceText<'_>,
    table: &str,
    raw: &keys::View,
    at: usize,
    base: &View,
    listen: &[Listen],
) -> Result<View> {
    let mut view = base.clone();
    view.name = name(place, &format!("{table}.name"), raw.name.as_ref(), at)?;
    if let Some(texts) = &raw.clients {
        view.clients = place.some(texts, Range::from_str)?;
    }
    if let Some(texts) = &raw.listeners {
        let lists = place.some(texts, |text| listeners_named(text, listen))?;
        view.listeners = lists.concat();
    }
    let mut view = with_keys(place, view, raw.prefixes.as_ref(), &raw.rule)?;
    if !raw.dns64 {
        (view.rule, view.ptr) = (None, None);
    }
    Ok(view)
}

/// A name that can stand in logs and statistics as it is.
fn name(place: &SourceText<'_>, key: &str, text: Option<&Text>, at: usize) -> Result<String> {
    let Some(text) = text else { return Err(place.key_error(key, at, "is missing: write name = \"NAME\"")) };
    let name = text.get_ref();
    if name == REST {
        return Err(place.text_error(text, "is the name of the view for all others: choose another"));
    }
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet);
    if name.is_empty() || name.len() > NAME_OCTETS_MAX || !name.bytes().all(is_plain) {
        let reason = format_args!("write 1 to {NAME_OCTETS_MAX} letters, digits, -, _ or .");
        return Err(place.text_error(text, reason));
    }
    Ok(name.clone())
}

const NAME_OCTETS_MAX: usize = 63;

/// The listeners that are written so; several only where port 0 stands in the list several times.
fn listeners_named(text: &str, listen: &[Listen]) -> std::result::Result<Vec<usize>, String> {
    let named = address::listener(text)?;
    let found: Vec<usize> = (0..listen.len()).filter(|&index| listen[index] == named).collect();
    if found.is_empty() { Err("is not in listen: write it as it stands there".to_owned()) } else { Ok(found) }
}

/// Whether anybody is left for the view. Only one range at a time is held against those of the views before.
fn is_reachable(view: &View, before: &[View], listeners: usize) -> bool {
    let listens = |view: &View, listener| view.listeners.is_empty() || view.listeners.contains(&listener);
    let takes =
        |view: &View, range: &Range| everybody_or(&view.clients).iter().any(|taken| holds(taken, range));
    (0..listeners).filter(|&listener| listens(view, listener)).any(|listener| {
        let earlier = || before.iter().filter(|earlier| listens(earlier, listener));
        everybody_or(&view.clients).iter().any(|range| !earlier().any(|earlier| takes(earlier, range)))
    })
}

fn everybody_or(clients: &[Range]) -> Vec<Range> {
    let everybody = [Range::v4(Ipv4Addr::UNSPECIFIED, 0), Range::v6(Ipv6Addr::UNSPECIFIED, 0)];
    if clients.is_empty() { everybody.to_vec() } else { clients.to_vec() }
}

/// Whether the first range holds all of the second.
pub(super) fn holds(outer: &Range, inner: &Range) -> bool {
    outer.contains(inner.first()) && outer.length_bits() <= inner.length_bits()
}

/// The view with the keys that are written.
fn with_keys(
    place: &SourceText<'_>,
    mut view: View,
    prefix_texts: Option<&Texts>,
    keys: &Rule,
) -> Result<View> {
    view.ptr = keys.ptr.map_or(view.ptr, |ptr| ptr.0);
    for (texts, domains) in [(&keys.never, &mut view.never), (&keys.always, &mut view.always)] {
        if let Some(texts) = texts {
            *domains = domain_set(place, texts)?;
        }
    }
    let mut rule = view.rule.unwrap_or_default();
    if let Some(texts) = prefix_texts {
        rule.prefixes = prefixes(place, texts)?;
    }
    view.rule = Some(rule_with_keys(place, rule, keys)?);
    Ok(view)
}

fn rule_with_keys(place: &SourceText<'_>, mut rule: Policy, keys: &Rule) -> Result<Policy> {
    if let Some(map) = &keys.map {
        rule.mappings = mappings(place, map)?;
    }
    if let Some(texts) = &keys.exclude {
        rule.excluded = place.list(texts, ipv6_range)?;
    }
    Ok(Policy {
        spread: keys.spread.map_or(rule.spread, |spread| spread.0),
        on_aaaa_error: keys.on_aaaa_error.map_or(rule.on_aaaa_error, |choice| choice.0),
        synthesize_with_cd: keys.synthesize_with_cd.unwrap_or(rule.synthesize_with_cd),
        strict_well_known: keys.strict_well_known.unwrap_or(rule.strict_well_known),
        ..rule
    })
}

fn prefixes(place: &SourceText<'_>, texts: &Texts) -> Result<Vec<Prefix>> {
    let mut seen = Vec::new();
    place.some(texts, |text| {
        let prefix = prefix(text)?;
        if seen.contains(&prefix) {
            return Err("twice in the list".to_owned());
        }
        seen.push(prefix);
        Ok(prefix)
    })
}

/// A prefix that hosts would send packets to a NAT64 for.
fn prefix(text: &str) -> std::result::Result<Prefix, String> {
    let prefix: Prefix = text.parse().map_err(|error: PrefixError| error.to_string())?;
    let range = range_of(&prefix);
    let unusable = [
        (Range::v6(Ipv6Addr::UNSPECIFIED, 80), "IPv4-compatible, IPv4-mapped or loopback addresses"),
        (Range::v6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10), "link-local addresses"),
        (Range::v6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8), "multicast addresses"),
    ];
    match unusable.iter().find(|(taken, _)| taken.overlaps(&range)) {
        Some((_, what)) => Err(format!("holds {what}: write a prefix that is routed to the NAT64")),
        None => Ok(prefix),
    }
}

/// All addresses under a prefix.
pub(super) fn range_of(prefix: &Prefix) -> Range {
    Range::v6(prefix.address(), prefix.length_bits())
}

fn mappings(place: &SourceText<'_>, map: &BTreeMap<String, Text>) -> Result<Vec<Mapping>> {
    let one = |(range, text): (&String, &Text)| {
        let fault = |reason: &dyn Display| place.error_at(text.span().start, reason);
        let range: Range = range.parse().map_err(|error| fault(&error))?;
        if range.first().is_ipv6() {
            return Err(fault(&"not an IPv4 range"));
        }
        let prefix = match text.get_ref().as_str() {
            "none" => None,
            word => Some(prefix(word).map_err(|error| place.text_error(text, error))?),
        };
        Ok(Mapping { range, prefix })
    };
    map.iter().map(one).collect()
}

fn ipv6_range(text: &str) -> std::result::Result<Range, String> {
    let range: Range = text.parse().map_err(|error: RangeError| error.to_string())?;
    if range.first().is_ipv4() { Err("not an IPv6 range".into()) } else { Ok(range) }
}

fn domain_set(place: &SourceText<'_>, texts: &Texts) -> Result<Domains> {
    let mut seen = HashSet::new();
    let mut domains = Domains::default();
    place.list(texts, |text| {
        let name = domain(text)?;
        if !seen.insert(lower_case(&name)) {
            return Err("twice in the list".to_owned());
        }
        domains.insert(&name);
        Ok(())
    })?;
    Ok(domains)
}
