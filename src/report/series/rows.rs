//! What is known of each cell.

use std::path::Path;

use engine::record::{Results, Summary};
use engine::statistics::{median, summarize};
use serde::Serialize;

use crate::campaign::series::{Published, SENTINEL, Series, VisitState};
use crate::report;

/// A cell over all its visits.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The cell.
    pub cell: String,
    /// The options that tell it from others, with their values.
    pub settings: Vec<(String, String)>,
    /// The server and its version, as the record has them.
    pub server: String,
    /// The rates that the runs of all visits found, in q/s.
    pub rates_qps: Vec<u64>,
    /// Their summary; absent if there are none.
    pub summary: Option<Summary>,
    /// The median in parts of the first cell's that has one.
    pub ratio: Option<f64>,
    /// A run ended at the highest rate that it might try: the server may be faster.
    pub at_ceiling: bool,
    /// Processor time of the server for each query at half of its rate in microseconds, mean of the visits.
    pub cpu_us: Option<f64>,
    /// What limited the rate, as each visit found it, without repetitions.
    pub limits: Vec<String>,
    /// The directories of the visits with results, within the campaign's.
    pub directories: Vec<String>,
    /// Why there are fewer results than visits.
    pub troubles: Vec<String>,
}

/// All cells.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// In the order of the description.
    pub rows: Vec<Row>,
    /// The median rates of the sentinel's visits in q/s, in their order.
    pub sentinel_qps: Vec<f64>,
    /// (max - min) / median of these in percent: how much the machine changed meanwhile.
    pub drift_pct: Option<f64>,
    /// What others measured, and our median beside it in parts of theirs.
    pub published: Vec<Beside>,
}

/// A published figure with ours.
#[derive(Clone, Debug, Serialize)]
pub struct Beside {
    /// Theirs.
    pub published: Published,
    /// Ours in parts of theirs, where a cell is named that has a result.
    pub ratio: Option<f64>,
}

/// Reads the records of all visits that have one.
pub fn table(series: &Series, directory: &Path) -> Table {
    let mut rows: Vec<Row> = Vec::new();
    // In the first round cells stand in their order.
    let mut visits: Vec<_> = series.visits.iter().collect();
    visits.sort_by_key(|visit| visit.round);
    for visit in visits {
        let found = rows.iter().position(|row| row.cell == visit.cell);
        let at = found.unwrap_or_else(|| {
            rows.push(Row::new(&visit.cell, &visit.settings));
            rows.len() - 1
        });
        let row = &mut rows[at];
        match (&visit.state, &visit.directory) {
            (VisitState::Complete, Some(name)) => match report::load(&directory.join(name)) {
                Ok(results) => row.add(&results, name),
                Err(error) => row.troubled(error.to_string()),
            },
            (VisitState::Failed(why), _) => row.troubled(format!("failed: {why}")),
            (VisitState::Missing(why), _) => row.troubled(format!("not here: {why}")),
            _ => row.troubled("not measured yet".to_owned()),
        }
    }
    rows.iter_mut().for_each(Row::finish);
    let sentinel = rows.iter().position(|row| row.cell == SENTINEL).map(|at| rows.remove(at));
    let sentinel_qps: Vec<f64> =
        sentinel.iter().flat_map(|row| &row.rates_qps).map(|&qps| qps as f64).collect();
    let first = rows.iter().find_map(|row| Some(row.summary.as_ref()?.median)).filter(|&median| median > 0.0);
    for row in &mut rows {
        row.ratio = row.summary.as_ref().zip(first).map(|(summary, first)| summary.median / first);
    }
    let beside = |published: &Published| {
        let row = rows.iter().find(|row| Some(&row.cell) == published.beside.as_ref());
        let ours = row.and_then(|row| Some(row.summary.as_ref()?.median));
        let ratio = ours.filter(|_| published.median_qps > 0.0).map(|ours| ours / published.median_qps);
        Beside { published: published.clone(), ratio }
    };
    let published = series.published.iter().map(beside).collect();
    Table { drift_pct: drift_pct(&sentinel_qps), sentinel_qps, published, rows }
}

fn drift_pct(rates: &[f64]) -> Option<f64> {
    let (low, high) =
        rates.iter().fold((f64::INFINITY, 0.0f64), |(low, high), &rate| (low.min(rate), high.max(rate)));
    let middle = median(rates).filter(|&median| median > 0.0 && rates.len() > 1)?;
    Some((high - low) / middle * 100.0)
}

impl Row {
    fn new(cell: &str, settings: &[(String, String)]) -> Self {
        Self {
            cell: cell.to_owned(),
            settings: settings.to_vec(),
            server: String::new(),
            rates_qps: Vec::new(),
            summary: None,
            ratio: None,
            at_ceiling: false,
            cpu_us: None,
            limits: Vec::new(),
            directories: Vec::new(),
            troubles: Vec::new(),
        }
    }

    fn add(&mut self, results: &Results, directory: &str) {
        self.server = format!("{} {}", results.dut.name, results.dut.version).trim().to_owned();
        self.rates_qps.extend(results.runs.iter().filter(|run| run.complete).map(|run| run.qps));
        self.at_ceiling |= results.runs.iter().any(|run| run.at_ceiling);
        let half = results.latency_trial.as_ref().and_then(|trial| trial.observation.as_ref());
        if let Some(cpu_us) = half.and_then(|seen| seen.dut_cpu_us_per_query) {
            let visits = self.directories.len() as f64;
            self.cpu_us = Some((self.cpu_us.unwrap_or(0.0) * visits + cpu_us) / (visits + 1.0));
        }
        if let Some(bottleneck) = &results.bottleneck
            && !self.limits.contains(&bottleneck.cause)
        {
            self.limits.push(bottleneck.cause.clone());
        }
        self.directories.push(directory.to_owned());
    }

    fn troubled(&mut self, why: String) {
        if !self.troubles.contains(&why) {
            self.troubles.push(why);
        }
    }

    fn finish(&mut self) {
        self.summary = summarize(&self.rates_qps, 0);
    }
}
