//! Bisection: every trial halves the bracket, by the rule that says when a rate stands ([`Rule`]).

use super::{Bracket, Mode, Next, Point, Rule, SearchResult, SearchSpec, bracket};
use record::standing::{Standing, Standings};

/// What the trials say of their rates.
pub(super) fn standings(spec: &SearchSpec, history: &[Point]) -> Standings {
    let rule = if spec.mode == Mode::Verify { Rule::TwoDecide } else { Rule::EveryTrial };
    Standings::new(rule, history.iter().map(|point| (point.rate_qps, point.outcome, point.loss_ratio)))
}

/// The next step. An open rate is decided first. The rate that the search would end with is confirmed where
/// the rule asks for it: if it fails then, the search goes on below.
///
/// The search ends: a trial is run at an open rate, at the rate to be confirmed, or at a rate never tried,
/// and no rate takes more than three trials that are not void.
pub(super) fn next(spec: &SearchSpec, history: &[Point]) -> Next {
    let standings = standings(spec, history);
    if let Some(open_qps) = standings.open_qps() {
        return spec.trial(open_qps);
    }
    let Bracket { passed_qps, failed_qps } = bracket(spec, history);
    let width = failed_qps.saturating_sub(passed_qps);
    let enough = ((passed_qps as f64 * spec.width_pct / 100.0) as u64).max(1);
    let at_ceiling = passed_qps >= spec.high_qps;
    let is_narrow = failed_qps <= spec.low_qps || (passed_qps > 0 && width <= enough);
    if !at_ceiling && !is_narrow {
        return spec.trial((passed_qps + width / 2).clamp(spec.low_qps, spec.high_qps));
    }
    if !at_ceiling && failed_qps > spec.high_qps {
        // Nothing above has been refused yet: the ceiling itself decides.
        return spec.trial(spec.high_qps);
    }
    if standings.of(passed_qps) == Standing::PassedOnce {
        return spec.trial(passed_qps);
    }
    let stop_width_qps = if at_ceiling { 0 } else { width };
    Next::Found(SearchResult { qps: passed_qps, stop_width_qps, at_ceiling, ended_by_voids_qps: None })
}
