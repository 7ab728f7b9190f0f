//! Options for files and pages that other programs read.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use measurer::transport::Backend;
use sys::metrics_page::MetricsServer;

use super::{EXIT_UNFIT, EXIT_USAGE};
use crate::failure::Failure;
use crate::output::{Finished, Format, HAS_PARQUET, LinesTo, Outputs, Seconds, exposition, measurement};
use campaign::{Target, Tester, TrialRun};

/// Where there are many trials, each has files of its own, with its number in their names.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Outputs (a search numbers the files: FILE-0001.csv; see docs/outputs.md)")]
pub(crate) struct OutputArgs {
    /// Write every query in the columns of dns64perf++
    #[arg(long, value_name = "FILE")]
    compat_csv: Option<PathBuf>,
    /// Write every query with its times, class, RCODE and latency: FILE.csv or FILE.parquet
    #[arg(long, value_name = "FILE", value_parser = queries)]
    queries: Option<(Format, PathBuf)>,
    /// Write the figures in DNS-OARC's dns-metrics schema, as JSON lines
    #[arg(long, value_name = "FILE")]
    dns_metrics: Option<PathBuf>,
    /// Write the latencies as an HDR histogram log
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,
    /// Write queries sent, valid and failed for each second, as CSV
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Cut --series, --hlog and --dns-metrics into intervals of this length (keeps a list of all queries in
    /// memory)
    #[arg(long, value_name = "SECONDS", value_parser = interval)]
    interval: Option<Duration>,
    /// Serve the counts at http://ADDR:PORT/metrics during the measurement (OpenMetrics)
    #[arg(long, value_name = "ADDR:PORT")]
    openmetrics: Option<SocketAddr>,
    /// Write the same metrics to a file each second, for node_exporter's textfile collector
    #[arg(long, value_name = "FILE")]
    openmetrics_file: Option<PathBuf>,
    /// Write a line of counts each second during the measurement, as CSV, or as JSON lines to FILE.jsonl; -
    /// is standard output
    #[arg(long, value_name = "FILE", value_parser = lines)]
    seconds: Option<LinesTo>,
}

/// A file whose extension may ask for JSON lines.
#[allow(clippy::unnecessary_wraps, reason = "clap's parsers can fail")]
fn lines(text: &str) -> Result<LinesTo, String> {
    let path = PathBuf::from(text);
    let json = path.extension().is_some_and(|what| what.eq_ignore_ascii_case("jsonl"));
    Ok(LinesTo { path, json })
}

/// A file whose extension says the format.
fn queries(text: &str) -> Result<(Format, PathBuf), String> {
    let extension = Path::new(text).extension().map(|what| what.to_ascii_lowercase());
    match extension.as_ref().and_then(|what| what.to_str()) {
        Some("csv") => Ok((Format::QueriesCsv, text.into())),
        Some("parquet") if HAS_PARQUET => Ok((Format::QueriesParquet, text.into())),
        Some("parquet") => {
            Err("this program was built without Parquet: build it with --features parquet (cargo install \
                                sextant --features parquet), or name a .csv file"
                .into())
        }
        _ => Err("the name must end in .csv or .parquet".into()),
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let wrong = || "must be from 0.1 to 86400 seconds".to_owned();
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    if (0.1..=86_400.0).contains(&seconds) { Ok(Duration::from_secs_f64(seconds)) } else { Err(wrong()) }
}

impl OutputArgs {
    /// Gets ready before anything is measured: sees whether the files can be written, has the target keep a
    /// list of queries if one is needed, and shows the counts.
    ///
    /// # Errors
    /// A file cannot be written, or the address cannot be used.
    pub fn begin(&self, target: &mut Target, tester: &Tester) -> Result<OpenOutputs, Failure> {
        let outputs = self.outputs()?;
        outputs.check().map_err(|error| Failure::new(EXIT_UNFIT, error))?;
        target.log = outputs.need_log();
        if target.log && tester.backend == Backend::Kernel {
            let message =
                "--io kernel keeps no list of all queries: leave out --queries, --compat-csv and --interval";
            return Err(Failure::new(EXIT_USAGE, message));
        }
        Ok(OpenOutputs {
            outputs,
            server: target.server,
            threads: tester.cpus.len().max(1),
            timeout_ns: target.timeout_ns,
            arguments: std::env::args().skip(1).collect(),
            trials: 0,
            failed: None,
            seconds: self.told(target, tester)?,
            _page: self.page(target, tester)?,
        })
    }

    /// Has the target keep a list of all queries if one is needed: not every back-end can.
    ///
    /// # Errors
    /// Outputs that do not go together.
    pub(crate) fn keep_list(&self, target: &mut Target) -> Result<(), Failure> {
        target.log = self.outputs()?.need_log();
        Ok(())
    }

    fn outputs(&self) -> Result<Outputs, Failure> {
        let cut = [
            (Format::DnsMetrics, &self.dns_metrics),
            (Format::Hlog, &self.hlog),
            (Format::Series, &self.series),
        ];
        if self.interval.is_some() && cut.iter().all(|(_, path)| path.is_none()) {
            return Err(Failure::new(EXIT_USAGE, "--interval needs --series, --hlog or --dns-metrics"));
        }
        let others = cut.into_iter().chain([(Format::CompatCsv, &self.compat_csv)]);
        let mut files: Vec<(Format, PathBuf)> =
            others.filter_map(|(format, path)| Some((format, path.clone()?))).collect();
        files.extend(self.queries.clone());
        let mut paths: Vec<&PathBuf> = files.iter().map(|(_, path)| path).collect();
        paths.sort();
        if let Some(twice) = paths.windows(2).find(|pair| pair[0] == pair[1]) {
            let message = format!("{} is named for two outputs", twice[0].display());
            return Err(Failure::new(EXIT_USAGE, message));
        }
        Ok(Outputs::new(files, self.interval.map(|interval| interval.as_nanos() as u64)))
    }

    /// Whether lines go to standard output while it measures.
    pub(crate) fn tell_on_stdout(&self) -> bool {
        self.seconds.as_ref().is_some_and(|to| to.path == Path::new("-"))
    }

    /// What is told each second.
    fn told(&self, target: &Target, tester: &Tester) -> Result<Option<Seconds>, Failure> {
        if self.seconds.is_none() && self.openmetrics_file.is_none() {
            return Ok(None);
        }
        let page = self.openmetrics_file.clone().map(|path| {
            let page: Box<dyn Fn() -> String + Send> =
                Box::new(measurement(Arc::clone(&tester.watch), target.server.to_string()));
            (path, page)
        });
        let seconds = Seconds::start(Arc::clone(&tester.watch), self.seconds.as_ref(), page, aside(tester));
        seconds.map(Some).map_err(|error| Failure::new(EXIT_UNFIT, error))
    }

    fn page(&self, target: &Target, tester: &Tester) -> Result<Option<MetricsServer>, Failure> {
        let Some(listen) = self.openmetrics else { return Ok(None) };
        let page = exposition(Arc::clone(&tester.watch), target.server.to_string());
        let server = MetricsServer::start(listen, aside(tester), move || Some(page()))
            .map_err(|error| Failure::new(EXIT_UNFIT, format!("--openmetrics: {error}")))?;
        // Whoever asks for a free port wants to know which; without a standard error nobody does.
        let _ = writeln!(io::stderr(), "metrics at http://{}/metrics", server.address());
        Ok(Some(server))
    }
}

/// Takes a thread away from the Measurer's processors, where there are others.
fn aside(tester: &Tester) -> impl FnOnce() + Send + 'static {
    let mut cpus = sys::cpu::available();
    cpus.retain(|cpu| !tester.cpus.contains(cpu));
    move || {
        if !cpus.is_empty() {
            // It runs anywhere then, and the Measurer's own checks will show if that disturbs it.
            let _ = sys::cpu::restrict(&cpus);
        }
    }
}

/// The outputs of a measurement under way.
pub struct OpenOutputs {
    outputs: Outputs,
    server: SocketAddr,
    threads: usize,
    timeout_ns: u64,
    arguments: Vec<String>,
    trials: u64,
    failed: Option<io::Error>,
    seconds: Option<Seconds>,
    _page: Option<MetricsServer>,
}

impl OpenOutputs {
    /// Writes the files of the only trial.
    ///
    /// # Errors
    /// Those that cannot be written, in one line.
    pub fn only(mut self, tried: &TrialRun) -> Result<(), Failure> {
        self.failed = self.write(tried, None).err();
        self.end()
    }

    /// Writes the files of one trial of many. What cannot be written does not end the measurement.
    pub fn next(&mut self, tried: &TrialRun) {
        self.trials += 1;
        let failed = self.write(tried, Some(self.trials)).err();
        self.failed = self.failed.take().or(failed);
    }

    /// Says at the end what could not be written first.
    ///
    /// # Errors
    /// That.
    pub fn end(self) -> Result<(), Failure> {
        let told = self.seconds.map_or(Ok(()), Seconds::finish);
        let failed = self.failed.or(told.err());
        failed.map_or(Ok(()), |error| Err(Failure::new(EXIT_UNFIT, error)))
    }

    fn write(&self, tried: &TrialRun, number: Option<u64>) -> io::Result<()> {
        let finished = Finished {
            tried,
            server: self.server,
            threads: self.threads,
            timeout_ns: self.timeout_ns,
            arguments: &self.arguments,
        };
        self.outputs.write(&finished, number)
    }
}
