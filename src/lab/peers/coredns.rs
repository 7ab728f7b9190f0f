//! CoreDNS, a server of plugins in Go; Debian has no package of it.

use std::ffi::OsString;
use std::path::Path;

use super::{Peer, PeerSettings, Server};

pub(super) struct CoreDns;

impl Server for CoreDns {
    fn name(&self) -> &'static str {
        "coredns"
    }

    fn package(&self) -> Option<&'static str> {
        None
    }

    fn built_by(&self) -> Option<&'static str> {
        Some("build it with Go: GOBIN=/usr/local/bin go install github.com/coredns/coredns@v1.15.0")
    }

    fn program(&self) -> &'static str {
        "coredns"
    }

    fn version_arguments(&self) -> &'static [&'static str] {
        &["-version"]
    }

    /// `CoreDNS-1.15.0`
    fn parse_version<'o>(&self, output: &'o str) -> Option<&'o str> {
        output.lines().find_map(|line| line.strip_prefix("CoreDNS-")).map(str::trim)
    }

    fn configuration_name(&self) -> &'static str {
        "Corefile"
    }
}

impl Peer for CoreDns {
    fn configuration(&self, settings: &PeerSettings) -> String {
        let PeerSettings { listen, auth, prefix, .. } = settings;
        // Go's runtime takes as many processors as the process may use, so nothing is said of threads.
        let sockets = match settings.workers() {
            1 => String::new(),
            workers => format!("    # A socket for each core (since 1.12).\n    multisocket {workers}\n"),
        };
        format!(
            ".:{port} {{\n    bind {address}\n{sockets}    \
             # Clients over IPv4 too, as other servers do.\n    \
             dns64 {{\n        prefix {prefix}\n        allow_ipv4\n    }}\n    \
             # The only upstream must be tried again after an overload, not shunned.\n    \
             forward . {auth} {{\n        max_fails 0\n    }}\n    \
             # The default of 9984 entries would be overrun at once. Where no name is asked twice, it is faster without.\n    \
             cache {{\n        success 1000000\n        denial 1000000\n    }}\n}}\n",
            port = listen.port(),
            address = listen.ip(),
        )
    }

    fn arguments(&self, _settings: &PeerSettings, configuration: &Path) -> Vec<OsString> {
        vec!["-quiet".into(), "-conf".into(), configuration.into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corefile_has_the_settings() {
        let mut settings = super::super::example_settings();
        let text = CoreDns.configuration(&settings);
        for line in
            [".:5321 {", "bind ::1", "multisocket 2", "prefix 2001:db8:64::/96", "forward . 127.0.0.1:5300 {"]
        {
            assert!(text.lines().any(|written| written.trim() == line), "{line} is missing:\n{text}");
        }
        settings.cores.truncate(1);
        assert!(!CoreDns.configuration(&settings).contains("multisocket"));
        assert_eq!(CoreDns.parse_version("CoreDNS-1.15.0\nlinux/amd64, go1.26\n"), Some("1.15.0"));
        assert_eq!(CoreDns.parse_version("1.15.0"), None);
    }
}
