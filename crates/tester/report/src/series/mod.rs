//! Campaigns: their cells beside each other, and beside published figures.

mod chart;
mod load;
mod page;
mod rows;
mod scaleup;
mod text;
mod visited;

use std::io;
use std::path::Path;

pub use load::{SeriesError, load};
pub use rows::{Row, Table, table};
pub use text::{markdown, text};
pub use visited::VisitRecord;

use super::clean::printable;
use super::table::table_files;
use super::words::instant;
use super::write::{replace, write_group};
use record::campaign::Series;

/// Writes `report.html`, `report.md`, `figures/*.svg` and `tables/*` of a campaign into its directory.
///
/// # Errors
/// They cannot be written.
pub fn write_all(series: &Series, table: &Table, directory: &Path) -> io::Result<()> {
    write_group(&directory.join("figures"), &page::figures(table))?;
    let caption = |what: &str| {
        let (form, machine) = (series.form.name(), &series.machine);
        format!(
            "{}: {what}. {form} form, on {machine}, begun {}.",
            series.title,
            instant(&series.started_utc)
        )
    };
    write_group(&directory.join("tables"), &table_files(&page::tables(series, table), caption))?;
    replace(directory, "report.html", &printable(page::html(series, table)))?;
    replace(directory, "report.md", &markdown(series, table))
}
