//! `docs/performance/dns64.json`: dns64d beside other DNS64 servers.

mod goals;
mod render;

use serde::{Deserialize, Serialize};

use crate::{Origin, Sample};

pub use render::{block, readme};

/// The server that the others are compared with.
pub const OURS: &str = "dns64d";
/// The shares of cached names, and of names with AAAA records, in percent.
pub const SHARES_PCT: [u8; 3] = [0, 50, 100];

/// One run of `make bench-dns64`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When, of what, and where.
    pub origin: Origin,
    /// How queries left, and how the AuthDNS answered.
    pub io: String,
    /// Whether all names were equally long, so that queries can be joined; else their lengths were random.
    pub names_equally_long: bool,
    /// So often everything was measured.
    pub rounds: usize,
    /// Length of a trial of the rate search, of a latency trial, and of a closed loop, in seconds.
    pub search_s: f64,
    /// See [`Record::search_s`].
    pub latency_s: f64,
    /// See [`Record::search_s`].
    pub cell_s: f64,
    /// Whether a server with two cores shared one of them with the Tester.
    pub two_cores_shared: bool,
    /// In the order of the tables.
    pub servers: Vec<Server>,
    /// Servers that were left out, and why.
    pub missing: Vec<String>,
    /// Servers that failed, and why.
    pub failures: Vec<String>,
    /// What another method found for the same quotients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub second_method: Vec<SecondMethod>,
}

/// The figures of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// As in `sextant peers list`.
    pub name: String,
    /// As it states it.
    pub version: String,
    /// The smallest receive buffer of the sockets it listens at, as the kernel counts it, in octets; absent
    /// if it was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_buffer_octets: Option<u64>,
    /// With one core.
    pub one_core: Rates,
    /// With two cores; absent if that was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub two_cores: Option<Rates>,
    /// Processor time, with one core.
    pub costs: Costs,
    /// Latency at parts of its own rate, with one core.
    pub latencies: Vec<Latencies>,
    /// Start and memory, with one core.
    pub sizes: Sizes,
    /// Cached share by AAAA share, with one core.
    pub shares: Vec<Shares>,
}

/// Rates, and what the hypervisor took meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// The rate of RFC 8219 in q/s.
    pub rfc8219_qps: Sample,
    /// How long after the end of the schedule the last answers came at most at that rate, in seconds; absent
    /// in older records.
    #[serde(default, skip_serializing_if = "Sample::is_empty")]
    pub drain_s: Sample,
    /// The rate of RFC 8219 times T / (T + d), where T is the length of the trials and d is
    /// [`Rates::drain_s`]: what the server kept up with, in q/s; absent in older records.
    #[serde(default, skip_serializing_if = "Sample::is_empty")]
    pub kept_up_qps: Sample,
    /// Valid answers per second in a closed loop, of names that are not cached.
    pub misses_qps: Sample,
    /// The same of cached names.
    pub hits_qps: Sample,
    /// Steal in percent of a processor.
    pub steal_pct: Sample,
}

/// Processor time for each answer in µs: of the server's process, and of its processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Of a miss at half of the server's rate.
    pub miss_half_us: Sample,
    /// Of a miss in a closed loop.
    pub miss_us: Sample,
    /// The busy time of the processor then.
    pub miss_processor_us: Sample,
    /// Of a hit in a closed loop.
    pub hit_us: Sample,
    /// The busy time of the processor then.
    pub hit_processor_us: Sample,
    /// Steal in percent of a processor.
    pub steal_pct: Sample,
}

/// Latency at a part of the server's own rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// The part in percent.
    pub load_pct: u8,
    /// The rate in q/s.
    pub rate_qps: Sample,
    /// From the scheduled instant, in µs.
    pub p50_us: Sample,
    /// See [`Latencies::p50_us`].
    pub p99_us: Sample,
    /// See [`Latencies::p50_us`].
    pub p999_us: Sample,
    /// Steal in percent of a processor.
    pub steal_pct: Sample,
}

/// Start and memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sizes {
    /// From the start of the process to the first right answer, in seconds.
    pub start_s: Sample,
    /// Resident memory before the first query, in MiB.
    pub empty_mib: Sample,
    /// Resident memory after the last query, in MiB.
    pub full_mib: Sample,
    /// Steal in percent of a processor.
    pub steal_pct: Sample,
}

/// A share of cached names, with each share of names that have AAAA records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// The share of the queries that ask cached names, in percent.
    pub cached_pct: u8,
    /// In the order of [`SHARES_PCT`].
    pub cells: Vec<Cell>,
    /// Steal in percent of a processor.
    pub steal_pct: Sample,
}

/// A closed loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Valid answers per second.
    pub answered_qps: Sample,
    /// Processor time of the server's process for each, in µs.
    pub cpu_us: Sample,
}

/// A quotient that another method found: dns64d's figure against another server's, as a range.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SecondMethod {
    /// Which quotient.
    pub quotient: Quotient,
    /// The other server.
    pub server: String,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

/// By how much dns64d is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quotient {
    /// dns64d's rate of RFC 8219, by the other's; of the rates kept up where both are known.
    #[default]
    Rate,
    /// The other's processor time for a miss, by dns64d's.
    Miss,
    /// The other's processor time for a hit, by dns64d's.
    Hit,
}

impl Record {
    /// A server by its name.
    pub fn server(&self, name: &str) -> Option<&Server> {
        self.servers.iter().find(|server| server.name == name)
    }

    /// Whether the quotient of dns64d's rate by another server's is one of rates kept up.
    fn compares_kept_up(&self, quotient: Quotient, name: &str) -> bool {
        let rates = self.server(OURS).zip(self.server(name));
        let times = rates.and_then(|(ours, theirs)| ours.one_core.kept_up_times(&theirs.one_core));
        quotient == Quotient::Rate && times.is_some()
    }

    /// A quotient of medians; `None` where one of them was not measured.
    pub fn times(&self, quotient: Quotient, name: &str) -> Option<f64> {
        let (ours, theirs) = (self.server(OURS)?, self.server(name)?);
        match quotient {
            Quotient::Rate => ours.one_core.rate_times(&theirs.one_core),
            Quotient::Miss => theirs.costs.miss_us.times(&ours.costs.miss_us),
            Quotient::Hit => theirs.costs.hit_us.times(&ours.costs.hit_us),
        }
    }
}

impl Rates {
    /// The rate as a multiple of another server's: of the rates kept up where both are known.
    fn rate_times(&self, of: &Self) -> Option<f64> {
        self.kept_up_times(of).or_else(|| self.rfc8219_qps.times(&of.rfc8219_qps))
    }

    /// The rate kept up as a multiple of another server's.
    fn kept_up_times(&self, of: &Self) -> Option<f64> {
        self.kept_up_qps.times(&of.kept_up_qps)
    }
}

impl Server {
    /// Its latency at this part of its rate.
    pub fn latencies_at(&self, load_pct: u8) -> Option<&Latencies> {
        self.latencies.iter().find(|latencies| latencies.load_pct == load_pct)
    }
}
