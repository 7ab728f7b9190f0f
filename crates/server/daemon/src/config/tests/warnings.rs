//! What is allowed and yet likely to do harm.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use super::{Home, parse};

#[test]
fn harmful_configurations_are_warned_about() {
    for (text, expected) in [
        ("allow = ['0.0.0.0/0']", "allow 0.0.0.0/0 makes this an open resolver"),
        (
            "prefixes = ['2001:db8::/32', '2001:db8:64::/96']",
            "prefix 2001:db8:64::/96 lies within 2001:db8::/32",
        ),
        ("[dns64]\nstrict_well_known = false", "prefix 64:ff9b::/96 without strict_well_known"),
        (
            "[dns64]\nmap = { '10.0.0.0/8' = '64:ff9b::/96' }",
            "dns64.map.'10.0.0.0/8' holds private addresses",
        ),
        ("[dns64]\nexclude = ['64:ff9b::/32']", "dns64.exclude 64:ff9b::/32 holds the prefix 64:ff9b::/96"),
        (
            "[dns64]\nnever = ['example']\nalways = ['a.example']",
            "dns64.always a.example has no effect: dns64.never holds it, and counts first",
        ),
        (
            "[dns64]\nnever = ['example']\n[[view]]\nname = 'v'\nclients = ['10.0.0.0/8']\nalways = ['example']",
            "view[0].always example has no effect: view[0].never holds it",
        ),
        (
            "[[view]]\nname = 'v'\nclients = ['10.0.0.0/8']\nexclude = ['64:ff9b::/96']",
            "view v: dns64.exclude 64:ff9b::/96 holds the prefix",
        ),
        ("[[view]]\nname = 'v'\nclients = ['192.0.2.0/24']", "view v: clients 192.0.2.0/24 are REFUSED: add"),
        (
            "[[view]]\nname = 'v'\nlisteners = ['[::]:53']\n[[view]]\nname = 'w'\nclients = ['10.0.0.0/8']",
            "view v matches all clients of its listeners, also those of view w: put view v after view w",
        ),
        (
            "[[view]]\nname = 'v'\nclients = ['10.0.0.0/8']\ndns64 = false\nptr = 'off'",
            "view v: its DNS64 keys have no effect with dns64 = false",
        ),
        ("[[forward]]\ndomains = ['.']\nupstreams = ['192.0.2.2']", "forward of '.' takes every question"),
        ("[upstream]\ntrust_ad = true", "trust_ad trusts the AD bit of 192.0.2.1:53, which anybody"),
        ("[upstream]\ndeadline_ms = 1000", "upstream.deadline_ms leaves no time to ask for A"),
        ("[limits]\nconnections = 0", "limits.connections 0 leaves no way for answers"),
        ("[cache]\nsize_mib = 0\nstale = true", "cache.stale has no effect without a cache"),
        ("[cache]\nsize_mib = 0\nprefetch = true", "cache.prefetch has no effect without a cache"),
        ("[cache]\nstale = false\nstale_ttl_s = 30", "cache.stale_... has no effect with stale = false"),
        ("[cache]\nstale_client_timer_ms = 5000", "cache.stale_client_timer_ms is no shorter than"),
    ] {
        let config = parse(&format!("upstreams = ['192.0.2.1']\n{text}"));
        assert_eq!(config.warnings.len(), 1, "{text}: {:?}", config.warnings);
        assert!(config.warnings[0].starts_with(expected), "{:?}\n{expected}", config.warnings);
    }
}

#[test]
fn files_open_to_all_or_without_a_use_are_warned_about() {
    let home = Home::new();
    std::fs::copy(home.path("key.pem"), home.path("open.pem")).unwrap();
    std::fs::set_permissions(home.path("open.pem"), Permissions::from_mode(0o644)).unwrap();
    let open = "listen = ['tls://[::]']\nupstreams = ['192.0.2.1']\n\
                [tls]\ncertificate = 'certificate.pem'\nkey = 'open.pem'";
    let config = home.read(open).unwrap();
    assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
    assert!(config.warnings[0].contains("open.pem is open to every user"), "{:?}", config.warnings);
    for (text, expected) in [
        ("[tls]\ncertificate = 'certificate.pem'\nkey = 'key.pem'", "tls.certificate has no effect"),
        ("[upstream]\nroots = 'certificate.pem'", "upstream.roots has no effect"),
    ] {
        let config = home.read(&format!("upstreams = ['192.0.2.1']\n{text}")).unwrap();
        assert_eq!(config.warnings.len(), 1, "{text}: {:?}", config.warnings);
        assert!(config.warnings[0].starts_with(expected), "{:?}\n{expected}", config.warnings);
    }
}

#[test]
fn what_views_have_in_common_is_said_once() {
    let config = parse(
        "upstreams = ['192.0.2.1']\n[dns64]\nexclude = ['64:ff9b::/96']\n\
         [[view]]\nname = 'v'\nclients = ['10.0.0.0/8']\n[[view]]\nname = 'w'\nclients = ['fc00::/7']\n",
    );
    assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
}

#[test]
fn an_exception_from_never_or_always_is_no_fault() {
    let config = parse(
        "upstreams = ['192.0.2.1']\n[dns64]\nnever = ['a.example']\nalways = ['example']\n\
         [[view]]\nname = 'v'\nclients = ['10.0.0.0/8']\nnever = []\n",
    );
    assert_eq!(config.warnings, [""; 0]);
}
