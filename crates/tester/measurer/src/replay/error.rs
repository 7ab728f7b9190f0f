//! Why nothing can be replayed.

use std::fmt;
use std::io;
use std::path::PathBuf;

use capture::compact::ReadError;
use capture::{ConvertError, Stopped};

use super::WHOLE_OCTETS_MAX;
use crate::workload_file::FileError;

/// Why nothing can be replayed. Each is one line that names the file.
#[derive(Debug)]
pub enum ReplayError {
    /// It cannot be opened or read.
    Io(PathBuf, io::Error),
    /// A pcap or pcapng file without a query that can be asked.
    Capture(PathBuf, ConvertError),
    /// A capture that cannot be read to its end, where that is asked for.
    Stopped(PathBuf, Stopped),
    /// More queries than fit into memory.
    TooLong(PathBuf),
    /// A converted file that cannot be read.
    Converted(PathBuf, ReadError),
    /// A query of a converted file, counted from 1, that cannot be sent.
    Unaskable(PathBuf, u64, String),
    /// No query is due before the end.
    Empty(PathBuf),
    /// Its size or time of change is another than when it was opened.
    Changed(FileError),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "cannot read queries from {}: {error}", path.display()),
            Self::Capture(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Stopped(path, stopped) => write!(
                f,
                "{}: {stopped} (without --strict-input the queries before are asked)",
                path.display()
            ),
            Self::TooLong(path) => write!(
                f,
                "{path} holds more than {} MiB of queries: convert it with 'sextant convert {path} FILE' and replay FILE",
                WHOLE_OCTETS_MAX >> 20,
                path = path.display(),
            ),
            Self::Converted(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Unaskable(path, number, reason) => {
                write!(f, "{}: query {number}: {reason}", path.display())
            }
            Self::Empty(path) => {
                write!(f, "{}: no query is due within the trial", path.display())
            }
            Self::Changed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReplayError {}
