//! The results of a search with several loss goals, as the record has them (RFC 9971, MLRsearch).

use serde::{Deserialize, Serialize};

use crate::Summary;

/// A search goal as it was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// Goal loss ratio in percent: a trial that lost more is a high-loss trial.
    pub loss_pct: f64,
    /// Goal exceed ratio in percent: so much of the time may be spent in high-loss trials.
    pub exceed_pct: f64,
    /// Goal initial trial duration in seconds.
    pub initial_trial_s: f64,
    /// Goal final trial duration in seconds.
    pub final_trial_s: f64,
    /// Goal duration sum in seconds.
    pub duration_sum_s: f64,
    /// Goal width in percent of the relevant upper bound.
    pub width_pct: f64,
}

/// What one search found for a goal, in q/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GoalResult {
    /// The relevant lower bound: the highest rate that meets the goal, below every rate that does not.
    pub lower_qps: Option<u64>,
    /// The relevant upper bound: the lowest rate that does not meet it; none at the ceiling.
    pub upper_qps: Option<u64>,
    /// The conditional throughput at the relevant lower bound: what was answered there but for the time that
    /// is forgiven.
    pub conditional_qps: f64,
    /// The highest rate that the search may try is a lower bound.
    pub at_ceiling: bool,
}

/// What all searches found for a goal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GoalSummary {
    /// Its loss ratio in percent.
    pub loss_pct: f64,
    /// Its exceed ratio in percent.
    pub exceed_pct: f64,
    /// Over the relevant lower bounds of the runs that came to their end; 0 counts where there was none.
    pub lower: Summary,
    /// Median of the conditional throughputs in q/s.
    pub conditional_median_qps: f64,
}
