//! Upstream servers, and others in their name, that send what is false or makes no sense: nothing of it
//! reaches a client, neither at once nor from the cache.

use dns64::rule::Mapping;
use dns64::wire::{Header, Message, rcode};

use crate::support::{lines, query, reply};
use crate::talk::{
    ClientQuery, MS, Talk, TryTransport, extended_errors, policy, settings, settings_for, settings_with,
    stream_client,
};
use crate::{A, A_RECORD, AAAA, AAAA_RECORD, SOA, SYNTHESIZED};
use server_core::client::StreamKind;
use server_core::settings::AQuery;

const FALSE_A: &str = "an www.example.com 300 A 192.0.2.66";
const VICTIM: &str = "victim.example.org A";

/// A client has asked, and this is the query upstream.
fn one_asked(words: &str) -> (Talk, ClientQuery) {
    let mut talk = Talk::with_cache(settings());
    talk.client_asks(words);
    let asked = talk.asked(words);
    (talk, asked)
}

/// Nothing is known of a question: it is asked upstream.
#[track_caller]
fn nothing_is_known_of(talk: &mut Talk, words: &str) {
    talk.client_asks(words);
    talk.asked_and_told(words, 0, &[]);
    talk.answered(words, 0, &[]);
}

#[test]
fn a_wrong_id_port_server_or_question_is_no_answer() {
    let (mut talk, asked) = one_asked(A);
    let TryTransport::Udp { socket } = asked.way else { panic!() };
    let elsewhere =
        |upstream, socket| ClientQuery { upstream, way: TryTransport::Udp { socket }, ..asked.clone() };
    let forged = reply(asked.id(), A, 0, &[FALSE_A]);
    talk.server_sends(&elsewhere(0, socket ^ 1), &forged);
    talk.server_sends(&elsewhere(1, socket), &forged);
    talk.server_sends(&asked, &reply(asked.id(), VICTIM, 0, &["an victim.example.org 300 A 192.0.2.66"]));
    let mut other_class = forged.clone();
    other_class[32] = 3;
    talk.server_sends(&asked, &other_class);
    talk.silent();
    talk.server_sends(&asked, &reply(asked.id() ^ 1, A, 0, &[FALSE_A]));
    assert!(talk.sent.answers.is_empty());
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.client_asks(A);
    talk.answered(A, 0, &[A_RECORD]);
    nothing_is_known_of(&mut talk, VICTIM);
    talk.over();
}

#[test]
fn an_answer_after_the_timeout_is_no_answer() {
    let (mut talk, first) = one_asked(A);
    talk.wait(800 * MS);
    let second = talk.asked(A);
    talk.replies(&first, 0, &[FALSE_A]);
    talk.silent();
    talk.replies(&second, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.replies(&first, 0, &[FALSE_A]);
    talk.client_asks(A);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn a_loop_of_aliases_is_servfail() {
    let loops: [&[&str]; 3] = [
        &["an www.example.com 300 CNAME www.example.com"],
        &["an www.example.com 300 CNAME a.example.com", "an a.example.com 300 CNAME www.example.com"],
        &["an example.com 300 DNAME www.example.com", "an www.example.com 300 CNAME www.www.example.com"],
    ];
    for records in loops {
        let (mut talk, asked) = one_asked(AAAA);
        talk.replies(&asked, 0, records);
        talk.asked_and_told(A, 0, records);
        talk.answered(AAAA, rcode::SERVFAIL, &[]);
        talk.over();
        let counts = talk.shared.cache.counts();
        assert_eq!((counts.entries, counts.failures), (0, 2));
    }
}

#[test]
fn a_hundred_aliases_are_servfail() {
    let chain: Vec<String> =
        (0..100).map(|n| format!("an {n}.example 300 CNAME {}.example", n + 1)).collect();
    let mut chain: Vec<&str> = chain.iter().map(String::as_str).collect();
    chain.push("an 100.example 300 A 192.0.2.66");
    let words = "0.example A";
    let (mut talk, asked) = one_asked(words);
    talk.replies(&asked, 0, &chain);
    talk.answered(words, rcode::SERVFAIL, &[]);
    nothing_is_known_of(&mut talk, "100.example A");
    talk.over();
}

/// What the head of a chain leads to is asked for by the client's name, never taken into the cache under its
/// own.
#[test]
fn the_end_of_a_chain_is_known_by_the_name_that_was_asked_for_only() {
    let (mut talk, asked) = one_asked(A);
    let chain = ["an www.example.com 300 CNAME victim.example.org", "an victim.example.org 300 A 192.0.2.66"];
    talk.replies(&asked, 0, &chain);
    talk.answered(A, 0, &chain);
    nothing_is_known_of(&mut talk, VICTIM);
    talk.over();
}

#[test]
fn records_that_nobody_asked_for_are_left_out() {
    let poison = [
        "an victim.example.org 300 A 192.0.2.66",
        "an victim.example.org 300 CNAME evil.example",
        "ns example.org 300 NS ns.evil.example",
        "ns org 300 NS ns.evil.example",
        "ns sub.www.example.com 300 NS ns.evil.example",
        "ar victim.example.org 300 A 192.0.2.66",
        "ar ns.example.org 300 A 192.0.2.66",
    ];
    let kept = [A_RECORD, "ns example.com 300 NS ns.example.com", "ar ns.example.com 300 A 192.0.2.53"];
    let mut records = vec![A_RECORD];
    records.extend(poison.iter().filter(|line| line.starts_with("an")));
    records.push(kept[1]);
    records.extend(poison.iter().filter(|line| line.starts_with("ns")));
    records.push(kept[2]);
    records.extend(poison.iter().filter(|line| line.starts_with("ar")));
    let (mut talk, asked) = one_asked(A);
    talk.replies(&asked, 0, &records);
    talk.answered(A, 0, &kept);
    talk.client_asks(A);
    talk.answered(A, 0, &kept);
    for words in [VICTIM, "example.org NS", "ns.example.org A", "sub.www.example.com NS"] {
        nothing_is_known_of(&mut talk, words);
    }
    talk.over();
}

#[test]
fn addresses_beside_the_chain_are_not_synthesized_from() {
    let (mut talk, asked) = one_asked(AAAA);
    talk.replies(&asked, 0, &["an victim.example.org 300 AAAA 2001:db8::66", SOA]);
    talk.asked_and_told(A, 0, &[A_RECORD, "an victim.example.org 300 A 192.0.2.66"]);
    talk.answered(AAAA, 0, &[SYNTHESIZED]);
    talk.client_asks(AAAA);
    talk.answered(AAAA, 0, &[SYNTHESIZED]);
    talk.over();
}

#[test]
fn a_bogus_answer_stays_bogus() {
    let (mut talk, asked) = one_asked(AAAA);
    talk.replies(&asked, rcode::SERVFAIL, &["opt 00 0f 00 02 00 06"]);
    talk.answered(AAAA, rcode::SERVFAIL, &[]);
    talk.client_sends(&query(0x1234, AAAA, Some((1232, true))));
    talk.asked_and_told(AAAA, 0, &[SOA]);
    talk.asked_and_told(A, rcode::SERVFAIL, &["opt 00 0f 00 02 00 06"]);
    let answer = talk.answer();
    assert_eq!((answer[3] & 0x0f, extended_errors(&answer)), (rcode::SERVFAIL, vec![6]));
    talk.client_asks(AAAA);
    talk.answered(AAAA, rcode::SERVFAIL, &[]);
    talk.over();
}

/// The query, which asks for the answer as it is, unchecked.
#[track_caller]
fn asked_unchecked(talk: &mut Talk) -> ClientQuery {
    let asked = talk.asked(AAAA);
    assert!(Header::parse(&asked.octets).unwrap().has(Header::CD));
    asked
}

/// A forged AAAA answer makes a validating resolver answer SERVFAIL. If dns64d then asked for A, the forger
/// would lead the client through the NAT64.
#[test]
fn attack_a_bare_servfail_of_a_validating_server_is_not_got_around() {
    for records in [&[AAAA_RECORD][..], &[SOA]] {
        let (mut talk, asked) = one_asked(AAAA);
        talk.replies(&asked, rcode::SERVFAIL, &[]);
        let asked = asked_unchecked(&mut talk);
        talk.replies(&asked, 0, records);
        talk.answered(AAAA, rcode::SERVFAIL, &[]);
        talk.client_sends(&query(0x1234, AAAA, Some((1232, false))));
        let answer = talk.answer();
        assert_eq!((answer[3] & 0x0f, extended_errors(&answer)), (rcode::SERVFAIL, vec![5]));
        talk.over();
    }
}

#[test]
fn a_servfail_that_is_no_verdict_counts_as_no_address() {
    let (mut talk, asked) = one_asked(AAAA);
    talk.replies(&asked, rcode::SERVFAIL, &[]);
    let asked = asked_unchecked(&mut talk);
    talk.replies(&asked, rcode::SERVFAIL, &[]);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(AAAA, 0, &["an www.example.com 300 AAAA 2001:db8:64::c000:201"]);
    talk.over();
    let (mut talk, asked) = one_asked(AAAA);
    talk.replies(&asked, rcode::SERVFAIL, &["opt 00 0f 00 02 00 16"]);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(AAAA, 0, &["an www.example.com 300 AAAA 2001:db8:64::c000:201"]);
    talk.over();
}

#[test]
fn an_address_asked_for_ahead_is_not_taken_for_the_unchecked_answer() {
    for unchecked in [0, rcode::SERVFAIL] {
        let mut talk = Talk::new(settings_with(|settings| settings.asking.a_query = AQuery::Together));
        talk.client_asks(AAAA);
        let (first, ahead) = (talk.asked(AAAA), talk.asked(A));
        talk.replies(&ahead, 0, &[A_RECORD]);
        talk.replies(&first, rcode::SERVFAIL, &[]);
        let asked = asked_unchecked(&mut talk);
        talk.replies(&asked, unchecked, &[]);
        match unchecked {
            0 => talk.answered(AAAA, rcode::SERVFAIL, &[]),
            _ => talk.answered(AAAA, 0, &["an www.example.com 300 AAAA 2001:db8:64::c000:201"]),
        }
        talk.over();
    }
}

#[test]
fn a_server_that_truncates_for_ever_is_servfail() {
    let (mut talk, first) = one_asked(A);
    talk.server_sends(&first, &first.truncated());
    let mut asked = 1;
    while let Some(next) = talk.sent.queries.pop_front() {
        asked += 1;
        talk.server_sends(&next, &next.truncated());
        assert!(asked < 10);
    }
    assert_eq!(asked, 6, "each try over UDP and a stream");
    talk.answered(A, rcode::SERVFAIL, &[]);
    talk.over();
    let counts = talk.shared.cache.counts();
    assert_eq!((counts.entries, counts.failures), (0, 1));
}

/// What a truncated answer holds is no answer.
#[test]
fn the_records_of_a_truncated_answer_are_not_taken() {
    let (mut talk, asked) = one_asked(A);
    let mut octets = asked.reply(0, &[FALSE_A]);
    octets[2] |= 2;
    talk.server_sends(&asked, &octets);
    assert!(talk.sent.answers.is_empty());
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.client_asks(A);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

/// The longest RRset that fits into a message: four times as long when it is synthesized.
#[test]
fn a_message_of_64_kib_is_answered_with_tc_and_harms_nobody() {
    let many: Vec<String> =
        (0..4_090u32).map(|n| format!("an www.example.com 300 A 198.18.{}.{}", n >> 8, n & 0xff)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let (mut talk, asked) = one_asked(AAAA);
    talk.replies(&asked, 0, &[SOA]);
    let asked = talk.asked(A);
    let octets = asked.reply(0, &many);
    assert!(octets.len() > 65_000, "{}", octets.len());
    talk.server_sends(&asked, &octets);
    let answer = talk.answer();
    assert!(answer[2] & 2 != 0 && lines(&answer).is_empty(), "TC over UDP");
    talk.sends(stream_client(1, StreamKind::Tcp), &query(0x1234, AAAA, None));
    while let Some(asked) = talk.sent.queries.pop_front() {
        talk.replies(&asked, 0, &many);
    }
    let answer = talk.answer();
    assert!(answer[2] & 2 != 0 && lines(&answer).is_empty(), "and over TCP");
    talk.client_asks("other.example A");
    talk.asked_and_told("other.example A", 0, &[]);
    talk.answered("other.example A", 0, &[]);
    talk.over();
}

#[test]
fn nonsense_leads_to_the_next_server() {
    let mut talk = Talk::with_cache(settings_for(2));
    talk.client_asks(A);
    let first = talk.asked(A);
    let mut octets = first.reply(0, &[FALSE_A]);
    octets.pop();
    talk.server_sends(&first, &octets);
    let second = talk.asked(A);
    assert_ne!(first.upstream, second.upstream);
    talk.replies(&second, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

/// An SOA of 2^32 - 1 seconds, an address of 2^31: both count as zero (RFC 2181 8).
#[test]
fn absurd_ttls_are_not_kept() {
    let (mut talk, asked) = one_asked(A);
    talk.replies(&asked, 0, &["an www.example.com 2147483648 A 192.0.2.1"]);
    talk.answer();
    nothing_is_known_of(&mut talk, A);
    let mx = "www.example.com MX";
    talk.client_asks(mx);
    talk.asked_and_told(mx, 0, &["ns example.com 4294967295 SOA 4294967295"]);
    talk.answer();
    nothing_is_known_of(&mut talk, mx);
    talk.over();
}

/// The denial of a name must not come from a zone that has no say in it.
#[test]
fn a_denial_with_a_foreign_soa_is_not_kept() {
    let (mut talk, asked) = one_asked(A);
    talk.replies(&asked, rcode::NXDOMAIN, &["ns example.org 3600 SOA 3600"]);
    talk.answered(A, rcode::NXDOMAIN, &[]);
    nothing_is_known_of(&mut talk, A);
    talk.over();
}

#[test]
fn an_answer_with_another_opcode_or_without_qr_is_none() {
    let (mut talk, asked) = one_asked(AAAA);
    for flags in [0x28u8 | 0x80, 0x01] {
        let mut octets = asked.reply(0, &[AAAA_RECORD]);
        octets[2] = flags;
        talk.server_sends(&asked, &octets);
    }
    talk.silent();
    assert_eq!(talk.machine.stats().upstream_mismatched, 2);
}

#[test]
fn forgers_that_hit_the_id_drive_the_query_to_a_stream() {
    let mut talk = Talk::with_cache(settings());
    talk.keeps_spellings();
    talk.client_asks(A);
    let asked = talk.asked(A);
    talk.server_sends(&asked, &reply(asked.id(), A, 0, &[FALSE_A]));
    let over_stream = talk.asked(A);
    assert!(over_stream.is_stream());
    talk.replies(&asked, 0, &[FALSE_A]);
    talk.silent();
    talk.replies(&over_stream, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.client_asks(A);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

/// NXNSAttack (CVE-2020-8616 and others): a referral names servers that do not exist. A forwarder follows no
/// referrals.
#[test]
fn attack_a_referral_to_many_servers_starts_no_queries() {
    let mut talk = Talk::new(settings());
    let servers: Vec<String> =
        (0..100).map(|number| format!("ns www.example.com 300 NS ns{number}.victim.test")).collect();
    let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
    talk.client_asks(AAAA);
    talk.asked_and_told(AAAA, 0, &servers);
    talk.asked_and_told(A, 0, &servers);
    let stats = talk.machine.stats();
    assert_eq!((stats.upstream_queries, talk.sent.answers.len()), (2, 1));
}

/// DNS rebinding: a name of the attacker has an address of this network, and the page of the attacker may
/// talk to its own name. Where the NAT64 reaches private addresses, `map` says "none" for them.
#[test]
fn attack_a_name_with_a_private_address_does_not_lead_through_the_nat64() {
    let private = Mapping { range: "10.0.0.0/8".parse().unwrap(), prefix: None };
    for (mappings, count) in [(vec![], 2), (vec![private], 1)] {
        let mut talk = Talk::new(settings_with(|settings| policy(settings).mappings = mappings));
        talk.client_asks(AAAA);
        talk.asked_and_told(AAAA, 0, &[SOA]);
        talk.asked_and_told(A, 0, &[A_RECORD, "an www.example.com 300 A 10.0.0.1"]);
        let answer = talk.answer();
        assert_eq!(Message::parse(&answer).unwrap().header.counts[1], count);
    }
}
