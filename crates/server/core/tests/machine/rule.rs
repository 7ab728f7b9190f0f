//! RFC 6147 as a client and the upstream servers see it.

use dns64::reverse::Style;
use dns64::rule::OnAaaaError;
use dns64::wire::{Header, Message, rcode};

use crate::support::{lines, query};
use crate::talk::{MS, Talk, policy, settings, settings_with};
use crate::{A, A_RECORD, AAAA, SOA, SYNTHESIZED};

#[test]
fn a_name_without_aaaa_is_synthesized() {
    let mut talk = Talk::new(settings());
    talk.client_asks(AAAA);
    let asked = talk.asked(AAAA);
    talk.silent();
    talk.replies(&asked, 0, &[SOA, "opt"]);
    let asked = talk.asked(A);
    talk.replies(&asked, 0, &[A_RECORD, "opt"]);
    talk.answered(AAAA, 0, &[SYNTHESIZED]);
    talk.over();
    assert_eq!(talk.machine.stats().synthesized, 1);
}

#[test]
fn a_native_aaaa_passes_unchanged() {
    let mut talk = Talk::new(settings());
    talk.client_asks(AAAA);
    let asked = talk.asked(AAAA);
    let records = ["an www.example.com 60 AAAA 2001:db8::1", "ns example.com 60 NS ns.example.com"];
    talk.replies(&asked, 0, &[records[0], records[1], "opt"]);
    talk.answered(AAAA, 0, &records);
    talk.over();
    assert_eq!(talk.machine.stats().synthesized, 0);
}

#[test]
fn a_name_error_passes_and_no_a_is_asked() {
    let mut talk = Talk::new(settings());
    talk.client_asks(AAAA);
    let asked = talk.asked(AAAA);
    talk.replies(&asked, rcode::NXDOMAIN, &[SOA]);
    talk.answered(AAAA, rcode::NXDOMAIN, &[SOA]);
    talk.over();
}

#[test]
fn an_aaaa_error_asks_for_a() {
    let mut talk = Talk::new(settings());
    talk.client_asks(AAAA);
    let asked = talk.asked(AAAA);
    talk.replies(&asked, rcode::NOTIMP, &[]);
    let asked = talk.asked(A);
    talk.replies(&asked, 0, &[A_RECORD]);
    talk.answered(AAAA, 0, &["an www.example.com 300 AAAA 2001:db8:64::c000:201"]);
    talk.over();
}

#[test]
fn an_aaaa_error_may_be_the_answer() {
    let mut settings = settings();
    policy(&mut settings).on_aaaa_error = OnAaaaError::Fail;
    let mut talk = Talk::new(settings);
    talk.client_asks(AAAA);
    let asked = talk.asked(AAAA);
    talk.replies(&asked, rcode::SERVFAIL, &[]);
    talk.answered(AAAA, rcode::SERVFAIL, &[]);
    talk.over();
}

#[test]
fn a_silent_aaaa_asks_for_a() {
    let mut talk = Talk::new(settings());
    talk.client_asks(AAAA);
    for _ in 0..3 {
        talk.asked(AAAA);
        talk.silent();
        talk.wait(800 * MS);
    }
    let asked = talk.asked(A);
    talk.replies(&asked, 0, &["an www.example.com 9999 A 192.0.2.1"]);
    talk.answered(AAAA, 0, &["an www.example.com 600 AAAA 2001:db8:64::c000:201"]);
    talk.over();
}

#[test]
fn an_excluded_aaaa_is_replaced() {
    let mut talk = Talk::new(settings());
    talk.client_asks(AAAA);
    let asked = talk.asked(AAAA);
    talk.replies(&asked, 0, &["an www.example.com 60 AAAA ::ffff:192.0.2.9"]);
    let asked = talk.asked(A);
    talk.replies(&asked, 0, &[A_RECORD]);
    talk.answered(AAAA, 0, &["an www.example.com 300 AAAA 2001:db8:64::c000:201"]);
    talk.over();
}

#[test]
fn a_mixed_answer_is_stripped() {
    let mut talk = Talk::new(settings());
    talk.client_asks(AAAA);
    let asked = talk.asked(AAAA);
    let native = "an www.example.com 60 AAAA 2001:db8::1";
    talk.replies(&asked, 0, &["an www.example.com 60 AAAA ::ffff:192.0.2.9", native]);
    talk.answered(AAAA, 0, &[native]);
    talk.over();
}

#[test]
fn a_chain_is_kept_in_order() {
    let mut talk = Talk::new(settings());
    let (first, second) =
        ("an www.example.com 60 CNAME a.example.com", "an a.example.com 60 CNAME b.example.com");
    talk.client_asks(AAAA);
    let asked = talk.asked(AAAA);
    talk.replies(&asked, 0, &[first, second, SOA]);
    let asked = talk.asked(A);
    talk.replies(&asked, 0, &[first, second, "an b.example.com 20 A 192.0.2.1"]);
    talk.answered(AAAA, 0, &[first, second, "an b.example.com 20 AAAA 2001:db8:64::c000:201"]);
    talk.over();
}

#[test]
fn an_empty_a_reply_is_the_answer() {
    for (code, records) in [(0, &[SOA][..]), (rcode::NXDOMAIN, &[SOA]), (rcode::REFUSED, &[])] {
        let mut talk = Talk::new(settings());
        talk.client_asks(AAAA);
        let asked = talk.asked(AAAA);
        talk.replies(&asked, 0, &[SOA]);
        let asked = talk.asked(A);
        talk.replies(&asked, code, records);
        talk.answered(AAAA, code, records);
        talk.over();
    }
}

#[test]
fn other_types_pass_whatever_they_are() {
    for (words, record) in [
        ("www.example.com A", A_RECORD),
        ("www.example.com TXT", "an www.example.com 60 TXT x"),
        ("www.example.com HTTPS", "an www.example.com 60 HTTPS hints"),
        ("www.example.com TYPE65280", "an www.example.com 60 TYPE65280 x"),
    ] {
        let mut talk = Talk::new(settings());
        talk.client_asks(words);
        let asked = talk.asked(words);
        talk.replies(&asked, 0, &[record]);
        talk.answered(words, 0, &[record]);
        talk.over();
    }
}

#[test]
fn another_class_is_refused() {
    let mut talk = Talk::new(settings());
    let mut octets = query(0x1234, AAAA, None);
    let last = octets.len() - 1;
    octets[last] = 3;
    talk.client_sends(&octets);
    let answer = talk.answer();
    assert_eq!(Message::parse(&answer).unwrap().qclass, 3);
    assert_eq!(Header::parse(&answer).unwrap().rcode(), rcode::REFUSED);
    talk.over();
}

const PTR: &str = "1.0.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa PTR";
const IN_ADDR: &str = "1.2.0.192.in-addr.arpa";

/// Asks upstream servers for reverse names of documentation addresses, too.
fn settings_with_reverse_names() -> server_core::Settings {
    settings_with(|settings| settings.local.private_zones = false)
}

/// The lines of the answer to [`PTR`], with the name asked for as `OWN`.
fn ptr_lines(ptr: Option<Style>, question: &str, records: &[&str]) -> Vec<String> {
    // The owner of a PTR record is the server's, and so is its spelling.
    let mut settings = settings_with_reverse_names();
    (settings.views[0].ptr, settings.asking.case_randomization) = (ptr, false);
    let mut talk = Talk::new(settings);
    talk.client_asks(PTR);
    let asked = talk.asked(question);
    talk.replies(&asked, 0, records);
    let answer = talk.answer();
    talk.over();
    lines(&answer).iter().map(|line| line.replace(PTR.trim_end_matches(" PTR"), "OWN")).collect()
}

#[test]
fn ptr_under_a_prefix_is_answered_from_in_addr_arpa() {
    let (asked, record) = (format!("{IN_ADDR} PTR"), format!("an {IN_ADDR} 60 PTR h2.example.com"));
    let cname = format!("an OWN 600 CNAME {IN_ADDR}");
    assert_eq!(ptr_lines(Some(Style::Cname), &asked, &[&record]), [cname, record.clone()]);
    assert_eq!(ptr_lines(Some(Style::Answer), &asked, &[&record]), ["an OWN 60 PTR h2.example.com"]);
    let own = format!("an {PTR} h2.example.com").replace(" PTR", " 60 PTR");
    assert_eq!(ptr_lines(None, PTR, &[&own]), ["an OWN 60 PTR h2.example.com"], "switched off");
}

#[test]
fn other_ptr_names_pass() {
    let elsewhere = PTR.replace("8.b.d.0", "9.b.d.0");
    for words in [&elsewhere, "1.2.0.192.in-addr.arpa PTR", "1.ip6.arpa PTR", "x.ip6.arpa PTR"] {
        let mut talk = Talk::new(settings_with_reverse_names());
        talk.client_asks(words);
        let asked = talk.asked(words);
        talk.replies(&asked, rcode::NXDOMAIN, &[]);
        talk.answered(words, rcode::NXDOMAIN, &[]);
        talk.over();
    }
}

#[test]
fn a_client_that_validates_gets_the_truth() {
    let mut talk = Talk::new(settings());
    let mut octets = query(0x1234, AAAA, Some((4096, true)));
    octets[3] |= Header::CD as u8;
    talk.client_sends(&octets);
    let asked = talk.asked(AAAA);
    let sent = Message::parse(&asked.octets).unwrap();
    assert!(sent.header.has(Header::CD) && sent.edns().unwrap().unwrap().dnssec_ok);
    talk.replies(&asked, 0, &[SOA]);
    let answer = talk.answer();
    assert_eq!(lines(&answer), [SOA, "opt 1232"]);
    assert!(Header::parse(&answer).unwrap().has(Header::CD));
    talk.over();
}

#[test]
fn dnssec_ok_goes_upstream_in_both_stages() {
    let mut talk = Talk::new(settings());
    talk.client_sends(&query(0x1234, AAAA, Some((4096, true))));
    for words in [AAAA, A] {
        let asked = talk.asked(words);
        assert!(Message::parse(&asked.octets).unwrap().edns().unwrap().unwrap().dnssec_ok);
        talk.replies(
            &asked,
            0,
            if words == AAAA { &[SOA] } else { &[A_RECORD, "an www.example.com 60 RRSIG A"] },
        );
    }
    let answer = talk.answer();
    assert_eq!(lines(&answer), [SYNTHESIZED, "opt 1232"]);
    assert!(!Header::parse(&answer).unwrap().has(Header::AD));
    talk.over();
}

#[test]
fn the_spelling_of_the_client_comes_back() {
    for case_randomization in [false, true] {
        let mut talk =
            Talk::new(settings_with(|settings| settings.asking.case_randomization = case_randomization));
        talk.client_asks("wWw.eXample.cOm AAAA");
        let asked = talk.asked(AAAA);
        talk.replies(&asked, 0, &[SOA]);
        let asked = talk.asked(A);
        // An owner that is a pointer to the question, as servers send it.
        let mut octets = asked.head();
        octets[7] = 1;
        octets.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 192, 0, 2, 1]);
        talk.server_sends(&asked, &octets);
        talk.answered("wWw.eXample.cOm AAAA", 0, &["an wWw.eXample.cOm 30 AAAA 2001:db8:64::c000:201"]);
        talk.over();
    }
}
