//! Axes with their grid.

use maud::{Markup, html};

use super::{Frame, Scale, at};

/// A labelled value of an axis.
pub struct Tick {
    pub value: f64,
    pub label: String,
}

impl Tick {
    /// Round values of a scale, written by `format`.
    pub fn of(scale: &Scale, wanted: usize, format: impl Fn(f64) -> String) -> Vec<Self> {
        scale.ticks(wanted).into_iter().map(|value| Self { value, label: format(value) }).collect()
    }

    /// Characters of the longest label.
    pub fn longest(ticks: &[Self]) -> usize {
        ticks.iter().map(|tick| tick.label.chars().count()).max().unwrap_or(0)
    }
}

/// Below the chart, its title at the right end. `grid` draws a line up from each tick.
pub fn x_axis(frame: &Frame, scale: &Scale, ticks: &[Tick], title: &str, grid: bool) -> Markup {
    html! {
        g.axis {
            line.base x1=(at(frame.left)) x2=(at(frame.right)) y1=(at(frame.bottom)) y2=(at(frame.bottom)) {}
            @for tick in ticks {
                @let x = at(scale.at(tick.value));
                @if grid { line.grid x1=(x) x2=(x) y1=(at(frame.top)) y2=(at(frame.bottom)) {} }
                text.tick x=(x) y=(at(frame.bottom + 17.0)) text-anchor="middle" { (tick.label) }
            }
            text.title x=(at(frame.right)) y=(at(frame.bottom + 35.0)) text-anchor="end" { (title) }
        }
    }
}

/// On the left with a grid, its title above it.
pub fn y_axis(frame: &Frame, scale: &Scale, ticks: &[Tick], title: &str) -> Markup {
    html! {
        g.axis {
            @for tick in ticks {
                @let y = scale.at(tick.value);
                line.grid x1=(at(frame.left)) x2=(at(frame.right)) y1=(at(y)) y2=(at(y)) {}
                text.tick x=(at(frame.left - 7.0)) y=(at(y + 4.0)) text-anchor="end" { (tick.label) }
            }
            text.title x="2" y=(at(frame.top - 14.0)) { (title) }
        }
    }
}
