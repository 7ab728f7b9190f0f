//! The synthesized answer: points 5 to 10, 12 and 13.

use super::*;

#[test]
fn point_5_the_chain_is_kept_and_the_owner_is_that_of_the_a_record() {
    let records = [
        "an example.com 60 DNAME example.net",
        "an example.com 60 RRSIG DNAME",
        "an www.example.com 60 CNAME www.example.net",
        "an www.example.net 70 CNAME h2.example.net",
        "an h2.example.net 80 A 192.0.2.1",
    ];
    let mut expected = records.map(str::to_owned);
    expected[4] = "an h2.example.net 80 AAAA 2001:db8:64::c000:201".into();
    assert_eq!(synthesized(&policy(&["2001:db8:64::/96"]), &records), expected);
}

#[test]
fn point_5_records_beside_the_chain_are_left_out() {
    let chain = ["an www.example.com 60 CNAME a.example.com", "an a.example.com 80 A 192.0.2.1"];
    let foreign = [
        "an victim.example.org 60 A 192.0.2.66",
        "an victim.example.org 60 CNAME a.example.com",
        "an www.example.com 60 A 192.0.2.66",
        "an www.example.com 60 CNAME other.example.com",
        "an other.example.com 60 A 192.0.2.66",
        "an example.org 60 DNAME example.net",
        "an a.example.com 60 TXT x",
        "an a.example.com 60 AAAA 2001:db8::66",
    ];
    let expected = [chain[0], "an a.example.com 80 AAAA 2001:db8:64::c000:201"];
    let policy = policy(&["2001:db8:64::/96"]);
    for reversed in [false, true] {
        let mut records = [&chain[..], &foreign[..]].concat();
        if reversed {
            records.reverse();
            // The first CNAME record of a name counts.
            records.retain(|record| !record.ends_with("other.example.com"));
        }
        assert_eq!(synthesized(&policy, &records), expected);
    }
    assert_eq!(synthesized(&policy, &foreign[..1]), [""; 0]);
}

#[test]
fn point_5_a_dname_is_followed_without_its_cname() {
    let records = ["an example.com 60 DNAME example.net", "an www.example.net 80 A 192.0.2.1"];
    let expected = [records[0], "an www.example.net 80 AAAA 2001:db8:64::c000:201"];
    assert_eq!(synthesized(&policy(&["2001:db8:64::/96"]), &records), expected);
}

#[test]
fn point_5_a_chain_without_end_is_malformed() {
    let question = asked("www.example.com AAAA");
    let looped = ["an www.example.com 60 CNAME a.example.com", "an a.example.com 60 CNAME www.example.com"];
    let links: Vec<String> = (0..17).map(|n| format!("an n{n}.test 60 CNAME n{}.test", n + 1)).collect();
    let long = |count: usize| {
        let first = ["an www.example.com 60 CNAME n0.test"];
        let links = links[..count].iter().map(String::as_str);
        reply(1, "www.example.com A", 0, &first.into_iter().chain(links).collect::<Vec<_>>())
    };
    let mut out = [0; 1232];
    let mut synthesis = |octets: &[u8]| {
        synthesize(&Policy::default(), 0, &question, &Message::parse(octets).unwrap(), 600, &mut out)
    };
    assert!(synthesis(&reply(1, "www.example.com A", 0, &looped)).is_err());
    assert!(synthesis(&long(15)).is_ok());
    assert!(synthesis(&long(16)).is_err());
    assert_eq!(default_step(0, &looped), CAP_600, "as an error");
}

#[test]
fn point_6_an_empty_or_failed_a_reply_is_the_basis_of_the_answer() {
    let policy = policy(&["2001:db8:64::/96"]);
    let soa = "ns example.com 300 SOA 30";
    let question = "www.example.com AAAA";
    let answer = |rcode, records: &[&str]| synthesis(&policy, question, 600, rcode, records);
    let success = Header::QR | Header::RD | Header::RA;
    assert_eq!(answer(0, &[soa]), (success, vec![soa.to_owned()]));
    assert_eq!(answer(rcode::NXDOMAIN, &[soa]), (success | 3, vec![soa.to_owned()]));
    assert_eq!(answer(rcode::SERVFAIL, &[]), (success | 2, vec![]));
    let chain = "an www.example.com 60 CNAME a.example.com";
    assert_eq!(answer(0, &[chain, soa]).1, [chain, soa]);
}

#[test]
fn point_6_an_extended_error_of_the_a_query_is_servfail() {
    // An answer without OPT has four bits of the RCODE, and those of BADVERS (16) say that all went well.
    let mut octets = reply(1, "www.example.com A", 0, &["opt"]);
    let extended_at = octets.len() - 6;
    octets[extended_at] = 1;
    let mut out = [0; 512];
    let a_reply = Message::parse(&octets).unwrap();
    let question = asked("www.example.com AAAA");
    synthesize(&Policy::default(), 0, &question, &a_reply, 600, &mut out).unwrap();
    assert_eq!(Header::parse(&out).unwrap().rcode(), rcode::SERVFAIL);
}

#[test]
fn point_6_the_a_reply_counts_where_all_aaaa_records_were_excluded() {
    let excluded = "an www.example.com 60 AAAA ::ffff:192.0.2.1";
    assert_eq!(default_step(0, &[excluded]), CAP_600);
    let soa = "ns example.com 300 SOA 30";
    assert_eq!(synthesized(&Policy::default(), &[soa]), [soa]);
}

#[test]
fn point_7_the_chain_keeps_its_ttls() {
    let chain = "an www.example.com 86400 CNAME a.example.com";
    let records = [chain, "an a.example.com 86400 A 192.0.2.1"];
    let expected = [chain, "an a.example.com 600 AAAA 2001:db8:64::c000:201"];
    assert_eq!(synthesized(&policy(&["2001:db8:64::/96"]), &records), expected);
}

#[test]
fn point_7_ttl_is_the_least_of_a_soa_and_soa_minimum() {
    let policy = policy(&["2001:db8:64::/96"]);
    for (soa, cap) in [("300 SOA 3600", 300), ("3600 SOA 30", 30), ("4294967295 SOA 30", 0)] {
        let records = [format!("ns example.com {soa}")];
        assert_eq!(default_step(0, &[&records[0]]), Step::AskA { ttl_cap_s: cap });
    }
    for (a_ttl, cap, expected) in [(60, 600, 60), (86400, 600, 600), (86400, 30, 30), (u32::MAX, 600, 0)] {
        let record = format!("an www.example.com {a_ttl} A 192.0.2.1");
        let (_, answer) = synthesis(&policy, "www.example.com AAAA", cap, 0, &[&record]);
        assert_eq!(answer, [format!("an www.example.com {expected} AAAA 2001:db8:64::c000:201")]);
    }
}

#[test]
fn point_8_every_address_under_every_prefix_and_no_a_record_left() {
    let policy = policy(&["2001:db8:1::/96", "2001:db8:2::/64"]);
    let records = [
        "an www.example.com 60 A 192.0.2.1",
        "an www.example.com 60 A 192.0.2.2",
        "an www.example.com 60 RRSIG A",
    ];
    assert_eq!(
        synthesized(&policy, &records),
        [
            "an www.example.com 60 AAAA 2001:db8:1::c000:201",
            "an www.example.com 60 AAAA 2001:db8:2:0:c0:2:100:0",
            "an www.example.com 60 AAAA 2001:db8:1::c000:202",
            "an www.example.com 60 AAAA 2001:db8:2:0:c0:2:200:0",
        ]
    );
}

#[test]
fn point_8_ipv4_ranges_choose_the_prefix() {
    let mapping = |range: &str, prefix: Option<&str>| Mapping {
        range: range.parse().unwrap(),
        prefix: prefix.map(|text| text.parse().unwrap()),
    };
    let mappings = vec![
        mapping("10.0.0.0/8", Some("2001:db8:a::/96")),
        mapping("10.9.0.0/16", None),
        mapping("10.9.9.0/24", Some("2001:db8:b::/96")),
    ];
    let policy = Policy { mappings, ..policy(&["2001:db8:64::/96"]) };
    let records =
        ["10.1.0.1", "10.9.0.1", "10.9.9.1", "192.0.2.1"].map(|a| format!("an www.example.com 60 A {a}"));
    assert_eq!(
        synthesized(&policy, &records.each_ref().map(String::as_str)),
        [
            "an www.example.com 60 AAAA 2001:db8:a::a01:1",
            "an www.example.com 60 AAAA 2001:db8:b::a09:901",
            "an www.example.com 60 AAAA 2001:db8:64::c000:201",
        ]
    );
    assert_eq!(policy.ipv4_of("2001:db8:b::a09:901".parse().unwrap()), Some([10, 9, 9, 1].into()));
    assert_eq!(policy.ipv4_of("2001:db8:c::a09:901".parse().unwrap()), None);
}

/// The prefixes, by number, of the AAAA records of an A record with this address, at each of the turns.
fn rotation<const N: usize>(policy: &Policy, address: &str, turns: [usize; N]) -> [Vec<usize>; N] {
    turns.map(|turn| {
        let chosen = policy.prefixes_for(address.parse().unwrap(), turn);
        chosen.map(|chosen| policy.prefixes.iter().position(|prefix| prefix == chosen).unwrap()).collect()
    })
}

#[test]
fn prefixes_take_turns() {
    let all = policy(&["2001:db8:1::/96", "2001:db8:2::/96", "2001:db8:3::/96"]);
    assert_eq!(rotation(&all, "192.0.2.1", [0, 1, usize::MAX]), [[0, 1, 2], [0, 1, 2], [0, 1, 2]]);
    let rotated = Policy { spread: PrefixChoice::Rotated, ..all };
    assert_eq!(rotation(&rotated, "192.0.2.1", [0, 1, 2, 3, 4]), [[0], [1], [2], [0], [1]]);
    assert_eq!(rotation(&rotated, "192.0.2.1", [usize::MAX])[0].len(), 1);
    let none = Policy { prefixes: Vec::new(), ..rotated };
    assert_eq!(rotation(&none, "192.0.2.1", [5]), [[0; 0]]);
}

#[test]
fn only_prefixes_that_may_carry_the_address_take_turns() {
    let rotated = Policy {
        spread: PrefixChoice::Rotated,
        strict_well_known: true,
        ..policy(&["2001:db8:1::/96", "64:ff9b::/96", "2001:db8:3::/96"])
    };
    assert_eq!(rotation(&rotated, "10.0.0.1", [0, 1, 2, 3]), [[0], [2], [0], [2]]);
    assert_eq!(rotation(&rotated, "8.8.8.8", [0, 1, 2, 3]), [[0], [1], [2], [0]]);
}

#[test]
fn one_answer_takes_one_turn() {
    let rotated = Policy { spread: PrefixChoice::Rotated, ..policy(&["2001:db8:1::/96", "2001:db8:2::/96"]) };
    let records = ["an www.example.com 60 A 192.0.2.1", "an www.example.com 60 A 192.0.2.2"];
    let octets = reply(1, "www.example.com A", 0, &records);
    let (mut out, a_reply) = ([0; 512], Message::parse(&octets).unwrap());
    let question = asked("www.example.com AAAA");
    let (written, count) = synthesize(&rotated, 1, &question, &a_reply, 600, &mut out).unwrap();
    let expected = [
        "an www.example.com 60 AAAA 2001:db8:2::c000:201",
        "an www.example.com 60 AAAA 2001:db8:2::c000:202",
    ];
    assert_eq!((lines(&out[..written.octets]), count), (expected.map(str::to_owned).to_vec(), 2));
}

#[test]
fn a_mapped_range_keeps_its_prefix_at_every_turn() {
    let prefix = "2001:db8:a::/96".parse().unwrap();
    let mappings = vec![Mapping { range: "10.0.0.0/8".parse().unwrap(), prefix: Some(prefix) }];
    let rotated =
        Policy { spread: PrefixChoice::Rotated, mappings, ..policy(&["2001:db8:1::/96", "2001:db8:2::/96"]) };
    for turn in 0..3 {
        assert!(rotated.prefixes_for([10, 0, 0, 1].into(), turn).eq([&prefix]));
    }
}

#[test]
fn point_10_every_prefix_length_leaves_bits_64_to_71_and_the_suffix_zero() {
    for (prefix, expected) in [
        ("2001:db8::/32", "2001:db8:c000:221::"),
        ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
        ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
        ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
        ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100:0"),
        ("2001:db8:122:344::/96", "2001:db8:122:344::c000:221"),
    ] {
        let answer = synthesized(&policy(&[prefix]), &["an www.example.com 60 A 192.0.2.33"]);
        assert_eq!(answer, [format!("an www.example.com 60 AAAA {expected}")], "{prefix}");
    }
}

#[test]
fn point_10_the_well_known_prefix_carries_global_addresses_only() {
    let records = ["10.0.0.1", "8.8.8.8", "192.0.0.170"].map(|a| format!("an www.example.com 60 A {a}"));
    let records = records.each_ref().map(String::as_str);
    let strict = Policy::default();
    let expected =
        ["an www.example.com 60 AAAA 64:ff9b::808:808", "an www.example.com 60 AAAA 64:ff9b::c000:aa"];
    assert_eq!(synthesized(&strict, &records), expected);
    let lenient = Policy { strict_well_known: false, ..Policy::default() };
    assert_eq!(synthesized(&lenient, &records)[0], "an www.example.com 60 AAAA 64:ff9b::a00:1");
    assert_eq!(synthesized(&strict, &records[..1]), [""; 0], "nothing left is an empty answer");
}

#[test]
fn point_12_the_additional_section_is_unchanged() {
    let records = [
        "an www.example.com 60 A 192.0.2.1",
        "ar ns.example.com 60 A 192.0.2.53",
        "ar ns.example.com 60 AAAA 2001:db8::53",
        "opt",
    ];
    let answer = synthesized(&policy(&["2001:db8:64::/96"]), &records);
    assert_eq!(answer[1..], records[1..3], "an OPT record is hop by hop");
}

#[test]
fn point_13_authority_is_the_a_replys_with_one_soa() {
    let soa = "ns example.com 60 SOA 60";
    let records = ["an www.example.com 60 A 192.0.2.1", "ns example.com 60 NS ns.example.com", soa, soa];
    assert_eq!(synthesized(&policy(&["2001:db8:64::/96"]), &records)[1..], records[1..3]);
}

#[test]
fn an_answer_that_does_not_fit_is_truncated() {
    let records: Vec<String> = (0..30).map(|n| format!("an www.example.com 60 A 192.0.2.{n}")).collect();
    let octets = reply(1, "www.example.com A", 0, &records.iter().map(String::as_str).collect::<Vec<_>>());
    let a_reply = Message::parse(&octets).unwrap();
    let policy = policy(&["2001:db8::/96"]);
    let mut out = [0; 512];
    let (written, synthesized) =
        synthesize(&policy, 0, &asked("www.example.com AAAA"), &a_reply, 600, &mut out).unwrap();
    assert!(written.truncated && synthesized == 0);
    let answer = Message::parse(&out[..written.octets]).unwrap();
    assert!(answer.header.has(Header::TC));
    assert_eq!(answer.header.counts, [1, 0, 0, 0]);
    let mut out = [0; 1232];
    let (written, synthesized) =
        synthesize(&policy, 0, &asked("www.example.com AAAA"), &a_reply, 600, &mut out).unwrap();
    assert!(!written.truncated && synthesized == 30);
}

#[test]
fn records_beside_the_answer_go_before_the_answer_is_truncated() {
    let long = format!("ar x.example.com 60 TXT {}", "x".repeat(250));
    let records = ["an www.example.com 60 A 192.0.2.1", &long, &long];
    let octets = reply(1, "www.example.com A", 0, &records);
    let mut out = [0; 400];
    let a_reply = Message::parse(&octets).unwrap();
    let policy = policy(&["2001:db8::/96"]);
    let (written, _) =
        synthesize(&policy, 0, &asked("www.example.com AAAA"), &a_reply, 600, &mut out).unwrap();
    assert!(!written.truncated);
    assert_eq!(lines(&out[..written.octets]).len(), 2);
}

#[test]
fn the_owner_keeps_the_case_that_the_client_used() {
    let (_, answer) = synthesis(
        &policy(&["2001:db8::/96"]),
        "wWw.eXample.com AAAA",
        600,
        0,
        &["an WWW.EXAMPLE.COM 60 A 192.0.2.1"],
    );
    assert_eq!(answer, ["an wWw.eXample.com 60 AAAA 2001:db8::c000:201"]);
}

#[test]
fn the_domain_crate_reads_the_synthesized_answer() {
    use domain::rdata::Aaaa;
    let octets = reply(1, "www.example.com A", 0, &["an www.example.com 60 A 192.0.2.1", "opt"]);
    let mut out = [0; 512];
    let a_reply = Message::parse(&octets).unwrap();
    let policy = policy(&["2001:db8::/96"]);
    let (written, _) =
        synthesize(&policy, 0, &asked("www.example.com AAAA"), &a_reply, 600, &mut out).unwrap();
    let message = domain::base::Message::from_octets(&out[..written.octets]).unwrap();
    let record = message.answer().unwrap().limit_to::<Aaaa>().next().unwrap().unwrap();
    assert_eq!(record.data().addr(), "2001:db8::192.0.2.1".parse::<std::net::Ipv6Addr>().unwrap());
    assert_eq!(message.additional().unwrap().count(), 0);
}
