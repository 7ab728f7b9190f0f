//! From the file as it stands to a configuration that makes sense.

use std::str::FromStr;
use std::sync::Arc;

use dns64::Range;

use super::place::{Place, Result};
use super::raw::{Number, Raw, RawCache, RawLimits, RawLocal};
use super::upstreams::NS_PER_MS;
use super::{
    Config, Listen, StreamLimits, keys, listeners, services, upstreams, validation, views, warnings,
};
use crate::settings::{Caching, Local, RateLimit, Settings, Stale, local_networks};

const OCTETS_PER_MIB: u64 = 1 << 20;
const CACHE_MIB: u64 = 64;
const LIMITS: StreamLimits =
    StreamLimits { connections: 1024, connections_per_network: 128, pipelined: 64, idle_ns: 10_000_000_000 };
/// Every second query above the limit is answered with TC, as is common.
const SLIP: u32 = 2;

/// Checks everything.
pub(super) fn check(raw: &Raw, place: &Place<'_>) -> Result<Config> {
    let listen = listeners::listeners(place, raw.listen.as_ref())?;
    let tls = listeners::tls(place, &raw.tls)?;
    let streams = stream_limits(place, &raw.limits)?;
    encrypted_listeners_can_work(place, raw, &listen, tls.is_some(), &streams)?;
    let upstreams::Upstreams { servers, upstreams, groups, routes } =
        upstreams::upstreams(place, raw, &listen)?;
    let settings = Settings {
        views: views::views(place, raw, &listen)?,
        upstreams,
        groups,
        routes,
        keepalive_100ms: u16::try_from(streams.idle_ns / NS_PER_MS / 100).unwrap_or(u16::MAX),
        ..settings(place, raw)?
    };
    let cache_mib = place.number("cache.size_mib", raw.cache.size_mib.as_ref(), CACHE_MIB)?;
    let config = Config {
        listen,
        tls,
        https_path: listeners::https_path(place, raw.tls.https_path.as_ref())?,
        upstreams: servers,
        upstream_roots: upstreams::roots(place, &raw.upstream)?,
        anchors: validation::anchors(place, raw.upstream.anchors.as_ref())?,
        threads: place.number("threads", raw.threads.as_ref(), 0)? as usize,
        cpus: cpus(place, &raw.cpus)?,
        streams,
        xdp: services::xdp(place, &raw.xdp)?,
        cache_octets: (cache_mib * OCTETS_PER_MIB) as usize,
        control: services::control(place, raw)?,
        metrics: services::metrics(place, raw)?,
        log: services::log(place, &raw.log)?,
        dnstap: services::dnstap(place, raw)?,
        process: services::process(place, &raw.process)?,
        settings,
        warnings: Vec::new(),
    };
    let warnings = warnings::warnings(&config, raw);
    Ok(Config { warnings, ..config })
}

/// What needs no other part of the configuration.
fn settings(place: &Place<'_>, raw: &Raw) -> Result<Settings> {
    let (default, limits, clients) = (Settings::default(), &raw.limits, &raw.clients);
    let udp_payload = limits.udp_payload_octets.as_ref();
    Ok(Settings {
        allow: match &raw.allow {
            Some(texts) => place.some("allow", texts, Range::from_str)?,
            None => local_networks(),
        },
        rate: rate(place, limits)?,
        asking: upstreams::asking(place, &raw.upstream)?,
        caching: caching(place, &raw.cache)?,
        local: local(place, &raw.local)?,
        in_flight: place.number("limits.in_flight", limits.in_flight.as_ref(), default.in_flight as u64)?
            as usize,
        udp_payload_octets: place.number(
            "limits.udp_payload_octets",
            udp_payload,
            default.udp_payload_octets.into(),
        )? as u16,
        extended_errors: clients.extended_errors.unwrap_or(default.extended_errors),
        cookies: clients.cookies.unwrap_or(default.cookies),
        own_sockets: Arc::new([]),
        ..default
    })
}

/// Listeners with a certificate need one, and connections.
fn encrypted_listeners_can_work(
    place: &Place<'_>,
    raw: &Raw,
    listen: &[Listen],
    has_certificate: bool,
    streams: &StreamLimits,
) -> Result<()> {
    let texts = raw.listen.iter().flat_map(|texts| texts.get_ref());
    for (index, (text, listen)) in texts.zip(listen).enumerate() {
        let key = format!("listen[{index}]");
        if listen.protocol.is_encrypted() && !has_certificate {
            return Err(place.value_error(
                &key,
                text,
                "needs a certificate: write tls.certificate and tls.key",
            ));
        }
        if listen.protocol.is_encrypted() && streams.connections == 0 {
            return Err(place.value_error(&key, text, "needs connections: raise limits.connections above 0"));
        }
    }
    Ok(())
}

fn cpus(place: &Place<'_>, numbers: &[Number]) -> Result<Vec<usize>> {
    let (low, high) = keys::bounds("cpus");
    let one = |(index, number): (usize, &Number)| {
        place.number_within(&format!("cpus[{index}]"), number, low, high).map(|number| number as usize)
    };
    numbers.iter().enumerate().map(one).collect()
}

fn stream_limits(place: &Place<'_>, raw: &RawLimits) -> Result<StreamLimits> {
    let RawLimits { connections, connections_per_network, pipelined, idle_ms, .. } = raw;
    let number = |key, value: &Option<_>, default: usize| {
        place.number(key, value.as_ref(), default as u64).map(|number| number as usize)
    };
    Ok(StreamLimits {
        connections: number("limits.connections", connections, LIMITS.connections)?,
        connections_per_network: number(
            "limits.connections_per_network",
            connections_per_network,
            LIMITS.connections_per_network,
        )?,
        pipelined: number("limits.pipelined", pipelined, LIMITS.pipelined)?,
        idle_ns: place.number("limits.idle_ms", idle_ms.as_ref(), LIMITS.idle_ns / NS_PER_MS)? * NS_PER_MS,
    })
}

fn rate(place: &Place<'_>, raw: &RawLimits) -> Result<Option<RateLimit>> {
    let number = |key, value: Option<&Number>, default: u32| {
        place.number(key, value, default.into()).map(|number| number as u32)
    };
    let Some(per_second) = &raw.queries_per_second else {
        let useless = [("burst", &raw.burst), ("slip", &raw.slip)];
        let Some((key, at)) =
            useless.iter().find_map(|(key, value)| Some((key, value.as_ref()?.span().start)))
        else {
            return Ok(None);
        };
        let reason = "has no effect alone: write queries_per_second, too";
        return Err(place.key_error(&format!("limits.{key}"), at, reason));
    };
    let per_second = number("limits.queries_per_second", Some(per_second), 1)?;
    Ok(Some(RateLimit {
        per_second,
        burst: number("limits.burst", raw.burst.as_ref(), per_second.saturating_mul(2))?,
        slip: number("limits.slip", raw.slip.as_ref(), SLIP)?,
    }))
}

fn caching(place: &Place<'_>, raw: &RawCache) -> Result<Caching> {
    let default = Caching::default();
    let number = |key, value: &Option<Number>, default: u32| {
        place.number(key, value.as_ref(), default.into()).map(|number| number as u32)
    };
    let stale = stale(place, raw)?;
    Ok(Caching {
        ttl_max_s: number("cache.ttl_max_s", &raw.ttl_max_s, default.ttl_max_s)?,
        negative_ttl_max_s: number(
            "cache.negative_ttl_max_s",
            &raw.negative_ttl_max_s,
            default.negative_ttl_max_s,
        )?,
        failure_ttl_s: number("cache.failure_ttl_s", &raw.failure_ttl_s, default.failure_ttl_s)?,
        stale: stale.filter(|_| raw.stale.unwrap_or(default.stale.is_some())),
        prefetch: raw.prefetch.unwrap_or(default.prefetch),
        nxdomain_cut: raw.nxdomain_cut.unwrap_or(default.nxdomain_cut),
    })
}

/// How stale answers are given, if they are; the keys are checked either way.
fn stale(place: &Place<'_>, raw: &RawCache) -> Result<Option<Stale>> {
    let Some(default) = Caching::default().stale else { return Ok(None) };
    let timer_ms = default.client_timer_ns / NS_PER_MS;
    let age_max_s =
        place.number("cache.stale_age_max_s", raw.stale_age_max_s.as_ref(), default.age_max_s.into())?;
    let ttl_s = place.number("cache.stale_ttl_s", raw.stale_ttl_s.as_ref(), default.ttl_s.into())?;
    let timer_ms =
        place.number("cache.stale_client_timer_ms", raw.stale_client_timer_ms.as_ref(), timer_ms)?;
    Ok(Some(Stale {
        age_max_s: age_max_s as u32,
        ttl_s: ttl_s as u32,
        client_timer_ns: timer_ms * NS_PER_MS,
    }))
}

fn local(place: &Place<'_>, raw: &RawLocal) -> Result<Local> {
    let default = Local::default();
    let ttl_s =
        place.number("local.ipv4only_ttl_s", raw.ipv4only_ttl_s.as_ref(), default.ipv4only_ttl_s.into())?;
    Ok(Local {
        ipv4only: raw.ipv4only.unwrap_or(default.ipv4only),
        ipv4only_ttl_s: ttl_s as u32,
        special_names: raw.special_names.unwrap_or(default.special_names),
        minimal_any: raw.minimal_any.unwrap_or(default.minimal_any),
    })
}
