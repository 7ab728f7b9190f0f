//! Knot Resolver 5 (CZ.NIC), configured by a Lua program.
//!
//! One process has one thread. Its documentation runs an instance for each core, started by systemd; here it is one
//! process, whatever processors it may use, and tables for several cores say so.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use super::statistics::ask_socket;
use super::{Peer, PeerSettings, Server, needs_96};

pub(super) struct KnotResolver;

impl Server for KnotResolver {
    fn name(&self) -> &'static str {
        "knot-resolver"
    }

    fn package(&self) -> Option<&'static str> {
        Some("knot-resolver")
    }

    fn program(&self) -> &'static str {
        "kresd"
    }

    fn version_arguments(&self) -> &'static [&'static str] {
        &["--version"]
    }

    /// `Knot Resolver, version 5.6.0`
    fn parse_version<'o>(&self, output: &'o str) -> Option<&'o str> {
        output.lines().find_map(|line| line.strip_prefix("Knot Resolver, version ")).map(str::trim)
    }

    fn configuration_name(&self) -> &'static str {
        "kresd.conf"
    }
}

impl Peer for KnotResolver {
    fn configuration(&self, settings: &PeerSettings) -> String {
        let PeerSettings { listen, auth, prefix, suffix, .. } = settings;
        format!(
            "-- Where.\n\
             net.listen('{address}', {port}, {{ kind = 'dns' }})\n\
             -- Everything goes to the AuthDNS. FORWARD, not STUB: the A query of dns64 ignores a STUB. A rule for the suffix itself\n\
             -- comes before the one that says NXDOMAIN for .test.\n\
             policy.add(policy.suffix(policy.FORWARD('{auth_address}@{auth_port}'), policy.todnames({{'{suffix}'}})))\n\
             -- Validation would end in SERVFAIL: the zone is not signed and the root cannot be asked.\n\
             trust_anchors.remove('.')\n\
             modules.unload('ta_update')\n\
             modules.unload('ta_signal_query')\n\
             -- Nobody but the AuthDNS is asked, nor is the clock watched.\n\
             modules.unload('priming')\n\
             modules.unload('detect_time_skew')\n\
             modules.unload('detect_time_jump')\n\
             modules.load('dns64')\n\
             dns64.config({{ prefix = '{prefix}' }})\n\
             -- A cache that holds the load.\n\
             cache.open(384 * MB, 'lmdb://{directory}/cache')\n\
             log_level('err')\n",
            address = listen.ip(),
            port = listen.port(),
            auth_address = auth.ip(),
            auth_port = auth.port(),
            prefix = prefix.address(),
            directory = settings.directory.display(),
        )
    }

    fn arguments(&self, settings: &PeerSettings, configuration: &Path) -> Vec<OsString> {
        // Without its read-eval-print loop on the standard input.
        let directory = settings.directory.as_os_str();
        vec!["-n".into(), "-c".into(), configuration.into(), directory.into()]
    }

    fn obstacle(&self, settings: &PeerSettings) -> Option<String> {
        needs_96(settings)
    }

    fn statistics(&self, directory: &Path) -> Option<io::Result<String>> {
        Some(control_socket(directory).and_then(|path| ask_socket(&path, "worker.stats()\n", Some("> "))))
    }
}

/// The only socket in its directory `control`; its name is the process's number.
fn control_socket(directory: &Path) -> io::Result<std::path::PathBuf> {
    let found = fs::read_dir(directory.join("control"))?.next();
    found.ok_or_else(|| io::Error::other("knot-resolver has no control socket"))?.map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_avoids_the_known_traps() {
        let settings = super::super::example_settings();
        let text = KnotResolver.configuration(&settings);
        for line in [
            "net.listen('::1', 5321, { kind = 'dns' })",
            "policy.add(policy.suffix(policy.FORWARD('127.0.0.1@5300'), policy.todnames({'dns64perf.test.'})))",
            "trust_anchors.remove('.')",
            "dns64.config({ prefix = '2001:db8:64::' })",
            "cache.open(384 * MB, 'lmdb:///scratch/cache')",
        ] {
            assert!(text.lines().any(|written| written == line), "{line} is missing:\n{text}");
        }
        assert_eq!(KnotResolver.arguments(&settings, Path::new("/c"))[3], "/scratch");
        assert_eq!(KnotResolver.parse_version("Knot Resolver, version 5.6.0\n"), Some("5.6.0"));
        assert!(control_socket(Path::new("/nonexistent")).is_err());
    }
}
