//! The state of a running server at one moment, for the metrics and the control socket.

use server_core::cache::CacheCounts;
use server_core::stats::{Counter, Stats};

/// Everything that can be told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// What the machines counted.
    pub stats: Stats,
    /// What the cache holds and has done.
    pub cache: Vec<Metric>,
    /// What the program around the server counted: streams, dnstap, reloads.
    pub program: Vec<Metric>,
    /// The upstream servers, in the order of the configuration.
    pub upstreams: Vec<UpstreamState>,
}

/// A number with its name and meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name in metrics, its meaning and its value.
    pub counter: Counter,
    /// Counters only grow; gauges go up and down.
    pub kind: Kind,
}

/// What becomes of a number in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It counts events since the start.
    Counter,
    /// A state at one time, which goes up and down.
    Gauge,
}

impl Metric {
    /// A number that counts events.
    pub const fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { counter: Counter { name, help, value }, kind: Kind::Counter }
    }

    /// A number that says how things are.
    pub const fn gauge(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { counter: Counter { name, help, value }, kind: Kind::Gauge }
    }
}

/// How an upstream server does, as all threads together see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpstreamState {
    /// Protocol, address and name, as an operator writes it.
    pub address: String,
    /// Queries sent to the server since the configuration came into force.
    pub queries: u64,
    /// Its answers that belong to a query.
    pub answers: u64,
    /// Tries that it did not answer in time.
    pub timeouts: u64,
    /// The smoothed round-trip time, in nanoseconds; 0 before the first answer.
    pub srtt_ns: u64,
    /// It does not answer, and is asked only to see whether it does again.
    pub down: bool,
    /// Lookups that wait for an answer of the server now.
    pub in_flight: u64,
    /// Answers with the right question and a wrong ID: guesses.
    pub near_misses: u64,
    /// What protects the answers from forgers off the path: a stream, or ports, source, cookie, 0x20.
    pub protection: Vec<&'static str>,
    /// Forged packets that are an even chance for an answer over UDP; none where only streams are used.
    pub forged_packets: Option<f64>,
}

/// The counts of the cache, to be printed. Names differ from those of [`Stats`] even with `cache_` before
/// them: the machines count queries of clients, the cache counts look-ups.
pub fn cache_readings(counts: &CacheCounts) -> Vec<Metric> {
    let &CacheCounts {
        entries,
        failures,
        nxdomains,
        octets,
        octets_max,
        inserted,
        evicted,
        carried,
        refused,
        hits,
        stale_hits,
        misses,
        nxdomain_hits,
    } = counts;
    vec![
        Metric::gauge("entries", "Replies held, fresh or expired", entries),
        Metric::gauge("failures", "Failures held, in force or not", failures),
        Metric::gauge("nxdomains", "Names held as not existing, fresh or expired", nxdomains),
        Metric::gauge("octets", "Octets that entries take up", octets),
        Metric::gauge("octets_max", "Octets that entries may take up", octets_max),
        Metric::counter("inserted", "Entries written", inserted),
        Metric::counter("evicted", "Entries that gave way to newer ones", evicted),
        Metric::counter("carried", "Entries that stayed because they had been asked for", carried),
        Metric::counter("refused", "Replies too long to be kept", refused),
        Metric::counter("lookups_fresh", "Look-ups that found a fresh reply", hits),
        Metric::counter("lookups_stale", "Look-ups that found an expired reply", stale_hits),
        Metric::counter("lookups_without", "Look-ups that found nothing", misses),
        Metric::counter(
            "lookups_nxdomain_above",
            "Look-ups that found a name above that does not exist",
            nxdomain_hits,
        ),
    ]
}
