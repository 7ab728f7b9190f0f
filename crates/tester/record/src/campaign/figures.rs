//! The figures that a campaign reads from its records, and published figures beside them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A number in the record of a visit: `results.json` of a bench or search, `trial.json` of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What it is, with its unit.
    pub name: String,
    /// Where it stands in the record (RFC 6901).
    pub at: String,
    /// It is divided by the number that stands there.
    pub of: Option<String>,
    /// It is shown so many times as large.
    #[serde(default = "once")]
    pub times: f64,
    /// Shown is this, divided by it: 256 queries by their time, for example.
    pub divide: Option<f64>,
    /// Digits behind the point.
    #[serde(default)]
    pub digits: usize,
}

fn once() -> f64 {
    1.0
}

/// What others published: a rate, or a figure in several cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What was measured, in a few words for a table.
    pub what: String,
    /// The publication, with table or figure.
    pub source: String,
    /// On what it was measured.
    pub hardware: String,
    /// Median of the rates in q/s.
    pub median_qps: Option<f64>,
    /// (max - min) / median in percent.
    pub dispersion_pct: Option<f64>,
    /// The cell whose median it is set beside.
    pub beside: Option<String>,
    /// The name of the figure.
    pub figure: Option<String>,
    /// The cells it is set beside.
    #[serde(default)]
    pub cells: Vec<String>,
    /// Its values, one for each.
    #[serde(default)]
    pub values: Vec<f64>,
}

impl Figure {
    /// Its value in a record, as it is shown.
    pub fn of(&self, record: &Value) -> Option<f64> {
        let number = |at: &str| record.pointer(at)?.as_f64();
        let value = number(&self.at)?;
        let value = match &self.of {
            Some(of) => value / number(of)?,
            None => value,
        };
        let value = self.divide.map_or(value, |of| of / value) * self.times;
        value.is_finite().then_some(value)
    }

    /// Whether name, place and digits can be used.
    ///
    /// # Errors
    /// What is wrong, in one line.
    pub fn check(&self) -> Result<(), String> {
        let Self { name, at, digits, .. } = self;
        if name.is_empty() || name.chars().count() > 60 {
            return Err(format!("figure '{name}': give it a name of 1 to 60 characters"));
        }
        if let Some(at) = std::iter::once(at).chain(&self.of).find(|at| !at.starts_with('/')) {
            return Err(format!(
                "figure '{name}': '{at}' is no place: write where it stands in the record: /latency_ns/p99 for example"
            ));
        }
        if *digits > 9 {
            return Err(format!("figure '{name}': {digits} digits are too many, write 0 to 9"));
        }
        Ok(())
    }
}

impl Published {
    /// Whether it names a figure that there is, and as many cells as values.
    ///
    /// # Errors
    /// What is wrong, in one line.
    pub fn check(&self, figures: &[Figure]) -> Result<(), String> {
        let what = &self.what;
        let Some(name) = &self.figure else {
            let only_rate = self.cells.is_empty() && self.values.is_empty();
            return (self.median_qps.is_some() && only_rate).then_some(()).ok_or_else(|| {
                format!("published '{what}': write median_qps, or figure with cells and values")
            });
        };
        if !figures.iter().any(|figure| figure.name == *name) {
            return Err(format!("published '{what}': there is no figure '{name}'"));
        }
        if self.cells.len() != self.values.len() {
            let (cells, values) = (self.cells.len(), self.values.len());
            return Err(format!(
                "published '{what}': {cells} cells and {values} values: write as many of both"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn figure(text: &str) -> Figure {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_figure_is_read_and_converted() {
        let record = json!({"experiments": {"mean_ns": 2e6}, "cause": null, "zero": 0});
        let time = figure("name = 'ms'\nat = '/experiments/mean_ns'\ntimes = 1e-6");
        assert_eq!(time.of(&record), Some(2.0));
        let rate = figure("name = 'q/s'\nat = '/experiments/mean_ns'\ndivide = 256e9");
        assert_eq!(rate.of(&record), Some(128_000.0));
        let share = Figure { at: "/zero".into(), of: Some("/experiments/mean_ns".into()), ..time.clone() };
        assert_eq!(share.of(&record), Some(0.0));
        assert_eq!(Figure { of: Some("/zero".into()), ..time }.of(&record), None);
        for at in ["/nowhere", "/cause", "/experiments", "/zero"] {
            let none = Figure { at: at.to_owned(), ..rate.clone() };
            assert_eq!(none.of(&record), None, "{at}");
        }
    }

    #[test]
    fn what_says_too_little_or_too_much_is_refused() {
        for (text, words) in [
            ("name = ''\nat = '/a'", "1 to 60 characters"),
            ("name = 'x'\nat = 'a'", "where it stands"),
            ("name = 'x'\nat = '/a'\ndigits = 12", "0 to 9"),
        ] {
            let error = figure(text).check().unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let published = |text: &str| -> Published {
            toml::from_str(&format!("what = 'w'\nsource = 's'\nhardware = 'h'\n{text}")).unwrap()
        };
        let known = [figure("name = 'ms'\nat = '/a'")];
        let check = |text: &str| published(text).check(&known);
        assert_eq!(check("median_qps = 1.0"), Ok(()));
        assert_eq!(check("figure = 'ms'\ncells = ['a']\nvalues = [1.0]"), Ok(()));
        for (text, words) in [
            ("", "write median_qps, or"),
            ("median_qps = 1.0\ncells = ['a']", "write median_qps, or"),
            ("figure = 'us'", "no figure 'us'"),
            ("figure = 'ms'\ncells = ['a']", "1 cells and 0 values"),
        ] {
            let error = check(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
