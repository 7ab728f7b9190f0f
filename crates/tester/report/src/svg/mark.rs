//! Marks that show values: points of several shapes, lines, areas, labels.

use maud::{Markup, html};
use record::Outcome;

use super::{Frame, at, text_width};

/// The shape of a point. Outcomes differ in shape as well as in colour.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Disc,
    Cross,
    Diamond,
    /// A short stroke, in legends of lines.
    Stroke,
    /// A square, in legends of areas.
    Square,
}

impl Shape {
    /// Passed: disc. Failed: cross. Void: diamond.
    pub fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Pass => Self::Disc,
            Outcome::Fail => Self::Cross,
            Outcome::Void => Self::Diamond,
        }
    }
}

/// A point with its values as a title, and room around it for the pointer.
pub fn shape(shape: Shape, (x, y): (f64, f64), class: &str, title: &str) -> Markup {
    html! {
        g.mark.(class) {
            @if !title.is_empty() {
                title { (title) }
                circle.reach cx=(at(x)) cy=(at(y)) r="11" {}
            }
            @match shape {
                Shape::Disc => circle.dot cx=(at(x)) cy=(at(y)) r="4.5" {},
                Shape::Cross => path.stroke d={ "M" (at(x - 4.0)) " " (at(y - 4.0)) "l8 8m0 -8l-8 8" } {},
                Shape::Diamond => path.hollow d={ "M" (at(x)) " " (at(y - 5.5)) "l5.5 5.5l-5.5 5.5l-5.5 -5.5z" } {},
                Shape::Stroke => path.line d={ "M" (at(x - 8.0)) " " (at(y)) "h16" } {},
                Shape::Square => rect.area x=(at(x - 5.0)) y=(at(y - 5.0)) width="10" height="10" {},
            }
        }
    }
}

pub fn line(points: &[(f64, f64)], class: &str) -> Markup {
    html! { path.line.(class) d=(path(points)) {} }
}

/// The path data of a line through points.
pub fn path(points: &[(f64, f64)]) -> String {
    let mut out = String::with_capacity(points.len() * 12);
    for (index, (x, y)) in points.iter().enumerate() {
        out.push(if index == 0 { 'M' } else { 'L' });
        out += &at(*x);
        out.push(' ');
        out += &at(*y);
    }
    out
}

pub fn area(points: &[(f64, f64)], class: &str, title: &str) -> Markup {
    html! {
        path.area.(class) d={ (path(points)) "Z" } {
            @if !title.is_empty() { title { (title) } }
        }
    }
}

/// A rectangle between two corners.
pub fn band((x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str, title: &str) -> Markup {
    html! {
        rect.area.(class) x=(at(x1.min(x2))) y=(at(y1.min(y2))) width=(at((x2 - x1).abs())) height=(at((y2 - y1).abs())) {
            @if !title.is_empty() { title { (title) } }
        }
    }
}

/// A text that begins at a point.
pub fn label((x, y): (f64, f64), class: &str, text: &str) -> Markup {
    html! { text.label.(class) x=(at(x)) y=(at(y + 4.0)) { (text) } }
}

pub struct Item {
    pub shape: Shape,
    /// The class of the marks it explains.
    pub class: &'static str,
    pub text: String,
}

/// Along the top edge, from the left.
pub fn legend(frame: &Frame, items: &[Item]) -> Markup {
    let mut x = 12.0;
    let mut placed = Vec::with_capacity(items.len());
    for item in items {
        placed.push((x, item));
        x += text_width(item.text.chars().count()) + 36.0;
    }
    html! {
        g.legend {
            @for (x, item) in placed {
                @if x < frame.width {
                    (shape(item.shape, (x, 10.0), item.class, ""))
                    (label((x + 12.0, 10.0), "", &item.text))
                }
            }
        }
    }
}
