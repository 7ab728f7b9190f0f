//! `docs/performance/tester.json`: the Measurer beside other load generators.

mod goals;
mod lanes;
mod render;
mod replay;
mod streams;

use serde::{Deserialize, Serialize};

use crate::{Origin, Program, Sample};

pub use lanes::{Lanes, ProgramCost, Try};
pub use render::block;
pub use replay::Replayed;
pub use streams::{Asked, Evenness, KXDPGUN, Memory, SEXTANT, Streams};

/// The name of the tool that is the Measurer with a back-end, for example `sextant --io udp`.
pub fn ours(io: &str) -> String {
    format!("sextant --io {io}")
}

/// dnsperf in tables.
pub const DNSPERF: &str = "dnsperf";
/// resperf in tables.
pub const RESPERF: &str = "resperf";
/// The reflector on sockets in tables.
pub const SOCKETS: &str = "recvmmsg reflector";
/// The reflector in the kernel in tables.
pub const XDP: &str = "XDP reflector";
/// NSD in tables.
pub const NSD: &str = "NSD, 1 process";
/// The AuthDNS on sockets in tables.
pub const AUTH: &str = "sextant auth";
/// Unbound in tables.
pub const UNBOUND: &str = "Unbound, 1 thread";
/// Knot with QUIC in tables: it has QUIC over AF_XDP alone.
pub const KNOT: &str = "Knot, AF_XDP";

/// The name of kxdpgun with this many queries in a batch.
pub fn kxdpgun(batch: u32) -> String {
    format!("kxdpgun -b {batch}")
}

/// One run of `make bench-tester`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When, of what, and where.
    pub origin: Origin,
    /// The tools and the servers.
    pub programs: Vec<Program>,
    /// So often everything was measured.
    pub rounds: usize,
    /// Answered queries: each server with all tools.
    pub capacity: Vec<Target>,
    /// Evenness of the sending.
    pub evenness: Vec<Pacing>,
    /// Rates that some tools do not keep.
    pub rates: Vec<Pacing>,
    /// The server that is stopped; absent if that was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<Stall>,
    /// Both halves of the Tester in the kernel, on one processor and on more; absent likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<Lanes>,
    /// Queries by connections; absent likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<Streams>,
}

/// A server, asked by all tools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// A row for each tool.
    pub rows: Vec<Capacity>,
}

/// How many queries a tool got answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// The tool.
    pub tool: String,
    /// Answers per second of sending.
    pub answered_qps: Sample,
    /// The answered share of the queries, in percent.
    pub answered_pct: Sample,
    /// Busy time of the Tester's processor for each answer, in µs.
    pub busy_us: Sample,
}

/// How evenly a tool sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pacing {
    /// The rate in q/s.
    pub rate_qps: u64,
    /// The tool.
    pub tool: String,
    /// Who received.
    pub receiver: String,
    /// Coefficient of variation of the counts of 1 ms windows, in percent.
    pub cv_1_ms_pct: Sample,
    /// The same of 10 ms windows.
    pub cv_10_ms_pct: Sample,
    /// The largest deviation of a 10 ms window, in percent.
    pub worst_10_ms_pct: Sample,
    /// The longest gap between two queries, in ms.
    pub gap_ms: Sample,
    /// Queries that arrived beyond rate x time.
    pub excess: Sample,
}

/// The server stopped for 200 ms: measured, by arithmetic, and the difference in percent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// Queries slower than 20 ms.
    pub slow: [Sample; 3],
    /// The 99th percentile of the latency in ms.
    pub p99_ms: [Sample; 3],
    /// The 99.9th percentile of the latency in ms.
    pub p999_ms: [Sample; 3],
}

impl Target {
    /// The row of a tool.
    pub fn row(&self, tool: &str) -> Option<&Capacity> {
        self.rows.iter().find(|row| row.tool == tool)
    }
}

impl Record {
    /// A server by its name.
    pub fn target(&self, name: &str) -> Option<&Target> {
        self.capacity.iter().find(|target| target.name == name)
    }
}
