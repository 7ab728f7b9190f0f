//! RFC 6147, point by point (as the requirements number them) and example by example.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod answer;
mod choice;
mod dnssec;
mod pointers;
#[path = "../support/mod.rs"]
mod support;

use dns64::rewrite::ClientQuery;
use dns64::rule::{
    AaaaPolicy, Mapping, OnAaaaError, Policy, PrefixChoice, Step, failed_validation, next_step, strip,
    synthesize,
};
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
fn step(policy: &Policy, asked: &ClientQuery, rcode: u8, records: &[&str]) -> Step {
    let octets = reply(1, "www.example.com AAAA", rcode, records);
    next_step(policy, AaaaPolicy::Rule, asked, Some(&Message::parse(&octets).unwrap()))
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
    assert_eq!((answer.header.id, answer.question()), (asked.id, asked.question));
    (answer.header.flags, lines(&out[..written.octets]))
}

fn synthesized(policy: &Policy, records: &[&str]) -> Vec<String> {
    synthesis(policy, "www.example.com AAAA", 600, 0, records).1
}

#[test]
fn section_7_1_and_7_2_ipv6_network_to_ipv4_internet() {
    // The example puts a documentation address under the well-known prefix, which RFC 6052 3.1 forbids on
    // real hosts.
    let policy = policy(&["64:ff9b::/96"]);
    let h2 = asked("h2.example.com AAAA");
    let empty = reply(1, "h2.example.com AAAA", 0, &["ns example.com 3600 SOA 3600"]);
    let next = next_step(&policy, AaaaPolicy::Rule, &h2, Some(&Message::parse(&empty).unwrap()));
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
    fn any_reply_is_handled_without_a_panic(octets in any_message(), room in 0usize..600, turn: usize) {
        let (mut policy, asked) = (policy(&["2001:db8::/96", "64:ff9b::/96"]), asked("www.example.com AAAA"));
        let message = Message::parse(&octets).unwrap();
        let _ = next_step(&policy, AaaaPolicy::Rule, &asked, Some(&message));
        let always = next_step(&policy, AaaaPolicy::Always, &asked, Some(&message));
        prop_assert_ne!(always, Step::StripExcluded);
        policy.spread = if turn % 3 == 0 { PrefixChoice::All } else { PrefixChoice::Rotated };
        let mut out = vec![0; room];
        for written in [
            synthesize(&policy, turn, &asked, &message, 600, &mut out).map(|(written, _)| written),
            strip(&policy, &asked, &message, &mut out),
            reverse::answer(reverse::Style::Answer, &asked, &Name::ROOT, &message, 600, &mut out),
        ].into_iter().flatten() {
            prop_assert!(written.octets <= room);
        }
    }

    #[test]
    fn every_a_record_is_answered_under_every_prefix(
        // Not 0.0.0.0/8, nor loopback and what is above it: some of that is never synthesized.
        addresses in prop::collection::vec(1u32 << 24..127 << 24, 0..20),
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
    assert_eq!((policy.spread, policy.on_aaaa_error), (PrefixChoice::All, OnAaaaError::Synthesize));
    assert!(policy.strict_well_known && !policy.synthesize_with_cd && policy.mappings.is_empty());
    assert_eq!(policy.excluded, ["::ffff:0:0/96".parse::<Range>().unwrap()]);
}
