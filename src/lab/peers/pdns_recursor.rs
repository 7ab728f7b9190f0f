//! PowerDNS Recursor, a recursive resolver with DNS64 of its own since 4.4, without a Lua script.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use super::statistics::ask_program;
use super::{Peer, PeerSettings, Server, needs_96};

pub(super) struct PdnsRecursor;

impl Server for PdnsRecursor {
    fn name(&self) -> &'static str {
        "pdns-recursor"
    }

    fn package(&self) -> Option<&'static str> {
        Some("pdns-recursor")
    }

    fn program(&self) -> &'static str {
        "pdns_recursor"
    }

    fn version_arguments(&self) -> &'static [&'static str] {
        &["--version"]
    }

    /// `Nov 22 22:19:50 PowerDNS Recursor 4.8.8 (C) 2001-2022 PowerDNS.COM BV`
    fn parse_version<'o>(&self, output: &'o str) -> Option<&'o str> {
        output.split_once("PowerDNS Recursor ")?.1.split_whitespace().next()
    }

    fn configuration_name(&self) -> &'static str {
        "recursor.conf"
    }
}

impl Peer for PdnsRecursor {
    fn configuration(&self, settings: &PeerSettings) -> String {
        let PeerSettings { listen, auth, prefix, .. } = settings;
        format!(
            "# Where, and for whom.\n\
             local-address={listen}\n\
             allow-from=0.0.0.0/0,::/0\n\
             # In the foreground, as the user and in the directory it was started with; a line for each query would be most of the work.\n\
             daemon=no\n\
             write-pid=no\n\
             socket-dir={directory}\n\
             disable-syslog=yes\n\
             log-timestamp=no\n\
             loglevel=4\n\
             quiet=yes\n\
             log-common-errors=no\n\
             # \"Performance guide\" of its documentation: a thread for each core, each with a socket of its own, caches that hold the load.\n\
             threads={workers}\n\
             pdns-distributes-queries=no\n\
             reuseport=yes\n\
             max-cache-entries=2000000\n\
             max-packetcache-entries=1000000\n\
             # Everything goes to the AuthDNS, on this machine too, which is asked for the whole name at once.\n\
             forward-zones-recurse=.={auth}\n\
             dont-query=\n\
             qname-minimization=no\n\
             hint-file=no\n\
             security-poll-suffix=\n\
             # The only upstream must be tried again after an overload, not shunned.\n\
             dont-throttle-netmasks=0.0.0.0/0,::/0\n\
             server-down-max-fails=0\n\
             # Validation would end in SERVFAIL: the zone is not signed and the root cannot be asked.\n\
             dnssec=off\n\
             aggressive-nsec-cache-size=0\n\
             dns64-prefix={prefix}\n",
            directory = settings.directory.display(),
            workers = settings.workers(),
        )
    }

    fn arguments(&self, settings: &PeerSettings, _configuration: &Path) -> Vec<OsString> {
        vec![format!("--config-dir={}", settings.directory.display()).into()]
    }

    fn obstacle(&self, settings: &PeerSettings) -> Option<String> {
        needs_96(settings)
    }

    fn statistics(&self, directory: &Path) -> Option<io::Result<String>> {
        let directory = format!("--socket-dir={}", directory.display());
        Some(ask_program("rec_control", &[&directory, "get-all"]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_avoids_the_known_traps() {
        let mut settings = super::super::example_settings();
        let text = PdnsRecursor.configuration(&settings);
        for line in [
            "local-address=[::1]:5321",
            "threads=2",
            "forward-zones-recurse=.=127.0.0.1:5300",
            "dont-query=",
            "dnssec=off",
            "dns64-prefix=2001:db8:64::/96",
            "socket-dir=/scratch",
        ] {
            assert!(text.lines().any(|written| written == line), "{line} is missing:\n{text}");
        }
        assert_eq!(PdnsRecursor.obstacle(&settings), None);
        settings.prefix = "2001:db8::/32".parse().unwrap();
        assert!(PdnsRecursor.obstacle(&settings).is_some_and(|why| why.contains("2001:db8::/32")));
    }

    #[test]
    fn the_version_stands_behind_the_name() {
        let output = "Nov 22 22:19:50 PowerDNS Recursor 4.8.8 (C) 2001-2022 PowerDNS.COM BV\n";
        assert_eq!(PdnsRecursor.parse_version(output), Some("4.8.8"));
        assert_eq!(PdnsRecursor.parse_version("PowerDNS"), None);
    }
}
