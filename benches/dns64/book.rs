//! The figures of all rounds.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::table::Sample;

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
/// The shares of both axes of the table.
pub const SHARES_PCT: [u8; 3] = [0, 50, 100];
/// The loads that latency is measured at, in percent of a server's own rate.
pub const LOADS_PCT: [u8; 3] = [10, 50, 90];

/// What is measured of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// The rate of RFC 8219 in q/s, with so many cores.
    Rate(usize),
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
    failures: BTreeMap<&'static str, String>,
}

impl Book {
    /// Writes down one.
    pub fn push(&mut self, server: &'static str, figure: Figure, value: f64, steal_pct: f64) {
        let (values, steal) = self.figures.entry((server, figure)).or_default();
        values.push(value);
        steal.push(steal_pct);
    }

    /// Writes down that a server could not be measured to the end.
    pub fn fail(&mut self, server: &'static str, why: &dyn Display) {
        self.failures.insert(server, why.to_string());
    }

    /// What was measured; empty if nothing was.
    pub fn values(&self, server: &str, figure: Figure) -> Sample {
        self.pair(server, figure).0
    }

    /// The steal during all of these figures.
    pub fn steal(&self, server: &str, figures: &[Figure]) -> Sample {
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
