//! Names that are answered without asking, question by question.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../../dns64/tests/support/mod.rs"]
mod support;

use dns64::reverse::Style;
use dns64::rewrite::ClientQuery;
use dns64::rule::{Policy, PrefixChoice};
use dns64::wire::{Header, Message, rcode};
use proptest::prelude::*;
use server_core::domains::Routes;
use server_core::ede;
use server_core::local::{LocalAnswer, answer};
use server_core::settings::{Local, View};
use support::{asked, lines, name};

/// A view with these prefixes.
fn view(prefixes: &[&str]) -> View {
    let prefixes = prefixes.iter().map(|text| text.parse().unwrap()).collect();
    View { rule: Some(Policy { prefixes, ..Policy::default() }), ..View::default() }
}

/// The answer over TCP with its RCODE, or `None` where the question is forwarded.
fn answered_in(view: &View, words: &str) -> Option<(u8, Vec<String>)> {
    let mut out = [0; 1232];
    match answer(&Local::default(), view, &Routes::default(), &asked(words), false, &mut out) {
        LocalAnswer::None => None,
        LocalAnswer::Written { octets, ede } => {
            let message = Message::parse(&out[..octets]).unwrap();
            assert_eq!(message.question(), asked(words).question);
            assert!(
                domain::base::Message::from_octets(&out[..octets]).unwrap().iter().all(|item| item.is_ok())
            );
            let synthesized = lines(&out[..octets]).iter().any(|line| line.contains("arpa 3600 AAAA"));
            assert_eq!(ede, synthesized.then_some(ede::code::SYNTHESIZED));
            Some((message.header.rcode(), lines(&out[..octets])))
        }
    }
}

fn answered(words: &str) -> Option<(u8, Vec<String>)> {
    answered_in(&View::default(), words)
}

/// An answer with these records.
fn found<const N: usize>(records: [&str; N]) -> Option<(u8, Vec<String>)> {
    Some((rcode::NOERROR, records.map(str::to_owned).to_vec()))
}

/// An answer without the records asked for.
fn negative(rcode: u8, soa: &str) -> Option<(u8, Vec<String>)> {
    Some((rcode, vec![soa.to_owned()]))
}

const IPV4ONLY_SOA: &str = "ns ipv4only.arpa 3600 SOA 3600";

#[test]
fn ipv4only_arpa_has_its_two_addresses() {
    let addresses = found(["an ipv4only.arpa 3600 A 192.0.0.170", "an ipv4only.arpa 3600 A 192.0.0.171"]);
    assert_eq!(answered("ipv4only.arpa A"), addresses);
    assert_eq!(answered("ipv4only.arpa ANY"), addresses);
    let spelled = found(["an IPv4only.ARPA 3600 A 192.0.0.170", "an IPv4only.ARPA 3600 A 192.0.0.171"]);
    assert_eq!(answered("IPv4only.ARPA A"), spelled);
}

#[test]
fn ipv4only_arpa_has_both_addresses_under_every_prefix() {
    let mut view = view(&["64:ff9b::/96", "2001:db8:122:344::/64"]);
    let expected = found([
        "an ipv4only.arpa 3600 AAAA 64:ff9b::c000:aa",
        "an ipv4only.arpa 3600 AAAA 64:ff9b::c000:ab",
        "an ipv4only.arpa 3600 AAAA 2001:db8:122:344:c0:0:aa00:0",
        "an ipv4only.arpa 3600 AAAA 2001:db8:122:344:c0:0:ab00:0",
    ]);
    assert_eq!(answered_in(&view, "ipv4only.arpa AAAA"), expected);
    view.rule.as_mut().unwrap().spread = PrefixChoice::Rotated;
    assert_eq!(answered_in(&view, "ipv4only.arpa AAAA"), expected, "clients must learn all of them");
}

#[test]
fn without_synthesis_ipv4only_arpa_has_no_aaaa_record() {
    let none = negative(0, IPV4ONLY_SOA);
    assert_eq!(answered_in(&View { rule: None, ..View::default() }, "ipv4only.arpa AAAA"), none);
    assert_eq!(answered_in(&view(&[]), "ipv4only.arpa AAAA"), none);
    let never = [name("arpa")].into_iter().collect();
    assert_eq!(answered_in(&View { never, ..View::default() }, "ipv4only.arpa AAAA"), none);
}

#[test]
fn ipv4only_arpa_has_nothing_else() {
    for other in ["TXT", "NS", "SOA", "HTTPS", "CNAME"] {
        assert_eq!(answered(&format!("ipv4only.arpa {other}")), negative(0, IPV4ONLY_SOA), "{other}");
    }
    for below in ["x.ipv4only.arpa AAAA", "a.b.IPV4ONLY.arpa TYPE43"] {
        assert_eq!(answered(below), negative(rcode::NXDOMAIN, IPV4ONLY_SOA), "{below}");
    }
    for forwarded in ["ipv4only.arpa TYPE43", "xipv4only.arpa A", "arpa NS", "ipv4only.arpa.example A"] {
        assert_eq!(answered(forwarded), None, "{forwarded}");
    }
}

#[test]
fn the_addresses_of_ipv4only_arpa_have_a_name() {
    for address in ["170.0.0.192.in-addr.arpa", "171.0.0.192.IN-ADDR.arpa"] {
        let expected = format!("an {address} 3600 PTR ipv4only.arpa");
        assert_eq!(answered(&format!("{address} PTR")), found([&expected]));
        assert_eq!(answered(&format!("{address} TYPE43")), None);
        let zone = address.to_lowercase();
        let soa = format!("ns {zone} 3600 SOA 3600");
        assert_eq!(answered(&format!("{address} A")), negative(0, &soa));
        assert_eq!(answered(&format!("x.{address} A")), negative(rcode::NXDOMAIN, &soa));
    }
    assert_eq!(answered("172.0.0.192.in-addr.arpa PTR"), None);
}

#[test]
fn the_synthesized_addresses_of_ipv4only_arpa_have_a_name() {
    let zeros = "0.".repeat(16);
    let synthesized = format!("b.a.0.0.0.0.0.c.{zeros}b.9.f.f.4.6.0.0.ip6.arpa");
    let expected = format!("an {synthesized} 3600 PTR ipv4only.arpa");
    assert_eq!(answered(&format!("{synthesized} PTR")), found([&expected]));
    assert_eq!(answered(&format!("{synthesized} TXT")), None);
    assert_eq!(answered(&format!("{} PTR", synthesized.replacen("b.a", "c.a", 1))), None, "192.0.0.172");
    assert_eq!(answered_in(&view(&["2001:db8::/96"]), &format!("{synthesized} PTR")), None);
    assert_eq!(answered_in(&View { rule: None, ..View::default() }, &format!("{synthesized} PTR")), None);
}

#[test]
fn localhost_is_the_loopback_address() {
    for name in ["localhost", "LocalHost", "a.b.localhost"] {
        let record = |rdata| format!("an {name} 10800 {rdata}");
        assert_eq!(answered(&format!("{name} A")), found([&record("A 127.0.0.1")]));
        assert_eq!(answered(&format!("{name} AAAA")), found([&record("AAAA ::1")]));
        assert_eq!(answered(&format!("{name} MX")), negative(0, "ns localhost 10800 SOA 10800"));
    }
    assert_eq!(answered("localhost.example A"), None);
    assert_eq!(answered("notlocalhost A"), None);
}

#[test]
fn names_that_never_exist_do_not() {
    for (name, zone) in [("invalid", "invalid"), ("x.INVALID", "invalid"), ("x.onion", "onion")] {
        let soa = format!("ns {zone} 10800 SOA 10800");
        for qtype in ["A", "AAAA", "ANY", "TYPE43"] {
            assert_eq!(answered(&format!("{name} {qtype}")), negative(rcode::NXDOMAIN, &soa), "{name}");
        }
    }
    assert_eq!(answered("onions A"), None);
}

#[test]
fn there_is_no_designated_resolver() {
    for name in ["resolver.arpa", "_dns.Resolver.arpa", "x.resolver.arpa"] {
        let none = negative(0, "ns resolver.arpa 10800 SOA 10800");
        assert_eq!(answered(&format!("{name} TYPE64")), none, "{name}");
    }
}

#[test]
fn any_over_udp_is_answered_with_one_record() {
    let mut out = [0; 512];
    let mut any = |words: &str, local: &Local, over_udp| match answer(
        local,
        &View::default(),
        &Routes::default(),
        &asked(words),
        over_udp,
        &mut out,
    ) {
        LocalAnswer::None => None,
        LocalAnswer::Written { octets, .. } => Some(lines(&out[..octets])),
    };
    let local = Local::default();
    let expected = "an www.example.com 3600 TYPE13 \u{7}RFC8482\0".to_owned();
    assert_eq!(any("www.example.com ANY", &local, true), Some(vec![expected]));
    assert_eq!(any("www.example.com ANY", &local, false), None);
    assert_eq!(any("www.example.com A", &local, true), None);
    assert_eq!(any("www.example.com ANY", &Local { minimal_any: false, ..local }, true), None);
}

#[test]
fn what_is_switched_off_is_forwarded() {
    let off = |local: Local, words: &str| {
        answer(&local, &View::default(), &Routes::default(), &asked(words), true, &mut [0; 512])
            == LocalAnswer::None
    };
    let ipv4only = Local { ipv4only: false, ..Local::default() };
    assert!(off(ipv4only, "ipv4only.arpa AAAA") && off(ipv4only, "170.0.0.192.in-addr.arpa PTR"));
    assert!(!off(ipv4only, "localhost A"));
    let special_names = Local { special_names: false, ..Local::default() };
    for name in ["localhost A", "x.onion A", "invalid A", "_dns.resolver.arpa TYPE64"] {
        assert!(off(special_names, name), "{name}");
    }
    assert!(!off(special_names, "ipv4only.arpa AAAA"));
    let private_zones = Local { private_zones: false, ..Local::default() };
    for name in ["printer.local A", "nas.home.arpa AAAA", "1.0.0.10.in-addr.arpa PTR", "d.f.ip6.arpa NS"] {
        assert!(off(private_zones, name) && !off(Local::default(), name), "{name}");
    }
}

#[test]
fn rfc_6303_private_zones_have_their_soa_and_ns_records_alone() {
    for zone in ["10.in-addr.arpa", "2.0.192.in-addr.arpa", "D.F.ip6.arpa", "home.arpa", "service.arpa"] {
        let soa = format!("ns {zone} 10800 SOA 10800");
        assert_eq!(answered(&format!("{zone} SOA")), found([&soa.replace("ns ", "an ")]));
        assert_eq!(answered(&format!("{zone} NS")), found([&format!("an {zone} 10800 NS {zone}")]));
        assert_eq!(answered(&format!("{zone} PTR")), negative(0, &soa));
        assert_eq!(answered(&format!("{zone} TYPE43")), None, "DS is in the zone above (RFC 8375 4)");
        for below in ["x PTR", "1.2.3 PTR", "a.b TYPE43", "x AAAA", "x ANY"] {
            let words = below.replace(' ', &format!(".{zone} "));
            assert_eq!(answered(&words), negative(rcode::NXDOMAIN, &soa), "{words}");
        }
    }
}

#[test]
fn rfc_6762_local_does_not_exist() {
    for name in ["local", "printer.local", "_ipp._tcp.LOCAL"] {
        let zone = name.rsplit('.').next().unwrap();
        let none = negative(rcode::NXDOMAIN, &format!("ns {zone} 10800 SOA 10800"));
        for qtype in ["A", "AAAA", "PTR", "NS", "SOA", "TYPE43"] {
            assert_eq!(answered(&format!("{name} {qtype}")), none, "{name}");
        }
    }
}

#[test]
fn private_names_of_a_domain_with_its_own_servers_are_asked_of_them() {
    let routed = |domain: &str, words: &str| {
        let mut routes = Routes::default();
        routes.insert(&name(domain), 1);
        answer(&Local::default(), &View::default(), &routes, &asked(words), true, &mut [0; 512])
            == LocalAnswer::None
    };
    for (domain, words) in [
        ("corp.local", "www.corp.local AAAA"),
        ("home.arpa", "nas.home.arpa A"),
        ("10.in-addr.arpa", "1.0.0.10.in-addr.arpa PTR"),
        ("1.10.in-addr.arpa", "7.2.1.10.in-addr.arpa PTR"),
        ("arpa", "1.0.0.10.in-addr.arpa PTR"),
    ] {
        assert!(routed(domain, words), "{words}");
    }
    for (domain, words) in [
        ("corp.local", "www.other.local A"),
        ("1.10.in-addr.arpa", "7.1.2.10.in-addr.arpa PTR"),
        (".", "1.0.0.10.in-addr.arpa PTR"),
    ] {
        assert!(!routed(domain, words), "{words}");
    }
}

/// The PTR name of 10.1.2.3 under `2001:db8:64::/96`.
const PRIVATE_PTR: &str = "3.0.2.0.1.0.a.0.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa";

#[test]
fn attack_pointers_under_a_prefix_do_not_lead_to_private_reverse_names() {
    let soa = "ns 10.in-addr.arpa 10800 SOA 10800";
    let mut view = view(&["2001:db8:64::/96"]);
    let words = format!("{PRIVATE_PTR} PTR");
    let alias = format!("an {PRIVATE_PTR} 600 CNAME 3.2.1.10.in-addr.arpa");
    assert_eq!(answered_in(&view, &words), Some((rcode::NXDOMAIN, vec![alias, soa.to_owned()])));
    view.ptr = Some(Style::Answer);
    assert_eq!(answered_in(&view, &words), negative(rcode::NXDOMAIN, soa));
    view.ptr = None;
    let documentation = "ns 8.b.d.0.1.0.0.2.ip6.arpa 10800 SOA 10800";
    assert_eq!(answered_in(&view, &words), negative(rcode::NXDOMAIN, documentation), "no part of DNS64");
}

#[test]
fn other_classes_are_forwarded() {
    for words in ["ipv4only.arpa A", "localhost A", "www.example.com ANY"] {
        let mut chaos = asked(words);
        chaos.question.qclass = 3;
        assert_eq!(
            answer(&Local::default(), &View::default(), &Routes::default(), &chaos, true, &mut [0; 512]),
            LocalAnswer::None
        );
    }
}

#[test]
fn answers_carry_the_clients_flags_and_never_aa_or_ad() {
    let mut out = [0; 512];
    let asked = ClientQuery { checking_disabled: true, dnssec_ok: true, ..asked("ipv4only.arpa AAAA") };
    answer(&Local::default(), &View::default(), &Routes::default(), &asked, true, &mut out);
    let message = Message::parse(&out).unwrap();
    assert_eq!(message.header.flags, Header::QR | Header::RD | Header::RA | Header::CD);
    assert_eq!((message.header.id, message.header.counts), (asked.id, [1, 2, 0, 0]));
}

#[test]
fn an_answer_that_does_not_fit_is_truncated() {
    let many: Vec<String> = (0..20).map(|n| format!("2001:db8:{n}::/96")).collect();
    let view = view(&many.iter().map(String::as_str).collect::<Vec<_>>());
    let mut out = [0; 512];
    let written =
        answer(&Local::default(), &view, &Routes::default(), &asked("ipv4only.arpa AAAA"), true, &mut out);
    let LocalAnswer::Written { octets, .. } = written else { panic!() };
    let message = Message::parse(&out[..octets]).unwrap();
    assert!(message.header.has(Header::TC));
    assert_eq!(message.header.counts, [1, 0, 0, 0]);
}

proptest! {
    #[test]
    fn any_question_and_room_is_taken(
        labels in "([a-z]{1,9}\\.){0,3}",
        zone in prop::sample::select(vec!["", "ipv4only.arpa", "localhost", "invalid", "resolver.arpa", "ip6.arpa", "local", "home.arpa", "10.in-addr.arpa"]),
        qtype: u16,
        room in 0usize..600,
    ) {
        let mut out = vec![0; room];
        let asked = asked(&format!("{labels}{zone} TYPE{qtype}"));
        if let LocalAnswer::Written { octets, .. } = answer(&Local::default(), &View::default(), &Routes::default(), &asked, true, &mut out) {
            prop_assert!(octets <= room);
            if octets > 0 {
                prop_assert!(Message::parse(&out[..octets]).unwrap().records().all(|record| record.is_ok()));
            }
        }
    }
}
