//! `docs/performance/promises.json`: what README.md and docs promise, measured with whole programs.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::document::wrapped;
use crate::sample::{ONCE, table};

/// What every revision of a tree with changes ends with.
const DIRTY: &str = "-dirty";

/// Runs of `benches/promises`. Each row is as old as it says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// In the order of their names.
    pub rows: Vec<Promise>,
}

/// A promise, and what was seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promise {
    /// The row of `benches/promises`; a row may have several cases.
    pub row: String,
    /// What was measured.
    pub case: String,
    /// What is promised.
    pub promise: String,
    /// What was seen.
    pub seen: String,
    /// Whether that keeps the promise.
    pub kept: bool,
    /// So often it was measured, in this run of the benchmark.
    pub rounds: u32,
    /// The day, as `2026-11-23`.
    pub measured: String,
    /// The revision of the programs, as `git describe --always --dirty` names it; empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// Processors and kernel.
    pub machine: String,
    /// What is known of the cause, where the promise is not kept; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cause: String,
}

/// The rendered block of `docs/performance/promises.md`: the table, and what is known of every promise that
/// is not kept.
pub fn block(record: &Record) -> String {
    if record.rows.is_empty() {
        return "Nothing was measured yet.\n".to_owned();
    }
    let head = ["Row", "Measured", "Promised", "Seen", "Kept", "Day", "Revision"];
    let rows: Vec<Vec<String>> = record.rows.iter().map(Promise::cells).collect();
    format!("{}\n{}{}", table(&head, &rows), wrapped(&remarks(record)), not_kept(record))
}

/// How to read the table, and where it was measured.
fn remarks(record: &Record) -> String {
    let mut text = format!("{ONCE} marks what was measured in one round alone.");
    if record.rows.iter().any(|row| row.revision.is_empty()) {
        text += " A row with `-` as its revision was measured before the record had revisions.";
    }
    if record.rows.iter().any(|row| row.revision.ends_with(DIRTY)) {
        text += &format!(" `{DIRTY}` marks programs of a tree with changes that no revision has.");
    }
    let machines: BTreeSet<&str> = record.rows.iter().map(|row| row.machine.as_str()).collect();
    text + &format!(" Machines: {}.", machines.into_iter().collect::<Vec<_>>().join("; "))
}

/// The section about the rows that say no; nothing where all say yes.
fn not_kept(record: &Record) -> String {
    let broken: Vec<&Promise> = record.rows.iter().filter(|row| !row.kept).collect();
    if broken.is_empty() {
        return String::new();
    }
    let paragraph = |row: &&Promise| {
        let cause = if row.cause.is_empty() { "The cause is not known." } else { &row.cause };
        format!("\n{}", wrapped(&format!("**{}, {}.** {cause}", row.row, row.case)))
    };
    format!("\n## What is not kept\n{}", broken.iter().map(paragraph).collect::<String>())
}

impl Promise {
    fn cells(&self) -> Vec<String> {
        vec![
            self.row.clone(),
            self.case.clone(),
            self.promise.clone(),
            format!("{}{}", self.seen, if self.rounds == 1 { ONCE } else { "" }),
            if self.kept { "yes" } else { "**no**" }.to_owned(),
            self.measured.clone(),
            if self.revision.is_empty() { "-" } else { &self.revision }.to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(kept: bool, rounds: u32, revision: &str) -> Promise {
        Promise {
            row: "echo".into(),
            case: "a case".into(),
            seen: "7".into(),
            kept,
            rounds,
            revision: revision.into(),
            ..Promise::default()
        }
    }

    #[test]
    fn a_row_that_was_measured_once_is_marked() {
        let text = block(&Record { rows: vec![promise(true, 1, "a1"), promise(true, 3, "a1")] });
        assert!(text.contains("| 7† | yes |") && text.contains("| 7 | yes |"), "{text}");
        assert!(!text.contains("What is not kept") && !text.contains("its revision"), "{text}");
    }

    #[test]
    fn what_is_not_known_of_a_row_is_said() {
        let text = block(&Record { rows: vec![promise(false, 1, ""), promise(true, 1, "a1-dirty")] });
        for part in ["| **no** |", "What is not kept", "echo, a case.** The cause is not known", "`-dirty`"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let known = Promise { cause: "It is known.".into(), ..promise(false, 1, "a1") };
        assert!(block(&Record { rows: vec![known] }).contains("case.** It is known.\n"));
    }
}
