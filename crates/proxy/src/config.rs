//! The configuration file: TOML, read, checked and turned into [`Settings`] before anything starts.

mod check;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::settings::Settings;

/// Everything the program needs, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The addresses to answer on, over UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// The upstream servers.
    pub upstreams: Vec<SocketAddr>,
    /// The number of threads; 0 means one for each processor.
    pub threads: usize,
    /// The processors that threads are pinned to in turn; none leaves them free.
    pub cpus: Vec<usize>,
    /// TCP connections of clients at most, for each thread.
    pub tcp_connections: usize,
    /// A TCP connection without a query for so long is closed.
    pub tcp_idle_ns: u64,
    /// What each thread's machine is told.
    pub settings: Settings,
    /// What is allowed and yet likely to do harm, one line each.
    pub warnings: Vec<String>,
}

/// Why there is no configuration: one line with file, line, key and reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is no TOML, has a key that is not known or a value that makes no sense.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError(format!("{}: cannot be read: {error}", path.display())))?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads a text; `file` is its name in errors.
    ///
    /// # Errors
    /// Those of [`Config::load`] but the first.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigError> {
        let place = Place { text, file };
        let raw: Raw = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let key = place.key_before(at).filter(|_| error.message().starts_with("invalid"));
            let key = key.map_or(String::new(), |key| format!("{key}: "));
            place.error(at, format_args!("{key}{}", error.message().trim_end()))
        })?;
        check::check(raw, &place)
    }
}

/// Turns positions in the text into lines of the file.
struct Place<'t> {
    text: &'t str,
    file: &'t str,
}

impl Place<'_> {
    fn error(&self, at: usize, reason: impl fmt::Display) -> ConfigError {
        let line = self.text.bytes().take(at).filter(|&octet| octet == b'\n').count() + 1;
        ConfigError(format!("{}:{line}: {reason}", self.file))
    }

    /// The key whose value stands at `at`, with its table: errors of deserialization do not name it.
    fn key_before(&self, at: usize) -> Option<String> {
        let before = self.text.get(..at)?;
        let (key, _) = before.lines().rev().find_map(|line| line.split_once('='))?;
        let header = |line: &'_ str| line.trim().strip_prefix('[')?.strip_suffix(']').map(str::to_owned);
        let is_name =
            |name: &String| name.bytes().all(|octet| octet.is_ascii_alphanumeric() || octet == b'_');
        let table = before.lines().rev().find_map(|line| header(line).filter(is_name));
        let key = key.trim().escape_debug();
        Some(table.map_or_else(|| key.to_string(), |table| format!("{table}.{key}")))
    }
}

/// The file as it stands.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    listen: Option<Spanned<Vec<Spanned<String>>>>,
    upstreams: Spanned<Vec<Spanned<String>>>,
    prefixes: Option<Spanned<Vec<Spanned<String>>>>,
    allow: Option<Vec<Spanned<String>>>,
    threads: Option<Spanned<usize>>,
    #[serde(default)]
    cpus: Vec<usize>,
    #[serde(default)]
    dns64: RawDns64,
    #[serde(default)]
    upstream: RawUpstream,
    #[serde(default)]
    limits: RawLimits,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDns64 {
    exclude: Option<Vec<Spanned<String>>>,
    on_aaaa_error: Option<Spanned<String>>,
    synthesize_with_cd: Option<bool>,
    strict_well_known: Option<bool>,
    ptr: Option<Spanned<String>>,
    #[serde(default)]
    map: BTreeMap<String, Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUpstream {
    ports: Option<Spanned<u64>>,
    timeout_ms: Option<Spanned<u64>>,
    tries: Option<Spanned<u64>>,
    deadline_ms: Option<Spanned<u64>>,
    case_randomization: Option<bool>,
    trust_ad: Option<bool>,
    transport: Option<Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLimits {
    in_flight: Option<Spanned<u64>>,
    tcp_connections: Option<Spanned<u64>>,
    tcp_idle_ms: Option<Spanned<u64>>,
    udp_payload_octets: Option<Spanned<u64>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns64::reverse::Style;
    use dns64::rule::OnAaaaError;
    use proptest::prelude::*;

    fn parse(text: &str) -> Config {
        Config::parse(text, "dns64d.toml").unwrap()
    }

    fn error(text: &str) -> String {
        Config::parse(text, "dns64d.toml").unwrap_err().to_string()
    }

    #[test]
    fn an_upstream_server_is_all_it_takes() {
        let config = parse("upstreams = ['192.0.2.1']");
        assert_eq!(config.upstreams, ["192.0.2.1:53".parse().unwrap()]);
        assert_eq!(config.listen, ["[::]:53".parse().unwrap(), "0.0.0.0:53".parse().unwrap()]);
        assert_eq!(config.settings.rule.prefixes, [dns64::Prefix::WELL_KNOWN]);
        assert_eq!(config.warnings, [""; 0]);
    }

    #[test]
    fn every_key_is_read() {
        let config = parse(include_str!("../../../dist/dns64d.toml"));
        assert_eq!(config.warnings, [""; 0]);
        let config = parse(
            "listen = ['[::1]:5300']\nupstreams = ['[2001:db8::1]:54', '192.0.2.1']\n\
             prefixes = ['2001:db8:64::/96']\nallow = ['2001:db8::/32']\nthreads = 3\ncpus = [1]\n\
             [dns64]\nexclude = []\non_aaaa_error = 'fail'\nsynthesize_with_cd = true\nstrict_well_known = false\n\
             ptr = 'answer'\nmap = { '10.0.0.0/8' = '2001:db8:a::/96', '192.168.0.0/16' = 'none' }\n\
             [upstream]\nports = 4\ntimeout_ms = 100\ntries = 2\ndeadline_ms = 1000\ncase_randomization = true\n\
             trust_ad = true\ntransport = 'tcp'\n\
             [limits]\nin_flight = 100\ntcp_connections = 5\ntcp_idle_ms = 2000\nudp_payload_octets = 1400\n",
        );
        let settings = &config.settings;
        assert_eq!((config.threads, config.cpus.as_slice(), config.tcp_connections), (3, &[1][..], 5));
        assert_eq!((settings.upstreams, settings.ports, settings.tries, settings.in_flight), (2, 4, 2, 100));
        assert_eq!((settings.timeout_ns, settings.deadline_ns), (100_000_000, 1_000_000_000));
        assert_eq!((config.tcp_idle_ns, settings.udp_payload_octets), (2_000_000_000, 1400));
        assert!(settings.case_randomization && settings.trust_ad && settings.tcp_only);
        assert_eq!(settings.ptr, Some(Style::Answer));
        assert_eq!(settings.rule.on_aaaa_error, OnAaaaError::Fail);
        assert_eq!((settings.rule.mappings.len(), settings.rule.excluded.len()), (2, 0));
        assert!(settings.rule.synthesize_with_cd && !settings.rule.strict_well_known);
    }

    #[test]
    fn errors_name_file_line_key_and_reason() {
        let upstreams = "upstreams = ['192.0.2.1']\n";
        for (text, expected) in [
            (
                "prefixes = ['2001:db8:0:0:100::/96']",
                "dns64d.toml:2: prefixes[0] '2001:db8:0:0:100::/96': bits 64 to 71 must be zero (RFC 6052 2.2)",
            ),
            (
                "\nallow = ['::/0',\n '10.0.0.1/8']",
                "dns64d.toml:4: allow[1] '10.0.0.1/8': bits after the first 8",
            ),
            ("listen = ['localhost']", "dns64d.toml:2: listen[0] 'localhost': not an address"),
            (
                "listen = ['192.0.2.1:53']",
                "dns64d.toml:1: upstreams[0] '192.0.2.1': is also a listen address",
            ),
            ("color = 1", "dns64d.toml:2: unknown field `color`"),
            ("[dns64]\nptr = 'maybe'", "dns64d.toml:3: dns64.ptr 'maybe': choose cname, answer or off"),
            (
                "[dns64.map]\n'10.0.0.0/8' = 'x'",
                "dns64d.toml:3: dns64.map.'10.0.0.0/8' 'x': 'x' is not a prefix",
            ),
            ("[dns64]\nmap = { '::/0' = 'none' }", "dns64d.toml:3: dns64.map.'::/0': not an IPv4 range"),
            ("[upstream]\ntries = 4", "dns64d.toml:3: upstream.tries 4: must be 1 to 3"),
            ("[limits]\nin_flight = 0", "dns64d.toml:3: limits.in_flight 0: must be 1 to 65535"),
            ("threads = -1", "dns64d.toml:2: threads: invalid value"),
            ("cpus = [\n 1,\n 'two']", "dns64d.toml:4: cpus: invalid type"),
            ("[upstream]\nports = 1\ntrust_ad = 1", "dns64d.toml:4: upstream.trust_ad: invalid type"),
            ("listen = []", "dns64d.toml:2: listen: at least one is needed"),
            (
                "listen = ['[::1]:53', '0.0.0.0:0', '0.0.0.0:0', '::1']",
                "dns64d.toml:2: listen[3] '::1': twice in the list",
            ),
            ("prefixes = []", "dns64d.toml:2: prefixes: at least one is needed"),
            (
                "prefixes = ['64:ff9b::/96', '64:ff9b::/96']",
                "dns64d.toml:2: prefixes[1] '64:ff9b::/96': twice",
            ),
            ("[upstream]\ntimeout_ms = 6000", "dns64d.toml:3: upstream.timeout_ms 6000: must be 1 to 5000"),
        ] {
            let error = error(&format!("{upstreams}{text}"));
            assert!(error.starts_with(expected), "{error}\n{expected}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        assert_eq!(error("upstreams = []"), "dns64d.toml:1: upstreams: at least one is needed");
        assert!(error("").starts_with("dns64d.toml:1: missing field `upstreams`"), "{}", error(""));
    }

    #[test]
    fn harmful_configurations_are_warned_about() {
        for (text, expected) in [
            ("allow = ['0.0.0.0/0']", "allow 0.0.0.0/0"),
            ("[dns64]\nstrict_well_known = false", "64:ff9b::/96"),
            ("[dns64]\nmap = { '10.0.0.0/8' = '64:ff9b::/96' }", "10.0.0.0/8"),
            ("[dns64]\nexclude = ['64:ff9b::/32']", "64:ff9b::/32"),
            ("[upstream]\ndeadline_ms = 1000", "deadline_ms"),
        ] {
            let config = parse(&format!("upstreams = ['192.0.2.1']\n{text}"));
            assert_eq!(config.warnings.len(), 1, "{text}: {:?}", config.warnings);
            assert!(config.warnings[0].contains(expected), "{:?}", config.warnings);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_configuration_or_one_line_of_error(text in "[a-z0-9 =\\[\\]'\":/.\n{}]{0,80}") {
            if let Err(error) = Config::parse(&text, "f") {
                prop_assert_eq!(error.to_string().lines().count(), 1, "{}", error);
            }
        }
    }
}
