//! Questions on the wire: where they end, and a check value to compare them by.

use std::borrow::Cow;

use dns64::wire::{HEADER_LENGTH, Header, NAME_LENGTH_MAX};

use super::QUERY_OCTETS_MAX;

/// QUERY, NOTIFY (RFC 1996) and UPDATE (RFC 2136): requests whose responses repeat one question.
const OPCODES: [u8; 3] = [0, 4, 5];

/// Whether a whole message can be sent as a query.
///
/// # Errors
/// Why it cannot.
pub fn check_request(message: &[u8]) -> Result<(), Cow<'static, str>> {
    if message.len() > QUERY_OCTETS_MAX {
        let octets = message.len();
        return Err(format!("a message of {octets} octets: up to {QUERY_OCTETS_MAX} can be sent").into());
    }
    let header = Header::parse(message).map_err(|error| error.0)?;
    if header.has(Header::QR) || !OPCODES.contains(&header.opcode()) {
        return Err("the message is no request (QR 0, opcode QUERY, NOTIFY or UPDATE)".into());
    }
    end(message).ok_or("the message has not exactly one question, written in full")?;
    Ok(())
}

/// Where the only question of a message ends; `None` if it has none, several, or a compressed one.
pub fn end(message: &[u8]) -> Option<usize> {
    if message.get(4..6)? != [0, 1] {
        return None;
    }
    let mut at = HEADER_LENGTH;
    loop {
        let length = usize::from(*message.get(at)?);
        at += length + 1;
        if length == 0 {
            break;
        }
        if length > 63 || at > HEADER_LENGTH + NAME_LENGTH_MAX {
            return None;
        }
    }
    (at + 4 <= message.len()).then_some(at + 4)
}

/// A check value of a question (name, type and class as they stand on the wire). Names that differ in case
/// only have the same (RFC 4343); of others one in four thousand million.
pub fn check(question: &[u8]) -> u32 {
    let (name, kind) = question.split_at(question.len().saturating_sub(4));
    let mut value = name.len() as u64;
    let mut words = name.chunks_exact(8);
    for word in &mut words {
        let word: [u8; 8] = word.try_into().unwrap_or_default();
        value = fold(value, in_lower_case(u64::from_le_bytes(word)));
    }
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    value = fold(value, in_lower_case(u64::from_le_bytes(last)));
    let kind: [u8; 4] = kind.try_into().unwrap_or_default();
    let value = fold(value, u64::from(u32::from_le_bytes(kind)));
    (value ^ value >> 32) as u32
}

/// Eight octets with their ASCII capitals in lower case; length octets are below 64 and so are no letters.
fn in_lower_case(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let low = word & (0x7f * EACH);
    // The sums have bit 7 of each octet that is at least A, or more than Z.
    let from_a = low + (0x80 - 0x41) * EACH;
    let beyond_z = low + (0x7f - 0x5a) * EACH;
    let capitals = !word & (from_a ^ beyond_z) & (0x80 * EACH);
    word | (capitals >> 2)
}

fn fold(value: u64, word: u64) -> u64 {
    let product = u128::from(value ^ 0x9e37_79b9_7f4a_7c15) * u128::from(word ^ 0xd6e8_feb8_6659_fd93);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns64::wire::Message;
    use proptest::prelude::*;

    #[test]
    fn check_values_ignore_case_and_nothing_else() {
        let question = |name: &str, qtype: u8| {
            let name = dns64::wire::Name::from_text(name).unwrap();
            [name.as_wire(), &[0, qtype, 0, 1]].concat()
        };
        let value = check(&question("www.Example.com", 28));
        assert_eq!(value, check(&question("WWW.eXAMPLE.com", 28)));
        for (name, qtype) in
            [("www.example.com", 1), ("www.example.org", 28), ("ww.wexample.com", 28), (".", 28)]
        {
            assert_ne!(value, check(&question(name, qtype)), "{name} {qtype}");
        }
        // The bit that is the case of letters is none in digits.
        assert_ne!(check(b"\x016\0\0\x1c\0\x01"), check(b"\x01\x16\0\0\x1c\0\x01"));
    }

    #[test]
    fn only_requests_can_be_sent() {
        let mut message = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        message.extend(b"\x01a\x00\x00\x1c\x00\x01");
        assert_eq!(check_request(&message), Ok(()));
        for flags in [0x20, 0x28] {
            let other = [&message[..2], &[flags], &message[3..]].concat();
            assert_eq!(check_request(&other), Ok(()), "NOTIFY and UPDATE");
        }
        for (at, with, reason) in
            [(2, 0x81, "is no request"), (2, 0x10, "is no request"), (5, 2, "one question")]
        {
            let mut wrong = message.clone();
            wrong[at] = with;
            assert!(check_request(&wrong).unwrap_err().contains(reason));
        }
        assert!(check_request(&[0; 11]).is_err());
        message.resize(513, 0);
        assert!(check_request(&message).unwrap_err().contains("513 octets"));
    }

    proptest! {
        #[test]
        fn eight_octets_are_as_one_by_one(octets: [u8; 8]) {
            let lower = octets.map(|octet| octet.to_ascii_lowercase());
            prop_assert_eq!(in_lower_case(u64::from_le_bytes(octets)), u64::from_le_bytes(lower));
        }

        #[test]
        fn ends_agree_with_the_parser(octets in prop::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..80)) {
            let ours = end(&octets);
            if let Ok(message) = Message::parse(&octets) {
                prop_assert_eq!(ours, Some(message.question_end()));
            }
            if let Some(end) = ours {
                prop_assert!(end <= octets.len());
                let _ = check(&octets[HEADER_LENGTH..end]);
            }
            prop_assert!(check_request(&octets).is_err() || ours.is_some());
        }
    }
}
