//! YADIFA (EURid).

use std::ffi::OsString;
use std::path::Path;

use super::{Authoritative, Server, ZoneSettings};

pub(super) struct Yadifa;

impl Server for Yadifa {
    fn name(&self) -> &'static str {
        "yadifa"
    }

    fn package(&self) -> Option<&'static str> {
        Some("yadifa")
    }

    fn program(&self) -> &'static str {
        "yadifad"
    }

    fn version_arguments(&self) -> &'static [&'static str] {
        &["--version"]
    }

    /// `yadifad 2.6.4-10892 (2023-03-01)`
    fn parse_version<'o>(&self, output: &'o str) -> Option<&'o str> {
        output.lines().find_map(|line| line.strip_prefix("yadifad "))?.split_whitespace().next()
    }

    fn configuration_name(&self) -> &'static str {
        "yadifad.conf"
    }
}

impl Authoritative for Yadifa {
    fn configuration(&self, settings: &ZoneSettings) -> String {
        let ZoneSettings { workers, directory, zone, user: (user, group), .. } = settings;
        let directory = directory.display();
        let listen: Vec<String> = settings
            .listen
            .iter()
            .map(|address| format!("{} port {}", address.ip(), address.port()))
            .collect();
        format!(
            r#"<main>
    # In the foreground, as the user that starts it.
    daemonize off
    uid {user}
    gid {group}
    chroot off
    logpath "{directory}"
    pidfile "{directory}/yadifad.pid"
    datapath "{directory}"
    keyspath "{directory}"
    xfrpath "{directory}"
    listen {listen}
    # Each thread reads, answers and sends several messages in a call.
    network-model multi
    # A thread for each core and address.
    thread-count-by-address {workers}
    # Counters are kept for nobody here.
    statistics off
</main>
<rrl>
    # Rate limiting would drop what a benchmark asks.
    enabled off
</rrl>
<zone>
    # The file is all there is; nobody takes or changes the zone.
    type primary
    domain {zone}
    file "{zone_file}"
    allow-transfer none
    allow-update none
    allow-update-forwarding none
</zone>
"#,
            listen = listen.join(", "),
            zone_file = settings.zone_file.display(),
        )
    }

    fn arguments(&self, _settings: &ZoneSettings, configuration: &Path) -> Vec<OsString> {
        vec!["-c".into(), configuration.into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_names_addresses_and_threads() {
        let text = Yadifa.configuration(&super::super::example_settings());
        assert!(text.contains("    listen 192.0.2.1 port 53, 2001:db8::1 port 5300\n"), "{text}");
        assert!(text.contains("    thread-count-by-address 2\n"), "{text}");
        assert_eq!(Yadifa.parse_version("yadifad 2.6.4-10892 (2023-03-01)\n"), Some("2.6.4-10892"));
    }
}
