//! The rates that were found, and how.

use maud::{Markup, html};
use record::{Results, Sought};

use super::{figure, missing};
use crate::charts;
use crate::interval_table::interval_table;
use crate::select::Tally;
use crate::svg::Size;
use crate::table::{Cell, Column, Table, table};
use crate::words::{dut_name, p1_name, p99_name};
use record::number::{brief_percent, count, percent, plural, real};

/// Paths that are drawn; the trials of all are in the table at the end.
const PATHS: usize = 30;

/// Each repetition as a point and as a row.
pub fn rates(results: &Results) -> Markup {
    if results.runs.is_empty() {
        return missing("No search was run.");
    }
    html! {
        (figure(|size| charts::rates(results, size), &html! {
            "The " (results.sought().noun()) " that each run found. The stroke above a point reaches to the lowest above it that failed: by the \
             rule of the search the limit of that run lies between. The scale does not begin at zero. The band, where there is one, is the confidence interval of the median."
        }))
        @match statistics(results) {
            Some(table) => (table),
            None => @match interval_table(results) {
                Some(table) => (table),
                None => (missing("There is no summary over all runs: no run found anything, or the measurement did not end.")),
            },
        }
        (runs(results))
    }
}

/// Those of this part; the first is for papers that compare servers.
pub fn tables(results: &Results) -> Vec<Table> {
    let runs = (!results.runs.is_empty()).then(|| runs(results));
    summary(results)
        .into_iter()
        .chain(interval_table(results))
        .chain(statistics(results))
        .chain(runs)
        .collect()
}

fn summary(results: &Results) -> Option<Table> {
    let found = results.found()?;
    let row = vec![
        Cell::text(&dut_name(results)),
        Cell::number(&real(found.median, 0), found.median),
        Cell::count(found.p1),
        Cell::count(found.p99),
        Cell::percent(found.dispersion_pct),
        Cell::count(found.stop_width()),
    ];
    let columns = [
        Column("Server", false),
        Column("Median", true),
        Column("P1", true),
        Column("P99", true),
        Column("Dispersion", true),
        Column("Stop width", true),
    ];
    let caption = match results.sought() {
        Sought::Rate => "DNS64 performance in queries per second",
        Sought::Connections => "Standing connections",
    };
    Some(table(caption, &columns, vec![row]).named("summary"))
}

fn statistics(results: &Results) -> Option<Table> {
    let summary = results.found()?;
    let p1 = p1_name(summary.n);
    let p99 = p99_name(summary.n);
    let row = |name: &str, value: String| vec![Cell::text(name), Cell::text(&value)];
    let mut rows = vec![
        row("Median", real(summary.median, 0)),
        row(&p1, count(summary.p1)),
        row(&p99, count(summary.p99)),
        row("Lowest", count(summary.min)),
        row("Highest", count(summary.max)),
        row("Widest stop width", count(summary.stop_width())),
        row("Dispersion, (highest - lowest) / median", percent(summary.dispersion_pct)),
    ];
    if let Some(interval) = &summary.median_interval {
        let name = format!("{} confidence interval of the median", brief_percent(interval.confidence_pct));
        rows.push(row(&name, format!("{} to {}", count(interval.low), count(interval.high))));
    }
    let columns = [Column("Statistic", false), Column("Value", true)];
    let caption = format!("Over all runs, in {} (RFC 8219 section 12)", results.sought().unit());
    Some(table(&caption, &columns, rows).named("statistics"))
}

fn runs(results: &Results) -> Table {
    let sought = results.sought();
    let rows: Vec<Vec<Cell>> = (results.runs.iter().enumerate())
        .map(|(index, run)| {
            let tally = Tally::of(&run.trials);
            let end = match (run.ended_by_voids(), run.complete, run.at_ceiling) {
                (Some(load), ..) => format!("void trials left {} undecided", sought.in_words(load)),
                (None, true, false) => "to the end".to_owned(),
                (None, _, true) => "at the ceiling".to_owned(),
                (None, false, false) => "broken off".to_owned(),
            };
            vec![
                Cell::count(index as u64 + 1),
                Cell::count(run.found()),
                Cell::count(run.stop_width()),
                Cell::count(tally.pass as u64),
                Cell::count(tally.fail as u64),
                Cell::count(tally.void as u64),
                Cell::count(u64::from(run.loss_inversions)),
                Cell::text(&end),
            ]
        })
        .collect();
    let width = format!("Stop width, {}", sought.unit());
    let columns = [
        Column("Run", true),
        Column(sought.head(), true),
        Column(&width, true),
        Column("Passed", true),
        Column("Failed", true),
        Column("Void", true),
        Column("Loss inversions", true),
        Column("Search ran", false),
    ];
    table("The repetitions of the search", &columns, rows).named("runs")
}

/// Small pictures side by side, all to the same scale.
pub fn searches(results: &Results) -> Markup {
    let searched = results.runs.iter().enumerate().filter(|(_, run)| !run.trials.is_empty());
    let numbers: Vec<usize> = searched.map(|(index, _)| index + 1).collect();
    if numbers.is_empty() {
        return missing("No trial of a search was run.");
    }
    html! {
        p {
            "Each trial is a mark: " b.pass { "● passed" } ", " b.fail { "✕ failed" } ", " b.void { "◇ void" }
            " (the Tester or other load was at fault). The shaded area is the bracket that a bisection had left by its rule; the line is the " (results.sought().noun()) " found."
        }
        div.paths {
            @for number in numbers.iter().take(PATHS) {
                @let run = &results.runs[number - 1];
                figure {
                    figcaption { b { "Run " (number) } ", " (results.sought().in_words(run.found())) ", " (plural(run.trials.len(), "trial", "trials")) }
                    @if let Some(chart) = charts::search(results, *number, Size::Small) { (chart.inline("small")) }
                }
            }
        }
        @if numbers.len() > PATHS { p { "The paths of " (numbers.len() - PATHS) " more runs are in the table of all trials." } }
    }
}
