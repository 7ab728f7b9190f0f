//! A small drawing module for charts: scales, axes, marks.
//!
//! Colours and fonts are classes of `chart.css`, never attributes, so that one drawing follows light, dark
//! and print; every mark carries its values as a `<title>`. No library known to us leaves both to the page.

mod axis;
mod mark;
mod scale;

use maud::{Markup, PreEscaped, html};

pub use axis::{Tick, x_axis, y_axis};
pub use mark::{Item, Shape, area, band, label, legend, line, path, shape};
pub use scale::Scale;

pub(crate) const STYLE: &str = include_str!("chart.css");

/// For what width a chart is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// A page or a screen.
    Wide,
    Narrow,
    /// One of several side by side.
    Small,
}

impl Size {
    /// Width and height in pixels of CSS.
    fn extent(self) -> (f64, f64) {
        match self {
            Self::Wide => (720.0, 300.0),
            Self::Narrow => (352.0, 280.0),
            Self::Small => (300.0, 190.0),
        }
    }
}

/// The sheet of a chart and the rectangle within it where values are drawn; y grows downwards.
#[derive(Clone, Copy)]
pub struct Frame {
    pub width: f64,
    pub height: f64,
    pub left: f64,
    /// See `left`.
    pub right: f64,
    /// See `left`.
    pub top: f64,
    /// See `left`.
    pub bottom: f64,
}

impl Frame {
    /// With room for a legend above, tick labels of the given number of characters on the left, and text of
    /// so many characters on the right.
    pub fn new(size: Size, left_characters: usize, right_characters: usize) -> Self {
        let (width, height) = size.extent();
        let room = |characters: usize| text_width(characters).min(width * 0.38);
        Self {
            width,
            height,
            left: (room(left_characters) + 12.0).max(24.0),
            right: width - (room(right_characters) + 12.0),
            top: 54.0,
            bottom: height - 44.0,
        }
    }
}

/// What so many characters of a chart's text take, roughly.
pub(crate) fn text_width(characters: usize) -> f64 {
    characters as f64 * 6.6
}

pub(crate) struct Chart {
    /// What it shows and says, for those who do not see it.
    pub label: String,
    /// Width and height of its sheet.
    pub extent: (f64, f64),
    pub body: Markup,
}

impl Chart {
    pub fn new(frame: &Frame, label: impl Into<String>, body: Markup) -> Self {
        Self { label: label.into(), extent: (frame.width, frame.height), body }
    }

    /// As an element of a page whose styles include [`STYLE`].
    pub fn inline(&self, class: &str) -> Markup {
        let (width, height) = self.extent;
        html! {
            svg.chart.(class) viewBox={ "0 0 " (width) " " (height) } role="img" aria-label=(self.label) { (self.body) }
        }
    }

    pub(crate) fn standalone(&self) -> String {
        let (width, height) = self.extent;
        let drawing = html! {
            svg.chart xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (width) " " (height) } width=(width)
                height=(height) role="img" aria-label=(self.label) {
                title { (self.label) }
                style { (PreEscaped(plain_style())) }
                rect.sheet width=(width) height=(height) {}
                (self.body)
            }
        };
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", drawing.into_string())
    }
}

/// The styles without variables and conditions, which papers' programs do not know: light, on white.
fn plain_style() -> String {
    let colours = STYLE.split('}').next().unwrap_or_default();
    let variables: Vec<(&str, &str)> = (colours.split(['{', ';']))
        .filter_map(|declaration| declaration.trim().split_once(": "))
        .filter(|(name, _)| name.starts_with("--"))
        .collect();
    let mut plain = String::with_capacity(STYLE.len());
    let mut conditional = 0i32;
    for line in STYLE.lines() {
        let condition = line.starts_with("@media") || conditional > 0;
        if condition {
            conditional += line.matches('{').count() as i32 - line.matches('}').count() as i32;
            continue;
        }
        if !line.trim_start().starts_with("--") {
            plain.push_str(line);
            plain.push('\n');
        }
    }
    variables.iter().fold(plain, |plain, (name, value)| plain.replace(&format!("var({name})"), value))
}

/// A coordinate: a tenth of a pixel is enough, and never anything but a number.
pub fn at(value: f64) -> String {
    if value.is_finite() { format!("{:.1}", value.clamp(-1e5, 1e5)) } else { "0.0".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_plain_styles() {
        let plain = plain_style();
        assert!(!plain.contains("var(") && !plain.contains("@media") && !plain.contains("--"), "{plain}");
        assert!(plain.contains(".chart .dot { fill: #0b6b74; }"), "{plain}");
        assert_eq!(plain.matches('{').count(), plain.matches('}').count());
        assert!(plain.contains("font: 12px") && plain.contains(".mark:hover"), "{plain}");
    }
}
