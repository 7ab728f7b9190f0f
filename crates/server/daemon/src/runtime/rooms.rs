//! The side threads of the streams: their number, how they pass messages to the threads of the machines, and
//! what they know of the upstream servers.

use std::sync::Arc;

use streams::{Roots, Streams};

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

/// How each upstream server is asked over a stream.
pub(super) fn stream_upstreams(config: &Config) -> Result<Vec<streams::Upstream>, ServerError> {
    let encrypted = config.upstreams.iter().any(|upstream| upstream.protocol.is_encrypted());
    let roots = match &config.upstream_roots {
        _ if !encrypted => None,
        Some(path) => Some(Roots::load(path).map_err(ServerError::Tls)?),
        None => Some(Roots::system().map_err(ServerError::Tls)?),
    };
    let upstream = |upstream: &UpstreamServer| streams::Upstream {
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
    };
    Ok(config.upstreams.iter().map(upstream).collect())
}
