//! No figure stands in the prose of a document without its record: a rate, a time in microseconds, a quotient
//! or a size in memory is a parameter or has a source, or it belongs into a rendered block.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test that reads documents")]

use std::fs;
use std::path::{Path, PathBuf};

/// Units of what is measured.
const UNITS: [&str; 3] = ["q/s", "µs", "us"];
/// Units of what is measured, or counted by a test.
const UNITS_OF_COUNTS: [&str; 3] = ["times", "MiB", "answers"];
/// Units that are figures of measurements in `docs/performance`, and mostly parameters elsewhere.
const UNITS_OF_PERFORMANCE: [&str; 3] = ["%", "x", "steps"];

/// Figures that nobody measured here, by the document and what the sentence says.
const ALLOWED: [(&str, &str); 23] = [
    // Parameters of the programs.
    ("README.md", "at 2.2 times the highest rate"),
    ("docs/dns64d.md", "64 MiB hold some hundred thousand answers"),
    ("docs/dns64d.md", "4 MiB for each thread and device"),
    ("docs/dns64d.md", "20 MiB for one"),
    ("docs/faults.md", "131,072 answers waited at one socket"),
    ("docs/faults.md", "at most 2000 q/s"),
    ("docs/load.md", "at most 16 MiB"),
    ("docs/outputs.md", "buckets from 10 µs"),
    ("docs/performance/auth.md", "socket buffers of 8 MiB"),
    ("docs/performance/auth.md", "99.9 %"),
    ("docs/performance/dns64.md", "at 10, 50 and 90 %"),
    ("docs/performance/dns64.md", "Up to 32 queries leave from one socket within 100 us"),
    ("docs/performance/tester.md", "At 1,000,000 q/s and above"),
    ("docs/performance/tester.md", "98 % "),
    ("docs/performance/tester.md", "99 % of the queries were sent within 20 ms"),
    ("docs/preflight.md", "computes for 50 us"),
    ("docs/replay.md", "at most 256 MiB of queries"),
    ("docs/results-schema.md", "2.2 times the certified one"),
    ("docs/results-schema.md", "fewer than 1.9 times for each query"),
    ("docs/selftest.md", "2,200,000 q/s for 60 s"),
    // Presentation 004, with its number in the text.
    ("docs/preflight.md", "24,600 q/s"),
    ("docs/preflight.md", "25,148 and 29,718 q/s"),
    ("docs/preflight.md", "the same program reached"),
];

/// Documents with figures of simulations, which the tests of the engine repeat.
const SIMULATED: [&str; 2] = ["docs/compare.md", "docs/method.md"];
/// A document whose counts of steps are those of the tests that it names.
const COUNTED: &str = "docs/security.md";

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

/// The sentences of a text, however its lines break. A heading, an item and a row of a table end the one
/// before.
fn sentences(prose: &str) -> Vec<String> {
    let (mut sentences, mut sentence) = (Vec::new(), Vec::new());
    for line in prose.lines() {
        let starts = ["#", "|", "- "].iter().any(|mark| line.trim_start().starts_with(mark));
        if starts || line.trim().is_empty() {
            sentences.push(std::mem::take(&mut sentence));
        }
        for word in line.split_whitespace() {
            sentence.push(word);
            if word.trim_end_matches([')', '*', '`']).ends_with(['.', ':', ';', '?']) {
                sentences.push(std::mem::take(&mut sentence));
            }
        }
    }
    sentences.push(sentence);
    sentences.retain(|words| !words.is_empty());
    sentences.into_iter().map(|words| words.join(" ")).collect()
}

/// The sentences with a number before one of the units.
fn figures(prose: &str, units: &[&str]) -> Vec<String> {
    let is_number = |word: &str| {
        word.trim_start_matches(['(', '*', '`']).starts_with(|letter: char| letter.is_ascii_digit())
    };
    let is_unit = |word: &str| units.contains(&word.trim_end_matches(['.', ',', ';', ':', ')', '*']));
    let has_figure = |sentence: &String| {
        let words: Vec<&str> = sentence.split_whitespace().collect();
        words.windows(2).any(|pair| is_number(pair[0]) && is_unit(pair[1]))
    };
    sentences(prose).into_iter().filter(has_figure).collect()
}

/// The units of figures in a document.
fn units(document: &str) -> Vec<&'static str> {
    let counts = (document != COUNTED).then_some(UNITS_OF_COUNTS);
    let more = document.starts_with("docs/performance/").then_some(UNITS_OF_PERFORMANCE);
    UNITS.into_iter().chain(counts.into_iter().flatten()).chain(more.into_iter().flatten()).collect()
}

#[test]
fn every_figure_in_prose_has_a_source() {
    let mut unknown = Vec::new();
    let mut seen = [false; ALLOWED.len()];
    for path in documents() {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        for sentence in figures(&prose(&fs::read_to_string(&path).unwrap()), &units(&name)) {
            match ALLOWED.iter().position(|(document, part)| *document == name && sentence.contains(part)) {
                Some(at) => seen[at] = true,
                None => unknown.push(format!("{name}: {sentence}")),
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
    let found = |text: &str| figures(&prose(text), &units("README.md"));
    assert_eq!(found("It answers 83,203 q/s.\nIt has 4 threads.\n(1.7 us)").len(), 2);
    let text =
        "a 1 q/s\n<!-- measured: begin -->\n2 q/s\n<!-- measured: end -->\n    3 q/s\n```\n4 q/s\n```\n";
    assert_eq!(found(text), ["a 1 q/s"]);
    assert_eq!(
        found("It takes 20 to 100\nMiB. It is small.\n- (0.79\n  times) b"),
        ["It takes 20 to 100 MiB.", "- (0.79 times) b"]
    );
    assert_eq!(
        [COUNTED, "README.md", "docs/performance/a.md"].map(|document| units(document).len()),
        [3, 6, 9]
    );
}
