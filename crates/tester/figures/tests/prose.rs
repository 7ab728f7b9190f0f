//! No figure stands in the prose of a document without its record: a rate or a time in microseconds is a
//! parameter or has a source, or it belongs into a rendered block.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test that reads documents")]

use std::fs;
use std::path::{Path, PathBuf};

/// Units of what is measured.
const UNITS: [&str; 3] = ["q/s", "µs", "us"];

/// Figures that nobody measured here, by the document and what the sentence says.
const ALLOWED: [(&str, &str); 7] = [
    // Parameters of the programs.
    ("docs/faults.md", "at most 2000 q/s"),
    ("docs/outputs.md", "buckets from 10 µs"),
    ("docs/performance/dns64.md", "within 100 us"),
    ("docs/performance/tester.md", "At 1,000,000 q/s and above"),
    ("docs/selftest.md", "2,200,000 q/s for 60 s"),
    // Presentation 004, with its number in the text.
    ("docs/preflight.md", "BIND"),
    ("docs/preflight.md", "the same program reached"),
];

/// Documents with figures of simulations, which the tests of the engine repeat.
const SIMULATED: [&str; 2] = ["docs/compare.md", "docs/method.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The README and the documents, without the records of decisions, which are dated and stay as they are, and
/// without [`SIMULATED`].
fn documents() -> Vec<PathBuf> {
    let mut paths = vec![root().join("README.md")];
    for directory in ["docs", "docs/performance"] {
        let entries = fs::read_dir(root().join(directory)).unwrap().map(|entry| entry.unwrap().path());
        paths.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    paths.retain(|path| !SIMULATED.iter().any(|simulated| path.ends_with(simulated)));
    paths
}

/// The prose of a document: without rendered blocks, code, and tables of options and limits.
fn prose(text: &str) -> String {
    let (mut lines, mut is_rendered, mut is_code) = (Vec::new(), false, false);
    for line in text.lines() {
        match line {
            "<!-- measured: begin -->" | "<!-- example: begin -->" | "<!-- limits -->" => is_rendered = true,
            "<!-- measured: end -->" | "<!-- example: end -->" | "<!-- end of limits -->" => {
                is_rendered = false;
            }
            line if line.starts_with("```") => is_code = !is_code,
            line if is_rendered || is_code || line.starts_with("    ") => lines.push(""),
            line => lines.push(line),
        }
    }
    lines.join("\n")
}

/// The lines with a number before a unit.
fn figures(prose: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_number =
            |word: &str| word.trim_start_matches('(').starts_with(|letter: char| letter.is_ascii_digit());
        let is_unit = |word: &str| UNITS.contains(&word.trim_end_matches(['.', ',', ';', ':', ')']));
        if words.windows(2).any(|pair| is_number(pair[0]) && is_unit(pair[1])) {
            found.push(line.to_owned());
        }
    }
    found
}

#[test]
fn every_figure_in_prose_has_a_source() {
    let mut unknown = Vec::new();
    let mut seen = [false; ALLOWED.len()];
    for path in documents() {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        for line in figures(&prose(&fs::read_to_string(&path).unwrap())) {
            match ALLOWED.iter().position(|(document, part)| *document == name && line.contains(part)) {
                Some(at) => seen[at] = true,
                None => unknown.push(format!("{name}: {line}")),
            }
        }
    }
    assert!(unknown.is_empty(), "figures without a record or a source:\n{}", unknown.join("\n"));
    let unused: Vec<_> =
        ALLOWED.iter().zip(seen).filter(|(_, seen)| !seen).map(|(allowed, _)| allowed).collect();
    assert!(unused.is_empty(), "nothing says this any more: {unused:?}");
}

#[test]
fn a_figure_in_prose_is_found() {
    assert_eq!(figures("It answers 83,203 q/s.\nIt has 4 threads.\n(1.7 us)").len(), 2);
    let text =
        "a 1 q/s\n<!-- measured: begin -->\n2 q/s\n<!-- measured: end -->\n    3 q/s\n```\n4 q/s\n```\n";
    assert_eq!(figures(&prose(text)), ["a 1 q/s"]);
}
