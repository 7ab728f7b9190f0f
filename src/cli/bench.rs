//! `sextant bench`: the main job.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use engine::record::Dut;
use net::bpf::Attached;

use super::common::{Failure, QueryArgs, TesterArgs};
use super::measurement::{Conduct, SearchOptions, conduct};
use super::outputs::OutputArgs;
use super::site::{SiteArgs, looped};
use super::{EXIT_FAILED, EXIT_UNFIT, EXIT_USAGE};
use crate::authority::{Authority, AuthorityConfig, Io, Zone, ZoneConfig};
use crate::campaign::{Auth, DUT_PORT, PathChoice, Progress, Site, Target, Tester, empty_results, reachable};
use crate::lab::environment::{Manifest, preflight};
use crate::lab::network::Role;
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
    site: SiteArgs,
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
    let discard = |_: &Failure| store.discard();
    let site = args.site(&progress).inspect_err(discard)?;
    let wanted = args.site.wanted(&site, &args.tester).inspect_err(discard)?;
    let looped = looped(&site, &mut tester, &target, &wanted, &progress).inspect_err(discard)?;
    let servers = Servers::start(args, &site, &tester, &looped.auth).inspect_err(discard)?;
    tester.alone = servers.running.is_some() && servers.dut.cpus.iter().all(|cpu| !tester.cpus.contains(cpu));
    let target = Target { server: servers.server, pid: servers.pid(), ..target };

    let mut results = empty_results("bench");
    results.dut = servers.dut.clone();
    results.settings = SearchOptions::settings(&plan, args.query.settings(&tester));
    results.settings.ttl_s = Some(args.ttl);
    results.settings.auth = servers.auth_in_words();
    let Servers { auth, mut running, .. } = servers;
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
            selftest: Some(looped),
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

impl BenchArgs {
    /// A server of the user's is on this machine or beyond, and so is an AuthDNS at an address of the user's choice.
    fn site(&self, progress: &Progress) -> Result<Site, Failure> {
        let on_loopback = self.dut.is_some() || self.auth_listen.is_some();
        match self.site.path {
            PathChoice::Lab if on_loopback => {
                let message =
                    "--path lab is for servers that sextant starts: leave out --dut and --auth-listen";
                Err(Failure::new(EXIT_USAGE, message))
            }
            _ if on_loopback => Ok(Site::Loopback),
            _ => self.site.make(progress).map(|(site, _)| site),
        }
    }
}

/// The servers around the Measurer.
struct Servers {
    auth: Auth,
    server: SocketAddr,
    running: Option<RunningPeer>,
    dut: Dut,
    auth_cpus: Vec<usize>,
    /// Lets the DUT receive what an XDP program of the AuthDNS sends.
    _pass: Option<Attached>,
}

impl Servers {
    /// Starts them; the AuthDNS works as that of the self-test does.
    fn start(args: &BenchArgs, site: &Site, tester: &Tester, looped: &Auth) -> Result<Self, Failure> {
        let unfit = |error: io::Error| Failure::new(EXIT_UNFIT, error);
        let usable = net::cpu::available();
        let (io, hosted) = (looped.authority.io(), looped.hosted);
        let mut free: Vec<usize> = usable.iter().copied().filter(|cpu| !tester.cpus.contains(cpu)).collect();
        // A program in the kernel works where its queries come from.
        let busy = if hosted || io == Io::Kernel { 0 } else { args.site.auth_threads.unwrap_or(1).max(1) };
        let auth_cpus = free.split_off(free.len() - busy.min(free.len().saturating_sub(1)));
        let auth = start_auth(args, site, (io, hosted), &auth_cpus)?;
        let pass = site.hold_pass(Role::Dut, io).map_err(unfit)?;
        let auth_at = reachable(auth.authority.local_addrs()[0]);
        let probe = probe(args, tester)?;
        if let Some(server) = args.dut {
            external_is_ready(&probe, server, auth_at, args, &tester.stop)?;
            let dut = Dut { name: "external".into(), address: server.to_string(), ..Dut::default() };
            return Ok(Self { auth, server, running: None, dut, auth_cpus, _pass: pass });
        }
        let cpus = match (args.dut_cpus.as_slice(), free.as_slice()) {
            ([], []) => usable,
            ([], free) => free.to_vec(),
            (chosen, _) => chosen.to_vec(),
        };
        let listen = match site {
            Site::Loopback => peers::free_port(site.dut()).map_err(unfit)?,
            Site::Lab(_) => (site.dut(), DUT_PORT).into(),
        };
        let running = start_peer(args, site, (listen, auth_at), &cpus, &probe, &tester.stop)?;
        let dut = Dut {
            name: running.name.into(),
            version: running.version.clone(),
            address: running.listen.to_string(),
            cpus,
            configuration: Some(running.configuration.clone()),
        };
        Ok(Self { auth, server: listen, running: Some(running), dut, auth_cpus, _pass: pass })
    }

    fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(RunningPeer::pid)
    }

    fn auth_in_words(&self) -> String {
        let (at, io) = (self.auth.authority.local_addrs()[0], self.auth.authority.io());
        match (self.auth.hosted, self.auth_cpus.as_slice()) {
            (true, _) => format!("{at}, in the Measurer's first thread"),
            (false, _) if io == Io::Kernel => format!("{at}, in the kernel"),
            (false, []) => format!("{at}, io {io}, threads of its own"),
            (false, cpus) => format!("{at}, io {io}, threads on processors {cpus:?}"),
        }
    }
}

/// Starts the server and asks it as the Tester will.
fn start_peer(
    args: &BenchArgs,
    site: &Site,
    (listen, auth): (SocketAddr, SocketAddr),
    cpus: &[usize],
    probe: &Probe,
    stop: &AtomicBool,
) -> Result<RunningPeer, Failure> {
    let peer = peers::find(&args.peer).map_err(peer_failure)?;
    let mut settings = PeerSettings::new(listen, auth, args.query.prefix, args.query.suffix, cpus.to_vec());
    settings.namespace = site.namespace(Role::Dut);
    let started = site.at(Role::Tester, || peers::start(peer, settings, probe, stop));
    started.map_err(|error| Failure::new(EXIT_UNFIT, error))?.map_err(peer_failure)
}

/// The AuthDNS behind the DUT.
fn start_auth(
    args: &BenchArgs,
    site: &Site,
    (io, hosted): (Io, bool),
    cpus: &[usize],
) -> Result<Auth, Failure> {
    let own: SocketAddr = if args.dut.is_some() {
        (Ipv4Addr::LOCALHOST, EXTERNAL_AUTH_PORT).into()
    } else {
        site.auth_for_dut()
    };
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
        listen: vec![args.auth_listen.unwrap_or(own)],
        threads: args.site.auth_threads.unwrap_or(1).max(1),
        cpus: cpus.to_vec(),
        io,
        device: site.device(Role::Auth, Role::Dut),
        ..AuthorityConfig::default()
    };
    let started = site.at(Role::Auth, || Authority::start(Arc::new(zone), &config));
    let authority = started
        .map_err(|error| Failure::new(EXIT_UNFIT, error))?
        .map_err(|error| Failure::new(EXIT_UNFIT, error))?;
    Ok(Auth { authority, hosted })
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

/// The port of the AuthDNS that a server of the user's forwards to, unless told otherwise.
const EXTERNAL_AUTH_PORT: u16 = 5300;
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
