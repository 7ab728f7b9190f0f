//! `sextant trial`: one trial, at a constant rate or with another load.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Args;
use engine::pacer::{Model, Schedule};

use super::EXIT_UNFIT;
use super::common::{Failure, QueryArgs, TesterArgs, outcome_code, print, print_json, rate, seconds};
use super::outputs::OutputArgs;
use crate::campaign::{Doing, Progress, Store, reach};
use crate::lab::environment::Manifest;
use crate::report;

/// Options of `sextant trial`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  sextant trial --server '[::1]:53' --rate 50000 --duration 10
  sextant trial --server '[::1]:5300' --rate 100000 --prefix 2001:2:0:aaaa::/96 --json
      straight against an AuthDNS that has a AAAA for every name
  sextant trial --server '[::1]:53' --rate 20000 --input names.txt --shuffle --load poisson
      what a file in dnsperf's format asks, as independent clients would
  sextant trial --server '[::1]:53' --load closed:100 --duration 10
      dnsperf's way: a closed loop, 100 queries outstanding")]
pub struct TrialArgs {
    /// The server to ask
    #[arg(long, value_name = "ADDR:PORT")]
    server: SocketAddr,
    /// Queries per second; needed unless --load has rates of its own or is a closed loop
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<u64>,
    /// Length of the trial in seconds (RFC 8219 asks for at least 60)
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    duration: Duration,
    #[command(flatten)]
    query: QueryArgs,
    #[command(flatten)]
    tester: TesterArgs,
    #[command(flatten)]
    outputs: OutputArgs,
    /// Keep the trial and its latency histogram in this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// How long to listen for late answers after the timeout.
const RESIDUAL: Duration = Duration::from_millis(500);

/// The average rate of a load in q/s; 0 where answers set the pace.
fn shown_qps(load: Model, rate_qps: u64, duration_ns: u64) -> u64 {
    if load.is_closed() { 0 } else { Schedule::with_model(0, rate_qps, duration_ns, load).rate_qps }
}

/// Runs the trial and prints what became of it; the exit code says pass (0), fail (1) or void (3).
///
/// # Errors
/// The server cannot be reached, or the trial cannot be run.
pub fn run(args: &TrialArgs) -> Result<ExitCode, Failure> {
    let listen_ns = args.query.timeout_ns() + RESIDUAL.as_nanos() as u64;
    let rate_qps = args.query.workload.rate_qps(args.rate)?;
    let mut target = args.query.target(args.server, listen_ns);
    args.query.workload.apply(&args.query, &mut target)?;
    let mut tester = args.tester.tester(args.query.first_name())?;
    args.query.workload.check_threads(tester.cpus.len())?;
    let cannot_write = |error| Failure::new(EXIT_UNFIT, error);
    let store = args.out.as_deref().map(|out| Store::create(out, Some(out), "trial", SystemTime::now()));
    let store = store.transpose().map_err(cannot_write)?;
    // What was not measured leaves no directory behind.
    let discard = |_: &Failure| store.iter().for_each(Store::discard);
    let outputs = args.outputs.begin(&mut target, &tester).inspect_err(discard)?;
    reach(&target, &tester).map_err(Failure::from).inspect_err(discard)?;

    let progress = Progress::new(args.json, &tester.watch);
    let length = args.duration + Duration::from_millis(30);
    let duration_ns = args.duration.as_nanos() as u64;
    let shown_qps = shown_qps(target.load, rate_qps, duration_ns);
    let doing = Doing { phase: "trial".into(), rate_qps: shown_qps, length, ..Doing::default() };
    let tried = progress.during(&doing, || tester.trial(&target, None, rate_qps, duration_ns));
    progress.clear();
    let tried = tried.map_err(Failure::from).inspect_err(discard)?;
    if args.json {
        print_json(&tried.trial)?;
    } else {
        print(&report::trial_text(&tried.trial))?;
    }
    if let Some(store) = &store {
        store
            .save_json("trial.json", &tried.trial)
            .and_then(|()| store.save_json("manifest.json", &Manifest::take()))
            .and_then(|()| store.append_histogram("trial", &tried.trial, &tried.latency_ns))
            .map_err(cannot_write)?;
    }
    outputs.only(&tried)?;
    Ok(ExitCode::from(outcome_code(tried.trial.outcome)))
}
