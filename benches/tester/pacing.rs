//! How evenly each tool sends, as an independent receiver with kernel timestamps sees it, and whether it
//! sends exactly what it was told.

use std::io;

use serde_json::Value;

use crate::place::{Placement, Target};
use crate::table::{Sample, table};
use crate::tools::{Load, Tool};

/// Length of a run in seconds.
const RUN_S: u64 = 4;

/// A tool at a rate, over all rounds.
struct Row {
    tool: Tool,
    receiver: Target,
    rate_qps: u64,
    cv_1_ms_pct: Sample,
    cv_10_ms_pct: Sample,
    worst_10_ms_pct: Sample,
    /// Queries that arrived beyond those wanted.
    excess: Sample,
    gap_ms: Sample,
}

/// Tools at rates, interleaved; the answer is Markdown.
///
/// # Errors
/// The receiver or a tool cannot be started.
pub fn measure(place: &Placement, runs: &[(Tool, Target, u64)], rounds: usize) -> io::Result<String> {
    let mut rows: Vec<Row> = runs.iter().map(|&run| Row::new(run)).collect();
    for round in 0..rounds {
        for row in &mut rows {
            row.measure(place)?;
            eprintln!("round {}: {}", round + 1, row.cells().join(", "));
        }
    }
    let head = [
        "rate, q/s",
        "tool",
        "receiver",
        "cv in 1 ms, %",
        "cv in 10 ms, %",
        "worst 10 ms, %",
        "longest gap, ms",
        "arrived beyond rate x time",
    ];
    Ok(table(&head, &rows.iter().map(Row::cells).collect::<Vec<_>>()))
}

impl Row {
    fn new((tool, receiver, rate_qps): (Tool, Target, u64)) -> Self {
        let sample = Sample::default;
        Self {
            tool,
            receiver,
            rate_qps,
            cv_1_ms_pct: sample(),
            cv_10_ms_pct: sample(),
            worst_10_ms_pct: sample(),
            excess: sample(),
            gap_ms: sample(),
        }
    }

    fn measure(&mut self, place: &Placement) -> io::Result<()> {
        let server = place.receive(self.receiver, self.rate_qps)?;
        let load = Load {
            rate_qps: Some(self.rate_qps),
            duration_s: RUN_S,
            timeout_s: 0.25,
            sextant: self.receiver.sextant_options(),
        };
        self.tool.run(place, &load)?;
        let report = server.finish()?;
        let mut read = |value: &Value| -> Option<()> {
            let pacing = value.get("pacing")?;
            let window = |width_ms: u64, name: &str| {
                let windows = pacing.get("windows")?.as_array()?;
                let window = windows
                    .iter()
                    .find(|window| window.get("width_ms").and_then(Value::as_u64) == Some(width_ms));
                window?.get(name)?.as_f64()
            };
            self.cv_1_ms_pct.push(window(1, "cv_pct")?);
            self.cv_10_ms_pct.push(window(10, "cv_pct")?);
            self.worst_10_ms_pct.push(window(10, "worst_pct")?.abs());
            self.gap_ms.push(pacing.get("silence_longest_ms")?.as_f64()?);
            let arrived = pacing.get("queries")?.as_f64()? + pacing.get("outside")?.as_f64()?;
            self.excess.push(arrived - (self.rate_qps * RUN_S) as f64);
            Some(())
        };
        read(&report)
            .ok_or_else(|| io::Error::other(format!("the receiver's report lacks a field: {report}")))
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.rate_qps.to_string(),
            self.tool.name(),
            self.receiver.name().into(),
            self.cv_1_ms_pct.decimals(2),
            self.cv_10_ms_pct.decimals(2),
            self.worst_10_ms_pct.decimals(2),
            self.gap_ms.decimals(0),
            self.excess.decimals(0),
        ]
    }
}
