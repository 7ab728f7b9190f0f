//! The result directory: written after every trial, whole at every moment.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError, Tag};
use record::{Results, Trial};
use serde::Serialize;

/// A result directory.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    /// It and what is above it, as far as that was not there before, the innermost first.
    made: Vec<PathBuf>,
}

impl Store {
    /// Makes `results/<UTC time>-<name>` below `base`, or `chosen` itself, which must be empty or absent.
    ///
    /// # Errors
    /// The directory cannot be made or written, or holds results already. The message names it.
    pub fn create(base: &Path, chosen: Option<&Path>, name: &str, started: SystemTime) -> io::Result<Self> {
        let directory = match chosen {
            Some(directory) => directory.to_path_buf(),
            None => fresh(base, name, started),
        };
        let missing = |above: &&Path| !above.as_os_str().is_empty() && !above.exists();
        let made = directory.ancestors().take_while(missing).map(Path::to_path_buf).collect();
        let store = Self { directory, made };
        fs::create_dir_all(store.directory.join("logs")).map_err(|error| store.named(&error))?;
        if ["results.json", "trial.json", "transfers.json"]
            .iter()
            .any(|name| store.directory.join(name).exists())
        {
            let message =
                format!("{} holds results already; choose another --out", store.directory.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        // A directory that cannot be written shall be known before anything is measured.
        store.write("manifest.json", b"{}").map_err(|error| store.named(&error))?;
        Ok(store)
    }

    /// A directory that holds results already, to go on with them.
    pub fn at(directory: &Path) -> Self {
        Self { directory: directory.to_path_buf(), made: Vec::new() }
    }

    /// Removes it, where nothing was measured after all. What else may be in it stays, and the directory with
    /// it.
    pub fn discard(&self) {
        // What cannot be removed harms nobody: it holds no results.
        let _ = fs::remove_file(self.directory.join("manifest.json"));
        let _ = fs::remove_dir(self.directory.join("logs"));
        for directory in &self.made {
            let _ = fs::remove_dir(directory);
        }
    }

    /// The path of the result directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes `results.json`.
    ///
    /// # Errors
    /// The disk is full or gone; what was there before stays. The message names the directory.
    pub fn save(&self, results: &Results) -> io::Result<()> {
        self.save_json("results.json", results)
    }

    /// Writes a value as JSON under a name.
    ///
    /// # Errors
    /// Likewise.
    pub fn save_json(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(value)?;
        text.push(b'\n');
        self.write(name, &text).map_err(|error| self.named(&error))
    }

    /// Writes a file whole or not at all: under another name first, on disk, then renamed.
    ///
    /// # Errors
    /// The disk is full or gone; what was there before stays.
    pub fn write(&self, name: &str, contents: &[u8]) -> io::Result<()> {
        write_whole(&self.directory, name, contents)
    }

    /// Adds the latencies of a trial to `latency.hlog`, as one interval with a tag (HDR histogram log,
    /// version 1.3).
    ///
    /// # Errors
    /// Likewise.
    pub fn append_histogram(&self, tag: &str, trial: &Trial, latency_ns: &Histogram<u64>) -> io::Result<()> {
        self.append_interval(tag, trial, latency_ns).map_err(|error| self.named(&error))
    }

    fn append_interval(&self, tag: &str, trial: &Trial, latency_ns: &Histogram<u64>) -> io::Result<()> {
        let mut file = File::options().create(true).append(true).open(self.directory.join("latency.hlog"))?;
        let mut serializer = V2DeflateSerializer::new();
        let mut log = IntervalLogWriterBuilder::new()
            .add_comment(&format!("latencies in ns of valid answers, trial started {}", trial.started_utc))
            .begin_log_with(&mut file, &mut serializer)?;
        let length = Duration::from_secs_f64(trial.duration_s.max(0.0));
        log.write_histogram(latency_ns, Duration::ZERO, length, Tag::new(tag)).map_err(|error| match error {
            IntervalLogWriterError::IoError(error) => error,
            other => io::Error::other(other.to_string()),
        })
    }

    fn named(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("cannot write results to {}: {error}", self.directory.display()))
    }
}

/// Writes a file whole or not at all: under another name first, on disk, then renamed.
pub(crate) fn write_whole(directory: &Path, name: &str, contents: &[u8]) -> io::Result<()> {
    let (path, partial) = (directory.join(name), directory.join(format!("{name}.partial")));
    let written = File::create(&partial).and_then(|mut file| {
        file.write_all(contents)?;
        file.sync_data()
    });
    if let Err(error) = written.and_then(|()| fs::rename(&partial, &path)) {
        let _ = fs::remove_file(&partial);
        return Err(error);
    }
    Ok(())
}

/// A directory name that is not taken: two runs within a second get different ones.
fn fresh(base: &Path, name: &str, started: SystemTime) -> PathBuf {
    // Colons are awkward in file names.
    let time = humantime::format_rfc3339_seconds(started).to_string().replace(':', "");
    let first = base.join(format!("{time}-{name}"));
    let mut candidates = (2..).map(|n| base.join(format!("{time}-{name}-{n}")));
    if first.exists() { candidates.find(|path| !path.exists()).unwrap_or(first) } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_in_one_second_have_two_directories() {
        let base = tempfile::tempdir().unwrap();
        let now = SystemTime::UNIX_EPOCH;
        let make = || Store::create(base.path(), None, "dns64d", now).unwrap().directory().to_path_buf();
        let (first, second) = (make(), make());
        assert!(first.ends_with("1970-01-01T000000Z-dns64d"));
        assert_ne!(first, second);
    }

    #[test]
    fn results_are_never_overwritten_by_another_run() {
        let base = tempfile::tempdir().unwrap();
        let chosen = base.path().join("mine");
        let store = Store::create(base.path(), Some(&chosen), "x", SystemTime::UNIX_EPOCH).unwrap();
        store.write("results.json", b"{}").unwrap();
        let again = Store::create(base.path(), Some(&chosen), "x", SystemTime::UNIX_EPOCH).unwrap_err();
        assert!(again.to_string().contains("holds results already"), "{again}");
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("file");
        fs::write(&file, "x").unwrap();
        let error = Store::create(base.path(), Some(&file), "x", SystemTime::UNIX_EPOCH).unwrap_err();
        assert!(error.to_string().contains("cannot write results to"), "{error}");
    }
}
