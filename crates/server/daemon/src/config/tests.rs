//! Every key, every error, every warning, and the documents.

mod documents;
mod errors;
mod warnings;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use dns64::reverse::Style;
use dns64::rule::{OnAaaaError, PrefixChoice};
use dns64::wire::Name;
use proptest::prelude::*;
use server_core::settings::AQuery;
use tempfile::TempDir;

use super::*;

const ANCHORS: &str = ". IN DS 1 8 2 0000000000000000000000000000000000000000000000000000000000000000";

/// A directory with a certificate, a key and a configuration file that is not written.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["dns.example".to_owned()]).unwrap();
        let files = [
            ("certificate.pem", made.cert.pem()),
            ("key.pem", made.signing_key.serialize_pem()),
            ("root.key", ANCHORS.to_owned()),
        ];
        for (name, text) in files {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
        }
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, self.path("dns64d.toml").to_str().unwrap())
    }
}

fn parse(text: &str) -> Config {
    Config::parse(text, "dns64d.toml").unwrap()
}

fn error(text: &str) -> String {
    Config::parse(text, "dns64d.toml").unwrap_err().to_string()
}

fn addresses(config: &Config) -> Vec<String> {
    config.upstreams.iter().map(|server| server.address.to_string()).collect()
}

#[test]
fn an_upstream_server_is_all_it_takes() {
    let config = parse("upstreams = ['192.0.2.1']");
    assert_eq!(addresses(&config), ["192.0.2.1:53"]);
    let plain = |text: &str| Listen { address: text.parse().unwrap(), protocol: ListenProtocol::Plain };
    assert_eq!(config.listen, [plain("[::]:53"), plain("0.0.0.0:53")]);
    assert_eq!(config.warnings, [""; 0]);
    // All the rest is what the machine takes for its defaults.
    assert_eq!(format!("{:?}", config.settings), format!("{:?}", Settings::default()));
}

#[test]
fn listeners_and_certificates_are_read() {
    let home = Home::new();
    let config = home
        .read(
            "listen = ['[::1]:5300', 'tls://[::]', 'quic://[::]', 'https://0.0.0.0:8443']\n\
             upstreams = ['192.0.2.1']\n\
             [tls]\ncertificate = 'certificate.pem'\nkey = 'key.pem'\nhttps_path = '/q'\n",
        )
        .unwrap();
    let listen: Vec<_> =
        config.listen.iter().map(|listen| (listen.address.to_string(), listen.protocol)).collect();
    assert_eq!(
        listen,
        [
            ("[::1]:5300".to_owned(), ListenProtocol::Plain),
            ("[::]:853".to_owned(), ListenProtocol::Tls),
            ("[::]:853".to_owned(), ListenProtocol::Quic),
            ("0.0.0.0:8443".to_owned(), ListenProtocol::Https),
        ]
    );
    let files = TlsFiles { certificate: home.path("certificate.pem"), key: home.path("key.pem") };
    assert_eq!((config.tls, config.https_path.as_str()), (Some(files), "/q"));
    assert_eq!(config.warnings, [""; 0]);
}

#[test]
fn every_key_of_the_rule_is_read() {
    let config = parse(
        "upstreams = ['192.0.2.1']\nprefixes = ['2001:db8:64::/96']\n\
         [dns64]\nexclude = []\non_aaaa_error = 'fail'\nsynthesize_with_cd = true\nstrict_well_known = false\n\
         ptr = 'answer'\nspread = 'rotate'\nnever = ['native.example']\nalways = ['Broken.example.']\n\
         map = { '10.0.0.0/8' = '2001:db8:a::/96', '192.168.0.0/16' = 'none' }\n",
    );
    let [view] = config.settings.views.as_slice() else { panic!("{:?}", config.settings.views) };
    let rule = view.rule.as_ref().unwrap();
    assert_eq!((view.name.as_str(), view.ptr), ("default", Some(Style::Answer)));
    assert_eq!(rule.prefixes, ["2001:db8:64::/96".parse().unwrap()]);
    assert_eq!((rule.mappings.len(), rule.excluded.len(), rule.on_aaaa_error), (2, 0, OnAaaaError::Fail));
    assert!(rule.synthesize_with_cd && !rule.strict_well_known && rule.spread == PrefixChoice::Rotated);
    let name = |text| Name::from_text(text).unwrap();
    assert!(view.never.covers(&name("www.native.example")) && !view.never.covers(&name("example")));
    assert!(view.always.covers(&name("broken.example")) && !view.always.covers(&name("native.example")));
}

#[test]
fn views_have_the_keys_of_dns64_and_their_own_in_their_place() {
    let config = parse(
        "listen = ['[::1]:53', '[::1]:54', '127.0.0.1:54']\nupstreams = ['192.0.2.1']\n\
         allow = ['2001:db8::/32', '::1/128']\n\
         [dns64]\nptr = 'off'\nnever = ['native.example']\nmap = { '10.0.0.0/8' = 'none' }\n\
         [[view]]\nname = 'guests'\nclients = ['2001:db8:1::/48', '2001:db8:2::/48']\n\
         prefixes = ['2001:db8:64::/96']\non_aaaa_error = 'fail'\nmap = {}\n\
         [[view]]\nname = 'off'\nlisteners = ['127.0.0.1:54', '::1']\ndns64 = false\n",
    );
    let [guests, off, rest] = config.settings.views.as_slice() else { panic!("{:?}", config.settings.views) };
    assert_eq!(guests.clients.len(), 2);
    let rule = guests.rule.as_ref().unwrap();
    assert_eq!(rule.prefixes, ["2001:db8:64::/96".parse().unwrap()]);
    assert_eq!((rule.on_aaaa_error, rule.mappings.len(), guests.ptr), (OnAaaaError::Fail, 0, None));
    assert_eq!((&guests.never, guests.listeners.as_slice()), (&rest.never, &[][..]));
    assert_eq!((off.listeners.as_slice(), off.ptr), (&[2, 0][..], None));
    assert!(off.rule.is_none() && off.clients.is_empty());
    let rule = rest.rule.as_ref().unwrap();
    assert_eq!(
        (rest.name.as_str(), rule.mappings.len(), rule.on_aaaa_error),
        ("default", 1, OnAaaaError::Synthesize)
    );
    assert_eq!(config.warnings, [""; 0]);
}

#[test]
fn a_view_of_everybody_is_the_last() {
    let config = parse("upstreams = ['192.0.2.1']\n[[view]]\nname = 'all'\n");
    assert_eq!(config.settings.views.len(), 1);
    let config =
        parse("upstreams = ['192.0.2.1']\n[[view]]\nname = 'all'\nclients = ['::/0', '0.0.0.0/0']\n");
    assert_eq!(config.settings.views.len(), 1);
    let config = parse("upstreams = ['192.0.2.1']\n[[view]]\nname = 'all6'\nclients = ['::/0']\n");
    assert_eq!(config.settings.views.len(), 2);
}

#[test]
fn equal_servers_of_several_groups_are_one() {
    let config = parse(
        "upstreams = ['192.0.2.1', 'tls://[2001:db8::1]#dns.example']\n\
         [[forward]]\ndomains = ['corp.example']\nupstreams = ['10.0.0.53', '192.0.2.1:53']\n\
         [[forward]]\ndomains = ['a.corp.example', 'net']\nupstreams = ['192.0.2.1']\ntrust_ad = true\n\
         [upstream]\nin_flight = 10\nsource = ['192.0.2.9']\n",
    );
    assert_eq!(addresses(&config), ["192.0.2.1:53", "[2001:db8::1]:853", "10.0.0.53:53", "192.0.2.1:53"]);
    assert_eq!(config.settings.groups, [vec![0, 1], vec![2, 0], vec![3]]);
    let trusted: Vec<bool> = config.settings.upstreams.iter().map(|upstream| upstream.trust_ad).collect();
    assert_eq!(trusted, [false, false, false, true]);
    let stream_only: Vec<bool> =
        config.settings.upstreams.iter().map(|upstream| upstream.stream_only).collect();
    assert_eq!(stream_only, [false, true, false, false]);
    assert!(config.settings.upstreams.iter().all(|upstream| upstream.in_flight == 10));
    let source = "192.0.2.9".parse().unwrap();
    assert_eq!((config.upstreams[0].source, config.upstreams[1].source), (Some(Range::v4(source, 32)), None));
    for (name, group) in [("example", 0), ("b.CORP.example", 1), ("b.a.corp.example", 2), ("net", 2)] {
        assert_eq!(config.settings.routes.group_of(&Name::from_text(name).unwrap()), group, "{name}");
    }
}

#[test]
fn every_key_of_asking_caching_and_limits_is_read() {
    let config = parse(
        "upstreams = ['192.0.2.1']\nallow = ['2001:db8::/32']\nthreads = 3\nstream_threads = 2\n\
         cpus = [1, 0]\n\
         [upstream]\nports = 4\ntimeout_ms = 100\ntries = 2\ndeadline_ms = 1000\na_query = 'when-late'\n\
         case_randomization = true\ncookies = false\ntrust_ad = true\nloop_probe = false\n\
         [cache]\nsize_mib = 1\nttl_max_s = 2\nnegative_ttl_max_s = 3\nfailure_ttl_s = 4\nstale_age_max_s = 5\n\
         stale_ttl_s = 6\nstale_client_timer_ms = 7\nprefetch = false\nnxdomain_cut = false\n\
         [local]\nipv4only = false\nipv4only_ttl_s = 8\nspecial_names = false\nprivate_zones = false\nminimal_any = false\n\
         [clients]\ncookies = false\nextended_errors = false\n\
         [limits]\nin_flight = 100\nudp_payload_octets = 1400\nconnections = 5\nconnections_per_network = 4\n\
         connections_per_address = 2\nhandshakes_per_second = 6\n\
         pipelined = 3\nidle_ms = 2000\nqueries_per_second = 10\nburst = 11\nslip = 12\n",
    );
    let Settings { allow, asking, caching, local, rate, upstreams, .. } = &config.settings;
    assert_eq!((config.threads, config.stream_threads), (3, 2));
    assert_eq!((config.cpus.as_slice(), allow.len()), (&[1, 0][..], 1));
    assert_eq!((asking.ports, asking.tries, asking.a_query), (4, 2, AQuery::WhenLate));
    assert_eq!((asking.timeout_ns, asking.deadline_ns), (100_000_000, 1_000_000_000));
    assert!(asking.case_randomization && !asking.cookies && !asking.loop_probe && upstreams[0].trust_ad);
    assert_eq!(config.cache_octets, 1 << 20);
    assert_eq!((caching.ttl_max_s, caching.negative_ttl_max_s, caching.failure_ttl_s), (2, 3, 4));
    let stale = caching.stale.unwrap();
    assert_eq!((stale.age_max_s, stale.ttl_s, stale.client_timer_ns), (5, 6, 7_000_000));
    assert!(!caching.prefetch && !caching.nxdomain_cut);
    assert!(
        !local.ipv4only
            && !local.special_names
            && !local.private_zones
            && !local.minimal_any
            && local.ipv4only_ttl_s == 8
    );
    assert!(!config.settings.cookies && !config.settings.extended_errors);
    assert_eq!((config.settings.in_flight, config.settings.udp_payload_octets), (100, 1400));
    let streams = StreamLimits {
        connections: 5,
        connections_per_network: 4,
        connections_per_address: 2,
        handshakes_per_second: 6,
        pipelined: 3,
        idle_ns: 2_000_000_000,
    };
    assert_eq!((config.streams, config.settings.keepalive_100ms), (streams, 20));
    let rate = rate.unwrap();
    assert_eq!((rate.per_second, rate.burst, rate.slip), (10, 11, 12));
    assert!(parse("upstreams = ['192.0.2.1']\n[cache]\nstale = false").settings.caching.stale.is_none());
}

#[test]
fn the_services_around_are_read() {
    let home = Home::new();
    let config = home
        .read(
            "upstreams = ['tls://192.0.2.1']\n[upstream]\nroots = 'certificate.pem'\n\
             [control]\nsocket = '/run/dns64d/control'\n[metrics]\nlisten = '[::1]:9153'\n\
             [log]\nlevel = 'debug'\nformat = 'json'\nqueries = true\n\
             [dnstap]\nsocket = 'tap'\nclients = false\nupstreams = true\nidentity = 'ns1'\n\
             [process]\nuser = 'dns64d'\nsandbox = false\n",
        )
        .unwrap();
    assert_eq!(config.upstream_roots, Some(home.path("certificate.pem")));
    assert_eq!(config.control, Some("/run/dns64d/control".into()));
    assert_eq!(config.metrics, Some("[::1]:9153".parse().unwrap()));
    assert_eq!(config.log, LogChoice { level: Level::Debug, format: Format::Json, queries: true });
    let dnstap =
        DnstapChoice { socket: home.path("tap"), clients: false, upstreams: true, identity: "ns1".into() };
    assert_eq!(config.dnstap, Some(dnstap));
    assert_eq!(config.process, Process { user: Some("dns64d".into()), sandbox: Sandbox::Off });
    assert_eq!(config.warnings, [""; 0]);
}

#[test]
fn a_short_deadline_shortens_a_try_that_is_not_written() {
    let config = parse("upstreams = ['192.0.2.1']\n[upstream]\ndeadline_ms = 500");
    assert_eq!(config.settings.asking.timeout_ns, 500_000_000);
}

#[test]
fn files_are_loaded() {
    let home = Home::new();
    let path = home.path("dns64d.toml");
    let error = Config::load(&path).unwrap_err().to_string();
    assert!(error.contains("dns64d.toml: cannot be read: "), "{error}");
    std::fs::write(&path, b"\xff").unwrap();
    let error = Config::load(&path).unwrap_err().to_string();
    assert!(error.contains("dns64d.toml: cannot be read: invalid utf-8"), "{error}");
    std::fs::write(&path, "upstreams = ['192.0.2.1']").unwrap();
    assert_eq!(addresses(&Config::load(&path).unwrap()), ["192.0.2.1:53"]);
}

/// Lines that a configuration could have, whole or broken.
fn line() -> impl Strategy<Value = String> {
    let keys =
        keys::TABLES.iter().flat_map(|table| table.keys.iter().map(|key| (key.name, table.example(key))));
    let keys: Vec<(&str, String)> = keys.collect();
    let headers = keys::TABLES.iter().map(|table| table.name());
    let headers: Vec<String> =
        headers.flat_map(|name| [format!("[{name}]"), format!("[[{name}]]")]).collect();
    prop_oneof![
        (prop::sample::select(keys.clone()), prop::sample::select(keys)).prop_map(
            |((name, own), (_, other))| {
                let value = if name.len() % 2 == 0 { own } else { other };
                format!("{name} = {value}")
            }
        ),
        prop::sample::select(headers),
        "[a-z0-9 =\\[\\]'\":/.#-]{0,40}",
        "[a-z_]{1,9} = \"\\PC{0,9}\"",
    ]
}

proptest! {
    #[test]
    fn any_text_is_a_configuration_or_one_line_of_error(text in "[a-z0-9 =\\[\\]'\":/.\n{}]{0,80}") {
        if let Err(error) = Config::parse(&text, "f") {
            prop_assert_eq!(error.to_string().lines().count(), 1, "{}", error);
        }
    }

    #[test]
    fn any_lines_are_a_configuration_or_one_line_of_error(lines in prop::collection::vec(line(), 0..8)) {
        let text = format!("upstreams = ['192.0.2.1']\n{}", lines.join("\n"));
        if let Err(error) = Config::parse(&text, "f") {
            prop_assert_eq!(error.to_string().lines().count(), 1, "{}", error);
        }
    }

    #[test]
    fn any_damage_to_the_example_is_a_configuration_or_one_line_of_error(
        at in 0usize..8000,
        length in 0usize..40,
        damage in "[a-z0-9='\"\\[\\]{}#,.\n -]{0,6}",
    ) {
        let mut text: Vec<char> = sample().replace("\n#", "\n").chars().collect();
        let start = at % text.len();
        let end = (start + length).min(text.len());
        text.splice(start..end, damage.chars());
        // Sentences are no TOML: comments again.
        let text: String = String::from_iter(text).lines().map(|line| match line.strip_prefix(' ') {
            Some(sentence) => format!("# {sentence}\n"),
            None => format!("{line}\n"),
        }).collect();
        if let Err(error) = Config::parse(&text, "f") {
            prop_assert_eq!(error.to_string().lines().count(), 1, "{}", error);
        }
    }
}

#[cfg(feature = "validation")]
#[test]
fn servers_are_judged_as_their_table_says() {
    let home = Home::new();
    let text = "upstreams = ['192.0.2.1', 'tls://192.0.2.2']\n[upstream]\nvalidate = true\nanchors = 'root.key'\n\
                [[forward]]\ndomains = ['corp']\nupstreams = ['192.0.2.1']\nvalidate = false\n";
    let config = home.read(text).unwrap();
    assert_eq!(config.anchors, Some(home.path("root.key")));
    assert_eq!(config.warnings, [""; 0]);
    let judged: Vec<bool> = config.upstreams.iter().map(|server| server.validate).collect();
    assert_eq!(judged, [true, true, false]);
    let kept = |upstream: &server_core::settings::Upstream| (upstream.stream_only, upstream.trust_ad);
    let kept: Vec<_> = config.settings.upstreams.iter().map(kept).collect();
    assert_eq!(kept, [(true, true), (true, true), (false, false)]);
    assert_eq!(config.settings.groups, [vec![0, 1], vec![2]]);
    let error =
        home.read("upstreams = ['192.0.2.1']\n[upstream]\nanchors = 'key.pem'").unwrap_err().to_string();
    assert!(error.contains(":3: upstream.anchors 'key.pem': "), "{error}");
    let config = home.read("upstreams = ['192.0.2.1']\n[upstream]\nanchors = 'root.key'").unwrap();
    assert!(config.warnings[0].starts_with("upstream.anchors has no effect"), "{:?}", config.warnings);
}

#[cfg(not(feature = "validation"))]
#[test]
fn a_program_that_cannot_judge_says_so() {
    let missing = "this dns64d cannot validate: build it with the cargo feature validation";
    let of = |text: &str| error(&format!("upstreams = ['192.0.2.1']\n{text}"));
    assert_eq!(of("[upstream]\nvalidate = true"), format!("dns64d.toml:3: upstream.validate: {missing}"));
    assert!(of("[upstream]\nanchors = 'x'").ends_with(missing));
    let forward = "[[forward]]\ndomains = ['a']\nupstreams = ['192.0.2.2']\nvalidate = true";
    assert_eq!(of(forward), format!("dns64d.toml:5: forward[0].validate: {missing}"));
    assert!(!parse("upstreams = ['192.0.2.1']\n[upstream]\nvalidate = false").upstreams[0].validate);
}
