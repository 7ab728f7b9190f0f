//! `sextant bench`: self-test, rate search, latency and report for one server.

pub(super) mod authoritative;
pub(super) mod servers;

use std::net::{Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use measurer::transport::Backend;
use measurer::transport::stream::StreamConfig;
use record::{Kind, Results, Settings};

use super::certificates::CertificateArgs;
use super::measurement::{MeasurementInput, SearchOptions, conduct};
use super::outputs::OutputArgs;
use super::site::{LoopbackSetup, SiteArgs};
use super::{EXIT_UNFIT, EXIT_USAGE};
use crate::failure::Failure;
use crate::options::{Io, QueryArgs, TesterArgs, TransportArgs};
use campaign::certificate::{Conditions, Stored};
use campaign::{
    Loopback, PathChoice, Plan, Progress, SECOND_NS, Server, Site, Target, Tester, empty_results, reach,
    transport_of,
};
use lab::environment::{Manifest, PathDevices, preflight};
use lab::peers::{self, RunningPeer};
use servers::{ServerArgs, Servers, Setup};

/// Options of `sextant bench`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  sextant bench                        dns64d and everything else on this machine
  sextant bench --peer unbound         Unbound from its Debian package
  sextant bench --authoritative nsd --names 10.0.0.0/12 --timeout 0.25
                                       NSD with a million names, as an AuthDNS is tested
  sextant bench --peer unbound --transport dot --connections 100
                                       over TLS, by 100 standing connections
  sextant bench --live                 with a dashboard while it runs
  sextant bench --preset rfc8219       60 s trials, 20 repetitions: many hours
  sextant bench --dut '[::1]:53' --auth-listen 127.0.0.1:5300 --prefix 2001:db8:64::/96
      a server that you run; let it forward dns64perf.test to 127.0.0.1:5300")]
pub struct BenchArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    search: SearchOptions,
    #[command(flatten)]
    query: QueryArgs,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    tester: TesterArgs,
    #[command(flatten)]
    site: SiteArgs,
    #[command(flatten)]
    certificates: CertificateArgs,
    /// Run the whole self-test even if a certificate holds
    #[arg(long, help_heading = "Certificates")]
    full_selftest: bool,
    #[command(flatten)]
    outputs: OutputArgs,
}

/// Runs the bench; the exit code says how it ended.
///
/// # Errors
/// What keeps it from starting: usage, a missing package, a port in use, a machine that is not fit.
pub fn run(args: &BenchArgs) -> Result<ExitCode, Failure> {
    let before = Manifest::take();
    check_machine(&before)?;
    let mut plan = args.search.plan(args.query.timeout_ns())?;
    args.query.workload.load_for_search()?;
    args.query.workload.check_ttl(args.server.ttl, plan.trial_ns)?;
    let mut tester = args.tester.tester(args.query.first_name())?;
    // All that can be wrong with the queries is known before any server is started; where it listens is known
    // after.
    let mut target = args.query.target(SocketAddr::from((Ipv6Addr::LOCALHOST, 0)), plan.listen_ns);
    args.query.workload.apply(&args.query, &mut target, plan.trial_ns)?;
    target.streams = args.streams(target.server)?;
    args.outputs.keep_list(&mut target)?;
    let progress = args.search.progress(&tester.watch);
    args.meet(&mut target, &mut tester, &progress);
    let name = args.server.name()?;
    let store = args.search.store(name)?;
    let discard = |_: &Failure| store.discard();
    // In this order: the site goes after all that is at it.
    let (site, looped) = args.stage(&mut tester, &target, &progress).inspect_err(discard)?;
    if args.search.max_rate.is_none() && tester.backend == Backend::Kernel {
        plan.range_qps[1] = kernel_max_rate_qps(&target, plan.trial_ns).max(plan.range_qps[0]);
    }
    let (server, query, auth_threads) = (&args.server, &args.query, args.site.auth_threads());
    let setup = Setup { server, query, auth_threads, streams: target.streams.as_ref().map(servers::streams) };
    let answers = looped.as_ref().map_or((args.site.auth_io, false), |looped| looped.auth.way());
    let servers = Servers::start(&setup, &site, &tester, answers).inspect_err(discard)?;
    if let Some(pid) = servers.pid() {
        target.pids = vec![pid];
        tester.alone = servers.dut.cpus.iter().all(|cpu| !tester.cpus.contains(cpu));
    }
    let target = Target { server: servers.server, ..target };
    args.reach_dut(&target, &tester).inspect_err(discard)?;
    let shown = format!("{} {}", servers.dut.name, servers.dut.version).trim_end().to_owned();
    tester.watch.set_server(Server { name: shown, pids: target.pids.clone(), port: target.server.port() });

    let results = args.begun(&plan, (&tester, &target), &servers, &site);
    let path = servers.path_devices(&site);
    let certificate =
        args.certificate(&site, (&tester, &target), looped.as_ref(), (&plan, &results.settings));
    let Servers { auth, mut running, .. } = servers;
    let mut alive =
        || running.as_mut().map_or(Ok(()), |peer| peer.check_alive().map_err(|died| died.to_string()));
    let measured = conduct(
        &args.search,
        MeasurementInput {
            store,
            plan,
            tester,
            target,
            auth,
            selftest: looped,
            certificate,
            progress,
            alive: &mut alive,
            before,
            path,
            outputs: &args.outputs,
        },
        results,
    )?;
    if let Some(peer) = running {
        keep_log(&measured.directory, name, peer);
    }
    measured.ended
}

/// A zone is written and read at about this rate.
const NAMES_LOADED_PER_SECOND: u64 = 100_000;
/// How long starts, self-test and report take, roughly.
const AROUND: Duration = Duration::from_secs(8);

pub(super) fn peer_failure(error: peers::PeerError) -> Failure {
    Failure::new(error.exit_code(), error)
}

fn check_machine(manifest: &Manifest) -> Result<(), Failure> {
    let findings = preflight(manifest, &PathDevices::Any).into_iter().map(record::Finding::from);
    let fatal = findings.into_iter().find(|finding| finding.severity == record::Severity::Fatal);
    fatal.map_or(Ok(()), |finding| {
        let message = format!("{}: {}; {}", finding.what, finding.evidence, finding.remedy);
        Err(Failure::new(EXIT_UNFIT, message))
    })
}

/// The highest rate to try where the Measurer is in the kernel, unless told otherwise, in q/s.
const KERNEL_MAX_RATE_QPS: u64 = 300_000;

/// The same where the names may not suffice: the back-end asks each once in a trial of this length in ns.
fn kernel_max_rate_qps(target: &Target, trial_ns: u64) -> u64 {
    let agents = u128::from(target.workload.variation.agent.agents.max(1));
    let names = u128::from(target.workload.names.size()) * u128::from(SECOND_NS);
    let enough = names / (u128::from(trial_ns.max(1)) * agents);
    u64::try_from(enough).unwrap_or(u64::MAX).min(KERNEL_MAX_RATE_QPS)
}

impl BenchArgs {
    /// About how long it takes.
    ///
    /// # Errors
    /// Options that make no bench, a peer that nobody knows.
    pub fn forecast(&self) -> Result<Duration, Failure> {
        self.server.name()?;
        let plan = self.search.plan(self.query.timeout_ns())?;
        let measuring = plan.forecast(plan.repetitions, None) + plan.afterwards(true);
        let names = self.server.authoritative.as_ref().map_or(0, |_| self.query.names.size());
        Ok(measuring + AROUND + Duration::from_secs(names / NAMES_LOADED_PER_SECOND))
    }

    /// The connections to ask by; a placeholder stands for the address of a server that is started here.
    ///
    /// # Errors
    /// Options that do not go together, or not with the server.
    fn streams(&self, placeholder: SocketAddr) -> Result<Option<StreamConfig>, Failure> {
        let streams = self.transport.resolve(self.server.dut.unwrap_or(placeholder), &self.tester)?;
        let Some(asked) = &streams else { return Ok(None) };
        if self.server.authoritative.is_some() {
            let message =
                format!("--transport {}: --authoritative servers are asked over UDP", asked.protocol);
            return Err(Failure::new(EXIT_USAGE, message));
        }
        if self.server.dut.is_none() {
            self.transport.check_own_server()?;
        }
        Ok(streams)
    }

    /// Whether a server of the user's answers by connections; over UDP it was asked before.
    ///
    /// # Errors
    /// No answer came.
    fn reach_dut(&self, target: &Target, tester: &Tester) -> Result<(), Failure> {
        if self.server.dut.is_some() && target.streams.is_some() {
            reach(target, tester)?;
        }
        Ok(())
    }

    /// A record with what is measured, and how, and without a result.
    fn begun(
        &self,
        plan: &Plan,
        (tester, target): (&Tester, &Target),
        servers: &Servers,
        site: &Site,
    ) -> Results {
        let mut results = empty_results(Kind::Bench);
        results.dut = servers.dut.clone();
        results.settings = SearchOptions::settings(plan, self.query.settings(tester));
        results.settings.transport = target.streams.as_ref().map(transport_of);
        results.settings.ttl_s = Some(self.server.ttl);
        results.settings.auth = servers.auth_in_words();
        results.settings.path = if self.server.dut.is_none() { site.to_string() } else { String::new() };
        results
    }

    /// Finds the processes of a server that the user runs.
    fn meet(&self, target: &mut Target, tester: &mut Tester, progress: &Progress) {
        let Some(server) = self.server.dut else { return };
        target.server = server;
        let met = self.tester.meet(self.server.pid, target, tester);
        met.inspect(|met| progress.say(&format!("  server        {met}")));
    }

    /// The certificate that is good for this bench, or why there is none.
    fn certificate(
        &self,
        site: &Site,
        (tester, target): (&Tester, &Target),
        looped: Option<&Loopback>,
        (plan, settings): (&Plan, &Settings),
    ) -> Option<Result<Stored, String>> {
        let conditions = match looped {
            Some(Loopback { auth, target, .. }) => {
                let auth = Some((auth, self.site.auth_threads()));
                Conditions::now(Some(site), tester, target, auth, settings)
            }
            None => Conditions::now(None, tester, target, None, settings),
        };
        (!self.full_selftest).then(|| self.certificates.fitting(conditions, plan))
    }

    /// The site, and the Tester looped back there. Where the Tester reaches a server of the user's past the
    /// kernel's network stack, no path of this machine leads it back to itself: a certificate stands for the
    /// self-test, as in a search.
    fn stage(
        &self,
        tester: &mut Tester,
        target: &Target,
        progress: &Progress,
    ) -> Result<(Site, Option<Loopback>), Failure> {
        let site = self.site()?;
        let Some(server) = self.server.dut.filter(|_| self.is_past_the_stack()) else {
            let own = self.transport.of_own_server(target.server, &self.tester)?;
            let setup = site.stage(&self.tester, tester, &Target { streams: own, ..target.clone() })?;
            setup.say_notes(progress);
            let LoopbackSetup { site, looped, .. } = setup;
            return Ok((site, Some(looped)));
        };
        site.check_auth_threads()?;
        if site.auth_threads == Some(0) {
            return Err(Failure::new(EXIT_USAGE, "--auth-threads 0 is for sockets on both sides"));
        }
        if self.full_selftest {
            let message = "--full-selftest: with --dut past the network stack the self-test is a command of its own \
                           (sextant selftest --server)";
            return Err(Failure::new(EXIT_USAGE, message));
        }
        tester.io(&Target { server, ..target.clone() })?;
        Ok((Site::Loopback, None))
    }

    fn is_past_the_stack(&self) -> bool {
        matches!(self.tester.io.io, Io::Xdp | Io::Kernel)
            || matches!(self.site.auth_io, authdns::Io::Xdp | authdns::Io::Kernel)
    }

    /// A server of the user's is on this machine or beyond, and so is an AuthDNS at an address of the user's
    /// choice.
    fn site(&self) -> Result<SiteArgs, Failure> {
        let on_loopback = self.server.dut.is_some() || self.server.auth_listen.is_some();
        if on_loopback && self.site.path == PathChoice::Lab {
            let message = "--path lab is for servers that sextant starts: leave out --dut and --auth-listen";
            return Err(Failure::new(EXIT_USAGE, message));
        }
        let path = if on_loopback { PathChoice::Loopback } else { self.site.path };
        Ok(SiteArgs { path, ..self.site.clone() })
    }
}

/// The log of the server, for the record. Nothing depends on it.
fn keep_log(directory: &Path, name: &str, peer: RunningPeer) {
    let log = peer.stop();
    if !log.is_empty() {
        let _ = std::fs::write(directory.join("logs").join(format!("{name}.log")), log);
    }
}
