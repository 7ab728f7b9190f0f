//! BIND 9 (ISC), a recursive resolver with a dns64 option.
//!
//! It opens a socket for each upstream query, on a random port that another query in flight may have: then one of the two
//! loses its reply and is asked again after 1.2 s. About 1 in 10,000 at 6,000 q/s; a smaller port range makes it more. That
//! is later than RFC 8219's timeout, and it is left as it is: the options against it are deprecated.

use std::ffi::OsString;
use std::path::Path;

use super::{Peer, PeerSettings, Server};
use crate::lab::child::LOG_NAME;

pub(super) struct Bind;

impl Server for Bind {
    fn name(&self) -> &'static str {
        "bind"
    }

    fn package(&self) -> Option<&'static str> {
        Some("bind9")
    }

    fn program(&self) -> &'static str {
        "named"
    }

    fn version_arguments(&self) -> &'static [&'static str] {
        &["-V"]
    }

    /// `BIND 9.18.49-1~deb12u3-Debian (Extended Support Version) <id:>`
    fn parse_version<'o>(&self, output: &'o str) -> Option<&'o str> {
        output.lines().find_map(|line| line.strip_prefix("BIND "))?.split_whitespace().next()
    }

    fn configuration_name(&self) -> &'static str {
        "named.conf"
    }

    fn confined_to(&self) -> Option<&'static Path> {
        Some(Path::new("/var/cache/bind"))
    }
}

impl Peer for Bind {
    fn configuration(&self, settings: &PeerSettings) -> String {
        let PeerSettings { listen, auth, prefix, receive_buffer_octets, send_buffer_octets, .. } = settings;
        let (listening, deaf) =
            if listen.is_ipv4() { ("listen-on", "listen-on-v6") } else { ("listen-on-v6", "listen-on") };
        format!(
            r#"options {{
    directory "{directory}";
    pid-file none;
    lock-file none;
    session-keyfile none;
    {listening} port {port} {{ {address}; }};
    {deaf} {{ none; }};
    recursion yes;
    allow-query {{ any; }};
    allow-recursion {{ any; }};
    allow-query-cache {{ any; }};
    # Everything goes to the AuthDNS; without "only" a lost reply would start an iteration from the root.
    forwarders {{ {auth_address} port {auth_port}; }};
    forward only;
    # Validation would end in SERVFAIL: the zone is not signed and the root cannot be asked.
    dnssec-validation no;
    empty-zones-enable no;
    minimal-responses yes;
    querylog no;
    # The default of 1000 drops clients under load.
    recursive-clients 10000;
    max-cache-size 384m;
    udp-receive-buffer {receive_buffer_octets};
    udp-send-buffer {send_buffer_octets};
    dns64 {prefix} {{ clients {{ any; }}; mapped {{ any; }}; }};
}};
logging {{ category lame-servers {{ null; }}; category resolver {{ null; }}; category edns-disabled {{ null; }}; }};
controls {{ }};
"#,
            directory = settings.directory.display(),
            port = listen.port(),
            address = listen.ip(),
            auth_address = auth.ip(),
            auth_port = auth.port(),
        )
    }

    fn arguments(&self, settings: &PeerSettings, configuration: &Path) -> Vec<OsString> {
        // In the foreground. With -g it would log to stderr, but ignore the logging statement and write a line for each
        // failed resolution.
        let workers = settings.workers().to_string();
        let log = settings.directory.join(LOG_NAME);
        vec![
            "-f".into(),
            "-L".into(),
            log.into(),
            "-n".into(),
            workers.into(),
            "-c".into(),
            configuration.into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_avoids_the_known_traps() {
        let mut settings = super::super::example_settings();
        let text = Bind.configuration(&settings);
        for line in [
            "listen-on-v6 port 5321 { ::1; };",
            "listen-on { none; };",
            "forwarders { 127.0.0.1 port 5300; };",
            "forward only;",
            "dnssec-validation no;",
            "recursive-clients 10000;",
            "dns64 2001:db8:64::/96 { clients { any; }; mapped { any; }; };",
        ] {
            assert!(text.lines().any(|written| written.trim() == line), "{line} is missing:\n{text}");
        }
        settings.listen = "192.0.2.1:53".parse().unwrap();
        assert!(Bind.configuration(&settings).contains("listen-on port 53 { 192.0.2.1; };"));
        assert_eq!(Bind.arguments(&settings, Path::new("/c"))[3..5], ["-n", "2"]);
    }

    #[test]
    fn the_version_is_the_second_word() {
        let output = "BIND 9.18.49-1~deb12u3-Debian (Extended Support Version) <id:>\nrunning on Linux\n";
        assert_eq!(Bind.parse_version(output), Some("9.18.49-1~deb12u3-Debian"));
        assert_eq!(Bind.parse_version("BIND "), None);
    }
}
