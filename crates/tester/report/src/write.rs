//! Writes all rendered files into the result directory.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use record::Results;

use super::html::tables as tables_of;
use super::table::{caption, table_files};
use super::{html, svg_figures, trials_csv};

/// Writes `report.html`, `trials.csv`, `figures/*.svg` and `tables/*` into a result directory. Each file
/// appears whole or not at all; `results.json` is not touched.
///
/// # Errors
/// If a file cannot be written; the message names it.
pub fn write_all(results: &Results, dir: &Path) -> io::Result<()> {
    replace(dir, "trials.csv", &trials_csv(results))?;
    write_group(&dir.join("figures"), &svg_figures(results))?;
    write_group(&dir.join("tables"), &tables(results))?;
    replace(dir, "report.html", &html(results))
}

/// A file name and what is in it, for each table that the record can fill, in each of the three forms.
pub fn tables(results: &Results) -> Vec<(String, String)> {
    table_files(&tables_of(results), |what| caption(results, what))
}

/// Writes files into a directory that is made if there are any.
pub(super) fn write_group(dir: &Path, files: &[(String, String)]) -> io::Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(dir).map_err(|error| named(dir, &error))?;
    files.iter().try_for_each(|(name, text)| replace(dir, name, text))
}

/// Writes beside the file and renames, so that a reader never sees half of it.
pub(super) fn replace(dir: &Path, name: &str, text: &str) -> io::Result<()> {
    let path = dir.join(name);
    let write = || {
        let mut file = tempfile::Builder::new().prefix(".").suffix(".new").tempfile_in(dir)?;
        file.write_all(text.as_bytes())?;
        make_readable(file.as_file())?;
        file.persist(&path).map_err(|error| error.error)
    };
    write().map(drop).map_err(|error| named(&path, &error))
}

/// Temporary files are private; a report is for everybody who may read the directory.
fn make_readable(file: &fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: cannot be written: {error}", path.display()))
}
