//! `sextant search`: a search alone, for the rate or for standing connections, against any server.

mod connections;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use record::{Dut, Kind, Sought};

use super::certificates::CertificateArgs;
use super::measurement::{MeasurementInput, SearchOptions, conduct};
use super::outputs::OutputArgs;
use crate::failure::Failure;
use crate::options::{QueryArgs, TesterArgs, TransportArgs, process};
use campaign::certificate::Conditions;
use campaign::{Plan, Server, empty_results, reach, transport_of};
use lab::environment::{Manifest, PathDevices};

/// Options of `sextant search`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  sextant search --server '[::1]:53' --max-rate 200000
      a DNS64 server that you have configured to forward the zone to an AuthDNS
  sextant search --server 127.0.0.1:5300 --prefix 2001:db8:64::/96 --repetitions 1
      an authoritative server that has a AAAA for every name
  sextant search --server '[::1]:853' --transport dot --search-for connections --max-connections 20000
      how many connections the server can hold, while queries go over all of them")]
pub struct SearchArgs {
    /// The server to ask
    #[arg(long, value_name = "ADDR:PORT")]
    server: SocketAddr,
    /// Process ID of the server, if it runs on this machine [default: found by its socket]; its processor
    /// time, memory and socket drops are read
    #[arg(long, value_name = "PID", value_parser = process)]
    pid: Option<u32>,
    #[command(flatten)]
    sought: connections::SoughtOptions,
    #[command(flatten)]
    search: SearchOptions,
    #[command(flatten)]
    query: QueryArgs,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    tester: TesterArgs,
    #[command(flatten)]
    certificates: CertificateArgs,
    #[command(flatten)]
    outputs: OutputArgs,
}

impl SearchArgs {
    /// About how long it takes.
    ///
    /// # Errors
    /// Options that make no search.
    pub fn forecast(&self) -> Result<Duration, Failure> {
        let plan = self.plan()?;
        Ok(plan.forecast(plan.repetitions, None) + plan.afterwards(false))
    }

    /// # Errors
    /// Likewise.
    fn plan(&self) -> Result<Plan, Failure> {
        let plan = self.search.plan(self.query.timeout_ns())?;
        self.sought.apply(plan, &self.search, (&self.transport, &self.tester))
    }
}

/// Runs the search; the exit code says how it ended.
///
/// # Errors
/// The server cannot be reached, or the search cannot be run.
pub fn run(args: &SearchArgs) -> Result<ExitCode, Failure> {
    let before = Manifest::take();
    let plan = args.plan()?;
    let mut tester = args.tester.tester(args.query.first_name())?;
    args.query.workload.load_for_search()?;
    let mut target = args.query.target(args.server, plan.listen_ns);
    target.streams = args.transport.resolve(args.server, &args.tester)?;
    let met = args.tester.meet(args.pid, &mut target, &mut tester);
    args.query.workload.apply(&args.query, &mut target, plan.trial_ns)?;
    if let Some([_, most]) = plan.connections_range {
        target.connections_stand = true;
        // Whether there are files and ports for so many is known before the first trial.
        tester.check(&target.with_connections(most), plan.range_qps[1], plan.trial_ns)?;
    }
    let store = args.search.store("search")?;
    reach(&target, &tester).inspect_err(|_| store.discard())?;
    let mut results = empty_results(Kind::Search);
    results.dut = Dut { name: Dut::EXTERNAL.into(), address: args.server.to_string(), ..Dut::default() };
    results.settings = SearchOptions::settings(&plan, args.query.settings(&tester));
    results.settings.auth = "not ours".into();
    let progress = args.search.progress(&tester.watch);
    met.inspect(|met| progress.say(&format!("  server        {met}")));
    tester.watch.set_server(Server {
        name: args.server.to_string(),
        pids: target.pids.clone(),
        port: args.server.port(),
    });
    let conditions = Conditions::now(None, &tester, &target, None, &results.settings);
    results.settings.transport = target.streams.as_ref().map(transport_of);
    let by_rate = plan.sought() == Sought::Rate;
    if let Some(transport) = results.settings.transport.as_mut().filter(|_| !by_rate) {
        // Each trial has its own number.
        transport.connections = 0;
    }
    // A certificate is one of rates.
    let certificate = by_rate.then(|| args.certificates.fitting(conditions, &plan));
    let parts = MeasurementInput {
        store,
        plan,
        tester,
        target,
        auth: None,
        selftest: None,
        certificate,
        progress,
        alive: &mut || Ok(()),
        before,
        path: PathDevices::of(args.server, None),
        outputs: &args.outputs,
    };
    conduct(&args.search, parts, results)?.ended
}
