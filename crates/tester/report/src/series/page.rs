//! A campaign as one page that works without a network.

use maud::{Markup, html};

use super::chart::{rates, values};
use super::rows::{Row, Table};
use super::scaleup::scale_up;
use super::text::{drift, heads, published, remarks};
use crate::clean::printable;
use crate::html::{document, facts, figure};
use crate::svg::Size;
use crate::table::{Cell, Column, Table as Sortable, table as sortable};
use crate::words::instant;
use record::campaign::{SENTINEL, Series, VisitState};
use record::number::{NONE, real, seconds};

/// Charts of figures at most.
const CHARTS_MAX: usize = 4;

pub fn html(series: &Series, table: &Table) -> String {
    let body = html! {
        header {
            p.kind { "Campaign " (series.name) ", " (series.form.name()) " form" }
            h1 { (series.title) }
            p.when { (instant(&series.started_utc)) ", on " (series.machine) ", measured by " (series.tool) }
        }
        main.alone {
            (section("result", "Result", &result(series, table)))
            @if let Some(grid) = grid(&table.rows) { (section("grid", "Median rates, q/s", &grid)) }
            @if !table.published.is_empty() { (section("published", "What others published", &others(table))) }
            (section("visits", "Every visit", &html! { (visits(series)) }))
            (section("repeat", "How to repeat it", &repeat(series)))
        }
    };
    document(&format!("{}: a campaign of Sextant", series.title), &body, "")
}

fn section(anchor: &str, title: &str, content: &Markup) -> Markup {
    html! { section id=(anchor) { h2 { a href={ "#" (anchor) } { (title) } } (content) } }
}

fn result(series: &Series, table: &Table) -> Markup {
    let caption = html! {
        "The highest rate that each run found, and their median. Where it says >=, a run ended at the highest rate that it might try."
    };
    html! {
        p { (series.about.trim()) }
        @if table.rows.iter().any(|row| row.summary.is_some()) {
            (figure(|size| rates(&table.rows, size), &caption))
        }
        @if scale_up(&table.rows, Size::Wide).is_some() {
            (figure(|size| scale_up(&table.rows, size), &html! { "Median rates by the number of the server's processors." }))
        }
        @for (at, of) in table.figures.iter().enumerate().take(CHARTS_MAX) {
            (figure(|size| values(&table.rows, at, of, size), &html! { (of.name) ", every visit, and the median." }))
        }
        @if let Some(drift) = drift(table) { p { (drift) } }
        (cells_table(table))
    }
}

pub fn tables(series: &Series, table: &Table) -> Vec<Sortable> {
    vec![cells_table(table), visits(series)]
}

/// The charts of the page as files of their own, with their names.
pub fn figures(table: &Table) -> Vec<(String, String)> {
    let rows = &table.rows;
    let mut charts = vec![
        ("rates".to_owned(), rates(rows, Size::Wide)),
        ("scale-up".to_owned(), scale_up(rows, Size::Wide)),
    ];
    for (at, of) in table.figures.iter().enumerate().take(CHARTS_MAX) {
        charts.push((format!("figure-{}", at + 1), values(rows, at, of, Size::Wide)));
    }
    let drawn =
        charts.into_iter().filter_map(|(name, chart)| Some((format!("{name}.svg"), chart?.standalone())));
    drawn.map(|(name, text)| (name, printable(text))).collect()
}

fn cells_table(table: &Table) -> Sortable {
    let heads = heads(table);
    let columns: Vec<Column> = heads.iter().enumerate().map(|(at, head)| Column(head, at > 0)).collect();
    let columns: Vec<Column> = columns.into_iter().chain([Column("remarks", false)]).collect();
    let rows: Vec<Vec<Cell>> = table.rows.iter().map(|row| cells(row, table)).collect();
    sortable("Cells of the campaign", &columns, rows).named("cells")
}

fn cells(row: &Row, table: &Table) -> Vec<Cell> {
    let cell = |(shown, value): (String, Option<f64>)| {
        value.map_or_else(|| Cell::text(&shown), |value| Cell::number(&shown, value))
    };
    let mut cells: Vec<Cell> = super::text::cells(row, table).into_iter().map(cell).collect();
    let remarks = [row.server.clone(), remarks(row)].into_iter().filter(|text| !text.is_empty());
    cells.push(Cell::text(&remarks.collect::<Vec<_>>().join("; ")));
    cells
}

type Setting = (String, String);

/// Where all cells differ in the same two options: a table of both.
fn grid(rows: &[Row]) -> Option<Markup> {
    let two: Vec<(&Row, &Setting, &Setting)> = rows
        .iter()
        .filter_map(|row| match row.settings.as_slice() {
            [one, other] => Some((row, one, other)),
            _ => None,
        })
        .collect();
    let (_, down, across) = two.first()?;
    let same = two.iter().all(|(_, one, other)| one.0 == down.0 && other.0 == across.0);
    let lines = distinct(two.iter().map(|(_, one, _)| &one.1));
    let columns = distinct(two.iter().map(|(_, _, other)| &other.1));
    if !same || lines.len() < 2 || columns.len() < 2 {
        return None;
    }
    let median = |line: &String, column: &String| {
        let found = two.iter().find(|(_, one, other)| &one.1 == line && &other.1 == column)?;
        Some(found.0.summary.as_ref()?.median)
    };
    let highest = two.iter().filter_map(|(row, ..)| Some(row.summary.as_ref()?.median)).fold(1.0, f64::max);
    Some(html! {
        div.scroll tabindex="0" role="region" aria-label="Median rates of both options" {
            table.heat {
                caption { (down.0) " downwards, " (across.0) " to the right; darker is faster" }
                thead { tr { th scope="col" { (down.0) } @for column in &columns { th.n scope="col" { (column) } } } }
                tbody {
                    @for line in &lines {
                        tr {
                            th scope="row" { (line) }
                            @for column in &columns {
                                @match median(line, column) {
                                    Some(rate) => td.n.(heat(rate / highest)) { (real(rate, 0)) },
                                    None => td.n { (NONE) },
                                }
                            }
                        }
                    }
                }
            }
        }
    })
}

/// The values without repetitions, in their order.
fn distinct<'v>(values: impl Iterator<Item = &'v String>) -> Vec<&'v String> {
    values.fold(Vec::new(), |mut known, value| {
        if !known.contains(&value) {
            known.push(value);
        }
        known
    })
}

/// The class of a share of the highest.
fn heat(share: f64) -> &'static str {
    match (share * 5.0).ceil() as u32 {
        0 | 1 => "h1",
        2 => "h2",
        3 => "h3",
        4 => "h4",
        _ => "h5",
    }
}

fn others(table: &Table) -> Markup {
    html! {
        p { "Other hardware, other years: the ratios say how far apart the machines are as much as the servers." }
        ul { @for line in published(table) { li { (line) } } }
    }
}

fn visits(series: &Series) -> Sortable {
    let columns = [
        Column("visit", false),
        Column("round", true),
        Column("took", true),
        Column("result", false),
        Column("command", false),
    ];
    let rows: Vec<Vec<Cell>> = series
        .visits
        .iter()
        .map(|visit| {
            let result = match (&visit.state, &visit.directory) {
                (VisitState::Complete, Some(directory)) => {
                    let page = format!("{directory}/report.html");
                    Cell::markup(html! { a href=(page) { "report" } }, "report", "report")
                }
                (VisitState::Failed(why), _) => Cell::text(&format!("failed: {why}")),
                (VisitState::Missing(why), _) => Cell::text(&format!("not here: {why}")),
                _ => Cell::text("not measured yet"),
            };
            vec![
                Cell::text(&visit.cell),
                Cell::count(visit.round.into()),
                Cell::maybe(visit.took_s, seconds),
                result,
                Cell::text(&format!("sextant {}", visit.arguments.join(" "))),
            ]
        })
        .collect();
    sortable("Visits in the order in which they were made", &columns, rows).named("visits")
}

fn repeat(series: &Series) -> Markup {
    let sentinel = series.visits.iter().any(|visit| visit.cell == SENTINEL);
    html! {
        p { "Every visit is a command of its own, and any of them can be repeated alone. The whole:" }
        pre { "sextant campaign run " (series.name) " --preset " (series.form.name()) }
        (facts(&[
            ("Description", "in campaign.json, whole".to_owned()),
            ("Machine before and after", "manifest.json, manifest-after.json".to_owned()),
            ("Sentinel", if sentinel { "at the start, in the middle and at the end" } else { "none" }.to_owned()),
        ]))
    }
}
