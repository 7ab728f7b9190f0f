//! How evenly each tool sends, as an independent receiver with kernel timestamps sees it, and whether it
//! sends exactly what it was told.

use std::io;

use figures::tester::Pacing;
use serde_json::Value;

use crate::place::{Placement, Target};
use crate::tools::{Load, Tool};

/// Length of a run in seconds.
const RUN_S: u64 = 4;

/// A tool at a rate, over all rounds.
struct Row {
    tool: Tool,
    receiver: Target,
    measured: Pacing,
}

/// Tools at rates, interleaved.
///
/// # Errors
/// The receiver or a tool cannot be started.
pub fn measure(place: &Placement, runs: &[(Tool, Target, u64)], rounds: usize) -> io::Result<Vec<Pacing>> {
    let mut rows: Vec<Row> = runs.iter().map(|&run| Row::new(run)).collect();
    for round in 0..rounds {
        for row in &mut rows {
            row.measure(place)?;
            eprintln!("round {}: {}", round + 1, row.in_words());
        }
    }
    Ok(rows.into_iter().map(|row| row.measured).collect())
}

impl Row {
    fn new((tool, receiver, rate_qps): (Tool, Target, u64)) -> Self {
        let measured =
            Pacing { rate_qps, tool: tool.name(), receiver: receiver.name().into(), ..Pacing::default() };
        Self { tool, receiver, measured }
    }

    fn measure(&mut self, place: &Placement) -> io::Result<()> {
        let rate_qps = self.measured.rate_qps;
        let server = place.receive(self.receiver, rate_qps)?;
        let load = Load {
            rate_qps: Some(rate_qps),
            duration_s: RUN_S,
            timeout_s: 0.25,
            sextant: self.receiver.sextant_options(),
        };
        self.tool.run(place, &load)?;
        let report = server.finish()?;
        let measured = &mut self.measured;
        let mut read = |value: &Value| -> Option<()> {
            let pacing = value.get("pacing")?;
            let window = |width_ms: u64, name: &str| {
                let windows = pacing.get("windows")?.as_array()?;
                let window = windows
                    .iter()
                    .find(|window| window.get("width_ms").and_then(Value::as_u64) == Some(width_ms));
                window?.get(name)?.as_f64()
            };
            measured.cv_1_ms_pct.push(window(1, "cv_pct")?);
            measured.cv_10_ms_pct.push(window(10, "cv_pct")?);
            measured.worst_10_ms_pct.push(window(10, "worst_pct")?.abs());
            measured.gap_ms.push(pacing.get("silence_longest_ms")?.as_f64()?);
            let arrived = pacing.get("queries")?.as_f64()? + pacing.get("outside")?.as_f64()?;
            measured.excess.push(arrived - (rate_qps * RUN_S) as f64);
            Some(())
        };
        read(&report)
            .ok_or_else(|| io::Error::other(format!("the receiver's report lacks a field: {report}")))
    }

    fn in_words(&self) -> String {
        let Pacing { rate_qps, tool, receiver, cv_1_ms_pct, cv_10_ms_pct, gap_ms, .. } = &self.measured;
        let (ms1, ms10, gap) = (cv_1_ms_pct.decimals(2), cv_10_ms_pct.decimals(2), gap_ms.decimals(0));
        format!("{tool} to the {receiver} at {rate_qps} q/s: cv {ms1} and {ms10} %, gap {gap} ms")
    }
}
