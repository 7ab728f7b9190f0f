//! A table once, for the page and for files: comma-separated values, Markdown, LaTeX.

mod files;
mod latex;

use maud::{Markup, Render, html};

pub use files::{caption, table_files};

use record::number::{NONE, count, exact, octets, percent, time_ns, time_of};

/// Rows that a page shows, so that it opens at once.
const ROWS: usize = 2_000;

/// A column: its head, and whether it holds numbers.
pub(crate) struct Column<'h>(pub &'h str, pub bool);

/// A cell: what is shown, what it sorts by if that is not its text, and what files hold.
pub struct Cell {
    shown: Markup,
    key: Option<String>,
    text: String,
    /// The number that the text tells, and its unit where the head does not name it.
    number: Option<(f64, &'static str)>,
}

impl Cell {
    pub fn text(text: &str) -> Self {
        let shown = if text.is_empty() { NONE } else { text };
        let key = Some(text.to_owned()).filter(String::is_empty);
        Self { shown: html! { (shown) }, key, text: text.to_owned(), number: None }
    }

    /// A number as it is written, and its value.
    pub fn number(shown: &str, value: f64) -> Self {
        let key = Some(exact(value));
        Self { shown: html! { (shown) }, key, text: shown.to_owned(), number: Some((value, "")) }
    }

    /// A whole number with separators.
    pub fn count(value: u64) -> Self {
        Self::number(&count(value), value as f64)
    }

    pub fn time(value: u64) -> Self {
        Self::number(&time_of(value), value as f64).in_unit("ns")
    }

    /// A mean time in nanoseconds.
    pub(crate) fn mean_time(value: f64) -> Self {
        Self::number(&time_ns(value), value).in_unit("ns")
    }

    /// A share in percent.
    pub fn percent(value: f64) -> Self {
        Self::number(&percent(value), value).in_unit("%")
    }

    /// A size in octets.
    pub fn octets(value: Option<u64>) -> Self {
        Self::maybe(value.map(|size| size as f64), |size| octets(size as u64)).in_unit("octets")
    }

    /// A number that may be unknown, written by `format`.
    pub fn maybe(value: Option<f64>, format: impl Fn(f64) -> String) -> Self {
        match value {
            Some(value) => Self::number(&format(value), value),
            None => Self::number(NONE, f64::NAN),
        }
    }

    /// Anything, with what it says and what it sorts by.
    pub fn markup(shown: Markup, text: &str, key: &str) -> Self {
        Self { shown, key: Some(key.to_owned()), text: text.to_owned(), number: None }
    }

    /// The unit of its number, where the head of the column does not name it.
    #[must_use]
    pub(crate) fn in_unit(self, unit: &'static str) -> Self {
        Self { number: self.number.map(|(value, _)| (value, unit)), ..self }
    }
}

/// A table with a caption; the first cell of a row heads it.
pub struct Table {
    /// The name of its files; none if it has no files.
    name: &'static str,
    caption: String,
    columns: Vec<(String, bool)>,
    rows: Vec<Vec<Cell>>,
}

pub fn table(caption: &str, columns: &[Column<'_>], rows: Vec<Vec<Cell>>) -> Table {
    let columns = columns.iter().map(|Column(title, number)| ((*title).to_owned(), *number)).collect();
    Table { name: "", caption: caption.to_owned(), columns, rows }
}

impl Table {
    /// It also becomes files of this name.
    #[must_use]
    pub fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }
}

/// On a page it sorts by a click on its heads, and scrolls sideways where it is too wide.
impl Render for Table {
    fn render(&self) -> Markup {
        let Self { caption, columns, rows, .. } = self;
        html! {
            div.scroll tabindex="0" role="region" aria-label=(caption) {
                table.sort {
                    caption { (caption) }
                    thead { tr { @for (title, number) in columns { th.n[*number] scope="col" { (title) } } } }
                    tbody {
                        @for row in rows.iter().take(ROWS) {
                            tr {
                                @for (index, (cell, (_, number))) in row.iter().zip(columns).enumerate() {
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
}
