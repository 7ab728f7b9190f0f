//! NSD (NLnet Labs): a process for each server, the zone in memory.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;

use super::{Authoritative, Server, ZoneSettings};

pub(super) struct Nsd;

impl Server for Nsd {
    fn name(&self) -> &'static str {
        "nsd"
    }

    fn package(&self) -> Option<&'static str> {
        Some("nsd")
    }

    fn program(&self) -> &'static str {
        "nsd"
    }

    fn version_arguments(&self) -> &'static [&'static str] {
        &["-v"]
    }

    /// `NSD version 4.6.1`
    fn parse_version<'o>(&self, output: &'o str) -> Option<&'o str> {
        output.lines().find_map(|line| line.strip_prefix("NSD version ")).map(str::trim)
    }

    fn configuration_name(&self) -> &'static str {
        "nsd.conf"
    }
}

impl Authoritative for Nsd {
    fn configuration(&self, settings: &ZoneSettings) -> String {
        let ZoneSettings { workers, directory, buffer_octets, zone, .. } = settings;
        let directory = directory.display();
        let mut listen = String::new();
        for address in &settings.listen {
            // Writing to a String cannot fail.
            let _ = writeln!(listen, "    ip-address: {}@{}", address.ip(), address.port());
        }
        format!(
            r#"server:
{listen}    # A process for each core; it has one thread.
    server-count: {workers}
    # A socket for each process, so that they do not share a queue.
    reuseport: {reuseport}
    # A pause of the machine must not overflow the queue; the default is the system's.
    receive-buffer-size: {buffer_octets}
    send-buffer-size: {buffer_octets}
    # Nothing that was not asked for: the other servers send no more either.
    minimal-responses: yes
    # Rate limiting would drop what a benchmark asks.
    rrl-ratelimit: 0
    rrl-whitelist-ratelimit: 0
    # It stays the user that started it, and reads the zone where it is.
    username: ""
    chroot: ""
    # The zone is in memory; a database on disk would only be written.
    database: ""
    zonesdir: "{directory}"
    pidfile: "{directory}/nsd.pid"
    xfrdfile: "{directory}/xfrd.state"
    xfrdir: "{directory}"
    zonelistfile: "{directory}/zone.list"
    cookie-secret-file: ""
    hide-version: yes
remote-control:
    # No second port.
    control-enable: no
zone:
    name: "{zone}"
    zonefile: "{zone_file}"
"#,
            reuseport = if *workers > 1 { "yes" } else { "no" },
            zone_file = settings.zone_file.display(),
        )
    }

    /// Without CAP_NET_ADMIN it leaves its sockets at the system's default: it tries SO_RCVBUFFORCE alone (4.6.1).
    fn wants_root(&self) -> bool {
        true
    }

    fn arguments(&self, _settings: &ZoneSettings, configuration: &Path) -> Vec<OsString> {
        vec!["-d".into(), "-c".into(), configuration.into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_avoids_the_known_traps() {
        let text = Nsd.configuration(&super::super::example_settings());
        for line in [
            "ip-address: 192.0.2.1@53",
            "ip-address: 2001:db8::1@5300",
            "server-count: 2",
            "reuseport: yes",
            "username: \"\"",
            "rrl-ratelimit: 0",
        ] {
            assert!(text.lines().any(|written| written.trim() == line), "{line} is missing:\n{text}");
        }
        assert_eq!(Nsd.parse_version("NSD version 4.6.1\nWritten by NLnet Labs.\n"), Some("4.6.1"));
        assert_eq!(Nsd.parse_version(""), None);
    }
}
