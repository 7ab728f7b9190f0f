//! A measurement: some searches of one server, as `sextant bench` makes them.

use engine::search::{Next, Point, SearchSpec, next};
use record::Outcome;
use record::limits::VOIDS_IN_A_ROW;
use record::random::Sequence;

use crate::cases::{Case, Ceiling, Search};
use crate::pauses::Tape;
use crate::tester::Lab;

/// `bench-dns64` gives a search up after this.
const DNS64_SEARCH_MAX_MS: u64 = 45_000;

/// What one search found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    pub qps: u64,
    /// The rate that the server kept up at least, by its slowest answers: see [`kept_up`].
    pub kept_qps: u64,
}

/// What a measurement found, and what it cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Fewer than asked for if a search had no result.
    pub runs: Vec<Run>,
    pub trials: usize,
    pub voids: usize,
}

/// A trial and the time that the server still worked after it, in ns.
type Tried = (Point, u64);

/// A measurement with all that is random in it chosen by the seed.
pub fn measure(case: &Case, search: &Search, seed: u64) -> Measured {
    let tape = if case.pauses { Tape::of(seed) } else { Tape::without() };
    let mut lab = Lab::new(case.nature, tape, seed, search.listen_ms, search.settle_ms);
    let spec = spec(case, search, seed);
    let mut measured = Measured::default();
    for _ in 0..search.runs {
        let (found, tried) = run(spec.clone(), search, &mut lab);
        measured.trials += tried.len();
        measured.voids += tried.iter().filter(|(point, _)| point.outcome == Outcome::Void).count();
        match found.filter(|&qps| qps > 0) {
            Some(qps) => measured.runs.push(Run { qps, kept_qps: kept_up(qps, &tried) }),
            // The bench goes on if an earlier run found a rate.
            None if measured.runs.is_empty() => break,
            None => {}
        }
    }
    measured
}

fn spec(case: &Case, search: &Search, seed: u64) -> SearchSpec {
    let unit = Sequence::new(seed, 3).unit();
    let (knee_qps, capacity_qps) = (case.nature.knee_qps as f64, case.nature.capacity_qps as f64);
    let (low, high) = match search.ceiling {
        Ceiling::Certified(least, most) => (100.0, knee_qps * (least + unit * (most - least))),
        Ceiling::Fixed(share) => (knee_qps * share, knee_qps * share),
        Ceiling::ClosedLoop => (capacity_qps * 0.02, capacity_qps * 1.2 * (0.95 + 0.1 * unit)),
    };
    SearchSpec {
        mode: search.mode.clone(),
        low_qps: low as u64,
        high_qps: high as u64,
        trial_ns: search.trial_ms * 1_000_000,
        width_pct: search.width_pct,
        voids_max: VOIDS_IN_A_ROW.value as u32,
    }
}

/// One search: what it found, if anything, and its trials.
fn run(mut spec: SearchSpec, search: &Search, lab: &mut Lab) -> (Option<u64>, Vec<Tried>) {
    let (mut history, mut drains) = (Vec::new(), Vec::new());
    let until_ms = match search.ceiling {
        Ceiling::ClosedLoop => lab.now_ms() + DNS64_SEARCH_MAX_MS,
        Ceiling::Certified(..) | Ceiling::Fixed(_) => u64::MAX,
    };
    let found = loop {
        match next(&spec, &history) {
            Next::Try(input) if lab.now_ms() < until_ms => {
                let told = lab.trial(input);
                history.push(told.point);
                drains.push(told.drain_ns);
            }
            Next::Found(found) if found.at_ceiling && search.ceiling == Ceiling::ClosedLoop => {
                spec.high_qps += spec.high_qps / 2;
            }
            Next::Found(found) => break Some(found.qps),
            Next::Try(_) | Next::Unfit(_) => break None,
        }
    };
    (found, history.into_iter().zip(drains).collect())
}

/// The rate that the server kept up at least: for the queries of a trial of T, after which it still worked
/// for the time D, it needed T + D.
fn kept_up(qps: u64, tried: &[Tried]) -> u64 {
    let passed = tried.iter().filter(|(point, _)| point.rate_qps == qps && point.outcome == Outcome::Pass);
    let kept = passed.map(|&(Point { duration_ns, .. }, drain_ns)| {
        (u128::from(qps) * u128::from(duration_ns) / u128::from(duration_ns + drain_ns)) as u64
    });
    kept.min().unwrap_or(qps)
}
