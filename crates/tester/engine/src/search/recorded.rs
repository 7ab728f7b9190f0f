//! A search, its goals and its results, as the record has them.

use super::{Goal, GoalBounds, Mode};

impl From<&Mode> for record::SearchMode {
    fn from(mode: &Mode) -> Self {
        match mode {
            Mode::Rfc8219 => Self::Rfc8219,
            Mode::Verify => Self::Verify,
            Mode::Fixed { .. } => Self::Fixed,
            Mode::Mlr(_) => Self::Mlr,
        }
    }
}

impl From<&Goal> for record::Goal {
    fn from(goal: &Goal) -> Self {
        let seconds = |ns: u64| ns as f64 / 1e9;
        Self {
            loss_pct: goal.loss_ratio * 100.0,
            exceed_pct: goal.exceed_ratio * 100.0,
            initial_trial_s: seconds(goal.initial_ns),
            final_trial_s: seconds(goal.final_ns),
            duration_sum_s: seconds(goal.sum_ns),
            width_pct: goal.width_pct,
        }
    }
}

impl From<GoalBounds> for record::GoalResult {
    fn from(bounds: GoalBounds) -> Self {
        let GoalBounds { lower_qps, upper_qps, conditional_qps, at_ceiling } = bounds;
        Self { lower_qps, upper_qps, conditional_qps, at_ceiling }
    }
}
