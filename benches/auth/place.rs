//! Where it is measured: a lab of namespaces, the servers in it, and what they cost.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use authdns::zone_file::ZoneFile;
use authdns::{Zone, ZoneConfig};
use cli::output::write_to;
use dns64::wire::Name;
use lab::network::{Lab, LabSpec, Role};
use lab::peers::authoritative::{self, ZoneSettings};
use lab::peers::{self, Placement as Where, Probe, RunningPeer, start_with};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use sys::bpf::Attached;

use crate::usage::Usage;
use figures::auth::Buffer;

/// The processor of the server: Knot pins its first worker here, whatever it is told.
pub const SERVER_CPU: usize = 0;
/// The processor of the load generator.
pub const TESTER_CPU: usize = 1;
/// Where the servers listen.
const PORT: u16 = 5300;
/// The name of the zone.
const SUFFIX: &str = "dns64perf.test";
/// The socket buffers that servers are told to ask for where they can be told, in octets. What they have is
/// read back ([`Placement::receive_buffers`]).
const BUFFER_OCTETS: u64 = 8 << 20;

/// A server with one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// `sextant auth` with this back-end.
    Ours(&'static str),
    /// A peer by its name in [`authoritative`].
    Peer(&'static str),
}

impl Subject {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 8] = [
        Self::Ours("udp"),
        Self::Peer("nsd"),
        Self::Peer("knot"),
        Self::Peer("bind"),
        Self::Peer("yadifa"),
        Self::Ours("xdp"),
        Self::Peer("knot-xdp"),
        Self::Ours("kernel"),
    ];

    /// The name in tables.
    pub fn name(self) -> String {
        match self {
            Self::Ours(io) => figures::auth::ours(io),
            Self::Peer("nsd") => "NSD".into(),
            Self::Peer("knot") => "Knot".into(),
            Self::Peer("knot-xdp") => "Knot, AF_XDP".into(),
            Self::Peer("bind") => "BIND".into(),
            Self::Peer("yadifa") => "YADIFA".into(),
            Self::Peer(name) => name.into(),
        }
    }

    /// Whether an XDP program of its own takes the queries.
    pub fn is_xdp(self) -> bool {
        matches!(self, Self::Ours("xdp" | "kernel") | Self::Peer("knot-xdp"))
    }

    /// Whether it answers from a rule, so that the number of names costs nothing.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Ours(_))
    }
}

/// The zone of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Content {
    /// There are 2 to the power of so many names, 10.0.0.1 among the addresses they stand for.
    pub names_bits: u8,
    /// Percentage of the names that have AAAA records beside their A records.
    pub aaaa_share: u8,
}

impl Content {
    /// The range of names, as on a command line.
    pub fn names(self) -> String {
        // The range around 10.0.0.0: the name that servers are asked at their start is in each of them.
        let first = if self.names_bits < 32 { 0x0a00_0000 >> self.names_bits << self.names_bits } else { 0 };
        format!("{}/{}", Ipv4Addr::from_bits(first), 32 - self.names_bits)
    }

    fn config(self) -> io::Result<ZoneConfig> {
        let names = self.names().parse().map_err(io::Error::other)?;
        Ok(ZoneConfig { names: Some(names), aaaa_share_percent: self.aaaa_share, ..ZoneConfig::default() })
    }
}

/// The lab and what lies in it.
pub struct Placement {
    /// The namespaces.
    pub lab: Lab,
    directory: tempfile::TempDir,
    /// Address and port of the server, as the Tester reaches it.
    pub server: SocketAddr,
    /// Set by Ctrl-C, so that lab, servers and files go.
    stop: Arc<AtomicBool>,
    written: RefCell<HashMap<Content, PathBuf>>,
    /// The smallest receive buffers that were read, in octets.
    buffers: RefCell<HashMap<Subject, u64>>,
}

/// A server at work; dropped, it ends and its XDP program goes.
pub struct Running<'p> {
    place: &'p Placement,
    subject: Subject,
    /// The process; `None` only while it is dropped.
    peer: Option<RunningPeer>,
}

impl Placement {
    /// Builds the lab.
    ///
    /// # Errors
    /// No privileges, or a tool is missing.
    pub fn new() -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        let lab = Lab::up(&LabSpec { name: "bench-auth".into(), queues: 1, ..LabSpec::default() })?;
        let directory = tempfile::tempdir()?;
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755))?;
        let server = (lab.end(Role::Dut, Role::Tester).ipv4, PORT).into();
        Ok(Self { lab, directory, server, stop, written: RefCell::default(), buffers: RefCell::default() })
    }

    /// Whether it goes on.
    ///
    /// # Errors
    /// Somebody ended it.
    pub fn goes_on(&self) -> io::Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(io::Error::other("interrupted")) } else { Ok(()) }
    }

    /// Why a server cannot be measured here: it is not installed.
    pub fn missing(&self, subject: Subject) -> Option<String> {
        match subject {
            Subject::Ours(_) => None,
            Subject::Peer(name) => match authoritative::find(name) {
                Ok(server) => peers::locate(server).err().map(|error| error.to_string()),
                Err(error) => Some(error.to_string()),
            },
        }
    }

    /// The version of a server, for the record.
    pub fn version(&self, subject: Subject) -> String {
        match subject {
            Subject::Ours(_) => env!("CARGO_PKG_VERSION").into(),
            Subject::Peer(name) => {
                authoritative::find(name).and_then(peers::version).unwrap_or_else(|_| "not installed".into())
            }
        }
    }

    /// A program on the Tester's device, without which a veth does not take what an XDP program sends.
    ///
    /// # Errors
    /// The device has a program.
    pub fn pass(&self) -> io::Result<Attached> {
        self.lab.attach_pass(Role::Tester, Role::Dut)
    }

    /// Starts a server on its processor and waits, at most so long, until it answers the Tester rightly.
    ///
    /// # Errors
    /// It is not installed, does not start or does not answer.
    pub fn start(&self, subject: Subject, content: Content, patience: Duration) -> io::Result<Running<'_>> {
        let _pass = if subject.is_xdp() { Some(self.pass()?) } else { None };
        let place = Where {
            listen: self.server,
            cores: vec![SERVER_CPU],
            namespace: Some(self.lab.namespace(Role::Dut)),
            asked_from: Some(self.lab.namespace(Role::Tester)),
            // For large socket buffers, and for XDP.
            as_root: true,
            patience,
        };
        let suffix = Name::from_text(SUFFIX).map_err(io::Error::other)?;
        let probe = Probe::a(Ipv4Addr::new(10, 0, 0, 1), &suffix).map_err(io::Error::other)?;
        let peer = match subject {
            Subject::Ours(io) => {
                let arguments = self.our_arguments(io, content);
                let ours = authoritative::find("sextant").map_err(io::Error::other)?;
                start_with(ours, &place, &probe, &self.stop, |_| Ok((String::new(), arguments)))
            }
            Subject::Peer(name) => {
                let server = authoritative::find(name).map_err(io::Error::other)?;
                let settings = self.settings(content)?;
                authoritative::start(server, &place, settings, &probe, &self.stop)
            }
        };
        // Made first, so that what a server leaves behind when it fails goes too.
        let mut running = Running { place: self, subject, peer: None };
        let peer = peer.map_err(io::Error::other)?;
        if let Some(octets) = lab::observe::receive_buffer_of(peer.pid(), PORT) {
            let mut buffers = self.buffers.borrow_mut();
            let smallest = buffers.entry(subject).or_insert(octets);
            *smallest = octets.min(*smallest);
        }
        running.peer = Some(peer);
        Ok(running)
    }

    /// The smallest receive buffer that each server was seen with.
    pub fn receive_buffers(&self) -> Vec<Buffer> {
        let buffers = self.buffers.borrow();
        let of = |subject: Subject| Some(Buffer { server: subject.name(), octets: *buffers.get(&subject)? });
        Subject::ALL.into_iter().filter_map(of).collect()
    }

    fn our_arguments(&self, io: &str, content: Content) -> Vec<OsString> {
        let (listen, names) = (self.server.to_string(), content.names());
        let share = content.aaaa_share.to_string();
        let mut words = vec!["auth", "--listen", &listen, "--io", io, "--threads", "1"];
        words.extend(["--names", &names, "--aaaa-share", &share]);
        let device = self.device();
        if io != "udp" {
            words.extend(["--device", &device]);
        }
        words.into_iter().map(OsString::from).collect()
    }

    /// The server's device.
    fn device(&self) -> String {
        self.lab.end(Role::Dut, Role::Tester).device
    }

    fn settings(&self, content: Content) -> io::Result<ZoneSettings> {
        Ok(ZoneSettings {
            listen: vec![self.server],
            zone: SUFFIX.into(),
            zone_file: self.zone_file(content)?,
            workers: 1,
            directory: PathBuf::new(),
            device: Some(self.device()),
            buffer_octets: BUFFER_OCTETS,
            rule: Vec::new(),
            user: ("root".into(), "root".into()),
        })
    }

    /// The zone's file, written when it is first asked for.
    fn zone_file(&self, content: Content) -> io::Result<PathBuf> {
        let mut written = self.written.borrow_mut();
        if let Some(path) = written.get(&content) {
            return Ok(path.clone());
        }
        let name = format!("{}-{}.zone", content.names_bits, content.aaaa_share);
        let path = self.directory.path().join(name);
        let zone = Zone::new(content.config()?).map_err(io::Error::other)?;
        let file = ZoneFile::new(&zone).map_err(io::Error::other)?;
        write_to(&path, |out| file.write(out, |_| self.goes_on().is_ok()))?;
        written.insert(content, path.clone());
        Ok(path)
    }

    /// Removes the zone files, which may be large.
    pub fn forget_zone_files(&self) {
        for (_, path) in self.written.borrow_mut().drain() {
            // The directory goes at the end in any case.
            let _ = fs::remove_file(path);
        }
    }

    /// Takes a program that somebody left behind from a device.
    fn remove_xdp(&self, role: Role, device: &str) {
        // Without a program on it the command says so, which is as good.
        let _ = self
            .lab
            .command(role, "ip")
            .args(["link", "set", device, "xdp", "off"])
            .stderr(std::process::Stdio::null())
            .status();
    }
}

impl Running<'_> {
    /// From its start to the first right answer, in seconds.
    pub fn start_s(&self) -> f64 {
        self.peer.as_ref().map_or(0.0, |peer| peer.start.as_secs_f64())
    }

    /// Which server it is.
    pub fn subject(&self) -> Subject {
        self.subject
    }

    /// What its processes have used.
    pub fn usage(&self) -> Usage {
        self.peer.as_ref().map_or_else(Usage::default, |peer| Usage::of_group(peer.pid()))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(peer) = self.peer.take() {
            peer.stop();
        }
        if self.subject == Subject::Peer("knot-xdp") {
            self.place.remove_xdp(Role::Dut, &self.place.device());
        }
    }
}
