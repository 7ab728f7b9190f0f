//! The state of a running server at one moment, for those who print it: the metrics and the control socket.

use crate::cache::CacheCounts;
use crate::stats::{Counter, Stats};

/// Everything that can be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// What the machines counted.
    pub stats: Stats,
    /// What the cache holds and has done.
    pub cache: Vec<Reading>,
    /// What the program around the server counted: streams, dnstap, reloads.
    pub program: Vec<Reading>,
    /// The upstream servers, in the order of the configuration.
    pub upstreams: Vec<UpstreamState>,
}

/// A number with its name and meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Name, meaning and number.
    pub counter: Counter,
    /// Whether it only grows.
    pub kind: Kind,
}

/// What becomes of a number in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It counts events since the start.
    Counter,
    /// It says how things are.
    Gauge,
}

impl Reading {
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamState {
    /// Protocol, address and name, as an operator writes it.
    pub address: String,
    /// Queries sent to it.
    pub queries: u64,
    /// Its answers that belong to a query.
    pub answers: u64,
    /// Tries that it did not answer in time.
    pub timeouts: u64,
    /// The smoothed round-trip time, in nanoseconds; 0 before the first answer.
    pub srtt_ns: u64,
    /// It does not answer, and is asked only to see whether it does again.
    pub down: bool,
    /// Lookups that wait for it.
    pub in_flight: u64,
}

/// The counts of the cache, to be printed. Names differ from those of [`Stats`] even with `cache_` before them: the machines
/// count queries of clients, the cache counts look-ups.
pub fn cache_readings(counts: &CacheCounts) -> Vec<Reading> {
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
        Reading::gauge("entries", "Replies held, fresh or expired", entries),
        Reading::gauge("failures", "Failures held, in force or not", failures),
        Reading::gauge("nxdomains", "Names held as not existing, fresh or expired", nxdomains),
        Reading::gauge("octets", "Octets that entries take up", octets),
        Reading::gauge("octets_max", "Octets that entries may take up", octets_max),
        Reading::counter("inserted", "Entries written", inserted),
        Reading::counter("evicted", "Entries that gave way to newer ones", evicted),
        Reading::counter("carried", "Entries that stayed because they had been asked for", carried),
        Reading::counter("refused", "Replies too long to be kept", refused),
        Reading::counter("lookups_fresh", "Look-ups that found a fresh reply", hits),
        Reading::counter("lookups_stale", "Look-ups that found an expired reply", stale_hits),
        Reading::counter("lookups_without", "Look-ups that found nothing", misses),
        Reading::counter(
            "lookups_nxdomain_above",
            "Look-ups that found a name above that does not exist",
            nxdomain_hits,
        ),
    ]
}
