//! A peer from its configuration to its last log line.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io};

use super::{PeerError, PeerSettings, Probe, Ready, Server, check_listen, locate, version};
use crate::child::{Child, DiedWith, Launch};
use crate::scratch::Scratch;

/// How long a server may take until it answers.
const READY_TIMEOUT: Duration = Duration::from_secs(15);

/// A server that has answered. Dropping it stops it and removes its directory.
#[derive(Debug)]
pub struct RunningPeer {
    child: Child,
    /// The peer's name.
    pub name: &'static str,
    /// The version that the program printed.
    pub version: String,
    /// The configuration it runs with, for the record.
    pub configuration: String,
    /// Where it answers.
    pub listen: SocketAddr,
    /// How long it was asked until it was ready.
    pub ready: Ready,
    /// From the start of its process to its first right answer.
    pub start: Duration,
}

/// Where a server runs and how long it may take.
#[derive(Clone, Debug)]
pub struct Placement {
    /// Where it answers.
    pub listen: SocketAddr,
    /// The processors it is kept on; none: wherever the system likes.
    pub cores: Vec<usize>,
    /// The network namespace it runs in; `None`: this process's.
    pub namespace: Option<String>,
    /// The network namespace it is asked from; `None`: that of the calling thread.
    pub asked_from: Option<String>,
    /// Whether it stays root where this process is: XDP needs that.
    pub as_root: bool,
    /// How long it may take until it answers.
    pub patience: Duration,
}

/// Configures a DNS64 server, starts it as a child, unprivileged unless it takes devices, and waits until it
/// answers `probe` rightly. Setting `interrupted` from another thread or a signal handler ends the wait.
///
/// # Errors
/// Each [`PeerError`] but `Unknown`; nothing is left behind.
pub fn start(
    peer: &Server,
    mut settings: PeerSettings,
    probe: &Probe,
    interrupted: &AtomicBool,
) -> Result<RunningPeer, PeerError> {
    if let Some(why) = peer.obstacle(&settings) {
        return Err(PeerError::Unsuitable(why.into_owned()));
    }
    let place = Placement {
        listen: settings.listen,
        cores: settings.cores.clone(),
        namespace: settings.namespace.clone(),
        asked_from: None,
        as_root: peer.is_xdp(),
        patience: READY_TIMEOUT,
    };
    start_with(peer, &place, probe, interrupted, |scratch| {
        settings.directory = scratch.path().to_path_buf();
        settings.streams.map_or(Ok(()), |streams| streams.prepare(scratch))?;
        peer.prepare(&settings, scratch)
    })
}

/// Starts any server likewise. `configure` writes its configuration into its directory and returns the text
/// and the server's arguments.
///
/// # Errors
/// Those of [`start`] and of `configure`.
pub fn start_with(
    server: &Server,
    place: &Placement,
    probe: &Probe,
    interrupted: &AtomicBool,
    configure: impl FnOnce(&Scratch) -> io::Result<(String, Vec<OsString>)>,
) -> Result<RunningPeer, PeerError> {
    let (program, version) = (locate(server)?, version(server)?);
    let free = sys::netns::inside(place.namespace.as_deref(), || check_listen(place.listen));
    free.and_then(|free| free).map_err(PeerError::Start)?;
    let scratch = if place.as_root {
        Scratch::of_this_user(server.name)
    } else {
        Scratch::new(server.name, confinement(server))
    };
    let scratch = scratch.map_err(PeerError::Start)?;
    let (configuration, arguments) = configure(&scratch).map_err(PeerError::Start)?;
    let launch = Launch {
        label: server.name.to_owned(),
        program,
        arguments,
        environment: Vec::new(),
        cpus: place.cores.clone(),
        namespace: place.namespace.clone(),
    };
    let started = Instant::now();
    let mut child = Child::start(&launch, scratch).map_err(PeerError::Start)?;
    let still_there = || match child.check_alive() {
        Err(died) => Err(PeerError::Died { died, hint: hint(server) }),
        Ok(()) if interrupted.load(Ordering::Relaxed) => Err(PeerError::Interrupted(server.name)),
        Ok(()) => Ok(()),
    };
    let (listen, patience) = (place.listen, place.patience);
    let ask = || probe.wait(reachable(listen), patience, still_there);
    match sys::netns::inside(place.asked_from.as_deref(), ask).map_err(PeerError::Start)?? {
        Ok(ready) => {
            let (name, start) = (server.name, started.elapsed());
            Ok(RunningPeer { child, name, version, configuration, listen, ready, start })
        }
        Err(last) => Err(not_ready(server, &child, &last, patience)),
    }
}

impl RunningPeer {
    /// The process's number, for the observer.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// It ended by itself: how, and what it said last.
    pub fn check_alive(&mut self) -> Result<(), DiedWith> {
        self.child.check_alive()
    }

    /// The scratch directory, removed when the server is stopped.
    pub fn directory(&self) -> &Path {
        self.child.directory()
    }

    /// Stops it, removes its directory, and returns the end of its log.
    pub fn stop(self) -> String {
        self.child.stop()
    }
}

/// Where a server that listens there is asked: a wildcard at the loopback address of its family.
pub fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    (ip, listen.port()).into()
}

fn not_ready(peer: &Server, child: &Child, last: &str, patience: Duration) -> PeerError {
    let log = child.log();
    let words = log.lines().rev().find(|line| !line.trim().is_empty());
    let last = words.map_or(last.to_owned(), |words| format!("{last}; its log ends: {words}"));
    PeerError::NotReady { peer: peer.name, waited_s: patience.as_secs(), last }
}

/// The directory to work in where AppArmor confines the peer, if this user may write there.
fn confinement(peer: &Server) -> Option<&'static Path> {
    let directory = peer.confined_to.map(Path::new).filter(|directory| directory.is_dir())?;
    (apparmor_is_on() && sys::process::is_root()).then_some(directory)
}

fn apparmor_is_on() -> bool {
    fs::read_to_string("/sys/module/apparmor/parameters/enabled").is_ok_and(|text| text.trim() == "Y")
}

fn hint(peer: &Server) -> Option<String> {
    peer.confined_to.filter(|_| apparmor_is_on())?;
    let program = locate(peer).ok()?;
    let program = program.display();
    Some(format!(
        "AppArmor may confine it: run as root, or allow it with aa-complain {program} and undo that with aa-enforce {program}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_asked_at_the_loopback_address() {
        let asked = |text: &str| reachable(text.parse().unwrap()).to_string();
        assert_eq!(asked("[::]:53"), "[::1]:53");
        assert_eq!(asked("0.0.0.0:53"), "127.0.0.1:53");
        assert_eq!(asked("[2001:db8::1]:5"), "[2001:db8::1]:5");
    }
}
