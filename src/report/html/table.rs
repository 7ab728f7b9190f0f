//! Tables that sort by a click on their heads.

use maud::{Markup, html};

use crate::report::clean::unbroken;
use crate::report::number::{NONE, count, exact, time_of};

/// Rows that a table shows, so that the page opens at once.
const ROWS: usize = 2_000;

/// A column: its head, and whether it holds numbers.
pub struct Column<'h>(pub &'h str, pub bool);

/// A cell: what is shown, and what it sorts by if that is not its text.
pub struct Cell {
    shown: Markup,
    key: Option<String>,
}

impl Cell {
    /// Something to read.
    pub fn text(text: &str) -> Self {
        let shown = if text.is_empty() { NONE } else { text };
        Self { shown: html! { (shown) }, key: Some(text.to_owned()).filter(String::is_empty) }
    }

    /// A number as it is written, and its value.
    pub fn number(shown: &str, value: f64) -> Self {
        Self { shown: html! { (shown) }, key: Some(exact(value)) }
    }

    /// A whole number with separators.
    pub fn count(value: u64) -> Self {
        Self::number(&count(value), value as f64)
    }

    /// A time in nanoseconds.
    pub fn time(value: u64) -> Self {
        Self::number(&time_of(value), value as f64)
    }

    /// A number that may be unknown, written by `format`.
    pub fn maybe(value: Option<f64>, format: impl Fn(f64) -> String) -> Self {
        match value {
            Some(value) => Self::number(&format(value), value),
            None => Self::number(NONE, f64::NAN),
        }
    }

    /// Anything, with what it sorts by.
    pub fn markup(shown: Markup, key: &str) -> Self {
        Self { shown, key: Some(key.to_owned()) }
    }
}

/// A table with a caption; the first cell of a row heads it. It scrolls sideways where it is too wide.
pub fn table(caption: &str, columns: &[Column<'_>], rows: &[Vec<Cell>]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table.sort {
                caption { (caption) }
                thead { tr { @for Column(title, number) in columns { th.n[*number] scope="col" { (title) } } } }
                tbody {
                    @for row in rows.iter().take(ROWS) {
                        tr {
                            @for (index, (cell, Column(_, number))) in row.iter().zip(columns).enumerate() {
                                @if index == 0 {
                                    th.n[*number] scope="row" data-key=[&cell.key] { (cell.shown) }
                                } @else {
                                    td.n[*number] data-key=[&cell.key] { (cell.shown) }
                                }
                            }
                        }
                    }
                }
            }
        }
        @if rows.len() > ROWS { p { (count((rows.len() - ROWS) as u64)) " more rows are in the files beside this page." } }
    }
}

/// Names and values below each other.
pub fn facts(pairs: &[(&str, String)]) -> Markup {
    html! {
        dl.facts {
            @for (name, value) in pairs {
                div { dt { (name) } dd { @if value.is_empty() { (NONE) } @else { (unbroken(value)) } } }
            }
        }
    }
}
