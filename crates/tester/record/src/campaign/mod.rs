//! The schema of `campaign.json`: the record of a campaign, written before and after every visit.

mod figures;

use serde::{Deserialize, Serialize};

pub use figures::{Figure, Published};

/// The version of this record.
pub const SCHEMA: u32 = 1;
/// Its file in the campaign's directory.
pub const FILE: &str = "campaign.json";
/// The cell that is visited at the start, middle and end, to see whether the machine stays the same.
pub const SENTINEL: &str = "sentinel";

/// How long and how often is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// An orientation, in minutes.
    #[default]
    Quick,
    /// As the paper or the RFC asks, in hours or days.
    Full,
}

impl Form {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}

/// A campaign, begun or done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The name on the command line, for example `dns64-shootout`.
    pub name: String,
    /// The title of the report, one line.
    pub title: String,
    /// The text under the title.
    pub about: String,
    /// How long and how often was measured.
    pub form: Form,
    /// The program that measured.
    pub tool: String,
    /// RFC 3339, UTC.
    pub started_utc: String,
    /// RFC 3339, UTC; absent while visits are to be made.
    pub finished_utc: Option<String>,
    /// The processors of the machine, in words.
    pub machine: String,
    /// What is read from the records besides the rates.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// What others measured.
    pub published: Vec<Published>,
    /// The visits in their order.
    pub visits: Vec<Visit>,
    /// The text that all this was made of.
    pub description: String,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Visit {
    /// Visits of one cell measure the same.
    pub cell: String,
    /// The options that tell the cell from others, with their values.
    pub settings: Vec<(String, String)>,
    /// From 1.
    pub round: u32,
    /// The command line, without the program and `--out`.
    pub arguments: Vec<String>,
    /// About how long it should take, in seconds.
    pub forecast_s: f64,
    /// How far it came.
    pub state: VisitState,
    /// Its result directory within the campaign's.
    pub directory: Option<String>,
    /// How long it took, in seconds.
    pub took_s: Option<f64>,
}

/// How far a visit came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VisitState {
    /// Not begun.
    Pending,
    /// Under way, or ended without a word (a crash).
    Running,
    /// The measurement ended and left a record.
    Complete,
    /// It came to no result; why.
    Failed(String),
    /// What is to be measured is not on this machine; what is missing.
    Missing(String),
}

impl Series {
    /// The visits still to be made: those not begun, broken off, or failed.
    pub fn open(&self) -> impl Iterator<Item = usize> + '_ {
        let is_open = |state: &VisitState| !matches!(state, VisitState::Complete | VisitState::Missing(_));
        self.visits.iter().enumerate().filter(move |(_, visit)| is_open(&visit.state)).map(|(index, _)| index)
    }

    /// About how long these visits will take in seconds: as long as earlier ones of the same cell, else as
    /// forecast, corrected by how right the forecasts were so far.
    pub fn forecast_s(&self, visits: impl Iterator<Item = usize>) -> f64 {
        let done = self.visits.iter().filter_map(|visit| Some((visit, visit.took_s?)));
        let (took_s, expected_s) = done.clone().fold((0.0, 0.0), |(took, expected), (visit, took_s)| {
            (took + took_s, expected + visit.forecast_s)
        });
        let correction = if expected_s > 0.0 { (took_s / expected_s).clamp(0.2, 5.0) } else { 1.0 };
        visits
            .filter_map(|index| self.visits.get(index))
            .map(|visit| {
                let own: Vec<f64> = done
                    .clone()
                    .filter(|(other, _)| other.cell == visit.cell)
                    .map(|(_, took_s)| took_s)
                    .collect();
                if own.is_empty() {
                    visit.forecast_s * correction
                } else {
                    own.iter().sum::<f64>() / own.len() as f64
                }
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(cell: &str, forecast_s: f64, took_s: Option<f64>, state: VisitState) -> Visit {
        let (settings, arguments) = (Vec::new(), Vec::new());
        Visit { cell: cell.into(), settings, round: 1, arguments, forecast_s, state, directory: None, took_s }
    }

    fn series(visits: Vec<Visit>) -> Series {
        Series {
            schema: SCHEMA,
            name: "a".into(),
            title: "A".into(),
            about: String::new(),
            form: Form::Quick,
            tool: "sextant".into(),
            started_utc: String::new(),
            finished_utc: None,
            machine: String::new(),
            figures: Vec::new(),
            published: Vec::new(),
            visits,
            description: String::new(),
        }
    }

    #[test]
    fn the_forecast_learns_from_what_is_done() {
        let mut series = series(vec![
            visit("a", 10.0, None, VisitState::Pending),
            visit("b", 20.0, None, VisitState::Pending),
        ]);
        assert_eq!(series.forecast_s(series.open()), 30.0);
        series.visits[0] = visit("a", 10.0, Some(15.0), VisitState::Complete);
        assert_eq!(series.forecast_s(series.open()), 30.0, "half as much again");
        series.visits.push(visit("a", 10.0, None, VisitState::Failed("x".into())));
        assert_eq!(series.open().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(series.forecast_s(series.open()), 45.0, "as long as the first of the cell");
    }
}
