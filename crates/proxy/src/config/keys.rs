//! The table of keys: what may be written, its default and its meaning. The documents are made of it.

mod tables;

pub(super) use tables::TABLES;

/// A table of the file; the first, without a name, has the keys at its top.
pub(super) struct Table {
    pub name: &'static str,
    /// How often it may stand in the file.
    pub header: Header,
    pub meaning: &'static str,
    pub keys: &'static [Key],
}

/// How a table is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    /// The top of the file.
    None,
    /// `[name]`, which does nothing without keys.
    Once,
    /// `[name]`, which does something by itself.
    Optional,
    /// `[[name]]`, as often as needed.
    Repeated,
}

/// One key.
pub(super) struct Key {
    pub name: &'static str,
    pub kind: Kind,
    pub default: Fallback,
    /// A value as it is written in TOML.
    pub example: &'static str,
    pub meaning: &'static str,
}

/// What a key takes.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Flag,
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

/// What counts where the key is not written.
#[derive(Clone, Copy)]
pub(super) enum Fallback {
    /// This value, as it is written in TOML.
    Value(&'static str),
    /// What these words say.
    Words(&'static str),
}

/// The key of a path like `view[0].ptr`; a view has the keys of `[dns64]`, too.
fn find(path: &str) -> Option<&'static Key> {
    let (table, name) = path.split_once('.').unwrap_or(("", path));
    let without_index = |text: &'_ str| text.split('[').next().unwrap_or_default().to_owned();
    let (table, name) = (without_index(table), without_index(name));
    let in_table = |table: &str| {
        let table = TABLES.iter().find(|candidate| candidate.name == table)?;
        table.keys.iter().find(|key| key.name == name)
    };
    in_table(&table).or_else(|| in_table("dns64").filter(|_| table == "view"))
}

/// The least and the greatest value of a number.
pub(super) fn bounds(path: &str) -> (u64, u64) {
    match find(path).map(|key| key.kind) {
        Some(Kind::Number(low, high) | Kind::Numbers(low, high)) => (low, high),
        _ => (0, u64::MAX),
    }
}

/// What to write for a key.
pub(super) fn advice(path: &str) -> Option<String> {
    find(path).map(|key| format!("{}, for example {}", key.kind.words(), key.example))
}

impl Kind {
    /// What it takes, for a person.
    pub fn words(self) -> String {
        match self {
            Self::Flag => "true or false".to_owned(),
            Self::Number(low, high) => format!("{low} to {high}"),
            Self::Numbers(low, high) => format!("a list of {low} to {high}"),
            Self::Choice(words) => alternatives(words, "\""),
            Self::Text => "a text".to_owned(),
            Self::Texts => "a list of texts".to_owned(),
            Self::Map => "a table of texts".to_owned(),
        }
    }
}

/// `one, two or three`, each between quotes of the given kind.
pub(super) fn alternatives(words: &[&str], quote: &str) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("{quote}{word}{quote}")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}
