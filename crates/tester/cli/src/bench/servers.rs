//! The servers around the Measurer: the AuthDNS, and the server under test.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use measurer::transport::stream::{Protocol, StreamConfig};
use record::Dut;
use sys::bpf::Attached;
use tempfile::TempDir;

use super::super::{EXIT_FAILED, EXIT_UNFIT, EXIT_USAGE};
use super::{authoritative, peer_failure};
use crate::failure::Failure;
use crate::options::{QueryArgs, process};
use authdns::{Authority, AuthorityConfig, Io, OBSERVED_QUERIES, Observer, Zone, ZoneConfig};
use campaign::{Auth, AuthThreads, DUT_PORT, Site, Tester};
use lab::environment::PathDevices;
use lab::network::Role;
use lab::observe::ProcessCounters;
use lab::peers::{self, PeerSettings, Probe, RunningPeer, Server, Streams, Transport, reachable};

/// The server under test, and what its AuthDNS has.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerArgs {
    /// The server to measure: dns64d, or one from a Debian package (see: sextant peers list)
    #[arg(long, value_name = "NAME", default_value = "dns64d", conflicts_with = "dut")]
    pub peer: String,
    /// Measure an authoritative server, whose zone holds all --names (see: sextant peers list
    /// --authoritative)
    #[arg(long, value_name = "NAME", conflicts_with_all = ["peer", "dut", "auth_listen"])]
    pub authoritative: Option<String>,
    /// Address of a server that you run; without ADDR the IPv6 loopback address
    #[arg(long, value_name = "[ADDR]:PORT", value_parser = parse_dut)]
    pub dut: Option<SocketAddr>,
    /// Process ID of the server, if it runs on this machine [default: found by its socket]; its processor
    /// time, memory and socket drops are read
    #[arg(long, value_name = "PID", requires = "dut", value_parser = process)]
    pub pid: Option<u32>,
    /// Where the AuthDNS answers; your server must forward the zone there
    /// [default: a free port of 127.0.0.1, and 127.0.0.1:5300 with --dut]
    #[arg(long, value_name = "ADDR:PORT")]
    pub auth_listen: Option<SocketAddr>,
    /// Processors of the server under test [default: those that the Tester leaves]
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "dut")]
    pub dut_cpus: Vec<usize>,
    /// TTL of the records in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub ttl: u32,
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

/// What the servers are started for.
pub struct Setup<'a> {
    pub server: &'a ServerArgs,
    pub query: &'a QueryArgs,
    /// Threads of the AuthDNS.
    pub auth_threads: AuthThreads,
    /// How the server is asked by connections, and how many; none: over UDP.
    pub streams: Option<(Transport, u64)>,
}

/// The servers around the Measurer.
pub struct Servers {
    /// The AuthDNS behind it; none if it is authoritative itself.
    pub auth: Option<Auth>,
    /// Where the server under test answers.
    pub server: SocketAddr,
    /// It, if it is ours.
    pub running: Option<RunningPeer>,
    pub dut: Dut,
    auth_cpus: Vec<usize>,
    /// What it has loaded, if it is authoritative.
    _zone: Option<TempDir>,
    /// Lets the DUT receive what an XDP program of the AuthDNS sends, or the Tester what one of the DUT
    /// sends.
    _pass: Option<Attached>,
}

impl Servers {
    /// Starts them; the AuthDNS answers by this back-end, in the Measurer's thread if it is hosted.
    pub fn start(
        args: &Setup<'_>,
        site: &Site,
        tester: &Tester,
        (io, hosted): (Io, bool),
    ) -> Result<Self, Failure> {
        let unfit = |error: io::Error| Failure::new(EXIT_UNFIT, error);
        let usable = sys::cpu::available();
        let mut free: Vec<usize> = usable.iter().copied().filter(|cpu| !tester.cpus.contains(cpu)).collect();
        if let Some(name) = &args.server.authoritative {
            return Self::start_authoritative(name, args, site, (tester, &free));
        }
        let auth_cpus = take_auth_cpus(&args.auth_threads, (io, hosted), &mut free);
        let auth = start_auth(args, site, (io, hosted), &auth_cpus)?;
        let takes_devices =
            args.server.dut.is_none() && peers::find(&args.server.peer).is_ok_and(Server::is_xdp);
        let pass = if takes_devices { None } else { site.hold_pass(Role::Dut, io).map_err(unfit)? };
        let auth_at = reachable(auth.authority.local_addrs()[0]);
        let probe = probe(args, tester)?;
        let auth = Some(auth);
        if let Some(server) = args.server.dut {
            // By connections, the caller asks it.
            if args.streams.is_none() {
                external_is_ready(&probe, server, auth_at, args, &tester.stop)?;
            }
            let dut = Dut { name: Dut::EXTERNAL.into(), address: server.to_string(), ..Dut::default() };
            return Ok(Self { auth, server, running: None, dut, auth_cpus, _zone: None, _pass: pass });
        }
        let cpus = args.server.cpus(&free);
        let listen = listen_at(site, DUT_PORT)?;
        let streams = streams_at(args, site, listen)?;
        let running = start_peer(args, site, (listen, auth_at, streams), &cpus, &probe, &tester.stop)?;
        let server = streams.map_or(listen, |streams| streams.listen);
        let dut = Dut { address: server.to_string(), ..dut(&running, cpus) };
        Ok(Self { auth, server, running: Some(running), dut, auth_cpus, _zone: None, _pass: pass })
    }

    /// A server that has the zone itself.
    fn start_authoritative(
        name: &str,
        args: &Setup<'_>,
        site: &Site,
        (tester, free): (&Tester, &[usize]),
    ) -> Result<Self, Failure> {
        let (cpus, server, probe) =
            (args.server.cpus(free), listen_at(site, DUT_PORT)?, probe(args, tester)?);
        let authoritative::Started { running, names, zone, pass } =
            authoritative::start(name, (args, site, tester), (server, &cpus), &probe)?;
        let dut = Dut { zone_names: Some(names), ..dut(&running, cpus) };
        let (auth, auth_cpus, running) = (None, Vec::new(), Some(running));
        Ok(Self { auth, server, running, dut, auth_cpus, _zone: Some(zone), _pass: pass })
    }

    /// Its process, if it is ours.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(RunningPeer::pid)
    }

    /// What of this machine's network lies on the way between Tester, server and AuthDNS.
    pub fn path_devices(&self, site: &Site) -> PathDevices {
        let auth = self.auth.as_ref().map(|auth| auth.authority.local_addrs()[0].ip());
        match site {
            Site::Lab(_) => PathDevices::Lab,
            Site::Loopback => PathDevices::of(self.server, auth),
        }
    }

    pub(crate) fn auth_in_words(&self) -> String {
        let Some(Auth { authority, hosted }) = &self.auth else {
            return "none: the server has the zone".to_owned();
        };
        let (at, io) = (authority.local_addrs()[0], authority.io());
        match (*hosted, self.auth_cpus.as_slice()) {
            (true, _) => format!("{at}, in the Measurer's first thread"),
            (false, _) if io == Io::Kernel => format!("{at}, in the kernel"),
            (false, []) => format!("{at}, io {io}, threads of its own"),
            (false, cpus) => format!("{at}, io {io}, threads on processors {cpus:?}"),
        }
    }
}

impl ServerArgs {
    /// What the server is called.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn name(&self) -> Result<&'static str, Failure> {
        match (&self.authoritative, self.dut) {
            (Some(name), _) => {
                peers::authoritative::find(name).map(|server| server.name).map_err(peer_failure)
            }
            (None, Some(_)) => Ok(Dut::EXTERNAL),
            (None, None) => peers::find(&self.peer).map(|peer| peer.name).map_err(peer_failure),
        }
    }

    /// The processors of the server, of those that nobody else has.
    fn cpus(&self, free: &[usize]) -> Vec<usize> {
        match (self.dut_cpus.as_slice(), free) {
            ([], []) => sys::cpu::available(),
            ([], free) => free.to_vec(),
            (chosen, _) => chosen.to_vec(),
        }
    }
}

/// The processors of the AuthDNS, taken from the free ones: those chosen, else one for each thread, of which
/// the server keeps one.
fn take_auth_cpus(threads: &AuthThreads, (io, hosted): (Io, bool), free: &mut Vec<usize>) -> Vec<usize> {
    // A program in the kernel works where its queries come from.
    if hosted || io == Io::Kernel {
        return Vec::new();
    }
    if threads.cpus.is_empty() {
        return free.split_off(free.len() - threads.number().min(free.len().saturating_sub(1)));
    }
    free.retain(|cpu| !threads.cpus.contains(cpu));
    threads.cpus.clone()
}

/// What a server that is started is told of connections.
fn streams_at(args: &Setup<'_>, site: &Site, plain: SocketAddr) -> Result<Option<Streams>, Failure> {
    let Some((transport, connections)) = args.streams else { return Ok(None) };
    let listen = if transport == Transport::Tcp { plain } else { listen_at(site, ENCRYPTED_PORT)? };
    Ok(Some(Streams { transport, listen, connections }))
}

/// How a server that is started is asked by connections, and how many it must take.
pub fn streams(streams: &StreamConfig) -> (Transport, u64) {
    (transport(streams), most_connections(streams))
}

/// What the server is told of the transport.
fn transport(streams: &StreamConfig) -> Transport {
    match streams.protocol {
        Protocol::Tcp => Transport::Tcp,
        Protocol::Dot => Transport::Dot,
        Protocol::Doh => Transport::Doh,
        Protocol::Doq => Transport::Doq,
        Protocol::Doh3 => Transport::Doh3,
    }
}

/// The connections that a server must take at a time: while one waits for its last answers, its client has
/// the next one; and the server may learn of an end after the next beginning.
fn most_connections(streams: &StreamConfig) -> u64 {
    let connections = streams.connections as u64;
    if streams.queries_each.mean().is_none() {
        connections + SPARE_CONNECTIONS
    } else {
        4 * connections + SPARE_CONNECTIONS
    }
}

/// Connections for the question whether the server answers.
const SPARE_CONNECTIONS: u64 = 16;

/// Where a server that is started answers; in a lab at this port.
fn listen_at(site: &Site, port: u16) -> Result<SocketAddr, Failure> {
    match site {
        Site::Loopback => peers::free_port(site.dut()).map_err(|error| Failure::new(EXIT_UNFIT, error)),
        Site::Lab(_) => Ok((site.dut(), port).into()),
    }
}

/// A server that has just answered, for the record.
fn dut(running: &RunningPeer, cpus: Vec<usize>) -> Dut {
    Dut {
        name: running.name.into(),
        version: running.version.clone(),
        address: running.listen.to_string(),
        cpus,
        configuration: Some(running.configuration.clone()),
        start_s: Some(running.start.as_secs_f64()),
        start_memory_octets: ProcessCounters::of(running.pid()).map(|counters| counters.memory_octets()),
        zone_names: None,
    }
}

/// The port of a server in a lab over TLS, HTTPS or QUIC: it runs without privileges.
const ENCRYPTED_PORT: u16 = 8853;

/// Starts the server and asks it over UDP until it answers rightly.
fn start_peer(
    args: &Setup<'_>,
    site: &Site,
    (listen, auth, streams): (SocketAddr, SocketAddr, Option<Streams>),
    cpus: &[usize],
    probe: &Probe,
    stop: &AtomicBool,
) -> Result<RunningPeer, Failure> {
    let peer = peers::find(&args.server.peer).map_err(peer_failure)?;
    if peer.only_forwards && args.query.aaaa_share < 100 {
        let message = format!(
            "{} forwards and does not synthesize: ask it for names that have AAAA records (--aaaa-share 100)",
            peer.name
        );
        return Err(Failure::new(EXIT_USAGE, message));
    }
    let mut settings = PeerSettings::new(listen, auth, args.query.prefix, args.query.suffix, cpus.to_vec());
    settings.namespace = site.namespace(Role::Dut);
    settings.devices = site.dut_devices();
    settings.streams = streams;
    let started = site.at(Role::Tester, || peers::start(peer, settings, probe, stop));
    started.map_err(|error| Failure::new(EXIT_UNFIT, error))?.map_err(peer_failure)
}

/// The AuthDNS behind the DUT.
fn start_auth(
    args: &Setup<'_>,
    site: &Site,
    (io, hosted): (Io, bool),
    cpus: &[usize],
) -> Result<Auth, Failure> {
    let own: SocketAddr = if args.server.dut.is_some() {
        (Ipv4Addr::LOCALHOST, EXTERNAL_AUTH_PORT).into()
    } else {
        site.auth_for_dut()
    };
    let zone = ZoneConfig {
        suffix: args.query.suffix.to_string(),
        ttl_s: args.server.ttl,
        negative_ttl_s: args.server.ttl,
        aaaa_share_percent: args.query.aaaa_share,
        aaaa_prefix: args.query.aaaa_prefix,
        ..ZoneConfig::default()
    };
    let zone = Zone::new(zone).map_err(|error| Failure::new(EXIT_USAGE, error))?;
    let config = AuthorityConfig {
        listen: vec![args.server.auth_listen.unwrap_or(own)],
        threads: args.auth_threads.number(),
        cpus: cpus.to_vec(),
        in_threads: args.auth_threads.are_chosen(),
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
fn probe(args: &Setup<'_>, tester: &Tester) -> Result<Probe, Failure> {
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
    args: &Setup<'_>,
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
