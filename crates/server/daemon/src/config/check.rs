//! Checks the values of the file, and makes a configuration from them.

use std::str::FromStr;

use dns64::Range;
use server_core::settings::{Caching, Local, RateLimit, Settings, Stale};

use super::keys::{self, Limits, Number, Top};
use super::place::{Result, SourceText};
use super::upstreams::NS_PER_MS;
use super::{
    Config, Listen, LogChoice, StreamLimits, listeners, services, upstreams, validation, views, warnings,
};

const OCTETS_PER_MIB: usize = 1 << 20;
/// Every second query above the limit is answered with TC, as is common.
const SLIP: u32 = 2;

pub(super) fn check(raw: &Top, place: &SourceText<'_>) -> Result<Config> {
    let listen = listeners::listeners(place, &raw.listen)?;
    let tls = listeners::tls(place, &raw.tls)?;
    let streams = stream_limits(&raw.limits);
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
    let config = Config {
        listen,
        tls,
        https_path: listeners::https_path(place, &raw.tls.https_path)?,
        upstreams: servers,
        upstream_roots: upstreams::roots(place, &raw.upstream)?,
        anchors: validation::anchors(place, raw.upstream.anchors.as_ref())?,
        threads: raw.threads.0,
        stream_threads: raw.stream_threads.0,
        cpus: raw.cpus.iter().map(|cpu| cpu.0).collect(),
        streams,
        xdp: services::xdp(place, &raw.xdp)?,
        cache_octets: raw.cache.size_mib.0 * OCTETS_PER_MIB,
        control: services::control(place, raw)?,
        metrics: services::metrics(place, raw)?,
        log: LogChoice { level: raw.log.level.0, format: raw.log.format.0, queries: raw.log.queries },
        dnstap: services::dnstap(place, raw)?,
        process: services::process(place, &raw.process)?,
        settings,
        warnings: Vec::new(),
        at_start: at_start(raw),
    };
    let warnings = warnings::warnings(&config, raw);
    Ok(Config { warnings, ..config })
}

/// The keys whose new values a running program does not take on, with their values.
fn at_start(raw: &Top) -> Vec<(String, String)> {
    let dnstap = raw.dnstap.as_ref().map(|dnstap| (&keys::Dnstap::TABLE, dnstap.get_ref().values()));
    let tables = [
        (&Top::TABLE, raw.values()),
        (&keys::Xdp::TABLE, raw.xdp.values()),
        (&keys::Control::TABLE, raw.control.values()),
        (&keys::Metrics::TABLE, raw.metrics.values()),
        (&keys::Log::TABLE, raw.log.values()),
        (&keys::Process::TABLE, raw.process.values()),
    ];
    tables.into_iter().chain(dnstap).flat_map(|(table, values)| table.at_start(values)).collect()
}

/// What needs no other part of the configuration.
fn settings(place: &SourceText<'_>, raw: &Top) -> Result<Settings> {
    Ok(Settings {
        allow: place.some(&raw.allow, Range::from_str)?,
        rate: rate(place, &raw.limits)?,
        asking: upstreams::asking(place, &raw.upstream)?,
        caching: caching(&raw.cache),
        local: local(&raw.local),
        in_flight: raw.limits.in_flight.0,
        in_flight_per_zone: share(raw.limits.in_flight_per_zone.as_ref(), &raw.limits),
        udp_payload_octets: raw.limits.udp_payload_octets.0,
        extended_errors: raw.clients.extended_errors,
        cookies: raw.clients.cookies,
        ..Settings::default()
    })
}

/// Listeners with a certificate need one, and connections.
fn encrypted_listeners_can_work(
    place: &SourceText<'_>,
    raw: &Top,
    listen: &[Listen],
    has_certificate: bool,
    streams: &StreamLimits,
) -> Result<()> {
    for (text, listen) in raw.listen.get_ref().iter().zip(listen) {
        if listen.protocol.is_encrypted() && !has_certificate {
            return Err(place.text_error(text, "needs a certificate: write tls.certificate and tls.key"));
        }
        if listen.protocol.is_encrypted() && streams.connections == 0 {
            return Err(place.text_error(text, "needs connections: raise limits.connections above 0"));
        }
    }
    Ok(())
}

fn stream_limits(raw: &Limits) -> StreamLimits {
    StreamLimits {
        connections: raw.connections.0,
        connections_per_network: raw.connections_per_network.0,
        connections_per_address: raw.connections_per_address.0,
        handshakes_per_second: raw.handshakes_per_second.0,
        pipelined: raw.pipelined.0,
        idle_ns: raw.idle_ms.0 * NS_PER_MS,
    }
}

/// A limit within `limits.in_flight`: half of it where none is written.
pub(super) fn share(limit: Option<&Number<usize, 1, 65_535>>, limits: &Limits) -> usize {
    limit.map_or((limits.in_flight.0 / 2).max(1), |limit| limit.0)
}

fn rate(place: &SourceText<'_>, raw: &Limits) -> Result<Option<RateLimit>> {
    let Some(Number(per_second)) = raw.queries_per_second else {
        let burst = raw.burst.as_ref().map(|burst| burst.span());
        return match burst.or(raw.slip.as_ref().map(|slip| slip.span())) {
            Some(span) => {
                Err(place.error_at(span.start, "has no effect alone: write queries_per_second, too"))
            }
            None => Ok(None),
        };
    };
    Ok(Some(RateLimit {
        per_second,
        burst: raw.burst.as_ref().map_or(per_second.saturating_mul(2), |burst| burst.get_ref().0),
        slip: raw.slip.as_ref().map_or(SLIP, |slip| slip.get_ref().0),
    }))
}

fn caching(raw: &keys::Cache) -> Caching {
    let stale = Stale {
        age_max_s: raw.stale_age_max_s.value.0,
        ttl_s: raw.stale_ttl_s.value.0,
        client_timer_ns: raw.stale_client_timer_ms.value.0 * NS_PER_MS,
    };
    Caching {
        ttl_max_s: raw.ttl_max_s.0,
        negative_ttl_max_s: raw.negative_ttl_max_s.0,
        failure_ttl_s: raw.failure_ttl_s.0,
        stale: raw.stale.value.then_some(stale),
        prefetch: raw.prefetch.value,
        nxdomain_cut: raw.nxdomain_cut,
    }
}

fn local(raw: &keys::Local) -> Local {
    let &keys::Local {
        ipv4only,
        ipv4only_ttl_s: Number(ipv4only_ttl_s),
        special_names,
        private_zones,
        minimal_any,
    } = raw;
    Local { ipv4only, ipv4only_ttl_s, special_names, private_zones, minimal_any }
}
