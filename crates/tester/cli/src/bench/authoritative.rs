//! An authoritative server as the server under test: it has the zone and answers every AAAA itself, as in
//! RFC 8219 9.2.1.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sys::bpf::Attached;
use tempfile::TempDir;

use super::super::zone::write_zone;
use super::super::{EXIT_UNFIT, EXIT_USAGE};
use super::peer_failure;
use super::servers::Setup;
use crate::failure::Failure;
use authdns::zone_file::ZoneFile;
use authdns::{Zone, ZoneConfig};
use campaign::{Site, Tester};
use lab::network::Role;
use lab::peers::authoritative::{self, ZoneSettings};
use lab::peers::{Placement, Probe, RunningPeer, granted_octets};

/// How long a server may take to load nothing.
const READY: Duration = Duration::from_secs(15);
/// It reads at least so many names in a second.
const NAMES_PER_SECOND: u64 = 20_000;

/// A running authoritative server with what it needs.
pub struct Started {
    pub running: RunningPeer,
    pub names: u64,
    pub zone: TempDir,
    /// Lets the Tester's sockets receive what an XDP program of the server sends.
    pub pass: Option<Attached>,
}

/// How long it may take until it has so many names.
pub fn patience(names: u64) -> Duration {
    READY + Duration::from_secs(names / NAMES_PER_SECOND)
}

/// Writes the zone, and starts the server with it.
///
/// # Errors
/// Options that do not go together, no room for the zone, or a server that is missing or does not start.
pub fn start(
    name: &str,
    (setup, site, tester): (&Setup<'_>, &Site, &Tester),
    (listen, cpus): (SocketAddr, &[usize]),
    probe: &Probe,
) -> Result<Started, Failure> {
    let server = authoritative::find(name).map_err(peer_failure)?;
    if setup.query.aaaa_share > 0 {
        let message =
            "--aaaa-share is for DNS64 servers: all names of an authoritative one have AAAA records";
        return Err(Failure::new(EXIT_USAGE, message));
    }
    if server.is_xdp() && *site == Site::Loopback {
        let message = format!("{name} answers at a network device: it is measured in a lab, as root");
        return Err(Failure::new(EXIT_UNFIT, message));
    }
    let unfit = |error: std::io::Error| Failure::new(EXIT_UNFIT, error);
    let directory = tempfile::Builder::new().prefix("sextant-zone-").tempdir().map_err(unfit)?;
    // The server is another user's.
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).map_err(unfit)?;
    let names = setup.query.names.size();
    let zone_file = match server.package {
        Some(_) => zone_file(setup, &directory, &tester.stop)?,
        None => PathBuf::new(),
    };
    let settings = ZoneSettings {
        listen: vec![listen],
        zone: setup.query.suffix.to_string().trim_end_matches('.').to_owned(),
        zone_file,
        workers: cpus.len().max(1),
        directory: PathBuf::new(),
        device: site.device(Role::Dut, Role::Tester),
        buffer_octets: granted_octets("rmem_max"),
        rule: rule(setup),
        user: ("root".into(), "root".into()),
    };
    let place = Placement {
        listen,
        cores: cpus.to_vec(),
        namespace: site.namespace(Role::Dut),
        asked_from: site.namespace(Role::Tester),
        as_root: server.wants_root(),
        patience: patience(names),
    };
    // Nobody else is at the Tester's device while the server is asked for the first time.
    let pass = match site {
        Site::Lab(lab) if server.is_xdp() => Some(lab.attach_pass(Role::Tester, Role::Dut).map_err(unfit)?),
        _ => None,
    };
    let running =
        authoritative::start(server, &place, settings, probe, &tester.stop).map_err(peer_failure)?;
    let pass = pass.filter(|_| tester.backend.has_sockets());
    Ok(Started { running, names, zone: directory, pass })
}

/// Every name has a AAAA record, under the prefix that is asked for.
fn zone_file(setup: &Setup<'_>, directory: &TempDir, stop: &AtomicBool) -> Result<PathBuf, Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::new(EXIT_USAGE, error);
    let config = ZoneConfig {
        suffix: setup.query.suffix.to_string(),
        ttl_s: setup.server.ttl,
        negative_ttl_s: setup.server.ttl,
        aaaa_share_percent: 100,
        aaaa_prefix: setup.query.prefix,
        names: Some(setup.query.names),
        ..ZoneConfig::default()
    };
    let zone = Zone::new(config).map_err(|error| usage(&error))?;
    let file = ZoneFile::new(&zone).map_err(|error| usage(&error))?;
    let path = directory.path().join("zone");
    write_zone(&file, &path, stop)?;
    Ok(path)
}

fn rule(setup: &Setup<'_>) -> Vec<String> {
    let query = setup.query;
    let suffix = query.suffix.to_string();
    let words = [
        ("--suffix", suffix.trim_end_matches('.').to_owned()),
        ("--names", query.names.to_string()),
        ("--ttl", setup.server.ttl.to_string()),
        ("--aaaa-share", "100".to_owned()),
        ("--aaaa-prefix", query.prefix.to_string()),
    ];
    words.into_iter().flat_map(|(option, value)| [option.to_owned(), value]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_zone_may_take_long() {
        assert_eq!(patience(0), READY);
        assert_eq!(patience(1 << 20), READY + Duration::from_secs(52));
    }
}
