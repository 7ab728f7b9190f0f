//! `sextant peers`: the servers that can be measured, their configurations, and one of them in the
//! foreground.

mod foreground;
mod zone_probe;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};
use dns64::Prefix;
use dns64::wire::{Malformed, Name};
use serde::Serialize;

use foreground::{ReportOptions, ServerToRun};
use lab::child::DiedWith;
use lab::peers::authoritative::{self, ZoneSettings};
use lab::peers::{self, PROBE_ADDRESS, PeerError, PeerSettings, Placement, Probe, Server, granted_octets};

/// How long a server may take to load its zone: the largest has 16 million names.
const LOAD_PATIENCE: Duration = Duration::from_secs(900);

/// List the servers that can be measured, print their configurations, or run one.
#[derive(Clone, Debug, ClapArgs)]
#[command(
    after_help = "Examples:\n  sextant peers list\n  sextant peers list --authoritative\n  sextant peers config unbound\n  \
    sextant peers config nsd --authoritative /srv/dns64perf.test.zone\n  \
    sextant peers run bind --auth 127.0.0.1:5300 --listen [::1]:5353\n  \
    sextant peers run unbound --auth 127.0.0.1:5300 --listen [::1]:5353 --watch 1 --statistics\n  \
    sextant peers run nsd --authoritative /srv/dns64perf.test.zone --listen [::1]:5353 --watch 1"
)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// List each server with its version, or the command that installs it
    List {
        /// List authoritative servers instead of DNS64 servers
        #[arg(long)]
        authoritative: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the configuration a server is measured with
    Config {
        /// The server
        name: String,
        /// Address that the server answers on
        #[arg(long, value_name = "ADDR:PORT", default_value = "[::1]:5353")]
        listen: SocketAddr,
        /// Address of the AuthDNS that the server forwards to
        #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:5300")]
        auth: SocketAddr,
        /// Zone file; NAME is an authoritative server
        #[arg(long, value_name = "ZONEFILE")]
        authoritative: Option<PathBuf>,
        #[command(flatten)]
        common: Common,
        /// Print JSON: the configuration, its file, and the program's arguments
        #[arg(long)]
        json: bool,
    },
    /// Run a server in the foreground until Ctrl-C
    Run {
        /// The server
        name: String,
        /// Address that the server answers on
        #[arg(long, value_name = "ADDR:PORT")]
        listen: SocketAddr,
        /// Address of the AuthDNS that the server forwards to, for example one started by `sextant auth`
        #[arg(long, value_name = "ADDR:PORT", required_unless_present = "authoritative")]
        auth: Option<SocketAddr>,
        /// Zone file (see: sextant zone); NAME is an authoritative server
        #[arg(long, value_name = "ZONEFILE", conflicts_with = "auth")]
        authoritative: Option<PathBuf>,
        #[command(flatten)]
        common: Common,
        /// Print the server's processor time by thread and its memory every so many seconds
        #[arg(long, value_name = "SECONDS", value_parser = parse_watch)]
        watch: Option<Duration>,
        /// Print the server's own statistics at its end
        #[arg(long)]
        statistics: bool,
        /// Print a JSON object for each line
        #[arg(long)]
        json: bool,
    },
}

#[derive(Clone, Debug, ClapArgs)]
struct Common {
    /// DNS64 prefix of the server
    #[arg(long, value_name = "PREFIX", default_value = "2001:db8:64::/96")]
    prefix: Prefix,
    /// The zone of the names asked
    #[arg(long, value_name = "NAME", default_value = "dns64perf.test", value_parser = parse_suffix)]
    suffix: Name,
    /// The processors it runs on, a worker for each, for example 0,1 [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Network devices for a server that takes them (dns64d-xdp), for example eth0,eth1
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    devices: Vec<String>,
}

/// Why `sextant peers` could not do its work. Each displays as one line.
#[derive(Debug)]
pub enum Error {
    /// The server is unknown, missing or did not start.
    Peer(PeerError),
    /// It ended by itself while it ran.
    Died(DiedWith),
    /// The zone file is of no use: why, and what to do.
    Zone(String),
    /// The suffix leaves no room for the names of the benchmark.
    Suffix(Malformed),
    /// Standard output or the signals could not be used.
    Io(io::Error),
}

impl Error {
    /// 1 the server failed, 2 wrong usage, 3 the environment is not fit.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Peer(error) => error.exit_code(),
            Self::Died(_) => 1,
            Self::Suffix(_) | Self::Zone(_) => 2,
            Self::Io(_) => 3,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer(error) => error.fmt(f),
            Self::Died(died) => died.fmt(f),
            Self::Zone(why) => f.write_str(why),
            Self::Suffix(error) => write!(f, "--suffix is too long: {}", error.0),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<PeerError> for Error {
    fn from(error: PeerError) -> Self {
        Self::Peer(error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Does what was asked; `run` returns when the server ends or the user ends it.
///
/// # Errors
/// Each [`Error`]; [`Error::exit_code`] is the program's.
pub fn run(args: &Args) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match &args.action {
        Action::List { authoritative, json } => {
            list(if *authoritative { authoritative::all() } else { peers::all() }, *json, &mut out)
        }
        Action::Config { name, listen, authoritative: Some(zone_file), common, json, .. } => {
            let server = authoritative::find(name)?;
            let settings = common.zone_settings(name, *listen, zone_file);
            let text = server.configuration(&settings);
            let file = settings.directory.join(server.configuration_name());
            let arguments = server.arguments(&settings, &file);
            let cannot_start = server.by_hand.map(str::to_owned);
            show(Shown { server, text, file, arguments, cannot_start }, *json, &mut out)
        }
        Action::Config { name, listen, auth, common, json, .. } => {
            let mut settings = common.settings(*listen, *auth);
            settings.directory = format!("/tmp/sextant-{name}").into();
            let peer = peers::find(name)?;
            let (text, cannot_start) =
                (peer.configuration(&settings), peer.obstacle(&settings).map(Into::into));
            let file = settings.directory.join(peer.configuration_name());
            let arguments = peer.arguments(&settings, &file);
            show(Shown { server: peer, text, file, arguments, cannot_start }, *json, &mut out)
        }
        Action::Run { name, listen, auth, authoritative, common, watch, statistics, json } => {
            let telling = ReportOptions { watch: *watch, statistics: *statistics, json: *json };
            let served = match (authoritative, auth) {
                (Some(zone_file), _) => ServerToRun::zone(name, *listen, zone_file, common)?,
                (None, Some(auth)) => ServerToRun::forwarded(name, *listen, *auth, common)?,
                (None, None) => return Err(Error::Zone("give --auth or --authoritative".to_owned())),
            };
            foreground::run(&served, telling, &mut out)
        }
    }
}

impl ServerToRun {
    fn forwarded(name: &str, listen: SocketAddr, auth: SocketAddr, common: &Common) -> Result<Self, Error> {
        let (peer, settings) = (peers::find(name)?, common.settings(listen, auth));
        let probe = if peer.only_forwards {
            Probe::a(PROBE_ADDRESS, &settings.suffix)
        } else {
            Probe::synthesized(PROBE_ADDRESS, &settings.suffix, &settings.prefix)
        };
        Ok(Self::Forwarded(peer, settings, probe.map_err(Error::Suffix)?))
    }

    fn zone(name: &str, listen: SocketAddr, zone_file: &Path, common: &Common) -> Result<Self, Error> {
        let server = authoritative::find(name)?;
        let missing_device = server.is_xdp() && common.devices.is_empty();
        if missing_device {
            return Err(Error::Zone(format!("{name} answers at a network device: name it with --devices")));
        }
        let zone_file = zone_file.canonicalize().unwrap_or_else(|_| zone_file.to_path_buf());
        let probe = zone_probe::first_name(&zone_file, &common.suffix)?;
        let place = Placement {
            listen,
            cores: common.cpus.clone(),
            namespace: None,
            asked_from: None,
            as_root: server.wants_root(),
            patience: LOAD_PATIENCE,
        };
        Ok(Self::Zone(server, common.zone_settings(name, listen, &zone_file), place, probe))
    }
}

impl Common {
    fn settings(&self, listen: SocketAddr, auth: SocketAddr) -> PeerSettings {
        let cores = if self.cpus.is_empty() { sys::cpu::available() } else { self.cpus.clone() };
        let settings = PeerSettings::new(listen, auth, self.prefix, self.suffix, cores);
        PeerSettings { devices: self.devices.clone(), ..settings }
    }

    fn zone_settings(&self, name: &str, listen: SocketAddr, zone_file: &Path) -> ZoneSettings {
        let suffix = self.suffix.to_string();
        let zone = suffix.trim_end_matches('.').to_owned();
        ZoneSettings {
            listen: vec![listen],
            zone_file: zone_file.to_path_buf(),
            workers: if self.cpus.is_empty() { sys::cpu::available().len() } else { self.cpus.len() },
            directory: format!("/tmp/sextant-{name}").into(),
            device: self.devices.first().cloned(),
            buffer_octets: granted_octets("rmem_max"),
            rule: vec![
                "--suffix".to_owned(),
                zone.clone(),
                "--aaaa-prefix".to_owned(),
                self.prefix.to_string(),
            ],
            zone,
            user: ("nobody".into(), "nogroup".into()),
        }
    }
}

/// A line of `peers list --json`.
#[derive(Serialize)]
struct PeerEntry {
    name: &'static str,
    package: Option<&'static str>,
    built_by: Option<&'static str>,
    version: Option<String>,
    error: Option<String>,
}

fn list(servers: &[Server], json: bool, out: &mut impl Write) -> Result<(), Error> {
    let listed: Vec<PeerEntry> = servers.iter().map(PeerEntry::new).collect();
    if json {
        return print_json(&listed, out);
    }
    for PeerEntry { name, package, built_by, version, error } in listed {
        let built_in = built_by.is_none();
        let state = version.or(error).unwrap_or_default();
        writeln!(
            out,
            "{name:<14} {:<14} {state}",
            package.unwrap_or(if built_in { "(built in)" } else { "(from source)" })
        )?;
    }
    Ok(())
}

impl PeerEntry {
    fn new(peer: &Server) -> Self {
        let (version, error) = match peers::version(peer) {
            Ok(version) => (Some(version), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self { name: peer.name, package: peer.package, built_by: peer.built_by, version, error }
    }
}

/// A configuration with all that belongs to it.
struct Shown<'s> {
    server: &'s Server,
    text: String,
    file: PathBuf,
    arguments: Vec<OsString>,
    cannot_start: Option<String>,
}

fn show(shown: Shown<'_>, json: bool, out: &mut impl Write) -> Result<(), Error> {
    let Shown { server, text, file, arguments, cannot_start } = shown;
    if !json {
        return Ok(write!(out, "{text}")?);
    }
    let arguments = arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
    print_json(
        &Configured { program: server.program, arguments, file, configuration: text, cannot_start },
        out,
    )
}

/// What `peers config --json` prints.
#[derive(Serialize)]
struct Configured {
    program: &'static str,
    arguments: Vec<String>,
    file: PathBuf,
    configuration: String,
    cannot_start: Option<String>,
}

fn print_json(value: &impl Serialize, out: &mut impl Write) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
    Ok(writeln!(out, "{text}")?)
}

fn parse_watch(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "write seconds from 0.1 to 86400".to_owned())
}

fn parse_suffix(text: &str) -> Result<Name, String> {
    Name::from_text(text).map_err(|error| error.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn parse(arguments: &[&str]) -> Result<Args, clap::Error> {
        let command = Args::augment_args(Command::new("peers"));
        Args::from_arg_matches(&command.try_get_matches_from([&["peers"], arguments].concat())?)
    }

    #[test]
    fn options_are_read_and_bad_ones_say_why() {
        let args =
            parse(&["run", "bind", "--auth", "127.0.0.1:1", "--listen", "[::1]:2", "--cpus", "0,1"]).unwrap();
        assert!(matches!(args.action, Action::Run { common: Common { cpus, .. }, .. } if cpus == [0, 1]));
        let reason = |arguments: &[&str]| parse(arguments).unwrap_err().to_string();
        assert!(
            reason(&["config", "bind", "--prefix", "2001:db8:0:0:100::/96"])
                .contains("bits 64 to 71 must be zero")
        );
        assert!(reason(&["config", "bind", "--suffix", "a..b"]).contains("1 to 63 characters"));
        assert!(reason(&["run", "bind"]).contains("--listen"));
        assert!(parse_watch("0").is_err() && parse_watch("x").is_err());
        let error = run(&parse(&["config", "bnid"]).unwrap()).unwrap_err();
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn the_list_names_every_peer_in_both_forms() {
        let (mut text, mut json) = (Vec::new(), Vec::new());
        list(peers::all(), false, &mut text).unwrap();
        list(peers::all(), true, &mut json).unwrap();
        let text = String::from_utf8(text).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(text.lines().count(), peers::all().len());
        for (position, peer) in peers::all().iter().enumerate() {
            assert!(text.contains(peer.name));
            assert_eq!(json[position]["name"].as_str(), Some(peer.name));
        }
    }
}
