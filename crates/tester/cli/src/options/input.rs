//! Options of queries from files: `--input` and related options.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use engine::pacer::{Model, Times};
use engine::workload::{Choice, Recording};
use measurer::replay::{self, ReplayError};
use measurer::workload_file::{self, FileError, Format};
use record::{LoadModel, Replay};

use crate::failure::Failure;
use crate::{EXIT_UNFIT, EXIT_USAGE};

/// Which file, and how it is asked.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Workload")]
pub(crate) struct InputArgs {
    /// Take the queries from this file, in a loop and for each trial from the start; - is standard input. Any
    /// response is valid. A capture (pcap, pcapng, or made by sextant convert) is replayed once: each query
    /// at its time, from a socket or connections of its client
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cached_share", "qtype", "qclass", "agent"])]
    input: Option<PathBuf>,
    /// Format of --input [default: capture where the file is one, else text]
    #[arg(long, value_enum, requires = "input")]
    input_format: Option<InputFormat>,
    /// Factor by which a capture or --input-format timed is replayed faster [default: 1]
    #[arg(long, value_name = "TIMES", value_parser = speed, requires = "input")]
    speed: Option<f64>,
    /// Replay the queries of N clients of a capture, drawn by --seed [default: of all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), requires = "input")]
    clients: Option<u32>,
    /// Ask the file's queries in a random order (within 65536 of them if the file is over 256 MiB)
    #[arg(long, requires = "input")]
    pub shuffle: bool,
    /// Refuse a file that holds a malformed query, or a capture that is cut off; by default malformed queries
    /// are left out and counted, and a capture is used up to the place
    #[arg(long, requires = "input")]
    strict_input: bool,
}

/// `--input-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum InputFormat {
    /// NAME and TYPE on each line, as dnsperf reads them.
    Text,
    /// SECONDS, NAME and TYPE on each line: each query is asked at its time, counted from the first
    Timed,
    /// Whole messages, each after its length in two octets (RFC 1035 4.2.2), as dnsperf -B reads them:
    /// queries, also NOTIFY and UPDATE
    Wire,
    /// pcap, pcapng, or a file made by sextant convert: the queries to port 53 with their times and clients
    Capture,
}

/// Queries of a file, and when they are asked where the file says so.
pub(super) struct Input {
    pub choice: Choice,
    pub load: Option<Model>,
    pub replay: Option<Replay>,
}

fn speed(text: &str) -> Result<f64, String> {
    let times = text.parse().ok().filter(|times| (0.001..=1000.0).contains(times));
    times.ok_or_else(|| "must be a number from 0.001 to 1000".to_owned())
}

fn usage(message: &str) -> Failure {
    Failure::new(EXIT_USAGE, message)
}

impl InputArgs {
    /// Whether there is a file.
    pub fn is_given(&self) -> bool {
        self.input.is_some()
    }

    /// The format: where none is said, the first octets of the file decide. What cannot be read is told when
    /// its queries are.
    fn format(&self) -> InputFormat {
        let recorded =
            || self.input.as_deref().is_some_and(|path| replay::is_recording(path).unwrap_or(false));
        match self.input_format {
            Some(format) => format,
            None if recorded() => InputFormat::Capture,
            None => InputFormat::Text,
        }
    }

    /// Whether the file holds whole messages.
    pub fn has_messages(&self) -> bool {
        self.is_given() && matches!(self.format(), InputFormat::Wire | InputFormat::Capture)
    }

    /// Whether queries are asked at the times that their file has.
    pub fn replays(&self) -> bool {
        self.is_given() && matches!(self.format(), InputFormat::Timed | InputFormat::Capture)
    }

    /// Whether the file tells who asks.
    pub fn has_clients(&self) -> bool {
        self.is_given() && self.format() == InputFormat::Capture
    }

    /// Refuses what changes the times of a replay, or has none.
    pub fn check(&self, load: Model) -> Result<(), Failure> {
        let (replays, paced) = (self.replays(), load != Model::Constant);
        let has_clients = self.has_clients();
        let wrong = [
            (replays && self.shuffle, "--shuffle: a replay asks in the order of its times; leave it out"),
            (replays && paced, "--load: a replay has its own times; leave it out"),
            (!replays && self.speed.is_some(), "--speed is for captures and --input-format timed"),
            (!has_clients && self.clients.is_some(), "--clients is for captures: no other file has clients"),
        ];
        let found = wrong.into_iter().find(|(is_wrong, _)| *is_wrong);
        found.map_or(Ok(()), |(_, message)| Err(usage(message)))
    }

    /// The load as a record's settings have it, where the file has times.
    pub fn load(&self) -> Option<LoadModel> {
        self.replays().then(|| LoadModel::Replay { speed: Some(self.speed.unwrap_or(1.0)) })
    }

    /// The queries, where there is a file, for a trial of that length.
    ///
    /// # Errors
    /// A file that cannot be used.
    pub(super) fn read(&self, seed: u64, trial_ns: u64) -> Result<Option<Input>, Failure> {
        let Some(path) = self.input.clone() else { return Ok(None) };
        let format = match self.format() {
            InputFormat::Text => Format::Text,
            InputFormat::Timed => Format::Timed,
            InputFormat::Wire => Format::Wire,
            InputFormat::Capture => {
                let (speed, clients, strict) = (self.speed.unwrap_or(1.0), self.clients, self.strict_input);
                let source = replay::Source { path, speed, duration_ns: trial_ns, clients, seed, strict };
                return recorded(&source).map(Some);
            }
        };
        let shuffle = self.shuffle.then_some(seed);
        let source = workload_file::Source { path, format, shuffle, strict: self.strict_input };
        self.listed(&source).map(Some)
    }

    /// Reads a file of queries, and says which lines were left out.
    fn listed(&self, source: &workload_file::Source) -> Result<Input, Failure> {
        let loaded = workload_file::load(source).map_err(|error| {
            let code = if matches!(error, FileError::Changed(_)) { EXIT_UNFIT } else { EXIT_USAGE };
            Failure::new(code, format!("--input: {error}"))
        })?;
        if let Some(first) = &loaded.first_skipped {
            let (path, skipped) = (source.path.display(), loaded.skipped);
            // The rest of a large file is read while it is asked.
            let of = if matches!(loaded.recording, Recording::Stream(_)) {
                "of what was read so far"
            } else {
                "in all"
            };
            eprintln!("sextant: {path}: {first}; {skipped} left out {of} (--strict-input refuses them)");
        }
        let load = match source.format {
            Format::Timed => Some(self.times(&loaded.times_ns)?),
            Format::Text | Format::Wire => None,
        };
        let whole_messages = source.format == Format::Wire;
        Ok(Input {
            choice: Choice::Recorded { recording: loaded.recording, whole_messages },
            load,
            replay: None,
        })
    }

    /// The times of a file of queries at the speed of the replay.
    fn times(&self, times_ns: &[u64]) -> Result<Model, Failure> {
        let (first_ns, speed) = (times_ns.first().copied().unwrap_or(0), self.speed.unwrap_or(1.0));
        let faster = |time_ns: &u64| ((time_ns - first_ns) as f64 / speed) as u64;
        let times = Times::new(times_ns.iter().map(faster).collect());
        times.map(Model::Replay).ok_or_else(|| usage("--input: no times"))
    }

    /// What the record says of the file.
    pub fn words(&self) -> Option<String> {
        let shuffled = if self.shuffle { ", shuffled" } else { "" };
        self.input.as_deref().map(|path| format!("queries of {}{shuffled}", path.display()))
    }
}

/// Reads a capture, and says where it ended early.
fn recorded(source: &replay::Source) -> Result<Input, Failure> {
    let loaded = replay::load(source).map_err(|error| {
        let code = if matches!(error, ReplayError::Changed(_)) { EXIT_UNFIT } else { EXIT_USAGE };
        Failure::new(code, format!("--input: {error}"))
    })?;
    if let Some(stopped) = &loaded.told.stopped {
        let (path, queries) = (source.path.display(), loaded.told.recorded_queries);
        eprintln!(
            "sextant: {path}: {stopped}; the {queries} queries before are used (--strict-input refuses this)"
        );
    }
    Ok(Input {
        choice: Choice::Recorded { recording: loaded.recording, whole_messages: true },
        load: Some(Model::Recorded(loaded.recorded)),
        replay: Some(loaded.told),
    })
}
