//! Files about single trials, for other programs. The record (`campaign`) and the report do not need them.
//!
//! docs/outputs.md describes the formats.

mod compat;
mod cuts;
mod dns_metrics;
mod hlog;
mod openmetrics;
#[cfg(feature = "parquet")]
mod parquet;
mod queries;
mod rows;
mod seconds;
mod series;
mod sink;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use engine::querylog::QueryLog;

use campaign::TrialRun;

pub use openmetrics::{exposition, measurement};
pub(crate) use seconds::{LinesTo, Seconds};
pub use sink::{Sink, write_to};

/// Whether files in the Parquet format can be written.
pub(crate) const HAS_PARQUET: bool = cfg!(feature = "parquet");

/// A trial and what the outputs need to know of its circumstances.
#[derive(Clone, Copy)]
pub struct Finished<'a> {
    /// The trial.
    pub tried: &'a TrialRun,
    /// The server that was asked.
    pub server: SocketAddr,
    /// The Measurer's threads.
    pub threads: usize,
    /// An answer is late after this, in ns.
    pub timeout_ns: u64,
    /// The command line, without the program.
    pub arguments: &'a [String],
}

/// The formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Every query in dns64perf++'s columns.
    CompatCsv,
    /// Every query in our columns.
    QueriesCsv,
    /// The list of queries as Parquet.
    QueriesParquet,
    /// DNS-OARC's dns-metrics.
    DnsMetrics,
    /// An HDR histogram log.
    Hlog,
    /// The course of the trial.
    Series,
}

/// The files that are wanted of each trial.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outputs {
    files: Vec<(Format, PathBuf)>,
    interval_ns: Option<u64>,
}

impl Outputs {
    /// So many files, with intervals of so many ns; without, a series has whole seconds, and nothing else
    /// intervals.
    pub fn new(files: Vec<(Format, PathBuf)>, interval_ns: Option<u64>) -> Self {
        Self { files, interval_ns }
    }

    /// Whether any of them needs the list of all queries.
    pub(crate) fn need_log(&self) -> bool {
        self.files.iter().any(|(format, _)| self.is_listing(*format))
    }

    fn is_listing(&self, format: Format) -> bool {
        match format {
            Format::CompatCsv | Format::QueriesCsv | Format::QueriesParquet => true,
            Format::DnsMetrics | Format::Hlog | Format::Series => self.interval_ns.is_some(),
        }
    }

    /// Whether they could all be written, as far as can be known before a trial.
    ///
    /// # Errors
    /// The first that cannot; the message names it.
    pub fn check(&self) -> io::Result<()> {
        self.files.iter().try_for_each(|(_, path)| Sink::check(path))
    }

    /// Writes all of them; where there are many trials, `number` (from 1) goes into the names.
    ///
    /// # Errors
    /// Those that cannot be written, in one line. The others are written all the same.
    pub fn write(&self, finished: &Finished<'_>, number: Option<u64>) -> io::Result<()> {
        let mut failed: Vec<io::Error> = Vec::new();
        for (format, path) in &self.files {
            let path = number.map_or_else(|| path.clone(), |number| numbered(path, number));
            failed.extend(self.write_one(*format, &path, finished).err());
        }
        let Some(first) = failed.first() else { return Ok(()) };
        let kind = first.kind();
        let messages: Vec<String> = failed.iter().map(ToString::to_string).collect();
        Err(io::Error::new(kind, messages.join("; ")))
    }

    fn write_one(&self, format: Format, path: &Path, finished: &Finished<'_>) -> io::Result<()> {
        let none = QueryLog::default();
        let log = finished.tried.log.as_ref().unwrap_or(&none);
        if log.is_empty() && self.is_listing(format) {
            let message =
                format!("cannot write {}: this back-end keeps no list of all queries", path.display());
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        let intervals = self.interval_ns.map(|interval_ns| (log, interval_ns));
        write_to(path, |out| match format {
            Format::CompatCsv => compat::write(out, finished, log),
            Format::QueriesCsv => queries::write(out, finished, log),
            #[cfg(feature = "parquet")]
            Format::QueriesParquet => parquet::write(out, finished, log),
            #[cfg(not(feature = "parquet"))]
            Format::QueriesParquet => Err(io::Error::from(io::ErrorKind::Unsupported)),
            Format::DnsMetrics => dns_metrics::write(out, finished, intervals),
            Format::Hlog => hlog::write(out, finished, intervals),
            Format::Series => match intervals {
                None => series::write(out, &finished.tried.trial.series),
                Some((log, interval_ns)) => series::write(out, &cuts::series(finished, log, interval_ns)),
            },
        })
    }
}

/// `queries.csv` becomes `queries-0007.csv`.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map_or(String::new(), |what| format!(".{}", what.to_string_lossy()));
    path.with_file_name(format!("{stem}-{number:04}{extension}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use dns64::wire::Name;
    use engine::pacer::{SECOND_NS, Schedule};
    use engine::querylog::{Class, Entry};
    use engine::workload::{Variation, Workload, WorkloadSpec};
    use hdrhistogram::Histogram;
    use record::{Interval, Outcome, Trial};

    pub(crate) const START_UNIX_NS: u64 = 1_700_000_000_000_000_000;
    const START_NS: u64 = 5_000_000_000;

    /// Eight queries at 10 q/s by two threads: each class is there.
    pub(crate) struct Sample(TrialRun);

    impl Sample {
        pub(crate) fn new() -> Self {
            let schedule = Schedule::new(START_NS, 10, 800_000_000);
            let mut log = QueryLog::default();
            for lane in 0..2 {
                let mut part = QueryLog::new(lane, 2, 4);
                for own in 0..4 {
                    *part.entry_mut(own).unwrap() = entry(&schedule, own * 2 + lane);
                }
                log.merge(part);
            }
            let mut latency_ns = Histogram::new_with_bounds(1, 100 * SECOND_NS, 3).unwrap();
            latency_ns.record(501_000).unwrap();
            let trial = Trial {
                rate_qps: 10,
                duration_s: 0.8,
                started_utc: "2023-11-14T22:13:20.000Z".into(),
                outcome: Outcome::Fail,
                scheduled: 8,
                sent: 6,
                answered: 5,
                valid: 1,
                invalid: 2,
                late: 2,
                lost: 1,
                rcodes: [("NOERROR".to_owned(), 4), ("SERVFAIL".to_owned(), 1)].into(),
                series: vec![Interval { start_s: 0.0, sent: 6, valid: 1, failed: 7 }],
                ..Trial::default()
            };
            let workload = Workload::new(WorkloadSpec {
                names: "10.0.0.0/8".parse().unwrap(),
                first_name: 0,
                suffix: Name::from_text("dns64perf.test").unwrap(),
                prefix: "2001:db8:64::/96".parse().unwrap(),
                native: None,
                edns_octets: None,
                variation: Variation::default(),
            })
            .unwrap();
            let log = Some(log);
            Self(TrialRun { trial, latency_ns, log, workload, schedule, start_unix_ns: START_UNIX_NS })
        }

        pub(crate) fn log(&self) -> &QueryLog {
            self.0.log.as_ref().unwrap()
        }

        pub(crate) fn finished(&self) -> Finished<'_> {
            Finished {
                tried: &self.0,
                server: "[::1]:53".parse().unwrap(),
                threads: 2,
                timeout_ns: SECOND_NS,
                arguments: &[],
            }
        }
    }

    fn entry(schedule: &Schedule, number: u64) -> Entry {
        let scheduled_ns = schedule.due_ns(number);
        let sent_ns = scheduled_ns + 1000;
        let sent = Entry { scheduled_ns, sent_ns, ..Entry::default() };
        let answered =
            |class, rcode, compat| Entry { received_ns: sent_ns + 500_000, class, rcode, compat, ..sent };
        match number {
            0 => answered(Class::Valid, 0, true),
            1 => answered(Class::Invalid, 0, true),
            2 => Entry { class: Class::Lost, ..sent },
            3 => answered(Class::Invalid, 2, false),
            4 => Entry { received_ns: sent_ns + 1_100_000_000, ..answered(Class::Late, 0, true) },
            // Sent 2 ms late.
            5 => Entry {
                sent_ns: scheduled_ns + 2_000_000,
                received_ns: scheduled_ns + 1_001_999_999,
                ..answered(Class::Late, 0, true)
            },
            6 => Entry::default(),
            _ => Entry { class: Class::SendError, ..sent },
        }
    }

    #[test]
    fn what_can_be_written_is_written_and_the_rest_is_named() {
        let base = tempfile::tempdir().unwrap();
        let good = base.path().join("series.csv");
        let bad = base.path().join("none/queries.csv");
        let files = vec![(Format::QueriesCsv, bad), (Format::Series, good)];
        let outputs = Outputs::new(files, None);
        assert!(outputs.need_log() && outputs.check().is_err());
        let error = outputs.write(&Sample::new().finished(), Some(7)).unwrap_err().to_string();
        assert!(error.contains("none/queries-0007.csv") && error.lines().count() == 1, "{error}");
        assert!(base.path().join("series-0007.csv").exists());
        assert!(!Outputs::new(vec![(Format::Series, "x".into())], None).need_log());
    }

    #[test]
    fn numbers_go_before_the_extension() {
        for (path, expected) in
            [("a/b.csv", "a/b-0012.csv"), ("b", "b-0012"), ("b.tar.csv", "b.tar-0012.csv")]
        {
            assert_eq!(numbered(Path::new(path), 12), Path::new(expected));
        }
    }
}
