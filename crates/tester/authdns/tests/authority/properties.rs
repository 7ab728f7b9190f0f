//! What holds for every question, of whatever name and type.

use authdns::{ANSWER_OCTETS_MAX, Rules, TCP_ANSWER_OCTETS_MAX, Transport, Zone, ZoneConfig};
use domain::base::iana::Rcode;
use domain::base::{Message, Rtype};
use proptest::prelude::*;

use crate::dnssec::{self, signed};
use crate::rules::{file, full_config};

const LABELS: [&[u8]; 24] = [
    b"010-000-000-007",
    b"010-000-000-008",
    b"011-000-000-007",
    b"10-0-0-7",
    b"any",
    b"c1",
    b"c5",
    b"c17",
    b"d1",
    b"D16",
    b"t20",
    b"t4096",
    b"cloop",
    b"ns",
    b"www",
    b"old",
    b"alias",
    b"long",
    b"a",
    b"b",
    b"c",
    b"*",
    b"7",
    b"\0",
];
const ZONES: [&[u8]; 4] = [
    b"\x09dns64perf\x04test\0",
    b"\x04test\0",
    b"\x0210\x07in-addr\x04arpa\0",
    b"\x01a\x010\x010\x010\x010\x010\x010\x010\x010\x010\x01a\x01a\x01a\x01a\x010\x010\x010\x010\x012\x010\x010\x010\x011\x010\x010\x012\x03ip6\x04arpa\0",
];
const TYPES: [u16; 16] = [1, 2, 5, 6, 12, 15, 16, 28, 33, 39, 43, 46, 48, 50, 65, 255];

fn label() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::sample::select(LABELS.to_vec()).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 1..64),
        2 => (0u16..300).prop_map(|number| number.to_string().into_bytes()),
    ]
}

/// A name in wire format, with letters in either case.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let labels =
        prop_oneof![9 => prop::collection::vec(label(), 0..5), 1 => prop::collection::vec(label(), 0..60)];
    (labels, prop::sample::select(ZONES.to_vec()), any::<u64>()).prop_map(|(labels, zone, case)| {
        let mut wire = Vec::new();
        for label in labels {
            if wire.len() + 1 + label.len() + zone.len() <= 255 {
                wire.push(label.len() as u8);
                wire.extend(label);
            }
        }
        wire.extend(zone);
        let mut at = 0;
        while wire[at] != 0 {
            let next = at + 1 + usize::from(wire[at]);
            let upper = |(position, _): &(usize, &mut u8)| case >> (position % 64) & 1 == 1;
            for (_, octet) in wire[at + 1..next].iter_mut().enumerate().filter(upper) {
                octet.make_ascii_uppercase();
            }
            at = next;
        }
        wire
    })
}

/// A question with an EDNS offer: payload size and DO.
fn question(name: &[u8], qtype: u16, offer: Option<(u16, bool)>) -> Vec<u8> {
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(offer.is_some())];
    query.extend(name);
    query.extend(qtype.to_be_bytes());
    query.extend([0, 1]);
    if let Some((payload, dnssec_ok)) = offer {
        query.extend([0, 0, 41]);
        query.extend(payload.to_be_bytes());
        query.extend([0, 0, if dnssec_ok { 0x80 } else { 0 }, 0, 0, 0]);
    }
    query
}

fn ask(zone: &Zone, query: &[u8], transport: Transport) -> Vec<u8> {
    // Compression pointers to nowhere: what the buffer holds from before must not matter.
    let mut out = [0xff; TCP_ANSWER_OCTETS_MAX];
    let room = if transport == Transport::Udp { ANSWER_OCTETS_MAX } else { TCP_ANSWER_OCTETS_MAX };
    let answer = zone.answer(query, transport, &mut out[..room]);
    out[..answer.octets].to_vec()
}

fn rcode_of(zone: &Zone, name: &[u8], qtype: u16) -> Rcode {
    let answer = ask(zone, &question(name, qtype, None), Transport::Tcp);
    Message::from_octets(&answer[..]).unwrap().header().rcode()
}

fn config() -> impl Strategy<Value = ZoneConfig> {
    let share = prop::sample::select(vec![0u8, 50, 100]);
    (share, any::<bool>(), any::<[bool; 5]>(), prop::sample::select(vec![1u8, 2, 64])).prop_map(
        |(share, has_records, [short, wildcard, chains, types, reverse], addresses)| {
            let full = full_config();
            ZoneConfig {
                aaaa_share_percent: share,
                rules: Rules { short, wildcard, chains, types, reverse },
                addresses_per_name: addresses,
                txt_octets: if share == 50 { 4096 } else { 64 },
                records: full.records.filter(|_| has_records),
                ..ZoneConfig { records: None, ..full }
            }
        },
    )
}

proptest! {
    #[test]
    fn answers_are_messages_within_their_limits(
        config in config(), is_signed: bool, name in name(), qtype in prop::sample::select(TYPES.to_vec()),
        offer in prop::option::of((any::<u16>(), any::<bool>())),
    ) {
        let zone = Zone::new(if is_signed { signed(config) } else { config }).unwrap();
        let query = question(&name, qtype, offer);
        let limit = offer.map_or(512, |(payload, _)| payload.clamp(512, 1232));
        let over_udp = ask(&zone, &query, Transport::Udp);
        prop_assert!(over_udp.len() <= usize::from(limit));
        let over_tcp = ask(&zone, &query, Transport::Tcp);
        prop_assert_eq!(over_tcp[2] & 2, 0, "no TC over TCP");
        prop_assert_eq!(&over_tcp, &ask(&zone, &query, Transport::Tcp), "the same question, the same octets");
        for answer in [&over_udp, &over_tcp] {
            let message = Message::from_octets(&answer[..]).unwrap();
            prop_assert!(message.header().qr() && message.header().rd() && !message.header().ra());
            prop_assert_eq!(&answer[12..12 + name.len() + 4], &query[12..12 + name.len() + 4], "the question as asked");
            prop_assert_eq!(message.opt().is_some(), offer.is_some());
            for record in message.iter() {
                let (record, _) = record.unwrap();
                let has_dnssec = [Rtype::RRSIG, Rtype::NSEC3].contains(&record.rtype());
                let wants_dnssec = qtype == Rtype::RRSIG.to_int() || offer.is_some_and(|(_, dnssec_ok)| dnssec_ok);
                prop_assert!(!has_dnssec || (is_signed && wants_dnssec));
                let parsed = record.into_any_record::<domain::rdata::AllRecordData<_, _>>();
                prop_assert!(parsed.is_ok());
            }
        }
        if over_udp[2] & 2 == 0 {
            // The additional section may be left out.
            prop_assert_eq!(&over_udp[6..10], &over_tcp[6..10], "what fits is whole");
        }
    }

    #[test]
    fn names_exist_for_all_types_or_for_none(config in config(), name in name()) {
        let zone = Zone::new(config).unwrap();
        // What stands for itself: an alias says what the name it leads to is.
        let is_itself = rcode_of(&zone, &name, 5);
        if ![Rcode::NOERROR, Rcode::NXDOMAIN].contains(&is_itself) {
            return Ok(());
        }
        let aliases = Message::from_octets(&ask(&zone, &question(&name, 5, None), Transport::Tcp)[..])
            .unwrap().header_counts().ancount();
        if aliases == 0 {
            for qtype in TYPES {
                prop_assert_eq!(rcode_of(&zone, &name, qtype), is_itself, "{}", qtype);
            }
        }
        let parent = &name[1 + usize::from(name[0])..];
        let above = rcode_of(&zone, parent, 5);
        if is_itself == Rcode::NOERROR && above != Rcode::REFUSED {
            prop_assert_eq!(above, Rcode::NOERROR, "nothing exists below what does not (RFC 8020)");
        }
    }

    #[test]
    fn everything_of_a_signed_zone_is_signed_or_proven(
        config in config(), name in name(), qtype in prop::sample::select(TYPES.to_vec()),
    ) {
        let zone = Zone::new(signed(config)).unwrap();
        let answer = ask(&zone, &question(&name, qtype, Some((1232, true))), Transport::Tcp);
        dnssec::check(&zone, &answer, qtype)?;
    }

    #[test]
    fn any_text_is_a_file_of_records_or_not(
        lines in prop::collection::vec(prop_oneof![
            prop::sample::select(crate::rules::RECORDS.lines().collect::<Vec<_>>()).prop_map(str::to_owned),
            "[ -~\t]{0,40}",
            any::<String>(),
        ], 0..8),
    ) {
        let config = ZoneConfig { records: file(&lines.join("\n")), ..ZoneConfig::default() };
        if let Err(error) = Zone::new(config) {
            prop_assert!(error.to_string().starts_with("extra.zone, line "), "{}", error);
        }
    }
}
