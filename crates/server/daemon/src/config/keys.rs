//! The keys of the configuration file. Each key is declared once, by [`keys!`]: its type with its bounds or
//! words, its default, its meaning, and whether a reload changes it. The declaration is the struct that serde
//! fills, what the file is checked against, and what the example file, the guide and the manual page are made
//! of.

mod asking;
mod rule;
mod service;
mod types;

pub(super) use asking::{Cache, Forward, Local, Upstream};
pub(super) use rule::{Rule, Top, View};
pub(super) use service::{Clients, Control, Dnstap, Limits, Log, Metrics, Process, Tls, Xdp};
pub(crate) use types::Words;
pub(super) use types::{Choice, Number, Takes, Text, Texts, Written, alternatives, words};

pub(super) struct Table {
    /// As it stands in the file: `[cache]`, `[[view]]`, or nothing for the keys at the top.
    pub heading: &'static str,
    pub meaning: &'static str,
    pub keys: &'static [Key],
    /// A table whose keys may stand in this one, too.
    pub base: Option<&'static Table>,
    /// The default of each key, as TOML.
    pub defaults: fn() -> Vec<String>,
}

pub(super) struct Key {
    pub name: &'static str,
    pub kind: Kind,
    pub meaning: &'static str,
    /// What a text means, where `kind` is one: "a path", "servers".
    pub what: &'static str,
    /// What counts where the key is not written, in words; without them the default is a value.
    pub otherwise: &'static str,
    /// The default, as TOML, where another crate has it.
    pub value: &'static str,
    /// A value as TOML; without it the default is the example.
    pub example: &'static str,
    /// A running program does not take on a new value.
    pub at_start: bool,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Flag,
    /// Or this word.
    FlagOr(&'static str),
    /// The least and the greatest.
    Number(u64, u64),
    /// The same, several times.
    Numbers(u64, u64),
    Choice(&'static [&'static str]),
    Text,
    Texts,
    /// Texts that stand for texts.
    Map,
}

/// What a key that must be written has instead of a default.
pub(super) const NEEDED: &str = "needed";

/// All tables, in the order of the documents.
pub(super) const TABLES: &[&Table] = &[
    &Top::TABLE,
    &Rule::TABLE,
    &View::TABLE,
    &Forward::TABLE,
    &Upstream::TABLE,
    &Cache::TABLE,
    &Local::TABLE,
    &Clients::TABLE,
    &Limits::TABLE,
    &Xdp::TABLE,
    &Tls::TABLE,
    &Control::TABLE,
    &Metrics::TABLE,
    &Log::TABLE,
    &Dnstap::TABLE,
    &Process::TABLE,
];

impl Table {
    /// The name without brackets, nothing for the top.
    pub fn name(&self) -> &'static str {
        self.heading.trim_matches(['[', ']'])
    }

    /// A key of the table or of its base.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        let key = self.keys.iter().find(|key| key.name == name);
        key.or_else(|| self.base?.key(name))
    }

    /// The names of all keys that may stand in the table, and of the tables in the table at the top.
    pub fn names(&self) -> Vec<&'static str> {
        let tables = if self.heading.is_empty() { TABLES } else { &[] };
        let inner = tables.iter().map(|table| table.name()).filter(|name| !name.is_empty());
        let base = self.base.into_iter().flat_map(|base| base.keys);
        self.keys.iter().chain(base).map(|key| key.name).chain(inner).collect()
    }

    /// What counts where the key is not written, as TOML; nothing where only words say it.
    pub fn default(&self, key: &Key) -> String {
        let place = self.keys.iter().position(|own| own.name == key.name);
        let declared = place.and_then(|index| (self.defaults)().into_iter().nth(index)).unwrap_or_default();
        if declared.is_empty() { key.value.to_owned() } else { declared }
    }

    /// A value as it is written in TOML.
    pub fn example(&self, key: &Key) -> String {
        if key.example.is_empty() { self.default(key) } else { key.example.to_owned() }
    }

    /// The keys and values that count at the start alone, of all the values.
    pub fn at_start(&self, values: Vec<String>) -> Vec<(String, String)> {
        let dot = if self.heading.is_empty() { "" } else { "." };
        let marked = self.keys.iter().zip(values).filter(|(key, _)| key.at_start);
        marked.map(|(key, value)| (format!("{}{dot}{}", self.name(), key.name), value)).collect()
    }
}

impl Key {
    /// What the key takes, for a person.
    pub fn takes(&self) -> String {
        match self.kind {
            Kind::Flag => "true or false".to_owned(),
            Kind::FlagOr(word) => format!("true, false or \"{word}\""),
            Kind::Number(low, high) => format!("{low} to {high}"),
            Kind::Numbers(low, high) => format!("a list of {low} to {high}"),
            Kind::Choice(words) => alternatives(words, "\""),
            Kind::Text => self.what.to_owned(),
            Kind::Texts => format!("a list of {}", self.what),
            Kind::Map => "a table of texts".to_owned(),
        }
    }
}

/// Declares a table: its heading, the struct that holds it, and its keys.
///
/// `key: Type = default => { option: value };` where the default or the options may be left out. The options
/// are the fields of [`Key`]; `with { … }` adds fields to the struct that are no keys.
macro_rules! keys {
    (
        $(#[doc = $about:literal])+
        $heading:literal $name:ident $(: $base:ident)? {
            $(
                $(#[doc = $meaning:literal])+
                $key:ident: $type:ty $(= $default:expr)? $(=> { $($option:ident: $value:expr),+ })?;
            )+
        }
        $(with { $($(#[$attribute:meta])* $more:ident: $more_type:ty,)+ })?
    ) => {
        $(#[doc = $about])+
        #[derive(serde::Deserialize)]
        #[serde(default)]
        pub(in crate::config) struct $name {
            $($(#[doc = $meaning])+ pub $key: $type,)+
            $($($(#[$attribute])* pub $more: $more_type,)+)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($key: keys!(@default $type $(, $default)?),)+
                    $($($more: Default::default(),)+)?
                }
            }
        }

        impl $name {
            pub const TABLE: Table = Table {
                heading: $heading,
                meaning: concat!($($about),+).trim_ascii(),
                keys: &[$(Key {
                    $($($option: $value,)+)?
                    ..Key::new(stringify!($key), <$type as Takes>::KIND, concat!($($meaning),+).trim_ascii())
                }),+],
                base: keys!(@base $($base)?),
                defaults: || Self::default().values(),
            };

            /// What each key has, as TOML; nothing for what is not there.
            pub fn values(&self) -> Vec<String> {
                vec![$(self.$key.toml()),+]
            }
        }
    };
    (@default $type:ty, $default:expr) => { <$type as Takes>::preset($default) };
    (@default $type:ty) => { Default::default() };
    (@base $base:ident) => { Some(&$base::TABLE) };
    (@base) => { None };
}
use keys;

impl Key {
    const fn new(name: &'static str, kind: Kind, meaning: &'static str) -> Self {
        Self { name, kind, meaning, what: "", otherwise: "", value: "", example: "", at_start: false }
    }
}
