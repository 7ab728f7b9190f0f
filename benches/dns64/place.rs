//! Where it is measured: a lab of namespaces with the Tester at one end, the AuthDNS at the other, and the
//! server between them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use authdns::{Authority, AuthorityConfig, Io, Rules, Zone, ZoneConfig};
use campaign::{
    Auth, AuthThreads, BackendChoice, DUT_PORT, Loopback, PathChoice, SECOND_NS, Site, Target, Tester,
    loop_back,
};
use dns64::wire::Name;
use dns64::{NameSpace, Prefix};
use engine::pacer::Model;
use engine::trial::Validity;
use engine::verdict::Limits;
use engine::workload::{Variation, WorkloadSpec};
use lab::network::Role;
use lab::peers::{self, PeerSettings, Probe, RunningPeer, Server};
use measurer::transport::{Backend, Sources};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use sys::bpf::Attached;

use crate::options::Options;

/// Source ports of the Tester: as many clients.
const SOURCE_PORTS: usize = 64;
/// The Tester's receive buffer for each port, in octets.
const RECEIVE_BUFFER_OCTETS: usize = 8 << 20;
/// An answer is late after this (RFC 8219 9.2), in ns.
const TIMEOUT_NS: u64 = SECOND_NS;
/// The TTL of all records in seconds: longer than any server runs.
const TTL_S: u32 = 3600;
/// The index of the first name asked of a server; the names that shall be cached lie before it.
const FIRST_NAME: u64 = 1 << 20;

/// The lab and what lies in it. The site goes last, when nobody is at it.
pub struct Placement {
    /// The processors of servers, in the order in which they get them; the last is the Tester's.
    cpus: Vec<usize>,
    /// How many the present server has.
    cores: usize,
    tester: Tester,
    target: Target,
    auth_io: Io,
    hosted: bool,
    auth: Option<(u8, Auth)>,
    stop: Arc<AtomicBool>,
    /// Lets a server receive what a program of the AuthDNS sends, unless it has a program of its own.
    pass: Option<Attached>,
    site: Site,
}

impl Placement {
    /// Builds the lab and finds the fastest AuthDNS that works there.
    ///
    /// # Errors
    /// No privileges, one processor, or a back-end that does not run here.
    pub fn new(options: &Options) -> io::Result<Self> {
        let (io, random_lengths) = (options.io, options.random_lengths);
        sys::process::raise_file_limit();
        let stop = stop_on_signals()?;
        let (site, _) = Site::make(PathChoice::Lab)?;
        let cpus = sys::cpu::available();
        let (Some(&last), true) = (cpus.last(), cpus.len() > 1) else {
            return Err(io::Error::other("two processors are needed, one of them for the Tester"));
        };
        let mut tester = tester(io, last, &stop);
        let target = target((site.dut(), DUT_PORT).into(), random_lengths)?;
        let wanted = BackendChoice {
            backends: vec![io],
            // The program in the kernel answers names of one length.
            auth_ios: if random_lengths { vec![Io::Udp] } else { vec![Io::Kernel, Io::Xdp, Io::Udp] },
            auth_threads: AuthThreads::default(),
            notes: Vec::new(),
        };
        // It goes again at once: only which of them work is of interest.
        let Loopback { auth, .. } = loop_back(&site, &mut tester, &target, &wanted).map_err(|error| {
            io::Error::other(match error {
                campaign::LoopbackError::Interrupted => "interrupted".to_owned(),
                campaign::LoopbackError::Nothing { why, .. } => why,
            })
        })?;
        let (auth_io, hosted) = (auth.authority.io(), auth.hosted);
        drop(auth);
        Ok(Self { cpus, cores: 1, tester, target, auth_io, hosted, auth: None, stop, pass: None, site })
    }

    /// Whether it goes on.
    ///
    /// # Errors
    /// Somebody ended it.
    pub fn goes_on(&self) -> io::Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(io::Error::other("interrupted")) } else { Ok(()) }
    }

    /// How queries leave, and how the AuthDNS answers.
    pub fn in_words(&self) -> String {
        format!(
            "the Measurer with --io {}, the AuthDNS with --io {}",
            self.tester.backend.name(),
            self.auth_io
        )
    }

    /// Whether names have random lengths.
    pub fn random_lengths(&self) -> bool {
        self.target.workload.variation.any_response
    }

    /// Whether a server with so many cores has that of the Tester, too.
    pub fn shares(&self, cores: usize) -> bool {
        cores >= self.cpus.len()
    }

    /// The processors of the present server.
    pub fn server_cpus(&self) -> &[usize] {
        &self.cpus[..self.cores]
    }

    /// Starts a server on its cores, empty of names, and waits until it answers rightly.
    ///
    /// # Errors
    /// It does not start or does not answer.
    pub fn start(&mut self, server: &Server, cores: usize) -> io::Result<RunningPeer> {
        self.serve(0)?;
        self.cores = cores.clamp(1, self.cpus.len());
        let auth = self.site.auth_for_dut();
        let spec = &self.target.workload;
        let cpus = self.server_cpus().to_vec();
        let mut settings = PeerSettings::new(self.target.server, auth, spec.prefix, spec.suffix, cpus);
        settings.namespace = self.site.namespace(Role::Dut);
        settings.devices = self.site.dut_devices();
        // Two cannot be at one device.
        self.pass = None;
        if !server.is_xdp() {
            self.pass = self.site.hold_pass(Role::Dut, self.auth_io)?;
        }
        // Neither among the names that are asked once nor among those that are cached.
        let probe = Probe::synthesized(spec.names.address(0), &spec.suffix, &spec.prefix);
        let probe = probe.map_err(|error| io::Error::other(error.0))?;
        let started = self.site.at(Role::Tester, || peers::start(server, settings, &probe, &self.stop))?;
        let running = started.map_err(io::Error::other)?;
        self.target.pids = vec![running.pid()];
        self.tester.next_name = FIRST_NAME;
        // Where the server has the Tester's processor, too, it must not starve there.
        self.tester.alone = !self.shares(cores);
        Ok(running)
    }

    /// The Tester, its target and the AuthDNS whose zone has AAAA records for this share of the names.
    ///
    /// # Errors
    /// The AuthDNS does not start.
    pub fn parts(&mut self, aaaa_pct: u8) -> io::Result<(&mut Tester, Target, &Auth)> {
        self.serve(aaaa_pct)?;
        let target = self.target.clone();
        let auth = self.auth.as_ref().map(|(_, auth)| auth).ok_or_else(|| io::Error::other("no AuthDNS"))?;
        Ok((&mut self.tester, target, auth))
    }

    /// Sees to an AuthDNS with this zone.
    fn serve(&mut self, aaaa_pct: u8) -> io::Result<()> {
        if self.auth.as_ref().is_some_and(|(share, _)| *share == aaaa_pct) {
            return Ok(());
        }
        // Two cannot be at one address.
        self.auth = None;
        let spec = &self.target.workload;
        let zone = ZoneConfig {
            suffix: spec.suffix.to_string(),
            ttl_s: TTL_S,
            negative_ttl_s: TTL_S,
            aaaa_share_percent: aaaa_pct,
            aaaa_prefix: native_prefix()?,
            rules: Rules { short: self.random_lengths(), ..Rules::default() },
            ..ZoneConfig::default()
        };
        let zone = Arc::new(Zone::new(zone).map_err(io::Error::other)?);
        let config = AuthorityConfig {
            listen: vec![self.site.auth_for_dut()],
            cpus: AuthThreads::default().processors(&self.tester, self.auth_io, self.hosted),
            io: self.auth_io,
            device: self.site.device(Role::Auth, Role::Dut),
            ..AuthorityConfig::default()
        };
        let started = self.site.at(Role::Auth, || Authority::start(zone, &config))?;
        let authority = started.map_err(io::Error::other)?;
        self.auth = Some((aaaa_pct, Auth { authority, hosted: self.hosted }));
        Ok(())
    }
}

/// The prefix of the AAAA records that names have of their own.
///
/// # Errors
/// None: it is a prefix.
pub fn native_prefix() -> io::Result<Prefix> {
    "2001:2:0:aaaa::/96".parse().map_err(io::Error::other)
}

fn tester(backend: Backend, cpu: usize, stop: &Arc<AtomicBool>) -> Tester {
    Tester {
        cpus: vec![cpu],
        backend,
        source_ports: SOURCE_PORTS,
        sources: Sources::default(),
        receive_buffer_octets: RECEIVE_BUFFER_OCTETS,
        next_name: FIRST_NAME,
        alone: false,
        stop: Arc::clone(stop),
        watch: Arc::default(),
        namespace: None,
    }
}

fn target(server: SocketAddr, random_lengths: bool) -> io::Result<Target> {
    // Enough names that no closed loop comes round to those it has asked.
    let names: NameSpace = "16.0.0.0/4".parse().map_err(io::Error::other)?;
    let workload = WorkloadSpec {
        names,
        first_name: FIRST_NAME,
        suffix: Name::from_text("dns64perf.test").map_err(|error| io::Error::other(error.0))?,
        prefix: "2001:db8:64::/96".parse().map_err(io::Error::other)?,
        native: None,
        edns_octets: None,
        variation: Variation { any_response: random_lengths, ..Variation::default() },
    };
    Ok(Target {
        server,
        workload,
        timeout_ns: TIMEOUT_NS,
        listen_ns: TIMEOUT_NS,
        streams: None,
        limits: Limits::for_timeout(TIMEOUT_NS),
        // Which name a recorded query asks is not known: then any answer record of a NOERROR response counts.
        validity: if random_lengths { Validity::Compat } else { Validity::Strict },
        load: Model::Constant,
        pids: Vec::new(),
        log: false,
        replay: None,
        connections_stand: false,
    })
}

/// Set by Ctrl-C, so that server and lab go; a second one ends the program at once.
fn stop_on_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}
