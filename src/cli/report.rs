//! `sextant report`: render a result again.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;

use crate::campaign::series::{self, Series, SeriesError};
use crate::report::{self, LoadError};

/// Render the report of a result directory again.
///
/// Writes report.html, trials.csv, figures/*.svg and tables/*.tex into the directory and prints the summary; of a campaign
/// report.html and report.md.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:\n  sextant report results/2025-07-31T14-02-11Z-dns64d --open")]
pub struct Args {
    /// The result directory, which holds results.json, or that of a campaign
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,

    /// Show the report in the browser
    #[arg(long)]
    pub open: bool,

    /// Print the record as JSON instead of the summary
    #[arg(long)]
    pub json: bool,
}

/// Why a report could not be rendered.
#[derive(Debug)]
pub enum Error {
    /// The record cannot be read.
    Load(LoadError),
    /// Nor that of a campaign.
    Campaign(SeriesError),
    /// A file or the terminal cannot be written.
    Write(io::Error),
    /// No browser could be started for this file.
    Open(PathBuf, io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(error) => error.fmt(f),
            Self::Campaign(error) => error.fmt(f),
            Self::Write(error) => error.fmt(f),
            Self::Open(page, error) => {
                write!(f, "cannot start xdg-open: {error}; open {} in a browser yourself", page.display())
            }
        }
    }
}

impl std::error::Error for Error {}

/// Renders the report and prints its summary, or with `--json` the record, to standard output.
///
/// # Errors
/// If the record cannot be read, a file cannot be written, or no browser can be started.
pub fn run(args: &Args) -> Result<(), Error> {
    render(args, &mut io::stdout().lock())?;
    if args.open { open(&args.dir.join("report.html")) } else { Ok(()) }
}

/// All of [`run`] but the browser; what is printed goes to `out`.
///
/// # Errors
/// As [`run`].
pub fn render(args: &Args, out: &mut impl Write) -> Result<(), Error> {
    if args.dir.join(series::FILE).exists() {
        return render_campaign(args, out);
    }
    let results = report::load(&args.dir).map_err(Error::Load)?;
    report::write_all(&results, &args.dir).map_err(Error::Write)?;
    printed(args, &results, || report::text(&results), out)
}

/// The same for a campaign.
fn render_campaign(args: &Args, out: &mut impl Write) -> Result<(), Error> {
    let campaign = Series::load(&args.dir).map_err(Error::Campaign)?;
    let table = report::series::table(&campaign, &args.dir);
    report::series::write_all(&campaign, &table, &args.dir).map_err(Error::Write)?;
    printed(args, &table, || report::series::text(&campaign, &table), out)
}

/// Prints the record, or what a person reads.
fn printed(
    args: &Args,
    record: &impl Serialize,
    text: impl FnOnce() -> String,
    out: &mut impl Write,
) -> Result<(), Error> {
    let printed = if args.json {
        serde_json::to_writer_pretty(&mut *out, record).map_err(io::Error::from).and_then(|()| writeln!(out))
    } else {
        write!(out, "{}\nReport: {}\n", text(), args.dir.join("report.html").display())
    };
    match printed {
        // A reader such as `head` may have had enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(Error::Write),
    }
}

fn open(page: &Path) -> Result<(), Error> {
    let failed = |error| Error::Open(page.to_owned(), error);
    let page = page.canonicalize().map_err(failed)?;
    let quiet = Command::new("xdg-open")
        .arg(&page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match quiet {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(io::Error::other(status.to_string()))),
        Err(error) => Err(failed(error)),
    }
}
