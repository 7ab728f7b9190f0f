//! Knot DNS (CZ.NIC), on sockets or with AF_XDP.

use std::ffi::OsString;
use std::path::Path;

use super::{Authoritative, Server, ZoneSettings};

pub(super) struct Knot {
    pub xdp: bool,
}

impl Server for Knot {
    fn name(&self) -> &'static str {
        if self.xdp { "knot-xdp" } else { "knot" }
    }

    fn package(&self) -> Option<&'static str> {
        Some("knot")
    }

    fn program(&self) -> &'static str {
        "knotd"
    }

    fn version_arguments(&self) -> &'static [&'static str] {
        &["--version"]
    }

    /// `knotd (Knot DNS), version 3.2.6`
    fn parse_version<'o>(&self, output: &'o str) -> Option<&'o str> {
        output.lines().next()?.split_once("version ").map(|(_, version)| version.trim())
    }

    fn configuration_name(&self) -> &'static str {
        "knot.conf"
    }
}

impl Authoritative for Knot {
    fn configuration(&self, settings: &ZoneSettings) -> String {
        let ZoneSettings { workers, directory, zone, .. } = settings;
        let directory = directory.display();
        let listen: Vec<String> = settings
            .listen
            .iter()
            .map(|address| format!("\"{}@{}\"", address.ip(), address.port()))
            .collect();
        format!(
            r#"server:
    listen: [ {listen} ]
    # A thread for each core. Knot pins worker n to processor n, whatever taskset says.
    udp-workers: {workers}
    # The benchmark asks over UDP.
    tcp-workers: 1
    background-workers: 1
    rundir: "{directory}"
{xdp}log:
  - target: stderr
    any: warning
database:
    storage: "{directory}"
zone:
  - domain: "{zone}"
    file: "{zone_file}"
    # The file is all there is: no journal to read or to write.
    zonefile-load: whole
    journal-content: none
    # The file is never written back.
    zonefile-sync: -1
    # It is right already; the checks take as long as loading.
    semantic-checks: off
"#,
            listen = listen.join(", "),
            xdp = self.xdp_section(settings),
            zone_file = settings.zone_file.display(),
        )
    }

    fn arguments(&self, _settings: &ZoneSettings, configuration: &Path) -> Vec<OsString> {
        vec!["--config".into(), configuration.into()]
    }

    fn is_xdp(&self) -> bool {
        self.xdp
    }
}

impl Knot {
    fn xdp_section(&self, settings: &ZoneSettings) -> String {
        if !self.xdp {
            return String::new();
        }
        let port = settings.listen.first().map_or(53, std::net::SocketAddr::port);
        let device = settings.device.as_deref().unwrap_or("eth0");
        format!(
            "xdp:\n    # AF_XDP, a worker for each receive queue of the device; needs root. Knot leaves its program on the\n    \
             # device: take it off with ip link set {device} xdp off\n    listen: [ \"{device}@{port}\" ]\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_for_sockets_or_xdp() {
        let settings = super::super::example_settings();
        let text = Knot { xdp: false }.configuration(&settings);
        assert!(text.contains("listen: [ \"192.0.2.1@53\", \"2001:db8::1@5300\" ]"), "{text}");
        assert!(text.contains("udp-workers: 2\n") && !text.contains("xdp:"), "{text}");
        let text = Knot { xdp: true }.configuration(&settings);
        assert!(text.contains("    listen: [ \"dut0@53\" ]\n"), "{text}");
        let version = Knot { xdp: false }.parse_version("knotd (Knot DNS), version 3.2.6\n");
        assert_eq!(version, Some("3.2.6"));
    }
}
