//! One trial, and what of it goes into the tables.

use std::io;
use std::time::Duration;

use engine::pacer::Model;
use engine::search::{Point, TrialInput};
use engine::workload::Choice;
use lab::observe::Observer;
use record::Outcome;

use crate::book::Cell;
use crate::names::recorded;
use crate::place::{Placement, native_prefix};

/// Names that are cached, where some shall be.
const HOT_NAMES: u32 = 1000;
/// Queries that a closed loop keeps outstanding.
pub const WINDOW: u32 = 256;
/// A closed loop of names of random lengths begins again after so many queries for each second, in q/s: more
/// than any server here answers.
const CLOSED_QPS_MAX: u64 = 400_000;

/// What is asked, and how.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Which names.
    pub cell: Cell,
    /// The rate in q/s; `None`: a closed loop.
    pub rate_qps: Option<u64>,
    /// For how long.
    pub length: Duration,
}

/// What a trial told.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// For the search.
    pub point: Point,
    /// Valid answers for each second.
    pub answered_qps: f64,
    /// Processor time of the server's process for each valid answer, in µs.
    pub cpu_us: f64,
    /// Busy time of the server's processors for each valid answer, with interrupts and whoever else works
    /// there, in µs.
    pub core_us: f64,
    /// Latency from the scheduled instant at the 50th, 99th and 99.9th percentile of the valid answers, in
    /// µs.
    pub latency_us: [f64; 3],
    /// How long after the end of the schedule the last answer came at most, in seconds.
    pub drain_s: f64,
    /// Memory of the server at its end, in MiB.
    pub memory_mib: f64,
    /// What the hypervisor took of a processor meanwhile, in percent.
    pub steal_pct: f64,
}

impl Ask {
    /// Runs the trial. In a closed loop a trial without a valid answer is an error.
    ///
    /// # Errors
    /// The Tester cannot, or somebody ended it.
    pub fn run(self, place: &mut Placement) -> io::Result<Told> {
        place.goes_on()?;
        let Cell { cached_pct, aaaa_pct } = self.cell;
        let (tester, mut target, auth) = place.parts(aaaa_pct)?;
        target.load =
            if self.rate_qps.is_some() { Model::Constant } else { Model::Window { queries: WINDOW } };
        target.workload.native = if aaaa_pct > 0 { Some((aaaa_pct, native_prefix()?)) } else { None };
        let random_lengths = target.workload.variation.any_response;
        let first_name = tester.next_name;
        let mut names = 0;
        if random_lengths {
            let queries = (self.rate_qps.unwrap_or(CLOSED_QPS_MAX) as f64 * self.length.as_secs_f64()) as u64;
            let hot = (cached_pct, HOT_NAMES.into());
            (target.workload.variation.choice, names) =
                recorded(&target.workload, first_name, queries + 1, hot)?;
        } else if cached_pct > 0 {
            target.workload.variation.choice = Choice::Cached { share_pct: cached_pct, hot_names: HOT_NAMES };
        }
        let observer = Observer::new(&[], &[]);
        let before = observer.snapshot();
        let length_ns = u64::try_from(self.length.as_nanos()).unwrap_or(u64::MAX);
        let input = TrialInput { load: self.rate_qps.unwrap_or(1), duration_ns: length_ns };
        let tried = tester.trial(&target, Some(auth), input.load, length_ns);
        let tried = tried.map_err(|error| io::Error::other(error.to_string()))?;
        if random_lengths {
            tester.next_name = first_name + names;
        }
        let seen = observer.snapshot().since(&before);
        place.goes_on()?;
        let busy_ns: u64 =
            place.server_cpus().iter().filter_map(|cpu| Some(seen.cpus.get(cpu)?.busy_ns())).sum();
        let (trial, latency) = (&tried.trial, &tried.latency_ns);
        let valid = target.validity.counted(trial);
        if self.rate_qps.is_none() && valid == 0 {
            let why = trial.void.as_deref().unwrap_or("no valid answer");
            return Err(io::Error::other(why.to_owned()));
        }
        let seen = trial.observation.clone().unwrap_or_default();
        Ok(Told {
            point: Point::of(input, trial, target.validity),
            answered_qps: valid as f64 / trial.duration_s,
            cpu_us: seen.dut_cpu_us_per_answer.unwrap_or(0.0),
            core_us: busy_ns as f64 / 1e3 / valid.max(1) as f64,
            latency_us: [0.5, 0.99, 0.999].map(|share| latency.value_at_quantile(share) as f64 / 1e3),
            drain_s: report::drain_s(trial),
            memory_mib: seen.dut_memory_octets.unwrap_or(0) as f64 / f64::from(1 << 20),
            steal_pct: seen.steal_pct.unwrap_or(0.0),
        })
    }
}

impl Told {
    /// Whether it says anything about the server.
    pub fn counts(&self) -> bool {
        self.point.outcome != Outcome::Void
    }
}
