//! Reading a record back from a result directory.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use record::{Results, SCHEMA};
use serde::Deserialize;

use super::clean::one_line;

/// The record in a result directory.
pub const FILE: &str = "results.json";
/// Octets of a record that are read at most; a million trials fit.
const OCTETS_MAX: u64 = 4 << 30;

/// Why a record could not be read.
#[derive(Debug)]
pub enum LoadError {
    /// There is no such directory.
    NoDirectory(PathBuf),
    /// The directory holds no record.
    NoRecord(PathBuf),
    /// The file cannot be read.
    Io(PathBuf, io::Error),
    /// It is larger than any record.
    TooLarge(PathBuf),
    /// It ends in the middle; line and column where.
    HalfWritten(PathBuf, usize, usize),
    /// It is not a record of Sextant; the reason.
    NotARecord(PathBuf, String),
    /// A later Sextant wrote it: the schema, and the tool that wrote it.
    Newer(PathBuf, u64, Option<String>),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDirectory(dir) => {
                write!(f, "{}: no such directory; give a result directory", dir.display())
            }
            Self::NoRecord(dir) => {
                write!(f, "{}: holds no {FILE}; give the directory that `sextant bench` named", dir.display())
            }
            Self::Io(path, error) => write!(f, "{}: cannot be read: {error}", path.display()),
            Self::TooLarge(path) => {
                write!(f, "{}: larger than {OCTETS_MAX} octets: not a record", path.display())
            }
            Self::HalfWritten(path, line, column) => {
                write!(
                    f,
                    "{}: ends in the middle, at line {line} column {column}: half written or cut off",
                    path.display()
                )
            }
            Self::NotARecord(path, reason) => {
                write!(f, "{}: not a record of sextant: {reason}", path.display())
            }
            Self::Newer(path, schema, tool) => {
                let mine = concat!("sextant ", env!("CARGO_PKG_VERSION"));
                let use_this =
                    tool.as_ref().map_or("a later version".to_owned(), |tool| format!("{tool} or later"));
                let path = path.display();
                write!(f, "{path}: has schema {schema}; {mine} reads up to schema {SCHEMA}: use {use_this}")
            }
        }
    }
}

impl std::error::Error for LoadError {}

/// What every version of the schema begins with.
#[derive(Deserialize)]
struct Head {
    schema: Option<u64>,
    tool: Option<String>,
}

/// Reads the record of a result directory.
///
/// # Errors
/// If there is none, it cannot be read, is half written, of a newer schema, or no record at all.
pub fn load(dir: &Path) -> Result<Results, LoadError> {
    if !dir.is_dir() {
        return Err(LoadError::NoDirectory(dir.to_owned()));
    }
    let path = dir.join(FILE);
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(LoadError::NoRecord(dir.to_owned()));
        }
        other => other.map_err(|error| LoadError::Io(path.clone(), error))?,
    };
    let mut octets = Vec::new();
    file.take(OCTETS_MAX + 1).read_to_end(&mut octets).map_err(|error| LoadError::Io(path.clone(), error))?;
    if octets.len() as u64 > OCTETS_MAX {
        return Err(LoadError::TooLarge(path));
    }
    parse(&octets, &path)
}

fn parse(octets: &[u8], path: &Path) -> Result<Results, LoadError> {
    let broken = |error: serde_json::Error| match error.classify() {
        serde_json::error::Category::Eof => {
            LoadError::HalfWritten(path.to_owned(), error.line(), error.column())
        }
        _ => LoadError::NotARecord(path.to_owned(), one_line(&error.to_string())),
    };
    let head: Head = serde_json::from_slice(octets).map_err(broken)?;
    match head.schema {
        None => Err(LoadError::NotARecord(path.to_owned(), "it has no field `schema`".to_owned())),
        Some(schema) if schema > u64::from(SCHEMA) => {
            Err(LoadError::Newer(path.to_owned(), schema, head.tool.map(|tool| one_line(&tool))))
        }
        Some(_) => serde_json::from_slice(octets).map_err(broken),
    }
}
