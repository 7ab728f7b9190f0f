//! Clients and servers that validate: point 14.

use super::*;

#[test]
fn point_14_a_client_that_validates_gets_no_synthesis() {
    let with = |checking_disabled, dnssec_ok| ClientQuery {
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
    let asked =
        ClientQuery { checking_disabled: true, recursion_desired: false, ..asked("www.example.com AAAA") };
    let a_reply = Message::parse(&octets).unwrap();
    synthesize(&policy(&["2001:db8::/96"]), 0, &asked, &a_reply, 600, &mut out).unwrap();
    let header = Header::parse(&out).unwrap();
    assert_eq!(header.flags, Header::QR | Header::RA | Header::CD);
}

#[test]
fn point_14_an_error_of_failed_validation_is_never_synthesized_over() {
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
fn point_14_these_extended_errors_tell_of_failed_validation() {
    let bogus = [1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 27];
    for code in 0..=40u8 {
        let opt = format!("opt 00 0f 00 02 00 {code:02x}");
        let octets = reply(1, "www.example.com AAAA", rcode::SERVFAIL, &[&opt]);
        let failed = failed_validation(&Message::parse(&octets).unwrap());
        assert_eq!(failed, bogus.contains(&code), "extended error {code}");
        let expected = if failed { Step::PassThrough } else { CAP_600 };
        assert_eq!(default_step(rcode::SERVFAIL, &[&opt]), expected, "extended error {code}");
    }
    assert_eq!(default_step(rcode::SERVFAIL, &["opt 00 0f 00 02 01 06"]), CAP_600, "extended error 262");
}

#[test]
fn point_14_a_stripped_answer_is_not_authentic() {
    let records = ["an www.example.com 60 AAAA ::ffff:192.0.2.1", "an www.example.com 60 AAAA 2001:db8::1"];
    let mut octets = reply(1, "www.example.com AAAA", 0, &records);
    octets[3] |= Header::AD as u8;
    let mut out = [0; 512];
    let message = Message::parse(&octets).unwrap();
    strip(&Policy::default(), &asked("www.example.com AAAA"), &message, &mut out).unwrap();
    assert!(!Header::parse(&out).unwrap().has(Header::AD));
}

#[test]
fn point_14_signatures_over_the_chain_stay_for_clients_with_do() {
    let records = [
        "an www.example.com 60 CNAME a.example.com",
        "an www.example.com 60 RRSIG CNAME",
        "an a.example.com 60 A 192.0.2.1",
        "an a.example.com 60 RRSIG A",
    ];
    let expected = [records[0], records[1], "an a.example.com 60 AAAA 2001:db8:64::c000:201"];
    assert_eq!(synthesized(&policy(&["2001:db8:64::/96"]), &records), expected);
}
