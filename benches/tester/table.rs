//! Medians with their spread, and Markdown tables.

use std::fmt::Write;

/// Values of repeated measurements.
#[derive(Clone, Debug, Default)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// Adds one.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
        self.0.sort_by(f64::total_cmp);
    }

    /// Whether there is none.
    #[allow(dead_code, reason = "not every benchmark asks")]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The median; 0 if there is none.
    pub fn median(&self) -> f64 {
        let n = self.0.len();
        if n == 0 { 0.0 } else { (self.0[(n - 1) / 2] + self.0[n / 2]) / 2.0 }
    }

    /// The lowest and the highest.
    pub fn range(&self) -> (f64, f64) {
        (self.0.first().copied().unwrap_or(0.0), self.0.last().copied().unwrap_or(0.0))
    }

    /// Median and range in thousands.
    pub fn thousands(&self) -> String {
        let (low, high) = self.range();
        let k = |value: f64| {
            if value < 99_500.0 { format!("{:.1}", value / 1e3) } else { format!("{:.0}", value / 1e3) }
        };
        if self.0.is_empty() { "-".into() } else { format!("{} ({}-{})", k(self.median()), k(low), k(high)) }
    }

    /// Median and range with this many decimals.
    pub fn decimals(&self, decimals: usize) -> String {
        let (low, high) = self.range();
        let median = self.median();
        if self.0.is_empty() {
            "-".into()
        } else {
            format!("{median:.decimals$} ({low:.decimals$}-{high:.decimals$})")
        }
    }
}

/// A Markdown table.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut out = line(&head.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>());
    let _ = writeln!(out, "|{}", "---|".repeat(head.len()));
    for row in rows {
        out += &line(row);
    }
    out
}
