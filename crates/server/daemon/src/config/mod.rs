//! The configuration file: TOML, read, checked and turned into [`Settings`] before anything starts.
//!
//! `keys` declares all keys, `read` reads the file by them, `check` and the modules beside it make sense of
//! the values, and `place` says where in the file an error is. `documents` writes the example file and the
//! manual page.

mod address;
mod check;
mod documents;
mod files;
mod keys;
mod listeners;
mod place;
mod read;
mod services;
#[cfg(test)]
mod tests;
mod upstreams;
mod validation;
mod views;
mod warnings;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use dns64::Range;
use server_core::settings::Settings;

use place::SourceText;

pub use documents::{manual, sample};
pub(crate) use keys::Words;
pub use place::ConfigError;

/// Everything the program needs, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The addresses to answer on; [`server_core::settings::View::listeners`] are indexes of it.
    pub listen: Vec<Listen>,
    /// What the TLS, HTTPS and QUIC listeners show; always there when there is one of them.
    pub tls: Option<TlsFiles>,
    /// The path of DNS queries over HTTPS (RFC 8484 4.1), for example `/dns-query`.
    pub https_path: String,
    /// The upstream servers of all groups, in the order of [`Settings::upstreams`].
    pub upstreams: Vec<UpstreamServer>,
    /// A PEM file of the authorities that upstream certificates are checked against, instead of the system's.
    pub upstream_roots: Option<PathBuf>,
    /// A file of DNSSEC trust anchors instead of the root's.
    pub anchors: Option<PathBuf>,
    /// The number of threads; 0 means one for each processor.
    pub threads: usize,
    /// The number of threads that serve clients over streams; 0 means one for each processor.
    pub stream_threads: usize,
    /// The processors that threads are pinned to in turn; none leaves them free.
    pub cpus: Vec<usize>,
    /// Bounds on connections and streams of clients.
    pub streams: StreamLimits,
    /// Datagrams past the kernel's stack.
    pub xdp: XdpChoice,
    /// The memory of the cache, in octets; 0 keeps nothing.
    pub cache_octets: usize,
    /// The path of the control socket; without one there is no control.
    pub control: Option<PathBuf>,
    /// Where metrics are given by HTTP.
    pub metrics: Option<SocketAddr>,
    /// The level, the form of lines, and whether queries are logged.
    pub log: LogChoice,
    /// Where messages are recorded.
    pub dnstap: Option<DnstapChoice>,
    /// What the process gives up after its sockets are open.
    pub process: Process,
    /// What each thread's machine is told.
    pub settings: Settings,
    /// What is allowed and yet likely to do harm, one line each.
    pub warnings: Vec<String>,
    /// The keys whose new values a running program does not take on, with their values in TOML.
    pub at_start: Vec<(String, String)>,
}

impl Config {
    /// Reads a file, and the certificates it names.
    ///
    /// # Errors
    /// It cannot be read, is no TOML, has a key that is not known or a value that makes no sense.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let octets = files::read(path, OCTETS_MAX).map_err(|error| ConfigError::of_file(path, &error))?;
        let text = String::from_utf8(octets).map_err(|error| ConfigError::of_file(path, &error))?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads a text; `file` is its name in errors, and paths in it start where that file is.
    ///
    /// # Errors
    /// Those of [`Config::load`] but the first.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigError> {
        let place = SourceText { text, file };
        check::check(&read::read(&place)?, &place)
    }
}

/// The largest configuration file, in octets: room for some million domains.
const OCTETS_MAX: u64 = 64 << 20;

/// An address that clients ask, and how they ask there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Listen {
    /// IPv6 addresses take IPv6 only; port 0 takes a free port.
    pub address: SocketAddr,
    /// The protocol that clients speak there.
    pub protocol: ListenProtocol,
}

/// What is spoken with clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListenProtocol {
    /// DNS over UDP and TCP on one port (RFC 1035).
    Plain,
    /// DNS over TLS (RFC 7858).
    Tls,
    /// DNS over HTTPS (RFC 8484).
    Https,
    /// DNS over dedicated QUIC connections (RFC 9250).
    Quic,
    /// DNS over HTTPS (RFC 8484), by HTTP/3 (RFC 9114).
    Http3,
}

/// The files of the server's certificate. Both could be read and parsed when the configuration was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// A PEM file of the certificate and the intermediate authorities, the certificate first.
    pub certificate: PathBuf,
    /// A PEM file of its private key.
    pub key: PathBuf,
}

/// Where an upstream server is, and how it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamServer {
    /// Its address, never port 0.
    pub address: SocketAddr,
    /// The protocol that the server is asked by.
    pub protocol: UpstreamProtocol,
    /// The name its certificate must have; `None` means its IP address.
    pub tls_name: Option<String>,
    /// The path of the HTTPS requests; `/dns-query` where none is written.
    pub path: String,
    /// The addresses that it is asked from, of the same family: one, or one of a prefix at random for each
    /// socket. `None` leaves the choice to the kernel.
    pub source: Option<Range>,
    /// Its answers are judged here by DNSSEC; it is asked over TCP then where its protocol is UDP.
    pub validate: bool,
}

/// What is spoken with an upstream server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamProtocol {
    /// DNS over UDP, and over TCP where an answer is truncated or judged.
    Udp,
    /// DNS over TCP alone (RFC 7766).
    Tcp,
    /// DNS over TLS (RFC 7858).
    Tls,
    /// DNS over HTTPS (RFC 8484).
    Https,
    /// DNS over dedicated QUIC connections (RFC 9250).
    Quic,
}

/// Bounds on connections and streams of clients, for the whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Connections over TCP, and as many over TLS, HTTPS and QUIC together, at most; 0 means none at all.
    pub connections: usize,
    /// Connections of one client network (/24 of IPv4, /56 of IPv6) at most.
    pub connections_per_network: usize,
    /// Connections of one address (of IPv4, a /64 of IPv6) at most.
    pub connections_per_address: usize,
    /// Handshakes of TLS and QUIC that one client network may begin in a second.
    pub handshakes_per_second: u32,
    /// Queries of one connection in progress at most.
    pub pipelined: usize,
    /// A connection without a query for so long is closed.
    pub idle_ns: u64,
}

/// Datagrams past the kernel's stack, by AF_XDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpChoice {
    /// The names of the network devices; none for sockets alone.
    pub devices: Vec<String>,
    /// Upstream servers are asked that way, too.
    pub upstreams: bool,
    /// The program on the device repeats answers of the cache.
    pub repeat: bool,
}

impl XdpChoice {
    /// Whether anything goes that way.
    pub fn is_on(&self) -> bool {
        !self.devices.is_empty()
    }
}

/// The level, the form of lines, and whether queries are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogChoice {
    /// Events of less weight are left out.
    pub level: Level,
    /// The form of a line of the log.
    pub format: Format,
    /// Log every query of a client.
    pub queries: bool,
}

/// The weight of an event, the heaviest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Level {
    /// Something does not work.
    Error,
    /// Something works, and is likely to do harm.
    Warning,
    /// Information for operators.
    Info,
    /// Information for developers.
    Debug,
}

/// The form of a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One line of `key=value` pairs with blanks between them.
    Text,
    /// One line with an object of JSON; every value is a text.
    Json,
}

/// Messages as dnstap over a Frame Streams socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnstapChoice {
    /// The Unix socket of the receiver.
    pub socket: PathBuf,
    /// Record what clients ask and are answered.
    pub clients: bool,
    /// Record what upstream servers are asked and answer.
    pub upstreams: bool,
    /// The name of this server in the records.
    pub identity: String,
}

/// What the process gives up after its sockets are open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The user to become; `None` stays what it is.
    pub user: Option<String>,
    /// Give up files, programs and system calls that are not needed (landlock, seccomp).
    pub sandbox: Sandbox,
}

/// How much of the sandbox there must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// Nothing is given up.
    Off,
    /// What the kernel can take is given up.
    On,
    /// All of it is given up, TCP ports included, or the program does not start.
    Required,
}

impl Sandbox {
    /// Whether anything is given up.
    pub fn is_on(self) -> bool {
        self != Self::Off
    }
}
