//! Letters and digits of random labels.

use record::random;

/// So many characters hold all 64 bits of a place, five each.
pub(super) const CHARACTERS_PER_PLACE: usize = 13;

/// Fills `label` with letters and digits for a place of a seed. No two places share their first 13
/// characters.
pub(super) fn write(seed: u64, place: u64, label: &mut [u8]) {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut key = random::mix(seed);
    for part in label.chunks_mut(CHARACTERS_PER_PLACE) {
        let mut bits = random::mix(place ^ key);
        for letter in part {
            *letter = ALPHABET[(bits & 31) as usize];
            bits >>= 5;
        }
        key = random::mix(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_labels_differ() {
        let mut labels: Vec<_> = (0..10_000)
            .map(|place| {
                let mut label = [0; CHARACTERS_PER_PLACE];
                write(4, place, &mut label);
                label
            })
            .collect();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), 10_000);
        assert!(labels.iter().flatten().all(u8::is_ascii_alphanumeric));
    }

    #[test]
    fn long_labels_do_not_repeat_their_beginning() {
        let mut label = [0; 63];
        write(4, 9, &mut label);
        assert_ne!(label[..13], label[13..26]);
        assert_ne!(label[13..26], label[26..39]);
    }
}
