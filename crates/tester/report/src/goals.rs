//! The goals of a search (RFC 9971), and how steady its results are, in words.

use record::{Goal, Results, Steadiness};

use record::number::{percent, rate, rate_of, short};

/// What the rates of the runs were found without: no loss at all, or what the first goal allows.
pub fn without(results: &Results) -> String {
    match results.settings.goals.first() {
        Some(goal) if goal.loss_pct > 0.0 || goal.exceed_pct > 0.0 => format!("with {}", allowed(goal)),
        _ => "without losing a query".to_owned(),
    }
}

/// Whether the first goal allows trials that lose any number of queries.
pub(crate) fn may_lose(results: &Results) -> bool {
    results.settings.goals.first().is_some_and(|goal| goal.exceed_pct > 0.0)
}

/// What a goal allows to be lost.
fn allowed(goal: &Goal) -> String {
    let loss = match goal.loss_pct {
        loss if loss > 0.0 => format!("at most {} % lost", short(loss)),
        _ => "no query lost".to_owned(),
    };
    match goal.exceed_pct {
        exceed if exceed > 0.0 => format!("{loss} in {} % of the time", short(100.0 - exceed)),
        _ => loss,
    }
}

/// A label and the bounds for each goal.
pub(crate) fn goal_lines(results: &Results) -> Vec<(String, String)> {
    let of = |(goal, found): (&Goal, &record::GoalSummary)| {
        let bounds = format!(
            "median {} ({} to {}), conditional throughput {}{}",
            rate(found.lower.median),
            rate_of(found.lower.min),
            rate_of(found.lower.max),
            rate(found.conditional_median_qps),
            if goal.exceed_pct > 0.0 { format!("; {}", allowed(goal)) } else { String::new() }
        );
        (format!("Goal of {} % loss", short(goal.loss_pct)), bounds)
    };
    results.settings.goals.iter().zip(&results.goals).map(of).collect()
}

/// Chance alone makes such an order no more often than this.
const P_VALUE_MAX: f64 = 0.05;

/// What there is to say of the steadiness; nothing where too few runs were made.
pub fn steadiness(steady: &Steadiness) -> Option<String> {
    let mut said = Vec::new();
    if let Some((drift, p_value)) = steady.drift_pct.zip(steady.drift_p_value) {
        let change = format!("{} {}", percent(drift.abs()), if drift < 0.0 { "down" } else { "up" });
        said.push(match p_value {
            p if p <= P_VALUE_MAX => {
                format!("the rate drifted {change} from the first runs to the last (p = {p:.3})")
            }
            _ => format!("no drift (first to last runs {change})"),
        });
    }
    if let Some(floor) = steady.noise_floor_pct {
        said.push(format!("differences below {} are noise (A/A)", percent(floor)));
    }
    if let Some(index) = steady.noise_index_pct {
        said.push(format!("the rate with 0.01 % loss is {} higher than without loss", percent(index)));
    }
    (!said.is_empty()).then(|| said.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_goal_allows_is_said() {
        let goal = |loss_pct, exceed_pct| Goal { loss_pct, exceed_pct, ..Goal::default() };
        assert_eq!(allowed(&goal(0.0, 0.0)), "no query lost");
        assert_eq!(allowed(&goal(0.01, 50.0)), "at most 0.01 % lost in 50 % of the time");
        let mut results = Results::new(record::Kind::Bench);
        assert_eq!(without(&results), "without losing a query");
        results.settings.goals = vec![goal(0.0, 50.0)];
        assert_eq!(without(&results), "with no query lost in 50 % of the time");
    }

    #[test]
    fn a_drift_is_told_from_chance() {
        let steady = |drift_p_value| Steadiness {
            drift_pct: Some(-3.0),
            drift_p_value,
            noise_floor_pct: Some(1.5),
            noise_index_pct: None,
        };
        let text = steadiness(&steady(Some(0.01))).unwrap_or_default();
        assert!(text.starts_with("the rate drifted 3.00 % down") && text.contains("below 1.50 %"), "{text}");
        assert!(steadiness(&steady(Some(0.5))).is_some_and(|text| text.starts_with("no drift")));
        assert_eq!(steadiness(&Steadiness::default()), None);
    }
}
