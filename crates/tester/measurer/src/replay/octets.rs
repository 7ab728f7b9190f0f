//! Where the octets of a recording lie: in memory, or in a file that was converted.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use capture::compact::{ReadError, Reader, is_compact};
use capture::{ConvertError, DNS_PORT, Stopped, convert, is_capture};

use super::{AnyReader, ReplayError, Source};
use crate::workload_file::Version;

/// A capture that is not converted may have so many octets of queries.
pub const WHOLE_OCTETS_MAX: usize = 256 << 20;
/// What tells the format of a file.
const FIRST_OCTETS: u64 = 16;

/// Whether the file is a capture, or what was converted from one; not of standard input.
///
/// # Errors
/// It cannot be opened or read.
pub fn is_recording(path: &Path) -> io::Result<bool> {
    let metadata = std::fs::metadata(path)?;
    // A pipe can be read once.
    if !metadata.is_file() {
        return Ok(false);
    }
    let first = first_octets(path)?;
    Ok(is_capture(&first) || is_compact(&first))
}

fn first_octets(path: &Path) -> io::Result<Vec<u8>> {
    let mut first = Vec::new();
    File::open(path)?.take(FIRST_OCTETS).read_to_end(&mut first)?;
    Ok(first)
}

/// A recording as a compact file.
#[derive(Clone, Debug)]
pub(super) enum Octets {
    Memory(PathBuf, Arc<[u8]>),
    File(PathBuf, Version),
}

impl Octets {
    /// Opens a recording; one that is not converted yet is, and why this ended early if it did.
    pub fn open(source: &Source) -> Result<(Self, Option<Stopped>), ReplayError> {
        let path = &source.path;
        let cannot_read = |error| ReplayError::Io(path.clone(), error);
        if path == Path::new("-") {
            return Self::converted(source, io::stdin());
        }
        let version = Version::of_file(path).map_err(cannot_read)?;
        match version {
            Some(version) if is_compact(&first_octets(path).map_err(cannot_read)?) => {
                Ok((Self::File(path.clone(), version), None))
            }
            _ => Self::converted(source, File::open(path).map_err(cannot_read)?),
        }
    }

    fn converted(source: &Source, input: impl Read + Send) -> Result<(Self, Option<Stopped>), ReplayError> {
        let path = &source.path;
        let converted = convert(input, Bounded::default(), DNS_PORT).map_err(|error| match error {
            ConvertError::Output(_) => ReplayError::TooLong(path.clone()),
            error => ReplayError::Capture(path.clone(), error),
        })?;
        match converted.stopped {
            Some(stopped) if source.strict => Err(ReplayError::Stopped(path.clone(), stopped)),
            stopped => {
                let octets = converted.output.0.into_inner();
                Ok((Self::Memory(path.clone(), octets.into()), stopped))
            }
        }
    }

    /// Reads it from its start.
    pub fn reader(&self) -> Result<AnyReader<'_>, ReplayError> {
        let input: Box<dyn Read + Send> = match self {
            Self::Memory(_, octets) => Box::new(&octets[..]),
            Self::File(path, _) => {
                Box::new(File::open(path).map_err(|error| ReplayError::Io(path.clone(), error))?)
            }
        };
        Reader::new(input).map_err(|error| self.explain(error))
    }

    /// Whether the file is still the one that was opened.
    pub fn check(&self) -> Result<(), ReplayError> {
        match self {
            Self::Memory(..) => Ok(()),
            Self::File(path, version) => version.check(path).map_err(ReplayError::Changed),
        }
    }

    /// Says which file an error is of.
    pub fn explain(&self, error: ReadError) -> ReplayError {
        let (Self::Memory(path, _) | Self::File(path, _)) = self;
        match error {
            ReadError::Io(error) => ReplayError::Io(path.clone(), error),
            error => ReplayError::Converted(path.clone(), error),
        }
    }
}

/// Memory that does not grow beyond [`WHOLE_OCTETS_MAX`].
#[derive(Default)]
struct Bounded(Cursor<Vec<u8>>);

impl Write for Bounded {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if self.0.get_ref().len() + octets.len() > WHOLE_OCTETS_MAX {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.0.write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Bounded {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}
