//! The prefixes: RFC 6147 5.2, RFC 6052, RFC 8215; and the way back, RFC 6147 5.3.1.

use dns64::wire::rcode;

use crate::support::server::{File, Server, config_text};
use crate::support::upstream::Upstream;
use crate::{A, AAAA, SOA};

/// A site with these IPv4 addresses alone, and a dns64d before it.
fn site(addresses: &[&str], more: &str) -> (Upstream, Server) {
    let records: Vec<String> =
        addresses.iter().map(|address| format!("an www.example.com 50 A {address}")).collect();
    let upstream = Upstream::saying(&[(AAAA, 0, &[SOA])]);
    upstream.says(A, 0, &records.iter().map(String::as_str).collect::<Vec<_>>());
    let server = Server::before(&upstream, more);
    (upstream, server)
}

/// The addresses that a dns64d gives for such a site.
fn addresses(ipv4: &[&str], more: &str) -> Vec<String> {
    let (_upstream, server) = site(ipv4, more);
    let answer = server.ask(AAAA);
    assert_eq!(answer.rcode(), 0);
    let start = "an www.example.com 50 AAAA ";
    answer.records().iter().map(|record| record.strip_prefix(start).unwrap().to_owned()).collect()
}

#[test]
fn point_08_each_address_becomes_one_for_each_prefix() {
    let given = addresses(&["192.0.2.1", "192.0.2.2"], "prefixes = ['2001:db8:1::/96', '2001:db8:2::/96']");
    assert_eq!(
        given,
        ["2001:db8:1::c000:201", "2001:db8:2::c000:201", "2001:db8:1::c000:202", "2001:db8:2::c000:202"]
    );
}

#[test]
fn point_08_ipv4_ranges_select_the_prefix() {
    let map = "dns64.map = { '10.0.0.0/8' = '2001:db8:a::/96', '10.1.0.0/16' = '2001:db8:b::/96', \
               '192.168.0.0/16' = 'none' }";
    let given = addresses(&["192.0.2.1", "10.2.0.1", "10.1.0.1", "192.168.0.1"], map);
    assert_eq!(given, ["2001:db8:64::c000:201", "2001:db8:a::a02:1", "2001:db8:b::a01:1"]);
}

#[test]
fn point_08_prefixes_can_take_turns() {
    let more = "prefixes = ['2001:db8:1::/96', '2001:db8:2::/96']\ndns64.spread = 'rotate'";
    let (_upstream, server) = site(&["192.0.2.1"], more);
    let given: Vec<_> = (0..4).map(|_| server.ask(AAAA).records()).collect();
    assert!(given.iter().all(|records| records.len() == 1));
    assert!(given[0] != given[1] && given[0] == given[2] && given[1] == given[3], "{given:?}");
}

/// RFC 6052 2.4, table 2.
#[test]
fn point_10_every_length_of_rfc_6052() {
    for (prefix, expected) in [
        ("2001:db8::/32", "2001:db8:c000:221::"),
        ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
        ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
        ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
        ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100:0"),
        ("2001:db8:122:344::/96", "2001:db8:122:344::c000:221"),
        ("64:ff9b::/96", "64:ff9b::c000:221"),
    ] {
        let more = format!("prefixes = ['{prefix}']\ndns64.strict_well_known = false");
        let expected: std::net::Ipv6Addr = expected.parse().unwrap();
        assert_eq!(addresses(&["192.0.2.33"], &more), [expected.to_string()], "{prefix}");
    }
}

#[test]
fn point_10_the_well_known_prefix_carries_global_addresses_only() {
    let more = "prefixes = ['64:ff9b::/96']";
    let sites = ["10.0.0.1", "198.41.0.4", "192.168.1.1"];
    assert_eq!(addresses(&sites, more), ["64:ff9b::c629:4"]);
    let more = "prefixes = ['64:ff9b::/96']\ndns64.strict_well_known = false";
    assert_eq!(addresses(&sites, more).len(), 3);
    let more = "prefixes = ['64:ff9b:1:fffe::/96']";
    assert_eq!(addresses(&["10.0.0.1"], more), ["64:ff9b:1:fffe::a00:1"]);
}

#[test]
fn point_10_impossible_prefixes_are_refused_at_the_start() {
    for (prefix, reason) in [
        ("::/0", "RFC 6052"),
        ("2001:db8::/129", "129"),
        ("2001:db8::/95", "RFC 6052"),
        ("2001:db8:0:0:100::/96", "bits 64 to 71"),
        ("2001:db8::1/96", "2001:db8::1/96"),
        ("192.0.2.0/24", "192.0.2.0/24"),
    ] {
        let upstream = ["192.0.2.1:53".parse().unwrap()];
        let file = File::new(&config_text(&upstream, &format!("prefixes = ['{prefix}']")));
        let output = file.run(&[]);
        let words = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{prefix}: {words}");
        assert!(words.lines().count() == 1 && words.contains(reason), "{prefix}: {words}");
    }
}

const REVERSE: &str = "1.0.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
const IN_ADDR: &str = "1.2.0.192.in-addr.arpa";

fn pointers(more: &str) -> (Upstream, Server) {
    let upstream = Upstream::start();
    upstream.says(&format!("{IN_ADDR} PTR"), 0, &[&format!("an {IN_ADDR} 60 PTR www.example.com")]);
    upstream.says(&format!("{REVERSE} PTR"), 0, &[&format!("an {REVERSE} 60 PTR native.example.com")]);
    // Documentation addresses have private reverse names.
    let server = Server::before(&upstream, &format!("local.private_zones = false\n{more}"));
    (upstream, server)
}

#[test]
fn point_11_a_pointer_is_an_alias_of_the_ipv4_name() {
    let (upstream, server) = pointers("");
    let answer = server.ask(&format!("{REVERSE} PTR"));
    let [alias, pointer] = &answer.records()[..] else { panic!("{answer:?}") };
    assert!(alias.starts_with(&format!("an {REVERSE} ")), "{alias}");
    assert!(alias.ends_with(&format!(" CNAME {IN_ADDR}")), "{alias}");
    assert_eq!(*pointer, format!("an {IN_ADDR} 60 PTR www.example.com"));
    upstream.was_asked(&[&format!("{IN_ADDR} PTR")]);
}

#[test]
fn point_11_a_pointer_can_be_answered_in_place() {
    let (_upstream, server) = pointers("dns64.ptr = 'answer'");
    server.ask(&format!("{REVERSE} PTR")).is(0, &[&format!("an {REVERSE} 60 PTR www.example.com")]);
}

#[test]
fn point_11_pointers_can_be_left_alone() {
    let (upstream, server) = pointers("dns64.ptr = 'off'");
    server.ask(&format!("{REVERSE} PTR")).is(0, &[&format!("an {REVERSE} 60 PTR native.example.com")]);
    upstream.was_asked(&[&format!("{REVERSE} PTR")]);
}

#[test]
fn point_11_names_that_are_no_address_under_a_prefix_pass() {
    let (upstream, server) = pointers("");
    let (short, long) = (&REVERSE[2..], format!("7.{REVERSE}"));
    for name in [
        &REVERSE.replacen("4.6", "5.6", 1),
        short,
        &long,
        &REVERSE.replacen("1.0.2", "g.0.2", 1),
        &REVERSE.replacen("1.0.2", "10.0.2", 1),
        &REVERSE.replacen("1.0.2", "-.0.2", 1),
        "ip6.arpa",
        "ip6.int",
    ] {
        let words = format!("{name} PTR");
        server.ask(&words).is(rcode::NXDOMAIN, &[]);
        upstream.was_asked(&[&words]);
    }
}
