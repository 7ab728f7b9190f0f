//! What the value of a key can be.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::Kind;
use crate::config::Sandbox;

/// A text, and where it stands in the file.
pub(in crate::config) type Text = Spanned<String>;
/// Texts, where the list stands and where each of them does.
pub(in crate::config) type Texts = Spanned<Vec<Text>>;

/// A value that a key can have.
pub(in crate::config) trait Takes {
    /// What the file is checked against.
    const KIND: Kind;
    /// How a default is written in a declaration.
    type Preset;
    fn preset(value: Self::Preset) -> Self;
    /// The value as it is written in TOML; nothing for a value that is not there.
    fn toml(&self) -> String;
}

impl Takes for bool {
    const KIND: Kind = Kind::Flag;
    type Preset = Self;

    fn preset(value: Self) -> Self {
        value
    }

    fn toml(&self) -> String {
        self.to_string()
    }
}

const REQUIRED: &str = "required";

impl Takes for Sandbox {
    const KIND: Kind = Kind::FlagOr(REQUIRED);
    type Preset = Self;

    fn preset(value: Self) -> Self {
        value
    }

    fn toml(&self) -> String {
        match self {
            Self::Off => "false".to_owned(),
            Self::On => "true".to_owned(),
            Self::Required => format!("{REQUIRED:?}"),
        }
    }
}

impl<'de> Deserialize<'de> for Sandbox {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FlagOrWord;
        impl Visitor<'_> for FlagOrWord {
            type Value = Sandbox;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "true, false or {REQUIRED:?}")
            }

            fn visit_bool<E: Error>(self, on: bool) -> Result<Sandbox, E> {
                Ok(if on { Sandbox::On } else { Sandbox::Off })
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Sandbox, E> {
                (word == REQUIRED)
                    .then_some(Sandbox::Required)
                    .ok_or_else(|| E::custom(format_args!("'{word}': choose true, false or {REQUIRED}")))
            }
        }
        deserializer.deserialize_any(FlagOrWord)
    }
}

/// A number from `LOW` to `HIGH`.
#[derive(Clone, Copy, Deserialize)]
pub(in crate::config) struct Number<T, const LOW: u64, const HIGH: u64>(pub T);

impl<T: Display, const LOW: u64, const HIGH: u64> Takes for Number<T, LOW, HIGH> {
    const KIND: Kind = Kind::Number(LOW, HIGH);
    type Preset = T;

    fn preset(value: T) -> Self {
        Self(value)
    }

    fn toml(&self) -> String {
        self.0.to_string()
    }
}

impl<T: Display, const LOW: u64, const HIGH: u64> Takes for Vec<Number<T, LOW, HIGH>> {
    const KIND: Kind = Kind::Numbers(LOW, HIGH);
    type Preset = [T; 0];

    fn preset([]: [T; 0]) -> Self {
        Self::new()
    }

    fn toml(&self) -> String {
        list(self.iter())
    }
}

/// Something that is written as one of a few words.
pub(crate) trait Words: Copy + PartialEq + 'static {
    const WORDS: &'static [&'static str];
    /// What the words mean, in their order.
    const VALUES: &'static [Self];

    fn word(self) -> &'static str {
        let known = Self::VALUES.iter().zip(Self::WORDS).find(|(value, _)| **value == self);
        known.map_or("", |(_, word)| *word)
    }

    fn of(word: &str) -> Option<Self> {
        let known = Self::VALUES.iter().zip(Self::WORDS).find(|(_, known)| **known == word);
        known.map(|(value, _)| *value)
    }
}

/// Says which word stands for which value.
macro_rules! words {
    ($type:ty { $($word:literal => $value:expr),+ $(,)? }) => {
        impl $crate::config::keys::types::Words for $type {
            const WORDS: &'static [&'static str] = &[$($word),+];
            const VALUES: &'static [Self] = &[$($value),+];
        }
    };
}
pub(in crate::config) use words;

/// One of the words of a type.
#[derive(Clone, Copy)]
pub(in crate::config) struct Choice<T>(pub T);

impl<'de, T: Words> Deserialize<'de> for Choice<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        T::of(&word)
            .map(Self)
            .ok_or_else(|| Error::custom(format_args!("'{word}': choose {}", alternatives(T::WORDS, ""))))
    }
}

impl<T: Words> Takes for Choice<T> {
    const KIND: Kind = Kind::Choice(T::WORDS);
    type Preset = T;

    fn preset(value: T) -> Self {
        Self(value)
    }

    fn toml(&self) -> String {
        format!("{:?}", self.0.word())
    }
}

impl Takes for String {
    const KIND: Kind = Kind::Text;
    type Preset = &'static str;

    fn preset(value: &'static str) -> Self {
        value.to_owned()
    }

    fn toml(&self) -> String {
        format!("{self:?}")
    }
}

impl Takes for Vec<Text> {
    const KIND: Kind = Kind::Texts;
    type Preset = &'static [&'static str];

    fn preset(value: Self::Preset) -> Self {
        value.iter().map(|text| Text::preset(text)).collect()
    }

    fn toml(&self) -> String {
        list(self.iter())
    }
}

impl Takes for BTreeMap<String, Text> {
    const KIND: Kind = Kind::Map;
    type Preset = [(String, Text); 0];

    fn preset(value: Self::Preset) -> Self {
        value.into()
    }

    fn toml(&self) -> String {
        let pairs = self.iter().map(|(key, text)| format!("{key:?} = {}", text.toml()));
        format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
    }
}

impl<T: Takes> Takes for Spanned<T> {
    const KIND: Kind = T::KIND;
    type Preset = T::Preset;

    fn preset(value: T::Preset) -> Self {
        Self::new(0..0, T::preset(value))
    }

    fn toml(&self) -> String {
        self.get_ref().toml()
    }
}

impl<T: Takes> Takes for Option<T> {
    const KIND: Kind = T::KIND;
    type Preset = T::Preset;

    fn preset(value: T::Preset) -> Self {
        Some(T::preset(value))
    }

    fn toml(&self) -> String {
        self.as_ref().map_or_else(String::new, Takes::toml)
    }
}

/// A value, and where it stands in the file; the default stands nowhere.
#[derive(Clone, Copy)]
pub(in crate::config) struct Written<T> {
    pub value: T,
    pub at: Option<usize>,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Spanned::<T>::deserialize(deserializer)?;
        Ok(Self { at: Some(value.span().start), value: value.into_inner() })
    }
}

impl<T: Takes> Takes for Written<T> {
    const KIND: Kind = T::KIND;
    type Preset = T::Preset;

    fn preset(value: T::Preset) -> Self {
        Self { value: T::preset(value), at: None }
    }

    fn toml(&self) -> String {
        self.value.toml()
    }
}

fn list<'v, T: Takes + 'v>(values: impl Iterator<Item = &'v T>) -> String {
    format!("[{}]", values.map(Takes::toml).collect::<Vec<_>>().join(", "))
}

/// `one, two or three`, each between quotes of the given kind.
pub(in crate::config) fn alternatives(words: &[&str], quote: &str) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("{quote}{word}{quote}")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}
