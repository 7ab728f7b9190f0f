//! BIND 9 (ISC) as an authoritative server.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;

use super::super::bind::Bind as Resolver;
use super::{Authoritative, Server, ZoneSettings, confinement_of};

pub(super) struct Bind;

impl Server for Bind {
    fn name(&self) -> &'static str {
        "bind"
    }

    fn package(&self) -> Option<&'static str> {
        Resolver.package()
    }

    fn program(&self) -> &'static str {
        Resolver.program()
    }

    fn version_arguments(&self) -> &'static [&'static str] {
        Resolver.version_arguments()
    }

    fn parse_version<'o>(&self, output: &'o str) -> Option<&'o str> {
        Resolver.parse_version(output)
    }

    fn configuration_name(&self) -> &'static str {
        Resolver.configuration_name()
    }

    fn confined_to(&self) -> Option<&'static Path> {
        confinement_of(&Resolver)
    }
}

impl Authoritative for Bind {
    fn configuration(&self, settings: &ZoneSettings) -> String {
        let ZoneSettings { directory, buffer_octets, zone, .. } = settings;
        let mut listen = String::new();
        for (option, is_family) in [
            ("listen-on", std::net::SocketAddr::is_ipv4 as fn(&std::net::SocketAddr) -> bool),
            ("listen-on-v6", std::net::SocketAddr::is_ipv6),
        ] {
            let mut heard = false;
            for address in settings.listen.iter().filter(|address| is_family(address)) {
                // Writing to a String cannot fail.
                let _ = writeln!(listen, "    {option} port {} {{ {}; }};", address.port(), address.ip());
                heard = true;
            }
            if !heard {
                let _ = writeln!(listen, "    {option} {{ none; }};");
            }
        }
        format!(
            r#"options {{
    directory "{directory}";
    pid-file none;
    lock-file none;
    session-keyfile none;
{listen}    # Authoritative alone: no cache, no trust anchors, nobody else is asked.
    recursion no;
    dnssec-validation no;
    empty-zones-enable no;
    # Nothing that was not asked for, and no list of all types for ANY.
    minimal-responses yes;
    minimal-any yes;
    # The SOA record keeps its TTL in a negative answer to a question for SOA, as elsewhere.
    zero-no-soa-ttl no;
    # Nobody is told of the zone, and nobody takes it.
    notify no;
    allow-transfer {{ none; }};
    # A line for each query would be most of the work.
    querylog no;
    # A pause of the machine must not overflow the queue.
    udp-receive-buffer {buffer_octets};
    udp-send-buffer {buffer_octets};
}};
# No second port.
controls {{ }};
zone "{zone}" {{
    type primary;
    file "{zone_file}";
    # The file is right already; the checks take time at the start.
    check-integrity no;
}};
"#,
            directory = directory.display(),
            zone_file = settings.zone_file.display(),
        )
    }

    fn arguments(&self, settings: &ZoneSettings, configuration: &Path) -> Vec<OsString> {
        // In the foreground, its log on standard error.
        let workers = settings.workers.max(1).to_string();
        vec!["-g".into(), "-n".into(), workers.into(), "-c".into(), configuration.into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_port() {
        let mut settings = super::super::example_settings();
        let text = Bind.configuration(&settings);
        assert!(text.contains("    listen-on port 53 { 192.0.2.1; };\n"), "{text}");
        assert!(text.contains("    listen-on-v6 port 5300 { 2001:db8::1; };\n"), "{text}");
        settings.listen.truncate(1);
        assert!(Bind.configuration(&settings).contains("    listen-on-v6 { none; };\n"));
        assert_eq!(Bind.arguments(&settings, Path::new("/c"))[1..3], ["-n", "2"]);
    }
}
