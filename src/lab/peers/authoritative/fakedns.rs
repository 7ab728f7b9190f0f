//! FakeDNS (Budapest University of Technology and Economics): answers from the name asked, as `sextant auth` does; built from source.
//!
//! It goes to the background and has its prefix wired in, so it is described here and started by hand.

use std::ffi::OsString;
use std::path::Path;

use super::{Authoritative, Server, ZoneSettings};

pub(super) struct FakeDns;

impl Server for FakeDns {
    fn name(&self) -> &'static str {
        "fakedns"
    }

    fn package(&self) -> Option<&'static str> {
        None
    }

    fn built_by(&self) -> Option<&'static str> {
        Some("build it from its authors' sources and put it on the PATH")
    }

    fn program(&self) -> &'static str {
        "fakedns"
    }

    /// It has no such option, and would start to serve.
    fn version_arguments(&self) -> &'static [&'static str] {
        &[]
    }

    fn parse_version<'o>(&self, _output: &'o str) -> Option<&'o str> {
        None
    }

    fn configuration_name(&self) -> &'static str {
        "none"
    }
}

impl Authoritative for FakeDns {
    fn configuration(&self, settings: &ZoneSettings) -> String {
        format!(
            "# It has no file: it makes each answer from the name asked, like sextant auth {}\n",
            settings.rule.join(" ")
        )
    }

    fn arguments(&self, _settings: &ZoneSettings, _configuration: &Path) -> Vec<OsString> {
        Vec::new()
    }

    fn obstacle(&self) -> Option<&'static str> {
        Some(
            "fakedns goes to the background and has its prefix wired in, so it is yours to start: measure it with 'sextant search \
             --server ADDR:PORT --prefix ITS_PREFIX'",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_described_and_not_started() {
        assert!(FakeDns.obstacle().is_some_and(|why| why.contains("sextant search --server")));
        assert!(FakeDns.configuration(&super::super::example_settings()).contains("--names 10.0.0.0/16"));
    }
}
