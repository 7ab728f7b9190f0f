//! The servers that can be measured: one file for each says how it is configured, started and asked for its version.
//!
//! To add a DNS64 server, write its file with a [`Peer`] and add it to [`all`]; for a server of zones, see
//! [`authoritative`]. The texts are written from scratch for the bench: everything is forwarded to the AuthDNS,
//! nothing is validated, caches and buffers are sized for load.

pub mod authoritative;
mod bind;
mod coredns;
mod dns64d;
mod error;
mod knot_resolver;
mod mtd64;
mod pdns_recursor;
mod readiness;
mod running;
mod statistics;
mod totd;
mod unbound;

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

use dns64::Prefix;
use dns64::wire::Name;

pub use error::PeerError;
pub use readiness::{PROBE_ADDRESS, Probe, Ready};
pub use running::{Place, RunningPeer, reachable, start, start_with};

/// What a server under test is told, the same for every one.
#[derive(Clone, Debug)]
pub struct PeerSettings {
    /// Where it answers, over UDP and TCP.
    pub listen: SocketAddr,
    /// The AuthDNS: everything is forwarded there.
    pub auth: SocketAddr,
    /// The prefix it synthesizes with.
    pub prefix: Prefix,
    /// The zone of the names asked, for example `dns64perf.test`.
    pub suffix: Name,
    /// The processors it runs on: one worker for each; empty means one worker, anywhere.
    pub cores: Vec<usize>,
    /// Its own directory.
    pub directory: PathBuf,
    /// The receive buffer to ask for, in octets.
    pub receive_buffer_octets: u64,
    /// The send buffer to ask for, in octets.
    pub send_buffer_octets: u64,
    /// Its network devices, for a server that takes them ([`Peer::takes_devices`]).
    pub devices: Vec<String>,
    /// The network namespace it runs in; none: this process's.
    pub namespace: Option<String>,
}

/// The largest socket buffer a server is told to ask for, in octets.
const SOCKET_BUFFER_OCTETS: u64 = 4 << 20;

/// What an unprivileged server is granted of that, by net.core.rmem_max or wmem_max.
pub fn granted_octets(limit: &str) -> u64 {
    let text = fs::read_to_string(Path::new("/proc/sys/net/core").join(limit)).unwrap_or_default();
    text.trim().parse().unwrap_or(SOCKET_BUFFER_OCTETS).min(SOCKET_BUFFER_OCTETS)
}

impl PeerSettings {
    /// Settings with the largest socket buffers, up to 4 MiB, that this system grants to an unprivileged server.
    /// The directory is set when the server starts.
    pub fn new(
        listen: SocketAddr,
        auth: SocketAddr,
        prefix: Prefix,
        suffix: Name,
        cores: Vec<usize>,
    ) -> Self {
        Self {
            listen,
            auth,
            prefix,
            suffix,
            cores,
            directory: PathBuf::new(),
            receive_buffer_octets: granted_octets("rmem_max"),
            send_buffer_octets: granted_octets("wmem_max"),
            devices: Vec::new(),
            namespace: None,
        }
    }

    /// One worker thread for each processor, at least one.
    fn workers(&self) -> usize {
        self.cores.len().max(1)
    }
}

/// A server program: where it comes from and how it tells what it is.
pub trait Server: Sync {
    /// The name on the command line and in records, for example `unbound`.
    fn name(&self) -> &'static str;

    /// The Debian package that installs it; `None` for those that come with the instrument.
    fn package(&self) -> Option<&'static str>;

    /// How it is had where Debian has no package of it; `None` for those that have one or come with the instrument.
    fn built_by(&self) -> Option<&'static str> {
        None
    }

    /// The program's name.
    fn program(&self) -> &'static str;

    /// The arguments that make it print its version; none if it cannot.
    fn version_arguments(&self) -> &'static [&'static str];

    /// Finds the version in what it prints then.
    fn parse_version<'o>(&self, output: &'o str) -> Option<&'o str>;

    /// The name of its configuration file.
    fn configuration_name(&self) -> &'static str;

    /// The directory that its AppArmor profile lets it read and write, if Debian confines it. Its scratch directory is
    /// made there on systems with AppArmor.
    fn confined_to(&self) -> Option<&'static Path> {
        None
    }
}

/// A DNS64 server that can be configured, started and measured.
pub trait Peer: Server {
    /// The text of its configuration file.
    fn configuration(&self, settings: &PeerSettings) -> String;

    /// Its arguments when it runs in the foreground with that file.
    fn arguments(&self, settings: &PeerSettings, configuration: &Path) -> Vec<OsString>;

    /// Whether it cannot be kept as a child at all, whatever the settings; then [`Peer::obstacle`] says why.
    fn by_hand(&self) -> bool {
        false
    }

    /// Whether it puts XDP programs on its devices: nobody else's may be there.
    fn takes_devices(&self) -> bool {
        false
    }

    /// Why it cannot be started with these settings, in one line that says what to do; `None` if it can.
    fn obstacle(&self, _settings: &PeerSettings) -> Option<String> {
        None
    }

    /// What it has counted since its start, in its own words, if it runs in this directory; `None` if it does not tell.
    fn statistics(&self, _directory: &Path) -> Option<io::Result<String>> {
        None
    }
}

/// All peers, the embedded one first.
pub fn all() -> &'static [&'static dyn Peer] {
    &[
        &dns64d::Dns64d { xdp: false },
        &dns64d::Dns64d { xdp: true },
        &unbound::Unbound,
        &bind::Bind,
        &pdns_recursor::PdnsRecursor,
        &knot_resolver::KnotResolver,
        &coredns::CoreDns,
        &totd::Totd,
        &mtd64::Mtd64 { ng: false },
        &mtd64::Mtd64 { ng: true },
    ]
}

/// Why a server that knows no other prefixes than /96 cannot have this one.
fn needs_96(settings: &PeerSettings) -> Option<String> {
    let prefix = settings.prefix;
    let why =
        format!("this server synthesizes under 96 bits alone, not under {prefix}: choose another --prefix");
    (prefix.length_bits() != 96).then_some(why)
}

/// The peer of that name.
///
/// # Errors
/// [`PeerError::Unknown`].
pub fn find(name: &str) -> Result<&'static dyn Peer, PeerError> {
    all().iter().find(|peer| peer.name() == name).copied().ok_or_else(|| PeerError::Unknown(name.to_owned()))
}

/// Finds a peer's program: the embedded one beside the running executable, the others on the PATH and in the system
/// directories, which are not on every user's PATH.
///
/// # Errors
/// [`PeerError::Missing`].
pub fn locate(peer: &dyn Server) -> Result<PathBuf, PeerError> {
    const SYSTEM_DIRECTORIES: [&str; 4] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin"];
    // The tests' own executables lie one directory deeper than the programs.
    let executable = env::current_exe().unwrap_or_default();
    let beside = executable.ancestors().skip(1).take(2).map(Path::to_path_buf);
    let path = env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = match peer.package().or(peer.built_by()) {
        None => beside.chain(env::split_paths(&path)).collect(),
        Some(_) => env::split_paths(&path).chain(SYSTEM_DIRECTORIES.map(PathBuf::from)).collect(),
    };
    let programs = directories.iter().map(|directory| directory.join(peer.program()));
    programs.into_iter().find(|program| program.is_file()).ok_or(PeerError::Missing {
        peer: peer.name(),
        program: peer.program(),
        package: peer.package(),
        built_by: peer.built_by(),
    })
}

/// Asks an installed program for its version.
///
/// # Errors
/// It is not installed, cannot be run, or its output is not understood.
pub fn version(peer: &dyn Server) -> Result<String, PeerError> {
    let program = locate(peer)?;
    if peer.version_arguments().is_empty() {
        return Ok("of unknown version".to_owned());
    }
    let output =
        Command::new(&program).args(peer.version_arguments()).stdin(Stdio::null()).output().map_err(
            |error| {
                PeerError::Start(io::Error::new(
                    error.kind(),
                    format!("cannot run {}: {error}", program.display()),
                ))
            },
        )?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    peer.parse_version(&text).map(str::to_owned).ok_or_else(|| {
        PeerError::Start(io::Error::other(format!(
            "{} {} does not tell its version",
            program.display(),
            peer.version_arguments().join(" ")
        )))
    })
}

/// A port of the address that is free over UDP and TCP now.
///
/// # Errors
/// The address is not this machine's, or no port was free over both.
pub fn free_port(address: IpAddr) -> io::Result<SocketAddr> {
    const ATTEMPTS: usize = 64;
    for _ in 0..ATTEMPTS {
        let udp = UdpSocket::bind((address, 0)).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot use the address {address}: {error}"))
        })?;
        let candidate = udp.local_addr()?;
        if TcpListener::bind(candidate).is_ok() {
            return Ok(candidate);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        format!("no port of {address} is free over both UDP and TCP"),
    ))
}

/// Whether a server could answer here. BIND, for one, runs on without a word when it cannot.
fn check_listen(listen: SocketAddr) -> io::Result<()> {
    let in_words =
        |error: io::Error| io::Error::new(error.kind(), format!("cannot listen at {listen}: {error}"));
    UdpSocket::bind(listen).map_err(in_words)?;
    TcpListener::bind(listen).map_err(in_words).map(drop)
}

#[cfg(test)]
fn example_settings() -> PeerSettings {
    PeerSettings {
        listen: "[::1]:5321".parse().unwrap(),
        auth: "127.0.0.1:5300".parse().unwrap(),
        prefix: "2001:db8:64::/96".parse().unwrap(),
        suffix: Name::from_text("dns64perf.test").unwrap(),
        cores: vec![0, 1],
        directory: "/scratch".into(),
        receive_buffer_octets: 1 << 20,
        send_buffer_octets: 1 << 19,
        devices: Vec::new(),
        namespace: None,
    }
}
