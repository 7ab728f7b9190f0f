//! The figures of a result as PNG, drawn by librsvg's program.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PROGRAM: &str = "rsvg-convert";
/// Pixels for each pixel of the drawing: sharp on slides and in print.
const ZOOM: &str = "3";

/// Draws each `figures/*.svg` of a result directory beside itself; how many there were.
///
/// # Errors
/// The program is missing, or a file cannot be read or written; one line.
pub fn png_figures(dir: &Path) -> io::Result<usize> {
    let figures = dir.join("figures");
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", figures.display()));
    if !figures.exists() {
        // A record in which no chart has data yet.
        return Ok(0);
    }
    let mut drawn = 0;
    for entry in fs::read_dir(&figures).map_err(named)? {
        let svg = entry.map_err(named)?.path();
        if svg.extension().is_some_and(|extension| extension == "svg") {
            draw(&svg, &svg.with_extension("png"))?;
            drawn += 1;
        }
    }
    Ok(drawn)
}

fn draw(svg: &Path, png: &PathBuf) -> io::Result<()> {
    let mut command = Command::new(PROGRAM);
    command.args(["--zoom", ZOOM, "--output"]).arg(png).arg(svg).stdin(Stdio::null());
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::new(
            error.kind(),
            format!("--png needs {PROGRAM}; install it with: apt-get install librsvg2-bin"),
        ),
        kind => io::Error::new(kind, format!("{PROGRAM}: {error}")),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = super::one_line(said.lines().next().unwrap_or("it failed without a message"));
    Err(io::Error::other(format!("{PROGRAM} cannot draw {}: {said}", svg.display())))
}
