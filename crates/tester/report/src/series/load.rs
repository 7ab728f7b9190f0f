//! Reading the record of a campaign.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use record::campaign::{FILE, SCHEMA, Series};
use serde::Deserialize;

/// Why a campaign's record could not be read.
#[derive(Debug)]
pub enum SeriesError {
    /// The directory holds no record of a campaign.
    Absent(PathBuf),
    /// It cannot be read.
    Io(PathBuf, io::Error),
    /// It is half written, or no record of a campaign.
    Broken(PathBuf, String),
    /// A later Sextant wrote it.
    Newer(PathBuf, u64),
}

impl fmt::Display for SeriesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(directory) => {
                write!(f, "{}: holds no {FILE}; give the directory of a campaign", directory.display())
            }
            Self::Io(path, error) => write!(f, "{}: cannot be read: {error}", path.display()),
            Self::Broken(path, reason) => {
                write!(
                    f,
                    "{}: not a record of a campaign: {reason}; the visits in cells/ are whole",
                    path.display()
                )
            }
            Self::Newer(path, schema) => {
                write!(
                    f,
                    "{}: has schema {schema}, this program reads up to {SCHEMA}: use a later one",
                    path.display()
                )
            }
        }
    }
}

impl std::error::Error for SeriesError {}

/// What every version begins with.
#[derive(Deserialize)]
struct Head {
    schema: u64,
}

/// Reads the record of a campaign's directory.
///
/// # Errors
/// There is none, it cannot be read, is half written, or of a newer schema.
pub fn load(directory: &Path) -> Result<Series, SeriesError> {
    let path = directory.join(FILE);
    let octets = match fs::read(&path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Err(SeriesError::Absent(directory.to_owned()));
        }
        other => other.map_err(|error| SeriesError::Io(path.clone(), error))?,
    };
    let broken = |error: serde_json::Error| SeriesError::Broken(path.clone(), error.to_string());
    let head: Head = serde_json::from_slice(&octets).map_err(broken)?;
    if head.schema > SCHEMA.into() {
        return Err(SeriesError::Newer(path, head.schema));
    }
    serde_json::from_slice(&octets).map_err(broken)
}

#[cfg(test)]
mod tests {
    use record::campaign::{Visit, VisitState};

    use super::*;

    #[test]
    fn a_record_is_read_back_and_others_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let error = || load(directory.path()).unwrap_err().to_string();
        assert!(error().contains("holds no campaign.json"));
        let visit = Visit {
            cell: "a".into(),
            settings: Vec::new(),
            round: 1,
            arguments: Vec::new(),
            forecast_s: 1.0,
            state: VisitState::Missing("no such program".into()),
            directory: None,
            took_s: None,
        };
        let whole = Series { schema: SCHEMA, visits: vec![visit], ..Series::default() };
        let text = serde_json::to_string(&whole).unwrap();
        let write = |text: &str| fs::write(directory.path().join(FILE), text).unwrap();
        write(&text);
        assert_eq!(load(directory.path()).unwrap(), whole);
        write(&text[..text.len() / 2]);
        assert!(error().contains("not a record of a campaign: EOF"), "{}", error());
        write(&text.replace("\"schema\":1", "\"schema\":9"));
        assert!(error().contains("has schema 9"));
    }
}
