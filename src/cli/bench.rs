//! `sextant bench`: the main job.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use engine::record::{Dut, Environment, Results, Settings};
use engine::search::Mode;

use super::common::{Failure, QueryArgs, TesterArgs, print, print_json, rate, seconds};
use super::{EXIT_FAILED, EXIT_UNFIT, EXIT_USAGE};
use crate::authority::{Authority, AuthorityConfig, Zone, ZoneConfig};
use crate::campaign::{
    self, Auth, Bench, Ended, Plan, Preset, Progress, Store, Target, Tester, direct_auth, empty_results,
    reachable, short_duration,
};
use crate::lab::environment::{Manifest, facts, preflight};
use crate::lab::peers::{self, PeerSettings, Probe, RunningPeer};
use crate::report;

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
}

/// Options of every search.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Search")]
pub struct SearchOptions {
    /// Lengths and counts
    #[arg(long, value_enum, default_value_t)]
    pub preset: Preset,
    /// Repetitions of the search [preset: 3 or 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repetitions: Option<u32>,
    /// Length of a trial in seconds [preset: 2 or 60]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<Duration>,
    /// How to search [preset: verify or rfc8219]
    #[arg(long = "search", value_enum, value_name = "MODE")]
    pub mode: Option<ModeArg>,
    /// Stop when the bracket is narrower than this share of the rate, in percent [preset: 2 or 0.5]
    #[arg(long, value_name = "PERCENT")]
    pub width: Option<f64>,
    /// Lowest rate to try, in q/s
    #[arg(long, value_name = "N", value_parser = rate)]
    pub min_rate: Option<u64>,
    /// Highest rate to try, in q/s; with --search fixed the rate
    #[arg(long, value_name = "N", value_parser = rate, default_value = "100000")]
    pub max_rate: u64,
    /// Result directory [default: results/TIME-NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print results.json on standard output
    #[arg(long)]
    pub json: bool,
}

/// `--search`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// Bisection, every trial counts.
    Rfc8219,
    /// Bisection, a rate fails only when it failed twice.
    Verify,
    /// Trials at --max-rate only.
    Fixed,
}

impl SearchOptions {
    /// The plan of the preset, changed as told.
    ///
    /// # Errors
    /// Rates or a width that make no search.
    pub fn plan(&self, timeout_ns: u64) -> Result<Plan, Failure> {
        let usage = |message: &str| Failure::new(EXIT_USAGE, message);
        let preset = Plan::new(self.preset, timeout_ns, self.max_rate);
        let mode = match self.mode {
            Some(ModeArg::Rfc8219) => Mode::Rfc8219,
            Some(ModeArg::Verify) => Mode::Verify,
            Some(ModeArg::Fixed) => Mode::Fixed { trials: 1 },
            None => preset.mode,
        };
        let mut plan = Plan {
            trial_ns: self.duration.map_or(preset.trial_ns, |duration| duration.as_nanos() as u64),
            repetitions: self.repetitions.unwrap_or(preset.repetitions),
            width_pct: self.width.unwrap_or(preset.width_pct),
            range_qps: [self.min_rate.unwrap_or(preset.range_qps[0]), self.max_rate],
            mode,
            ..preset
        };
        if plan != preset {
            plan.preset = "custom";
        }
        if plan.range_qps[0] > plan.range_qps[1] {
            return Err(usage("--min-rate is above --max-rate"));
        }
        if !(0.01..=50.0).contains(&plan.width_pct) {
            return Err(usage("--width must be from 0.01 to 50 percent"));
        }
        Ok(plan)
    }

    /// The part of the record's settings that the plan fixes.
    pub fn settings(plan: &Plan, base: Settings) -> Settings {
        Settings {
            preset: plan.preset.into(),
            search: plan.mode_name().into(),
            repetitions: plan.repetitions,
            trial_s: plan.trial_ns as f64 / 1e9,
            settle_s: plan.settle_ns as f64 / 1e9,
            width_pct: plan.width_pct,
            rate_range_qps: plan.range_qps,
            ..base
        }
    }
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
    let mut tester = args.tester.tester(args.query.first_name())?;
    let progress = Progress::new(args.search.json);
    let lab = Lab::start(args, &tester)?;
    tester.alone = lab.running.is_some() && lab.dut.cpus.iter().all(|cpu| !tester.cpus.contains(cpu));
    let target = Target { pid: lab.pid(), ..args.query.target(lab.server, plan.listen_ns) };

    let loop_listen = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    let hosted = lab.auth.hosted;
    let looped =
        direct_auth(&target, &[loop_listen], hosted).map_err(|error| Failure::new(EXIT_UNFIT, error))?;
    let loop_target = Target { server: looped.authority.local_addrs()[0], pid: None, ..target.clone() };

    let mut results = empty_results("bench");
    results.dut = lab.dut.clone();
    results.settings = SearchOptions::settings(&plan, args.query.settings(&tester));
    results.settings.ttl_s = Some(args.ttl);
    results.settings.auth = lab.auth_in_words();
    let name = results.dut.name.clone();
    let Lab { auth, mut running, .. } = lab;
    let mut alive =
        || running.as_mut().map_or(Ok(()), |peer| peer.check_alive().map_err(|died| died.to_string()));
    let measured = conduct(
        &args.search,
        Conduct {
            name: &name,
            plan,
            tester,
            target,
            auth: Some(auth),
            selftest: Some((loop_target, looped)),
            progress,
            alive: &mut alive,
            before,
        },
        results,
    )?;
    if let Some(peer) = running {
        keep_log(&measured.directory, &name, peer);
    }
    measured.ended
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
        let peer_failure = |error: peers::PeerError| Failure::new(error.exit_code(), error);
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
        probe.expected = args.query.aaaa_prefix.embed(last);
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

/// What [`conduct`] needs.
pub struct Conduct<'a> {
    /// The server's name, for the directory.
    pub name: &'a str,
    /// Lengths and counts.
    pub plan: Plan,
    /// The Tester.
    pub tester: Tester,
    /// The server.
    pub target: Target,
    /// Its AuthDNS, if it is ours.
    pub auth: Option<Auth>,
    /// The Tester looped back.
    pub selftest: Option<(Target, Auth)>,
    /// What the person sees.
    pub progress: Progress,
    /// Whether the server still runs.
    pub alive: &'a mut dyn FnMut() -> Result<(), String>,
    /// The machine at the start.
    pub before: Manifest,
}

/// A finished measurement.
pub struct Conducted {
    /// The exit code, or why it did not come to its end.
    pub ended: Result<ExitCode, Failure>,
    /// The result directory.
    pub directory: PathBuf,
}

/// Runs a measurement, prints its result and says where the record lies.
///
/// # Errors
/// The record cannot be begun; nothing was measured.
pub fn conduct(
    options: &SearchOptions,
    conduct: Conduct<'_>,
    results: Results,
) -> Result<Conducted, Failure> {
    let Conduct { name, plan, tester, target, auth, selftest, progress, alive, before } = conduct;
    let base = PathBuf::from("results");
    let store = Store::create(&base, options.out.as_deref(), name, SystemTime::now())
        .map_err(|error| Failure::new(EXIT_UNFIT, error))?;
    let directory = store.directory().to_path_buf();
    announce(&progress, options, &plan, &results, &before)?;
    store.save_json("manifest.json", &before).map_err(|error| Failure::new(EXIT_UNFIT, error))?;
    let environment = || {
        let after = Manifest::take();
        Environment {
            facts: facts(&before, Some(&after)),
            findings: preflight(&before).into_iter().map(Into::into).collect(),
        }
    };
    let bench =
        Bench { plan, tester, target, auth, selftest, store, progress, alive, environment: &environment };
    let (results, ended) = campaign::run(bench, results);
    let printed = if options.json {
        print_json(&results)
    } else {
        let report_at = directory.join("report.html");
        print(&format!("{}\nReport: {}\n", report::text(&results), report_at.display()))
    };
    let ended = exit_code(&results, ended, &directory).and_then(|code| printed.map(|()| code.into()));
    Ok(Conducted { ended, directory })
}

/// Says what will be done and how long it takes: where the progress is shown, else with the result.
fn announce(
    progress: &Progress,
    options: &SearchOptions,
    plan: &Plan,
    results: &Results,
    before: &Manifest,
) -> Result<(), Failure> {
    let Dut { name, version, address, .. } = &results.dut;
    let mut lines = vec![format!("Sextant {}: {name} {version} at {address}", env!("CARGO_PKG_VERSION"))];
    let findings = preflight(before).into_iter().map(engine::record::Finding::from);
    for finding in findings.filter(|finding| finding.severity != engine::record::Severity::Info) {
        lines.push(format!("  warning       {}: {}", finding.what, finding.evidence));
    }
    let time = short_duration(plan.forecast(plan.repetitions, plan.range_qps[1] / 2));
    let (preset, repetitions, seconds) = (plan.preset, plan.repetitions, plan.trial_ns as f64 / 1e9);
    let short = if seconds < 60.0 { ", shorter than the 60 s that RFC 8219 asks for" } else { "" };
    lines.push(format!(
        "  preset {preset}: {repetitions} repetitions with trials of {seconds} s{short}; this takes about {time}"
    ));
    for line in lines {
        if progress.is_shown() {
            progress.say(&line);
        } else if !options.json {
            print(&format!("{line}\n"))?;
        }
    }
    Ok(())
}

fn exit_code(results: &Results, ended: Ended, directory: &Path) -> Result<u8, Failure> {
    let kept = directory.display();
    let (code, reason) = match ended {
        Ended::Complete => {
            let found = results.summary.as_ref().is_some_and(|summary| summary.p1 > 0);
            return Ok(if found { 0 } else { EXIT_FAILED });
        }
        Ended::Record(error) => return Err(Failure::new(EXIT_UNFIT, error)),
        Ended::Interrupted => {
            return Err(Failure::new(
                EXIT_UNFIT,
                format!("interrupted; what was measured so far is in {kept}"),
            ));
        }
        Ended::Unfit(reason) => (EXIT_UNFIT, reason),
        Ended::ServerFailed(reason) => (EXIT_FAILED, reason),
        Ended::Measure(error) => {
            let failure = Failure::from(error);
            (failure.code, failure.to_string())
        }
    };
    Err(Failure::new(code, format!("{reason}; what was measured is in {kept}")))
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
