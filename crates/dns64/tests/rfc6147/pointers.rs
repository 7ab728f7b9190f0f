//! PTR questions for synthesized addresses: point 11.

use super::*;

fn ptr(style: reverse::Style, rcode: u8, records: &[&str]) -> Vec<String> {
    let question = "1.0.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa PTR";
    let address = reverse::ipv6_of(&asked(question).question.name).unwrap();
    let policy = policy(&["2001:db8::/96"]);
    let target = reverse::in_addr_arpa(policy.ipv4_of(address).unwrap());
    assert_eq!(target, name("1.2.0.192.in-addr.arpa"));
    let octets = reply(1, "1.2.0.192.in-addr.arpa PTR", rcode, records);
    let mut out = [0; 512];
    let message = Message::parse(&octets).unwrap();
    let written = reverse::answer(style, &asked(question), &target, &message, 600, &mut out).unwrap();
    let own = asked(question).question.name.to_string();
    lines(&out[..written.octets]).iter().map(|line| line.replace(own.trim_end_matches('.'), "OWN")).collect()
}

#[test]
fn point_11_ptr_with_a_cname() {
    let found = "an 1.2.0.192.in-addr.arpa 60 PTR h2.example.com";
    assert_eq!(ptr(reverse::Style::Cname, 0, &[found]), ["an OWN 600 CNAME 1.2.0.192.in-addr.arpa", found]);
    let soa = "ns 2.0.192.in-addr.arpa 60 SOA 60";
    let expected = ["an OWN 600 CNAME 1.2.0.192.in-addr.arpa", soa];
    assert_eq!(ptr(reverse::Style::Cname, rcode::NXDOMAIN, &[soa]), expected);
}

#[test]
fn point_11_ptr_with_a_direct_answer() {
    let records =
        ["an 1.2.0.192.in-addr.arpa 60 PTR h2.example.com", "an 1.2.0.192.in-addr.arpa 60 RRSIG PTR"];
    assert_eq!(ptr(reverse::Style::Answer, 0, &records), ["an OWN 60 PTR h2.example.com"]);
    let foreign = ["an 9.2.0.192.in-addr.arpa 60 PTR h9.example.com", records[0]];
    assert_eq!(ptr(reverse::Style::Answer, 0, &foreign), ["an OWN 60 PTR h2.example.com"]);
    // Classless delegation, RFC 2317.
    let delegated = [
        "an 1.2.0.192.in-addr.arpa 60 CNAME 1.0-127.2.0.192.in-addr.arpa",
        "an 1.0-127.2.0.192.in-addr.arpa 60 PTR h2.example.com",
    ];
    let expected = ["an OWN 60 CNAME 1.0-127.2.0.192.in-addr.arpa", delegated[1]];
    assert_eq!(ptr(reverse::Style::Answer, 0, &delegated), expected);
}

#[test]
fn point_11_what_is_no_synthesized_address_is_resolved_as_usual() {
    let policy = policy(&["2001:db8::/96"]);
    let ipv4_of = |text: &str| reverse::ipv6_of(&name(text)).and_then(|ipv6| policy.ipv4_of(ipv6));
    let good = "1.0.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
    assert_eq!(ipv4_of(good), Some([192, 0, 2, 1].into()));
    for other in [
        good.replace("8.b.d", "9.b.d"),
        good.replacen('1', "x", 1),
        good.replacen("1.", "", 1),
        format!("0.{good}"),
        good.replace("ip6", "ip4"),
        "ip6.arpa".to_owned(),
        "1.2.0.192.in-addr.arpa".to_owned(),
    ] {
        assert_eq!(ipv4_of(&other), None, "{other}");
    }
}
