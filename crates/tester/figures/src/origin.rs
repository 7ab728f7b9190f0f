//! Where the figures of a record come from.

use serde::{Deserialize, Serialize};

/// When, of what, and where it was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The day, as `2026-11-23`.
    pub date: String,
    /// The revision of the programs; empty if it is not known.
    pub commit: String,
    /// Processors and kernel.
    pub machine: String,
    /// How the figures came into the record, where no benchmark wrote it; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// A program that was measured, or that measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its name in tables.
    pub name: String,
    /// As it states it.
    pub version: String,
}

impl Origin {
    /// The day, the revision and the machine.
    pub(crate) fn in_words(&self) -> String {
        let commit =
            if self.commit.is_empty() { String::new() } else { format!(", revision {}", self.commit) };
        format!("Measured on {}{commit}: {}", self.date, self.machine)
    }

    /// The note as a sentence of its own.
    pub(crate) fn note(&self) -> String {
        if self.note.is_empty() { String::new() } else { format!(" {}", self.note) }
    }
}

/// Names with their versions.
pub(crate) fn versions<'a>(programs: impl IntoIterator<Item = &'a Program>) -> String {
    let named = |program: &Program| format!("{} {}", program.name, program.version);
    programs.into_iter().map(named).collect::<Vec<_>>().join(", ")
}
