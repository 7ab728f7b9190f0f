//! Queries from a file or from standard input.
//!
//! A file that fits into [`WHOLE_OCTETS_MAX`] of memory is read before the first trial, shuffled as a whole
//! on request, and starts over after its last query. A larger file is read by a thread of its own while the
//! trial runs, over and over, and shuffled within windows of [`SHUFFLE_QUERIES`]. Standard input and pipes
//! must fit into memory, because they cannot be read again.

mod line;
mod read;
mod stream;

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use engine::workload::{Arena, Recording, shuffled};

use read::Queries;
pub use read::{Format, Malformed};
use stream::FileFeeds;

/// Queries up to so many octets are kept in memory.
pub const WHOLE_OCTETS_MAX: usize = 256 << 20;
/// Queries of a larger file change places within so many.
pub const SHUFFLE_QUERIES: usize = 1 << 16;

/// Which queries to read, and how.
#[derive(Clone, Debug)]
pub struct Source {
    /// A path, or `-` for standard input.
    pub path: PathBuf,
    /// The format of the file.
    pub format: Format,
    /// In a random order of this seed.
    pub shuffle: Option<u64>,
    /// A malformed query is an error; else it is left out and counted.
    pub strict: bool,
}

/// Queries that were read, or will be.
#[derive(Debug)]
pub struct Loaded {
    /// For the workload.
    pub recording: Recording,
    /// How many lines or messages were left out so far.
    pub skipped: u64,
    /// The first of them.
    pub first_skipped: Option<Malformed>,
    /// When each was asked, in ns, where the file says so; else empty.
    pub times_ns: Vec<u64>,
}

/// Why there are no queries. Each is one line that names the file.
#[derive(Debug)]
pub enum FileError {
    /// It cannot be opened or read.
    Io(PathBuf, io::Error),
    /// A malformed query, where none is borne.
    Malformed(PathBuf, Malformed),
    /// Not one query.
    Empty(PathBuf, Option<Malformed>),
    /// Its size or time of change is another than when it was opened.
    Changed(PathBuf),
    /// More than fits into memory came from standard input or a pipe.
    TooLong(PathBuf),
    /// More than fits into memory, with times.
    TooLongToReplay(PathBuf),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "cannot read queries from {}: {error}", path.display()),
            Self::Malformed(path, what) => {
                write!(f, "{}: {what} (without --strict-input it is left out)", path.display())
            }
            Self::Empty(path, None) => write!(f, "{} holds no query", path.display()),
            Self::Empty(path, Some(what)) => write!(f, "{} holds no query; {what}", path.display()),
            Self::Changed(path) => {
                write!(
                    f,
                    "{} changed while it was read: measure with a copy that stays as it is",
                    path.display()
                )
            }
            Self::TooLongToReplay(path) => write!(
                f,
                "{} holds more than {} MiB of queries with their times: replay a shorter part of it",
                path.display(),
                WHOLE_OCTETS_MAX >> 20
            ),
            Self::TooLong(path) => write!(
                f,
                "more than {} MiB of queries came from {}, which cannot be read again: write them to a file, which is read while it is used",
                WHOLE_OCTETS_MAX >> 20,
                if path == Path::new("-") { "standard input".into() } else { path.to_string_lossy() }
            ),
        }
    }
}

impl std::error::Error for FileError {}

/// Reads the queries, or as much of a large file as shows that it is one.
///
/// # Errors
/// [`FileError`].
pub fn load(source: &Source) -> Result<Loaded, FileError> {
    load_up_to(source, WHOLE_OCTETS_MAX)
}

fn load_up_to(source: &Source, whole_octets_max: usize) -> Result<Loaded, FileError> {
    let cannot_read = |error| FileError::Io(source.path.clone(), error);
    let from_stdin = source.path == Path::new("-");
    let before = if from_stdin { None } else { Version::of_file(&source.path).map_err(cannot_read)? };
    let input: Box<dyn BufRead> = if from_stdin {
        Box::new(BufReader::with_capacity(READ_OCTETS, io::stdin()))
    } else {
        Box::new(BufReader::with_capacity(READ_OCTETS, File::open(&source.path).map_err(cannot_read)?))
    };
    let mut queries = Queries::new(input, source.format);
    let (mut arena, mut skipped, mut first_skipped) = (Arena::default(), 0, None);
    let mut times_ns = Vec::new();
    while let Some(query) = queries.next().map_err(cannot_read)? {
        match query {
            Ok(query) => {
                arena.push(&query);
                if source.format == Format::Timed {
                    times_ns.push(queries.time_ns());
                }
            }
            Err(what) if source.strict => return Err(FileError::Malformed(source.path.clone(), what)),
            Err(what) => {
                skipped += 1;
                first_skipped.get_or_insert(what);
            }
        }
        if arena.octets() > whole_octets_max {
            if source.format == Format::Timed {
                return Err(FileError::TooLongToReplay(source.path.clone()));
            }
            let Some(version) = before else { return Err(FileError::TooLong(source.path.clone())) };
            let recording = Recording::Stream(Arc::new(FileFeeds::new(source.clone(), version)));
            return Ok(Loaded { recording, skipped, first_skipped, times_ns });
        }
    }
    if let Some(version) = before {
        version.check(&source.path)?;
    }
    if arena.is_empty() {
        return Err(FileError::Empty(source.path.clone(), first_skipped));
    }
    let order = source.shuffle.map(|seed| Arc::new(shuffled(arena.len(), seed)));
    let recording = Recording::Whole { arena: Arc::new(arena), order };
    Ok(Loaded { recording, skipped, first_skipped, times_ns })
}

/// Octets that are read from the file at once.
const READ_OCTETS: usize = 1 << 18;

/// What tells that a file is the same as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    octets: u64,
    changed: Option<SystemTime>,
}

impl Version {
    /// That of a file; `None` of a pipe and the like, which can be read once and change while they are.
    pub(crate) fn of_file(path: &Path) -> io::Result<Option<Self>> {
        let what = std::fs::metadata(path)?.file_type();
        if what.is_file() || what.is_dir() { Self::of(path).map(Some) } else { Ok(None) }
    }

    fn of(path: &Path) -> io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(Self { octets: metadata.len(), changed: metadata.modified().ok() })
    }

    pub(crate) fn check(&self, path: &Path) -> Result<(), FileError> {
        let now = Self::of(path).map_err(|error| FileError::Io(path.to_path_buf(), error))?;
        if now == *self { Ok(()) } else { Err(FileError::Changed(path.to_path_buf())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::{Duration, Instant};

    fn file(text: &str) -> (tempfile::NamedTempFile, Source) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let source =
            Source { path: file.path().to_path_buf(), format: Format::Text, shuffle: None, strict: false };
        (file, source)
    }

    #[test]
    fn malformed_lines_are_left_out_or_fatal() {
        let (_file, source) = file("a A\nb\nc AAAA\nd BOGUS\n");
        let loaded = load(&source).unwrap();
        assert_eq!((loaded.skipped, loaded.first_skipped.unwrap().place), (2, "line 2".to_owned()));
        let Recording::Whole { arena, order } = loaded.recording else { panic!("a short file") };
        assert_eq!((arena.len(), order), (2, None));
        let error = load(&Source { strict: true, ..source }).unwrap_err().to_string();
        assert!(error.contains("line 2: a name without a query type"), "{error}");
        let (_file, nothing) = file("; only\n\n");
        assert!(load(&nothing).unwrap_err().to_string().ends_with("holds no query"));
        let missing = Source { path: "/nonexistent/queries".into(), ..nothing };
        assert!(load(&missing).unwrap_err().to_string().contains("cannot read queries from /nonexistent"));
    }

    #[test]
    fn times_are_read_with_their_queries() {
        let text = "# seconds\n10.5 a A\n10.500000001 b 28\n\n10.4 c A\nsoon d A\n12 e TXT\n13\n";
        let (_file, source) = file(text);
        let source = Source { format: Format::Timed, ..source };
        let loaded = load(&source).unwrap();
        assert_eq!(loaded.times_ns, [10_500_000_000, 10_500_000_001, 12_000_000_000]);
        assert_eq!(
            (loaded.skipped, loaded.first_skipped.unwrap().to_string()),
            (3, "line 5: its time is before that of an earlier line".to_owned())
        );
        let Recording::Whole { arena, .. } = loaded.recording else { panic!("a short file") };
        assert_eq!(arena.len(), 3);
        assert!(load_up_to(&source, 1).unwrap_err().to_string().contains("replay a shorter part"));
        let (_file, text) = file("a A\n");
        assert!(
            load(&Source { format: Format::Timed, ..text })
                .unwrap_err()
                .to_string()
                .contains("no time in seconds")
        );
    }

    /// Takes queries from a stream, waiting for its thread.
    fn take(recording: &Recording, queries: usize) -> (Vec<Vec<u8>>, Option<String>) {
        let Recording::Stream(feeds) = recording else { panic!("a long file") };
        let mut lanes = [feeds.open(0, 2), feeds.open(1, 2)];
        let (mut taken, started) = (Vec::new(), Instant::now());
        while taken.len() < queries && started.elapsed() < Duration::from_secs(30) {
            for lane in &mut lanes {
                if lane.ready() > 0 {
                    taken.push(lane.next().unwrap().to_vec());
                } else if let Some(why) = lane.ended() {
                    return (taken, Some(why));
                }
            }
        }
        (taken, None)
    }

    #[test]
    fn a_large_file_is_read_while_it_is_used() {
        let text: String = (0..5000).map(|n| format!("n{n}.test A\n")).collect();
        let (mut file, source) = file(&text);
        for shuffle in [None, Some(1)] {
            let loaded = load_up_to(&Source { shuffle, ..source.clone() }, 1000).unwrap();
            // More than a window of those that change places.
            let (taken, why) = take(&loaded.recording, SHUFFLE_QUERIES + 10_000);
            assert_eq!(why, None);
            let distinct: std::collections::HashSet<_> = taken.iter().collect();
            assert_eq!(distinct.len(), 5000, "all of them, again and again");
        }
        let loaded = load_up_to(&source, 1000).unwrap();
        file.write_all(b"one.more A\n").unwrap();
        let (_, why) = take(&loaded.recording, 1_000_000);
        assert!(why.unwrap().contains("changed while it was read"));
    }
}
