//! What is answered without asking: RFC 8880, RFC 9462, RFC 6761, RFC 8482.

use dns64::wire::rcode;

use crate::support::client::{ask, ask_edns};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

const SYNTHESIZED_CODE: u16 = 29;

fn alone(more: &str) -> (Upstream, Server) {
    let upstream = Upstream::start();
    let server = Server::before(&upstream, more);
    (upstream, server)
}

#[test]
fn rfc_8880_ipv4only_arpa_has_its_two_ipv4_addresses() {
    let (upstream, server) = alone("");
    server
        .ask("ipv4only.arpa A")
        .is(0, &["an ipv4only.arpa 3600 A 192.0.0.170", "an ipv4only.arpa 3600 A 192.0.0.171"]);
    upstream.was_asked(&[]);
}

#[test]
fn rfc_8880_ipv4only_arpa_shows_every_prefix() {
    let (upstream, server) =
        alone("prefixes = ['64:ff9b::/96', '2001:db8:122:344::/64']\nlocal.ipv4only_ttl_s = 77");
    let answer = ask_edns("ipv4only.arpa AAAA").over_udp(server.address());
    answer.is(
        0,
        &[
            "an ipv4only.arpa 77 AAAA 64:ff9b::c000:aa",
            "an ipv4only.arpa 77 AAAA 64:ff9b::c000:ab",
            "an ipv4only.arpa 77 AAAA 2001:db8:122:344:c0:0:aa00:0",
            "an ipv4only.arpa 77 AAAA 2001:db8:122:344:c0:0:ab00:0",
        ],
    );
    assert_eq!(answer.extended_errors(), [SYNTHESIZED_CODE]);
    upstream.was_asked(&[]);
}

#[test]
fn rfc_8880_other_types_are_not_there_and_names_below_do_not_exist() {
    let (upstream, server) = alone("");
    for words in ["ipv4only.arpa MX", "ipv4only.arpa TXT", "IPv4Only.ARPA HTTPS"] {
        let answer = server.ask(words);
        assert_eq!((answer.rcode(), answer.records().len()), (0, 1), "{words}");
        assert!(answer.records()[0].starts_with("ns ipv4only.arpa 3600 SOA"), "{:?}", answer.records());
    }
    for words in ["www.ipv4only.arpa AAAA", "a.b.ipv4only.arpa A"] {
        assert_eq!(server.ask(words).rcode(), rcode::NXDOMAIN, "{words}");
    }
    upstream.was_asked(&[]);
}

#[test]
fn rfc_8880_ds_is_resolved() {
    let (upstream, server) = alone("");
    upstream.says("ipv4only.arpa TYPE43", 0, &["ns arpa 60 SOA 60"]);
    server.ask("ipv4only.arpa TYPE43").is(0, &["ns arpa 60 SOA 60"]);
    upstream.was_asked(&["ipv4only.arpa TYPE43"]);
}

#[test]
fn rfc_8880_the_addresses_point_back() {
    let (upstream, server) = alone("");
    for last in ["a", "b"] {
        let reverse =
            format!("{last}.a.0.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa");
        server.ask(&format!("{reverse} PTR")).is(0, &[&format!("an {reverse} 3600 PTR ipv4only.arpa")]);
    }
    for last in ["170", "171"] {
        let reverse = format!("{last}.0.0.192.in-addr.arpa");
        server.ask(&format!("{reverse} PTR")).is(0, &[&format!("an {reverse} 3600 PTR ipv4only.arpa")]);
    }
    upstream.was_asked(&[]);
}

#[test]
fn rfc_8880_can_be_left_to_the_upstream_server() {
    let (upstream, server) = alone("local.ipv4only = false");
    upstream.says("ipv4only.arpa AAAA", 0, &["ns ipv4only.arpa 60 SOA 60"]);
    upstream.says("ipv4only.arpa A", 0, &["an ipv4only.arpa 60 A 192.0.0.170"]);
    server.ask("ipv4only.arpa AAAA").is(0, &["an ipv4only.arpa 60 AAAA 2001:db8:64::c000:aa"]);
}

#[test]
fn rfc_9462_resolver_arpa_is_not_forwarded() {
    let (upstream, server) = alone("");
    for words in ["resolver.arpa TYPE64", "_dns.resolver.arpa TYPE64", "_dns.resolver.arpa A"] {
        let answer = server.ask(words);
        assert!(answer.records().iter().all(|record| record.starts_with("ns resolver.arpa ")), "{words}");
        assert_eq!(answer.rcode(), 0, "{words}");
    }
    upstream.was_asked(&[]);
}

#[test]
fn rfc_6761_special_names_stay_here() {
    let (upstream, server) = alone("");
    server.ask("localhost A").is(0, &["an localhost 10800 A 127.0.0.1"]);
    server.ask("app.localhost AAAA").is(0, &["an app.localhost 10800 AAAA ::1"]);
    for words in ["invalid A", "www.invalid AAAA", "abc.onion AAAA"] {
        assert_eq!(server.ask(words).rcode(), rcode::NXDOMAIN, "{words}");
    }
    upstream.was_asked(&[]);
}

#[test]
fn rfc_6303_attack_private_names_do_not_leak_upstream() {
    let (upstream, server) = alone("");
    for (words, zone) in [
        ("printer.local AAAA", "local"),
        ("nas.home.arpa AAAA", "home.arpa"),
        ("1.0.0.10.in-addr.arpa PTR", "10.in-addr.arpa"),
        ("b._dns-sd._udp.0.168.192.in-addr.arpa PTR", "168.192.in-addr.arpa"),
        ("1.d.f.ip6.arpa PTR", "d.f.ip6.arpa"),
    ] {
        server.ask(words).is(rcode::NXDOMAIN, &[&format!("ns {zone} 10800 SOA 10800")]);
    }
    upstream.was_asked(&[]);
}

#[test]
fn rfc_6303_attack_a_pointer_under_a_prefix_does_not_lead_to_a_private_reverse_zone() {
    let (upstream, server) = alone("");
    let reverse = "3.0.2.0.1.0.a.0.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
    let alias = format!("an {reverse} 600 CNAME 3.2.1.10.in-addr.arpa");
    let soa = "ns 10.in-addr.arpa 10800 SOA 10800";
    server.ask(&format!("{reverse} PTR")).is(rcode::NXDOMAIN, &[&alias, soa]);
    upstream.was_asked(&[]);
}

#[test]
fn rfc_6303_private_zones_are_asked_of_their_own_servers() {
    let upstream = Upstream::start();
    let words = "1.0.0.10.in-addr.arpa PTR";
    let record = "an 1.0.0.10.in-addr.arpa 60 PTR nas.example.com";
    upstream.says(words, 0, &[record]);
    let forward = format!("[[forward]]\ndomains = ['10.in-addr.arpa']\nupstreams = ['{}']", upstream.address);
    Server::before(&upstream, &forward).ask(words).is(0, &[record]);
    Server::before(&upstream, "local.private_zones = false").ask(words).is(0, &[record]);
    upstream.was_asked(&[words, words]);
}

#[test]
fn rfc_8482_any_is_one_record_over_udp_and_forwarded_over_tcp() {
    let (upstream, server) = alone("");
    upstream.says("www.example.com ANY", 0, &[crate::A_RECORD]);
    let answer = server.ask("www.example.com ANY");
    assert_eq!(answer.records().len(), 1);
    let record = answer.message().records().next().unwrap().unwrap();
    assert_eq!((record.rtype, record.rdata, record.ttl), (13, &b"\x07RFC8482\0"[..], 3600));
    upstream.was_asked(&[]);
    ask("www.example.com ANY").over_tcp(server.address()).is(0, &[crate::A_RECORD]);
    upstream.was_asked(&["www.example.com ANY"]);
}

#[test]
fn rfc_8482_any_can_be_forwarded_over_udp_too() {
    let (upstream, server) = alone("local.minimal_any = false");
    upstream.says("www.example.com ANY", 0, &[crate::A_RECORD]);
    server.ask("www.example.com ANY").is(0, &[crate::A_RECORD]);
}
