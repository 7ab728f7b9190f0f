//! Rates by the number of the server's processors, beside what they would be if each did as much as the
//! first.

use maud::{Markup, html};

use super::rows::Row;
use crate::svg::{Chart, Frame, Item, Scale, Shape, Size, Tick, label, legend, line, shape, x_axis, y_axis};
use record::number::{count, plural, real};

/// The option that says which processors a server has.
const OPTION: &str = "--dut-cpus";
/// Servers in one chart at most.
const LINES_MAX: usize = 12;

/// A server on several numbers of processors.
struct Line {
    /// The other options of its cells.
    name: String,
    /// Processors and median rate in q/s, rising.
    points: Vec<(usize, f64)>,
}

/// One line for each server, and the ideal of the fastest that was measured on the fewest processors; nothing
/// if no server was measured on two numbers of them.
pub(crate) fn scale_up(rows: &[Row], size: Size) -> Option<Chart> {
    let lines = lines(rows);
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    let (fewest, most) = (points().map(|(cpus, _)| cpus).min()?, points().map(|(cpus, _)| cpus).max()?);
    let at_fewest = points().filter(|(cpus, _)| *cpus == fewest).map(|(_, rate)| rate).fold(0.0, f64::max);
    let each = at_fewest / fewest as f64;
    let highest = points().map(|(_, rate)| rate).fold(each * most as f64, f64::max);
    let domain = (0.0, highest * 1.04);
    let ticks = Tick::of(&Scale::linear(domain, (0.0, 1.0)), 5, |value| count(value as u64));
    let longest = lines.iter().map(|line| line.name.chars().count()).max()?;
    let frame = Frame::new(size, Tick::longest(&ticks), longest.min(16));
    let x = Scale::linear((fewest as f64 - 0.2, most as f64 + 0.2), (frame.left, frame.right));
    let y = Scale::linear(domain, (frame.bottom, frame.top));
    let mut numbers: Vec<usize> = points().map(|(cpus, _)| cpus).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let marks: Vec<Tick> =
        numbers.iter().map(|&cpus| Tick { value: cpus as f64, label: cpus.to_string() }).collect();
    let ideal = [fewest, most].map(|cpus| (x.at(cpus as f64), y.at(each * cpus as f64)));
    let items = [
        Item { shape: Shape::Disc, class: "pass", text: "median".to_owned() },
        Item { shape: Shape::Stroke, class: "muted", text: "the fastest, if it scaled ideally".to_owned() },
    ];
    let body = html! {
        (y_axis(&frame, &y, &ticks, "q/s"))
        (x_axis(&frame, &x, &marks, "processors of the server", true))
        (line(&ideal, "muted"))
        @for of in &lines { (drawn(of, &x, &y)) }
        (legend(&frame, &items))
    };
    Some(Chart::new(&frame, spoken(&lines), body))
}

/// The cells that differ in the processors alone, together.
fn lines(rows: &[Row]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let Some(median) = row.summary.as_ref().map(|summary| summary.median) else { continue };
        let Some(cpus) = row.settings.iter().find(|(option, _)| option == OPTION) else { continue };
        let cpus = cpus.1.split(',').count();
        let others = row.settings.iter().filter(|(option, _)| option != OPTION);
        let name = others.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" ");
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push((cpus, median)),
            None => lines.push(Line { name, points: vec![(cpus, median)] }),
        }
    }
    for line in &mut lines {
        line.points.sort_by_key(|(cpus, _)| *cpus);
        line.points.dedup_by_key(|(cpus, _)| *cpus);
    }
    lines.retain(|line| line.points.len() > 1);
    lines.truncate(LINES_MAX);
    lines
}

fn drawn(of: &Line, x: &Scale, y: &Scale) -> Markup {
    let first = of.points.first().map_or(1.0, |(cpus, rate)| rate / *cpus as f64);
    let place = |&(cpus, rate): &(usize, f64)| (x.at(cpus as f64), y.at(rate));
    let places: Vec<(f64, f64)> = of.points.iter().map(place).collect();
    let title = |&(cpus, rate): &(usize, f64)| {
        let times = rate / first.max(f64::MIN_POSITIVE);
        let processors = plural(cpus, "processor", "processors");
        format!("{} on {processors}: {} q/s, x {}", of.name, count(rate as u64), real(times, 2))
    };
    html! {
        (line(&places, "pass"))
        @for point in &of.points { (shape(Shape::Disc, place(point), "pass", &title(point))) }
        @if let Some((x, y)) = places.last() { (label((x + 9.0, *y), "", &of.name)) }
    }
}

fn spoken(lines: &[Line]) -> String {
    let of_line = |line: &Line| {
        let points: Vec<String> =
            line.points.iter().map(|(cpus, rate)| format!("{} on {cpus}", count(*rate as u64))).collect();
        format!("{}: {}", line.name, points.join(", "))
    };
    let all: Vec<String> = lines.iter().map(of_line).collect();
    format!("Rates in q/s by processors. {}", all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::statistics::summarize;

    fn row(server: &str, cpus: &str, rate: u64) -> Row {
        let settings = [("--authoritative", server), (OPTION, cpus)];
        let settings = settings.map(|(option, value)| (option.to_owned(), value.to_owned()));
        let mut row = Row::new("cell", &settings);
        row.summary = summarize(&[rate], 0);
        row
    }

    #[test]
    fn servers_on_several_numbers_of_processors_are_drawn_with_the_ideal() {
        let rows =
            [row("nsd", "0,1", 300), row("nsd", "0", 160), row("knot", "0", 200), row("bind", "0,1", 9)];
        let chart = scale_up(&rows, Size::Wide).unwrap();
        assert_eq!(chart.label, "Rates in q/s by processors. nsd: 160 on 1, 300 on 2");
        let drawn = chart.body.into_string();
        assert!(drawn.contains("nsd on 2 processors: 300 q/s, x 1.88") && !drawn.contains("knot"), "{drawn}");
        assert!(scale_up(&rows[2..], Size::Wide).is_none(), "nothing to compare");
        assert!(scale_up(&[], Size::Narrow).is_none());
    }
}
