//! The charts as files of their own, for papers and slides.

use record::Results;

use super::charts;
use super::clean::printable;
use super::select::{best_pass, deciding_failure, typical_run};
use super::svg::{Chart, Size};

/// Paths of searches that get a figure.
const PATHS: usize = 20;

/// A file name and the drawing, for each chart that the record can fill.
pub fn svg_figures(results: &Results) -> Vec<(String, String)> {
    let mut figures = Vec::new();
    let mut add = |name: String, chart: Option<Chart>| {
        figures.extend(chart.map(|chart| (format!("{name}.svg"), printable(chart.standalone()))));
    };
    add("rates".to_owned(), charts::rates(results, Size::Wide));
    for number in 1..=results.runs.len().min(PATHS) {
        add(format!("search-{number:02}"), charts::search(results, number, Size::Wide));
    }
    add("latency".to_owned(), charts::latency(results, Size::Wide));
    let typical = typical_run(results).map(|(_, run)| run);
    if let Some(trial) = typical.and_then(deciding_failure) {
        add("losses".to_owned(), charts::losses(trial, Size::Wide));
        add("seconds-failure".to_owned(), charts::series(trial, Size::Wide));
        add("answers-failure".to_owned(), charts::answers(trial, Size::Wide));
    }
    if let Some(trial) = &results.latency_trial {
        add("seconds-half-rate".to_owned(), charts::series(trial, Size::Wide));
        add("answers-half-rate".to_owned(), charts::answers(trial, Size::Wide));
        add("pacing".to_owned(), charts::pacing(trial, Size::Wide));
    }
    if let Some(trial) = typical.and_then(best_pass) {
        add("processors".to_owned(), charts::processors(trial, Size::Wide));
    }
    if let Some(analysis) = &results.observed {
        add("query-ids".to_owned(), charts::identifiers(analysis, charts::Field::Id, Size::Wide));
        add("query-ports".to_owned(), charts::identifiers(analysis, charts::Field::Port, Size::Wide));
    }
    figures
}

/// The path of the search that stands for all, drawn for a wide page and for a narrow one; nothing without a
/// search.
pub fn search_pictures(results: &Results) -> Option<[String; 2]> {
    let (number, _) = typical_run(results)?;
    let [wide, narrow] =
        [Size::Wide, Size::Narrow].map(|size| charts::search(results, number, size).map(|c| c.standalone()));
    Some([printable(wide?), printable(narrow?)])
}
