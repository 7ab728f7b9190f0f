//! `sextant trial`: one trial, at a constant rate or with another load.

mod attack;
mod stand;
mod transfer;

use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Args;
use engine::pacer::{Model, Schedule};

use super::outputs::OutputArgs;
use super::{EXIT_UNFIT, EXIT_USAGE};
use crate::failure::{Failure, outcome_code, print, print_json};
use crate::options::{QueryArgs, TesterArgs, TransportArgs, process, rate, seconds};
use attack::Attack;
use campaign::{Progress, Status, Store, Target, Tester, TrialRun, reach};
use lab::environment::Manifest;
use measurer::transport::stream::StreamConfig;
use report;
use stand::{StandArgs, TrialSetup};
use transfer::TransferArgs;

/// Options of `sextant trial`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  sextant trial --server '[::1]:53' --rate 50000 --duration 10
  sextant trial --server '[::1]:5300' --rate 100000 --prefix 2001:2:0:aaaa::/96 --json
      an AuthDNS that has a AAAA record for every name, without a DUT
  sextant trial --server '[::1]:53' --rate 20000 --input names.txt --shuffle --load poisson
      the queries of a file in dnsperf's format, at the random times of independent clients
  sextant trial --server '[::1]:53' --input peak.pcap --speed 2
      the queries of a capture at their times, twice as fast, each client from a socket of its own
  sextant trial --server '[::1]:53' --load closed:100 --duration 10
      as dnsperf measures: a closed loop, 100 queries outstanding
  sextant trial --server '[::1]:853' --transport dot --connections 1000 --rate 20000
      over TLS, by 1000 standing connections
  sextant trial --peer unbound --rate 5000 --duration 10
      a server that is started for it, with an AuthDNS and a lab
  sextant trial --peer dns64d --load experiments:16x2560
      as dns64perf2 measures: the time that 256 queries take, with 16 outstanding
  sextant trial --peer dns64d --io udp --rate 5000 --attack 20000 --duration 10
      how other clients are answered during an attack with random names
  sextant trial --server '[::1]:53' --transfer example.com --transfers 20
      how long transfers of a zone take
  sextant trial --server '[::1]:53' --transfer example.com --since 2026112601 --tsig key --rate 50
      signed transfers of its changes, 50 of them begun in each second")]
pub struct TrialArgs {
    /// The server to ask
    #[arg(long, value_name = "ADDR:PORT", required_unless_present_any = ["peer", "looped"])]
    server: Option<SocketAddr>,
    /// Process ID of the server, if it runs on this machine [default: found by its socket]; its processor
    /// time, memory and socket drops are read
    #[arg(long, value_name = "PID", requires = "server", value_parser = process)]
    pid: Option<u32>,
    /// Queries per second; needed unless --load has rates of its own or is a closed loop. With --transfer,
    /// transfers per second
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<u64>,
    /// Length of the trial in seconds (RFC 8219 asks for at least 60)
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    duration: Duration,
    /// Send N queries per second for random names beside the trial, like a random-subdomain attack; these
    /// queries are not counted
    #[arg(long, value_name = "N", value_parser = rate)]
    attack: Option<u64>,
    /// Keep the trial and its latency histogram in this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
    // These are last, or their headings would stand above the options after them.
    #[command(flatten)]
    stand: StandArgs,
    #[command(flatten)]
    transfer: TransferArgs,
    #[command(flatten)]
    query: QueryArgs,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    tester: TesterArgs,
    #[command(flatten)]
    outputs: OutputArgs,
}

/// How long a lab, a server and the Tester's readings take.
const AROUND: Duration = Duration::from_secs(3);

impl TrialArgs {
    /// About how long it takes.
    ///
    /// # Errors
    /// Options that make no trial, a peer that nobody knows.
    pub fn forecast(&self) -> Result<Duration, Failure> {
        self.stand.check()?;
        self.transfer.check_campaign()?;
        self.query.workload.rate_qps(self.rate)?;
        Ok(self.duration + RESIDUAL + AROUND)
    }
}

impl TrialArgs {
    /// Gives each client of a capture a socket, or connections of its own.
    ///
    /// # Errors
    /// Other numbers were asked for.
    fn give_sockets(&self, target: &mut Target, tester: &mut Tester) -> Result<(), Failure> {
        let Model::Recorded(recorded) = target.load else { return Ok(()) };
        let given = self.tester.io.ports.map(|_| "--ports").or(self.transport.number_of_connections());
        if let Some(option) = given {
            let message =
                format!("{option}: the clients of a capture have a socket each; say --clients N for fewer");
            return Err(Failure::new(EXIT_USAGE, message));
        }
        tester.source_ports = recorded.sockets(tester.cpus.len() as u64) as usize;
        if let Some(streams) = &mut target.streams {
            streams.connections = tester.source_ports;
        }
        Ok(())
    }

    /// Whether the other options go together with connections.
    ///
    /// # Errors
    /// They do not.
    fn check_streams(&self, streams: &StreamConfig) -> Result<(), Failure> {
        if self.attack.is_none() {
            return Ok(());
        }
        let message = format!("--transport {}: --attack sends datagrams alone", streams.protocol);
        Err(Failure::new(EXIT_USAGE, message))
    }
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
/// The server cannot be reached or started, or the trial cannot be run.
pub fn run(args: &TrialArgs) -> Result<ExitCode, Failure> {
    args.transfer.check()?;
    if let Some(zone) = args.transfer.zone {
        return transfer::run(args, zone);
    }
    let listen_ns = args.query.timeout_ns() + RESIDUAL.as_nanos() as u64;
    // A wrong option is known before any server is started.
    args.query.workload.rate_qps(args.rate)?;
    let server = args.server.unwrap_or(SocketAddr::from((Ipv6Addr::LOCALHOST, 0)));
    let mut target = args.query.target(server, listen_ns);
    args.query.workload.apply(&args.query, &mut target, args.duration.as_nanos() as u64)?;
    let mut tester = args.tester.tester(args.query.first_name())?;
    target.streams = args.transport.resolve(server, &args.tester)?;
    args.give_sockets(&mut target, &mut tester)?;
    if let Some(streams) = &target.streams {
        args.check_streams(streams)?;
        if args.server.is_none() {
            args.transport.check_own_server()?;
        }
    }
    args.query.workload.check_threads(tester.cpus.len())?;
    if args.server.is_some() {
        args.tester.meet(args.pid, &mut target, &mut tester);
    }
    let store = args.out.as_deref().map(|out| Store::create(out, Some(out), "trial", SystemTime::now()));
    let store = store.transpose().map_err(cannot_write)?;
    // What was not measured leaves no directory behind.
    let discard = |_: &Failure| store.iter().for_each(Store::discard);
    let (tried, written) = measure(args, tester, target, store.as_ref()).inspect_err(discard)?;
    // The result comes whatever becomes of the other files.
    if args.json {
        print_json(&tried.trial)?;
    } else {
        print(&report::trial_text(&tried.trial))?;
    }
    written?;
    Ok(ExitCode::from(outcome_code(tried.trial.outcome)))
}

fn cannot_write(error: io::Error) -> Failure {
    Failure::new(EXIT_UNFIT, error)
}

/// Starts the server if it is to be started, asks it, and keeps the trial; and whether the other outputs were
/// written.
fn measure(
    args: &TrialArgs,
    mut tester: Tester,
    mut target: Target,
    store: Option<&Store>,
) -> Result<(TrialRun, Result<(), Failure>), Failure> {
    let progress = Progress::new(args.json || args.outputs.tell_on_stdout(), &tester.watch);
    let mut stand = args.stand.start(&args.query, &args.tester, (&mut tester, &mut target), &progress)?;
    let outputs = args.outputs.begin(&mut target, &tester)?;
    reach(&target, &tester)?;

    let rate_qps = args.query.workload.rate_qps(args.rate)?;
    let duration_ns = args.duration.as_nanos() as u64;
    let length = args.duration + Duration::from_millis(30);
    let shown_qps = shown_qps(target.load, rate_qps, duration_ns);
    let doing = Status { phase: "trial".into(), rate_qps: shown_qps, length, ..Status::default() };
    let auth = stand.as_ref().map(TrialSetup::auth);
    let attack = args.attack.map(|rate_qps| Attack::new(rate_qps, &tester, &target)).transpose()?;
    let mut trial = || tester.trial(&target, auth, rate_qps, duration_ns);
    let tried = progress.during(&doing, || match attack {
        Some(attack) => attack.beside(args.duration, trial),
        None => trial(),
    });
    progress.clear();
    let tried = tried?;
    if let Some(stand) = &mut stand {
        stand.check_alive()?;
    }
    if let Some(store) = store {
        store
            .save_json("trial.json", &tried.trial)
            .and_then(|()| store.save_json("manifest.json", &Manifest::take()))
            .and_then(|()| store.append_histogram("trial", &tried.trial, &tried.latency_ns))
            .map_err(cannot_write)?;
    }
    let written = outputs.only(&tried);
    Ok((tried, written))
}
