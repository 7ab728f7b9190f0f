//! What users of other DNS64 servers ask for. The numbers are of issues in the trackers of those servers.

use std::net::{IpAddr, SocketAddr};

use dns64::wire::rcode;

use crate::support::client::ask;
use crate::support::server::{File, Server, config_text};
use crate::support::upstream::Upstream;
use crate::{A, A_RECORD, AAAA, SOA, SYNTHESIZED};

const NATIVE: &str = "an www.example.com 60 AAAA 2001:db8::1";

fn ipv4_only(more: &str) -> (Upstream, Server) {
    let upstream = Upstream::saying(&[(AAAA, 0, &[SOA]), (A, 0, &[A_RECORD])]);
    let server = Server::before(&upstream, more);
    (upstream, server)
}

/// What the client at this address is told.
fn told(server: &Server, host: [u8; 4], words: &str) -> Vec<String> {
    ask(words).from(IpAddr::from(host), server.address()).expect("an answer").records()
}

/// Unbound 42 and 462, AdGuard Home 7871.
#[test]
fn each_network_has_prefixes_of_its_own_or_none() {
    let (upstream, server) = ipv4_only(
        "listen = ['127.0.0.1:0']\n\
         [[view]]\nname = 'guests'\nclients = ['127.0.0.2/32']\nprefixes = ['2001:db8:2::/96']\n\
         [[view]]\nname = 'dual-stack'\nclients = ['127.0.0.3/32']\ndns64 = false",
    );
    let ends = |records: Vec<String>| records[0].split(' ').skip(3).collect::<Vec<_>>().join(" ");
    assert_eq!(ends(told(&server, [127, 0, 0, 1], AAAA)), "AAAA 2001:db8:64::c000:201");
    assert_eq!(ends(told(&server, [127, 0, 0, 2], AAAA)), "AAAA 2001:db8:2::c000:201");
    assert_eq!(ends(told(&server, [127, 0, 0, 3], AAAA)), "SOA 60");
    upstream.was_asked(&[AAAA, A]);
    let given = told(&server, [127, 0, 0, 2], "ipv4only.arpa AAAA");
    assert_eq!(given[0], "an ipv4only.arpa 3600 AAAA 2001:db8:2::c000:aa");
    assert!(ends(told(&server, [127, 0, 0, 3], "ipv4only.arpa AAAA")).starts_with("SOA"));
}

/// AdGuard Home 7247.
#[test]
fn all_prefixes_are_given_not_the_first_alone() {
    let (_upstream, server) =
        ipv4_only("prefixes = ['2001:db8:1::/96', '2001:db8:2::/96', '64:ff9b:1::/48']");
    assert_eq!(server.ask(AAAA).records().len(), 3);
}

/// Unbound 1249, CoreDNS 7246.
#[test]
fn domains_can_be_excluded() {
    let (upstream, server) = ipv4_only("dns64.never = ['example.com']");
    server.ask(AAAA).is(0, &[SOA]);
    upstream.was_asked(&[AAAA]);
    upstream.says("www.example.net AAAA", 0, &[]);
    upstream.says("www.example.net A", 0, &["an www.example.net 60 A 192.0.2.1"]);
    server.ask("www.example.net AAAA").is(0, &["an www.example.net 60 AAAA 2001:db8:64::c000:201"]);
}

/// Unbound 1249, CoreDNS 7246.
#[test]
fn ranges_can_be_excluded() {
    let (upstream, server) = ipv4_only("dns64.map = { '192.0.2.0/24' = 'none' }");
    server.ask(AAAA).is(0, &[]);
    upstream.says(A, 0, &[A_RECORD, "an www.example.com 300 A 198.51.100.1"]);
    let (_, server) = (&upstream, Server::before(&upstream, "dns64.map = { '192.0.2.0/24' = 'none' }"));
    server.ask(AAAA).is(0, &["an www.example.com 60 AAAA 2001:db8:64::c633:6401"]);
}

#[test]
fn sites_with_broken_ipv6_can_be_reached_by_ipv4() {
    let (upstream, server) = ipv4_only("dns64.always = ['example.com']");
    upstream.says(AAAA, 0, &[NATIVE]);
    server.ask(AAAA).is(0, &["an www.example.com 300 AAAA 2001:db8:64::c000:201"]);
}

/// AdGuard Home 6932 and 7514, dnsproxy 438.
#[test]
fn a_chain_into_a_native_site_is_not_synthesized() {
    let (upstream, server) = ipv4_only("");
    let chain = ["an www.example.com 60 CNAME cdn.example.net", "an cdn.example.net 60 AAAA 2001:db8::1"];
    upstream.says(AAAA, 0, &chain);
    server.ask(AAAA).is(0, &chain);
    upstream.was_asked(&[AAAA]);
}

/// AdGuard Home 6932 and 7514, dnsproxy 438.
#[test]
fn a_chain_that_only_the_a_reply_has_is_kept() {
    let (upstream, server) = ipv4_only("");
    let alias = "an www.example.com 60 CNAME cdn.example.net";
    upstream.says(A, 0, &[alias, "an cdn.example.net 60 A 192.0.2.1", "an cdn.example.net 60 A 192.0.2.2"]);
    let addresses = ["201", "202"].map(|end| format!("an cdn.example.net 60 AAAA 2001:db8:64::c000:{end}"));
    server.ask(AAAA).is(0, &[alias, &addresses[0], &addresses[1]]);
}

/// dnscrypt-proxy 2619: A after AAAA must give A records, and the other way about, from the cache as well.
#[test]
fn what_is_cached_for_one_type_is_not_given_for_another() {
    for order in [[AAAA, A, AAAA], [A, AAAA, A]] {
        let (_upstream, server) = ipv4_only("");
        for words in order {
            let answer = server.ask(words);
            let expected = if words == A { " A 192.0.2.1" } else { " AAAA 2001:db8:64::c000:201" };
            assert!(answer.records().len() == 1 && answer.records()[0].ends_with(expected), "{answer:?}");
        }
    }
}

/// PowerDNS 14362.
#[test]
fn a_denial_has_one_soa() {
    let (upstream, server) = ipv4_only("");
    upstream.says(A, 0, &[SOA]);
    for _ in 0..2 {
        server.ask(AAAA).is(0, &[SOA]);
    }
}

/// Knot Resolver 104.
#[test]
fn a_records_do_not_leak_into_the_answer() {
    let (upstream, server) = ipv4_only("");
    upstream.says(AAAA, 0, &[A_RECORD, SOA]);
    server.ask(AAAA).is(0, &[SYNTHESIZED]);
    upstream.says(
        "six.example.com AAAA",
        0,
        &["an six.example.com 60 A 192.0.2.9", "an six.example.com 60 AAAA 2001:db8::1"],
    );
    server.ask("six.example.com AAAA").is(0, &["an six.example.com 60 AAAA 2001:db8::1"]);
}

/// CoreDNS 4808.
#[test]
fn clients_that_ask_by_ipv4_get_synthesized_addresses_too() {
    let (_upstream, server) = ipv4_only("listen = ['127.0.0.1:0', '[::1]:0']");
    for address in &server.addresses {
        assert!(ask(AAAA).over_udp(*address).records()[0].ends_with(" AAAA 2001:db8:64::c000:201"));
    }
}

#[test]
fn domains_can_have_servers_of_their_own() {
    let (upstream, corporate) = (Upstream::start(), Upstream::start());
    corporate.says("www.corp.example A", 0, &["an www.corp.example 60 A 10.0.0.1"]);
    let more = format!("[[forward]]\ndomains = ['corp.example']\nupstreams = ['{}']", corporate.address);
    let server = Server::before(&upstream, &more);
    server.ask("www.corp.example A").is(0, &["an www.corp.example 60 A 10.0.0.1"]);
    server.ask("www.corp.example.net A").is(rcode::NXDOMAIN, &[]);
    corporate.was_asked(&["www.corp.example A"]);
    upstream.was_asked(&["www.corp.example.net A"]);
}

#[test]
fn configurations_that_do_harm_are_warned_of() {
    let upstream: [SocketAddr; 1] = ["192.0.2.1:53".parse().unwrap()];
    for (more, about) in [
        ("dns64.strict_well_known = false\nprefixes = ['64:ff9b::/96']", "64:ff9b::/96"),
        ("allow = ['0.0.0.0/0']", "0.0.0.0/0"),
        ("dns64.exclude = ['2001:db8::/32']", "2001:db8:64::/96"),
    ] {
        let output = File::new(&config_text(&upstream, more)).run(&["--check-config"]);
        let words = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{words}");
        assert!(
            words.lines().any(|line| line.contains("warning") && line.contains(about)),
            "{more}: {words}"
        );
    }
}
