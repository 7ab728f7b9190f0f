//! Hashes of the endings of names: of all of them in one pass.

use super::Name;

/// Odd, so that it has an inverse: 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// FACTOR * INVERSE = 1 modulo 2^64.
const INVERSE: u64 = inverse(FACTOR);

/// The hash of an ending, octet for octet. The hash of the ending that is shorter by one label follows from
/// it: hash = hash of the first label + FACTOR * hash of the rest, modulo 2^64. Anybody can make two names of
/// one hash: what it finds must be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EndingHash(u64);

impl EndingHash {
    /// The hash of a whole name, and how many labels it has.
    pub(super) fn of(name: &Name) -> (Self, usize) {
        let wire = name.as_wire();
        let (mut hash, mut power, mut at, mut labels) = (0u64, 1u64, 0, 0);
        while wire[at] != 0 {
            let next = at + 1 + usize::from(wire[at]);
            hash = hash.wrapping_add(label_hash(&wire[at..next]).wrapping_mul(power));
            power = power.wrapping_mul(FACTOR);
            at = next;
            labels += 1;
        }
        (Self(hash), labels)
    }

    /// The hash without the first label, which stands behind its length here.
    pub(super) fn without(self, label: &[u8]) -> Self {
        Self(self.0.wrapping_sub(label_hash(label)).wrapping_mul(INVERSE))
    }

    /// 32 bits of it, and one bit of 128 to look for first.
    pub(super) fn parts(self) -> (u32, u128) {
        ((self.0 >> 32) as u32, 1 << (self.0 >> 57))
    }
}

fn label_hash(label: &[u8]) -> u64 {
    label.chunks(8).fold(0, |hash, chunk| {
        let word = chunk.iter().fold(0u64, |word, &octet| word << 8 | u64::from(octet));
        (hash ^ word).wrapping_mul(FACTOR).rotate_left(29)
    })
}

/// The inverse of an odd number modulo 2^64: each of Newton's steps doubles the bits that are right.
const fn inverse(number: u64) -> u64 {
    let mut inverse = number;
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(number.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_hash_of_an_ending_is_that_of_the_name_it_is(text in "([a-z]{1,20}\\.){0,8}") {
            let mut name = Name::from_text(&text).unwrap();
            let (mut hash, _) = EndingHash::of(&name);
            while let Some(parent) = name.parent() {
                let label = 1 + name.labels().next().unwrap().len();
                hash = hash.without(&name.as_wire()[..label]);
                prop_assert_eq!(hash, EndingHash::of(&parent).0);
                name = parent;
            }
            prop_assert_eq!(hash, EndingHash::default());
        }
    }
}
