//! The lab: clients and attackers at one end, the upstream servers and the forger at the other, dns64d
//! between them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use authdns::{Authority, AuthorityConfig, Io, Observer, Zone, ZoneConfig};
use dns64::Prefix;
use dns64::wire::Name;
use lab::child::{DiedWith, Exit};
use lab::network::{Lab, LabSpec, Role};
use lab::peers::{self, Placement, Probe, RunningPeer};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use sys::bpf::Attached;

/// Where dns64d answers, for clients.
pub const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(198, 18, 12, 2), 5300);
/// The same over TLS.
pub const SERVER_TLS: SocketAddrV4 = SocketAddrV4::new(*SERVER.ip(), 5853);
/// From where dns64d asks.
pub const ASKS_FROM: Ipv4Addr = Ipv4Addr::new(198, 18, 23, 2);
/// The AuthDNS.
pub const AUTH: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(198, 18, 23, 3), 53);
/// The server of [`CHAINS`].
pub const CHAINS_SERVER: SocketAddrV4 = SocketAddrV4::new(*AUTH.ip(), 5302);
/// The server of the first zone in whose name the forger answers; further ones follow at the next ports.
const VICTIM_SERVER: SocketAddrV4 = SocketAddrV4::new(*AUTH.ip(), 6000);
/// What the zones that are asked for while answers are forged end in.
const VICTIM: &str = "victim.test";
/// The zone with costly chains.
pub const CHAINS: &str = "chains.test";
/// The zone of the measured client.
pub const SUFFIX: &str = "dns64perf.test";
const PREFIX: &str = "2001:db8:64::/96";
/// The networks, /24 each: the measured client's is that of the lab.
pub mod network {
    use std::net::Ipv4Addr;

    /// Floods of names that do not exist.
    pub const FLOOD: [u8; 3] = [198, 19, 1];
    /// Replays chains.
    pub const CHAINS: [u8; 3] = [198, 19, 2];
    /// Connections.
    pub const CONNECTIONS: [u8; 3] = [198, 19, 3];
    /// Asks what the forger answers.
    pub const FORGER: [u8; 3] = [198, 19, 4];
    /// Outside `allow`.
    pub const STRANGERS: [u8; 3] = [198, 19, 200];

    /// A host of a network.
    pub fn host([a, b, c]: [u8; 3], host: u8) -> Ipv4Addr {
        Ipv4Addr::new(a, b, c, host)
    }
}
/// The n-th zone whose answers are forged.
pub fn victim_zone(number: u16) -> String {
    format!("{number}.{VICTIM}")
}

/// The server of the n-th such zone, in whose name the forger answers.
pub fn victim_server(number: u16) -> SocketAddrV4 {
    SocketAddrV4::new(*VICTIM_SERVER.ip(), VICTIM_SERVER.port() + number)
}

/// How long dns64d may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(15);
/// Queries a second that dns64d takes from one network.
pub const QUERIES_PER_SECOND: u32 = 10_000;

/// The lab, which is removed with this value.
pub struct Site {
    lab: Lab,
    /// The processors: the first is dns64d's, the last that of all others.
    pub cpus: Vec<usize>,
    /// Set by Ctrl-C. A second one ends the program at once.
    pub interrupted: Arc<AtomicBool>,
}

impl Site {
    /// # Errors
    /// No privileges, or one processor.
    pub fn make() -> io::Result<Self> {
        sys::process::raise_file_limit();
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, interrupted.clone())?;
            signal_hook::flag::register(signal, interrupted.clone())?;
        }
        let cpus = sys::cpu::available();
        if cpus.len() < 2 {
            return Err(io::Error::other("two processors are needed, one of them for dns64d"));
        }
        let name = format!("attacks-{}", std::process::id());
        Ok(Self { lab: Lab::up(&LabSpec { name, ..LabSpec::default() })?, cpus, interrupted })
    }

    /// The namespace of a role.
    pub fn namespace(&self, role: Role) -> String {
        self.lab.namespace(role)
    }

    /// The processor of clients and attackers.
    pub fn other_cpu(&self) -> usize {
        self.cpus[self.cpus.len() - 1]
    }

    /// Whether it goes on.
    ///
    /// # Errors
    /// Somebody ended it.
    pub fn goes_on(&self) -> io::Result<()> {
        if self.interrupted.load(Ordering::Relaxed) { Err(io::Error::other("interrupted")) } else { Ok(()) }
    }

    /// The AuthDNS of the measured client's zone. It answers in the kernel, so that attackers do not delay
    /// it; one that observes answers on the processor of all others.
    ///
    /// # Errors
    /// It does not start.
    pub fn authority(&self, observer: Option<Arc<Observer>>) -> io::Result<Auth> {
        let zone =
            ZoneConfig { suffix: SUFFIX.into(), ttl_s: 3600, negative_ttl_s: 3600, ..ZoneConfig::default() };
        let config = AuthorityConfig {
            listen: vec![AUTH.into()],
            cpus: vec![self.other_cpu()],
            io: if observer.is_some() { Io::Udp } else { Io::Kernel },
            device: Some(self.lab.end(Role::Auth, Role::Dut).device),
            observer,
            ..AuthorityConfig::default()
        };
        let zone = Arc::new(Zone::new(zone).map_err(io::Error::other)?);
        let started = sys::netns::within(&self.namespace(Role::Auth), || Authority::start(zone, &config))?;
        let authority = started.map_err(io::Error::other)?;
        let pass = match authority.io() {
            Io::Kernel => Some(self.lab.attach_pass(Role::Dut, Role::Auth)?),
            _ => None,
        };
        Ok(Auth { _authority: authority, _pass: pass })
    }

    /// A name that no trial asks, by which a server is known to answer.
    pub fn probe() -> io::Result<Probe> {
        Probe::synthesized(Ipv4Addr::new(10, 255, 255, 255), &suffix()?, &prefix()?)
            .map_err(|error| io::Error::other(error.0))
    }

    /// Starts a thread on the processor of all others; it ends with the program.
    pub fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        let cpu = self.other_cpu();
        thread::spawn(move || {
            // Not being pinned would cost dns64d time: the attack is then the harder.
            let _ = sys::cpu::pin(cpu);
            work();
        });
    }

    /// Starts dns64d with the networks above in `allow`, with these zones whose answers are forged and with
    /// more keys, and waits until it answers.
    ///
    /// # Errors
    /// It does not.
    pub fn dns64d(&self, victims: Range<u16>, more: &str) -> io::Result<Server> {
        let server = peers::find("dns64d").map_err(io::Error::other)?;
        let place = Placement {
            listen: SERVER.into(),
            cores: vec![self.cpus[0]],
            namespace: Some(self.namespace(Role::Dut)),
            asked_from: Some(self.namespace(Role::Tester)),
            as_root: false,
            patience: PATIENCE,
        };
        let started = peers::start_with(server, &place, &Self::probe()?, &self.interrupted, |scratch| {
            let signed =
                rcgen::generate_simple_self_signed(vec!["dns.test".to_owned()]).map_err(io::Error::other)?;
            let certificate = scratch.write("certificate.pem", signed.cert.pem().as_bytes())?;
            let key = scratch.write("key.pem", signed.signing_key.serialize_pem().as_bytes())?;
            let text = format!(
                "{}[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n[control]\nsocket = {:?}\n",
                configuration(victims.clone(), more),
                scratch.path().join("control"),
            );
            let path = scratch.write("dns64d.toml", text.as_bytes())?;
            Ok((text, vec!["--config".into(), path.into()]))
        });
        Ok(Server { running: started.map_err(io::Error::other)? })
    }
}

/// The zone of the measured client.
///
/// # Errors
/// None: it is a name.
pub fn suffix() -> io::Result<Name> {
    crate::wire::name(SUFFIX)
}

/// The prefix of synthesized addresses.
///
/// # Errors
/// None: it is a prefix.
pub fn prefix() -> io::Result<Prefix> {
    PREFIX.parse().map_err(io::Error::other)
}

/// What every configuration begins with.
fn configuration(victims: Range<u16>, more: &str) -> String {
    let forward = |zone: &str, server: SocketAddrV4| {
        format!("[[forward]]\ndomains = [\"{zone}\"]\nupstreams = [\"{server}\"]\n")
    };
    let victims: String =
        victims.map(|number| forward(&victim_zone(number), victim_server(number))).collect();
    format!(
        "listen = [\"{SERVER}\", \"tls://{SERVER_TLS}\"]\n\
         upstreams = [\"{AUTH}\"]\nprefixes = [\"{PREFIX}\"]\n\
         allow = [\"198.18.12.0/24\", \"198.19.0.0/21\"]\nthreads = 1\nstream_threads = 1\n\
         limits.queries_per_second = {QUERIES_PER_SECOND}\nupstream.loop_probe = false\n{more}\n\
         {victims}{}",
        forward(CHAINS, CHAINS_SERVER)
    )
}

/// The AuthDNS at work. Dropping it stops it.
pub struct Auth {
    _authority: Authority,
    /// Lets dns64d's device receive what the program of the AuthDNS sends.
    _pass: Option<Attached>,
}

/// dns64d at work. Dropping it stops it.
pub struct Server {
    running: RunningPeer,
}

impl Server {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Its counters by their names.
    ///
    /// # Errors
    /// It does not tell.
    pub fn counters(&self) -> io::Result<BTreeMap<String, u64>> {
        let server = peers::find("dns64d").map_err(io::Error::other)?;
        let text = server.statistics(self.running.directory()).transpose()?.unwrap_or_default();
        let pair = |line: &str| {
            let (name, value) = line.split_once(char::is_whitespace)?;
            Some((name.trim_end_matches(':').to_owned(), value.trim().parse().ok()?))
        };
        Ok(text.lines().filter_map(pair).collect())
    }

    /// The most memory that it ever had, in MiB (`VmHWM`).
    ///
    /// # Errors
    /// It has ended.
    pub fn peak_mib(&self) -> io::Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib: f64 = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0.0);
        Ok(kib / 1024.0)
    }

    /// # Errors
    /// It ended by itself: what it said last.
    pub fn check_alive(&mut self) -> io::Result<()> {
        self.running.check_alive().map_err(io::Error::other)
    }

    /// Ends it by SIGTERM; its exit code.
    ///
    /// # Errors
    /// It did not end, or by a signal.
    pub fn end(mut self) -> io::Result<i32> {
        sys::process::terminate(self.pid())?;
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            match self.running.check_alive() {
                Err(DiedWith { exit: Exit::Code(code), .. }) => return Ok(code),
                Err(died) => return Err(io::Error::other(died)),
                Ok(()) => thread::sleep(Duration::from_millis(20)),
            }
        }
        Err(io::Error::other("dns64d does not end"))
    }
}
