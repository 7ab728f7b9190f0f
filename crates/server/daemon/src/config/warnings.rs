//! Warnings of settings that are allowed and yet likely to do harm.

use std::fs;
use std::os::unix::fs::MetadataExt;

use dns64::rule::{Mapping, Policy};
use dns64::wire::Name;
use dns64::{Prefix, Range};
use server_core::domains::Domains;
use server_core::settings::{View, local_networks};

use super::Config;
use super::keys::{Cache, Text, Texts, Top};
use super::upstreams::domain;
use super::views::{REST, holds, range_of};

/// All warnings, one line each.
pub(super) fn warnings(config: &Config, raw: &Top) -> Vec<String> {
    let mut warnings = Vec::new();
    clients(config, &mut warnings);
    view_warnings(config, &mut warnings);
    orders_of_views(&config.settings.views, &mut warnings);
    domains(raw, &mut warnings);
    upstreams(config, &mut warnings);
    key_file(config, &mut warnings);
    useless_keys(config, raw, &mut warnings);
    warnings
}

fn clients(config: &Config, warnings: &mut Vec<String>) {
    for range in config.settings.allow.iter().filter(|range| range.length_bits() == 0) {
        warnings.push(format!(
            "allow {range} makes this an open resolver, which attackers use against others: name your networks"
        ));
    }
    if config.streams.connections == 0 {
        warnings.push(
            "limits.connections 0 leaves no way for answers that are too large for UDP: allow some connections".into(),
        );
    }
}

fn view_warnings(config: &Config, warnings: &mut Vec<String>) {
    let (rest, views): (Vec<&View>, _) = config.settings.views.iter().partition(|view| view.name == REST);
    let for_all: Vec<String> = rest.into_iter().flat_map(rule_warnings).collect();
    for view in views {
        for range in &view.clients {
            if !config.settings.allow.iter().any(|allowed| allowed.overlaps(range)) {
                warnings.push(format!("view {}: clients {range} are REFUSED: add them to allow", view.name));
            }
        }
        // What a view has from [dns64] is said once.
        let own = rule_warnings(view).into_iter().filter(|warning| !for_all.contains(warning));
        warnings.extend(own.map(|warning| format!("view {}: {warning}", view.name)));
    }
    warnings.extend(for_all);
}

fn rule_warnings(view: &View) -> Vec<String> {
    let Some(rule) = &view.rule else { return Vec::new() };
    prefix_warnings(rule).chain(mapping_warnings(rule)).chain(exclusion_warnings(rule)).collect()
}

fn prefix_warnings(rule: &Policy) -> impl Iterator<Item = String> {
    let carries_private = rule.prefixes.contains(&Prefix::WELL_KNOWN) && !rule.strict_well_known;
    let private = carries_private.then(|| {
        "prefix 64:ff9b::/96 without strict_well_known carries private addresses, which RFC 6052 3.1 forbids: choose \
         a prefix of your own"
            .to_owned()
    });
    let nested = rule.prefixes.iter().flat_map(|outer| {
        let inside = move |inner: &&Prefix| *inner != outer && holds(&range_of(outer), &range_of(inner));
        rule.prefixes.iter().filter(inside).map(move |inner| {
            format!("prefix {inner} lies within {outer}: addresses there can be read in two ways, choose one")
        })
    });
    private.into_iter().chain(nested)
}

fn mapping_warnings(rule: &Policy) -> impl Iterator<Item = String> {
    let is_private = |range: &Range| local_networks().iter().any(|local| local.overlaps(range));
    let wrong =
        move |mapping: &&Mapping| mapping.prefix == Some(Prefix::WELL_KNOWN) && is_private(&mapping.range);
    rule.mappings.iter().filter(wrong).map(|Mapping { range, .. }| {
        format!(
            "dns64.map.'{range}' holds private addresses, which 64:ff9b::/96 must not carry (RFC 6052 3.1): choose a \
             prefix of your own"
        )
    })
}

fn exclusion_warnings(rule: &Policy) -> impl Iterator<Item = String> {
    let mapped = rule.mappings.iter().filter_map(|mapping| mapping.prefix.as_ref());
    rule.prefixes.iter().chain(mapped).filter_map(|prefix| {
        let range = rule.excluded.iter().find(|range| range.contains(prefix.address().into()))?;
        Some(format!("dns64.exclude {range} holds the prefix {prefix}: AAAA records there are replaced"))
    })
}

/// A view of everybody on some listeners, with a view of some clients behind it.
fn orders_of_views(views: &[View], warnings: &mut Vec<String>) {
    for (index, view) in views.iter().enumerate().filter(|(_, view)| view.clients.is_empty()) {
        let shares = |other: &View| {
            other.listeners.is_empty()
                || other.listeners.iter().any(|listener| view.listeners.contains(listener))
        };
        for later in views[index + 1..].iter().filter(|later| !later.clients.is_empty() && shares(later)) {
            warnings.push(format!(
                "view {0} matches all clients of its listeners, also those of view {1}: put view {0} after view {1}",
                view.name, later.name
            ));
        }
    }
}

/// Domains that can have no effect.
fn domains(raw: &Top, warnings: &mut Vec<String>) {
    let (base_never, base_always) = (raw.dns64.never.as_ref(), raw.dns64.always.as_ref());
    always_within_never("dns64", base_never, base_always, warnings);
    for (index, view) in raw.view.iter().map(|view| &view.get_ref().rule).enumerate() {
        if view.never.is_some() || view.always.is_some() {
            let (never, always) = (view.never.as_ref().or(base_never), view.always.as_ref().or(base_always));
            always_within_never(&format!("view[{index}]"), never, always, warnings);
        }
    }
}

fn always_within_never(
    table: &str,
    never: Option<&Texts>,
    always: Option<&Texts>,
    warnings: &mut Vec<String>,
) {
    let never: Domains = texts(never).filter_map(|text| domain(text.get_ref()).ok()).collect();
    for text in texts(always) {
        if domain(text.get_ref()).is_ok_and(|name| never.covers(&name)) {
            let text = text.get_ref();
            warnings.push(format!(
                "{table}.always {text} has no effect: {table}.never holds it, and counts first"
            ));
        }
    }
}

fn texts(list: Option<&Texts>) -> impl Iterator<Item = &Text> {
    list.into_iter().flat_map(|texts| texts.get_ref())
}

fn upstreams(config: &Config, warnings: &mut Vec<String>) {
    let asking = &config.settings.asking;
    if asking.timeout_ns * u64::from(asking.tries) >= asking.deadline_ns {
        warnings.push(
            "upstream.deadline_ms leaves no time to ask for A after an AAAA query that timed out: raise it, or lower \
             timeout_ms"
                .into(),
        );
    }
    if config.settings.routes.group_of(&Name::ROOT) != 0 {
        warnings.push("forward of '.' takes every question: the servers of upstreams are never asked".into());
    }
    for (server, upstream) in config.upstreams.iter().zip(&config.settings.upstreams) {
        let nearby = local_networks().iter().any(|local| local.contains(server.address.ip()));
        if upstream.trust_ad && !server.validate && !server.protocol.is_encrypted() && !nearby {
            warnings.push(format!(
                "trust_ad trusts the AD bit of {server}, which anybody on the path can set: ask over TLS"
            ));
        }
    }
    if config.anchors.is_some() && !config.upstreams.iter().any(|server| server.validate) {
        warnings.push("upstream.anchors has no effect: write upstream.validate = true, too".into());
    }
    if config.upstream_roots.is_some()
        && !config.upstreams.iter().any(|server| server.protocol.is_encrypted())
    {
        warnings
            .push("upstream.roots has no effect: no upstream server is asked over TLS, HTTPS or QUIC".into());
    }
}

fn key_file(config: &Config, warnings: &mut Vec<String>) {
    let Some(files) = &config.tls else { return };
    if fs::metadata(&files.key).is_ok_and(|metadata| metadata.mode() & FOR_OTHERS != 0) {
        warnings.push(format!(
            "tls.key {} is open to every user of this machine: chmod 640 it",
            files.key.display()
        ));
    }
}

/// The permissions of users that are neither owner nor of the group (inode(7)).
const FOR_OTHERS: u32 = 0o007;

/// Keys that say something which another key makes void.
fn useless_keys(config: &Config, raw: &Top, warnings: &mut Vec<String>) {
    useless_cache_keys(config, &raw.cache, warnings);
    if config.tls.is_some() && !config.listen.iter().any(|listen| listen.protocol.is_encrypted()) {
        warnings.push(
            "tls.certificate has no effect: add a listener of tls://, https://, quic:// or h3://".into(),
        );
    }
    for view in raw.view.iter().map(|view| view.get_ref()).filter(|view| !view.dns64) {
        if view.prefixes.is_some() || view.rule.values().iter().any(|value| !value.is_empty()) {
            let name = view.name.as_ref().map_or("", |name| name.get_ref().as_str());
            warnings.push(format!("view {name}: its DNS64 keys have no effect with dns64 = false"));
        }
    }
}

/// Keys of the cache that another key makes void.
fn useless_cache_keys(config: &Config, cache: &Cache, warnings: &mut Vec<String>) {
    if config.cache_octets == 0 {
        for (key, written) in [("stale", cache.stale), ("prefetch", cache.prefetch)] {
            if written.value && written.at.is_some() {
                warnings.push(format!("cache.{key} has no effect without a cache: raise size_mib above 0"));
            }
        }
    }
    let stale_keys = [cache.stale_age_max_s.at, cache.stale_ttl_s.at, cache.stale_client_timer_ms.at];
    if !cache.stale.value && stale_keys.iter().any(|at| at.is_some()) {
        warnings.push("cache.stale_... has no effect with stale = false".into());
    }
    let stale = config.settings.caching.stale;
    if stale.is_some_and(|stale| stale.client_timer_ns >= config.settings.asking.deadline_ns)
        && cache.stale_client_timer_ms.at.is_some()
    {
        warnings.push(
            "cache.stale_client_timer_ms is no shorter than upstream.deadline_ms: stale answers come late"
                .into(),
        );
    }
}
