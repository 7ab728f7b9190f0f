//! Domain names (RFC 1035 3.1, 4.1.4).

use std::fmt;

use super::{Malformed, NAME_LENGTH_MAX};
use crate::effort::Effort;
use crate::steps;

/// The most compression pointers that are followed in one name: as many as a name has labels.
const POINTERS_MAX: usize = NAME_LENGTH_MAX / 2;

/// A domain name in uncompressed wire format, its case kept.
#[derive(Clone, Copy)]
pub struct Name {
    octets: [u8; NAME_LENGTH_MAX],
    length: u8,
}

impl Name {
    /// The root: one octet of zero.
    pub const ROOT: Self = Self { octets: [0; NAME_LENGTH_MAX], length: 1 };

    /// Reads a name that may be compressed; returns it with the position after it.
    ///
    /// # Errors
    /// A label of a reserved kind, a pointer that does not point backwards, a name of over 255 octets, or no
    /// end.
    pub fn parse(message: &[u8], at: usize) -> Result<(Self, usize), Malformed> {
        Self::parse_within(message, at, &mut Effort::of_one_name())
    }

    /// The same with a bound for all names of a message.
    ///
    /// # Errors
    /// Those of [`Name::parse`]; no effort is left.
    pub(crate) fn parse_within(
        message: &[u8],
        at: usize,
        effort: &mut Effort,
    ) -> Result<(Self, usize), Malformed> {
        let mut name = Self::ROOT;
        let mut length = 0usize;
        let mut position = at;
        let mut end = None;
        let mut lowest = at;
        let mut pointers = 0;
        loop {
            let &octet = message.get(position).ok_or(Malformed("name runs over the end"))?;
            steps::add(1);
            effort.spend(1)?;
            match octet & 0xc0 {
                0x00 => {
                    let label = message
                        .get(position..=position + usize::from(octet))
                        .ok_or(Malformed("label runs over the end"))?;
                    let place = name
                        .octets
                        .get_mut(length..length + label.len())
                        .ok_or(Malformed("name over 255 octets"))?;
                    place.copy_from_slice(label);
                    length += label.len();
                    position += label.len();
                    if octet == 0 {
                        name.length = length as u8;
                        return Ok((name, end.unwrap_or(position)));
                    }
                }
                0xc0 => {
                    let &low = message.get(position + 1).ok_or(Malformed("pointer runs over the end"))?;
                    let target = usize::from(octet & 0x3f) << 8 | usize::from(low);
                    // Strictly backwards from everything read so far: no loop is possible.
                    if target >= lowest {
                        return Err(Malformed("compression pointer does not point backwards"));
                    }
                    // One before each label is plenty; thousands in a row would cost a reader its time.
                    pointers += 1;
                    if pointers > POINTERS_MAX {
                        return Err(Malformed("too many compression pointers"));
                    }
                    end.get_or_insert(position + 2);
                    position = target;
                    lowest = target;
                }
                _ => return Err(Malformed("reserved label type")),
            }
        }
    }

    /// The name in these octets, which [`end_uncompressed`] has read.
    pub(super) fn of_uncompressed(wire: &[u8]) -> Self {
        let mut name = Self::ROOT;
        name.octets[..wire.len()].copy_from_slice(wire);
        name.length = wire.len() as u8;
        name
    }

    /// Whether the name that begins at `at` is this one, whatever the case. It is read no further than it is
    /// alike: what is malformed behind that is not seen.
    ///
    /// # Errors
    /// Those of [`Name::parse`]; no effort is left.
    pub(crate) fn stands_at(
        &self,
        message: &[u8],
        at: usize,
        effort: &mut Effort,
    ) -> Result<bool, Malformed> {
        let (mut position, mut lowest, mut pointers) = (at, at, 0);
        let mut rest = self.as_wire();
        loop {
            let &octet = message.get(position).ok_or(Malformed("name runs over the end"))?;
            steps::add(1);
            effort.spend(1)?;
            match octet & 0xc0 {
                0x00 => {
                    let length = usize::from(octet) + 1;
                    let label = message
                        .get(position..position + length)
                        .ok_or(Malformed("label runs over the end"))?;
                    match rest.split_at_checked(length) {
                        Some((own, tail)) if own.eq_ignore_ascii_case(label) => rest = tail,
                        _ => return Ok(false),
                    }
                    if octet == 0 {
                        return Ok(true);
                    }
                    position += length;
                }
                0xc0 => {
                    let &low = message.get(position + 1).ok_or(Malformed("pointer runs over the end"))?;
                    position = usize::from(octet & 0x3f) << 8 | usize::from(low);
                    pointers += 1;
                    if position >= lowest || pointers > POINTERS_MAX {
                        return Err(Malformed("compression pointer does not point backwards"));
                    }
                    lowest = position;
                }
                _ => return Err(Malformed("reserved label type")),
            }
        }
    }

    /// Reads a name from text without escapes, for example `dns64perf.test`; a dot at the end may be left
    /// out.
    ///
    /// # Errors
    /// An empty label, one of over 63 octets, or a name of over 255.
    pub fn from_text(text: &str) -> Result<Self, Malformed> {
        let mut name = Self::ROOT;
        let text = text.strip_suffix('.').unwrap_or(text);
        let mut length = 0;
        for label in text.split('.').filter(|_| !text.is_empty()) {
            if label.is_empty() || label.len() > 63 {
                return Err(Malformed("a label must have 1 to 63 characters"));
            }
            let place = name
                .octets
                .get_mut(length..=length + label.len())
                .ok_or(Malformed("name over 255 octets"))?;
            place[0] = label.len() as u8;
            place[1..].copy_from_slice(label.as_bytes());
            length += label.len() + 1;
        }
        *name.octets.get_mut(length).ok_or(Malformed("name over 255 octets"))? = 0;
        name.length = length as u8 + 1;
        Ok(name)
    }

    /// The wire format, with the root label at its end.
    pub fn as_wire(&self) -> &[u8] {
        &self.octets[..usize::from(self.length)]
    }

    /// The labels without the root.
    pub fn labels(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.as_wire();
        std::iter::from_fn(move || {
            let (&length, tail) = rest.split_first().filter(|(length, _)| **length != 0)?;
            let (label, tail) = tail.split_at(usize::from(length));
            rest = tail;
            Some(label)
        })
    }

    /// The name without its first label; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        let skip = usize::from(self.octets[0]) + 1;
        (skip > 1).then(|| {
            let mut parent = Self::ROOT;
            let rest = &self.as_wire()[skip..];
            parent.octets[..rest.len()].copy_from_slice(rest);
            parent.length = rest.len() as u8;
            parent
        })
    }

    /// The name of `label` directly below this one.
    ///
    /// # Errors
    /// A label that is empty or over 63 octets, or a name of over 255.
    pub fn below(&self, label: &[u8]) -> Result<Self, Malformed> {
        if label.is_empty() || label.len() > 63 {
            return Err(Malformed("a label must have 1 to 63 characters"));
        }
        let mut name = Self::ROOT;
        let length = 1 + label.len() + self.as_wire().len();
        let place = name.octets.get_mut(..length).ok_or(Malformed("name over 255 octets"))?;
        place[0] = label.len() as u8;
        place[1..=label.len()].copy_from_slice(label);
        place[1 + label.len()..].copy_from_slice(self.as_wire());
        name.length = length as u8;
        Ok(name)
    }

    /// The ending of this name that is as long as `ancestor`, in this name's spelling; `None` where this name
    /// is not `ancestor` or below it.
    pub fn ending(&self, ancestor: &Self) -> Option<Self> {
        let skip = self.as_wire().len().checked_sub(ancestor.as_wire().len())?;
        self.is_under(ancestor).then(|| {
            let mut ending = *ancestor;
            ending.octets[..ancestor.as_wire().len()].copy_from_slice(&self.as_wire()[skip..]);
            ending
        })
    }

    /// The name in lower case, as DNSSEC hashes and signs it (RFC 4034 6.2).
    #[must_use]
    pub fn to_lowercase(&self) -> Self {
        let mut name = *self;
        // Length octets are below 64 and so are never letters.
        name.octets.make_ascii_lowercase();
        name
    }

    /// The name with other cases of letters (0x20): where bit n of `bits` is set (bit n % 8 of octet n / 8),
    /// its octet n, if it is a letter.
    #[must_use]
    pub fn with_flipped_case(&self, bits: &[u8; 32]) -> Self {
        let mut name = *self;
        for (octets, &bits) in name.octets[..usize::from(self.length)].chunks_mut(8).zip(bits) {
            let flipped = flipped(bits, octets);
            octets.copy_from_slice(&flipped[..octets.len()]);
        }
        name
    }

    /// Whether `wire` is this name with these cases of letters, as [`Name::with_flipped_case`] makes them,
    /// octet for octet.
    pub fn is_flipped(&self, bits: &[u8; 32], wire: &[u8]) -> bool {
        let own = &self.octets[..usize::from(self.length)];
        let parts = own.chunks(8).zip(wire.chunks(8)).zip(bits);
        wire.len() == own.len()
            && parts.into_iter().all(|((own, other), &bits)| flipped(bits, own)[..own.len()] == *other)
    }

    /// This name with `new` in the place of `old`, which is an ending of it (RFC 6672 2.2).
    ///
    /// # Errors
    /// `old` is longer than the name, or the new name has over 255 octets.
    pub fn with_ending(&self, old: &Self, new: &Self) -> Result<Self, Malformed> {
        let kept = self.as_wire().len().checked_sub(old.as_wire().len());
        let kept = &self.as_wire()[..kept.ok_or(Malformed("ending longer than the name"))?];
        let mut name = Self::ROOT;
        let length = kept.len() + new.as_wire().len();
        let place = name.octets.get_mut(..length).ok_or(Malformed("name over 255 octets"))?;
        place[..kept.len()].copy_from_slice(kept);
        place[kept.len()..].copy_from_slice(new.as_wire());
        name.length = length as u8;
        Ok(name)
    }

    /// A hash that equal names have in common, whatever the case. Anybody can make others that have it.
    pub(crate) fn folded_hash(&self) -> u64 {
        const CASE: u64 = 0x2020_2020_2020_2020;
        steps::add_octets(self.as_wire().len());
        self.as_wire().chunks(8).fold(0, |hash, chunk| {
            let word = chunk.iter().fold(0u64, |word, &octet| word << 8 | u64::from(octet));
            (hash ^ (word | CASE)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        })
    }

    /// The most steps that [`Name::is_under`] takes for this name, and likewise a comparison.
    pub(crate) fn comparison_steps(&self, ancestor: &Self) -> usize {
        let (own, other) = (self.as_wire().len(), ancestor.as_wire().len());
        1 + other / 16 + own.saturating_sub(other) / 2
    }

    /// Whether this is `ancestor` or a name below it, whatever the case.
    pub fn is_under(&self, ancestor: &Self) -> bool {
        let (own, other) = (self.as_wire(), ancestor.as_wire());
        let Some(skip) = own.len().checked_sub(other.len()) else { return false };
        steps::add_octets(other.len());
        if !own[skip..].eq_ignore_ascii_case(other) {
            return false;
        }
        // The ending must begin where a label does.
        let mut at = 0;
        while at < skip {
            steps::add(1);
            at += usize::from(own[at]) + 1;
        }
        at == skip
    }
}

/// Up to eight octets of a name, all at once, in the case that the bits give them. Length octets are below 64
/// and so are never letters.
fn flipped(bits: u8, octets: &[u8]) -> [u8; 8] {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x80 * ONES;
    let mut word = [0; 8];
    word[..octets.len()].copy_from_slice(octets);
    let word = u64::from_le_bytes(word);
    // Bit n of the bits, anywhere in octet n; then in its top bit. No sum carries into the next octet.
    let spread = (u64::from(bits) * ONES) & 0x8040_2010_0804_0201;
    let chosen = spread + 0x7f * ONES;
    let lower = (word | (0x20 * ONES)) & !TOPS;
    let from_a = lower + u64::from(0x80 - b'a') * ONES;
    let beyond_z = lower + u64::from(0x7f - b'z') * ONES;
    let letters = from_a & !beyond_z & !word;
    (word ^ (letters & chosen & TOPS) >> 2).to_le_bytes()
}

/// The position after a name without compression.
///
/// # Errors
/// A compression pointer, a label of a reserved kind, a name of over 255 octets, or no end.
pub(super) fn end_uncompressed(message: &[u8], at: usize) -> Result<usize, Malformed> {
    let mut position = at;
    loop {
        let &octet = message.get(position).ok_or(Malformed("name runs over the end"))?;
        steps::add(1);
        match octet & 0xc0 {
            0x00 => position += usize::from(octet) + 1,
            0xc0 => return Err(Malformed("compressed question")),
            _ => return Err(Malformed("reserved label type")),
        }
        if position - at > NAME_LENGTH_MAX {
            return Err(Malformed("name over 255 octets"));
        }
        if octet == 0 {
            return Ok(position);
        }
    }
}

impl PartialEq for Name {
    /// Whatever the case (RFC 4343). Length octets are below 64 and so are never letters.
    fn eq(&self, other: &Self) -> bool {
        steps::add_octets(self.as_wire().len());
        self.as_wire().eq_ignore_ascii_case(other.as_wire())
    }
}

impl Eq for Name {}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.length == 1 {
            return f.write_str(".");
        }
        for label in self.labels() {
            for &octet in label {
                match octet {
                    b'.' | b'\\' => write!(f, "\\{}", char::from(octet))?,
                    0x21..=0x7e => write!(f, "{}", char::from(octet))?,
                    _ => write!(f, "\\{octet:03}")?,
                }
            }
            f.write_str(".")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Eight octets at once come to what one after the other does.
        #[test]
        fn the_case_of_letters_follows_the_bits(text in "([a-zA-Z0-9@\\[`{_-]{1,40}\\.){0,6}", bits: [u8; 32]) {
            let name = Name::from_text(&text).unwrap();
            let flip = |(at, &octet): (usize, &u8)| {
                let flips = bits[at / 8] >> (at % 8) & 1 == 1 && octet.is_ascii_alphabetic();
                octet ^ u8::from(flips) << 5
            };
            let expected: Vec<u8> = name.as_wire().iter().enumerate().map(flip).collect();
            let flipped = name.with_flipped_case(&bits);
            prop_assert_eq!(flipped.as_wire(), &expected[..]);
            prop_assert!(name.is_flipped(&bits, &expected));
            prop_assert_eq!(flipped.is_flipped(&[0; 32], name.as_wire()), expected == name.as_wire());
            prop_assert!(!name.is_flipped(&bits, &expected[1..]));
        }
    }
}
