//! The crashes of other DNS64 servers as conversations in words. `fuzz/seeds/README.md` says what is known of
//! each.

use dns64::wire::{HEADER_LENGTH, Message};

use crate::support::{query, reply};

/// One step of a conversation.
pub enum Step {
    /// The client sends this message.
    Ask(Vec<u8>),
    /// The upstream server is asked for these words and sends these flags, counts and records behind the
    /// question.
    Told { words: &'static str, reply: Vec<u8> },
    /// Upstream servers answer nothing from here on, and time passes until the client has its answer.
    Silence,
    /// So many seconds pass.
    Wait { seconds: u16 },
    /// The client gets this RCODE and these records.
    Answer { rcode: u8, records: &'static [&'static str] },
}

/// What happened to a server once.
pub struct History {
    pub name: &'static str,
    pub steps: Vec<Step>,
}

/// All of them.
pub fn histories() -> Vec<History> {
    vec![
        History { name: "cve-2012-5688", steps: crafted_query() },
        History { name: "cve-2012-5689", steps: rewritten_address() },
        History { name: "cve-2017-3135", steps: rewritten_alias() },
        History { name: "cve-2017-3136", steps: broken_signatures() },
        History { name: "cve-2020-24336", steps: long_address() },
        History { name: "cve-2023-5679", steps: stale_denial() },
    ]
}

const ASKED_AAAA: &str = "www.example AAAA";
const ASKED_A: &str = "www.example A";

fn ask(words: &str) -> Step {
    Step::Ask(query(0x1234, words, None))
}

/// The same with DO.
fn ask_with_do(words: &str) -> Step {
    Step::Ask(query(0x1234, words, Some((1232, true))))
}

fn told(words: &'static str, rcode: u8, records: &[&str]) -> Step {
    Step::Told { words, reply: reply(0, words, rcode, records) }
}

fn answer(rcode: u8, records: &'static [&'static str]) -> Step {
    Step::Answer { rcode, records }
}

/// The query of CVE-2012-5688 was never published. These are the questions for AAAA that a DNS64 must not
/// treat like others: the root, other classes, CD with and without DO. Then all goes on.
fn crafted_query() -> Vec<Step> {
    let mut chaos = query(0x1234, ASKED_AAAA, None);
    let class_at = chaos.len() - 1;
    chaos[class_at] = 3;
    let mut any = chaos.clone();
    any[class_at] = 255;
    let mut checking = query(0x1234, ASKED_AAAA, Some((1232, true)));
    checking[3] |= 0x10;
    let mut checking_alone = query(0x1234, ASKED_AAAA, None);
    checking_alone[3] |= 0x10;
    let soa = "ns example 60 SOA 60";
    let mut steps = vec![
        ask(". AAAA"),
        told(". AAAA", 0, &["ns . 60 SOA 60"]),
        told(". A", 0, &["ns . 60 SOA 60"]),
        answer(0, &["ns  60 SOA 60"]),
    ];
    for message in [chaos, any] {
        // Nobody is asked for a name of another class.
        steps.extend([Step::Ask(message), answer(5, &[])]);
    }
    steps.extend([
        Step::Ask(checking),
        told(ASKED_AAAA, 0, &[soa]),
        answer(0, &["ns example 60 SOA 60", "opt 1232"]),
    ]);
    steps.extend([
        Step::Ask(checking_alone),
        told(ASKED_AAAA, 0, &[soa]),
        answer(0, &["ns example 60 SOA 60"]),
    ]);
    steps.extend(synthesis());
    steps
}

/// An address that is synthesized as always.
fn synthesis() -> [Step; 4] {
    [
        ask(ASKED_AAAA),
        told(ASKED_AAAA, 0, &["ns example 60 SOA 60"]),
        told(ASKED_A, 0, &["an www.example 60 A 192.0.2.1"]),
        answer(0, &["an www.example 60 AAAA 2001:db8:64::c000:201"]),
    ]
}

/// A response policy zone without AAAA record that rewrites the A record: the SOA record of the policy zone
/// stands in the additional section, and none in the authority section.
fn rewritten_address() -> Vec<Step> {
    let policy = "ar policy.example 60 SOA 60";
    vec![
        ask(ASKED_AAAA),
        told(ASKED_AAAA, 0, &[policy]),
        told(ASKED_A, 0, &["an www.example 5 A 192.0.2.1", policy]),
        answer(0, &["an www.example 5 AAAA 2001:db8:64::c000:201"]),
    ]
}

/// A response policy zone that rewrites with aliases: AAAA leads elsewhere than A, and the alias of AAAA to
/// nowhere.
fn rewritten_alias() -> Vec<Step> {
    vec![
        ask(ASKED_AAAA),
        told(ASKED_AAAA, 0, &["an www.example 60 CNAME garden.example", "ns example 60 SOA 60"]),
        told(ASKED_A, 0, &["an www.example 60 CNAME walled.example", "an walled.example 60 A 192.0.2.1"]),
        answer(
            0,
            &["an www.example 60 CNAME walled.example", "an walled.example 60 AAAA 2001:db8:64::c000:201"],
        ),
    ]
}

/// A client that wants signatures, from a server that breaks DNSSEC: of a signed AAAA record that is excluded
/// and of a signed A record nothing is left but the synthesized address.
fn broken_signatures() -> Vec<Step> {
    vec![
        ask_with_do(ASKED_AAAA),
        told(ASKED_AAAA, 0, &["an www.example 60 AAAA ::ffff:192.0.2.9", "an www.example 60 RRSIG AAAA"]),
        told(ASKED_A, 0, &["an www.example 60 A 192.0.2.1", "an www.example 60 RRSIG A"]),
        answer(0, &["an www.example 60 AAAA 2001:db8:64::c000:201", "opt 1232"]),
    ]
}

/// A records whose RDATA is longer than an address, shorter, and longer than the message.
fn long_address() -> Vec<Step> {
    let mut beyond = reply(0, ASKED_A, 0, &["an www.example 60 A 192.0.2.1"]);
    let length_at = beyond.len() - 6;
    beyond[length_at..length_at + 2].copy_from_slice(&[0xff, 0xff]);
    let replies = [
        reply(0, ASKED_A, 0, &["an www.example 60 TYPE1 0123456789abcdef0123456789abcdef"]),
        reply(0, ASKED_A, 0, &["an www.example 60 TYPE1 012"]),
        beyond,
    ];
    let mut steps = Vec::new();
    for reply in replies {
        steps.extend([
            ask(ASKED_AAAA),
            told(ASKED_AAAA, 0, &[]),
            Step::Told { words: ASKED_A, reply },
            answer(2, &[]),
            // The failure is remembered for a second, for two the next time.
            Step::Wait { seconds: 3 },
        ]);
    }
    steps
}

/// Both the denial of AAAA and the A record are stale when the servers fall silent.
fn stale_denial() -> Vec<Step> {
    vec![
        ask(ASKED_AAAA),
        told(ASKED_AAAA, 0, &["ns example 1 SOA 60"]),
        told(ASKED_A, 0, &["an www.example 1 A 192.0.2.1"]),
        answer(0, &["an www.example 1 AAAA 2001:db8:64::c000:201"]),
        Step::Wait { seconds: 2 },
        ask(ASKED_AAAA),
        Step::Silence,
        answer(0, &["an www.example 30 AAAA 2001:db8:64::c000:201"]),
    ]
}

/// The part of a reply behind its question, with the second word of the header and the counts of the records.
pub fn parts(reply: &[u8]) -> (u16, [u8; 3], &[u8]) {
    let message = Message::parse(reply).unwrap();
    let [_, counts @ ..] = message.header.counts;
    assert!(message.question_end() >= HEADER_LENGTH);
    (message.header.flags, counts.map(|count| count as u8), &reply[message.question_end()..])
}
