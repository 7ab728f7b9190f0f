//! Many results on one page: a table to sort and filter, and their rates over time.

use std::time::SystemTime;

use maud::html;
use record::{Results, State, Summary};

use super::clean::shortened;
use super::html::{document, figure};
use super::interval::{bounds, interval};
use super::svg::{Chart, Frame, Item, Scale, Shape, Size, Tick, label, legend, line, shape, x_axis, y_axis};
use super::table::{Cell, Column, Table, table};
use super::words::{dut_name, instant};
use record::number::{count, percent, plural, real};

/// Servers in the chart at most.
const SERVERS_MAX: usize = 12;
/// Characters of a server's name in the chart.
const NAME_MAX: usize = 18;
/// A day in seconds.
const DAY_S: f64 = 86_400.0;

/// A result and where its report lies.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its directory as the page refers to it.
    pub directory: String,
    /// The record.
    pub results: Results,
}

/// The page; what is measured first stands first.
pub fn html(mut entries: Vec<Entry>) -> String {
    entries.sort_by(|a, b| a.results.started_utc.cmp(&b.results.started_utc));
    let over_time = "Median rates, a line for each server that was measured twice or more. Searches for \
                     connections are not in it.";
    let body = html! {
        header {
            p.kind { "Index" }
            h1 { (plural(entries.len(), "result", "results")) }
        }
        main.alone {
            @if history(&entries, Size::Wide).is_some() {
                section id="history" {
                    h2 { a href="#history" { "Over time" } }
                    (figure(|size| history(&entries, size), &html! { (over_time) }))
                }
            }
            section id="results" {
                h2 { a href="#results" { "All results" } }
                p.filter {
                    label for="filter" { "Show rows with " }
                    input id="filter" type="search" autocomplete="off";
                }
                (results(&entries))
            }
        }
    };
    document("Results of Sextant", &body, include_str!("html/filter.js"))
}

fn results(entries: &[Entry]) -> Table {
    let columns = [
        Column("result", false),
        Column("measured", false),
        Column("server", false),
        Column("preset", false),
        Column("runs", true),
        Column("P1", true),
        Column("median", true),
        Column("P99", true),
        Column("unit", false),
        Column("dispersion", true),
        Column("limited by", false),
    ];
    let rows: Vec<Vec<Cell>> = entries.iter().map(row).collect();
    table("Results, the first measured first", &columns, rows)
}

fn row(entry: &Entry) -> Vec<Cell> {
    let Entry { directory, results } = entry;
    let summary = results.found();
    let number = |of: fn(&Summary) -> f64| Cell::maybe(summary.map(of), |value| real(value, 0));
    let limit = match (&results.state, &results.bottleneck) {
        (State::Failed(why), _) => format!("failed: {why}"),
        (_, Some(bottleneck)) => bottleneck.cause.to_string(),
        _ => String::new(),
    };
    let page = format!("{directory}/report.html");
    vec![
        Cell::markup(html! { a href=(page) { (directory) } }, directory, directory),
        Cell::text(&instant(&results.started_utc)),
        Cell::text(&dut_name(results)),
        Cell::text(&results.settings.preset),
        number(|summary| summary.n as f64),
        interval(results)
            .map_or_else(|| number(|summary| summary.p1 as f64), |found| Cell::text(&bounds(&found))),
        number(|summary| summary.median),
        number(|summary| summary.p99 as f64),
        Cell::text(results.sought().unit()),
        Cell::maybe(summary.map(|summary| summary.dispersion_pct), percent),
        Cell::text(&limit),
    ]
}

/// A server's median rates, by the day they were measured, counted from the first of all. Numbers of
/// connections have no place on the axis of rates.
struct Line {
    server: String,
    points: Vec<(f64, f64, String)>,
}

fn lines(entries: &[Entry]) -> Vec<Line> {
    let at = |entry: &Entry| humantime::parse_rfc3339(&entry.results.started_utc).ok();
    let Some(first) = entries.iter().filter_map(at).min() else { return Vec::new() };
    let days = |at: SystemTime| at.duration_since(first).unwrap_or_default().as_secs_f64() / DAY_S;
    let mut lines: Vec<Line> = Vec::new();
    for entry in entries {
        let Some((at, summary)) = at(entry).zip(entry.results.summary.as_ref()) else { continue };
        // The rate of a server with a zone has nothing to do with that of a DNS64 server of the same name.
        let zone = if entry.results.dut.zone_names.is_some() { ", zone" } else { "" };
        let server = format!("{}{zone}", shortened(&dut_name(&entry.results), NAME_MAX));
        let point = (days(at), summary.median, entry.directory.clone());
        match lines.iter_mut().find(|line| line.server == server) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { server, points: vec![point] }),
        }
    }
    lines.retain(|line| line.points.len() > 1);
    lines.truncate(SERVERS_MAX);
    lines
}

/// Median rates over time; nothing if no server was measured twice.
fn history(entries: &[Entry], size: Size) -> Option<Chart> {
    let lines = lines(entries);
    let points = || lines.iter().flat_map(|line| &line.points);
    let highest = points().map(|(_, rate, _)| *rate).reduce(f64::max)?;
    let last = points().map(|(day, ..)| *day).fold(0.0, f64::max);
    let domain = (0.0, highest * 1.05);
    let ticks = Tick::of(&Scale::linear(domain, (0.0, 1.0)), 5, |rate| count(rate as u64));
    let longest = lines.iter().map(|line| line.server.chars().count()).max()?;
    let frame = Frame::new(size, Tick::longest(&ticks), longest);
    let (unit, scale) = if last < 2.0 { ("hours", 24.0) } else { ("days", 1.0) };
    let x = Scale::linear((0.0, (last * scale).max(f64::MIN_POSITIVE)), (frame.left, frame.right));
    let y = Scale::linear(domain, (frame.bottom, frame.top));
    let marks = Tick::of(&x, 6, |value| real(value, usize::from(last * scale < 6.0)));
    let place = |(day, rate, _): &(f64, f64, String)| (x.at(day * scale), y.at(*rate));
    let items = [Item { shape: Shape::Disc, class: "pass", text: "a result".to_owned() }];
    let body = html! {
        (y_axis(&frame, &y, &ticks, "q/s"))
        (x_axis(&frame, &x, &marks, &format!("{unit} since the first"), false))
        @for of in &lines {
            @let places: Vec<(f64, f64)> = of.points.iter().map(place).collect();
            (line(&places, "muted"))
            @for (point, place) in of.points.iter().zip(&places) {
                (shape(Shape::Disc, *place, "pass", &format!("{}: {} q/s, {}", of.server, count(point.1 as u64), point.2)))
            }
            @if let Some((x, y)) = places.last() { (label((x + 9.0, *y), "", &of.server)) }
        }
        (legend(&frame, &items))
    };
    let spoken: Vec<String> =
        lines.iter().map(|line| format!("{} {} times", line.server, line.points.len())).collect();
    Some(Chart::new(&frame, format!("Median rates over time: {}", spoken.join(", ")), body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use maud::Render;
    use record::Dut;
    use record::statistics::summarize;

    fn entry(directory: &str, server: &str, started_utc: &str, rate: u64) -> Entry {
        let results = Results {
            started_utc: started_utc.into(),
            dut: Dut { name: server.into(), ..Dut::default() },
            summary: summarize(&[rate], 0),
            ..Results::new(record::Kind::Bench)
        };
        Entry { directory: directory.into(), results }
    }

    #[test]
    fn results_stand_in_their_order_and_servers_have_lines() {
        let entries = vec![
            entry("c", "unbound", "2026-01-03T00:00:00Z", 300),
            entry("a", "unbound", "2026-01-01T00:00:00Z", 100),
            entry("b", "<b>", "2026-01-02T00:00:00Z", 200),
        ];
        let chart = history(&entries, Size::Wide).unwrap();
        assert_eq!(chart.label, "Median rates over time: unbound 2 times");
        let page = html(entries);
        let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} in {page}"));
        assert!(
            place("a/report.html") < place("b/report.html")
                && place("b/report.html") < place("c/report.html")
        );
        assert!(page.contains("3 results") && page.contains("&lt;b&gt;") && !page.contains("<b>"));
        assert!(history(&[], Size::Narrow).is_none());
    }

    #[test]
    fn numbers_of_connections_stand_in_the_table_and_not_among_the_rates() {
        let connections = |directory: &str, most: u64| {
            let mut entry = entry(directory, "unbound", "2026-01-01T00:00:00Z", 0);
            entry.results.settings.connections_range = Some([1, 9000]);
            entry.results.connections = summarize(&[most], 0);
            entry.results.summary = None;
            entry
        };
        let entries = [connections("a", 1234), connections("b", 5678)];
        assert!(history(&entries, Size::Wide).is_none());
        let text = results(&entries).render().into_string();
        let rates = results(&[entry("c", "unbound", "2026-01-01T00:00:00Z", 1234)]).render().into_string();
        let shown = |table: &str, unit: &str| (table.matches("1,234").count(), table.contains(unit));
        assert_eq!(shown(&text, "connections"), (3, true), "{text}");
        assert_eq!(shown(&rates, "q/s"), (3, true), "{rates}");
        assert!(!text.contains("q/s"), "{text}");
    }
}
