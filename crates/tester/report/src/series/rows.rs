//! What is known of each cell.

use std::path::Path;

use record::statistics::{median, summarize};
use record::{Bottleneck, Results, Summary, Trial};
use serde::Serialize;

use record::campaign::{Figure, Published, SENTINEL, Series, VisitState};
use record::ladder;

use super::visited::VisitRecord;
use crate::held::lost_at_or_below;
use crate::interval::{bounds, interval};
use crate::select::dut_cpu_us_per_answer;
use crate::words::ended_by_voids;
use record::preflight::Severity;

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
    /// The values of each figure of the campaign, one for each visit that has it.
    pub figures: Vec<Vec<f64>>,
    /// What limited the rate, as each visit found it, without repetitions.
    pub limits: Vec<String>,
    /// The directories of the visits with results, within the campaign's.
    pub directories: Vec<String>,
    /// Why there are fewer results than visits.
    pub troubles: Vec<String>,
}

/// The cells of a campaign with their results.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// In the order of the description.
    pub rows: Vec<Row>,
    /// The median rates of the sentinel's visits in q/s, in their order.
    pub sentinel_qps: Vec<f64>,
    /// (max - min) / median of these in percent: how much the machine changed meanwhile.
    pub drift_pct: Option<f64>,
    /// The figures of the campaign.
    pub figures: Vec<Figure>,
    /// What others measured, with ours beside it.
    pub published: Vec<PublishedFigures>,
}

/// What others published, with ours.
#[derive(Clone, Debug, Serialize)]
pub struct PublishedFigures {
    pub published: Published,
    pub pairs: Vec<Pair>,
}

/// A value of theirs and one of ours.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// Our cell; absent if nothing of ours compares.
    pub cell: Option<String>,
    pub theirs: f64,
    /// Our median, where the cell has a result.
    pub ours: Option<f64>,
}

impl Pair {
    pub fn ratio(&self) -> Option<f64> {
        self.ours.filter(|_| self.theirs > 0.0).map(|ours| ours / self.theirs)
    }
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
            (VisitState::Complete, Some(name)) => {
                match VisitRecord::load(&visit.arguments, &directory.join(name)) {
                    Ok(visited) => row.add(&visited, name, &series.figures),
                    Err(why) => row.troubled(why),
                }
            }
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
    let beside = |published: &Published| PublishedFigures {
        published: published.clone(),
        pairs: pairs(published, &rows, &series.figures),
    };
    let published = series.published.iter().map(beside).collect();
    Table {
        drift_pct: drift_pct(&sentinel_qps),
        sentinel_qps,
        published,
        figures: series.figures.clone(),
        rows,
    }
}

/// What was published, beside the medians of our cells.
fn pairs(published: &Published, rows: &[Row], figures: &[Figure]) -> Vec<Pair> {
    let row = |cell: &String| rows.iter().find(|row| row.cell == *cell);
    if let Some(theirs) = published.median_qps {
        let cell = published.beside.clone();
        let ours = cell.as_ref().and_then(row).and_then(|row| Some(row.summary.as_ref()?.median));
        return vec![Pair { cell, theirs, ours }];
    }
    let at = figures.iter().position(|figure| Some(&figure.name) == published.figure.as_ref());
    let pair = |(cell, &theirs): (&String, &f64)| {
        let ours = at.zip(row(cell)).and_then(|(at, row)| median(row.figures.get(at)?));
        Pair { cell: Some(cell.clone()), theirs, ours }
    };
    published.cells.iter().zip(&published.values).map(pair).collect()
}

fn drift_pct(rates: &[f64]) -> Option<f64> {
    let (low, high) =
        rates.iter().fold((f64::INFINITY, 0.0f64), |(low, high), &rate| (low.min(rate), high.max(rate)));
    let middle = median(rates).filter(|&median| median > 0.0 && rates.len() > 1)?;
    Some((high - low) / middle * 100.0)
}

impl Row {
    pub(super) fn new(cell: &str, settings: &[(String, String)]) -> Self {
        Self {
            cell: cell.to_owned(),
            settings: settings.to_vec(),
            server: String::new(),
            rates_qps: Vec::new(),
            summary: None,
            ratio: None,
            at_ceiling: false,
            cpu_us: None,
            figures: Vec::new(),
            limits: Vec::new(),
            directories: Vec::new(),
            troubles: Vec::new(),
        }
    }

    fn add(&mut self, visited: &VisitRecord, directory: &str, figures: &[Figure]) {
        match visited {
            VisitRecord::Search(results) => self.add_search(results),
            VisitRecord::Trial(trial) => self.add_trial(trial),
            VisitRecord::Ladder(record) => self.add_ladder(record),
        }
        self.figures.resize(figures.len(), Vec::new());
        let record = if figures.is_empty() { serde_json::Value::Null } else { visited.value() };
        for (figure, values) in figures.iter().zip(&mut self.figures) {
            values.extend(figure.of(&record));
        }
        self.directories.push(directory.to_owned());
    }

    fn add_search(&mut self, results: &Results) {
        self.server = format!("{} {}", results.dut.name, results.dut.version).trim().to_owned();
        // The table is one of rates; what a search for connections found can be a figure of the campaign.
        let rates = results.runs.iter().filter(|run| run.came_to_its_end() && run.connections.is_none());
        self.rates_qps.extend(rates.map(|run| run.qps));
        self.at_ceiling |= results.runs.iter().any(|run| run.at_ceiling);
        if let Some(cpu_us) = results.latency_trial.as_ref().and_then(dut_cpu_us_per_answer) {
            let visits = self.directories.len() as f64;
            self.cpu_us = Some((self.cpu_us.unwrap_or(0.0) * visits + cpu_us) / (visits + 1.0));
        }
        self.limited(results.bottleneck.as_ref());
        let lost =
            lost_at_or_below(results).map(|held| format!("{} held {}", held.load_in_words(), held.words()));
        let interval = interval(results).map(|found| format!("the rate is {} alone", bounds(&found)));
        lost.into_iter().chain(ended_by_voids(results)).chain(interval).for_each(|why| self.troubled(why));
    }

    /// Of one trial only its failure is told apart; the rest are figures.
    fn add_trial(&mut self, trial: &Trial) {
        if trial.lost > 0 {
            self.troubled(format!("{} of {} queries were lost", trial.lost, trial.sent));
        }
        self.limited(trial.cause.as_ref());
    }

    /// Of a ladder what its measurements have found, not what the machine is like.
    fn add_ladder(&mut self, record: &ladder::Record) {
        let findings = record.climb.iter().flat_map(ladder::judge);
        for finding in findings.filter(|finding| finding.severity > Severity::Ok) {
            if !self.limits.contains(&finding.what) {
                self.limits.push(finding.what);
            }
        }
    }

    fn limited(&mut self, bottleneck: Option<&Bottleneck>) {
        if let Some(Bottleneck { cause, .. }) = bottleneck
            && !self.limits.iter().any(|limit| limit == cause.as_str())
        {
            self.limits.push(cause.to_string());
        }
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
