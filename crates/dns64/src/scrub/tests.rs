use proptest::prelude::*;

use super::*;
use crate::wire::{CLASS_IN, Edns, Header, Question};

const QUESTION: &str = "www.shop.test";

/// A record of the section, with names in RDATA as text: (owner, type, RDATA before the name, name).
type Described<'a> = (Section, &'a str, u16, &'a [u8], Option<&'a str>);

const ANSWER: Section = Section::Answer;
const AUTHORITY: Section = Section::Authority;
const ADDITIONAL: Section = Section::Additional;
const NSEC: u16 = 47;
const OPTIONS: Edns = Edns { payload_octets: 1232, extended_rcode: 0, version: 0, dnssec_ok: true };

fn name(text: &str) -> Name {
    Name::from_text(text).unwrap()
}

fn address(section: Section, owner: &str) -> Described<'_> {
    (section, owner, rtype::A, &[9; 4], None)
}

fn alias<'a>(owner: &'a str, target: &'a str) -> Described<'a> {
    (ANSWER, owner, rtype::CNAME, &[], Some(target))
}

fn server<'a>(zone: &'a str, host: &'a str) -> Described<'a> {
    (AUTHORITY, zone, rtype::NS, &[], Some(host))
}

fn negative(zone: &str) -> Described<'_> {
    (AUTHORITY, zone, rtype::SOA, &[0; 22], None)
}

fn opaque(section: Section, owner: &str, rtype: u16) -> Described<'_> {
    (section, owner, rtype, &[0], None)
}

/// RDATA of a signature over records of a type, to be followed by the signer.
fn signature(covered: u16) -> Vec<u8> {
    [&covered.to_be_bytes()[..], &[0; 16]].concat()
}

fn message(asked: &Question, records: &[Described<'_>], options: bool) -> Vec<u8> {
    let mut buffer = vec![0; 65_535];
    let mut writer = Writer::new(&mut buffer, 77, Header::QR | Header::RA | Header::AD, asked).unwrap();
    for (section, owner, rtype, front, target) in records {
        let write = |writer: &mut Writer<'_>| {
            writer.put(front)?;
            let Some(target) = target.map(name) else { return Ok(()) };
            // Compressed where it may be (RFC 3597 4).
            let (_, names) = crate::wire::names_in_rdata(*rtype);
            if names > 0 { writer.name(&target) } else { writer.put(target.as_wire()) }
        };
        writer.record_with(*section, &name(owner), *rtype, asked.qclass, 60, write).unwrap();
    }
    if options {
        writer.edns(&OPTIONS, &[0, 15, 0, 2, 0, 3]).unwrap();
    }
    let length = writer.finish();
    buffer.truncate(length);
    buffer
}

fn asked() -> Question {
    Question { name: name(QUESTION), qtype: rtype::A, qclass: CLASS_IN }
}

/// Scrubs; returns the message as it is used afterwards, and whether it was written again.
fn scrubbed(octets: &[u8]) -> Result<(Vec<u8>, bool), Malformed> {
    let mut out = vec![0xaa; 65_535];
    let written = scrub(&Message::parse(octets)?, &mut out)?;
    Ok(written.map_or((octets.to_vec(), false), |length| (out[..length].to_vec(), true)))
}

/// What is left of a reply: section, owner and type of each record.
fn left(octets: &[u8]) -> Vec<(Section, String, u16)> {
    let records = Message::parse(octets).unwrap();
    records
        .records()
        .map(|record| record.unwrap())
        .map(|record| (record.section, record.owner().unwrap().to_string(), record.rtype))
        .collect()
}

/// Asserts that of the records exactly the first `kept` belong to the question.
#[track_caller]
fn assert_kept(kept: &[Described<'_>], others: &[Described<'_>]) {
    let whole = message(&asked(), kept, true);
    assert_eq!(scrubbed(&whole).unwrap(), (whole.clone(), false), "nothing to take out");
    for other in others {
        // Among its own section's records, at the end.
        let mut records = kept.to_vec();
        records.push(*other);
        records.sort_by_key(|record| record.0);
        let (octets, rewritten) = scrubbed(&message(&asked(), &records, true)).unwrap();
        assert!(rewritten, "{other:?}");
        assert_eq!(left(&octets), left(&whole), "{other:?}");
        let (before, after) = (Message::parse(&whole).unwrap(), Message::parse(&octets).unwrap());
        assert_eq!((after.header, after.question()), (before.header, before.question()));
        assert_eq!(after.edns(), Ok(Some(OPTIONS)));
    }
}

#[test]
fn the_answer_keeps_what_the_name_has_of_the_type() {
    let [signed, foreign] = [rtype::A, rtype::AAAA].map(signature);
    assert_kept(
        &[
            address(ANSWER, QUESTION),
            address(ANSWER, QUESTION),
            (ANSWER, QUESTION, rtype::RRSIG, &signed, Some("shop.test")),
        ],
        &[
            (ANSWER, QUESTION, rtype::RRSIG, &foreign, Some("shop.test")),
            (ANSWER, QUESTION, rtype::AAAA, &[9; 16], None),
            opaque(ANSWER, QUESTION, rtype::TXT),
            address(ANSWER, "bank.test"),
            address(ANSWER, "shop.test"),
            address(ANSWER, "a.www.shop.test"),
            alias("bank.test", QUESTION),
            (ANSWER, "bank.test", rtype::DNAME, &[], Some("shop.test")),
        ],
    );
}

#[test]
fn the_answer_keeps_the_chain() {
    assert_kept(
        &[
            alias(QUESTION, "a.host.test"),
            (ANSWER, "host.test", rtype::DNAME, &[], Some("cdn.test")),
            alias("a.host.test", "a.cdn.test"),
            address(ANSWER, "a.cdn.test"),
        ],
        &[
            address(ANSWER, QUESTION),
            address(ANSWER, "host.test"),
            address(ANSWER, "b.cdn.test"),
            alias(QUESTION, "second.test"),
            address(AUTHORITY, "b.cdn.test"),
        ],
    );
}

#[test]
fn the_authority_section_keeps_what_is_above_the_chain() {
    let chain = alias(QUESTION, "a.b.cdn.test");
    assert_kept(
        &[chain, negative("b.cdn.test")],
        &[server("bank.test", "ns.bank.test"), negative("x.b.cdn.test"), address(AUTHORITY, "ns.cdn.test")],
    );
    assert_kept(&[negative("shop.test")], &[server("a.www.shop.test", "ns.test")]);
    assert_kept(&[server("", "ns.test")], &[server("bank.test", "ns.test")]);
}

#[test]
fn proofs_stay_where_their_zone_is_named() {
    let signed = signature(NSEC);
    let signature_of = |owner| (AUTHORITY, owner, rtype::RRSIG, &signed[..], Some("shop.test"));
    assert_kept(
        &[
            negative("shop.test"),
            opaque(AUTHORITY, "hash.shop.test", rtype::NSEC3),
            signature_of("a.shop.test"),
        ],
        &[opaque(AUTHORITY, "bank.test", NSEC), opaque(AUTHORITY, "hash.shop.test", rtype::TXT)],
    );
    // A wildcard's answer, from a server that leaves SOA and NS out.
    assert_kept(
        &[
            address(ANSWER, QUESTION),
            opaque(AUTHORITY, "m.shop.test", NSEC),
            (AUTHORITY, "m.shop.test", rtype::RRSIG, &signed, Some("shop.test")),
        ],
        &[
            (AUTHORITY, "m.bank.test", rtype::RRSIG, &signed, Some("bank.test")),
            (AUTHORITY, "m.bank.test", rtype::RRSIG, &signed, Some("shop.test")),
        ],
    );
}

#[test]
fn the_additional_section_keeps_what_is_spoken_of() {
    let service = Question { qtype: rtype::HTTPS, ..asked() };
    let records = [
        (ANSWER, QUESTION, rtype::HTTPS, &[0, 1][..], Some("svc.test")),
        server("shop.test", "ns.host.test"),
        address(ADDITIONAL, "svc.test"),
        address(ADDITIONAL, "NS.host.test"),
        address(ADDITIONAL, QUESTION),
    ];
    let whole = message(&service, &records, true);
    assert!(!scrubbed(&whole).unwrap().1);
    for other in [
        address(ADDITIONAL, "bank.test"),
        address(ADDITIONAL, "shop.test"),
        (ADDITIONAL, QUESTION, TYPE_TSIG, &[0; 4], None),
    ] {
        let (octets, _) = scrubbed(&message(&service, &[&records[..], &[other]].concat(), true)).unwrap();
        assert_eq!(left(&octets), left(&whole), "{other:?}");
    }
    for (qtype, front) in [
        (rtype::MX, &[0, 1][..]),
        (rtype::SRV, &[0; 6]),
        (35, &[0, 1, 0, 1, 1, b's', 2, b'a', b'b', 0]),
        (rtype::PTR, &[]),
    ] {
        let asked = Question { qtype, ..asked() };
        let records = [(ANSWER, QUESTION, qtype, front, Some("x.test")), address(ADDITIONAL, "x.test")];
        assert!(!scrubbed(&message(&asked, &records, false)).unwrap().1, "type {qtype}");
    }
}

#[test]
fn what_a_dropped_record_speaks_of_is_dropped() {
    let records =
        [address(ANSWER, QUESTION), server("bank.test", "ns.bank.test"), address(ADDITIONAL, "ns.bank.test")];
    let (octets, _) = scrubbed(&message(&asked(), &records, false)).unwrap();
    assert_eq!(octets, message(&asked(), &records[..1], false));
}

#[test]
fn an_opt_record_goes_to_the_end_when_written_again() {
    let mut octets = message(&asked(), &[address(ANSWER, QUESTION)], true);
    // The address of another name, behind the OPT record.
    octets.extend([1, b'x', 0, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 1, 2, 3, 4]);
    octets[11] += 1;
    let (octets, rewritten) = scrubbed(&octets).unwrap();
    assert!(rewritten);
    assert_eq!(octets, message(&asked(), &[address(ANSWER, QUESTION)], true));
}

#[test]
fn other_classes_go() {
    let mut octets = message(&asked(), &[address(ANSWER, QUESTION), address(ANSWER, QUESTION)], false);
    let class_at = octets.len() - 11;
    assert_eq!(octets[class_at], 1);
    octets[class_at] = 3;
    let (octets, _) = scrubbed(&octets).unwrap();
    assert_eq!(octets, message(&asked(), &[address(ANSWER, QUESTION)], false));
    let chaos = Question { qclass: 3, ..asked() };
    let records = [(ANSWER, QUESTION, rtype::TXT, &[0][..], None), address(ANSWER, "bank.test")];
    let (octets, _) = scrubbed(&message(&chaos, &records, false)).unwrap();
    assert_eq!(octets, message(&chaos, &records[..1], false));
}

#[test]
fn loops_and_floods_are_refused() {
    assert!(scrubbed(&message(&asked(), &[alias(QUESTION, QUESTION)], false)).is_err());
    let turns = [alias(QUESTION, "b.test"), alias("b.test", QUESTION)];
    assert!(scrubbed(&message(&asked(), &turns, false)).is_err());
    let names: Vec<String> = (0..100).map(|n| format!("n{n}.test")).collect();
    let mut chain = vec![alias(QUESTION, &names[0])];
    chain.extend(names.windows(2).map(|pair| alias(&pair[0], &pair[1])));
    assert!(scrubbed(&message(&asked(), &chain, false)).is_err(), "100 CNAME records");
    assert!(!scrubbed(&message(&asked(), &chain[..LINKS], false)).unwrap().1);
    assert!(scrubbed(&message(&asked(), &chain[..=LINKS], false)).is_err());
    let flood: Vec<_> = (0..3000).map(|_| server("shop.test", "n.test")).collect();
    let (octets, rewritten) =
        scrubbed(&message(&asked(), &[&flood[..], &[address(ADDITIONAL, "x.test")]].concat(), true)).unwrap();
    assert!(rewritten);
    assert_eq!(left(&octets).len(), 257);
}

const LINKS: usize = crate::chain::LINKS_MAX;

#[test]
fn malformed_replies_and_a_second_opt_record_are_refused() {
    let octets = message(&asked(), &[address(ANSWER, QUESTION), address(ANSWER, "x.test")], false);
    assert!(scrubbed(&octets[..octets.len() - 1]).is_err());
    let mut twice = message(&asked(), &[address(ANSWER, QUESTION)], true);
    let options = twice[twice.len() - 17..].to_vec();
    twice.extend(options);
    twice[11] += 1;
    assert!(scrubbed(&twice).is_err());
    let message = Message::parse(&octets).unwrap();
    assert!(scrub(&message, &mut [0; 20]).is_err(), "no room");
}

#[test]
fn an_opt_record_with_a_name_is_refused() {
    let mut octets = message(&asked(), &[address(ANSWER, QUESTION)], true);
    let name_at = octets.len() - 6 - 11;
    // The root by a pointer to the first octet of the header, which is 0.
    octets[0] = 0;
    for name in [&[1, b'a', 0][..], &[0xc0, 0x00]] {
        let named = [&octets[..name_at], name, &octets[name_at + 1..]].concat();
        assert!(scrubbed(&named).is_err(), "{name:?}");
    }
}

#[test]
fn octets_behind_the_last_record_go() {
    for records in
        [&[][..], &[address(ANSWER, QUESTION)], &[alias(QUESTION, "x.org"), address(ANSWER, "x.org")]]
    {
        for options in [false, true] {
            let octets = message(&asked(), records, options);
            let longer = [&octets[..], b"and more"].concat();
            let (clean, rewritten) = scrubbed(&longer).unwrap();
            assert!(rewritten);
            assert_eq!(clean, octets);
        }
    }
}

#[test]
fn addresses_of_another_length_are_refused() {
    for (rtype, length) in [(rtype::A, 4), (rtype::AAAA, 16)] {
        for wrong in [0, length - 1, length + 1, 255] {
            let rdata = vec![9; wrong];
            for (section, owner) in [(ANSWER, QUESTION), (ADDITIONAL, "ns.test")] {
                let octets = message(&asked(), &[(section, owner, rtype, &rdata[..], None)], false);
                assert!(scrubbed(&octets).is_err(), "{wrong} octets of type {rtype}");
            }
        }
        let rdata = vec![9; length];
        let octets = message(&asked(), &[(ANSWER, QUESTION, rtype, &rdata[..], None)], false);
        assert!(scrubbed(&octets).is_ok());
    }
}

#[test]
fn aliases_with_octets_behind_their_name_are_refused() {
    for rtype in [rtype::CNAME, rtype::DNAME] {
        for (rdata, good) in
            [(&b"\x01a\x04test\0"[..], true), (b"\x01a\x04test\0G", false), (b"\x01a", false)]
        {
            let octets = message(&asked(), &[(ANSWER, QUESTION, rtype, rdata, None)], false);
            assert_eq!(scrubbed(&octets).is_ok(), good, "{rdata:?} of type {rtype}");
        }
    }
}

fn described() -> impl Strategy<Value = (usize, usize, usize, usize)> {
    (1..4usize, 0..7usize, 0..11usize, 0..7usize)
}

const NAMES: [&str; 7] = [QUESTION, "Shop.test", "test", "a.shop.test", "x.org", "y.x.org", ""];

proptest! {
    #[test]
    fn scrubbing_twice_changes_nothing(records in prop::collection::vec(described(), 0..12), options in any::<bool>()) {
        let mut signed = [signature(NSEC), signature(rtype::CNAME)];
        signed[0][2] = 5;
        let pointing = [&signature(NSEC)[..], &[0xc0, 60]].concat();
        let mut records: Vec<Described<'_>> = records.iter().map(|&(section, owner, kind, target)| {
            let section = [ANSWER, AUTHORITY, ADDITIONAL][section - 1];
            let (owner, target) = (NAMES[owner], Some(NAMES[target]));
            match kind {
                0 => address(section, owner),
                1 | 2 => (section, owner, rtype::CNAME, &[][..], target),
                3 => (section, owner, rtype::DNAME, &[][..], target),
                4 => (section, owner, rtype::NS, &[][..], target),
                5 => (section, owner, rtype::SOA, &[0; 22][..], None),
                6 => opaque(section, owner, NSEC),
                7 => (section, owner, rtype::RRSIG, &signed[0][..], target),
                8 => (section, owner, rtype::RRSIG, &signed[1][..], target),
                9 => (section, owner, rtype::RRSIG, &pointing[..], None),
                _ => (section, owner, rtype::MX, &[0, 0][..], target),
            }
        }).collect();
        records.sort_by_key(|record| record.0);
        if let Ok((once, rewritten)) = scrubbed(&message(&asked(), &records, options)) {
            let message = Message::parse(&once).unwrap();
            prop_assert!(message.records().all(|record| record.is_ok()));
            prop_assert_eq!(message.edns().unwrap().is_some(), options);
            prop_assert_eq!(message.records().count() == records.len() + usize::from(options), !rewritten);
            prop_assert_eq!(scrubbed(&once).unwrap(), (once.clone(), false));
        }
    }

    #[test]
    fn any_octets_are_scrubbed_without_a_panic(
        tail in prop::collection::vec(any::<u8>(), 0..300),
        counts in prop::array::uniform3(0..6u8),
    ) {
        let [answers, authorities, additionals] = counts;
        let header = [0, 1, 0x80, 0, 0, 1, 0, answers, 0, authorities, 0, additionals];
        let octets = [&header[..], &[1, b'a', 1, b'b', 0, 0, 1, 0, 1], &tail].concat();
        if let Ok((once, true)) = scrubbed(&octets) {
            prop_assert_eq!(scrubbed(&once).unwrap(), (once.clone(), false));
        }
    }
}
