//! MTD64 and its successor mtd64-ng (Budapest University of Technology and Economics): forwarders with a thread for
//! each query, or a pool of them; built from source.
//!
//! Both are configured here and started by hand: one answers at port 53 of all addresses alone, the other goes to the
//! background and reads a file in `/etc`.

use std::ffi::OsString;
use std::path::Path;

use super::{Peer, PeerSettings, Server};

/// The ports that MTD64 has wired in.
const DNS_PORT: u16 = 53;
/// Threads of mtd64-ng: each waits for one reply, so they are many more than processors.
const THREADS: usize = 30;

pub(super) struct Mtd64 {
    /// The successor.
    pub ng: bool,
}

impl Server for Mtd64 {
    fn name(&self) -> &'static str {
        if self.ng { "mtd64-ng" } else { "mtd64" }
    }

    fn package(&self) -> Option<&'static str> {
        None
    }

    fn built_by(&self) -> Option<&'static str> {
        Some(if self.ng {
            "build it from github.com/bakaid/mtd64-ng and put it on the PATH"
        } else {
            "build it from github.com/Yoso89/MTD64 and put it on the PATH"
        })
    }

    fn program(&self) -> &'static str {
        self.name()
    }

    /// Neither has such an option, and both would start to serve.
    fn version_arguments(&self) -> &'static [&'static str] {
        &[]
    }

    fn parse_version<'o>(&self, _output: &'o str) -> Option<&'o str> {
        None
    }

    fn configuration_name(&self) -> &'static str {
        if self.ng { "mtd64-ng.conf" } else { "settings.conf" }
    }
}

impl Peer for Mtd64 {
    fn configuration(&self, settings: &PeerSettings) -> String {
        let PeerSettings { listen, auth, prefix, .. } = settings;
        let own = if self.ng {
            // 1.0 is one second; 2.5 would be two seconds and 5 us.
            format!("timeout-time 1.0\nnum-threads {THREADS}\nport {}\n", listen.port())
        } else {
            "timeout-time-sec 1\ntimeout-time-usec 0\n".to_owned()
        };
        format!(
            "nameserver {}\nselection-mode random\ndns64-prefix {prefix}\ndebugging no\nresend-attempts 0\nresponse-maxlength 512\n{own}",
            auth.ip()
        )
    }

    fn arguments(&self, _settings: &PeerSettings, _configuration: &Path) -> Vec<OsString> {
        Vec::new()
    }

    fn by_hand(&self) -> bool {
        true
    }

    fn obstacle(&self, _settings: &PeerSettings) -> Option<String> {
        let place = if self.ng {
            "goes to the background and reads /etc/mtd64-ng.conf".to_owned()
        } else {
            format!("answers at port {DNS_PORT} of all addresses and reads settings.conf where it is started")
        };
        let name = self.name();
        Some(format!(
            "{name} {place}, so it is yours to start: write there what 'sextant peers config {name}' prints, with an AuthDNS at \
             port {DNS_PORT}, and measure it with 'sextant bench --dut ADDR:PORT --auth-listen ADDR:{DNS_PORT}'"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_configured_and_not_started() {
        let settings = super::super::example_settings();
        let text = Mtd64 { ng: true }.configuration(&settings);
        assert!(text.contains("dns64-prefix 2001:db8:64::/96\n") && text.ends_with("port 5321\n"), "{text}");
        let text = Mtd64 { ng: false }.configuration(&settings);
        assert!(text.contains("nameserver 127.0.0.1\n") && text.contains("timeout-time-sec 1\n"), "{text}");
        for ng in [false, true] {
            let peer = Mtd64 { ng };
            assert!(peer.by_hand());
            assert!(peer.obstacle(&settings).is_some_and(|why| why.contains("--dut")));
        }
    }
}
