//! The servers around the Measurer: the AuthDNS, and the server under test.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::record::Dut;
use net::bpf::Attached;

use super::super::common::Failure;
use super::super::{EXIT_FAILED, EXIT_UNFIT, EXIT_USAGE};
use super::{BenchArgs, peer_failure};
use crate::authority::{Authority, AuthorityConfig, Io, OBSERVED_QUERIES, Observer, Zone, ZoneConfig};
use crate::campaign::{Auth, DUT_PORT, Site, Tester, reachable};
use crate::lab::network::Role;
use crate::lab::peers::{self, Peer, PeerSettings, Probe, RunningPeer};

/// The servers around the Measurer.
pub(super) struct Servers {
    pub auth: Auth,
    /// Where the server under test answers.
    pub server: SocketAddr,
    /// It, if it is ours.
    pub running: Option<RunningPeer>,
    pub dut: Dut,
    auth_cpus: Vec<usize>,
    /// Lets the DUT receive what an XDP program of the AuthDNS sends.
    _pass: Option<Attached>,
}

impl Servers {
    /// Starts them; the AuthDNS works as that of the self-test does.
    pub fn start(args: &BenchArgs, site: &Site, tester: &Tester, looped: &Auth) -> Result<Self, Failure> {
        let unfit = |error: io::Error| Failure::new(EXIT_UNFIT, error);
        let usable = net::cpu::available();
        let (io, hosted) = (looped.authority.io(), looped.hosted);
        let mut free: Vec<usize> = usable.iter().copied().filter(|cpu| !tester.cpus.contains(cpu)).collect();
        // A program in the kernel works where its queries come from.
        let busy = if hosted || io == Io::Kernel { 0 } else { args.site.auth_threads.unwrap_or(1).max(1) };
        let auth_cpus = free.split_off(free.len() - busy.min(free.len().saturating_sub(1)));
        let auth = start_auth(args, site, (io, hosted), &auth_cpus)?;
        let takes_devices = args.dut.is_none() && peers::find(&args.peer).is_ok_and(Peer::takes_devices);
        let pass = if takes_devices { None } else { site.hold_pass(Role::Dut, io).map_err(unfit)? };
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

    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(RunningPeer::pid)
    }

    pub fn auth_in_words(&self) -> String {
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
    settings.devices = site.dut_devices();
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
        observer: Some(Observer::asleep(OBSERVED_QUERIES)),
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
