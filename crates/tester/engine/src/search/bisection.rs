//! Bisection: every trial halves the bracket, by the rule that says when a load stands ([`Rule`]).

use super::{Bracket, Mode, Next, Point, Rule, SearchResult, SearchSpec, bracket};
use record::standing::{Standing, Standings};

/// What the trials say of their loads.
pub(super) fn standings(spec: &SearchSpec, history: &[Point]) -> Standings {
    let rule = if spec.mode == Mode::Verify { Rule::TwoDecide } else { Rule::EveryTrial };
    Standings::new(rule, history.iter().map(|point| (point.load, point.outcome, point.loss_ratio)))
}

/// The next step. An open load is decided first. The load that the search would end with is confirmed where
/// the rule asks for it: if it fails then, the search goes on below.
///
/// The search ends: a trial is run at an open load, at the load to be confirmed, or at a load never tried,
/// and no load takes more than three trials that are not void.
pub(super) fn next(spec: &SearchSpec, history: &[Point]) -> Next {
    let standings = standings(spec, history);
    if let Some(open) = standings.open() {
        return spec.trial(open);
    }
    let Bracket { passed, failed } = bracket(spec, history);
    let width = failed.saturating_sub(passed);
    let enough = ((passed as f64 * spec.width_pct / 100.0) as u64).max(1);
    let at_ceiling = passed >= spec.high;
    let is_narrow = failed <= spec.low || (passed > 0 && width <= enough);
    if !at_ceiling && !is_narrow {
        return spec.trial((passed + width / 2).clamp(spec.low, spec.high));
    }
    if !at_ceiling && failed > spec.high {
        // Nothing above has been refused yet: the ceiling itself decides.
        return spec.trial(spec.high);
    }
    if standings.of(passed) == Standing::PassedOnce {
        return spec.trial(passed);
    }
    let stop_width = if at_ceiling { 0 } else { width };
    Next::Found(SearchResult { load: passed, stop_width, at_ceiling, ended_by_voids: None })
}
