//! Our own AuthDNS as a server under test, on sockets or in the kernel.

use std::ffi::OsString;
use std::path::Path;

use super::{Authoritative, Server, ZoneSettings};

pub(super) struct Sextant {
    pub kernel: bool,
}

impl Server for Sextant {
    fn name(&self) -> &'static str {
        if self.kernel { "sextant-kernel" } else { "sextant" }
    }

    fn package(&self) -> Option<&'static str> {
        None
    }

    fn program(&self) -> &'static str {
        "sextant"
    }

    fn version_arguments(&self) -> &'static [&'static str] {
        &["--version"]
    }

    /// `sextant 0.1.0`
    fn parse_version<'o>(&self, output: &'o str) -> Option<&'o str> {
        output.lines().next()?.strip_prefix("sextant ").map(str::trim)
    }

    fn configuration_name(&self) -> &'static str {
        "none"
    }
}

impl Authoritative for Sextant {
    fn configuration(&self, settings: &ZoneSettings) -> String {
        format!("# It has no file: it answers from a rule, sextant auth {}\n", settings.rule.join(" "))
    }

    fn arguments(&self, settings: &ZoneSettings, _configuration: &Path) -> Vec<OsString> {
        let mut words = vec!["auth".to_owned()];
        words.extend(settings.listen.iter().flat_map(|listen| ["--listen".to_owned(), listen.to_string()]));
        words.extend(["--threads".to_owned(), settings.workers.to_string()]);
        if self.kernel {
            let device = settings.device.clone().unwrap_or_default();
            words.extend(["--io", "kernel", "--device"].map(str::to_owned));
            words.push(device);
        }
        words.extend(settings.rule.iter().cloned());
        words.into_iter().map(OsString::from).collect()
    }

    fn is_xdp(&self) -> bool {
        self.kernel
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_stands_in_the_arguments() {
        let arguments = |kernel: bool| {
            let words = Sextant { kernel }.arguments(&super::super::example_settings(), Path::new("x"));
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        let listen = "auth --listen 192.0.2.1:53 --listen [2001:db8::1]:5300 --threads 2";
        assert_eq!(arguments(false), format!("{listen} --names 10.0.0.0/16"));
        assert_eq!(arguments(true), format!("{listen} --io kernel --device dut0 --names 10.0.0.0/16"));
        assert_eq!(Sextant { kernel: false }.parse_version("sextant 0.1.0\n"), Some("0.1.0"));
    }
}
