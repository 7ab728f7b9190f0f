//! The kinds of faults, and how often each fault was applied to an answer.

use std::fmt;

use serde::ser::{Serialize, SerializeMap, Serializer};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// No answer.
    Loss,
    /// No answer to AAAA.
    AaaaSilent,
    /// A late answer.
    Delay,
    /// Two answers.
    Duplicate,
    /// TC without records.
    Truncate,
    /// An RCODE without records.
    Rcode,
    /// Another ID.
    WrongId,
    /// Another question.
    WrongQuestion,
    /// A referral to the root.
    Lame,
    /// Damaged signatures.
    Bogus,
}

impl Kind {
    /// All kinds, by their numbers.
    pub const ALL: [Self; 10] = [
        Self::Loss,
        Self::AaaaSilent,
        Self::Delay,
        Self::Duplicate,
        Self::Truncate,
        Self::Rcode,
        Self::WrongId,
        Self::WrongQuestion,
        Self::Lame,
        Self::Bogus,
    ];

    /// Its name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::AaaaSilent => "aaaa-silent",
            Self::Delay => "delay",
            Self::Duplicate => "duplicate",
            Self::Truncate => "truncate",
            Self::Rcode => "rcode",
            Self::WrongId => "wrong-id",
            Self::WrongQuestion => "wrong-question",
            Self::Lame => "lame",
            Self::Bogus => "bogus",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of kinds: what befell one answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u16);

impl Kinds {
    /// Adds a kind.
    pub fn add(&mut self, kind: Kind) {
        self.0 |= 1 << kind as u8;
    }

    /// Whether a kind is among them.
    pub fn has(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// How many answers each kind befell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts(pub(crate) [u64; Kind::ALL.len()]);

impl Counts {
    /// How often a kind befell an answer.
    pub fn of(&self, kind: Kind) -> u64 {
        self.0[kind as usize]
    }

    /// Answers that were not sent at all.
    pub fn lost(&self) -> u64 {
        self.of(Kind::Loss) + self.of(Kind::AaaaSilent)
    }

    /// Whether there were no faults.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; Kind::ALL.len()]
    }

    /// Those that happened.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, u64)> + '_ {
        Kind::ALL.into_iter().map(|kind| (kind, self.of(kind))).filter(|(_, count)| *count > 0)
    }

    /// Counts what befell one answer.
    pub fn count(&mut self, kinds: Kinds) {
        for kind in Kind::ALL.into_iter().filter(|&kind| kinds.has(kind)) {
            self.0[kind as usize] += 1;
        }
    }
}

impl Serialize for Counts {
    /// A map from the names of the kinds that happened.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (kind, count) in self.iter() {
            map.serialize_entry(kind.name(), &count)?;
        }
        map.end()
    }
}
