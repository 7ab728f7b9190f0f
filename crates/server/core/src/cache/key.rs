//! The key of a cached reply.

use std::fmt;
use std::hash::{Hash, Hasher};

use dns64::steps;
use dns64::wire::{NAME_LENGTH_MAX, Name, Question};

/// QTYPE, QCLASS, the flags DO and CD, the group: what stands before the name.
const NAME_AT: usize = 9;

const DNSSEC_OK: u8 = 1;
const CHECKING_DISABLED: u8 = 2;

/// A question as a group of upstream servers was asked it: the name in lower case, type, class, DO, CD and
/// the group.
///
/// DO and CD belong to it because a server answers differently: with or without signatures, with or without
/// what it found to be bogus (RFC 4035 3.2). Two keys are equal when the same reply serves both.
#[derive(Clone, Copy)]
pub struct Key {
    octets: [u8; NAME_AT + NAME_LENGTH_MAX],
    length: u16,
}

impl Key {
    /// The key of a question, asked with these bits of a group of upstream servers.
    pub fn new(question: &Question, dnssec_ok: bool, checking_disabled: bool, group: usize) -> Self {
        let name = question.name.as_wire();
        steps::add_octets(name.len());
        let mut octets = [0; NAME_AT + NAME_LENGTH_MAX];
        octets[..2].copy_from_slice(&question.qtype.to_be_bytes());
        octets[2..4].copy_from_slice(&question.qclass.to_be_bytes());
        let flag = |set, flag| if set { flag } else { 0 };
        octets[4] = flag(dnssec_ok, DNSSEC_OK) | flag(checking_disabled, CHECKING_DISABLED);
        // Groups are numbered from 0: no configuration holds 2^32 of them.
        octets[5..NAME_AT].copy_from_slice(&(group as u32).to_be_bytes());
        let place = &mut octets[NAME_AT..NAME_AT + name.len()];
        place.copy_from_slice(name);
        // Length octets are below 64 and so are never letters.
        place.make_ascii_lowercase();
        Self { octets, length: (NAME_AT + name.len()) as u16 }
    }

    /// All of it in one row, which no two keys share.
    pub(crate) fn as_octets(&self) -> &[u8] {
        &self.octets[..usize::from(self.length)]
    }

    /// QTYPE.
    pub(super) fn qtype(&self) -> u16 {
        u16::from_be_bytes([self.octets[0], self.octets[1]])
    }

    /// The same question for another type.
    pub(super) fn with_qtype(mut self, qtype: u16) -> Self {
        self.octets[..2].copy_from_slice(&qtype.to_be_bytes());
        self
    }

    /// The keys of this name and of those above it but the root, the longest first, for another type: of
    /// those whose number of labels is wanted.
    pub(super) fn upwards(&self, qtype: u16, wanted: impl Fn(usize) -> bool) -> impl Iterator<Item = Self> {
        let (mut at, mut left) = (NAME_AT, self.labels());
        std::iter::from_fn(move || {
            while left > 0 {
                let (start, labels) = (at, left);
                at += usize::from(self.octets[at]) + 1;
                left -= 1;
                if wanted(labels) {
                    return Some(self.ending_at(start).with_qtype(qtype));
                }
            }
            None
        })
    }

    /// How many labels the name has besides the root.
    pub(super) fn labels(&self) -> usize {
        let (mut at, mut labels) = (NAME_AT, 0);
        while self.octets[at] != 0 {
            at += usize::from(self.octets[at]) + 1;
            labels += 1;
        }
        steps::add(labels);
        labels
    }

    /// The same question for the ending of the name that begins at `start`.
    fn ending_at(&self, start: usize) -> Self {
        let end = usize::from(self.length);
        steps::add_octets(end - start);
        let mut octets = [0; NAME_AT + NAME_LENGTH_MAX];
        octets[..NAME_AT].copy_from_slice(&self.octets[..NAME_AT]);
        octets[NAME_AT..NAME_AT + end - start].copy_from_slice(&self.octets[start..end]);
        Self { octets, length: (NAME_AT + end - start) as u16 }
    }
}

/// The name in the octets of a key.
pub(super) fn name_of(key: &[u8]) -> Option<Name> {
    Name::parse(key, NAME_AT).ok().map(|(name, _)| name)
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.as_octets() == other.as_octets()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_octets().hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |at: usize| u16::from_be_bytes([self.octets[at], self.octets[at + 1]]);
        let name = name_of(self.as_octets()).unwrap_or(Name::ROOT);
        write!(f, "{name} type {} class {} flags {}", word(0), word(2), self.octets[4])
    }
}
