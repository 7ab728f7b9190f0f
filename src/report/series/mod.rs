//! Campaigns: their cells beside each other, and beside what others published.

mod chart;
mod page;
mod rows;
mod scaleup;
mod text;

use std::io;
use std::path::Path;

pub use rows::{Row, Table, table};
pub use text::{markdown, text};

use super::clean::printable;
use crate::campaign::series::Series;

/// Writes `report.html` and `report.md` of a campaign into its directory.
///
/// # Errors
/// They cannot be written.
pub fn write_all(series: &Series, table: &Table, directory: &Path) -> io::Result<()> {
    std::fs::write(directory.join("report.html"), printable(page::html(series, table)))?;
    std::fs::write(directory.join("report.md"), markdown(series, table))
}
