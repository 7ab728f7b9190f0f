//! The rates of all cells, a line for each.

use maud::{Markup, html};
use record::Summary;
use record::statistics::median;

use super::rows::Row;
use crate::clean::shortened;
use crate::svg::{
    Chart, Frame, Item, Scale, Shape, Size, Tick, at, label, legend, shape, text_width, x_axis,
};
use record::campaign::Figure;
use record::number::{count, real};

/// Lines of a chart at most.
const ROWS_MAX: usize = 60;
/// The height of a line in pixels.
const ROW_HEIGHT: f64 = 24.0;
/// Characters of a cell's name at most.
const NAME_MAX: usize = 32;

struct Line<'r> {
    cell: &'r str,
    points: Vec<f64>,
    median: f64,
    hint: String,
}

/// The rate of every run as a point, with the median; nothing if there are no rates.
pub fn rates(rows: &[Row], size: Size) -> Option<Chart> {
    let lines: Vec<Line<'_>> = rows.iter().filter_map(rate_line).take(ROWS_MAX).collect();
    chart(&lines, "q/s", 0, size)
}

fn rate_line(row: &Row) -> Option<Line<'_>> {
    let Summary { median, p1, p99, .. } = *row.summary.as_ref()?;
    let hint = format!("{}: median {}, P1 {}, P99 {}", row.cell, real(median, 0), count(p1), count(p99));
    let points = row.rates_qps.iter().map(|&rate| rate as f64).collect();
    Some(Line { cell: &row.cell, points, median, hint })
}

/// The values of a figure of every visit as points, with the median; nothing if there are none.
pub fn values(rows: &[Row], at: usize, figure: &Figure, size: Size) -> Option<Chart> {
    let lines: Vec<Line<'_>> =
        rows.iter().filter_map(|row| value_line(row, at, figure)).take(ROWS_MAX).collect();
    chart(&lines, &figure.name, figure.digits, size)
}

fn value_line<'r>(row: &'r Row, at: usize, figure: &Figure) -> Option<Line<'r>> {
    let points = row.figures.get(at)?.clone();
    let median = median(&points)?;
    let hint = format!("{}: median {}", row.cell, real(median, figure.digits));
    Some(Line { cell: &row.cell, points, median, hint })
}

fn chart(lines: &[Line<'_>], unit: &str, digits: usize, size: Size) -> Option<Chart> {
    let highest = lines.iter().flat_map(|line| &line.points).copied().reduce(f64::max)?;
    let longest = lines.iter().map(|line| line.cell.chars().count().min(NAME_MAX)).max()?;
    let mut frame = Frame::new(size, longest, 4);
    frame.left = (text_width(longest) + 16.0).min(frame.width * 0.45);
    frame.bottom = frame.top + lines.len() as f64 * ROW_HEIGHT;
    frame.height = frame.bottom + 44.0;
    let x = Scale::linear((0.0, (highest * 1.03).max(f64::MIN_POSITIVE)), (frame.left, frame.right));
    // A scale shorter than its digits' steps would repeat its marks.
    let marks = if highest < 10.0 { digits.max(1) } else { 0 };
    let ticks = Tick::of(&x, if size == Size::Narrow { 3 } else { 6 }, |value| real(value, marks));
    let items = [
        Item { shape: Shape::Disc, class: "pass", text: "one result".to_owned() },
        Item { shape: Shape::Stroke, class: "", text: "median".to_owned() },
    ];
    let body = html! {
        (x_axis(&frame, &x, &ticks, unit, true))
        @for (index, line) in lines.iter().enumerate() {
            (drawn(line, (&frame, &x), digits, frame.top + (index as f64 + 0.5) * ROW_HEIGHT))
        }
        (legend(&frame, &items))
    };
    let seen: Vec<String> =
        lines.iter().map(|line| format!("{} {}", line.cell, real(line.median, digits))).collect();
    Some(Chart::new(&frame, format!("Medians, {unit}: {}", seen.join(", ")), body))
}

fn drawn(line: &Line<'_>, (frame, x): (&Frame, &Scale), digits: usize, y: f64) -> Markup {
    let ends = |pick: fn(f64, f64) -> f64| line.points.iter().copied().reduce(pick).unwrap_or(line.median);
    html! {
        (label((6.0, y), "", &shortened(line.cell, NAME_MAX)))
        path.error d={ "M" (at(x.at(ends(f64::min)))) " " (at(y)) "H" (at(x.at(ends(f64::max)))) } {}
        path."rule main" d={ "M" (at(x.at(line.median))) " " (at(y - 9.0)) "v18" } {}
        @for &value in &line.points {
            (shape(Shape::Disc, (x.at(value), y), "pass", &format!("{}: {}", line.cell, real(value, digits))))
        }
        path.reach d={ "M" (at(frame.left)) " " (at(y)) "h1" } { title { (line.hint) } }
    }
}
