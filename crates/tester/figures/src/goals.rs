//! The table of goals.

use crate::sample::table;

/// Whether a goal is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    Yes,
    No,
    /// Reached here, and missed by another method.
    HereOnly,
    /// It was measured under conditions that do not compare.
    Unequal,
    /// It was not measured.
    Open,
}

impl Reached {
    pub(crate) fn if_true(is_reached: bool) -> Self {
        if is_reached { Self::Yes } else { Self::No }
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::Yes => "reached",
            Self::No => "missed",
            Self::HereOnly => "reached here, missed by the other method",
            Self::Unequal => "not decided",
            Self::Open => "-",
        }
    }
}

/// A goal, what was measured, and the verdict.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Goal {
    pub goal: String,
    pub here: String,
    pub reached: Reached,
}

impl Goal {
    pub(crate) fn new(goal: &str, here: impl Into<String>, reached: Reached) -> Self {
        Self { goal: goal.into(), here: here.into(), reached }
    }

    pub(crate) fn not_measured(goal: &str) -> Self {
        Self::new(goal, "not measured", Reached::Open)
    }
}

/// All goals under their heading.
pub(crate) fn section(goals: &[Goal]) -> String {
    let row = |goal: &Goal| vec![goal.goal.clone(), goal.here.clone(), goal.reached.in_words().to_owned()];
    let rows: Vec<Vec<String>> = goals.iter().map(row).collect();
    format!("\n## The goals, and how far they are reached\n\n{}", table(&["goal", "here", ""], &rows))
}
