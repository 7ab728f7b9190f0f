//! The Tester in the kernel on several processors: what was measured on a few, and computed from it for more.

use serde::{Deserialize, Serialize};

use crate::document::wrapped;
use crate::sample::table;
use crate::{Origin, Sample};

/// The computed table ends with so many lanes.
const COMPUTED_MAX: usize = 16;
/// A self-test runs at this multiple of the rate that it certifies (RFC 8219 9.2.1).
const SELFTEST_RATE: f64 = 2.2;

/// Both halves of the Tester in the kernel, in a lab with a queue for each processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lanes {
    /// When, of what, and where: the other figures of the document may be of another day.
    pub origin: Origin,
    /// So often all but the tries was measured.
    pub rounds: usize,
    /// Validated answers per second of lanes that never wait, by their number, from one on.
    pub answered_qps: Vec<Sample>,
    /// What each program costs of a query, on one lane.
    pub costs: Vec<ProgramCost>,
    /// The rate at which evenness was measured, in q/s.
    pub even_qps: u64,
    /// The share of the windows of 10 ms in which a receiver counts what is due, give or take 1 %, by the
    /// number of lanes, in percent.
    pub even_pct: Vec<Sample>,
    /// Every try to hold a rate, in the order of time.
    #[serde(default)]
    pub tries: Vec<Try>,
}

/// A BPF program of the Tester.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramCost {
    /// Its name in the table.
    pub program: String,
    /// The time of its runs for each query in ns, as the kernel counts it.
    pub query_ns: Sample,
}

/// A try to hold a rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Try {
    /// When it had ended, in UTC.
    pub at: String,
    /// Lanes, each on a processor of its own.
    pub lanes: usize,
    /// The rate in q/s.
    pub rate_qps: u64,
    /// Its length in seconds.
    pub duration_s: u64,
    /// Every answer was valid and came within 0.25 s after its query was due.
    pub answered_all: bool,
    /// The trial was valid: the rate was kept, too.
    pub valid: bool,
    /// Why it was not; else empty.
    pub why: String,
    /// The latest query, in ms after it was due.
    pub late_ms: f64,
    /// Windows of 10 ms that are more than 5 % off, in percent.
    pub uneven_10_ms_pct: f64,
    /// What the hypervisor took, in percent of a processor.
    pub stolen_pct: f64,
}

impl Lanes {
    /// The share of the work that lanes cannot do at the same time (Amdahl's law), as the most lanes measured
    /// show it; 0 where they answer as often as that number of single ones. `None` with fewer than two.
    fn serial_share(&self) -> Option<f64> {
        let lanes = self.answered_qps.len();
        let (one, most) = (self.answered_qps.first()?.median(), self.answered_qps.last()?.median());
        let slowdown = lanes as f64 * one / most - 1.0;
        (lanes > 1 && most > 0.0).then(|| slowdown.max(0.0) / (lanes - 1) as f64)
    }

    /// What so many lanes would answer, in q/s.
    fn computed_qps(&self, lanes: usize) -> Option<f64> {
        let one = self.answered_qps.first()?.median();
        Some(lanes as f64 * one / (1.0 + self.serial_share()? * (lanes - 1) as f64))
    }

    /// How many tries there were at a rate and a length, and how many were valid.
    pub(super) fn tries_at(&self, rate_qps: u64, duration_s: u64) -> (usize, usize) {
        let tries = self.tries.iter().filter(|one| (one.rate_qps, one.duration_s) == (rate_qps, duration_s));
        tries.fold((0, 0), |(all, valid), one| (all + 1, valid + usize::from(one.valid)))
    }

    pub(super) fn section(&self) -> String {
        let mut out = String::from("\n## More than one processor\n\n");
        out += &wrapped(&format!(
            "{}. Rounds: {}. Measurer and AuthDNS in the kernel, in a lab with a queue for each processor. A lane \
             generates queries, answers them and takes the answers, all on one processor.{}",
            self.origin.in_words(),
            self.rounds,
            self.origin.note()
        ));
        out += &format!("\n{}", self.measured());
        if !self.costs.is_empty() {
            out += &format!("\n{}", self.shares());
        }
        if let Some(share) = self.serial_share() {
            out +=
                &format!("\n### Computed for more lanes\n\n{}\n{}", self.assumptions(share), self.computed());
        }
        if !self.tries.is_empty() {
            out += &format!("\n### Every try to hold a rate\n\n{}", self.all_tries());
        }
        out
    }

    fn measured(&self) -> String {
        let even = format!("10 ms windows within 1 % at {} q/s, %", self.even_qps);
        let head = ["lanes", "answered, 1000 q/s", "processor, ns per answer", "x one lane", &even];
        let one = self.answered_qps.first();
        let row = |(lanes, answered): (usize, &Sample)| {
            let times = one.and_then(|one| answered.times(one)).unwrap_or_default();
            vec![
                lanes.to_string(),
                answered.thousands(),
                format!("{:.0}", lanes as f64 * 1e9 / answered.median()),
                format!("{times:.2}"),
                self.even_pct.get(lanes - 1).map_or_else(|| "-".into(), |sample| sample.decimals(2)),
            ]
        };
        table(&head, &(1..).zip(&self.answered_qps).map(row).collect::<Vec<_>>())
    }

    /// What the programs cost of a query, and the rest.
    fn shares(&self) -> String {
        let named = |cost: &ProgramCost| vec![cost.program.clone(), cost.query_ns.decimals(0)];
        let mut rows: Vec<_> = self.costs.iter().map(named).collect();
        let whole = self.answered_qps.first().map_or(0.0, |one| 1e9 / one.median());
        let programs: f64 = self.costs.iter().map(|cost| cost.query_ns.median()).sum();
        rows.push(vec!["veth, redirects, frames: the rest".into(), format!("{:.0}", whole - programs)]);
        table(&["of a query, on one lane", "processor, ns"], &rows)
    }

    fn assumptions(&self, share: f64) -> String {
        wrapped(&format!(
            "Not measured: computed by Amdahl's law from the medians above. Assumed are a processor with a queue of its \
             own for each lane, processors as fast as these, and no limit of memory. What lanes do one after the other \
             is taken from {} lanes: {:.1} % of the work. A rate is certified if the self-test holds {SELFTEST_RATE} \
             times the rate.",
            self.answered_qps.len(),
            share * 100.0
        ))
    }

    fn computed(&self) -> String {
        let millions = |qps: f64| format!("{:.1}", qps / 1e6);
        let row = |lanes: usize| {
            let qps = self.computed_qps(lanes).unwrap_or_default();
            let measured = self.answered_qps.get(lanes - 1).map_or("-".into(), |one| millions(one.median()));
            vec![lanes.to_string(), millions(qps), measured, millions(qps / SELFTEST_RATE)]
        };
        let head = [
            "lanes",
            "computed, million q/s",
            "measured, million q/s",
            "certified at most, million q/s, computed",
        ];
        table(&head, &(1..=COMPUTED_MAX).map(row).collect::<Vec<_>>())
    }

    fn all_tries(&self) -> String {
        let head = [
            "ended, UTC",
            "lanes",
            "rate, q/s",
            "s",
            "all answered in 0.25 s",
            "trial",
            "latest query, ms",
            "10 ms windows more than 5 % off, %",
            "stolen, % of a processor",
        ];
        let row = |one: &Try| {
            vec![
                one.at.clone(),
                one.lanes.to_string(),
                one.rate_qps.to_string(),
                one.duration_s.to_string(),
                if one.answered_all { "yes" } else { "no" }.into(),
                if one.valid { "valid".into() } else { one.why.clone() },
                format!("{:.1}", one.late_ms),
                format!("{:.2}", one.uneven_10_ms_pct),
                format!("{:.1}", one.stolen_pct),
            ]
        };
        table(&head, &self.tries.iter().map(row).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(answered_qps: &[f64]) -> Lanes {
        let answered_qps = answered_qps.iter().map(|&qps| vec![qps].into()).collect();
        Lanes { answered_qps, ..Lanes::default() }
    }

    #[test]
    fn what_is_computed_agrees_with_what_was_measured() {
        let measured = lanes(&[3e6, 5e6]);
        assert_eq!(measured.serial_share().map(|share| (share * 100.0).round()), Some(20.0));
        assert_eq!([1, 2].map(|lanes| measured.computed_qps(lanes)), [Some(3e6), Some(5e6)]);
        // Amdahl's limit is five times one lane.
        assert!(measured.computed_qps(1000).is_some_and(|qps| qps < 15e6));
        // Lanes that help each other are noise.
        assert_eq!(lanes(&[3e6, 7e6]).computed_qps(4), Some(12e6));
        assert_eq!(lanes(&[3e6]).computed_qps(4), None);
    }

    #[test]
    fn tries_are_counted_by_rate_and_length() {
        let one = |rate_qps, valid| Try { rate_qps, duration_s: 60, valid, ..Try::default() };
        let lanes = Lanes { tries: vec![one(1, true), one(1, false), one(2, true)], ..Lanes::default() };
        assert_eq!(
            (lanes.tries_at(1, 60), lanes.tries_at(2, 60), lanes.tries_at(1, 30)),
            ((2, 1), (1, 1), (0, 0))
        );
    }
}
