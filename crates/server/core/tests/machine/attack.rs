//! Messages that are made to cost much: none costs more than twenty times a plain one of its size, in steps
//! ([`dns64::steps`]).

use dns64::wire::{CLASS_IN, Message, Name, Question, rtype};
use proptest::prelude::*;

use crate::cost::{Ask, Cost, TIMES_MAX, add, assert_bounded, cost, plain_cost, run};

const QUESTION: [u8; 2] = [0xc0, 12];

/// A name of 120 labels of one letter, the last of which is this one.
fn long_name(last: char) -> Name {
    Name::from_text(&format!("{}{last}", "a.".repeat(119))).unwrap()
}

/// Eleven aliases, each of 120 labels that differ in the last one, then one address or nothing.
fn aliases(mut message: Vec<u8>) -> Vec<u8> {
    let mut owner = QUESTION;
    for letter in 'b'..='l' {
        let rdata_at = message.len() + owner.len() + 10;
        assert!(add(&mut message, 1, &owner, rtype::CNAME, long_name(letter).as_wire()));
        owner = (0xc000 | rdata_at as u16).to_be_bytes();
    }
    let soa = [&[0, 0][..], &[0, 0, 1, 0].repeat(5)].concat();
    match Message::parse(&message).unwrap().qtype {
        rtype::A => assert!(add(&mut message, 1, &owner, rtype::A, &[192, 0, 2, 1])),
        _ => assert!(add(&mut message, 2, &owner, rtype::SOA, &soa)),
    }
    message
}

#[test]
fn aliases_of_many_labels() {
    let question = Question { name: long_name('a'), qtype: rtype::AAAA, qclass: CLASS_IN };
    for (over_udp, before) in [(true, 211_518), (false, 3_913_296)] {
        let ask = Ask::new(&question, over_udp);
        let attack = cost(&ask, aliases);
        assert_eq!(attack.replies[1], 0, "the replies are kept: {attack:?}");
        let plain = plain_cost(&ask, attack.octets);
        assert!(attack.miss <= TIMES_MAX * plain.miss && attack.hit <= TIMES_MAX * plain.hit);
        assert!(10 * attack.hit <= before, "{attack:?}");
    }
}

/// A reply nearly as long as the cache keeps: as many records as it can hold.
fn longest(mut message: Vec<u8>) -> Vec<u8> {
    let qtype = Message::parse(&message).unwrap().qtype;
    let rdata = match qtype {
        rtype::A => &[192, 0, 2, 1][..],
        rtype::AAAA => &[0x20; 16],
        _ => &[],
    };
    while message.len() < 48_000 {
        assert!(add(&mut message, 1, &QUESTION, qtype, rdata));
    }
    message
}

/// A datagram of some 30 octets asks for a reply of 64 KiB that the cache has. It is sent to a stream before
/// the reply is copied, aged or read, whatever its type is and however it spells the name.
#[test]
fn attack_a_datagram_for_a_long_reply_of_the_cache_costs_as_much_as_any() {
    for (qtype, edns, respelled) in [
        (rtype::TXT, false, false),
        (rtype::TXT, true, true),
        (rtype::AAAA, false, true),
        (rtype::A, true, true),
    ] {
        let question =
            Question { name: Name::from_text("www.example.com").unwrap(), qtype, qclass: CLASS_IN };
        let mut ask = Ask::new(&question, true);
        if edns {
            ask.add_edns(1232, Vec::new());
        }
        ask.respelled = respelled;
        assert_bounded(&ask, longest);
        let Cost { replies: [first, again], hit, .. } = cost(&ask, longest);
        assert!(first > 0 && again == 0, "the replies are kept");
        assert!(hit < 50, "{qtype} {hit}");
    }
}

/// A client's message with as many records or options as it can hold.
#[test]
fn attack_a_message_full_of_records_or_options_costs_no_more_than_its_size() {
    for [records, options] in [[13, 0], [0, 13], [12, 12], [5, 10]] {
        for (choice, room) in [(4, 0), (4 + 1, 2), (4 + 2, 3), (4 + 8, 2)] {
            run(&[choice, 3, 0, room, records, 2, options, 0, 0, 0, 0, 0]);
        }
    }
}

/// Replies whose names cost much to read and to compare: none is refused unseen, and each is bounded.
#[test]
fn pointers_to_long_names() {
    let long = |labels: u8, last: u8| [3, labels, last];
    let many = 12;
    // Kinds of records: section and type as in `crate::cost`. Owners and RDATA: 0 points to the question, 4
    // to the first name that is noted, 8 to the second.
    let one_owner = [&[2, 0][..], &long(120, 1), &[0, 0, 4, many]].concat();
    let two_owners = [&[2, 0][..], &long(120, 1), &[0, 2, 4], &long(120, 2), &[0]].concat();
    let two_owners = [two_owners, [0, 4, 0, 0, 8, 0].repeat(300)].concat();
    let authorities = [&[0, 0, 0][..], &[64 + 4, 0], &long(120, 1), &[8]].concat();
    let additionals = [&[6, 0][..], &long(120, 1), &[6, 128, 4, 8]].concat();
    for records in [one_owner, two_owners, authorities, additionals] {
        for choice in 0..4 {
            run(&[&[choice, 120, 0][..], &records].concat());
        }
    }
}

/// Octets of an input of [`crate::cost`]: kind, owner and RDATA of a record, and how often it is there.
fn records() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![
        3 => (any::<u8>()).prop_map(|choice| vec![choice & !2]),
        1 => (any::<u8>()).prop_map(|choice| vec![choice & !1 | 2]),
        2 => (60..126u8, any::<u8>()).prop_map(|(labels, last)| vec![3, labels, last]),
    ];
    let times = prop_oneof![2 => Just(0u8), 2 => 0..6u8, 1 => 6..13u8];
    let record = (any::<u8>(), name.clone(), name, times)
        .prop_map(|(kind, owner, rdata, times)| [&[kind][..], &owner, &rdata, &[times]].concat());
    prop::collection::vec(record, 1..40).prop_map(|records| records.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_reply_costs_twenty_times_a_plain_one(choice in 0..4u8, labels in 1..126u8, records in records()) {
        run(&[&[choice, labels, 0][..], &records].concat());
    }

    #[test]
    fn attack_no_message_of_a_client_costs_twenty_times_a_plain_one(
        choice in (0..16u8).prop_map(|choice| choice | 4),
        labels in 1..126u8,
        message in any::<[u8; 5]>(),
        records in records(),
    ) {
        run(&[&[choice, labels, 0][..], &message, &records].concat());
    }
}
