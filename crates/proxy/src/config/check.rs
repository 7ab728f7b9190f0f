//! From the file as it stands to settings that make sense.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use dns64::reverse::Style;
use dns64::rule::{IPV4_MAPPED, Mapping, OnAaaaError, Policy};
use dns64::{Prefix, Range};
use toml::Spanned;

use super::{Config, ConfigError, Place, Raw, RawDns64, RawUpstream};
use crate::settings::{IN_FLIGHT_MAX, Settings, local_networks};

type Result<T> = std::result::Result<T, ConfigError>;

const NS_PER_MS: u64 = 1_000_000;
const DNS_PORT: u16 = 53;

pub(super) fn check(raw: Raw, place: &Place<'_>) -> Result<Config> {
    let listen = match &raw.listen {
        Some(texts) => listen(texts, place)?,
        None => vec![([0u16; 8], DNS_PORT).into(), ([0u8; 4], DNS_PORT).into()],
    };
    let upstreams = upstreams(&raw, &listen, place)?;
    let limits = &raw.limits;
    let in_range = |key, value: &Option<_>, default, low, high| number(place, key, value, default, low, high);
    let settings = Settings {
        rule: rule(&raw, place)?,
        ptr: choice(place, "dns64.ptr", raw.dns64.ptr.as_ref(), &PTR_CHOICES)?,
        allow: match &raw.allow {
            Some(texts) => list(place, "allow", texts, Range::from_str)?,
            None => local_networks(),
        },
        upstreams: upstreams.len(),
        in_flight: in_range("limits.in_flight", &limits.in_flight, 16_384, 1, IN_FLIGHT_MAX as u64)? as usize,
        udp_payload_octets: in_range(
            "limits.udp_payload_octets",
            &limits.udp_payload_octets,
            1232,
            512,
            4096,
        )? as u16,
        own_sockets: Arc::new([]),
        ..upstream_settings(&raw.upstream, place)?
    };
    let tcp_connections =
        in_range("limits.tcp_connections", &limits.tcp_connections, 256, 0, 65_535)? as usize;
    let tcp_idle_ms = in_range("limits.tcp_idle_ms", &limits.tcp_idle_ms, 10_000, 100, 3_600_000)?;
    let threads = raw.threads.as_ref().map_or(0, |threads| *threads.get_ref());
    if threads > 1024 {
        return Err(key_error(
            place,
            "threads",
            raw.threads.as_ref().map_or(0, |t| t.span().start),
            "over 1024",
        ));
    }
    let warnings = warnings(&settings);
    Ok(Config {
        listen,
        upstreams,
        threads,
        cpus: raw.cpus,
        tcp_connections,
        tcp_idle_ns: tcp_idle_ms * NS_PER_MS,
        settings,
        warnings,
    })
}

/// The addresses to listen on. With port 0 each takes a port of its own, so those may be equal.
fn listen(texts: &Spanned<Vec<Spanned<String>>>, place: &Place<'_>) -> Result<Vec<SocketAddr>> {
    if texts.get_ref().is_empty() {
        return Err(key_error(place, "listen", texts.span().start, "at least one is needed"));
    }
    let mut seen = Vec::new();
    list(place, "listen", texts.get_ref(), |text| {
        let address = address(text)?;
        if address.port() != 0 && seen.contains(&address) {
            return Err("twice in the list".to_owned());
        }
        seen.push(address);
        Ok(address)
    })
}

/// The upstream servers; none of them may be this server itself, which would ask itself for ever.
fn upstreams(raw: &Raw, listen: &[SocketAddr], place: &Place<'_>) -> Result<Vec<SocketAddr>> {
    let texts = raw.upstreams.get_ref();
    if texts.is_empty() {
        return Err(key_error(place, "upstreams", raw.upstreams.span().start, "at least one is needed"));
    }
    list(place, "upstreams", texts, |text| {
        let upstream = address(text)?;
        let ours = |listen: &SocketAddr| {
            let same_host = listen.ip() == upstream.ip()
                || (listen.ip().is_unspecified()
                    && upstream.ip().is_loopback()
                    && listen.is_ipv4() == upstream.is_ipv4());
            listen.port() == upstream.port() && listen.port() != 0 && same_host
        };
        if listen.iter().any(ours) {
            return Err("is also a listen address: it would ask itself for ever".to_owned());
        }
        if upstream.port() == 0 || upstream.ip().is_unspecified() {
            return Err("no address that can be asked".to_owned());
        }
        Ok(upstream)
    })
}

fn upstream_settings(raw: &RawUpstream, place: &Place<'_>) -> Result<Settings> {
    let default = Settings::default();
    let in_range = |key, value: &Option<_>, default, low, high| number(place, key, value, default, low, high);
    let deadline_ms =
        in_range("upstream.deadline_ms", &raw.deadline_ms, default.deadline_ns / NS_PER_MS, 1, 60_000)?;
    let timeout_ms =
        in_range("upstream.timeout_ms", &raw.timeout_ms, default.timeout_ns / NS_PER_MS, 1, deadline_ms);
    // The default timeout may be longer than a short deadline of the operator.
    let timeout_ms = if raw.timeout_ms.is_some() { timeout_ms? } else { timeout_ms.unwrap_or(deadline_ms) };
    Ok(Settings {
        ports: in_range("upstream.ports", &raw.ports, default.ports as u64, 1, 1024)? as usize,
        tcp_only: choice(place, "upstream.transport", raw.transport.as_ref(), &TRANSPORT_CHOICES)?,
        timeout_ns: timeout_ms.min(deadline_ms) * NS_PER_MS,
        tries: in_range("upstream.tries", &raw.tries, default.tries.into(), 1, 3)? as u8,
        deadline_ns: deadline_ms * NS_PER_MS,
        case_randomization: raw.case_randomization.unwrap_or(default.case_randomization),
        trust_ad: raw.trust_ad.unwrap_or(default.trust_ad),
        ..default
    })
}

fn rule(raw: &Raw, place: &Place<'_>) -> Result<Policy> {
    let RawDns64 { exclude, on_aaaa_error, synthesize_with_cd, strict_well_known, map, .. } = &raw.dns64;
    let default = Policy::default();
    Ok(Policy {
        prefixes: match &raw.prefixes {
            Some(texts) => prefixes(texts, place)?,
            None => default.prefixes,
        },
        mappings: map.iter().map(|(range, prefix)| mapping(place, range, prefix)).collect::<Result<_>>()?,
        excluded: match exclude {
            Some(texts) => list(place, "dns64.exclude", texts, ipv6_range)?,
            None => vec![IPV4_MAPPED],
        },
        on_aaaa_error: choice(place, "dns64.on_aaaa_error", on_aaaa_error.as_ref(), &ERROR_CHOICES)?,
        synthesize_with_cd: synthesize_with_cd.unwrap_or(default.synthesize_with_cd),
        strict_well_known: strict_well_known.unwrap_or(default.strict_well_known),
    })
}

fn prefixes(texts: &Spanned<Vec<Spanned<String>>>, place: &Place<'_>) -> Result<Vec<Prefix>> {
    if texts.get_ref().is_empty() {
        return Err(key_error(place, "prefixes", texts.span().start, "at least one is needed"));
    }
    let mut seen = Vec::new();
    list(place, "prefixes", texts.get_ref(), |text| {
        let prefix: Prefix = text.parse().map_err(|error: dns64::prefix::PrefixError| error.to_string())?;
        if seen.contains(&prefix) {
            return Err("twice in the list".to_owned());
        }
        seen.push(prefix);
        Ok(prefix)
    })
}

fn mapping(place: &Place<'_>, range: &str, prefix: &Spanned<String>) -> Result<Mapping> {
    let (key, at) = (format!("dns64.map.'{range}'"), prefix.span().start);
    let fault = |reason: &dyn Display| key_error(place, &key, at, reason);
    let range: Range = range.parse().map_err(|error| fault(&error))?;
    if range.first().is_ipv6() {
        return Err(fault(&"not an IPv4 range"));
    }
    let text = prefix.get_ref();
    let prefix = match text.as_str() {
        "none" => None,
        text => Some(text.parse().map_err(|error| value_error(place, &key, text, at, error))?),
    };
    Ok(Mapping { range, prefix })
}

fn ipv6_range(text: &str) -> std::result::Result<Range, String> {
    let range: Range = text.parse().map_err(|error: dns64::range::RangeError| error.to_string())?;
    if range.first().is_ipv4() { Err("not an IPv6 range".into()) } else { Ok(range) }
}

fn address(text: &str) -> std::result::Result<SocketAddr, String> {
    let without_port = |text: &str| text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, DNS_PORT));
    text.parse()
        .or_else(|_| without_port(text))
        .map_err(|_| "not an address: write 192.0.2.1:53 or [2001:db8::1]:53".to_owned())
}

/// What harms users without being wrong.
fn warnings(settings: &Settings) -> Vec<String> {
    let rule = &settings.rule;
    let mut warnings = Vec::new();
    for range in settings.allow.iter().filter(|range| range.length_bits() == 0) {
        warnings
            .push(format!("allow {range} makes this an open resolver, which attackers use against others"));
    }
    if rule.prefixes.contains(&Prefix::WELL_KNOWN) && !rule.strict_well_known {
        warnings.push(
            "prefix 64:ff9b::/96 without strict_well_known carries private addresses, which RFC 6052 3.1 forbids: \
             choose a prefix of your own"
                .into(),
        );
    }
    let private = |mapping: &&Mapping| local_networks().iter().any(|local| local.overlaps(&mapping.range));
    let well_known = |mapping: &&Mapping| mapping.prefix == Some(Prefix::WELL_KNOWN);
    for Mapping { range, .. } in rule.mappings.iter().filter(well_known).filter(private) {
        warnings.push(format!(
            "dns64.map.'{range}' holds private addresses, which 64:ff9b::/96 must not carry (RFC 6052 3.1): choose a \
             prefix of your own"
        ));
    }
    let prefixes =
        rule.prefixes.iter().chain(rule.mappings.iter().filter_map(|mapping| mapping.prefix.as_ref()));
    for prefix in prefixes {
        if let Some(range) = rule.excluded.iter().find(|range| range.contains(prefix.address().into())) {
            warnings.push(format!(
                "dns64.exclude {range} holds the prefix {prefix}: AAAA records there are replaced"
            ));
        }
    }
    if settings.timeout_ns * u64::from(settings.tries) >= settings.deadline_ns {
        warnings.push(
            "upstream.deadline_ms leaves no time to ask for A after an AAAA query that timed out: raise it, or lower \
             timeout_ms"
                .into(),
        );
    }
    warnings
}

const PTR_CHOICES: [(&str, Option<Style>); 3] =
    [("cname", Some(Style::Cname)), ("answer", Some(Style::Answer)), ("off", None)];
const ERROR_CHOICES: [(&str, OnAaaaError); 2] =
    [("synthesize", OnAaaaError::Synthesize), ("fail", OnAaaaError::Fail)];
const TRANSPORT_CHOICES: [(&str, bool); 2] = [("udp", false), ("tcp", true)];

/// One of a few words; the first is the default.
fn choice<T: Copy>(
    place: &Place<'_>,
    key: &str,
    text: Option<&Spanned<String>>,
    choices: &[(&str, T)],
) -> Result<T> {
    let Some(text) = text else { return Ok(choices[0].1) };
    let found = choices.iter().find(|(word, _)| word == text.get_ref());
    found.map(|&(_, value)| value).ok_or_else(|| {
        let words: Vec<&str> = choices.iter().map(|&(word, _)| word).collect();
        let (last, others) = words.split_last().unwrap_or((&"", &[]));
        let reason = format!("choose {} or {last}", others.join(", "));
        value_error(place, key, text.get_ref(), text.span().start, reason)
    })
}

fn number(
    place: &Place<'_>,
    key: &str,
    value: &Option<Spanned<u64>>,
    default: u64,
    low: u64,
    high: u64,
) -> Result<u64> {
    let (number, at) = value.as_ref().map_or((default, 0), |value| (*value.get_ref(), value.span().start));
    if (low..=high).contains(&number) {
        return Ok(number);
    }
    Err(place.error(at, format_args!("{key} {number}: must be {low} to {high}")))
}

/// Each text of a list, or the error of the first that is wrong.
fn list<T, E: Display>(
    place: &Place<'_>,
    key: &str,
    texts: &[Spanned<String>],
    mut read: impl FnMut(&str) -> std::result::Result<T, E>,
) -> Result<Vec<T>> {
    let one = |(index, text): (usize, &Spanned<String>)| {
        let key = format!("{key}[{index}]");
        read(text.get_ref())
            .map_err(|error| value_error(place, &key, text.get_ref(), text.span().start, error))
    };
    texts.iter().enumerate().map(one).collect()
}

fn key_error(place: &Place<'_>, key: &str, at: usize, reason: impl Display) -> ConfigError {
    place.error(at, format_args!("{key}: {reason}"))
}

fn value_error(place: &Place<'_>, key: &str, value: &str, at: usize, reason: impl Display) -> ConfigError {
    // A value with line breaks must not break the one line of the error.
    place.error(at, format_args!("{key} '{}': {reason}", value.escape_debug()))
}
