//! The figures of all rounds.

use std::collections::BTreeMap;
use std::fmt::Display;

use figures::Sample;
use figures::dns64::{self, Costs, Latencies, Rates, SHARES_PCT, Shares, Sizes};

/// Which names are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// Percentage of the queries that ask names the server has cached.
    pub cached_pct: u8,
    /// Percentage of the names that have AAAA records of their own.
    pub aaaa_pct: u8,
}

/// RFC 8219's worst case: no name is cached, none has a AAAA record.
pub const MISSES: Cell = Cell { cached_pct: 0, aaaa_pct: 0 };
/// All names are cached, none has a AAAA record.
pub const HITS: Cell = Cell { cached_pct: 100, aaaa_pct: 0 };
/// The loads that latency is measured at, in percent of a server's own rate.
pub const LOADS_PCT: [u8; 3] = [10, 50, 90];

/// What is measured of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// The rate of RFC 8219 in q/s, with so many cores.
    Rate(usize),
    /// How long the last answers took at that rate, in s, with so many cores.
    Drain(usize),
    /// The rate at which the server kept up with the queries then, in q/s, with so many cores.
    KeptUp(usize),
    /// Valid answers per second in a closed loop, with so many cores.
    Most(usize, Cell),
    /// Processor time of its process for each answer then, in µs.
    Cpu(usize, Cell),
    /// Busy time of the server's processors for each answer then, in µs.
    Core(usize, Cell),
    /// Processor time for each answer at this percentage of its rate, in µs.
    CpuAt(u8),
    /// The rate of these latency trials, in q/s.
    LatencyRate(u8),
    /// Latency at this percentage of its rate: the 50th, 99th and 99.9th percentile by number, in µs.
    Latency(u8, usize),
    /// From the start of its process to the first right answer, in s.
    Start,
    /// Resident memory before the first query, in MiB.
    MemoryEmpty,
    /// Resident memory after the last query, in MiB.
    MemoryFull,
}

/// Figures by server, each with the machine's steal meanwhile.
#[derive(Debug, Default)]
pub struct Book {
    figures: BTreeMap<(&'static str, Figure), (Sample, Sample)>,
    /// The smallest receive buffers in octets.
    buffers: BTreeMap<&'static str, u64>,
    failures: BTreeMap<&'static str, String>,
}

impl Book {
    /// Writes down one.
    pub fn push(&mut self, server: &'static str, figure: Figure, value: f64, steal_pct: f64) {
        let (values, steal) = self.figures.entry((server, figure)).or_default();
        values.push(value);
        steal.push(steal_pct);
    }

    /// Writes down the smallest receive buffer of a server's sockets, in octets; that of its worst start
    /// counts.
    pub fn buffer(&mut self, server: &'static str, octets: u64) {
        let smallest = self.buffers.entry(server).or_insert(octets);
        *smallest = octets.min(*smallest);
    }

    /// Writes down that a server could not be measured to the end.
    pub fn fail(&mut self, server: &'static str, why: &dyn Display) {
        self.failures.insert(server, why.to_string());
    }

    /// The figures of a server for the record, those of two cores if they are wanted.
    pub fn server(&self, name: &'static str, version: String, two_cores: bool) -> dns64::Server {
        dns64::Server {
            name: name.into(),
            version,
            receive_buffer_octets: self.buffers.get(name).copied(),
            one_core: self.rates(name, 1),
            two_cores: two_cores.then(|| self.rates(name, 2)),
            costs: self.costs(name),
            latencies: LOADS_PCT.map(|load_pct| self.latencies(name, load_pct)).into(),
            sizes: self.sizes(name),
            shares: SHARES_PCT.map(|cached_pct| self.shares(name, cached_pct)).into(),
        }
    }

    fn rates(&self, name: &str, cores: usize) -> Rates {
        let figures = [Figure::Rate(cores), Figure::Most(cores, MISSES), Figure::Most(cores, HITS)];
        let [rfc8219_qps, misses_qps, hits_qps] = figures.map(|figure| self.values(name, figure));
        let drain_s = self.values(name, Figure::Drain(cores));
        let kept_up_qps = self.values(name, Figure::KeptUp(cores));
        let steal_pct = self.steal(name, &figures);
        Rates { rfc8219_qps, drain_s, kept_up_qps, misses_qps, hits_qps, steal_pct }
    }

    fn costs(&self, name: &str) -> Costs {
        let figures = [
            Figure::CpuAt(50),
            Figure::Cpu(1, MISSES),
            Figure::Core(1, MISSES),
            Figure::Cpu(1, HITS),
            Figure::Core(1, HITS),
        ];
        let [miss_half_us, miss_us, miss_processor_us, hit_us, hit_processor_us] =
            figures.map(|figure| self.values(name, figure));
        let steal_pct = self.steal(name, &figures);
        Costs { miss_half_us, miss_us, miss_processor_us, hit_us, hit_processor_us, steal_pct }
    }

    fn latencies(&self, name: &str, load_pct: u8) -> Latencies {
        let figures = [0, 1, 2].map(|at| Figure::Latency(load_pct, at));
        let [p50_us, p99_us, p999_us] = figures.map(|figure| self.values(name, figure));
        let rate_qps = self.values(name, Figure::LatencyRate(load_pct));
        Latencies { load_pct, rate_qps, p50_us, p99_us, p999_us, steal_pct: self.steal(name, &figures) }
    }

    fn sizes(&self, name: &str) -> Sizes {
        let figures = [Figure::Start, Figure::MemoryEmpty, Figure::MemoryFull];
        let [start_s, empty_mib, full_mib] = figures.map(|figure| self.values(name, figure));
        Sizes { start_s, empty_mib, full_mib, steal_pct: self.steal(name, &figures) }
    }

    fn shares(&self, name: &str, cached_pct: u8) -> Shares {
        let cells = SHARES_PCT.map(|aaaa_pct| Cell { cached_pct, aaaa_pct });
        let cell = |cell| dns64::Cell {
            answered_qps: self.values(name, Figure::Most(1, cell)),
            cpu_us: self.values(name, Figure::Cpu(1, cell)),
        };
        let steal_pct = self.steal(name, &cells.map(|cell| Figure::Most(1, cell)));
        Shares { cached_pct, cells: cells.map(cell).into(), steal_pct }
    }

    /// What was measured; empty if nothing was.
    fn values(&self, server: &str, figure: Figure) -> Sample {
        self.pair(server, figure).0
    }

    /// The steal during all of these figures.
    fn steal(&self, server: &str, figures: &[Figure]) -> Sample {
        let mut all = Sample::default();
        for figure in figures {
            let (low, high) = self.pair(server, *figure).1.range();
            let measured = !self.values(server, *figure).is_empty();
            [low, high].into_iter().filter(|_| measured).for_each(|value| all.push(value));
        }
        all
    }

    /// Servers that failed, and why.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        self.failures.iter().map(|(server, why)| format!("{server}: {why}"))
    }

    fn pair(&self, server: &str, figure: Figure) -> (Sample, Sample) {
        let found = self.figures.iter().find(|((name, at), _)| *name == server && *at == figure);
        found.map_or_else(Default::default, |(_, pair)| pair.clone())
    }
}
