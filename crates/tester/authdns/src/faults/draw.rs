//! The draw: which queries a fault meets, from the query alone, so that every back-end and every run draws
//! the same.

use dns64::wire::HEADER_LENGTH;
use record::random::mix;

/// How many octets of QNAME, length octets included, take part in a draw. A name of the zone's rule differs
/// within them.
pub const NAME_OCTETS: usize = 16;
/// The bit that makes an ASCII letter lower case.
const LOWER_CASE: u8 = 0x20;
/// The increment of splitmix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// 32 evenly spread bits for a query. A client that asks again with another ID draws anew; one that repeats
/// the query as it was draws the same.
///
/// `name` is what [`name_octets`] gives. In words of 64 bits, little-endian: h = seed; for each of the two
/// words of the name and (id << 16 | qtype): h = mix((h ^ word) + STEP), with mix the finalizer of
/// splitmix64; the upper half of h.
pub fn draw(seed: u64, id: u16, qtype: u16, name: &[u8; NAME_OCTETS]) -> u32 {
    (bits(seed, id, qtype, name) >> 32) as u32
}

/// All 64 bits of which [`draw`] is the upper half.
pub(super) fn bits(seed: u64, id: u16, qtype: u16, name: &[u8; NAME_OCTETS]) -> u64 {
    let (low, high) = name.split_at(NAME_OCTETS / 2);
    let word = |octets: &[u8]| octets.iter().rev().fold(0, |word, octet| word << 8 | u64::from(*octet));
    [word(low), word(high), u64::from(id) << 16 | u64::from(qtype)]
        .into_iter()
        .fold(seed, |h, word| mix((h ^ word).wrapping_add(STEP)))
}

/// The first octets of a message's QNAME as a draw takes them: each with the bit of lower case set, so that
/// the case does not matter; what lies beyond the end of the name counts as zero.
pub fn name_octets(message: &[u8]) -> [u8; NAME_OCTETS] {
    let name = message.get(HEADER_LENGTH..).unwrap_or_default();
    let mut octets = [0; NAME_OCTETS];
    let mut left = 0;
    for (place, &octet) in octets.iter_mut().zip(name) {
        *place = octet;
        match left {
            0 if octet == 0 => break,
            // A pointer or a reserved kind of label: no name of a question, taken as octets like others.
            0 => left = octet,
            _ => left -= 1,
        }
    }
    octets.map(|octet| octet | LOWER_CASE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &[u8]) -> Vec<u8> {
        [&[0; HEADER_LENGTH], name, &[0, 28, 0, 1]].concat()
    }

    #[test]
    fn draws_are_even_and_depend_on_everything() {
        let name = name_octets(&message(b"\x0f010-000-000-007\x04test\0"));
        let mut counts = [0u32; 16];
        for id in 0..=u16::MAX {
            counts[(draw(1, id, 28, &name) >> 28) as usize] += 1;
        }
        assert!(counts.iter().all(|count| count.abs_diff(4096) < 300), "{counts:?}");
        let one = draw(1, 7, 28, &name);
        let other_name = name_octets(&message(b"\x0f010-000-000-008\x04test\0"));
        for other in
            [draw(2, 7, 28, &name), draw(1, 8, 28, &name), draw(1, 7, 1, &name), draw(1, 7, 28, &other_name)]
        {
            assert_ne!(one, other);
        }
    }

    /// The kernel's program computes the same; these numbers hold both to it.
    #[test]
    fn draws_are_for_ever_the_same() {
        let name = name_octets(&message(b"\x0f010-000-000-007\x09dns64perf\x04test\0"));
        assert_eq!(&name, b"\x2f010-000-000-007");
        assert_eq!([draw(0, 0, 1, &name), draw(42, 0xbeef, 28, &name)], [1_624_664_162, 2_282_645_566]);
    }

    #[test]
    fn case_does_not_matter_and_short_names_end() {
        assert_eq!(name_octets(&message(b"\x03WwW\x04TeSt\0")), name_octets(&message(b"\x03www\x04test\0")));
        assert_eq!(&name_octets(&message(b"\x03www\0")), b"\x23www            ");
        assert_eq!(&name_octets(&[1, 2, 3]), b"                ");
    }
}
