//! The counters of the side threads of the streams.

use streams::{Counts, Protocol, ProtocolCounts};

use crate::snapshot::Metric;

/// Its counters for the metrics and the control socket.
pub(super) fn stream_readings(counts: &Counts) -> Vec<Metric> {
    let sum = |field: fn(&ProtocolCounts) -> u64| counts.clients.iter().map(field).sum();
    let (queries, upstreams) = (|protocol| counts.of(protocol).queries, &counts.upstreams);
    vec![
        Metric::gauge(
            "stream_connections",
            "Connections of clients over TCP, TLS, HTTPS, QUIC and HTTP/3",
            sum(|c| c.open),
        ),
        Metric::counter("stream_connections_accepted", "Connections of clients taken", sum(|c| c.accepted)),
        Metric::counter(
            "stream_connections_refused",
            "Connections of clients turned away by a limit",
            sum(|c| c.refused),
        ),
        Metric::counter(
            "stream_connections_evicted",
            "Connections of clients ended to make room for others",
            sum(|c| c.evicted),
        ),
        Metric::counter(
            "stream_strangers",
            "Connections of clients that may not ask, ended at once",
            sum(|c| c.strangers),
        ),
        Metric::counter(
            "stream_handshake_failures",
            "Handshakes with clients that failed or took too long",
            sum(|c| c.handshake_failures),
        ),
        Metric::counter(
            "stream_malformed",
            "Connections and requests that broke their protocol",
            sum(|c| c.malformed),
        ),
        Metric::counter(
            "stream_too_slow",
            "Connections cut off because the client was too slow",
            sum(|c| c.too_slow),
        ),
        Metric::counter("tcp_queries", "Queries over TCP", queries(Protocol::Tcp)),
        Metric::counter("tls_queries", "Queries over TLS", queries(Protocol::Tls)),
        Metric::counter("https_queries", "Queries over HTTPS", queries(Protocol::Https)),
        Metric::counter("quic_queries", "Queries over QUIC", queries(Protocol::Quic)),
        Metric::counter("http3_queries", "Queries over HTTP/3", queries(Protocol::Http3)),
        Metric::counter(
            "upstream_connections",
            "Connections made to upstream servers",
            upstreams.connections,
        ),
        Metric::counter(
            "upstream_connection_failures",
            "Connections to upstream servers that could not be made",
            upstreams.connection_failures,
        ),
        Metric::counter(
            "upstream_stream_retries",
            "Questions sent again because their connection ended before the answer",
            upstreams.retries,
        ),
    ]
}
