use super::*;
use crate::pacer::SECOND_NS;
use proptest::prelude::*;

const NOW_NS: u64 = 1_000 * SECOND_NS;
const UNIX_S: u64 = 1_700_000_000;

fn key(algorithm: Algorithm) -> Key {
    let name = Name::from_text("Tester.Example").unwrap();
    Key::new(&name, algorithm, b"0123456789abcdef0123456789abcdef", UNIX_S * SECOND_NS - NOW_NS)
}

/// A query for `a.` with this ID.
fn query(id: u16) -> Vec<u8> {
    let mut query = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 0, 0, 28, 0, 1];
    query[..2].copy_from_slice(&id.to_be_bytes());
    query
}

const QUESTION_END: usize = 19;

/// A TSIG record of which everything can be chosen.
#[derive(Clone)]
struct Answering {
    key_name: &'static [u8],
    unix_s: u64,
    error: u16,
    signed: bool,
    timers_only: bool,
}

const RIGHT: Answering = Answering {
    key_name: b"\x06tester\x07example\0",
    unix_s: UNIX_S,
    error: 0,
    signed: true,
    timers_only: false,
};

/// The answer of a server to a query with this MAC, by RFC 8945 5.3, in one piece of octets.
fn answer(algorithm: Algorithm, request: &Mac, how: &Answering) -> Vec<u8> {
    answer_after(algorithm, &framed(request), how)
}

/// A MAC behind its length.
fn framed(mac: &Mac) -> Vec<u8> {
    [&[0, mac.length][..], &mac.octets[..mac.length.into()]].concat()
}

/// An answer without a signature.
fn unsigned() -> Vec<u8> {
    let mut message = query(7);
    message[2] |= 0x80;
    message
}

/// An answer signed together with what comes before it.
fn answer_after(algorithm: Algorithm, before: &[u8], how: &Answering) -> Vec<u8> {
    let mut message = unsigned();
    let algorithm_name = Name::from_text(algorithm.name()).unwrap();
    let time = how.unix_s.to_be_bytes()[2..].to_vec();
    let name = [how.key_name, &[0, 255, 0, 0, 0, 0], algorithm_name.as_wire()].concat();
    let timers = [&time[..], &[1, 44]].concat();
    let error = [&how.error.to_be_bytes()[..], &[0, 0]].concat();
    let variables = if how.timers_only { timers } else { [name, timers, error].concat() };
    let signed = [before, &message, &variables].concat();
    let key = hmac::Key::new(algorithm.of_ring(), b"0123456789abcdef0123456789abcdef");
    let tag = hmac::sign(&key, &signed);
    let mac = if how.signed { tag.as_ref() } else { &[] };
    let error = how.error.to_be_bytes();
    let length = (mac.len() as u16).to_be_bytes();
    let rdata = [algorithm_name.as_wire(), &time, &[1, 44], &length, mac, &[0, 7], &error, &[0, 0]].concat();
    message[ARCOUNT_AT + 1] += 1;
    let rdata_length = (rdata.len() as u16).to_be_bytes();
    [&message, how.key_name, &[0, 250, 0, 255, 0, 0, 0, 0], &rdata_length, &rdata].concat()
}

fn request(algorithm: Algorithm) -> (Vec<u8>, Mac) {
    let mut buffer = query(7);
    buffer.resize(512, 0);
    let (length, mac) = key(algorithm).sign(NOW_NS, &mut buffer, QUESTION_END).unwrap();
    assert_eq!(length, QUESTION_END + key(algorithm).signature_octets());
    buffer.truncate(length);
    (buffer, mac)
}

fn verified(algorithm: Algorithm, mac: &Mac, answer: &[u8]) -> Result<(), TsigDefect> {
    key(algorithm).verify(NOW_NS, mac, &Header::parse(answer).unwrap(), answer, QUESTION_END)
}

#[test]
fn a_signed_query_has_its_record_last_and_its_answer_is_verified() {
    for algorithm in Algorithm::ALL {
        let (query, mac) = request(algorithm);
        let header = Header::parse(&query).unwrap();
        assert_eq!((header.counts[3], usize::from(mac.length)), (1, key(algorithm).mac_octets()));
        let record = Records::new(&query, &header, QUESTION_END).last().unwrap().unwrap();
        assert_eq!(record.owner().unwrap().as_wire(), RIGHT.key_name, "in its canonical form");
        let signed = Signed::read(&record).unwrap();
        assert_eq!((seconds(signed.time), signed.original_id, signed.error), (UNIX_S, [0, 7], 0));
        assert_eq!(verified(algorithm, &mac, &answer(algorithm, &mac, &RIGHT)), Ok(()));
    }
}

#[test]
fn what_does_not_hold_is_told_apart() {
    let (_, mac) = request(Algorithm::Sha256);
    let answered = |how: &Answering| verified(Algorithm::Sha256, &mac, &answer(Algorithm::Sha256, &mac, how));
    assert_eq!(verified(Algorithm::Sha256, &mac, &unsigned()), Err(TsigDefect::Missing));
    assert_eq!(answered(&Answering { key_name: b"\x01x\0", ..RIGHT }), Err(TsigDefect::OtherKey));
    let old = Answering { unix_s: UNIX_S - 301, ..RIGHT };
    assert_eq!(answered(&old), Err(TsigDefect::Time));
    assert_eq!(answered(&Answering { unix_s: UNIX_S - 299, ..RIGHT }), Ok(()));
    let refused = Answering { error: 17, signed: false, ..RIGHT };
    assert_eq!(answered(&refused), Err(TsigDefect::Error(17)));
    assert_eq!(TsigDefect::Error(17).to_string(), "TSIG error BADKEY");
    assert_eq!(answered(&Answering { error: 18, ..RIGHT }), Err(TsigDefect::Error(18)));
    assert_eq!(answered(&Answering { signed: false, ..RIGHT }), Err(TsigDefect::WrongMac));
    let other = verified(Algorithm::Sha256, &Mac::default(), &answer(Algorithm::Sha256, &mac, &RIGHT));
    assert_eq!(other, Err(TsigDefect::WrongMac), "the answer to another query");
    let other = answer(Algorithm::Sha512, &mac, &RIGHT);
    assert_eq!(verified(Algorithm::Sha256, &mac, &other), Err(TsigDefect::OtherKey));
}

/// The MAC of an answer, behind its length.
fn mac_of(answer: &[u8]) -> Vec<u8> {
    let signature = Signature::find(&Header::parse(answer).unwrap(), answer, QUESTION_END).unwrap();
    framed(&Mac::of(signature.signed.mac))
}

/// What becomes of these messages in one response, and of its end.
fn in_sequence(request: &Mac, messages: &[&[u8]]) -> Result<(), TsigDefect> {
    let mut sequence = Sequence::new(key(Algorithm::Sha256).into(), request);
    for message in messages {
        sequence.take(NOW_NS, &Header::parse(message).unwrap(), message, QUESTION_END)?;
    }
    sequence.end()
}

#[test]
fn a_response_of_several_messages_is_one_chain() {
    let (_, mac) = request(Algorithm::Sha256);
    let timers = Answering { timers_only: true, ..RIGHT };
    let next = |before: &[u8], how| answer_after(Algorithm::Sha256, before, how);
    let first = answer(Algorithm::Sha256, &mac, &RIGHT);
    let second = next(&mac_of(&first), &timers);
    let plain = unsigned();
    let third = next(&[mac_of(&second), plain.clone(), plain.clone()].concat(), &timers);
    let whole = [&first[..], &second, &plain, &plain, &third];
    assert_eq!(in_sequence(&mac, &whole), Ok(()));
    assert_eq!(in_sequence(&mac, &whole[..3]), Err(TsigDefect::Missing), "the last one has no signature");
    assert_eq!(in_sequence(&mac, &[&plain, &first]), Err(TsigDefect::Missing), "the first one has none");
    assert_eq!(in_sequence(&mac, &[]), Err(TsigDefect::Missing));
    for wrong in
        [&[&first[..], &third][..], &[&first, &second, &plain, &third], &[&first, &first], &[&second]]
    {
        assert_eq!(in_sequence(&mac, wrong), Err(TsigDefect::WrongMac));
    }
    let all = next(&mac_of(&first), &RIGHT);
    assert_eq!(
        in_sequence(&mac, &[&first, &all]),
        Err(TsigDefect::WrongMac),
        "more than the timers is signed"
    );
    let old = next(&mac_of(&first), &Answering { unix_s: UNIX_S - 301, ..timers });
    assert_eq!(in_sequence(&mac, &[&first, &old]), Err(TsigDefect::Time));
}

#[test]
fn up_to_99_messages_have_no_signature() {
    let (_, mac) = request(Algorithm::Sha256);
    let first = answer(Algorithm::Sha256, &mac, &RIGHT);
    let plain = unsigned();
    let with = |number: usize| {
        let before = [mac_of(&first), plain.repeat(number)].concat();
        let last = answer_after(Algorithm::Sha256, &before, &Answering { timers_only: true, ..RIGHT });
        let between = std::iter::repeat_n(&plain[..], number);
        let messages: Vec<&[u8]> = std::iter::once(&first[..]).chain(between).chain([&last[..]]).collect();
        in_sequence(&mac, &messages)
    };
    assert_eq!(with(99), Ok(()));
    assert_eq!(with(100), Err(TsigDefect::Missing));
}

#[test]
fn too_small_a_buffer_signs_nothing() {
    let key = key(Algorithm::Sha512);
    let mut buffer = query(1);
    assert!(key.sign(NOW_NS, &mut buffer, QUESTION_END).is_none());
    assert_eq!(buffer, query(1));
    assert!(key.sign(NOW_NS, &mut [0; 300], 5).is_none(), "no header");
    assert!(!format!("{key:?}").contains("0123"), "no secret is shown");
}

proptest! {
    #[test]
    fn no_changed_octet_is_verified(at in any::<prop::sample::Index>(), bit in 0u32..8) {
        let (_, mac) = request(Algorithm::Sha256);
        let mut changed = answer(Algorithm::Sha256, &mac, &RIGHT);
        let at = at.index(changed.len());
        changed[at] ^= 1 << bit;
        let header = Header::parse(&changed).unwrap();
        let found = key(Algorithm::Sha256).verify(NOW_NS, &mac, &header, &changed, QUESTION_END);
        // The ID is that of the query, not of the answer, and names are signed in lower case.
        let owner = QUESTION_END + 1..QUESTION_END + RIGHT.key_name.len();
        let is_letter = |octet: u8| octet.is_ascii_alphabetic();
        let algorithm = owner.end + 10..owner.end + 10 + 13;
        let in_name = (owner.contains(&at) || algorithm.contains(&at)) && bit == 5 && is_letter(changed[at]);
        if at < 2 || in_name {
            prop_assert_eq!(found, Ok(()));
        } else {
            prop_assert!(found.is_err(), "octet {at}, bit {bit}");
        }
    }

    #[test]
    fn no_octets_make_it_panic(octets in prop::collection::vec(any::<u8>(), 12..200), records in 0u16..4) {
        let mut octets = octets;
        octets[ARCOUNT_AT..HEADER_LENGTH].copy_from_slice(&records.to_be_bytes());
        let header = Header::parse(&octets).unwrap();
        for end in [HEADER_LENGTH, QUESTION_END] {
            let _ = key(Algorithm::Sha384).verify(NOW_NS, &Mac::default(), &header, &octets, end);
        }
    }
}
