//! The rates of all cells, a line for each.

use maud::{Markup, html};

use super::rows::Row;
use crate::report::clean::shortened;
use crate::report::number::{count, rate_of, real};
use crate::report::svg::{
    Chart, Frame, Item, Scale, Shape, Size, Tick, at, label, legend, shape, text_width, x_axis,
};

/// Lines of a chart at most.
const ROWS_MAX: usize = 60;
/// The height of a line in pixels.
const ROW_HEIGHT: f64 = 24.0;
/// Characters of a cell's name at most.
const NAME_MAX: usize = 24;

/// The rate of every run as a point, with the median; nothing if there are no rates.
pub fn rates(rows: &[Row], size: Size) -> Option<Chart> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.summary.is_some()).take(ROWS_MAX).collect();
    let highest = rows.iter().filter_map(|row| Some(row.summary.as_ref()?.max)).max()?;
    let longest = rows.iter().map(|row| row.cell.chars().count().min(NAME_MAX)).max()?;
    let mut frame = Frame::new(size, longest, 4);
    frame.left = (text_width(longest) + 16.0).min(frame.width * 0.45);
    frame.bottom = frame.top + rows.len() as f64 * ROW_HEIGHT;
    frame.height = frame.bottom + 44.0;
    let x = Scale::linear((0.0, highest as f64 * 1.03), (frame.left, frame.right));
    let ticks = Tick::of(&x, if size == Size::Narrow { 3 } else { 6 }, |value| real(value, 0));
    let items = [
        Item { shape: Shape::Disc, class: "pass", text: "a run".to_owned() },
        Item { shape: Shape::Stroke, class: "", text: "median".to_owned() },
    ];
    let body = html! {
        (x_axis(&frame, &x, &ticks, "q/s", true))
        @for (index, row) in rows.iter().enumerate() {
            (cell(row, &frame, &x, frame.top + (index as f64 + 0.5) * ROW_HEIGHT))
        }
        (legend(&frame, &items))
    };
    let seen: Vec<String> = rows
        .iter()
        .filter_map(|row| Some(format!("{} {}", row.cell, real(row.summary.as_ref()?.median, 0))))
        .collect();
    Some(Chart::new(&frame, format!("Median rates in q/s: {}", seen.join(", ")), body))
}

fn cell(row: &Row, frame: &Frame, x: &Scale, y: f64) -> Markup {
    let Some(summary) = &row.summary else { return html! {} };
    let middle = x.at(summary.median);
    html! {
        (label((6.0, y), "", &shortened(&row.cell, NAME_MAX)))
        path.error d={ "M" (at(x.at(summary.min as f64))) " " (at(y)) "H" (at(x.at(summary.max as f64))) } {}
        path."rule main" d={ "M" (at(middle)) " " (at(y - 9.0)) "v18" } {}
        @for &rate in &row.rates_qps {
            (shape(Shape::Disc, (x.at(rate as f64), y), "pass", &format!("{}: {}", row.cell, rate_of(rate))))
        }
        path.reach d={ "M" (at(frame.left)) " " (at(y)) "h1" } {
            title { (row.cell) ": median " (real(summary.median, 0)) ", P1 " (count(summary.p1)) ", P99 " (count(summary.p99)) }
        }
    }
}
