//! TOTD, the first DNS64 of them all (2001); built from source.

use std::ffi::OsString;
use std::path::Path;

use super::{Peer, PeerSettings, Server, needs_96};

pub(super) struct Totd;

impl Server for Totd {
    fn name(&self) -> &'static str {
        "totd"
    }

    fn package(&self) -> Option<&'static str> {
        None
    }

    fn built_by(&self) -> Option<&'static str> {
        Some("build it from github.com/fwdillema/totd and put it on the PATH")
    }

    fn program(&self) -> &'static str {
        "totd"
    }

    fn version_arguments(&self) -> &'static [&'static str] {
        &["-h"]
    }

    /// Its usage text names the version, if it names one, in its first line that has a digit and a dot.
    fn parse_version<'o>(&self, output: &'o str) -> Option<&'o str> {
        let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
        Some(output.split_whitespace().find(is_version).unwrap_or("of unknown version"))
    }

    fn configuration_name(&self) -> &'static str {
        "totd.conf"
    }
}

impl Peer for Totd {
    fn configuration(&self, settings: &PeerSettings) -> String {
        let PeerSettings { listen, auth, prefix, .. } = settings;
        format!(
            "forwarder {} port {}\nprefix {}\nport {}\npidfile {}/totd.pid\nretry 300\n",
            auth.ip(),
            auth.port(),
            prefix.address(),
            listen.port(),
            settings.directory.display(),
        )
    }

    fn arguments(&self, settings: &PeerSettings, configuration: &Path) -> Vec<OsString> {
        // -d keeps it in the foreground. It listens on every address of a family.
        let family = if settings.listen.is_ipv6() { "-6" } else { "-4" };
        vec!["-d0".into(), family.into(), "-q".into(), "-c".into(), configuration.into()]
    }

    fn obstacle(&self, settings: &PeerSettings) -> Option<String> {
        needs_96(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_has_the_settings() {
        let settings = super::super::example_settings();
        let text = Totd.configuration(&settings);
        assert!(
            text.starts_with("forwarder 127.0.0.1 port 5300\nprefix 2001:db8:64::\nport 5321\n"),
            "{text}"
        );
        assert_eq!(Totd.arguments(&settings, Path::new("/c"))[1], "-6");
        assert_eq!(Totd.parse_version("totd version 1.5.3, usage"), Some("1.5.3,"));
        assert_eq!(Totd.parse_version(""), Some("of unknown version"));
    }
}
