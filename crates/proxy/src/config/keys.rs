//! The table of keys: what may be written, its default and its meaning. The documents are made of it.

mod asking;
mod rule;
mod service;

use asking::{CACHE, FORWARD, LOCAL, UPSTREAM};
use rule::{DNS64, TOP, VIEW};
use service::{CLIENTS, CONTROL, DNSTAP, LIMITS, LOG, METRICS, PROCESS, TLS, XDP};

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
    /// One text, of this kind.
    Text(&'static str),
    /// Several texts, of this kind.
    Texts(&'static str),
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

/// A key whose example is its default.
const fn key(name: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> Key {
    Key { name, kind, default: Fallback::Value(default), example: default, meaning }
}

/// A key whose example is another value.
const fn example(mut key: Key, example: &'static str) -> Key {
    key.example = example;
    key
}

/// A key without a value of its own.
const fn open(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    example: &'static str,
    meaning: &'static str,
) -> Key {
    Key { name, kind, default: Fallback::Words(default), example, meaning }
}

/// All tables, in the order of the documents.
pub(super) const TABLES: &[Table] = &[
    Table {
        name: "",
        header: Header::None,
        meaning: "The least that must be written is `upstreams`.",
        keys: TOP,
    },
    Table {
        name: "dns64",
        header: Header::Once,
        meaning: "The DNS64 rule (RFC 6147), for everybody whose view does not say otherwise.",
        keys: DNS64,
    },
    Table {
        name: "view",
        header: Header::Repeated,
        meaning: "What one network of clients is given. The first view that takes a client counts; the view `default` \
                  of the keys outside takes the rest. Beside these keys, a view takes every key of `[dns64]`, which \
                  then counts in its place.",
        keys: VIEW,
    },
    Table {
        name: "forward",
        header: Header::Repeated,
        meaning: "Questions below some domains go to servers of their own; the longest domain counts.",
        keys: FORWARD,
    },
    Table {
        name: "upstream",
        header: Header::Once,
        meaning: "How upstream servers are asked.",
        keys: UPSTREAM,
    },
    Table {
        name: "cache",
        header: Header::Once,
        meaning: "What is kept of the answers: what the upstream servers said, once for all views.",
        keys: CACHE,
    },
    Table { name: "local", header: Header::Once, meaning: "What is answered without asking.", keys: LOCAL },
    Table {
        name: "clients",
        header: Header::Once,
        meaning: "What clients are told beside the answer.",
        keys: CLIENTS,
    },
    Table {
        name: "limits",
        header: Header::Once,
        meaning: "Bounds on what clients can make the server do.",
        keys: LIMITS,
    },
    Table {
        name: "xdp",
        header: Header::Once,
        meaning: "UDP past the kernel's stack (AF_XDP). It needs capabilities at the start, and the stack's firewall \
                  rules do not see these datagrams.",
        keys: XDP,
    },
    Table {
        name: "tls",
        header: Header::Once,
        meaning: "What listeners of tls://, https:// and quic:// show. Files are read again at a reload.",
        keys: TLS,
    },
    Table { name: "control", header: Header::Once, meaning: "Orders from `dns64d control`.", keys: CONTROL },
    Table {
        name: "metrics",
        header: Header::Once,
        meaning: "Metrics for Prometheus, by HTTP at /metrics.",
        keys: METRICS,
    },
    Table { name: "log", header: Header::Once, meaning: "What is written to stderr.", keys: LOG },
    Table {
        name: "dnstap",
        header: Header::Optional,
        meaning: "Messages as dnstap, over a Frame Streams socket. What the receiver does not take in time is lost \
                  and counted.",
        keys: DNSTAP,
    },
    Table {
        name: "process",
        header: Header::Once,
        meaning: "What the process gives up when its sockets are open.",
        keys: PROCESS,
    },
];

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
            Self::Text(what) => what.to_owned(),
            Self::Texts(what) => format!("a list of {what}"),
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
