//! Each error says file, line, key, reason and what to do.

use super::{Home, error};

const UPSTREAMS: &str = "upstreams = ['192.0.2.1']\n";

/// Each text behind a line of upstream servers has the error that is expected, of which this is the
/// beginning.
fn expect(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let error = error(&format!("{UPSTREAMS}{text}"));
        let expected = format!("dns64d.toml:{expected}");
        assert!(error.starts_with(&expected), "{error}\n{expected}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn of_toml_and_types() {
    expect(&[
        ("color = 1", "2: color: no such key, write one of `listen`, `upstreams`"),
        ("alow = ['10.0.0.0/8']", "2: alow: no such key, write `allow`"),
        ("[[view]]\non_aaa_error = 'fail'", "3: view[0].on_aaa_error: no such key, write `on_aaaa_error`"),
        ("[caches]", "2: caches: no such key, write `cache`"),
        ("threads = 0x401", "2: threads 1025: must be 0 to 1024"),
        ("[dns64]\ncolor = 1", "3: dns64.color: no such key, write one of `exclude`"),
        ("[[view]]\nname = 'a'\n[[view]]\ncolor = 1", "5: view[1].color: no such key, write one of `name`"),
        ("\"a\\nb\" = 1", "2: 'a\\nb': no such key"),
        ("threads = -1", "2: threads: invalid value: integer `-1`, write 0 to 1024, for example 0"),
        ("cpus = [\n 1,\n 'two']", "4: cpus[1]: invalid type: string \"two\", write a list of 0 to 1023"),
        (
            "[upstream]\nports = 1\ntrust_ad = 1",
            "4: upstream.trust_ad: invalid type: integer `1`, write true or false",
        ),
        (
            "[[view]]\nptr = 1",
            "3: view[0].ptr: invalid type: integer `1`, write \"cname\", \"answer\" or \"off\"",
        ),
        ("[dns64]\nmap = { '10.0.0.0/8' = 1 }", "3: dns64.map.'10.0.0.0/8': invalid type: integer `1`"),
        (
            "listen = '::1'",
            "2: listen: invalid type: string \"::1\", write a list of listeners, for example [\"[::]:53\"",
        ),
        ("view = 1", "2: view: invalid type: integer `1`"),
        ("allow = [", "2: "),
        ("[log]\n[log]", "3: log: is written twice: take one out"),
        ("upstreams = []", "2: upstreams: is written twice: take one out"),
    ]);
    assert_eq!(error("upstreams = []"), "dns64d.toml:1: upstreams: at least one is needed");
    assert_eq!(error(""), "dns64d.toml:1: upstreams: is missing: write upstreams = [\"ADDRESS\"]");
}

#[test]
fn of_listeners() {
    expect(&[
        ("listen = []", "2: listen: at least one is needed"),
        ("listen = ['localhost']", "2: listen[0] 'localhost': not an address: write 192.0.2.1:53"),
        ("listen = ['[::1]:53', '0.0.0.0:0', '0.0.0.0:0', '::1']", "2: listen[3] '::1': twice in the list"),
        (
            "listen = ['[::1]:853', 'tls://[::1]']",
            "2: listen[1] 'tls://[::1]': another listener has this port",
        ),
        (
            "listen = ['tls://[::1]:1', 'https://[::1]:1']",
            "2: listen[1] 'https://[::1]:1': another listener has",
        ),
        (
            "listen = ['::1', 'tls://[::1]']",
            "2: listen[1] 'tls://[::1]': needs a certificate: write tls.certificate",
        ),
        (
            "listen = ['192.0.2.1:53']",
            "1: upstreams[0] '192.0.2.1': is also a listen address: it would ask itself",
        ),
    ]);
    let own = |text| error(text);
    assert!(own("upstreams = ['127.0.0.9']").contains("is also a listen address"));
    assert!(own("upstreams = ['tcp://[::1]:53']").contains("is also a listen address"));
    assert!(own("upstreams = ['192.0.2.1', '192.0.2.1:53']").contains("upstreams[1] '192.0.2.1:53': twice"));
    // Another protocol on the same port is another server.
    assert!(super::Config::parse("upstreams = ['tls://[::1]:53']", "f").is_ok());
}

#[test]
fn of_certificates() {
    let home = Home::new();
    std::fs::write(home.path("empty.pem"), "").unwrap();
    std::fs::write(home.path("broken.pem"), "-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n")
        .unwrap();
    std::fs::write(home.path("large.pem"), vec![b' '; 5 << 20]).unwrap();
    for (table, expected) in [
        ("certificate = 'certificate.pem'", "tls.key: is missing: write the file of the private key"),
        ("key = 'key.pem'", "tls.certificate: is missing: write its file"),
        ("certificate = 'none.pem'\nkey = 'key.pem'", "tls.certificate 'none.pem': cannot be read: "),
        ("certificate = 'empty.pem'\nkey = 'key.pem'", "tls.certificate 'empty.pem': no certificate in it"),
        ("certificate = 'broken.pem'\nkey = 'key.pem'", "tls.certificate 'broken.pem': not PEM: "),
        (
            "certificate = 'large.pem'\nkey = 'key.pem'",
            "tls.certificate 'large.pem': cannot be read: larger than 4194304 octets",
        ),
        ("certificate = '.'\nkey = 'key.pem'", "tls.certificate '.': cannot be read: "),
        ("certificate = ''\nkey = 'key.pem'", "tls.certificate '': no path of a file"),
        ("certificate = \"a\\nb\"\nkey = 'key.pem'", "tls.certificate 'a\\nb': no path of a file"),
        (
            "certificate = 'certificate.pem'\nkey = 'certificate.pem'",
            "tls.key 'certificate.pem': no private key in it: write a PEM file",
        ),
        ("https_path = 'dns-query'", "tls.https_path 'dns-query': no path: write / and "),
        ("https_path = '/{?dns}'", "tls.https_path '/{?dns}': no path: write / and "),
    ] {
        let error = home.read(&format!("{UPSTREAMS}[tls]\n{table}\n")).unwrap_err().to_string();
        assert!(error.contains(&format!(": {expected}")), "{error}\n{expected}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let roots = home.read(&format!("{UPSTREAMS}[upstream]\nroots = 'key.pem'")).unwrap_err().to_string();
    assert!(
        roots.ends_with(":3: upstream.roots 'key.pem': no certificate in it: write a PEM file"),
        "{roots}"
    );
    let text = "listen = ['tls://[::]']\nupstreams = ['192.0.2.1']\n[limits]\nconnections = 0\n\
                [tls]\ncertificate = 'certificate.pem'\nkey = 'key.pem'";
    let error = home.read(text).unwrap_err().to_string();
    assert!(
        error.ends_with(":1: listen[0] 'tls://[::]': needs connections: raise limits.connections above 0")
    );
}

#[test]
fn of_the_rule() {
    expect(&[
        ("prefixes = []", "2: prefixes: at least one is needed"),
        ("prefixes = ['64:ff9b::/96', '64:ff9b::/96']", "2: prefixes[1] '64:ff9b::/96': twice in the list"),
        (
            "prefixes = ['2001:db8:0:0:100::/96']",
            "2: prefixes[0] '2001:db8:0:0:100::/96': bits 64 to 71 must be zero (RFC 6052 2.2)",
        ),
        ("prefixes = ['2001:db8::/95']", "2: prefixes[0] '2001:db8::/95': prefix length 95 is not one of"),
        ("prefixes = ['2001:db8::/0']", "2: prefixes[0] '2001:db8::/0': prefix length 0 is not one of"),
        ("prefixes = ['2001:db8::/129']", "2: prefixes[0] '2001:db8::/129': prefix length 129 is not one of"),
        ("prefixes = ['2001:db8::1/96']", "2: prefixes[0] '2001:db8::1/96': bits after the first 96"),
        (
            "prefixes = ['::ffff:0:0/96']",
            "2: prefixes[0] '::ffff:0:0/96': holds IPv4-compatible, IPv4-mapped",
        ),
        (
            "prefixes = ['fe80::/96']",
            "2: prefixes[0] 'fe80::/96': holds link-local addresses: write a prefix",
        ),
        ("prefixes = ['ff02::/96']", "2: prefixes[0] 'ff02::/96': holds multicast addresses"),
        ("[dns64]\nptr = 'maybe'", "3: dns64.ptr 'maybe': choose cname, answer or off"),
        ("[dns64]\non_aaaa_error = 'x\\ny'", "3: dns64.on_aaaa_error 'x\\\\ny': choose synthesize or fail"),
        ("[dns64]\nspread = 'one'", "3: dns64.spread 'one': choose all or rotate"),
        ("[dns64]\nexclude = ['10.0.0.0/8']", "3: dns64.exclude[0] '10.0.0.0/8': not an IPv6 range"),
        ("[dns64.map]\n'10.0.0.0/8' = 'x'", "3: dns64.map.'10.0.0.0/8' 'x': 'x' is not a prefix"),
        (
            "[dns64.map]\n'10.0.0.0/8' = 'fe80::/96'",
            "3: dns64.map.'10.0.0.0/8' 'fe80::/96': holds link-local",
        ),
        ("[dns64]\nmap = { '::/0' = 'none' }", "3: dns64.map.'::/0': not an IPv4 range"),
        ("[dns64]\nmap = { '10.0.0.1/8' = 'none' }", "3: dns64.map.'10.0.0.1/8': bits after the first 8"),
        ("[dns64]\nnever = ['a.example', 'A.example.']", "3: dns64.never[1] 'A.example.': twice in the list"),
        ("[dns64]\nalways = ['*.example']", "3: dns64.always[0] '*.example': no domain: write a name like"),
        ("[dns64]\nalways = ['a..example']", "3: dns64.always[0] 'a..example': a label must have 1 to 63"),
        ("[dns64]\nalways = ['']", "3: dns64.always[0] '': no domain"),
        (
            "[dns64]\nalways = ['b\u{fc}cher.example']",
            "3: dns64.always[0] 'b\u{fc}cher.example': not in ASCII",
        ),
    ]);
}

#[test]
fn of_views() {
    expect(&[
        ("[[view]]\nclients = ['::/0']", "2: view[0].name: is missing: write name = \"NAME\""),
        ("[[view]]\nname = 'a b'", "3: view[0].name 'a b': write 1 to 63 letters, digits"),
        ("[[view]]\nname = 'default'", "3: view[0].name 'default': is the name of the view for all others"),
        (
            "[[view]]\nname = 'a'\nclients = ['::/0']\n[[view]]\nname = 'a'\nclients = ['10.0.0.0/8']",
            "5: view[1].name: another view has this name",
        ),
        ("[[view]]\nname = 'a'\nclients = []", "4: view[0].clients: at least one is needed"),
        ("[[view]]\nname = 'a'\nclients = ['10.0.0.1/8']", "4: view[0].clients[0] '10.0.0.1/8': bits after"),
        (
            "[[view]]\nname = 'a'\nlisteners = ['[::]:54']",
            "4: view[0].listeners[0] '[::]:54': is not in listen",
        ),
        ("[[view]]\nname = 'a'\nptr = 'x'", "4: view[0].ptr 'x': choose cname, answer or off"),
        ("[[view]]\nname = 'a'\nprefixes = ['x']", "4: view[0].prefixes[0] 'x': 'x' is not a prefix"),
        ("[[view]]\nname = 'a'\nmap = { x = 'none' }", "4: view[0].map.x: not an address range"),
        (
            "[[view]]\nname = 'a'\n[[view]]\nname = 'b'\nclients = ['10.0.0.0/8']",
            "4: view[1]: earlier views match all its clients: move this view up, or remove it",
        ),
        (
            "[[view]]\nname = 'a'\nclients = ['10.0.0.0/8', '::/0']\n\
             [[view]]\nname = 'b'\nclients = ['10.0.0.0/16', '2001:db8::/32']",
            "5: view[1]: earlier views match all its clients",
        ),
        (
            "[[view]]\nname = 'a'\nlisteners = ['[::]:53']\n[[view]]\nname = 'b'\nlisteners = ['0.0.0.0']\n\
             [[view]]\nname = 'c'\nclients = ['10.0.0.0/8']",
            "8: view[2]: earlier views match all its clients",
        ),
    ]);
}

#[test]
fn of_upstream_servers() {
    expect(&[
        ("[[forward]]\nupstreams = ['192.0.2.1']", "2: forward[0].domains: is missing: write it"),
        ("[[forward]]\ndomains = ['a']", "2: forward[0].upstreams: is missing: write it"),
        ("[[forward]]\ndomains = []\nupstreams = []", "3: forward[0].domains: at least one is needed"),
        ("[[forward]]\ndomains = ['a']\nupstreams = []", "4: forward[0].upstreams: at least one is needed"),
        (
            "[[forward]]\ndomains = ['a', 'b']\nupstreams = ['10.0.0.1']\n\
             [[forward]]\ndomains = ['c', 'B.']\nupstreams = ['10.0.0.2']",
            "6: forward[1].domains[1] 'B.': is forwarded already: write it once",
        ),
        (
            "[[forward]]\ndomains = ['a']\nupstreams = ['10.0.0.1', '10.0.0.1']",
            "4: forward[0].upstreams[1] '10.0.0.1': twice in the list",
        ),
        (
            "[[forward]]\ndomains = ['a']\nupstreams = ['127.0.0.1']",
            "4: forward[0].upstreams[0] '127.0.0.1': is also a listen address",
        ),
        ("[upstream]\nports = 0", "3: upstream.ports 0: must be 1 to 1024"),
        ("[upstream]\ntries = 4", "3: upstream.tries 4: must be 1 to 3"),
        ("[upstream]\ntimeout_ms = 6000", "3: upstream.timeout_ms 6000: must be 1 to 5000"),
        ("[upstream]\ndeadline_ms = 0", "3: upstream.deadline_ms 0: must be 1 to 60000"),
        ("[upstream]\nin_flight = 65536", "3: upstream.in_flight 65536: must be 1 to 65535"),
        ("[upstream]\na_query = 'x'", "3: upstream.a_query 'x': choose afterwards, together or when-late"),
        ("[upstream]\nsource = ['x']", "3: upstream.source[0] 'x': not an address: write 192.0.2.1"),
        ("[upstream]\nsource = ['::']", "3: upstream.source[0] '::': no address to ask from"),
        (
            "[upstream]\nsource = ['192.0.2.1', '192.0.2.2']",
            "3: upstream.source[1] '192.0.2.2': the second of its family",
        ),
    ]);
}

#[test]
fn of_limits_and_services() {
    let long_path = format!("3: control.socket '/{0}': longer than the 107 octets", "x".repeat(107));
    let long_socket = format!("[control]\nsocket = '/{}'", "x".repeat(107));
    expect(&[
        ("allow = []", "2: allow: at least one is needed"),
        ("\nallow = ['::/0',\n '10.0.0.1/8']", "4: allow[1] '10.0.0.1/8': bits after the first 8"),
        ("threads = 1025", "2: threads 1025: must be 0 to 1024"),
        ("cpus = [0, 1024]", "2: cpus[1] 1024: must be 0 to 1023"),
        ("[cache]\nsize_mib = 1048577", "3: cache.size_mib 1048577: must be 0 to 1048576"),
        ("[cache]\nttl_max_s = 604801", "3: cache.ttl_max_s 604801: must be 1 to 604800"),
        ("[cache]\nfailure_ttl_s = 301", "3: cache.failure_ttl_s 301: must be 1 to 300"),
        ("[cache]\nstale = false\nstale_ttl_s = 0", "4: cache.stale_ttl_s 0: must be 1 to 3600"),
        ("[local]\nipv4only_ttl_s = 0", "3: local.ipv4only_ttl_s 0: must be 1 to 604800"),
        ("[limits]\nin_flight = 0", "3: limits.in_flight 0: must be 1 to 65535"),
        ("[limits]\nudp_payload_octets = 511", "3: limits.udp_payload_octets 511: must be 512 to 4096"),
        ("[limits]\nconnections = 65536", "3: limits.connections 65536: must be 0 to 65535"),
        ("[limits]\nidle_ms = 99", "3: limits.idle_ms 99: must be 100 to 3600000"),
        ("[limits]\nqueries_per_second = 0", "3: limits.queries_per_second 0: must be 1 to 10000000"),
        ("[limits]\nslip = 2", "3: limits.slip: has no effect alone: write queries_per_second, too"),
        (
            "[metrics]\nlisten = '127.0.0.1'",
            "3: metrics.listen '127.0.0.1': not an address with a port: write",
        ),
        ("[log]\nlevel = 'trace'", "3: log.level 'trace': choose error, warning, info or debug"),
        ("[log]\nformat = 'xml'", "3: log.format 'xml': choose text or json"),
        ("[dnstap]\nclients = true", "2: dnstap.socket: is missing: write the socket of the receiver"),
        ("[dnstap]\nsocket = 'x'\nclients = false", "2: dnstap: records nothing: set clients or upstreams"),
        ("[dnstap]\nsocket = 'x'\nidentity = ''", "4: dnstap.identity '': write 1 to 255 characters"),
        ("[xdp]\ndevices = ['eth0', 'lo']", "3: xdp.devices[1] 'lo': has no Ethernet"),
        ("[xdp]\ndevices = ['eth0', 'eth0']", "3: xdp.devices[1] 'eth0': is named twice"),
        (
            "[xdp]\ndevices = ['a-name-too-long-for-one']",
            "3: xdp.devices[0] 'a-name-too-long-for-one': no name",
        ),
        ("[process]\nuser = 'a b'", "3: process.user 'a b': write 1 to 255 characters"),
        (&long_socket, &long_path),
    ]);
}
