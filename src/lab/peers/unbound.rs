//! Unbound (NLnet Labs), a recursive resolver whose dns64 module runs before its iterator.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;
use std::{io, iter};

use super::statistics::ask_socket;
use super::{Peer, PeerSettings, Server};

/// The name of its control socket, which only its user can reach.
const CONTROL_NAME: &str = "control.sock";

pub(super) struct Unbound;

impl Server for Unbound {
    fn name(&self) -> &'static str {
        "unbound"
    }

    fn package(&self) -> Option<&'static str> {
        Some("unbound")
    }

    fn program(&self) -> &'static str {
        "unbound"
    }

    fn version_arguments(&self) -> &'static [&'static str] {
        &["-V"]
    }

    /// `Version 1.17.1`
    fn parse_version<'o>(&self, output: &'o str) -> Option<&'o str> {
        output.lines().find_map(|line| line.strip_prefix("Version ")).map(str::trim)
    }

    fn configuration_name(&self) -> &'static str {
        "unbound.conf"
    }

    fn confined_to(&self) -> Option<&'static Path> {
        Some(Path::new("/var/lib/unbound"))
    }
}

impl Peer for Unbound {
    fn configuration(&self, settings: &PeerSettings) -> String {
        let mut text = String::from("server:\n");
        let mut option = |name: &str, value: &dyn std::fmt::Display| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "    {name}: {value}");
        };
        let workers = settings.workers();
        let slabs = workers.next_power_of_two();
        option("interface", &format_args!("{}@{}", settings.listen.ip(), settings.listen.port()));
        option("access-control", &"::/0 allow");
        option("access-control", &"0.0.0.0/0 allow");
        // In the foreground, as the user and in the directory it was started with.
        option("do-daemonize", &"no");
        option("use-syslog", &"no");
        option("logfile", &"\"\"");
        option("verbosity", &1);
        option("username", &"\"\"");
        option("chroot", &"\"\"");
        option("directory", &format_args!("\"{}\"", settings.directory.display()));
        option("pidfile", &"\"\"");
        // "Howto optimise" of its documentation: a thread and slabs for each core, large buffers and caches.
        option("num-threads", &workers);
        option("so-reuseport", &"yes");
        option("so-rcvbuf", &settings.receive_buffer_octets);
        option("so-sndbuf", &settings.send_buffer_octets);
        option("outgoing-range", &8192);
        option("num-queries-per-thread", &4096);
        option("msg-cache-size", &"128m");
        option("rrset-cache-size", &"256m");
        for cache in ["msg", "rrset", "infra", "key"] {
            option(&format!("{cache}-cache-slabs"), &slabs);
        }
        option("minimal-responses", &"yes");
        option("qname-minimisation", &"no");
        // The only upstream must be tried again after an overload, not shunned for a quarter of an hour.
        option("infra-keep-probing", &"yes");
        // Without the next two lines the AuthDNS on this machine is SERVFAIL and .test is NXDOMAIN.
        option("do-not-query-localhost", &"no");
        for zone in iter::successors(Some(settings.suffix), |name| name.parent()) {
            if zone.parent().is_some() {
                option("local-zone", &format_args!("\"{zone}\" nodefault"));
            }
        }
        // No validator.
        option("module-config", &"\"dns64 iterator\"");
        option("dns64-prefix", &settings.prefix);
        let auth = settings.auth;
        let _ = write!(
            text,
            "remote-control:\n    control-enable: yes\n    control-interface: \"{}/{CONTROL_NAME}\"\n    control-use-cert: no\n\
             forward-zone:\n    name: \".\"\n    forward-addr: {}@{}\n",
            settings.directory.display(),
            auth.ip(),
            auth.port()
        );
        text
    }

    fn arguments(&self, _settings: &PeerSettings, configuration: &Path) -> Vec<OsString> {
        vec!["-d".into(), "-c".into(), configuration.into()]
    }

    fn statistics(&self, directory: &Path) -> Option<io::Result<String>> {
        // What unbound-control would write to the socket.
        Some(ask_socket(&directory.join(CONTROL_NAME), "UBCT1 stats_noreset\n", None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_avoids_the_known_traps() {
        let text = Unbound.configuration(&super::super::example_settings());
        for line in [
            "interface: ::1@5321",
            "num-threads: 2",
            "so-rcvbuf: 1048576",
            "so-sndbuf: 524288",
            "msg-cache-slabs: 2",
            "username: \"\"",
            "chroot: \"\"",
            "directory: \"/scratch\"",
            "do-not-query-localhost: no",
            "local-zone: \"dns64perf.test.\" nodefault",
            "local-zone: \"test.\" nodefault",
            "module-config: \"dns64 iterator\"",
            "dns64-prefix: 2001:db8:64::/96",
            "qname-minimisation: no",
            "forward-addr: 127.0.0.1@5300",
        ] {
            assert!(text.lines().any(|written| written.trim() == line), "{line} is missing:\n{text}");
        }
        assert!(!text.contains("\".\" nodefault"));
    }

    #[test]
    fn the_version_is_the_first_lines() {
        assert_eq!(Unbound.parse_version("Version 1.17.1\n\nConfigure line: x\n"), Some("1.17.1"));
        assert_eq!(Unbound.parse_version("usage"), None);
    }
}
