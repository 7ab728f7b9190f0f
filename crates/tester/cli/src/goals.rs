//! The goals of `--search mlr`.

use clap::{Args, ValueEnum};
use engine::search::Goal;

use super::EXIT_USAGE;
use crate::failure::Failure;
use crate::options::seconds;

/// Options of the goals.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Search")]
pub(crate) struct GoalOptions {
    /// Set of goals of one search (implies --search mlr)
    #[arg(long, value_enum, value_name = "SET")]
    goals: Option<GoalSet>,
    /// Goal of the search: loss=PERCENT, exceed=PERCENT, initial=SECONDS, final=SECONDS, sum=SECONDS,
    /// width=PERCENT, separated by commas; may be given several times, and the first goal gives the result
    /// (implies --search mlr)
    #[arg(long, value_name = "GOAL", value_parser = parse_goal, conflicts_with = "goals")]
    goal: Vec<GoalArgument>,
}

/// `--goals`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GoalSet {
    /// No loss; at most 0.01 %; at most 0.5 %; trials as long as the preset's.
    Ladder,
    /// No loss in 60 s.
    Rfc2544,
    /// No loss in half of 120 s.
    Tst009,
    /// No loss, and at most 0.5 %, in half of 21 trials of 1 s.
    Csit,
}

/// How close the bounds of [`GoalSet::Csit`] come.
const CSIT_WIDTH_PCT: f64 = 0.5;

/// What a `--goal` says; the rest comes from the preset.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct GoalArgument {
    loss_pct: Option<f64>,
    exceed_pct: Option<f64>,
    initial_ns: Option<u64>,
    final_ns: Option<u64>,
    sum_ns: Option<u64>,
    width_pct: Option<f64>,
}

impl GoalOptions {
    pub(crate) fn are_given(&self) -> bool {
        self.goals.is_some() || !self.goal.is_empty()
    }

    /// The width that belongs to the goals, in percent, where one does.
    pub fn width_pct(&self) -> Option<f64> {
        (self.goals == Some(GoalSet::Csit)).then_some(CSIT_WIDTH_PCT)
    }

    /// The goals, with trials of `trial_ns` and this width where they do not say otherwise; `told` says that
    /// the user chose that length.
    ///
    /// # Errors
    /// Goals that cannot be met, or that have a length of their own beside `--duration`.
    pub fn resolve(&self, trial_ns: u64, width_pct: f64, told: bool) -> Result<Vec<Goal>, Failure> {
        let ladder = Goal::ladder(trial_ns, width_pct);
        if !self.goal.is_empty() {
            return self.goal.iter().map(|wish| wish.resolve(ladder[0])).collect();
        }
        let set = self.goals.unwrap_or(GoalSet::Ladder);
        if told && set != GoalSet::Ladder {
            let name = set.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
            let message =
                format!("--duration: the goals of {name} fix the length of their trials; leave it out");
            return Err(Failure::new(EXIT_USAGE, message));
        }
        Ok(match set {
            GoalSet::Ladder => ladder,
            GoalSet::Rfc2544 => Goal::rfc2544(width_pct),
            GoalSet::Tst009 => Goal::tst009(width_pct),
            GoalSet::Csit => Goal::csit(width_pct),
        })
    }
}

impl GoalArgument {
    /// # Errors
    /// Lengths that make no sense together.
    fn resolve(&self, preset: Goal) -> Result<Goal, Failure> {
        let final_ns = self.final_ns.unwrap_or(preset.final_ns);
        let goal = Goal {
            loss_ratio: self.loss_pct.map_or(0.0, |pct| pct / 100.0),
            exceed_ratio: self.exceed_pct.map_or(0.0, |pct| pct / 100.0),
            initial_ns: self.initial_ns.unwrap_or(preset.initial_ns.min(final_ns)),
            final_ns,
            sum_ns: self.sum_ns.unwrap_or(final_ns),
            width_pct: self.width_pct.unwrap_or(preset.width_pct),
        };
        if goal.initial_ns > goal.final_ns || goal.final_ns > goal.sum_ns {
            let [initial, last, sum] =
                [goal.initial_ns, goal.final_ns, goal.sum_ns].map(|ns| ns as f64 / 1e9);
            let message = format!(
                "--goal: initial ({initial} s) must not exceed final ({last} s), nor that sum ({sum} s)"
            );
            return Err(Failure::new(EXIT_USAGE, message));
        }
        // A load is tried until the sum is full.
        if goal.sum_ns / goal.final_ns.max(1) > REPEATS_MAX {
            let message = format!("--goal: sum is more than {REPEATS_MAX} times final");
            return Err(Failure::new(EXIT_USAGE, message));
        }
        Ok(goal)
    }
}

/// Trials at one load that a goal may ask for.
const REPEATS_MAX: u64 = 100;

fn parse_goal(text: &str) -> Result<GoalArgument, String> {
    let mut wish = GoalArgument::default();
    for part in text.split(',') {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| format!("'{part}': write KEY=VALUE, for example loss=0.01"))?;
        let named = |error: String| format!("{key} {error}");
        let length = || seconds(value).map(|length| Some(length.as_nanos() as u64)).map_err(named);
        let share = |range: std::ops::RangeInclusive<f64>| {
            let share = value.trim_end_matches('%').parse().ok().filter(|share| range.contains(share));
            let (low, high) = range.into_inner();
            share.map(Some).ok_or_else(|| format!("{key} must be from {low} to {high} percent"))
        };
        match key {
            "loss" => wish.loss_pct = share(0.0..=99.0)?,
            "exceed" => wish.exceed_pct = share(0.0..=99.0)?,
            "width" => wish.width_pct = share(0.01..=50.0)?,
            "initial" => wish.initial_ns = length()?,
            "final" => wish.final_ns = length()?,
            "sum" => wish.sum_ns = length()?,
            _ => return Err(format!("'{key}' is not one of loss, exceed, initial, final, sum, width")),
        }
    }
    Ok(wish)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn resolved(text: &str) -> Result<Goal, String> {
        let wish = parse_goal(text)?;
        wish.resolve(Goal::ladder(2 * SECOND_NS, 1.0)[0]).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_goal_says_what_differs_from_the_preset() {
        let goal = resolved("loss=0.5%,exceed=50,sum=10").unwrap();
        assert_eq!((goal.loss_ratio, goal.exceed_ratio), (0.005, 0.5));
        assert_eq!((goal.final_ns, goal.sum_ns, goal.width_pct), (2 * SECOND_NS, 10 * SECOND_NS, 1.0));
        assert_eq!(resolved("final=0.1").unwrap().initial_ns, SECOND_NS / 10);
    }

    #[test]
    fn what_makes_no_goal_is_told() {
        for (text, reason) in [
            ("loss", "write KEY=VALUE"),
            ("los=1", "is not one of loss"),
            ("loss=100", "from 0 to 99 percent"),
            ("exceed=NaN", "from 0 to 99 percent"),
            ("final=0", "final must be from 0.001"),
            ("initial=3", "initial (3 s) must not exceed final (2 s)"),
            ("sum=1000", "more than 100 times"),
        ] {
            let error = resolved(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
