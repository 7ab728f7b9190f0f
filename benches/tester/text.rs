//! What the benchmarks in a lab share: the origin of what they measure, their records, and the block of a
//! document that is rendered from a record.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use figures::{Origin, fill, json_text};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Today, this revision, this machine.
pub fn origin() -> Origin {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    Origin {
        date: now.chars().take_while(|letter| *letter != 'T').collect(),
        commit: commit(),
        machine: machine(),
        note: String::new(),
    }
}

/// The revision, with "-dirty" if a file differs from it that a benchmark does not write itself.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output();
        output.map_or_else(
            |_| String::new(),
            |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        )
    };
    let revision = git(&["rev-parse", "--short", "HEAD"]);
    let changed = git(&["diff", "--name-only", "HEAD", "--", ":/", ":(top,exclude)docs/performance"]);
    if changed.is_empty() { revision } else { format!("{revision}-dirty") }
}

/// Processors and kernel.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let processor = read("/proc/cpuinfo");
    let model = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let processors = processor.lines().filter(|line| line.starts_with("processor")).count();
    let model = model.map_or("unknown processor", |(_, model)| model);
    let kernel = read("/proc/sys/kernel/osrelease");
    // Without the name of a build.
    let version = kernel.split(|c: char| c != '.' && !c.is_ascii_digit()).next().unwrap_or_default();
    format!("{processors} x {model}, Linux {version}")
}

/// Writes a record beside a document, as `NAME.json` beside `NAME.md`, and its block into the document;
/// without a document it prints the block.
///
/// # Errors
/// The document is not there or has no block, or a file cannot be written.
pub fn write<R: Serialize>(out: Option<&str>, record: &R, block: fn(&R) -> String) -> io::Result<()> {
    let Some(document) = out else {
        println!("{}", block(record));
        return Ok(());
    };
    fs::write(beside(document), json_text(record)?)?;
    renew(document, &block(record))
}

/// Renders the record beside a document into the document, without a measurement.
///
/// # Errors
/// No document is given, it or its record is not there, or it has no block.
pub fn render<R: DeserializeOwned>(out: Option<&str>, block: fn(&R) -> String) -> io::Result<()> {
    let document = out.ok_or_else(|| io::Error::other("--render needs --out FILE"))?;
    renew(document, &block(&read(document)?))
}

/// The record beside a document.
///
/// # Errors
/// It is not there, or not a record.
pub fn read<R: DeserializeOwned>(document: &str) -> io::Result<R> {
    Ok(serde_json::from_str(&fs::read_to_string(beside(document))?)?)
}

fn beside(document: &str) -> std::path::PathBuf {
    Path::new(document).with_extension("json")
}

fn renew(document: &str, block: &str) -> io::Result<()> {
    let filled = fill(&fs::read_to_string(document)?, block);
    fs::write(document, filled.map_err(|error| io::Error::other(format!("{document}: {error}")))?)
}
