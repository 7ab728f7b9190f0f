//! IDs or ports of a server's queries over time.

use std::fmt::Write;

use maud::html;
use record::identifiers::{Analysis, Spread};

use crate::svg::{Chart, Frame, Scale, Size, Tick, at, x_axis, y_axis};
use record::number::{count, real, short};

const POINTS: usize = 1500;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Field {
    Id,
    Port,
}

impl Field {
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Id => ("ID", "IDs"),
            Self::Port => ("port", "source ports"),
        }
    }

    fn spread(self, analysis: &Analysis) -> &Spread {
        match self {
            Self::Id => &analysis.ids,
            Self::Port => &analysis.ports,
        }
    }
}

/// Nothing without queries over UDP.
pub fn identifiers(analysis: &Analysis, field: Field, size: Size) -> Option<Chart> {
    let points = &analysis.points[..analysis.points.len().min(POINTS)];
    let last_s = points.last()?.0;
    let ticks = [0.0, 16_384.0, 32_768.0, 49_152.0, 65_535.0];
    let ticks: Vec<Tick> = ticks.map(|value| Tick { value, label: real(value, 0) }).into();
    let mut frame = Frame::new(size, Tick::longest(&ticks), 2);
    frame.top = 34.0;
    let y = Scale::linear((0.0, 65_535.0), (frame.bottom, frame.top));
    let x = Scale::linear((0.0, last_s), (frame.left, frame.right));
    let times = Tick::of(&x, if size == Size::Narrow { 3 } else { 6 }, |value| format!("{} s", short(value)));
    let mut path = String::with_capacity(points.len() * 14);
    for &(time_s, id, port) in points {
        let value = if field == Field::Id { id } else { port };
        // A stroke without length and with round ends is a point. Writing to a string cannot fail.
        let _ = write!(path, "M{} {}h0", at(x.at(time_s)), at(y.at(value.into())));
    }
    let (title, words) = field.words();
    let spread = field.spread(analysis);
    let body = html! {
        (y_axis(&frame, &y, &ticks, title))
        (x_axis(&frame, &x, &times, "since the first query", false))
        path.points d=(path) {}
    };
    let label = format!(
        "{} {words} of queries over {} s, {} different of {}",
        count(points.len() as u64),
        short(last_s),
        count(spread.distinct),
        count(spread.count)
    );
    Some(Chart::new(&frame, label, body))
}
