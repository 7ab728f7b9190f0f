//! What the room of the streams tells of itself.

use streams::{Counts, Protocol, ProtocolCounts};

use crate::snapshot::Reading;

/// Its counters for the metrics and the control socket.
pub(super) fn stream_readings(counts: &Counts) -> Vec<Reading> {
    let sum = |field: fn(&ProtocolCounts) -> u64| counts.clients.iter().map(field).sum();
    let queries = |protocol| counts.of(protocol).queries;
    let upstreams = &counts.upstreams;
    vec![
        Reading::gauge(
            "stream_connections",
            "Connections of clients over TCP, TLS, HTTPS and QUIC",
            sum(|c| c.open),
        ),
        Reading::counter("stream_connections_accepted", "Connections of clients taken", sum(|c| c.accepted)),
        Reading::counter(
            "stream_connections_refused",
            "Connections of clients turned away by a limit",
            sum(|c| c.refused),
        ),
        Reading::counter(
            "stream_handshake_failures",
            "Handshakes with clients that failed or took too long",
            sum(|c| c.handshake_failures),
        ),
        Reading::counter(
            "stream_malformed",
            "Connections and requests that broke their protocol",
            sum(|c| c.malformed),
        ),
        Reading::counter(
            "stream_too_slow",
            "Connections cut off because the client was too slow",
            sum(|c| c.too_slow),
        ),
        Reading::counter("tcp_queries", "Queries over TCP", queries(Protocol::Tcp)),
        Reading::counter("tls_queries", "Queries over TLS", queries(Protocol::Tls)),
        Reading::counter("https_queries", "Queries over HTTPS", queries(Protocol::Https)),
        Reading::counter("quic_queries", "Queries over QUIC", queries(Protocol::Quic)),
        Reading::counter(
            "upstream_connections",
            "Connections made to upstream servers",
            upstreams.connections,
        ),
        Reading::counter(
            "upstream_connection_failures",
            "Connections to upstream servers that could not be made",
            upstreams.connection_failures,
        ),
        Reading::counter(
            "upstream_stream_retries",
            "Questions sent again because their connection ended before the answer",
            upstreams.retries,
        ),
    ]
}
