//! What follows a reply to a AAAA query: points 1 to 4, and what 5 and 7 say of it.

use super::*;

#[test]
fn point_1_another_class_or_type_passes() {
    let chaos = ClientQuery {
        question: Question { qclass: 3, ..support::question("www.example.com AAAA") },
        ..asked("www.example.com AAAA")
    };
    assert_eq!(step(&Policy::default(), &chaos, 0, &[]), Step::PassThrough);
    for other in ["A", "MX", "HTTPS", "ANY", "PTR"] {
        let other = asked(&format!("www.example.com {other}"));
        assert_eq!(step(&Policy::default(), &other, 0, &[]), Step::PassThrough);
        assert_eq!(next_step(&Policy::default(), AaaaPolicy::Rule, &other, None), Step::Fail);
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
fn point_3_a_name_error_at_the_end_of_a_chain_passes() {
    let chain = ["an www.example.com 60 CNAME gone.example.com", "ns example.com 60 SOA 60"];
    assert_eq!(default_step(rcode::NXDOMAIN, &chain), Step::PassThrough);
    let fail = Policy { on_aaaa_error: OnAaaaError::Fail, ..Policy::default() };
    assert_eq!(step(&fail, &asked("www.example.com AAAA"), rcode::NXDOMAIN, &chain), Step::PassThrough);
}

#[test]
fn point_3_a_timeout_counts_as_an_error() {
    let question = asked("www.example.com AAAA");
    assert_eq!(next_step(&Policy::default(), AaaaPolicy::Rule, &question, None), CAP_600);
}

#[test]
fn point_3_the_operator_may_choose_to_fail() {
    let fail = Policy { on_aaaa_error: OnAaaaError::Fail, ..Policy::default() };
    let question = asked("www.example.com AAAA");
    assert_eq!(step(&fail, &question, rcode::SERVFAIL, &[]), Step::PassThrough);
    assert_eq!(next_step(&fail, AaaaPolicy::Rule, &question, None), Step::Fail);
    assert_eq!(step(&fail, &question, 0, &[]), CAP_600, "an empty answer is no error");
}

#[test]
fn point_3_the_extended_rcode_counts() {
    // The low four bits of BADVERS (16) alone look like success.
    let mut octets = reply(1, "www.example.com AAAA", 0, &["opt"]);
    let extended_at = octets.len() - 6;
    octets[extended_at] = 1;
    let message = Message::parse(&octets).unwrap();
    assert_eq!(
        next_step(&Policy::default(), AaaaPolicy::Rule, &asked("www.example.com AAAA"), Some(&message)),
        CAP_600
    );
}

#[test]
fn point_4_excluded_addresses_count_as_absent() {
    let mapped = "an www.example.com 60 AAAA ::ffff:192.0.2.1";
    assert_eq!(default_step(0, &[mapped]), CAP_600);
    assert_eq!(default_step(0, &[mapped, "an www.example.com 60 AAAA 2001:db8::1"]), Step::StripExcluded);
    assert_eq!(default_step(0, &["an www.example.com 60 AAAA ::1:0:0"]), Step::PassThrough, "not the range");
    let none = Policy { excluded: Vec::new(), ..Policy::default() };
    assert_eq!(step(&none, &asked("www.example.com AAAA"), 0, &[mapped]), Step::PassThrough);
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
fn point_7_without_a_soa_the_limit_is_600_seconds() {
    assert_eq!(default_step(0, &[]), CAP_600);
    assert_eq!(default_step(0, &["ns example.com 60 NS ns.example.com"]), CAP_600);
}

/// The step for a name whose AAAA records count as absent.
fn always_step(policy: &Policy, asked: &ClientQuery, rcode: u8, records: &[&str]) -> Step {
    let octets = reply(1, "www.example.com AAAA", rcode, records);
    next_step(policy, AaaaPolicy::Always, asked, Some(&Message::parse(&octets).unwrap()))
}

#[test]
fn always_takes_aaaa_records_for_absent() {
    let question = asked("www.example.com AAAA");
    let native = "an www.example.com 60 AAAA 2001:db8::1";
    let mapped = "an www.example.com 60 AAAA ::ffff:192.0.2.1";
    let through_chain = ["an www.example.com 60 CNAME a.example.com", "an a.example.com 60 AAAA 2001:db8::1"];
    for records in [&[native][..], &[native, mapped], &[mapped], &through_chain, &[]] {
        assert_eq!(always_step(&Policy::default(), &question, 0, records), CAP_600, "{records:?}");
    }
    let soa = "ns example.com 300 SOA 30";
    assert_eq!(always_step(&Policy::default(), &question, 0, &[soa]), Step::AskA { ttl_cap_s: 30 });
}

#[test]
fn always_changes_nothing_else() {
    let (policy, question) = (Policy::default(), asked("www.example.com AAAA"));
    let native = "an www.example.com 60 AAAA 2001:db8::1";
    assert_eq!(always_step(&policy, &question, rcode::NXDOMAIN, &[]), Step::PassThrough);
    assert_eq!(always_step(&policy, &question, rcode::SERVFAIL, &[]), CAP_600);
    assert_eq!(
        always_step(&policy, &question, rcode::SERVFAIL, &["opt 00 0f 00 02 00 06"]),
        Step::PassThrough
    );
    let fail = Policy { on_aaaa_error: OnAaaaError::Fail, ..Policy::default() };
    assert_eq!(always_step(&fail, &question, rcode::SERVFAIL, &[]), Step::PassThrough);
    assert_eq!(next_step(&fail, AaaaPolicy::Always, &question, None), Step::Fail);
    assert_eq!(next_step(&policy, AaaaPolicy::Always, &question, None), CAP_600);
    let validating = ClientQuery { checking_disabled: true, dnssec_ok: true, ..question };
    assert_eq!(always_step(&policy, &validating, 0, &[native]), Step::PassThrough);
    let other = asked("www.example.com MX");
    assert_eq!(always_step(&policy, &other, 0, &[native]), Step::PassThrough);
}

#[test]
fn addresses_bound_to_a_link_are_not_synthesized() {
    let own = Policy { prefixes: vec!["2001:db8:64::/96".parse().unwrap()], ..Policy::default() };
    for address in
        ["0.0.0.0", "127.0.0.1", "127.255.0.1", "169.254.1.1", "224.0.0.251", "239.1.1.1", "255.255.255.255"]
    {
        assert_eq!(own.prefixes_for(address.parse().unwrap(), 0).count(), 0, "{address}");
    }
    for address in ["10.0.0.1", "192.0.2.1", "169.253.0.1", "128.0.0.1", "223.255.255.255", "240.0.0.1"] {
        assert_eq!(own.prefixes_for(address.parse().unwrap(), 0).count(), 1, "{address}");
    }
}
