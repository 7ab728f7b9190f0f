//! The servers that can be measured: DNS64 servers in one table ([`all`]), servers of zones in another
//! ([`authoritative::all`]). How one is configured stands in its template, how it is started in its row.

pub mod authoritative;
mod error;
mod readiness;
mod running;
mod server;
mod statistics;
mod streams;
mod table;

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io, iter};

use dns64::Prefix;
use dns64::wire::Name;

pub use error::PeerError;
pub use readiness::{PROBE_ADDRESS, Probe, Ready};
pub use running::{Placement, RunningPeer, reachable, start, start_with};
pub use server::{Server, Settings, Statistics, Values};
pub use streams::{Streams, Transport};
pub use table::all;

use crate::child::LOG_NAME;

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
    /// The scratch directory of the server.
    pub directory: PathBuf,
    /// The receive buffer to ask for, in octets.
    pub receive_buffer_octets: u64,
    /// The send buffer to ask for, in octets.
    pub send_buffer_octets: u64,
    /// Its network devices, for a server that takes them ([`Server::is_xdp`]).
    pub devices: Vec<String>,
    /// The network namespace it runs in; none: this process's.
    pub namespace: Option<String>,
    /// How it is asked by connections; none: it is asked over UDP.
    pub streams: Option<Streams>,
}

/// The largest socket buffer a server is told to ask for, in octets.
const SOCKET_BUFFER_OCTETS: u64 = 4 << 20;

/// What an unprivileged server is granted of that, by net.core.rmem_max or wmem_max.
pub fn granted_octets(limit: &str) -> u64 {
    let text = fs::read_to_string(Path::new("/proc/sys/net/core").join(limit)).unwrap_or_default();
    text.trim().parse().unwrap_or(SOCKET_BUFFER_OCTETS).min(SOCKET_BUFFER_OCTETS)
}

impl PeerSettings {
    /// Settings with the largest socket buffers, up to 4 MiB, that this system grants to an unprivileged
    /// server. The directory is set when the server starts.
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
            streams: None,
        }
    }

    /// The addresses at which it listens, as dns64d writes them.
    fn listeners(&self) -> Vec<String> {
        let encrypted = self.streams.filter(|streams| streams.transport != Transport::Tcp);
        let encrypted = encrypted.map(|streams| format!("{}{}", streams.transport.scheme(), streams.listen));
        iter::once(self.listen.to_string()).chain(encrypted).collect()
    }
}

impl Settings for PeerSettings {
    fn values(&self) -> Values {
        let Self { listen, auth, prefix, suffix, directory, .. } = self;
        let (listen_on, listen_on_other, family) = if listen.is_ipv4() {
            ("listen-on", "listen-on-v6", "-4")
        } else {
            ("listen-on-v6", "listen-on", "-6")
        };
        // One worker for each processor, at least one.
        let workers = self.cores.len().max(1);
        let multisocket = match workers {
            1 => String::new(),
            _ => format!("    # A socket for each core (since 1.12).\n    multisocket {workers}\n"),
        };
        let zones = iter::successors(Some(*suffix), Name::parent).filter(|zone| zone.parent().is_some());
        vec![
            ("listen", listen.to_string()),
            ("listeners", format!("{:?}", self.listeners())),
            ("address", listen.ip().to_string()),
            ("port", listen.port().to_string()),
            ("family", family.to_owned()),
            ("listen_on", listen_on.to_owned()),
            ("listen_on_other", listen_on_other.to_owned()),
            ("auth", auth.to_string()),
            ("auth_address", auth.ip().to_string()),
            ("auth_port", auth.port().to_string()),
            ("prefix", prefix.to_string()),
            ("prefix_address", prefix.address().to_string()),
            ("suffix", suffix.to_string()),
            ("local_zones", zones.map(|zone| format!("    local-zone: \"{zone}\" nodefault\n")).collect()),
            ("workers", workers.to_string()),
            ("slabs", workers.next_power_of_two().to_string()),
            ("multisocket", multisocket),
            ("directory", directory.display().to_string()),
            ("log", directory.join(LOG_NAME).display().to_string()),
            ("receive_buffer_octets", self.receive_buffer_octets.to_string()),
            ("send_buffer_octets", self.send_buffer_octets.to_string()),
            ("devices", format!("{:?}", self.devices)),
            ("connections", self.streams.map_or(0, |streams| streams.connections).to_string()),
            ("stream_listen", self.streams.map_or(*listen, |streams| streams.listen).to_string()),
            ("stream_port", self.streams.map_or(*listen, |streams| streams.listen).port().to_string()),
            ("certificate", directory.join(streams::CERTIFICATE).display().to_string()),
            ("key", directory.join(streams::KEY).display().to_string()),
        ]
    }

    fn streams(&self) -> Option<Streams> {
        self.streams
    }
}

/// The peer of that name.
///
/// # Errors
/// [`PeerError::Unknown`].
pub fn find(name: &str) -> Result<&'static Server, PeerError> {
    all().iter().find(|peer| peer.name == name).ok_or_else(|| PeerError::Unknown(name.to_owned()))
}

/// Finds a peer's program: the embedded one beside the running executable, the others on the PATH and in the
/// system directories, which are not on every user's PATH.
///
/// # Errors
/// [`PeerError::Missing`].
pub fn locate(peer: &Server) -> Result<PathBuf, PeerError> {
    const SYSTEM_DIRECTORIES: [&str; 4] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin"];
    // The tests' own executables lie one directory deeper than the programs.
    let executable = env::current_exe().unwrap_or_default();
    let beside = executable.ancestors().skip(1).take(2).map(Path::to_path_buf);
    let path = env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = match peer.package.or(peer.built_by) {
        None => beside.chain(env::split_paths(&path)).collect(),
        Some(_) => env::split_paths(&path).chain(SYSTEM_DIRECTORIES.map(PathBuf::from)).collect(),
    };
    let programs = directories.iter().map(|directory| directory.join(peer.program));
    programs.into_iter().find(|program| program.is_file()).ok_or(PeerError::Missing {
        peer: peer.name,
        program: peer.program,
        package: peer.package,
        built_by: peer.built_by,
    })
}

/// Asks an installed program for its version.
///
/// # Errors
/// It is not installed, cannot be run, or its output is not understood.
pub fn version(peer: &Server) -> Result<String, PeerError> {
    let program = locate(peer)?;
    if peer.version.0.is_empty() {
        return Ok("of unknown version".to_owned());
    }
    let output =
        Command::new(&program).args(peer.version.0).stdin(Stdio::null()).output().map_err(|error| {
            PeerError::Start(io::Error::new(
                error.kind(),
                format!("cannot run {}: {error}", program.display()),
            ))
        })?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    peer.version_in(&text).map(str::to_owned).ok_or_else(|| {
        PeerError::Start(io::Error::other(format!(
            "{} {} does not tell its version",
            program.display(),
            peer.version.0.join(" ")
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
