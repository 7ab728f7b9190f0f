//! Servers of zones, to be the AuthDNS or to be compared with ours: one file for each.
//!
//! To add one, write its file with an [`Authoritative`] and add it to [`all`]. Each option in a configuration says why it
//! is there: `sextant zone` hands the same text to users.

mod bind;
mod fakedns;
mod knot;
mod nsd;
mod pdns;
mod sextant;
mod yadifa;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::{Peer, PeerError, Place, Probe, RunningPeer, Server, start_with};

/// What a server of a zone is told, the same for every one.
#[derive(Clone, Debug)]
pub struct ZoneSettings {
    /// Where it answers, over UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// The name of the zone, without the dot at the end.
    pub zone: String,
    /// The zone's master file.
    pub zone_file: PathBuf,
    /// Threads or processes for UDP, at least one.
    pub workers: usize,
    /// Its own directory, for what it writes.
    pub directory: PathBuf,
    /// The device whose queries it answers with AF_XDP; others ignore it.
    pub device: Option<String>,
    /// The size of its socket buffers in octets, where it can be told.
    pub buffer_octets: u64,
    /// The same zone as options of `sextant auth`.
    pub rule: Vec<String>,
    /// The user and the group it runs as, where it wants to be told: those that it is started by.
    pub user: (String, String),
}

/// An authoritative server that can be configured, started and measured.
pub trait Authoritative: Server {
    /// The text of its configuration file, each option with the reason for it.
    fn configuration(&self, settings: &ZoneSettings) -> String;

    /// Other files beside it, by their names.
    fn other_files(&self, _settings: &ZoneSettings) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Its arguments when it runs in the foreground with that file.
    fn arguments(&self, settings: &ZoneSettings, configuration: &Path) -> Vec<OsString>;

    /// Why it cannot be kept as a child at all, in one line that says what to do; `None` if it can.
    fn obstacle(&self) -> Option<&'static str> {
        None
    }

    /// Whether it stays root where this process is, because something that it is told needs that.
    fn wants_root(&self) -> bool {
        self.is_xdp()
    }

    /// Whether it answers by XDP and so needs root and a device.
    fn is_xdp(&self) -> bool {
        false
    }
}

/// All of them, ours first.
pub fn all() -> &'static [&'static dyn Authoritative] {
    &[
        &sextant::Sextant { kernel: false },
        &sextant::Sextant { kernel: true },
        &nsd::Nsd,
        &knot::Knot { xdp: false },
        &knot::Knot { xdp: true },
        &bind::Bind,
        &yadifa::Yadifa,
        &pdns::Pdns,
        &fakedns::FakeDns,
    ]
}

/// The server of that name, one of [`all`].
///
/// # Errors
/// [`PeerError::UnknownAuthoritative`].
pub fn find(name: &str) -> Result<&'static dyn Authoritative, PeerError> {
    let found = all().iter().find(|server| server.name() == name).copied();
    found.ok_or_else(|| PeerError::UnknownAuthoritative(name.to_owned()))
}

/// Configures a server, starts it where `place` says, and waits until it answers `probe` rightly.
///
/// # Errors
/// Each [`PeerError`] but `Unknown`; nothing is left behind.
pub fn start(
    server: &dyn Authoritative,
    place: &Place,
    mut settings: ZoneSettings,
    probe: &Probe,
    interrupted: &AtomicBool,
) -> Result<RunningPeer, PeerError> {
    if let Some(why) = server.obstacle() {
        return Err(PeerError::Unsuitable(why.to_owned()));
    }
    start_with(server, place, probe, interrupted, |scratch| {
        settings.directory = scratch.path().to_path_buf();
        if let Some(account) = scratch.account() {
            settings.user = (account.name.clone(), account.gid.to_string());
        }
        let text = server.configuration(&settings);
        let file = scratch.write(server.configuration_name(), text.as_bytes())?;
        for (name, text) in server.other_files(&settings) {
            scratch.write(name, text.as_bytes())?;
        }
        Ok((text, server.arguments(&settings, &file)))
    })
}

/// Where Debian keeps the profiles of a server that is a DNS64 peer too.
fn confinement_of(peer: &'static dyn Peer) -> Option<&'static Path> {
    peer.confined_to()
}

#[cfg(test)]
fn example_settings() -> ZoneSettings {
    ZoneSettings {
        listen: vec!["192.0.2.1:53".parse().unwrap(), "[2001:db8::1]:5300".parse().unwrap()],
        zone: "dns64perf.test".into(),
        zone_file: "/zones/dns64perf.test.zone".into(),
        workers: 2,
        directory: "/scratch".into(),
        device: Some("dut0".into()),
        buffer_octets: 1 << 22,
        rule: vec!["--names".into(), "10.0.0.0/16".into()],
        user: ("nobody".into(), "nogroup".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_comes_with_its_reason() {
        for server in all().iter().filter(|server| server.package().is_some()) {
            let text = server.configuration(&example_settings());
            let comments = text.lines().filter(|line| line.trim_start().starts_with(['#', '/'])).count();
            assert!(comments >= 5, "{}:\n{text}", server.name());
            assert!(text.contains("/zones/dns64perf.test.zone"), "{}:\n{text}", server.name());
            assert!(find(server.name()).is_ok_and(|found| found.name() == server.name()));
        }
        assert!(find("bnid").is_err_and(|error| error.to_string().contains("sextant, sextant-kernel, nsd")));
    }
}
