//! A measurement: some searches of one server, as `sextant bench` makes them.

use engine::search::{Next, Point, SearchSpec, next};
use record::limits::VOIDS_IN_A_ROW;
use record::random::Sequence;
use record::{Outcome, RateInterval, Trial};

use crate::cases::{Case, Ceiling, Search};
use crate::tester::{Lab, Told};

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
    /// Of the searches that came to their end.
    pub runs: Vec<Run>,
    /// The result if void trials kept every search from its end.
    pub interval: Option<Interval>,
    pub trials: usize,
    pub voids: usize,
    /// How long it took, and how long of it the Tester waited for a quiet machine, in ms.
    pub length_ms: u64,
    pub waited_ms: u64,
}

/// The interval in place of a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: Run,
    /// The upper end, in q/s.
    pub high_qps: Option<u64>,
}

/// A measurement with all that is random in it chosen by the seed.
pub fn measure(case: &Case, search: &Search, seed: u64) -> Measured {
    let mut lab = Lab::new(case, seed, search.listen_ms, search.settle_ms);
    let spec = spec(case, search, seed);
    let (mut measured, mut all) = (Measured::default(), Vec::new());
    for _ in 0..search.runs {
        let (end, tried) = run(spec.clone(), search, &mut lab);
        measured.trials += tried.len();
        measured.voids += tried.iter().filter(|told| told.point.outcome == Outcome::Void).count();
        if let End::Found(qps @ 1..) = end {
            measured.runs.push(Run { qps, kept_qps: kept_up(qps, &tried, has_passed) });
        }
        all.extend(tried);
        // The bench goes on as long as its trials say something.
        if measured.runs.is_empty() && (end != End::ByVoids || shown(&all, search).is_empty()) {
            break;
        }
    }
    measured.interval = interval(&all, search).filter(|_| measured.runs.is_empty());
    (measured.length_ms, measured.waited_ms) = (lab.now_ms(), lab.waited_ms());
    measured
}

fn shown(tried: &[Told], search: &Search) -> RateInterval {
    let trials: Vec<&Trial> = tried.iter().map(|told| &told.trial).collect();
    RateInterval::of_trials(&trials, None, search.trial_ms as f64 / 1000.0)
}

/// The interval that these trials show, if they show one with a lower end.
fn interval(tried: &[Told], search: &Search) -> Option<Interval> {
    let RateInterval { at_least_qps, shown_at_qps, below_qps, .. } = shown(tried, search);
    let low = Run { qps: at_least_qps, kept_qps: kept_up(shown_at_qps, tried, has_all).min(at_least_qps) };
    (at_least_qps > 0).then_some(Interval { low, high_qps: below_qps })
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
        low: low as u64,
        high: high as u64,
        trial_ns: search.trial_ms * 1_000_000,
        width_pct: search.width_pct,
        voids_max: VOIDS_IN_A_ROW.value as u32,
    }
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// At its end, with this rate in q/s; 0 if every rate failed.
    Found(u64),
    /// Void trials ended it.
    ByVoids,
    /// It has no result, and the measurement ends with it.
    Nothing,
}

/// One search: how it ended, and its trials.
fn run(mut spec: SearchSpec, search: &Search, lab: &mut Lab) -> (End, Vec<Told>) {
    let (mut history, mut tried): (Vec<Point>, Vec<Told>) = (Vec::new(), Vec::new());
    let until_ms = match search.ceiling {
        Ceiling::ClosedLoop => lab.now_ms() + DNS64_SEARCH_MAX_MS,
        Ceiling::Certified(..) | Ceiling::Fixed(_) => u64::MAX,
    };
    let found = loop {
        match next(&spec, &history) {
            Next::Try(input) if lab.now_ms() < until_ms => {
                lab.wait_for_quiet(tried.last().map(|told| &told.trial));
                let told = lab.trial(input);
                history.push(told.point);
                tried.push(told);
            }
            Next::Found(found) if found.at_ceiling && search.ceiling == Ceiling::ClosedLoop => {
                spec.high += spec.high / 2;
            }
            Next::Found(found) if found.ended_by_voids.is_some() => break End::ByVoids,
            Next::Found(found) => break End::Found(found.load),
            Next::Unfit(_) => break End::ByVoids,
            Next::Try(_) => break End::Nothing,
        }
    };
    (found, tried)
}

fn has_passed(told: &Told) -> bool {
    told.point.outcome == Outcome::Pass
}

/// Whether it passed, or is void although every query was answered in time.
fn has_all(told: &Told) -> bool {
    told.point.outcome != Outcome::Fail && told.point.loss_ratio <= 0.0
}

/// The rate that the server kept up at least by the trials at a rate in which every query was answered: for
/// the queries of a trial of T, after which it still worked for the time D, it needed T + D.
fn kept_up(qps: u64, tried: &[Told], answered: fn(&Told) -> bool) -> u64 {
    let answered = tried.iter().filter(|told| told.point.load == qps && answered(told));
    let kept = answered.map(|&Told { point: Point { duration_ns, .. }, drain_ns, .. }| {
        (u128::from(qps) * u128::from(duration_ns) / u128::from(duration_ns + drain_ns)) as u64
    });
    kept.min().unwrap_or(qps)
}
