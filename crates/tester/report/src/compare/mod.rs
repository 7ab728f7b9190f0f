//! Results beside each other: better, same, worse or inconclusive, and the evidence for it.

mod comparable;
mod history;
mod words;

use record::statistics::{self, RUNS_MIN, Verdict};
use record::{RateInterval, Results, Sought, Summary};
use serde::Serialize;

pub use comparable::Incomparable;
pub use history::{History, Jump, history};
pub use words::{history_markdown, history_text, pair_markdown, pair_text};

use super::interval::bounds;
use super::words::dut_name;

/// A result and where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// Its directory as the user gave it.
    pub name: &'a str,
    /// The record.
    pub results: &'a Results,
}

/// What a comparison stands on of one result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// The directory.
    pub directory: String,
    /// The server and its version.
    pub dut: String,
    /// RFC 3339, UTC.
    pub started_utc: String,
    /// Over the runs that came to their end.
    pub summary: Summary,
}

/// Two results against each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// The first: what the second is held against.
    pub a: Side,
    /// The record that is compared with the first.
    pub b: Side,
    /// `better`, `same`, `worse` (B, by more than the threshold, for certain) or `inconclusive`.
    pub verdict: Verdict,
    /// Why nothing can be said; empty unless inconclusive.
    pub inconclusive: String,
    /// Median of B to median of A; none without an interval.
    pub ratio: Option<f64>,
    /// The 95 % BCa bootstrap interval of the ratio.
    pub ratio_interval: Option<[f64; 2]>,
    /// The threshold that decided in percent: the largest of these.
    pub threshold_pct: f64,
    /// What was asked for.
    pub threshold_asked_pct: f64,
    /// What the two searches can tell apart: their widest stop width.
    pub resolution_pct: f64,
    /// What an A/A comparison shows; none without results for one.
    pub noise_floor_pct: Option<f64>,
    /// What differs beside the servers, or is doubtful.
    pub warnings: Vec<String>,
    #[serde(skip)]
    comparison: statistics::Comparison,
    #[serde(skip)]
    floor_pct: f64,
    #[serde(skip)]
    at_ceiling: [bool; 2],
}

/// How a condition such as `worse>2%` is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionResult {
    /// The whole interval is beyond the threshold.
    Yes,
    /// It is not, for certain.
    No,
    /// The interval reaches over the threshold.
    Unknown,
}

impl Pair {
    /// Whether B is worse than A by more than `by_pct` percent; noise is never worse.
    pub fn worse_by(&self, by_pct: f64) -> ConditionResult {
        let by_pct = by_pct.max(self.floor_pct);
        match (self.comparison.at(by_pct), self.at_ceiling) {
            // Of B a lower bound is known, and of A nothing more.
            (_, [_, true]) => {
                if self.at_ceiling[0] {
                    ConditionResult::Unknown
                } else {
                    self.unless_worse(by_pct)
                }
            }
            (Verdict::Worse, _) => ConditionResult::Yes,
            (_, [true, _]) => ConditionResult::Unknown,
            _ => self.unless_worse(by_pct),
        }
    }

    fn unless_worse(&self, by_pct: f64) -> ConditionResult {
        if self.comparison.may_be_worse(by_pct) { ConditionResult::Unknown } else { ConditionResult::No }
    }
}

/// The rates of the runs that came to their end, in the order they were run.
fn rates(results: &Results) -> Vec<f64> {
    results.runs.iter().filter(|run| run.came_to_its_end()).map(|run| run.qps as f64).collect()
}

fn side(of: Named<'_>) -> Result<Side, Incomparable> {
    if of.results.sought() == Sought::Connections {
        return Err(Incomparable::OfConnections { directory: of.name.to_owned() });
    }
    let complete = || of.results.runs.iter().filter(|run| run.came_to_its_end());
    let rates: Vec<u64> = complete().map(|run| run.qps).collect();
    let width = complete().map(|run| run.stop_width_qps).max().unwrap_or(0);
    let summary = statistics::summarize(&rates, width).ok_or_else(|| {
        match RateInterval::of(of.results).filter(|found| !found.is_empty()) {
            Some(found) => {
                Incomparable::IntervalAlone { directory: of.name.to_owned(), bounds: bounds(&found) }
            }
            None => Incomparable::NothingFound { directory: of.name.to_owned() },
        }
    })?;
    Ok(Side {
        directory: of.name.to_owned(),
        dut: dut_name(of.results),
        started_utc: of.results.started_utc.clone(),
        summary,
    })
}

/// What the search of a side can tell apart, in percent.
fn resolution_pct(side: &Side) -> f64 {
    let Summary { median, stop_width_qps, .. } = side.summary;
    if median > 0.0 { stop_width_qps as f64 / median * 100.0 } else { 0.0 }
}

/// Compares B with A. `same_as_a` is another result of the server of A (A/A); without it, halves of each show
/// the noise.
///
/// # Errors
/// They were asked different questions, or a result holds no rate.
pub fn pair(
    a: Named<'_>,
    b: Named<'_>,
    same_as_a: Option<Named<'_>>,
    threshold_asked_pct: f64,
) -> Result<Pair, Incomparable> {
    let (side_a, side_b) = (side(a)?, side(b)?);
    comparable::check(a, b)?;
    let mut warnings = comparable::warnings(a, b);
    let noise_floor_pct = match same_as_a {
        Some(again) => {
            side(again)?;
            comparable::check(a, again)?;
            warnings.extend(comparable::warnings(a, again));
            let of_pair = statistics::compare(&rates(a.results), &rates(again.results), 0.0).ratio;
            of_pair.map(|ratio| (1.0 - ratio.low).max(ratio.high - 1.0).max(0.0) * 100.0)
        }
        None => {
            let floors = [a, b].into_iter().filter_map(|of| statistics::noise_floor_pct(&rates(of.results)));
            floors.reduce(f64::max)
        }
    };
    let resolution_pct = resolution_pct(&side_a).max(resolution_pct(&side_b));
    let floor_pct = resolution_pct.max(noise_floor_pct.unwrap_or(0.0));
    let threshold_pct = threshold_asked_pct.max(floor_pct);
    let comparison = statistics::compare(&rates(a.results), &rates(b.results), threshold_pct);
    let at_ceiling =
        [a, b].map(|of| of.results.runs.iter().any(|run| run.came_to_its_end() && run.at_ceiling));
    let (verdict, inconclusive) = decide(&comparison, at_ceiling, [&side_a, &side_b]);
    Ok(Pair {
        a: side_a,
        b: side_b,
        verdict,
        inconclusive,
        ratio: comparison.ratio.map(|ratio| ratio.value),
        ratio_interval: comparison.ratio.map(|ratio| [ratio.low, ratio.high]),
        threshold_pct,
        threshold_asked_pct,
        resolution_pct,
        noise_floor_pct,
        warnings,
        comparison,
        floor_pct,
        at_ceiling,
    })
}

/// The verdict, and why it is inconclusive.
fn decide(
    comparison: &statistics::Comparison,
    at_ceiling: [bool; 2],
    sides: [&Side; 2],
) -> (Verdict, String) {
    let inconclusive = |why: String| (Verdict::Inconclusive, why);
    let Some(ratio) = comparison.ratio else {
        let fewest = sides.map(|side| side.summary.n).into_iter().min().unwrap_or(0);
        return inconclusive(if fewest < RUNS_MIN {
            format!("{fewest} runs of a result are too few, {RUNS_MIN} are needed")
        } else {
            "a median is 0 q/s: there is no ratio to it".to_owned()
        });
    };
    match (comparison.verdict, at_ceiling) {
        (Verdict::Better, [false, _]) => (Verdict::Better, String::new()),
        (Verdict::Worse, [_, false]) => (Verdict::Worse, String::new()),
        (Verdict::Same, [false, false]) => (Verdict::Same, String::new()),
        (_, [true, _] | [_, true]) => inconclusive(
            "runs ended at the highest rate that the search may try; use a higher --max-rate".to_owned(),
        ),
        (Verdict::Inconclusive, _) => inconclusive(format!(
            "the ratio lies between {:.4} and {:.4}, on both sides of the threshold",
            ratio.low, ratio.high
        )),
    }
}
