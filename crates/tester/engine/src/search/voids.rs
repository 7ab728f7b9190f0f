//! Void trials: when they leave a rate undecided, when they end a search, and what is known then.

use std::collections::BTreeSet;

use super::{Bracket, Next, Point, SearchResult, SearchSpec, bracket};
use record::Outcome;
use record::limits::{VOID_SHARE, VOIDS_IN_SEARCH};

/// Trials that void ones left undecided, by what they were told. The search goes on at other rates.
#[derive(Debug, Default)]
pub(super) struct Undecided(BTreeSet<(u64, u64)>);

impl Undecided {
    /// What so many void trials in a row, run alike, could not decide.
    pub(super) fn of(spec: &SearchSpec, history: &[Point]) -> Self {
        let runs = history.chunk_by(Point::repeats);
        let void = |run: &&[Point]| run[0].outcome == Outcome::Void && run.len() >= spec.voids_max as usize;
        Self(runs.filter(void).map(|run| (run[0].rate_qps, run[0].duration_ns)).collect())
    }

    pub(super) fn has(&self, point: &Point) -> bool {
        self.0.contains(&(point.rate_qps, point.duration_ns))
    }

    /// The history by which the next rate is chosen, and never the result: a rate left undecided counts as
    /// passed if a void trial there had all answers, else as failed, so that the search looks for bounds
    /// above or below it.
    pub(super) fn assumed(&self, history: &[Point]) -> Vec<Point> {
        let had_all = |of: &Point| {
            history.iter().any(|point| {
                (point.rate_qps, point.duration_ns) == (of.rate_qps, of.duration_ns)
                    && point.is_void_with_all()
            })
        };
        let assume = |point: &Point| match () {
            () if point.outcome != Outcome::Void || !self.has(point) => *point,
            () if had_all(point) => Point { outcome: Outcome::Pass, loss_ratio: 0.0, ..*point },
            () => Point { outcome: Outcome::Fail, loss_ratio: 1.0, ..*point },
        };
        history.iter().map(assume).collect()
    }

    /// The lowest such rate above this one, or of all; `None` if there is none.
    pub(super) fn above(&self, rate_qps: u64) -> Option<u64> {
        let rates = || self.0.iter().map(|&(rate_qps, _)| rate_qps);
        rates().find(|&undecided_qps| undecided_qps > rate_qps).or_else(|| rates().next())
    }
}

impl Point {
    /// Whether the trial was run as the other one and ended so.
    fn repeats(&self, other: &Self) -> bool {
        (self.rate_qps, self.duration_ns, self.outcome) == (other.rate_qps, other.duration_ns, other.outcome)
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

/// What is known where void trials at a rate kept the search from its end.
pub(super) fn known(spec: &SearchSpec, history: &[Point], rate_qps: u64) -> Next {
    let Bracket { passed_qps, failed_qps } = bracket(spec, history);
    if passed_qps == 0 {
        return Next::Unfit(rate_qps);
    }
    Next::Found(SearchResult {
        qps: passed_qps,
        stop_width_qps: failed_qps.min(spec.high_qps).saturating_sub(passed_qps),
        at_ceiling: passed_qps >= spec.high_qps,
        ended_by_voids_qps: Some(rate_qps),
    })
}
