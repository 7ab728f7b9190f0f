//! dns64d, the forwarder that comes with the instrument: over sockets, and past the kernel's stack (AF_XDP).

use std::ffi::OsString;
use std::io;
use std::path::Path;

use super::statistics::ask_program;
use super::{Peer, PeerSettings, Server, locate};

/// The name of its control socket.
const CONTROL_NAME: &str = "control";

pub(super) struct Dns64d {
    /// By AF_XDP, at all devices it is given.
    pub xdp: bool,
}

impl Server for Dns64d {
    fn name(&self) -> &'static str {
        if self.xdp { "dns64d-xdp" } else { "dns64d" }
    }

    fn package(&self) -> Option<&'static str> {
        None
    }

    fn program(&self) -> &'static str {
        "dns64d"
    }

    fn version_arguments(&self) -> &'static [&'static str] {
        &["--version"]
    }

    /// `dns64d 0.1.0`
    fn parse_version<'o>(&self, output: &'o str) -> Option<&'o str> {
        output.lines().next()?.strip_prefix("dns64d ").map(str::trim)
    }

    fn configuration_name(&self) -> &'static str {
        "dns64d.toml"
    }
}

impl Peer for Dns64d {
    fn configuration(&self, settings: &PeerSettings) -> String {
        let PeerSettings { listen, auth, prefix, devices, .. } = settings;
        let xdp = if self.xdp { format!("[xdp]\ndevices = {devices:?}\n") } else { String::new() };
        format!(
            "listen = [\"{listen}\"]\n\
             upstreams = [\"{auth}\"]\n\
             prefixes = [\"{prefix}\"]\n\
             # The bench decides who can reach it.\n\
             allow = [\"::/0\", \"0.0.0.0/0\"]\n\
             # For what it counts.\n\
             [control]\n\
             socket = \"{directory}/{CONTROL_NAME}\"\n\
             {xdp}",
            directory = settings.directory.display(),
        )
    }

    fn arguments(&self, _settings: &PeerSettings, configuration: &Path) -> Vec<OsString> {
        vec!["--config".into(), configuration.into()]
    }

    fn takes_devices(&self) -> bool {
        self.xdp
    }

    fn obstacle(&self, settings: &PeerSettings) -> Option<String> {
        (self.xdp && settings.devices.is_empty()).then(|| {
            "AF_XDP needs Ethernet devices: name them with --devices, or let bench run as root with --path lab"
                .to_owned()
        })
    }

    fn statistics(&self, directory: &Path) -> Option<io::Result<String>> {
        let socket = directory.join(CONTROL_NAME);
        let program = locate(self).map_err(io::Error::other);
        let ask =
            |program| ask_program(program, &["control", "--socket", &socket.to_string_lossy(), "stats"]);
        Some(program.and_then(ask))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_toml_with_the_settings() {
        let ours = Dns64d { xdp: false };
        let text = ours.configuration(&super::super::example_settings());
        let table: toml::Table = text.parse().unwrap();
        assert!(!table.contains_key("xdp"));
        assert_eq!(table["listen"][0].as_str(), Some("[::1]:5321"));
        assert_eq!(table["upstreams"][0].as_str(), Some("127.0.0.1:5300"));
        assert_eq!(table["prefixes"][0].as_str(), Some("2001:db8:64::/96"));
        assert_eq!(ours.parse_version("dns64d 0.1.0\n"), Some("0.1.0"));
        assert_eq!(ours.parse_version(""), None);
    }

    #[test]
    fn past_the_stack_it_takes_its_devices_and_needs_some() {
        let (ours, mut settings) = (Dns64d { xdp: true }, super::super::example_settings());
        assert!(ours.obstacle(&settings).unwrap().contains("--path lab"));
        settings.devices = vec!["tester0".into(), "auth0".into()];
        assert_eq!(ours.obstacle(&settings), None);
        let table: toml::Table = ours.configuration(&settings).parse().unwrap();
        assert_eq!(table["xdp"]["devices"].as_array().unwrap().len(), 2);
    }
}
