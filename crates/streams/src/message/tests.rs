use bytes::BytesMut;
use dns64::wire::{CLASS_IN, Header, Name, Question, Section, Writer, rtype};
use proptest::prelude::*;

use super::*;

fn question(name: &str) -> Question {
    Question { name: Name::from_text(name).unwrap(), qtype: rtype::AAAA, qclass: CLASS_IN }
}

/// A message about `name` with these TTLs in its answer section and, perhaps, a SOA record's TTL and minimum.
fn message(name: &str, flags: u16, answers_s: &[u32], soa_s: Option<(u32, u32)>) -> Vec<u8> {
    let mut octets = [0; 512];
    let question = question(name);
    let mut writer = Writer::new(&mut octets, 7, flags, &question).unwrap();
    for &ttl_s in answers_s {
        writer.record(Section::Answer, &question.name, rtype::AAAA, CLASS_IN, ttl_s, &[1; 16]).unwrap();
    }
    if let Some((ttl_s, minimum_s)) = soa_s {
        let rdata = [&[0, 0][..], &[0; 16], &minimum_s.to_be_bytes()].concat();
        writer.record(Section::Authority, &question.name, rtype::SOA, CLASS_IN, ttl_s, &rdata).unwrap();
    }
    let length = writer.finish();
    octets[..length].to_vec()
}

/// A query with one EDNS option of this code behind another.
fn with_option(code: u16) -> Vec<u8> {
    let mut octets = message("a.test", Header::RD, &[], None);
    octets[11] = 1;
    octets.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 10, 0, 10, 0, 2, 9, 9]);
    octets.extend(code.to_be_bytes());
    octets.extend([0, 0]);
    octets
}

#[test]
fn frames_come_out_as_they_went_in() {
    let mut stream = BytesMut::new();
    let messages = [vec![1; 12], vec![2; 65_535], vec![3; 300]];
    assert!(messages.iter().all(|message| push_frame(&mut stream, message)));
    assert!(!push_frame(&mut stream, &vec![4; 65_536]), "no frame is so long");
    let all = stream.split();
    for piece in all.chunks(1000) {
        stream.extend_from_slice(piece);
    }
    for message in &messages {
        assert_eq!(take_frame(&mut stream), Ok(Some(message.clone())));
    }
    assert_eq!(take_frame(&mut stream), Ok(None));
}

#[test]
fn half_frames_wait_and_short_ones_are_refused() {
    let mut half = BytesMut::from(&[0, 12, 1, 2, 3][..]);
    assert_eq!(take_frame(&mut half), Ok(None));
    assert_eq!(half.len(), 5);
    assert_eq!(take_frame(&mut BytesMut::from(&[0, 11][..])), Err(TooShort));
    assert_eq!(take_frame(&mut BytesMut::from(&[0, 0][..])), Err(TooShort));
}

#[test]
fn a_stream_of_one_message_has_nothing_else() {
    let frame = [&[0, 12][..], &[7; 12]].concat();
    assert_eq!(only_frame(&frame), Ok(vec![7; 12]));
    assert_eq!(only_frame(&frame[..13]), Err(TooShort));
    assert_eq!(only_frame(&[&frame[..], &[1]].concat()), Err(TooShort));
    assert_eq!(only_frame(&[0, 2, 1, 2]), Err(TooShort), "shorter than a header");
    assert_eq!(only_frame(&[]), Err(TooShort));
}

#[test]
fn replies_are_told_from_others() {
    let query = message("a.test", Header::RD, &[], None);
    assert!(is_reply(&query, &message("A.Test", Header::QR, &[1], None)));
    assert!(!is_reply(&query, &message("b.test", Header::QR, &[1], None)), "another question");
    assert!(!is_reply(&query, &query), "no response");
    assert!(!is_reply(&query, &[0; 11]));
    let bare = |flags: u16| [&[0, 0][..], &flags.to_be_bytes(), &[0; 8]].concat();
    assert!(is_reply(&query, &bare(Header::QR | 1)), "FORMERR without the question");
    assert!(!is_reply(&query, &bare(Header::QR)), "success without the question");
}

#[test]
fn the_lifetime_is_the_least_ttl() {
    assert_eq!(lifetime_s(&message("a.test", Header::QR, &[300, 60, 90], None)), 60);
    assert_eq!(lifetime_s(&message("a.test", Header::QR, &[], Some((900, 30)))), 30);
    assert_eq!(lifetime_s(&message("a.test", Header::QR | 3, &[], Some((20, 30)))), 20);
    assert_eq!(lifetime_s(&message("a.test", Header::QR, &[], None)), 0, "NODATA without a SOA record");
    assert_eq!(lifetime_s(&message("a.test", Header::QR | 2, &[], Some((20, 30)))), 0, "SERVFAIL");
    assert_eq!(lifetime_s(&message("a.test", Header::QR | Header::TC, &[60], None)), 0, "truncated");
    assert_eq!(lifetime_s(&[0; 5]), 0);
}

#[test]
fn the_option_of_the_idle_time_is_found() {
    assert!(has_keepalive(&with_option(11)));
    assert!(!has_keepalive(&with_option(12)));
    assert!(!has_keepalive(&message("a.test", 0, &[], None)));
}

#[test]
fn ids_are_replaced() {
    let mut octets = vec![1, 2, 3];
    set_id(&mut octets, 0xabcd);
    assert_eq!((id(&octets), octets[2]), (0xabcd, 3));
    set_id(&mut [], 1);
    assert_eq!(id(&[1]), 0);
}

proptest! {
    #[test]
    fn any_octets_are_taken_without_a_panic(octets in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut stream = BytesMut::from(&octets[..]);
        while let Ok(Some(frame)) = take_frame(&mut stream) {
            prop_assert!(frame.len() >= HEADER_LENGTH);
        }
        let _ = (only_frame(&octets), lifetime_s(&octets), has_keepalive(&octets), is_reply(&octets, &octets));
        let mut header = vec![0, 0, 0x80, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 28, 0, 1];
        header.extend(&octets);
        let _ = (lifetime_s(&header), has_keepalive(&header));
    }

    #[test]
    fn options_of_any_octets_end(rdata in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut octets = message("a.test", Header::RD, &[], None);
        octets[11] = 1;
        octets.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, rdata.len() as u8]);
        octets.extend(&rdata);
        let _ = has_keepalive(&octets);
    }
}
