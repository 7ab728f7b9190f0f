//! Results of other tools as records of ours, so that one report serves all: dns64perf++'s list of queries,
//! and DNS-OARC's schema for the figures of DNS tools (dns-metrics), which kxdpgun writes.
//!
//! Facts that such a file does not hold stay unknown, and the record says so.

mod dns64perf;
mod dns_metrics;

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use record::statistics::summarize;
use record::{
    Dut, Finding, Kind, Outcome, Results, Run, SearchMode, Settings, Severity, State, Trial, Validity,
};

use campaign::empty_results;
use report::{one_line, verdict};

/// Longer lines are none of these tools'.
const LINE_OCTETS: u64 = 16 << 20;
/// Nothing that lasted longer is taken, in ns: a day.
const LONGEST_NS: u64 = 86_400_000_000_000;

/// Why a file could not be taken over. Each displays as one line.
#[derive(Debug)]
pub enum ImportError {
    /// It cannot be read.
    Io(PathBuf, io::Error),
    /// Its first line is none of a tool that is known here.
    Unknown(PathBuf),
    /// A line is not as the tool writes it: its number, and what is wrong.
    Line(PathBuf, u64, String),
    /// It holds nothing that could be reported.
    Empty(PathBuf, &'static str),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "{}: cannot be read: {error}", path.display()),
            Self::Unknown(path) => write!(
                f,
                "{}: neither a list of queries of dns64perf++ nor figures in DNS-OARC's schema (JSON lines); results of sextant are \
                 directories",
                path.display()
            ),
            Self::Line(path, number, what) => {
                write!(f, "{}: line {number}: {}", path.display(), one_line(what))
            }
            Self::Empty(path, what) => write!(f, "{}: {what}", path.display()),
        }
    }
}

impl std::error::Error for ImportError {}

struct ForeignRecord {
    /// The tool, with its version if that is known.
    tool: String,
    /// Whom it asked; empty if that is unknown.
    server: String,
    /// Its arguments; empty if unknown.
    command: Vec<String>,
    timeout_s: f64,
    /// Which answers it counted, as in [`Settings::validity`].
    validity: Validity,
    /// What the file does not tell.
    unknown: &'static str,
    trials: Vec<Trial>,
}

/// Reads the file of another tool.
///
/// # Errors
/// [`ImportError`].
pub fn import(path: &Path) -> Result<Results, ImportError> {
    let mut lines = Lines::open(path)?;
    let first = lines.next()?.unwrap_or_default();
    let told = if first.starts_with(dns64perf::FIRST_LINE) {
        dns64perf::read(path)?
    } else if first.trim_start().starts_with('{') {
        dns_metrics::read(path)?
    } else {
        return Err(ImportError::Unknown(path.to_owned()));
    };
    Ok(record(told))
}

fn record(told: ForeignRecord) -> Results {
    let started_utc = told.trials.first().map(|trial| trial.started_utc.clone()).unwrap_or_default();
    let passed = told.trials.iter().filter(|trial| trial.outcome == Outcome::Pass);
    let qps = passed.map(|trial| trial.rate_qps).max().unwrap_or(0);
    let settings = Settings {
        preset: "imported".into(),
        search: SearchMode::Fixed,
        repetitions: 1,
        trial_s: told.trials.iter().map(|trial| trial.duration_s).fold(0.0, f64::max),
        timeout_s: told.timeout_s,
        validity: told.validity,
        ..Settings::default()
    };
    let finding = Finding {
        severity: Severity::Warning,
        what: "Measured by another tool".into(),
        evidence: told.unknown.into(),
        remedy: "measure again with sextant for what is missing here".into(),
    };
    let mut results = Results {
        state: State::Complete,
        tool: told.tool,
        command: told.command,
        started_utc,
        dut: Dut { name: Dut::EXTERNAL.into(), address: told.server, ..Dut::default() },
        settings,
        summary: Some(qps).filter(|&qps| qps > 0).and_then(|qps| summarize(&[qps], 0)),
        runs: vec![Run { qps, complete: true, trials: told.trials, ..Run::default() }],
        ..empty_results(Kind::Import)
    };
    results.environment.findings.push(finding);
    results.verdict = Some(verdict(&results));
    results
}

/// The lines of a file, counted from 1.
struct Lines {
    path: PathBuf,
    file: BufReader<File>,
    /// The number of the line read last.
    number: u64,
}

impl Lines {
    fn open(path: &Path) -> Result<Self, ImportError> {
        let file = File::open(path).map_err(|error| ImportError::Io(path.to_owned(), error))?;
        Ok(Self { path: path.to_owned(), file: BufReader::new(file), number: 0 })
    }

    /// The next line without its end; `None` after the last.
    fn next(&mut self) -> Result<Option<String>, ImportError> {
        let mut octets = Vec::new();
        let read = self.file.by_ref().take(LINE_OCTETS).read_until(b'\n', &mut octets);
        let read = read.map_err(|error| ImportError::Io(self.path.clone(), error))?;
        self.number += 1;
        if read as u64 == LINE_OCTETS {
            return Err(self.wrong("it is longer than any line of such a file"));
        }
        let text = String::from_utf8_lossy(&octets);
        Ok((read > 0).then(|| text.trim_end_matches(['\n', '\r']).to_owned()))
    }

    /// The line read last is wrong.
    fn wrong(&self, what: impl Into<String>) -> ImportError {
        ImportError::Line(self.path.clone(), self.number, what.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lines of both tools, whole, broken and out of order.
    fn line() -> impl Strategy<Value = String> {
        let number = prop_oneof![Just(0u64), Just(u64::MAX), 1u64..100, any::<u64>()];
        let numbers = [number.clone(), number.clone(), number.clone(), number];
        prop_oneof![
            Just("dns64perf++ test parameters".to_owned()),
            Just("query;thread id;tsent [ns];treceived [ns];received;answered;rtt [ns]".to_owned()),
            numbers.clone().prop_map(|[a, b, c, d]| format!("delay between bursts: {a} ns\nburst size: {b}\nnumber of threads: {c}\nx{d}")),
            numbers.clone().prop_map(|[sent, received, a, _]| format!("x;0;{sent};{received};{};{};-1", a % 2, a % 3)),
            numbers.clone().prop_map(|[since, until, queries, responses]| format!(
                r#"{{"type":"stats_sum","since":{since},"until":{until},"queries":{queries},"responses":{responses},"response_latency":{{"buckets":[[1,{until},{responses}]]}}}}"#
            )),
            numbers.prop_map(|[unit, a, b, c]| format!(
                r#"{{"type":"header","time_units_per_sec":{unit},"timeout":-1}}{{"type":"stats_periodic","since":{a},"queries":{b},"responses":{c}}}"#
            )),
            ".{0,40}",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_file_is_taken_or_refused(lines in prop::collection::vec(line(), 0..12)) {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), lines.join("\n")).unwrap();
            match import(file.path()) {
                Ok(results) => prop_assert!(!report::html(&results).is_empty()),
                Err(error) => prop_assert_eq!(error.to_string().lines().count(), 1),
            }
        }
    }
}
