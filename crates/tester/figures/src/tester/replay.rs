//! A capture that is replayed faster and faster.

use serde::{Deserialize, Serialize};

use crate::Sample;
use crate::goals::{Goal, Reached};
use crate::sample::table;

/// A capture that was replayed over UDP while it was read from disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Replayed {
    /// The back-end of the Measurer.
    pub io: String,
    /// Threads that sent; one more read the file.
    pub lanes: u64,
    /// Clients of the capture.
    pub clients: u64,
    /// Queries per second of the capture at the speed of the replay.
    pub rate_qps: u64,
    /// The 99.9th percentile of how late queries left, in µs.
    pub late_p999_us: Sample,
    /// Queries that left, in percent of those that the capture has for the time.
    pub sent_pct: Sample,
    /// Queries that were answered, in percent likewise.
    pub answered_pct: Sample,
}

/// The rate of the goal in q/s.
const GOAL_QPS: u64 = 1_000_000;
/// 99.9 % of the queries leave within this time of their instants, in µs.
const GOAL_LATE_US: f64 = 1000.0;

impl Replayed {
    /// Whether the queries left in time, in every round.
    fn kept(&self) -> bool {
        let ((_, late_us), (sent_pct, _)) = (self.late_p999_us.range(), self.sent_pct.range());
        !self.late_p999_us.is_empty() && late_us <= GOAL_LATE_US && sent_pct >= 100.0
    }
}

/// The table.
pub(super) fn rows(replays: &[Replayed]) -> String {
    let head = ["rate, q/s", "sextant trial", "clients", "queries late, p99.9, µs", "sent, %", "answered, %"];
    let row = |row: &Replayed| {
        vec![
            row.rate_qps.to_string(),
            format!("--io {} --threads {}", row.io, row.lanes),
            row.clients.to_string(),
            row.late_p999_us.decimals(0),
            row.sent_pct.decimals(1),
            row.answered_pct.decimals(1),
        ]
    };
    table(&head, &replays.iter().map(row).collect::<Vec<_>>())
}

/// The goal.
pub(super) fn goal(replays: &[Replayed]) -> Goal {
    const GOAL: &str = "1,000,000 q/s replayed over UDP from disk, 99.9 % of the queries within 1 ms";
    let at_goal = || replays.iter().filter(|row| row.rate_qps == GOAL_QPS && !row.late_p999_us.is_empty());
    let latest_us = |row: &Replayed| row.late_p999_us.range().1;
    let Some(late_us) = at_goal().map(latest_us).min_by(f64::total_cmp) else {
        return Goal::not_measured(GOAL);
    };
    let highest = replays.iter().filter(|row| row.kept()).map(|row| row.rate_qps).max();
    let highest = highest.map_or_else(
        || "none of the lower rates either".to_owned(),
        |rate| format!("{rate} q/s is the highest rate so"),
    );
    let here = format!("p99.9 {late_us:.0} µs late; {highest}");
    Goal::new(GOAL, here, Reached::if_true(at_goal().any(Replayed::kept)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(rate_qps: u64, late_us: &[f64], sent_pct: f64) -> Replayed {
        Replayed {
            rate_qps,
            late_p999_us: late_us.to_vec().into(),
            sent_pct: vec![sent_pct].into(),
            ..Replayed::default()
        }
    }

    #[test]
    fn a_rate_is_kept_if_every_query_left_in_time_in_every_round() {
        let mut replays = vec![row(500_000, &[20.0, 900.0], 100.0), row(1_000_000, &[20.0, 1001.0], 100.0)];
        let found = goal(&replays);
        assert_eq!(found.reached, Reached::No);
        assert_eq!(found.here, "p99.9 1001 µs late; 500000 q/s is the highest rate so");
        replays.push(row(1_000_000, &[5.0], 99.0));
        assert_eq!(goal(&replays).reached, Reached::No);
        replays.push(row(1_000_000, &[5.0], 100.0));
        assert_eq!(goal(&replays).reached, Reached::Yes);
        assert_eq!(goal(&replays[..1]).reached, Reached::Open);
    }
}
