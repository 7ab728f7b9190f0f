//! Several results over time, and where they jump.

use record::statistics::{CHANGES_MIN, changes};
use serde::Serialize;

use super::{ConditionResult, Incomparable, Named, Side, comparable, resolution_pct, side};

/// Results in the order they were measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct History {
    /// The results, oldest first.
    pub results: Vec<Side>,
    /// Where the medians jump and stay, oldest first.
    pub changes: Vec<Jump>,
    /// Smaller changes are none, in percent: what was asked for, or what the searches can tell apart if that
    /// is more.
    pub threshold_pct: f64,
    /// How many results changes can be found in at all.
    pub results_needed: usize,
    /// What differs from the first result beside the server, or is doubtful.
    pub warnings: Vec<String>,
}

/// A change point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Jump {
    /// The first result after it.
    pub directory: String,
    /// Its index among the results, from 0.
    pub index: usize,
    /// The median after it against that before, in percent.
    pub change_pct: f64,
    /// How probable so clear a division is by chance.
    pub p_value: f64,
}

impl History {
    /// Whether the level now is worse than the one before by more than `by_pct` percent.
    pub fn worse_by(&self, by_pct: f64) -> ConditionResult {
        if self.results.len() < self.results_needed {
            return ConditionResult::Unknown;
        }
        let by_pct = by_pct.max(self.threshold_pct);
        match self.changes.last() {
            Some(last) if last.change_pct < -by_pct => ConditionResult::Yes,
            _ => ConditionResult::No,
        }
    }
}

/// Puts results in the order of their starts and looks for changes of at least `threshold_pct` percent.
///
/// # Errors
/// They were asked different questions, or a result holds no rate.
pub fn history(results: &[Named<'_>], threshold_pct: f64) -> Result<History, Incomparable> {
    let mut sorted = results.to_vec();
    sorted.sort_by(|a, b| a.results.started_utc.cmp(&b.results.started_utc));
    let mut warnings = Vec::new();
    if let Some((first, others)) = sorted.split_first() {
        for other in others {
            comparable::check(*first, *other)?;
            for warning in comparable::warnings(*first, *other) {
                // Each is compared with the first, whose doubts so come again and again.
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
        }
    }
    let sides: Vec<Side> = sorted.iter().map(|of| side(*of)).collect::<Result<_, _>>()?;
    let threshold_pct = sides.iter().map(resolution_pct).fold(threshold_pct, f64::max);
    let medians: Vec<f64> = sides.iter().map(|side| side.summary.median).collect();
    let jump = |change: record::statistics::Change| Jump {
        directory: sides[change.at].directory.clone(),
        index: change.at,
        change_pct: change.change_pct,
        p_value: change.p_value,
    };
    let changes = changes(&medians, threshold_pct).into_iter().map(jump).collect();
    Ok(History { results: sides, changes, threshold_pct, results_needed: CHANGES_MIN, warnings })
}
