//! The side threads of the streams: their number, how they pass messages to the threads of the machines, and
//! what they know of the upstream servers.

use std::sync::Arc;

use server_core::settings::Upstream;
use streams::{Roots, Streams, UPSTREAM_IN_FLIGHT_MAX};

use super::ServerError;
use super::inbox::{Event, Inbox};
use super::outlet::stream_token;
use crate::config::{Config, UpstreamProtocol, UpstreamServer};

/// Threads for clients at most, where the configuration leaves their number to the program.
const CLIENT_THREADS_MAX: usize = 64;

/// The room of the streams: queries go to the threads in turn, answers to the thread that asked.
pub(super) fn start_streams(config: &Config, inboxes: &Arc<[Arc<Inbox>]>) -> Result<Streams, ServerError> {
    let (for_queries, for_answers) = (inboxes.clone(), inboxes.clone());
    Streams::start(
        "dns64d",
        match config.stream_threads {
            0 => sys::cpu::available().len().clamp(1, CLIENT_THREADS_MAX),
            threads => threads,
        },
        move |query| {
            let worker = query.token as usize % for_queries.len();
            for_queries[worker].push(Event::Query(query));
        },
        move |answer| {
            let (worker, generation, token) = stream_token::split(answer.token);
            if let Some(inbox) = for_answers.get(worker) {
                inbox.push(Event::Answer { generation, token, octets: answer.octets });
            }
        },
    )
    .map_err(|error| ServerError::System("start the threads of the streams", error))
}

/// How each upstream server is asked over a stream, by so many threads of machines.
pub(super) fn stream_upstreams(
    config: &Config,
    threads: usize,
) -> Result<Vec<streams::Upstream>, ServerError> {
    let encrypted = config.upstreams.iter().any(|upstream| upstream.protocol.is_encrypted());
    let roots = match &config.upstream_roots {
        _ if !encrypted => None,
        Some(path) => Some(Roots::load(path).map_err(ServerError::Tls)?),
        None => Some(Roots::system().map_err(ServerError::Tls)?),
    };
    let upstream = |(upstream, settings): (&UpstreamServer, &Upstream)| streams::Upstream {
        address: upstream.address,
        protocol: match upstream.protocol {
            UpstreamProtocol::Udp | UpstreamProtocol::Tcp => streams::Protocol::Tcp,
            UpstreamProtocol::Tls => streams::Protocol::Tls,
            UpstreamProtocol::Https => streams::Protocol::Https,
            UpstreamProtocol::Quic => streams::Protocol::Quic,
        },
        tls_name: upstream.tls_name.clone(),
        path: upstream.path.clone(),
        source: upstream.source_address(),
        roots: roots.clone(),
        // As many again: what a machine has given up ends here a moment later.
        in_flight: settings.in_flight.min(config.settings.in_flight).saturating_mul(2 * threads),
    };
    Ok(config.upstreams.iter().zip(&config.settings.upstreams).map(upstream).collect())
}

/// The upstream servers with the limits of each of so many machines. One that is asked over streams alone is
/// given no more questions by all machines together than half of what its connection has places for: so the
/// machines find that it is full, and can be fair.
pub(super) fn limited(config: &Config, threads: usize) -> Vec<Upstream> {
    let limit = (UPSTREAM_IN_FLIGHT_MAX / 2 / threads).max(1);
    let limited = |upstream: &Upstream| match upstream.stream_only {
        true => Upstream { in_flight: upstream.in_flight.min(limit), ..*upstream },
        false => *upstream,
    };
    config.settings.upstreams.iter().map(limited).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_the_machines_reach_their_limits_before_the_streams_do() {
        for (more, threads) in [("", 1), ("", 8), ("[upstream]\nin_flight = 100", 4)] {
            let text = format!("upstreams = [\"tcp://127.0.0.2\"]\nlisten = [\"127.0.0.1:5353\"]\n{more}");
            let config = Config::parse(&text, "test").unwrap();
            let of_machines = threads * limited(&config, threads)[0].in_flight.min(config.settings.in_flight);
            let of_streams = stream_upstreams(&config, threads).unwrap()[0].in_flight;
            let of_streams = of_streams.min(UPSTREAM_IN_FLIGHT_MAX);
            assert!(2 * of_machines <= of_streams, "{more}: {of_machines} {of_streams}");
            assert!(of_machines >= 400);
        }
    }
}
