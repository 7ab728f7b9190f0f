//! `sextant bench`: the main job.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use engine::record::Dut;

use super::common::{Failure, QueryArgs, TesterArgs};
use super::measurement::{Conduct, SearchOptions, conduct};
use super::outputs::OutputArgs;
use super::{EXIT_FAILED, EXIT_UNFIT, EXIT_USAGE};
use crate::authority::{Authority, AuthorityConfig, Zone, ZoneConfig};
use crate::campaign::{Auth, Progress, Target, Tester, direct_auth, empty_results, reachable};
use crate::lab::environment::{Manifest, preflight};
use crate::lab::peers::{self, PeerSettings, Probe, RunningPeer};

/// Options of `sextant bench`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  sextant bench                        dns64d and everything else on this machine
  sextant bench --peer unbound         Unbound from its Debian package
  sextant bench --preset rfc8219       60 s trials, 20 repetitions: many hours
  sextant bench --dut '[::1]:53' --auth-listen 127.0.0.1:5300 --prefix 2001:db8:64::/96
      a server that you run; let it forward dns64perf.test to 127.0.0.1:5300")]
pub struct BenchArgs {
    /// The server to measure: dns64d, or one from a Debian package (see: sextant peers list)
    #[arg(long, value_name = "NAME", default_value = "dns64d", conflicts_with = "dut")]
    peer: String,
    /// Measure a server that you run; without an address it is on the IPv6 loopback
    #[arg(long, value_name = "[ADDR]:PORT", value_parser = parse_dut)]
    dut: Option<SocketAddr>,
    /// Where the AuthDNS answers; your server must forward the zone there [default: a free port of 127.0.0.1, and
    /// 127.0.0.1:5300 with --dut]
    #[arg(long, value_name = "ADDR:PORT")]
    auth_listen: Option<SocketAddr>,
    /// Threads of the AuthDNS; 0: the Measurer's first thread does its work [default: 0, and 1 on 4 processors or more]
    #[arg(long, value_name = "N")]
    auth_threads: Option<usize>,
    /// Processors of the server under test [default: those that the Tester leaves]
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "dut")]
    dut_cpus: Vec<usize>,
    /// TTL of the records in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    ttl: u32,
    #[command(flatten)]
    search: SearchOptions,
    #[command(flatten)]
    query: QueryArgs,
    #[command(flatten)]
    tester: TesterArgs,
    #[command(flatten)]
    outputs: OutputArgs,
}

/// An address and port; an empty address is the IPv6 loopback.
fn parse_dut(text: &str) -> Result<SocketAddr, String> {
    let port_alone = text.strip_prefix("[]:").or_else(|| text.strip_prefix(':'));
    if let Some(port) = port_alone.filter(|port| !port.contains(':')) {
        let port = port.parse().map_err(|_| format!("'{port}' is not a port"))?;
        return Ok((Ipv6Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| "write [ADDR]:PORT, for example [::1]:53 or :53".to_owned())
}

/// Runs the bench; the exit code says how it ended.
///
/// # Errors
/// What keeps it from starting: usage, a missing package, a port in use, a machine that is not fit.
pub fn run(args: &BenchArgs) -> Result<ExitCode, Failure> {
    let before = Manifest::take();
    check_machine(&before)?;
    let plan = args.search.plan(args.query.timeout_ns())?;
    args.query.workload.load_for_search()?;
    args.query.workload.check_ttl(args.ttl, plan.trial_ns)?;
    let mut tester = args.tester.tester(args.query.first_name())?;
    // All that can be wrong with the queries is known before any server is started; where it listens is known after.
    let mut target = args.query.target(SocketAddr::from((Ipv6Addr::LOCALHOST, 0)), plan.listen_ns);
    args.query.workload.apply(&args.query, &mut target)?;
    let progress = Progress::new(args.search.json, &tester.watch);
    let peer = || peers::find(&args.peer).map(|peer| peer.name()).map_err(peer_failure);
    let name = args.dut.map_or_else(peer, |_| Ok("external"))?;
    let store = args.search.store(name)?;
    let lab = Lab::start(args, &tester).inspect_err(|_| store.discard())?;
    tester.alone = lab.running.is_some() && lab.dut.cpus.iter().all(|cpu| !tester.cpus.contains(cpu));
    let target = Target { server: lab.server, pid: lab.pid(), ..target };
    let loop_listen = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    let hosted = lab.auth.hosted;
    let looped = direct_auth(&target, &[loop_listen], hosted)
        .map_err(|error| Failure::new(EXIT_UNFIT, error))
        .inspect_err(|_| store.discard())?;
    let loop_target = Target { server: looped.authority.local_addrs()[0], pid: None, ..target.clone() };

    let mut results = empty_results("bench");
    results.dut = lab.dut.clone();
    results.settings = SearchOptions::settings(&plan, args.query.settings(&tester));
    results.settings.ttl_s = Some(args.ttl);
    results.settings.auth = lab.auth_in_words();
    let Lab { auth, mut running, .. } = lab;
    let mut alive =
        || running.as_mut().map_or(Ok(()), |peer| peer.check_alive().map_err(|died| died.to_string()));
    let measured = conduct(
        &args.search,
        Conduct {
            store,
            plan,
            tester,
            target,
            auth: Some(auth),
            selftest: Some((loop_target, looped)),
            progress,
            alive: &mut alive,
            before,
            outputs: &args.outputs,
        },
        results,
    )?;
    if let Some(peer) = running {
        keep_log(&measured.directory, name, peer);
    }
    measured.ended
}

fn peer_failure(error: peers::PeerError) -> Failure {
    Failure::new(error.exit_code(), error)
}

fn check_machine(manifest: &Manifest) -> Result<(), Failure> {
    let findings = preflight(manifest).into_iter().map(engine::record::Finding::from);
    let fatal = findings.into_iter().find(|finding| finding.severity == engine::record::Severity::Fatal);
    fatal.map_or(Ok(()), |finding| {
        let message = format!("{}: {}; {}", finding.what, finding.evidence, finding.remedy);
        Err(Failure::new(EXIT_UNFIT, message))
    })
}

/// The servers around the Measurer.
struct Lab {
    auth: Auth,
    server: SocketAddr,
    running: Option<RunningPeer>,
    dut: Dut,
    auth_cpus: Vec<usize>,
}

/// On this many processors and more the AuthDNS has one of its own.
const OWN_AUTH_PROCESSOR_FROM: usize = 4;

impl Lab {
    fn start(args: &BenchArgs, tester: &Tester) -> Result<Self, Failure> {
        let usable = net::cpu::available();
        let mut free: Vec<usize> = usable.iter().copied().filter(|cpu| !tester.cpus.contains(cpu)).collect();
        let auth_threads = args.auth_threads.unwrap_or(usize::from(usable.len() >= OWN_AUTH_PROCESSOR_FROM));
        let auth_cpus = free.split_off(free.len() - auth_threads.min(free.len().saturating_sub(1)));
        let auth = start_auth(args, auth_threads, &auth_cpus)?;
        let auth_at = reachable(auth.authority.local_addrs()[0]);
        let probe = probe(args, tester)?;
        if let Some(server) = args.dut {
            external_is_ready(&probe, server, auth_at, args, &tester.stop)?;
            let dut = Dut { name: "external".into(), address: server.to_string(), ..Dut::default() };
            return Ok(Self { auth, server, running: None, dut, auth_cpus });
        }
        let cpus = match (args.dut_cpus.as_slice(), free.as_slice()) {
            ([], []) => usable,
            ([], free) => free.to_vec(),
            (chosen, _) => chosen.to_vec(),
        };
        let peer = peers::find(&args.peer).map_err(peer_failure)?;
        let listen =
            peers::free_port(IpAddr::V6(Ipv6Addr::LOCALHOST)).map_err(|e| Failure::new(EXIT_UNFIT, e))?;
        let settings = PeerSettings::new(listen, auth_at, args.query.prefix, args.query.suffix, cpus.clone());
        let running = peers::start(peer, settings, &probe, &tester.stop).map_err(peer_failure)?;
        let dut = Dut {
            name: running.name.into(),
            version: running.version.clone(),
            address: running.listen.to_string(),
            cpus,
            configuration: Some(running.configuration.clone()),
        };
        Ok(Self { auth, server: listen, running: Some(running), dut, auth_cpus })
    }

    fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(RunningPeer::pid)
    }

    fn auth_in_words(&self) -> String {
        let at = self.auth.authority.local_addrs()[0];
        match (self.auth.hosted, self.auth_cpus.as_slice()) {
            (true, _) => format!("{at}, in the Measurer's first thread"),
            (false, []) => format!("{at}, threads of its own"),
            (false, cpus) => format!("{at}, threads on processors {cpus:?}"),
        }
    }
}

fn start_auth(args: &BenchArgs, threads: usize, cpus: &[usize]) -> Result<Auth, Failure> {
    let default = if args.dut.is_some() { "127.0.0.1:5300" } else { "127.0.0.1:0" };
    let listen = args.auth_listen.map_or_else(|| default.parse(), Ok);
    let listen = listen.map_err(|error| Failure::new(EXIT_USAGE, format!("{default}: {error}")))?;
    let zone = ZoneConfig {
        suffix: args.query.suffix.to_string(),
        ttl_s: args.ttl,
        negative_ttl_s: args.ttl,
        aaaa_share_percent: args.query.aaaa_share,
        aaaa_prefix: args.query.aaaa_prefix,
        ..ZoneConfig::default()
    };
    let zone = Zone::new(zone).map_err(|error| Failure::new(EXIT_USAGE, error))?;
    let config = AuthorityConfig {
        listen: vec![listen],
        threads: threads.max(1),
        cpus: cpus.to_vec(),
        ..AuthorityConfig::default()
    };
    let authority =
        Authority::start(Arc::new(zone), &config).map_err(|error| Failure::new(EXIT_UNFIT, error))?;
    Ok(Auth { authority, hosted: threads == 0 })
}

/// The name before the first one: the search comes to it last.
fn probe(args: &BenchArgs, tester: &Tester) -> Result<Probe, Failure> {
    let last = args.query.names.address(tester.next_name.wrapping_sub(1));
    let probe = Probe::synthesized(last, &args.query.suffix, &args.query.prefix);
    let mut probe = probe.map_err(|error| Failure::new(EXIT_USAGE, format!("--suffix: {}", error.0)))?;
    if dns64::names::has_aaaa(last, args.query.aaaa_share) {
        probe.expected = args.query.aaaa_prefix.embed(last).into();
    }
    Ok(probe)
}

/// How long a server that somebody else runs may take to its first right answer.
const EXTERNAL_READY: Duration = Duration::from_secs(5);

fn external_is_ready(
    probe: &Probe,
    server: SocketAddr,
    auth: SocketAddr,
    args: &BenchArgs,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let interrupted = || Failure::new(EXIT_UNFIT, "interrupted; nothing was measured");
    let still_there = || if stop.load(Ordering::Relaxed) { Err(interrupted()) } else { Ok(()) };
    let answer = probe.wait(server, EXTERNAL_READY, still_there)?;
    answer.map(drop).map_err(|what| {
        let (suffix, prefix) = (args.query.suffix, args.query.prefix);
        let message = format!(
            "{server} does not answer {} rightly: {what}; it must run, forward {suffix} to the AuthDNS at {auth}, and synthesize under {prefix} (--prefix)",
            probe.name
        );
        Failure::new(EXIT_FAILED, message)
    })
}

/// The log of the server, for the record. Nothing depends on it.
fn keep_log(directory: &Path, name: &str, peer: RunningPeer) {
    let log = peer.stop();
    if !log.is_empty() {
        let _ = std::fs::write(directory.join("logs").join(format!("{name}.log")), log);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_the_ipv6_loopback() {
        for text in [":53", "[]:53", "[::1]:53"] {
            assert_eq!(parse_dut(text).unwrap().to_string(), "[::1]:53");
        }
        assert!(parse_dut("::1").unwrap_err().contains("[ADDR]:PORT"));
        assert!(parse_dut(":x").is_err());
    }
}
