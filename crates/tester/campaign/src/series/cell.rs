//! All runs of a cell as one result, to be compared with another cell's.

use std::path::Path;

use record::Results;
use record::statistics::summarize;

use record::campaign::{Series, VisitState};
use report::series::VisitRecord;

/// Joins the searches of all complete visits of a cell, in the order they were made.
///
/// # Errors
/// There is no such cell, it has no complete visit, or it measured no rates: one line.
pub fn joined(series: &Series, directory: &Path, cell: &str) -> Result<Results, String> {
    let visits = || series.visits.iter().filter(|visit| visit.cell == cell);
    if visits().next().is_none() {
        let mut cells: Vec<&str> = series.visits.iter().map(|visit| visit.cell.as_str()).collect();
        cells.sort_unstable();
        cells.dedup();
        return Err(format!("{}: no cell '{cell}': there are {}", directory.display(), cells.join(", ")));
    }
    let complete = visits().filter(|visit| visit.state == VisitState::Complete);
    let mut all: Option<Results> = None;
    for visit in complete {
        let Some(name) = &visit.directory else { continue };
        match (VisitRecord::load(&visit.arguments, &directory.join(name))?, &mut all) {
            (VisitRecord::Search(results), None) => all = Some(*results),
            (VisitRecord::Search(results), Some(all)) => all.runs.extend(results.runs),
            _ => return Err(format!("cell '{cell}' measured no rates: compare cells of bench or search")),
        }
    }
    let mut all = all.ok_or_else(|| format!("cell '{cell}' has no measurement that came to its end"))?;
    let complete = || all.runs.iter().filter(|run| run.came_to_its_end());
    let rates: Vec<u64> = complete().map(|run| run.qps).collect();
    let width = complete().map(|run| run.stop_width_qps).max().unwrap_or(0);
    all.summary = summarize(&rates, width);
    Ok(all)
}
