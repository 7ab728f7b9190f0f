//! Void trials: when they leave a load undecided, when they end a search, and what is known then.

use std::collections::BTreeSet;

use super::{Bracket, Mode, Next, Point, SearchResult, SearchSpec, bracket};
use record::Outcome;
use record::limits::{VOID_SHARE, VOIDS_IN_SEARCH};

/// Trials that void ones left undecided, by what they were told. The search goes on at other loads.
#[derive(Debug, Default)]
pub(super) struct Undecided(BTreeSet<(u64, u64)>);

impl Undecided {
    /// What so many void trials in a row, run alike, could not decide.
    pub(super) fn of(spec: &SearchSpec, history: &[Point]) -> Self {
        let runs = history.chunk_by(Point::repeats);
        let void = |run: &&[Point]| run[0].outcome == Outcome::Void && run.len() >= spec.voids_max as usize;
        Self(runs.filter(void).map(|run| (run[0].load, run[0].duration_ns)).collect())
    }

    pub(super) fn has(&self, point: &Point) -> bool {
        self.0.contains(&(point.load, point.duration_ns))
    }

    /// The history by which the next load is chosen, and never the result: a load left undecided counts as
    /// passed if a void trial there had all answers, else as failed, so that the search looks for bounds
    /// above or below it.
    pub(super) fn assumed(&self, history: &[Point]) -> Vec<Point> {
        let had_all = |of: &Point| {
            history.iter().any(|point| {
                (point.load, point.duration_ns) == (of.load, of.duration_ns) && point.is_void_with_all()
            })
        };
        let assume = |point: &Point| match () {
            () if point.outcome != Outcome::Void || !self.has(point) => *point,
            () if had_all(point) => Point { outcome: Outcome::Pass, loss_ratio: 0.0, ..*point },
            () => Point { outcome: Outcome::Fail, loss_ratio: 1.0, ..*point },
        };
        history.iter().map(assume).collect()
    }

    /// The lowest such load above this one, or of all; `None` if there is none.
    pub(super) fn above(&self, load: u64) -> Option<u64> {
        let loads = || self.0.iter().map(|&(load, _)| load);
        loads().find(|&undecided| undecided > load).or_else(|| loads().next())
    }
}

impl Point {
    /// Whether the trial was run as the other one and ended so.
    fn repeats(&self, other: &Self) -> bool {
        (self.load, self.duration_ns, self.outcome) == (other.load, other.duration_ns, other.outcome)
    }

    fn is_void_with_all(&self) -> bool {
        self.outcome == Outcome::Void && self.loss_ratio <= 0.0
    }
}

/// Whether a search has so many void trials, and more of them than others, that it ends.
pub(super) fn are_too_many(spec: &SearchSpec, history: &[Point]) -> bool {
    let voids = history.iter().filter(|point| point.outcome == Outcome::Void).count();
    let most = spec.voids_max as usize * VOIDS_IN_SEARCH.value as usize;
    voids >= most && voids as f64 > history.len() as f64 * VOID_SHARE.value / 100.0
}

/// Where void trials would end a search that knows no load with all answers: one trial more at a quarter of
/// the lowest load so far. On a machine that is taken away for most of the time, too, some low load has all
/// its answers, and gives the interval a lower end. `None` if there is nothing lower.
pub(super) fn lower(spec: &SearchSpec, history: &[Point]) -> Option<Next> {
    /// From one load to the next lower one.
    const STEP: u64 = 4;
    // Shorter trials give no end of an interval.
    let is_answered = |point: &Point| {
        point.duration_ns >= spec.trial_ns && (point.outcome == Outcome::Pass || point.is_void_with_all())
    };
    if matches!(spec.mode, Mode::Fixed { .. }) || history.iter().any(is_answered) {
        return None;
    }
    let lowest = history.iter().map(|point| point.load).min()?;
    let load = (lowest / STEP).max(spec.low);
    (load < lowest).then(|| spec.trial(load))
}

/// What is known where void trials at a load kept the search from its end.
pub(super) fn known(spec: &SearchSpec, history: &[Point], load: u64) -> Next {
    let Bracket { passed, failed } = bracket(spec, history);
    if passed == 0 {
        return Next::Unfit(load);
    }
    Next::Found(SearchResult {
        load: passed,
        stop_width: failed.min(spec.high).saturating_sub(passed),
        at_ceiling: passed >= spec.high,
        ended_by_voids: Some(load),
    })
}
