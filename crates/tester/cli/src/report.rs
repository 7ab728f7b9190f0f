//! `sextant report`: render a result again.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;

use crate::import::{ImportError, import};
use campaign::Store;
use record::campaign::FILE as CAMPAIGN_FILE;
use report::LoadError;
use report::index::Entry;
use report::series::SeriesError;

/// Render the report of a result directory again.
///
/// Writes report.html, trials.csv, figures/*.svg and tables/* into the directory and prints the summary; of a
/// campaign report.html, report.md, figures and tables; of several results one page with all of them.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  sextant report results/2025-07-31T14-02-11Z-dns64d --open\n  \
    sextant report results/* --index results/index.html\n      a page with all results, to sort, to filter, and over time\n  \
    sextant report dns64perf.csv\n      what dns64perf++ or a tool with DNS-OARC's schema (kxdpgun) measured, as a report\n  \
    sextant compare A B says which of two is better")]
pub struct Args {
    /// A result directory, which holds results.json, or the directory of a campaign. Several directories give
    /// an index of all. Also a file of another tool: dns64perf++'s list of queries, or JSON lines in
    /// DNS-OARC's schema (dns-metrics)
    #[arg(value_name = "DIR", required = true)]
    pub dirs: Vec<PathBuf>,

    /// Write the page of several results here [default: index.html beside the first]
    #[arg(long, value_name = "FILE")]
    pub index: Option<PathBuf>,

    /// Directory for the report of another tool's file [default: the file's name with .report]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Draw the figures as PNG too (by rsvg-convert, Debian's librsvg2-bin)
    #[arg(long)]
    pub png: bool,

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
    /// The file of another tool cannot be taken over.
    Import(ImportError),
    /// The directory holds no record of a campaign either.
    Campaign(SeriesError),
    /// A file or the terminal cannot be written.
    Write(io::Error),
    /// Of several directories none holds a result.
    Nothing(LoadError),
    /// `--json` prints one record.
    OneRecord,
    /// The figures cannot be drawn.
    Png(io::Error),
    /// No browser could be started for this file.
    Open(PathBuf, io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(error) => error.fmt(f),
            Self::Import(error) => error.fmt(f),
            Self::Campaign(error) => error.fmt(f),
            Self::Write(error) | Self::Png(error) => error.fmt(f),
            Self::Nothing(last) => write!(f, "none of these directories holds a result; the last: {last}"),
            Self::OneRecord => f.write_str("--json prints the record of one directory: give one"),
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
    let page = render(args, &mut io::stdout().lock())?;
    if let (true, Some(dir)) = (args.png, page.parent()) {
        report::png_figures(dir).map_err(Error::Png)?;
    }
    if args.open { open(&page) } else { Ok(()) }
}

/// All of [`run`] but the browser, and the page to show; what is printed goes to `out`.
///
/// # Errors
/// As [`run`].
pub fn render(args: &Args, out: &mut impl Write) -> Result<PathBuf, Error> {
    match args.dirs.as_slice() {
        [file] if args.index.is_none() && file.is_file() => take_over(args, file, out),
        [dir] if args.index.is_none() => {
            render_one(args, dir, out)?;
            Ok(dir.join("report.html"))
        }
        _ if args.json => Err(Error::OneRecord),
        dirs => render_index(args, dirs, out),
    }
}

fn render_one(args: &Args, dir: &Path, out: &mut impl Write) -> Result<(), Error> {
    if dir.join(CAMPAIGN_FILE).exists() {
        return render_campaign(args, dir, out);
    }
    let results = report::load(dir).map_err(Error::Load)?;
    report::write_all(&results, dir).map_err(Error::Write)?;
    printed((args, dir), &results, || report::text(&results), out)
}

/// Makes a result directory of another tool's file, and its report.
fn take_over(args: &Args, file: &Path, out: &mut impl Write) -> Result<PathBuf, Error> {
    let results = import(file).map_err(Error::Import)?;
    let dir = args.out.clone().unwrap_or_else(|| file.with_extension("report"));
    std::fs::create_dir_all(&dir).map_err(Error::Write)?;
    Store::at(&dir).save(&results).map_err(Error::Write)?;
    report::write_all(&results, &dir).map_err(Error::Write)?;
    printed((args, &dir), &results, || report::text(&results), out)?;
    Ok(dir.join("report.html"))
}

fn render_campaign(args: &Args, dir: &Path, out: &mut impl Write) -> Result<(), Error> {
    let campaign = report::series::load(dir).map_err(Error::Campaign)?;
    let table = report::series::table(&campaign, dir);
    report::series::write_all(&campaign, &table, dir).map_err(Error::Write)?;
    printed((args, dir), &table, || report::series::text(&campaign, &table), out)
}

/// One page for all that can be read; the others are told and left out.
fn render_index(args: &Args, dirs: &[PathBuf], out: &mut impl Write) -> Result<PathBuf, Error> {
    let beside = || dirs.first().and_then(|dir| dir.parent()).unwrap_or(Path::new("")).join("index.html");
    let page = args.index.clone().unwrap_or_else(beside);
    let base = page.parent().unwrap_or(Path::new(""));
    let (mut entries, mut last) = (Vec::new(), None);
    for dir in dirs {
        match report::load(dir) {
            Ok(results) => {
                let directory = dir.strip_prefix(base).unwrap_or(dir).display().to_string();
                entries.push(Entry { directory, results });
            }
            Err(error) => {
                // Without standard error there is nobody to tell.
                let _ = writeln!(io::stderr(), "sextant: left out: {error}");
                last = Some(error);
            }
        }
    }
    if let (true, Some(error)) = (entries.is_empty(), last) {
        return Err(Error::Nothing(error));
    }
    let count = entries.len();
    std::fs::write(&page, report::index::html(entries)).map_err(Error::Write)?;
    let words = format!("{} of {} results: {}\n", count, dirs.len(), page.display());
    unless_closed(out.write_all(words.as_bytes()))?;
    Ok(page)
}

/// Prints the record, or what a person reads.
fn printed(
    (args, dir): (&Args, &Path),
    record: &impl Serialize,
    text: impl FnOnce() -> String,
    out: &mut impl Write,
) -> Result<(), Error> {
    let printed = if args.json {
        serde_json::to_writer_pretty(&mut *out, record).map_err(io::Error::from).and_then(|()| writeln!(out))
    } else {
        write!(out, "{}\nReport: {}\n", text(), dir.join("report.html").display())
    };
    unless_closed(printed)
}

/// A reader such as `head` may have had enough.
fn unless_closed(written: io::Result<()>) -> Result<(), Error> {
    match written {
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
