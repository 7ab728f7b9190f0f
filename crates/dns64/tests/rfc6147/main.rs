//! RFC 6147, point by point and example by example.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use dns64::rewrite::Asked;
use dns64::rule::{Mapping, OnAaaaError, Policy, Spread, Step, Treatment, next_step, strip, synthesize};
use dns64::wire::{Header, Message, Name, Question, rcode, rtype};
use dns64::{Prefix, Range, reverse};
use proptest::prelude::*;
use support::{asked, lines, name, reply};

const CAP_600: Step = Step::AskA { ttl_cap_s: 600 };

/// A policy with these prefixes that carry every address.
fn policy(prefixes: &[&str]) -> Policy {
    let prefixes = prefixes.iter().map(|text| text.parse().unwrap()).collect();
    Policy { prefixes, strict_well_known: false, ..Policy::default() }
}

/// The step after a reply with these records to `www.example.com AAAA`.
fn step(policy: &Policy, asked: &Asked, rcode: u8, records: &[&str]) -> Step {
    let octets = reply(1, "www.example.com AAAA", rcode, records);
    next_step(policy, Treatment::Rule, asked, Some(&Message::parse(&octets).unwrap()))
}

fn default_step(rcode: u8, records: &[&str]) -> Step {
    step(&Policy::default(), &asked("www.example.com AAAA"), rcode, records)
}

/// The answer synthesized from an A reply with these records, and its flags.
fn synthesis(
    policy: &Policy,
    question: &str,
    ttl_cap_s: u32,
    rcode: u8,
    records: &[&str],
) -> (u16, Vec<String>) {
    let asked = asked(question);
    let octets = reply(1, &question.replace("AAAA", "A"), rcode, records);
    let mut out = [0; 1232];
    let a_reply = Message::parse(&octets).unwrap();
    let (written, _) = synthesize(policy, 0, &asked, &a_reply, ttl_cap_s, &mut out).unwrap();
    let answer = Message::parse(&out[..written.octets]).unwrap();
    assert_eq!((answer.header.id, answer.question), (asked.id, asked.question));
    (answer.header.flags, lines(&out[..written.octets]))
}

fn synthesized(policy: &Policy, records: &[&str]) -> Vec<String> {
    synthesis(policy, "www.example.com AAAA", 600, 0, records).1
}

#[test]
fn section_7_1_and_7_2_ipv6_network_to_ipv4_internet() {
    // The example puts a documentation address under the well-known prefix, which RFC 6052 3.1 forbids on real hosts.
    let policy = policy(&["64:ff9b::/96"]);
    let h2 = asked("h2.example.com AAAA");
    let empty = reply(1, "h2.example.com AAAA", 0, &["ns example.com 3600 SOA 3600"]);
    let next = next_step(&policy, Treatment::Rule, &h2, Some(&Message::parse(&empty).unwrap()));
    assert_eq!(next, Step::AskA { ttl_cap_s: 3600 });
    let (_, answer) =
        synthesis(&policy, "h2.example.com AAAA", 3600, 0, &["an h2.example.com 300 A 192.0.2.1"]);
    assert_eq!(answer, ["an h2.example.com 300 AAAA 64:ff9b::c000:201"]);
    assert_eq!("64:ff9b::192.0.2.1".parse(), Ok(policy.prefixes[0].embed([192, 0, 2, 1].into())));
}

#[test]
fn section_7_3_ipv6_internet_to_ipv4_network() {
    let policy = policy(&["2001:db8::/96"]);
    let (_, answer) =
        synthesis(&policy, "h2.example.com AAAA", 600, 0, &["an h2.example.com 300 A 192.0.2.1"]);
    assert_eq!(answer, ["an h2.example.com 300 AAAA 2001:db8::c000:201"]);
}

#[test]
fn point_1_another_class_or_type_passes() {
    let chaos = Asked {
        question: Question { qclass: 3, ..support::question("www.example.com AAAA") },
        ..asked("www.example.com AAAA")
    };
    assert_eq!(step(&Policy::default(), &chaos, 0, &[]), Step::PassThrough);
    for other in ["A", "MX", "HTTPS", "ANY", "PTR"] {
        let other = asked(&format!("www.example.com {other}"));
        assert_eq!(step(&Policy::default(), &other, 0, &[]), Step::PassThrough);
        assert_eq!(next_step(&Policy::default(), Treatment::Rule, &other, None), Step::Fail);
    }
}

#[test]
fn point_2_a_native_aaaa_passes() {
    assert_eq!(default_step(0, &["an www.example.com 60 AAAA 2001:db8::1"]), Step::PassThrough);
    let through_chain = ["an www.example.com 60 CNAME a.example.com", "an a.example.com 60 AAAA 2001:db8::1"];
    assert_eq!(default_step(0, &through_chain), Step::PassThrough);
}

#[test]
fn point_3_a_name_error_passes_and_other_errors_ask_for_a() {
    assert_eq!(default_step(rcode::NXDOMAIN, &["ns example.com 60 SOA 60"]), Step::PassThrough);
    for error in [rcode::FORMERR, rcode::SERVFAIL, rcode::NOTIMP, rcode::REFUSED] {
        assert_eq!(default_step(error, &[]), CAP_600, "RCODE {error}");
    }
}

#[test]
fn point_3_a_timeout_counts_as_an_error() {
    let question = asked("www.example.com AAAA");
    assert_eq!(next_step(&Policy::default(), Treatment::Rule, &question, None), CAP_600);
}

#[test]
fn point_3_the_operator_may_choose_to_fail() {
    let fail = Policy { on_aaaa_error: OnAaaaError::Fail, ..Policy::default() };
    let question = asked("www.example.com AAAA");
    assert_eq!(step(&fail, &question, rcode::SERVFAIL, &[]), Step::PassThrough);
    assert_eq!(next_step(&fail, Treatment::Rule, &question, None), Step::Fail);
    assert_eq!(step(&fail, &question, 0, &[]), CAP_600, "an empty answer is no error");
}

#[test]
fn point_3_an_error_of_failed_validation_is_never_synthesized_over() {
    // Extended errors 6 (DNSSEC Bogus) and 22 (No Reachable Authority).
    assert_eq!(default_step(rcode::SERVFAIL, &["opt 00 0f 00 02 00 06"]), Step::PassThrough);
    assert_eq!(
        default_step(rcode::SERVFAIL, &["opt 00 03 00 01 41 00 0f 00 03 00 06 78"]),
        Step::PassThrough
    );
    assert_eq!(default_step(rcode::SERVFAIL, &["opt 00 0f 00 02 00 16"]), CAP_600);
    assert_eq!(default_step(rcode::SERVFAIL, &["opt 00 0f 00 09 00 06"]), CAP_600, "option over the end");
}

#[test]
fn point_3_the_extended_rcode_counts() {
    // The low four bits of BADVERS (16) alone look like success.
    let mut octets = reply(1, "www.example.com AAAA", 0, &["opt"]);
    let extended_at = octets.len() - 6;
    octets[extended_at] = 1;
    let message = Message::parse(&octets).unwrap();
    assert_eq!(
        next_step(&Policy::default(), Treatment::Rule, &asked("www.example.com AAAA"), Some(&message)),
        CAP_600
    );
}

#[test]
fn point_4_excluded_addresses_count_as_absent() {
    let mapped = "an www.example.com 60 AAAA ::ffff:192.0.2.1";
    assert_eq!(default_step(0, &[mapped]), CAP_600);
    assert_eq!(default_step(0, &[mapped, "an www.example.com 60 AAAA 2001:db8::1"]), Step::StripExcluded);
    assert_eq!(default_step(0, &["an www.example.com 60 AAAA ::1:0:0"]), Step::PassThrough, "not the range");
    let own = Policy { excluded: vec!["2001:db8:bad::/48".parse().unwrap()], ..Policy::default() };
    let question = asked("www.example.com AAAA");
    assert_eq!(step(&own, &question, 0, &["an www.example.com 60 AAAA 2001:db8:bad::1"]), CAP_600);
    assert_eq!(step(&own, &question, 0, &[mapped]), Step::PassThrough);
}

#[test]
fn point_4_a_mixed_answer_loses_the_excluded_addresses() {
    let octets = reply(
        1,
        "www.example.com AAAA",
        0,
        &[
            "an www.example.com 60 CNAME a.example.com",
            "an a.example.com 60 AAAA ::ffff:192.0.2.1",
            "an a.example.com 60 AAAA 2001:db8::1",
            "an a.example.com 60 RRSIG AAAA",
            "ns example.com 60 NS ns.example.com",
            "opt",
        ],
    );
    let mut out = [0; 512];
    let message = Message::parse(&octets).unwrap();
    let written = strip(&Policy::default(), &asked("www.example.com AAAA"), &message, &mut out).unwrap();
    assert_eq!(
        lines(&out[..written.octets]),
        [
            "an www.example.com 60 CNAME a.example.com",
            "an a.example.com 60 AAAA 2001:db8::1",
            "ns example.com 60 NS ns.example.com",
        ]
    );
}

#[test]
fn point_5_a_chain_without_aaaa_is_an_empty_answer() {
    let chain = ["an www.example.com 60 CNAME a.example.com", "ns example.com 300 SOA 30"];
    assert_eq!(default_step(0, &chain), Step::AskA { ttl_cap_s: 30 });
}

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
fn point_5_only_the_aaaa_records_of_the_chain_count() {
    let foreign = "an victim.example.org 60 AAAA 2001:db8::66";
    assert_eq!(default_step(0, &[foreign]), CAP_600);
    let (excluded, usable) =
        ("an www.example.com 60 AAAA ::ffff:192.0.2.1", "an www.example.com 60 AAAA 2001:db8::1");
    assert_eq!(default_step(0, &[excluded, foreign]), CAP_600);
    let octets = reply(1, "www.example.com AAAA", 0, &[excluded, foreign, usable]);
    let mut out = [0; 512];
    let message = Message::parse(&octets).unwrap();
    let written = strip(&Policy::default(), &asked("www.example.com AAAA"), &message, &mut out).unwrap();
    assert_eq!(lines(&out[..written.octets]), [usable]);
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
fn point_7_without_a_soa_the_limit_is_600_seconds() {
    assert_eq!(default_step(0, &[]), CAP_600);
    assert_eq!(default_step(0, &["ns example.com 60 NS ns.example.com"]), CAP_600);
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
fn point_14_a_client_that_validates_gets_no_synthesis() {
    let with = |checking_disabled, dnssec_ok| Asked {
        checking_disabled,
        dnssec_ok,
        ..asked("www.example.com AAAA")
    };
    let lenient = Policy { synthesize_with_cd: true, ..Policy::default() };
    for (cd, dnssec_ok, by_default, with_switch) in [
        (false, false, CAP_600, CAP_600),
        (false, true, CAP_600, CAP_600),
        (true, false, Step::PassThrough, CAP_600),
        (true, true, Step::PassThrough, Step::PassThrough),
    ] {
        assert_eq!(step(&Policy::default(), &with(cd, dnssec_ok), 0, &[]), by_default);
        assert_eq!(step(&lenient, &with(cd, dnssec_ok), 0, &[]), with_switch);
    }
}

#[test]
fn point_14_synthesized_answers_are_neither_authentic_nor_authoritative() {
    let mut octets = reply(1, "www.example.com A", 0, &["an www.example.com 60 A 192.0.2.1"]);
    octets[2] |= (Header::AA >> 8) as u8;
    octets[3] |= Header::AD as u8;
    let mut out = [0; 512];
    let asked = Asked { checking_disabled: true, recursion_desired: false, ..asked("www.example.com AAAA") };
    let a_reply = Message::parse(&octets).unwrap();
    synthesize(&policy(&["2001:db8::/96"]), 0, &asked, &a_reply, 600, &mut out).unwrap();
    let header = Header::parse(&out).unwrap();
    assert_eq!(header.flags, Header::QR | Header::RA | Header::CD);
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

fn any_message() -> impl Strategy<Value = Vec<u8>> {
    // A sound question first, so that the records are reached.
    (prop::collection::vec(any::<u8>(), 0..200), prop::array::uniform3(0u8..4), 0u8..16).prop_map(
        |(tail, counts, rcode)| {
            let mut octets = vec![
                0, 1, 0x80, rcode, 0, 1, 0, counts[0], 0, counts[1], 0, counts[2], 1, b'a', 0, 0, 28, 0, 1,
            ];
            octets.extend(tail);
            octets
        },
    )
}

proptest! {
    #[test]
    fn any_reply_is_handled_without_a_panic(octets in any_message(), room in 0usize..600) {
        let (policy, asked) = (policy(&["2001:db8::/96", "64:ff9b::/96"]), asked("www.example.com AAAA"));
        let message = Message::parse(&octets).unwrap();
        let _ = next_step(&policy, Treatment::Rule, &asked, Some(&message));
        let mut out = vec![0; room];
        for written in [
            synthesize(&policy, 0, &asked, &message, 600, &mut out).map(|(written, _)| written),
            strip(&policy, &asked, &message, &mut out),
            reverse::answer(reverse::Style::Answer, &asked, &Name::ROOT, &message, 600, &mut out),
        ].into_iter().flatten() {
            prop_assert!(written.octets <= room);
        }
    }

    #[test]
    fn every_a_record_is_answered_under_every_prefix(
        addresses in prop::collection::vec(any::<u32>(), 0..20),
        lengths in prop::collection::vec(prop::sample::select(vec![32u8, 40, 48, 56, 64, 96]), 1..4),
    ) {
        let prefixes: Vec<Prefix> =
            lengths.iter().map(|&length| Prefix::new("2001:db8::".parse().unwrap(), length).unwrap()).collect();
        let policy = Policy { prefixes: prefixes.clone(), ..Policy::default() };
        let records: Vec<String> =
            addresses.iter().map(|&a| format!("an www.example.com 60 A {}", std::net::Ipv4Addr::from(a))).collect();
        let octets = reply(1, "www.example.com A", 0, &records.iter().map(String::as_str).collect::<Vec<_>>());
        let mut out = [0; 4096];
        let a_reply = Message::parse(&octets).unwrap();
        let (written, count) = synthesize(&policy, 0, &asked("www.example.com AAAA"), &a_reply, 600, &mut out).unwrap();
        let answer = Message::parse(&out[..written.octets]).unwrap();
        let found: Vec<Vec<u8>> = answer.answers().map(|record| record.rdata.to_vec()).collect();
        let expected: Vec<Vec<u8>> = addresses.iter()
            .flat_map(|&a| prefixes.iter().map(move |prefix| prefix.embed(a.into()).octets().to_vec())).collect();
        prop_assert_eq!(count as usize, expected.len());
        prop_assert_eq!(found, expected);
        prop_assert!(answer.answers().all(|record| record.rtype == rtype::AAAA));
    }
}

#[test]
fn the_default_policy_is_the_rfcs() {
    let policy = Policy::default();
    assert_eq!(policy.prefixes, [Prefix::WELL_KNOWN]);
    assert_eq!(policy.excluded, ["::ffff:0:0/96".parse::<Range>().unwrap()]);
}
