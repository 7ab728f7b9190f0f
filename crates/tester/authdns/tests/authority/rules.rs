//! What the rules and the file of records add to the zone.

use authdns::{RecordsFile, Rules, Transport, Zone, ZoneConfig};
use domain::base::iana::{Rcode, Rtype};

use crate::zone::{Offer, SOA, query, rcode, records};

pub const RECORDS: &str = "\
www 30 IN A 192.0.2.1
    AAAA 2001:db8::1
@ TXT \"hello world\"
$ORIGIN b.c.dns64perf.test.
a A 192.0.2.9
$ORIGIN dns64perf.test.
old DNAME new
new A 192.0.2.2
x.new A 192.0.2.3
alias CNAME WWW
out CNAME www.example.
long DNAME aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
";

pub fn file(text: &str) -> Option<RecordsFile> {
    Some(RecordsFile { name: "extra.zone".into(), text: text.into() })
}

/// A zone with everything, of the names in 10.0.0.0/8.
pub fn full_config() -> ZoneConfig {
    ZoneConfig {
        names: Some("10.0.0.0/8".parse().unwrap()),
        aaaa_share_percent: 50,
        rules: Rules { short: true, wildcard: true, chains: true, types: true, reverse: true },
        records: file(RECORDS),
        ..ZoneConfig::default()
    }
}

fn full(change: impl FnOnce(&mut ZoneConfig)) -> Zone {
    let mut config = full_config();
    change(&mut config);
    Zone::new(config).unwrap()
}

fn ask(zone: &Zone, name: &str, qtype: Rtype, offer: Offer, transport: Transport) -> Vec<u8> {
    let mut out = [0; 8192];
    let length = zone.respond(&query(name, qtype, offer), transport, &mut out);
    out[..length].to_vec()
}

fn answer(zone: &Zone, name: &str, qtype: Rtype) -> (Rcode, Vec<String>) {
    let answer = ask(zone, name, qtype, None, Transport::Tcp);
    let (rcode, is_authoritative) = rcode(&answer);
    assert_eq!(is_authoritative, rcode != Rcode::REFUSED, "{name} {qtype}");
    let [answer, authority, _] = records(&answer);
    let is_negative = rcode == Rcode::NXDOMAIN || (rcode == Rcode::NOERROR && answer.is_empty());
    assert!(!is_negative || authority[0].contains(" SOA "), "{name} {qtype}");
    (rcode, answer)
}

/// Names below the suffix, a type, and the records of the answer.
const KINDS: &[(&str, Rtype, &[&str])] = &[
    ("10-0-0-7", Rtype::A, &["10-0-0-7.dns64perf.test 60 A 10.0.0.7"]),
    ("10-0-0-7", Rtype::AAAA, &["10-0-0-7.dns64perf.test 60 AAAA 2001:2:0:aaaa::a00:7"]),
    ("10-0-0-7", Rtype::MX, &["10-0-0-7.dns64perf.test 60 MX 10 10-0-0-7.dns64perf.test."]),
    (
        "010-000-000-008",
        Rtype::HTTPS,
        &["010-000-000-008.dns64perf.test 60 HTTPS 1 . alpn=h2 ipv4hint=10.0.0.8"],
    ),
    ("10-0-0-7.t3", Rtype::TXT, &["10-0-0-7.t3.dns64perf.test 60 TXT \"abc\""]),
    ("10-0-0-7.t0", Rtype::TXT, &["10-0-0-7.t0.dns64perf.test 60 TXT \"\""]),
    ("x.Y.any", Rtype::A, &["x.Y.any.dns64perf.test 60 A 10.46.236.132"]),
    ("any", Rtype::A, &[]),
    ("c16", Rtype::A, &[]),
    ("t9", Rtype::TXT, &[]),
    (
        "10-0-0-7.c2",
        Rtype::A,
        &[
            "10-0-0-7.c2.dns64perf.test 60 CNAME 10-0-0-7.c1.dns64perf.test.",
            "10-0-0-7.c1.dns64perf.test 60 CNAME 10-0-0-7.dns64perf.test.",
            "10-0-0-7.dns64perf.test 60 A 10.0.0.7",
        ],
    ),
    ("10-0-0-7.c2", Rtype::CNAME, &["10-0-0-7.c2.dns64perf.test 60 CNAME 10-0-0-7.c1.dns64perf.test."]),
    ("10-0-0-7.c2", Rtype::ANY, &["10-0-0-7.c2.dns64perf.test 60 CNAME 10-0-0-7.c1.dns64perf.test."]),
    ("10-0-0-8.c1", Rtype::AAAA, &["10-0-0-8.c1.dns64perf.test 60 CNAME 10-0-0-8.dns64perf.test."]),
    ("cloop", Rtype::A, &["cloop.dns64perf.test 60 CNAME cloop.dns64perf.test."]),
    ("d2", Rtype::DNAME, &["d2.dns64perf.test 60 DNAME d1.dns64perf.test."]),
    ("d2", Rtype::A, &[]),
    (
        "x.y.any.d1",
        Rtype::A,
        &[
            "d1.dns64perf.test 60 DNAME dns64perf.test.",
            "x.y.any.d1.dns64perf.test 60 CNAME x.y.any.dns64perf.test.",
            "x.y.any.dns64perf.test 60 A 10.46.236.132",
        ],
    ),
    ("www", Rtype::A, &["www.dns64perf.test 30 A 192.0.2.1"]),
    ("www", Rtype::AAAA, &["www.dns64perf.test 60 AAAA 2001:db8::1"]),
    ("www", Rtype::MX, &[]),
    ("b.c", Rtype::A, &[]),
    ("a.b.c", Rtype::A, &["a.b.c.dns64perf.test 60 A 192.0.2.9"]),
    (
        "x.old",
        Rtype::A,
        &[
            "old.dns64perf.test 60 DNAME new.dns64perf.test.",
            "x.old.dns64perf.test 60 CNAME x.new.dns64perf.test.",
            "x.new.dns64perf.test 60 A 192.0.2.3",
        ],
    ),
    (
        "alias",
        Rtype::A,
        &["alias.dns64perf.test 60 CNAME www.dns64perf.test.", "www.dns64perf.test 30 A 192.0.2.1"],
    ),
    ("out", Rtype::A, &["out.dns64perf.test 60 CNAME www.example."]),
];

#[test]
fn every_kind_of_name_of_the_suffix() {
    let zone = full(|_| ());
    let chain = |links: &[&str]| links.iter().map(|link| (*link).to_owned()).collect::<Vec<_>>();
    for &(name, qtype, expected) in KINDS {
        let name = format!("{name}.dns64perf.test");
        assert_eq!(answer(&zone, &name, qtype), (Rcode::NOERROR, chain(expected)), "{name} {qtype}");
    }
    let (_, apex) = answer(&zone, "dns64perf.test", Rtype::TXT);
    assert_eq!(apex, ["dns64perf.test 60 TXT \"hello world\""]);
    for missing in
        ["c0", "c17", "c01", "d17", "t4097", "x.c2", "11-0-0-7", "11-0-0-7.c2", "x.cloop", "x.www", "any2"]
    {
        let name = format!("{missing}.dns64perf.test");
        assert_eq!(answer(&zone, &name, Rtype::A).0, Rcode::NXDOMAIN, "{name}");
    }
    let long = format!("{}.long.dns64perf.test", ["x".repeat(60), "y".repeat(60), "z".repeat(60)].join("."));
    assert_eq!(rcode(&ask(&zone, &long, Rtype::A, None, Transport::Tcp)).0, Rcode::YXDOMAIN);
}

#[test]
fn reverse_names_lead_back() {
    let zone = full(|_| ());
    let v6 = "0.0.0.0.0.0.0.0.a.a.a.a.0.0.0.0.2.0.0.0.1.0.0.2.ip6.arpa";
    let pointer = |name: &str| answer(&zone, name, Rtype::PTR);
    let expected = "7.0.0.10.in-addr.arpa 60 PTR 010-000-000-007.dns64perf.test.";
    assert_eq!(pointer("7.0.0.10.in-addr.arpa"), (Rcode::NOERROR, vec![expected.to_owned()]));
    let (_, sixth) = pointer(&format!("7.0.0.0.0.0.A.0.{v6}"));
    assert!(sixth[0].ends_with(" PTR 010-000-000-007.dns64perf.test."), "{sixth:?}");
    let no_aaaa = format!("8.0.0.0.0.0.a.0.{v6}");
    let next_block = format!("b.0.{v6}");
    for (name, rcode) in [
        ("0.10.in-addr.arpa", Rcode::NOERROR),
        ("07.0.0.10.in-addr.arpa", Rcode::NXDOMAIN),
        ("256.0.0.10.in-addr.arpa", Rcode::NXDOMAIN),
        ("1.7.0.0.10.in-addr.arpa", Rcode::NXDOMAIN),
        ("7.0.0.11.in-addr.arpa", Rcode::REFUSED),
        (&format!("a.0.{v6}"), Rcode::NOERROR),
        (&next_block, Rcode::NXDOMAIN),
        (&no_aaaa, Rcode::NXDOMAIN),
        (&format!("0.7.0.0.0.0.0.a.0.{v6}"), Rcode::NXDOMAIN),
    ] {
        assert_eq!(pointer(name), (rcode, vec![]), "{name}");
    }
    let (_, soa) = answer(&zone, "10.in-addr.arpa", Rtype::SOA);
    assert_eq!(soa, [SOA.replacen("dns64perf.test", "10.in-addr.arpa", 1)]);
    let (_, servers) = answer(&zone, v6, Rtype::NS);
    assert!(servers[0].ends_with(" NS ns.dns64perf.test."));
}

#[test]
fn a_shorter_prefix_has_reverse_names_too() {
    let zone = full(|config| {
        config.aaaa_prefix = "2001:db8::/40".parse().unwrap();
        config.aaaa_share_percent = 100;
    });
    // 10.0.0.7 in a /40: 24 bits, the zero octet, 8 bits, and zeros (RFC 6052 2.2).
    let apex = "0.0.8.b.d.0.1.0.0.2.ip6.arpa";
    let whole = format!("{}7.0.0.0.0.0.0.0.a.0.{apex}", "0.".repeat(12));
    assert!(answer(&zone, &whole, Rtype::PTR).1[0].ends_with(" PTR 010-000-000-007.dns64perf.test."));
    for (name, rcode) in [
        (format!("7.0.0.0.0.0.0.0.a.0.{apex}"), Rcode::NOERROR),
        (format!("1.7.0.0.0.0.0.0.0.a.0.{apex}"), Rcode::NXDOMAIN),
        (format!("1.0.0.0.0.0.a.0.{apex}"), Rcode::NXDOMAIN),
    ] {
        assert_eq!(answer(&zone, &name, Rtype::PTR), (rcode, vec![]), "{name}");
    }
}

#[test]
fn several_addresses_and_long_texts() {
    let zone = full(|config| (config.addresses_per_name, config.txt_octets) = (4, 300));
    let (_, addresses) = answer(&zone, "010-000-000-007.dns64perf.test", Rtype::A);
    let ends: Vec<_> = addresses.iter().map(|record| record.rsplit(' ').next().unwrap()).collect();
    assert_eq!(ends, ["10.0.0.7", "10.0.0.6", "10.0.0.5", "10.0.0.4"], "its own first");
    assert_eq!(answer(&zone, "10-0-0-7.dns64perf.test", Rtype::AAAA).1.len(), 4);
    let (_, text) = answer(&zone, "10-0-0-7.dns64perf.test", Rtype::TXT);
    assert_eq!(text[0].matches("abcdefghijklm").count(), 12, "{text:?}");
    assert_eq!(text[0].matches('"').count(), 4, "two strings");
}

#[test]
fn what_does_not_fit_over_udp_comes_over_tcp() {
    let zone = full(|config| config.addresses_per_name = 64);
    for (name, qtype, offer, fits) in [
        ("010-000-000-007", Rtype::A, None, false),
        ("010-000-000-007", Rtype::A, Some((1232, false)), true),
        ("010-000-000-007", Rtype::AAAA, Some((65535, false)), false),
        ("10-0-0-7.t1100", Rtype::TXT, Some((4096, false)), true),
        ("10-0-0-7.t1200", Rtype::TXT, Some((4096, false)), false),
        ("10-0-0-7.t4096", Rtype::TXT, Some((0, false)), false),
        ("10-0-0-7.d16", Rtype::A, None, false),
    ] {
        let name = format!("{name}.dns64perf.test");
        let over_udp = ask(&zone, &name, qtype, offer, Transport::Udp);
        assert_eq!(over_udp[2] & 2 == 0, fits, "TC, {name} {qtype}");
        let over_tcp = ask(&zone, &name, qtype, offer, Transport::Tcp);
        assert_eq!(over_tcp[2] & 2, 0, "{name} {qtype}");
        assert_eq!(over_udp == over_tcp, fits, "{name} {qtype}");
    }
}

#[test]
fn fixed_records_come_before_the_rules() {
    let zone =
        full(|config| config.records = file("010-000-000-007 A 192.0.2.77\nns TXT x\nany A 192.0.2.78\n"));
    let last = |name: &str, qtype| answer(&zone, &format!("{name}.dns64perf.test"), qtype).1.pop();
    assert!(last("010-000-000-007", Rtype::A).unwrap().ends_with(" A 192.0.2.77"));
    assert_eq!(last("010-000-000-007", Rtype::AAAA), None);
    assert!(last("010-000-000-006", Rtype::A).unwrap().ends_with(" A 10.0.0.6"));
    assert!(last("any", Rtype::A).unwrap().ends_with(" A 192.0.2.78"));
    assert!(last("x.y.any", Rtype::A).unwrap().ends_with(" A 10.46.236.132"));
    assert!(zone.hot_zone().is_none(), "the templates do not know of it");
}

#[test]
fn bad_records_are_told_with_their_line() {
    let error = |text: &str| {
        let config = ZoneConfig { records: file(text), ..ZoneConfig::default() };
        Zone::new(config).unwrap_err().to_string()
    };
    for (text, expected) in [
        ("www A 192.0.2.1\nwww A 192.0.2\n", "extra.zone, line 2: "),
        (
            "\n\n; a comment\nmail.example. A 192.0.2.1\n",
            "line 4: mail.example. is not below dns64perf.test.",
        ),
        ("a A 192.0.2.1\nb NS ns\n", "line 2: NS: the zone has its own, and no delegations"),
        ("@ SOA ns hostmaster 1 2 3 4 5\n", "line 1: SOA: the zone has its own"),
        ("@ CNAME www\n", "line 1: dns64perf.test.: the top of the zone can be no alias"),
        ("*.a A 192.0.2.1\n", "line 1: *.a.dns64perf.test.: wildcards"),
        ("a A 192.0.2.1\na CNAME b\n", "line 2: a name with a CNAME record can have no other records"),
        ("a CNAME b\na CNAME c\n", "line 2: a name can have one CNAME or DNAME record only"),
        ("a 60 A 192.0.2.1\na 61 A 192.0.2.2\n", "line 2: TTL 61, but others of this name and type have 60"),
        ("a A 192.0.2.1\n$INCLUDE other\n", "line 2: $INCLUDE is not followed"),
        ("a CH A 192.0.2.1\n", "extra.zone, line 1: "),
        ("a TXT \"no end\n", "extra.zone, line "),
        (
            "a\\046b TXT \"\\\"\\255\" ( x46b TXT \"\\\"\\255\" ( x0102030:.\n",
            "line 1: the reader cannot take this",
        ),
    ] {
        assert!(error(text).contains(expected), "{text:?}: {}", error(text));
    }
    let many: String = (0..400).map(|n| format!("a AAAA 2001:db8::{n:x}\n")).collect();
    assert!(error(&many).contains("line 147: more than 4096 octets"), "{}", error(&many));
}
