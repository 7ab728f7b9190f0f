//! The server that a trial asks, and the AuthDNS behind the server.

use std::net::SocketAddr;
use std::sync::Arc;

use authdns::{Authority, Io, Zone, ZoneConfig};
use engine::pacer::Model;
use engine::trial::Validity;
use engine::verdict::Limits;
use engine::workload::WorkloadSpec;
use measurer::transport::stream::{StreamConfig, Tls};
use record::{Replay, Transport};

/// Whom to ask, and what to expect.
#[derive(Clone, Debug)]
pub struct Target {
    /// The server.
    pub server: SocketAddr,
    /// Queries go by connections; `None`: in UDP datagrams.
    pub streams: Option<StreamConfig>,
    /// A trial passes only if all connections are had before its first query and none ends before its last
    /// answer.
    pub connections_stand: bool,
    /// The names and answers; the first name is the Tester's affair.
    pub workload: WorkloadSpec,
    /// An answer is late after this, in ns.
    pub timeout_ns: u64,
    /// How long to listen after the last query, in ns.
    pub listen_ns: u64,
    /// What its trials are judged by; these limits follow the timeout of the server under test.
    pub limits: Limits,
    /// Which answers are valid.
    pub validity: Validity,
    /// How the queries lie in time.
    pub load: Model,
    /// The server's processes, without those that they started; empty if they are not known.
    pub pids: Vec<u32>,
    /// Keep a log of every query of a trial (it comes back with the trial).
    pub log: bool,
    /// The capture that the queries are of, for the record.
    pub replay: Option<Replay>,
}

impl Target {
    /// So many connections are to stand through a trial; `None`: they may come and go.
    pub(crate) fn standing(&self) -> Option<u64> {
        self.streams.as_ref().filter(|_| self.connections_stand).map(|streams| streams.connections as u64)
    }

    /// The same server, asked by so many connections.
    pub fn with_connections(&self, connections: u64) -> Self {
        let connections = usize::try_from(connections).unwrap_or(usize::MAX);
        let streams = self.streams.clone().map(|streams| StreamConfig { connections, ..streams });
        Self { streams, ..self.clone() }
    }
}

/// How the record names the way of the queries.
pub fn transport_of(streams: &StreamConfig) -> Transport {
    let tls = streams.tls.as_ref();
    Transport {
        protocol: streams.protocol.name().into(),
        connections: streams.connections,
        queries_each: streams.queries_each.median,
        queries_sigma: Some(streams.queries_each.sigma).filter(|&sigma| sigma > 0.0),
        pipelined: streams.pipelined,
        idle_s: streams.idle_ns.map(|idle_ns| idle_ns as f64 / 1e9),
        certificate: tls.map(|tls| tls.certificate().to_owned()).unwrap_or_default(),
        resumption: tls.is_some_and(Tls::resumes),
        request: streams.https.as_ref().map(ToString::to_string).unwrap_or_default(),
    }
}

/// The AuthDNS, if it is ours.
pub struct Auth {
    /// Answers what the server under test asks.
    pub authority: Authority,
    /// The Measurer's first thread does its work during trials; otherwise it has threads of its own.
    pub hosted: bool,
}

impl Auth {
    /// Its back-end, and whether it is hosted.
    pub fn way(&self) -> (Io, bool) {
        (self.authority.io(), self.hosted)
    }
}

/// The zone of the self-test: every name of the target has a AAAA record, the one that the target expects.
///
/// # Errors
/// The suffix is no zone's name: one line.
pub(crate) fn direct_zone(target: &Target) -> Result<Arc<Zone>, String> {
    let config = ZoneConfig {
        suffix: target.workload.suffix.to_string(),
        aaaa_share_percent: 100,
        aaaa_prefix: target.workload.prefix,
        ..ZoneConfig::default()
    };
    Zone::new(config).map(Arc::new).map_err(|error| error.to_string())
}

/// The timeout of the self-test for a timeout, in ns.
pub fn selftest_timeout_ns(timeout_ns: u64) -> u64 {
    Limits::for_timeout(timeout_ns).auth_answer_ns
}
