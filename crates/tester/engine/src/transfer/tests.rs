use super::*;
use crate::pacer::SECOND_NS;
use crate::tsig::Algorithm;
use dns64::wire::{Question, Writer};
use proptest::prelude::*;

const ID: u16 = 77;
const NOW_NS: u64 = 1_000 * SECOND_NS;

type Entry = (&'static str, u16, Vec<u8>);

fn name(text: &str) -> Name {
    Name::from_text(text).unwrap()
}

fn begin(since: Option<u32>, key: Option<Arc<Key>>) -> (Incoming, Vec<u8>) {
    Incoming::begin(&Ask { zone: name("zone.test"), since, key }, ID, NOW_NS)
}

fn axfr() -> Incoming {
    begin(None, None).0
}

/// RDATA of an SOA record.
fn soa_data(serial: u32) -> Vec<u8> {
    let mut rdata = [name("ns.zone.test").as_wire(), name("host.zone.test").as_wire()].concat();
    for number in [serial, 1, 2, 3, 4] {
        rdata.extend(number.to_be_bytes());
    }
    rdata
}

fn soa(serial: u32) -> Entry {
    ("zone.test", 6, soa_data(serial))
}

fn a(owner: &'static str) -> Entry {
    (owner, 1, vec![192, 0, 2, 1])
}

/// A message with these records: owner, type and RDATA.
fn message(id: u16, flags: u16, records: &[Entry]) -> Vec<u8> {
    message_of((TYPE_AXFR, CLASS_IN), id, flags, records)
}

fn message_of((qtype, class): (u16, u16), id: u16, flags: u16, records: &[Entry]) -> Vec<u8> {
    let mut buffer = [0; 2000];
    let question = Question { name: name("zone.test"), qtype, qclass: CLASS_IN };
    let mut writer = Writer::new(&mut buffer, id, Header::QR | flags, &question).unwrap();
    for (owner, rtype, rdata) in records {
        writer.record(Section::Answer, &name(owner), *rtype, class, 60, rdata).unwrap();
    }
    let length = writer.finish();
    buffer[..length].to_vec()
}

/// A message of an answer to IXFR.
fn change(records: &[Entry]) -> Vec<u8> {
    message_of((TYPE_IXFR, CLASS_IN), ID, 0, records)
}

fn without_question(message: &[u8]) -> Vec<u8> {
    let end = question::end(message).unwrap();
    let mut short = [&message[..HEADER_LENGTH], &message[end..]].concat();
    short[5] = 0;
    short
}

#[test]
fn the_query_asks_for_the_zone_or_its_changes() {
    let (_, query) = begin(None, None);
    assert_eq!(question::check_request(&query), Ok(()));
    assert_eq!(query[..6], [0, 77, 0, 0, 0, 1]);
    assert_eq!(query[HEADER_LENGTH..], *b"\x04zone\x04test\0\0\xfc\0\x01");
    let (_, query) = begin(Some(7), None);
    let header = Header::parse(&query).unwrap();
    assert_eq!(header.counts, [1, 0, 1, 0]);
    let end = question::end(&query).unwrap();
    assert_eq!(query[end - 4..end], [0, 251, 0, 1]);
    let held = Records::new(&query, &header, end).next().unwrap().unwrap();
    assert_eq!((held.owner().unwrap(), held.rtype, held.section), (name("zone.test"), 6, Section::Authority));
    assert_eq!(held.rdata, [&[0, 0, 0, 0, 0, 7][..], &[0; 16]].concat());
}

#[test]
fn records_are_counted_from_one_soa_to_the_other() {
    let mut transfer = axfr();
    let first = message(ID, 0, &[soa(9), a("a.zone.test"), a("ZONE.test")]);
    assert_eq!(transfer.take(NOW_NS, &first), Ok(false));
    let second = without_question(&message(ID, 0, &[]));
    assert_eq!(transfer.take(NOW_NS, &second), Ok(false));
    let third = message(ID, 0, &[a("b.c.zone.test"), ("zone.TEST", 6, soa_data(9))]);
    assert_eq!((transfer.take(NOW_NS, &third), transfer.answer()), (Ok(true), Some(&TransferAnswer::Full)));
    assert_eq!((transfer.messages(), transfer.records(), transfer.serial()), (3, 4, Some(9)));
    assert_eq!(transfer.octets(), (first.len() + second.len() + third.len()) as u64);
    assert_eq!(axfr().take(NOW_NS, &message(ID, 0, &[soa(9), soa(9)])), Ok(true));
}

#[test]
fn what_is_no_transfer_says_why() {
    let begin = [soa(9)];
    let mut other_question = message(ID, 0, &begin);
    other_question[HEADER_LENGTH + 1] ^= 1;
    let mut query = message(ID, 0, &[]);
    query[2] = 0;
    for (message, why) in [
        (vec![0; 5], "shorter than a header"),
        (message(ID + 1, 0, &begin), "the message has the ID 78, and the query 77"),
        (query, "no response"),
        (message(ID, 5, &[]), "REFUSED"),
        (message(ID, 9, &begin), "NOTAUTH"),
        (message(ID, Header::TC, &begin), "truncated"),
        (message(ID, 0, &[]), "has no record"),
        (without_question(&message(ID, 0, &begin)), "not one question"),
        (other_question, "another question"),
        (change(&begin), "another question"),
        (message(ID, 0, &[a("a.zone.test")]), "the first record is not the SOA record"),
        (message(ID, 0, &[("zone2.test", 6, soa_data(9))]), "the record of zone2.test. is of another zone"),
        (message(ID, 0, &[soa(9), a("test")]), "of another zone"),
        (message(ID, 0, &[("zone.test", 6, vec![0; 10])]), "five numbers"),
        (message(ID, 0, &[soa(9), soa(10)]), "is not the one at the beginning"),
        (message(ID, 0, &[soa(9), soa(9), soa(9)]), "a record follows"),
        (message_of((TYPE_AXFR, 3), ID, 0, &begin), "of class 3"),
    ] {
        let fault = axfr().take(NOW_NS, &message).unwrap_err().to_string();
        assert!(fault.contains(why), "{why}: {fault}");
    }
}

/// What comes of one message that answers a question for the changes since a serial.
fn changed(since: u32, records: &[Entry]) -> Result<Option<TransferAnswer>, String> {
    let (mut transfer, _) = begin(Some(since), None);
    let taken = transfer.take(NOW_NS, &change(records));
    taken.map(|_| transfer.answer().cloned()).map_err(|fault| fault.to_string())
}

#[test]
fn changes_are_told_from_the_zone_and_from_none() {
    use TransferAnswer::{Full, Incremental, UpToDate};
    let (mut transfer, _) = begin(Some(7), None);
    let first = change(&[soa(9), soa(7), a("a.zone.test"), soa(8), a("b.zone.test"), a("c.zone.test")]);
    let second = change(&[soa(8), soa(9), a("d.zone.test"), soa(9)]);
    assert_eq!(transfer.take(NOW_NS, &first), Ok(false));
    assert_eq!(transfer.take(NOW_NS, &second), Ok(true));
    assert_eq!((transfer.answer(), transfer.serial()), (Some(&Incremental), Some(9)));
    // SOA 7 and a, SOA 8; SOA 8 and b and c, SOA 9 and d; SOA 9 at the beginning.
    assert_eq!((transfer.removed(), transfer.added(), transfer.records()), (3, 5, 9));
    assert_eq!(changed(7, &[soa(9), a("a.zone.test"), soa(9)]), Ok(Some(Full)));
    assert_eq!(changed(7, &[soa(9), soa(9)]), Ok(Some(Full)));
    assert_eq!(changed(7, &[soa(7)]), Ok(Some(UpToDate)));
    assert_eq!(changed(7, &[soa(6)]), Ok(Some(UpToDate)));
    assert_eq!(changed(u32::MAX, &[soa(0)]), Ok(None), "a serial after the greatest one");
    assert_eq!(changed(7, &[soa(8)]), Ok(None), "a newer version, and more messages");
    assert_eq!(changed(7, &[soa(7), a("a.zone.test"), soa(7)]), Ok(Some(Full)));
}

#[test]
fn changes_that_do_not_fit_together_are_none() {
    for (records, why) in [
        (vec![soa(9), soa(6)], "a difference is from serial 6, not from 7"),
        (vec![soa(9), soa(7), soa(8), soa(7)], "a difference is from serial 7, not from 8"),
        (vec![soa(9), soa(7), soa(9), soa(8)], "is not the one at the beginning"),
        (vec![soa(9), soa(7), soa(9), soa(9), a("a.zone.test")], "a record follows"),
        (vec![soa(9), a("a.zone.test"), soa(7)], "is not the one at the beginning"),
    ] {
        let fault = changed(7, &records).unwrap_err();
        assert!(fault.contains(why), "{why}: {fault}");
    }
}

fn key() -> Arc<Key> {
    Arc::new(Key::new(&name("key.test"), Algorithm::Sha256, b"secret", 0))
}

#[test]
fn a_signed_transfer_has_no_unsigned_answer() {
    let (mut transfer, query) = begin(None, Some(key()));
    let header = Header::parse(&query).unwrap();
    let end = question::end(&query).unwrap();
    assert_eq!((header.counts[3], query.len()), (1, end + key().signature_octets()));
    let fault = transfer.take(NOW_NS, &message(ID, 0, &[soa(9), soa(9)])).unwrap_err();
    assert_eq!(fault, TransferFault::Signature(TsigDefect::Missing));
    assert_eq!(fault.to_string(), "no TSIG");
    let refused = begin(None, Some(key())).0.take(NOW_NS, &message(ID, 5, &[]));
    assert_eq!(refused, Err(TransferFault::Rcode(5)));
}

proptest! {
    #[test]
    fn any_octets_are_taken_without_a_panic(
        octets in prop::collection::vec(any::<u8>(), 0..200), at: usize, value: u8, signed: bool
    ) {
        let new = || begin(Some(8), signed.then(key)).0;
        let _ = new().take(NOW_NS, &octets);
        let mut changed = change(&[soa(9), soa(8), soa(9), soa(9)]);
        let at = at % changed.len();
        changed[at] = value;
        let _ = new().take(NOW_NS, &changed);
        changed.truncate(at);
        prop_assert!(new().take(NOW_NS, &changed) != Ok(true));
    }
}
