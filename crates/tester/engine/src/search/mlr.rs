//! MLRsearch (RFC 9971): several goals in one search, from short trials far apart to full-length ones close
//! together.
//!
//! The RFC leaves the choice of the next load to the Controller, and defines how trials classify a load
//! ([`Goal`]).

use std::collections::BTreeMap;

use super::goal::{Class, Goal, Target};
use super::{Next, Point, SearchResult, SearchSpec, TrialInput};
use record::Outcome;

/// A search that has not ended by then ends with the bounds that it has.
const TRIALS_MAX: usize = 500;

/// What a search found for a goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GoalBounds {
    /// The relevant lower bound in q/s: the highest lower bound below the relevant upper bound.
    pub lower_qps: Option<u64>,
    /// The relevant upper bound in q/s: the lowest load that was classified so.
    pub upper_qps: Option<u64>,
    /// The conditional throughput at the relevant lower bound in q/s; 0 without one.
    pub conditional_qps: f64,
    /// The highest rate allowed is a lower bound: the true one may be higher.
    pub at_ceiling: bool,
}

/// The bounds of a target among the loads that were tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    pub lower: Option<u64>,
    pub upper: Option<u64>,
}

/// Trials that are not void, by load.
type Loads = BTreeMap<u64, Vec<Point>>;

fn loads(history: &[Point]) -> Loads {
    let mut loads = Loads::new();
    for point in history.iter().filter(|point| point.outcome != Outcome::Void) {
        loads.entry(point.load).or_default().push(*point);
    }
    loads
}

/// The bounds for every goal, as far as the trials tell.
pub fn goal_bounds(spec: &SearchSpec, goals: &[Goal], history: &[Point]) -> Vec<GoalBounds> {
    let loads = loads(history);
    let bounds_of = |goal: &Goal| {
        let target = *goal.targets().last().expect("a goal is its own last target");
        let Bounds { lower, upper } = View::new(spec, target, &loads).bounds();
        GoalBounds {
            lower_qps: lower,
            upper_qps: upper,
            conditional_qps: lower.map_or(0.0, |qps| target.conditional_qps(qps, &loads[&qps])),
            at_ceiling: lower.is_some_and(|qps| qps >= spec.high),
        }
    };
    goals.iter().map(bounds_of).collect()
}

/// The next step: the coarse targets of all goals, then the finer ones, and last the goals themselves. Void
/// trials are no affair of this function.
pub(super) fn next(spec: &SearchSpec, goals: &[Goal], history: &[Point]) -> Next {
    let loads = loads(history);
    let targets: Vec<Vec<Target>> = goals.iter().map(Goal::targets).collect();
    let levels = targets.iter().map(Vec::len).max().unwrap_or(0);
    let grid = Grid::new(spec, goals);
    let open = |level: usize| {
        targets.iter().find_map(|targets| {
            // Goals with fewer targets begin later, so that all come to their ends together.
            let level = (level + targets.len()).checked_sub(levels)?;
            step(spec, targets, level, &loads, grid)
        })
    };
    match (0..levels).find_map(open) {
        Some(input) if history.len() < TRIALS_MAX => Next::Try(input),
        _ => Next::Found(found(spec, goals, history)),
    }
}

/// What the first goal says.
fn found(spec: &SearchSpec, goals: &[Goal], history: &[Point]) -> SearchResult {
    let bounds = goal_bounds(spec, &goals[..goals.len().min(1)], history);
    let Some(GoalBounds { lower_qps, upper_qps, at_ceiling, .. }) = bounds.first() else {
        return SearchResult { load: 0, stop_width: 0, at_ceiling: false, ended_by_voids: None };
    };
    let qps = lower_qps.unwrap_or(0);
    SearchResult {
        load: qps,
        stop_width: upper_qps.map_or(0, |upper| upper - qps),
        at_ceiling: *at_ceiling,
        ended_by_voids: None,
    }
}

/// The trial that this level of a goal wants; none if it is reached, or if a finer one has begun.
fn step(
    spec: &SearchSpec,
    targets: &[Target],
    level: usize,
    loads: &Loads,
    grid: Grid,
) -> Option<TrialInput> {
    let finer = targets.get(level + 1);
    if finer.is_some_and(|finer| loads.values().any(|trials| finer.is_begun(trials))) {
        return None;
    }
    let coarse = level.checked_sub(1).and_then(|level| targets.get(level));
    let hint = coarse.map(|&coarse| View::new(spec, coarse, loads).bounds()).unwrap_or_default();
    let target = targets[level];
    let load = View::new(spec, target, loads).next_load(hint, grid)?;
    Some(TrialInput { load, duration_ns: target.trial_ns })
}

/// Loads one width apart, from the highest down: goals that are looked for at the same ones share their
/// trials.
#[derive(Clone, Copy)]
struct Grid {
    high: u64,
    /// From one load to the next, below 1.
    ratio: f64,
}

impl Grid {
    fn new(spec: &SearchSpec, goals: &[Goal]) -> Self {
        let width_pct = goals.iter().map(|goal| goal.width_pct).fold(50.0, f64::min);
        Self { high: spec.high, ratio: 1.0 - width_pct / 100.0 }
    }

    /// The nearest load of the grid, if it is `inside`; else the load itself.
    fn snap(self, load: u64, inside: impl Fn(&u64) -> bool) -> u64 {
        let high = self.high as f64;
        let steps = ((load.max(1) as f64 / high).ln() / self.ratio.ln()).round();
        let snapped = (high * self.ratio.powf(steps)).round() as u64;
        if inside(&snapped) { snapped } else { load }
    }
}

/// The loads as one target sees them.
struct View<'a> {
    spec: &'a SearchSpec,
    target: Target,
    loads: &'a Loads,
}

impl<'a> View<'a> {
    fn new(spec: &'a SearchSpec, target: Target, loads: &'a Loads) -> Self {
        Self { spec, target, loads }
    }

    fn classified(&self, class: Class) -> impl DoubleEndedIterator<Item = u64> {
        let is = move |(_, trials): &(&u64, &Vec<Point>)| self.target.classify(*trials) == class;
        self.loads.iter().filter(is).map(|(&load, _)| load)
    }

    /// The relevant bounds. An upper bound has the last word: lower bounds above it are loss inversions.
    fn bounds(&self) -> Bounds {
        let upper = self.classified(Class::Upper).next();
        let below = |load: &u64| upper.is_none_or(|upper| *load < upper);
        Bounds { lower: self.classified(Class::Lower).rfind(below), upper }
    }

    /// The load to try next; none if the bounds are close enough or at an end of the range. It follows from
    /// the bounds, so that a load that needs several trials gets them one after another.
    fn next_load(&self, hint: Bounds, grid: Grid) -> Option<u64> {
        let Bounds { lower, upper } = self.bounds();
        let (low, high) = (self.spec.low, self.spec.high);
        if lower.is_some_and(|lower| lower >= high) || upper.is_some_and(|upper| upper <= low) {
            return None;
        }
        let inside =
            |load: &u64| lower.is_none_or(|lower| *load > lower) && upper.is_none_or(|upper| *load < upper);
        let load = match (lower, upper) {
            (Some(lower), Some(upper)) => self.between(lower, upper)?,
            (None, None) => hint.lower.or(hint.upper).unwrap_or(high),
            (None, Some(upper)) => self.below(upper, hint.lower.filter(inside)).clamp(low, upper - 1),
            (Some(lower), None) => self.above(lower, hint.upper.filter(inside)).clamp(lower + 1, high),
        };
        Some(grid.snap(load, |load| inside(load) && (low..=high).contains(load)))
    }

    /// The geometric mean, as widths are relative.
    fn between(&self, lower: u64, upper: u64) -> Option<u64> {
        // One query per second more than asked is not worth a trial.
        if (upper - lower) as f64 <= (upper as f64 * self.target.width_ratio + 1.0) {
            return None;
        }
        let middle = (lower as f64 * upper as f64).sqrt().round() as u64;
        Some(middle.clamp(lower + 1, upper - 1))
    }

    /// A load that may be a lower bound: first the one that a coarser target knows, or what was answered at
    /// the upper bound; then twice as far away as the step before, or the coarser target's if that is nearer.
    fn below(&self, upper: u64, hint: Option<u64>) -> u64 {
        let uppers: Vec<u64> = self.classified(Class::Upper).take(2).collect();
        if uppers.len() < 2 || self.loads.len() <= FORWARDING_LOADS {
            return hint.unwrap_or_else(|| self.forwarded(upper));
        }
        let step = self.width(upper).max(2 * (uppers[1] - upper));
        upper.saturating_sub(step).max(hint.unwrap_or(0))
    }

    /// A load that may be an upper bound: one width away, as that ends the search if it is one; then twice as
    /// far as the step before, but not beyond the upper bound of a coarser target.
    fn above(&self, lower: u64, hint: Option<u64>) -> u64 {
        let second = self.classified(Class::Lower).rev().nth(1);
        let step = self.width(lower).max(second.map_or(0, |second| 2 * (lower - second)));
        lower.saturating_add(step).min(hint.unwrap_or(u64::MAX))
    }

    fn width(&self, load: u64) -> u64 {
        ((load as f64 * self.target.width_ratio) as u64).max(1)
    }

    /// The forwarding rate at a load: where more comes than a server can do, it shows what it can do.
    fn forwarded(&self, load: u64) -> u64 {
        let least = self.loads[&load].iter().map(|trial| trial.loss_ratio).fold(1.0, f64::min);
        (load as f64 * (1.0 - least)) as u64
    }
}

/// So many loads are chosen by the forwarding rate before steps take over.
const FORWARDING_LOADS: usize = 2;
