//! Values of repeated measurements with their spread, and Markdown tables.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

/// What follows a value that was measured once.
pub(crate) const ONCE: &str = "†";

/// Values of repeated measurements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<f64>", into = "Vec<f64>")]
pub struct Sample(Vec<f64>);

impl From<Vec<f64>> for Sample {
    fn from(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self(values)
    }
}

impl From<Sample> for Vec<f64> {
    fn from(sample: Sample) -> Self {
        sample.0
    }
}

impl Sample {
    /// Adds one.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
        self.0.sort_by(f64::total_cmp);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The median; 0 if there is none.
    pub fn median(&self) -> f64 {
        let n = self.0.len();
        if n == 0 { 0.0 } else { (self.0[(n - 1) / 2] + self.0[n / 2]) / 2.0 }
    }

    /// The lowest and the highest; 0 if there is none.
    pub fn range(&self) -> (f64, f64) {
        (self.0.first().copied().unwrap_or(0.0), self.0.last().copied().unwrap_or(0.0))
    }

    /// Median and range in thousands.
    pub fn thousands(&self) -> String {
        self.shown(|value| {
            if value < 99_500.0 { format!("{:.1}", value / 1e3) } else { format!("{:.0}", value / 1e3) }
        })
    }

    /// Median and range with this many decimals.
    pub fn decimals(&self, decimals: usize) -> String {
        self.shown(|value| format!("{value:.decimals$}"))
    }

    /// The median with the range; of one value this alone, with a mark.
    fn shown(&self, show: impl Fn(f64) -> String) -> String {
        match self.0.as_slice() {
            [] => "-".into(),
            [once] => format!("{}{ONCE}", show(*once)),
            [low, .., high] => format!("{} ({}-{})", show(self.median()), show(*low), show(*high)),
        }
    }

    /// The median as a multiple of another's; `None` if one of them is not there.
    pub fn times(&self, of: &Self) -> Option<f64> {
        (!self.is_empty() && of.median() > 0.0).then(|| self.median() / of.median())
    }
}

/// A Markdown table.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut out = line(&head.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>());
    let _ = writeln!(out, "|{}", "---|".repeat(head.len()));
    for row in rows {
        out += &line(row);
    }
    out
}

/// The sentence that explains the form of the cells.
pub(crate) fn legend(rounds: usize) -> String {
    format!("Median (lowest-highest) of {rounds} rounds; {ONCE} marks what was measured in one round alone.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_value_is_marked() {
        let sample = |values: &[f64]| Sample::from(values.to_vec());
        assert_eq!(sample(&[]).thousands(), "-");
        assert_eq!(sample(&[1234.0]).thousands(), "1.2†");
        assert_eq!(sample(&[3.0, 1.0, 2.0]).decimals(1), "2.0 (1.0-3.0)");
        assert_eq!(sample(&[4.0, 1.0]).decimals(1), "2.5 (1.0-4.0)");
        assert_eq!(sample(&[98_000.0, 150_000.0]).thousands(), "124 (98.0-150)");
    }

    #[test]
    fn quotients_need_both() {
        let two = Sample::from(vec![2.0]);
        assert_eq!(Sample::from(vec![3.0]).times(&two), Some(1.5));
        assert_eq!(Sample::default().times(&two), None);
        assert_eq!(two.times(&Sample::default()), None);
    }
}
