//! PowerDNS Authoritative Server, with the zone in memory (its bind backend).

use std::ffi::OsString;
use std::path::Path;

use super::{Authoritative, Server, ZoneSettings};

pub(super) struct Pdns;

/// The file that names the zone.
const ZONES: &str = "zones.conf";

impl Server for Pdns {
    fn name(&self) -> &'static str {
        "pdns"
    }

    fn package(&self) -> Option<&'static str> {
        Some("pdns-server pdns-backend-bind")
    }

    fn program(&self) -> &'static str {
        "pdns_server"
    }

    fn version_arguments(&self) -> &'static [&'static str] {
        &["--version"]
    }

    /// `Nov 23 14:56:01 PowerDNS Authoritative Server 4.7.3 (C) 2001-2022 PowerDNS.COM BV`
    fn parse_version<'o>(&self, output: &'o str) -> Option<&'o str> {
        let (_, rest) = output.split_once("Authoritative Server ")?;
        rest.split_ascii_whitespace().next()
    }

    fn configuration_name(&self) -> &'static str {
        "pdns.conf"
    }
}

impl Authoritative for Pdns {
    fn configuration(&self, settings: &ZoneSettings) -> String {
        let listen: Vec<String> = settings.listen.iter().map(ToString::to_string).collect();
        let directory = settings.directory.display();
        format!(
            r#"# The zone is a master file, read into memory.
launch=bind
bind-config={directory}/{ZONES}
# It is read once.
bind-check-interval=0
local-address={listen}
# A thread for each core, each with a socket of its own.
receiver-threads={workers}
reuseport=yes
# One more for each of them looks things up.
distributor-threads=1
# No second port, no file elsewhere.
webserver=no
api=no
socket-dir={directory}
write-pid=no
# It stays in the foreground, and does not start itself again.
daemon=no
guardian=no
# A line for each query would be most of the work.
log-dns-queries=no
loglevel=3
# The zone that it loads: {zone_file}
"#,
            listen = listen.join(", "),
            workers = settings.workers,
            zone_file = settings.zone_file.display(),
        )
    }

    fn other_files(&self, settings: &ZoneSettings) -> Vec<(&'static str, String)> {
        let ZoneSettings { zone, zone_file, .. } = settings;
        let text = format!("zone \"{zone}\" {{ type master; file \"{}\"; }};\n", zone_file.display());
        vec![(ZONES, text)]
    }

    fn arguments(&self, settings: &ZoneSettings, _configuration: &Path) -> Vec<OsString> {
        vec![format!("--config-dir={}", settings.directory.display()).into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zone_stands_in_a_file_of_its_own() {
        let settings = super::super::example_settings();
        let text = Pdns.configuration(&settings);
        assert!(text.contains("local-address=192.0.2.1:53, [2001:db8::1]:5300\n"), "{text}");
        assert!(text.contains("bind-config=/scratch/zones.conf\n") && text.contains("receiver-threads=2\n"));
        let zones = Pdns.other_files(&settings).remove(0).1;
        assert_eq!(zones, "zone \"dns64perf.test\" { type master; file \"/zones/dns64perf.test.zone\"; };\n");
        let version = "Nov 23 14:56:01 PowerDNS Authoritative Server 4.7.3 (C) 2001-2022 PowerDNS.COM BV\n";
        assert_eq!(Pdns.parse_version(version), Some("4.7.3"));
    }
}
