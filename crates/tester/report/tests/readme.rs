//! The example of the README: the end of `make bench` and a picture of its report, rendered from the record
//! of one run (`docs/example/results.json`).
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test that reads and renews documents")]

use std::fs;
use std::path::{Path, PathBuf};

use record::Results;

const RENEW: &str = "RENEW_DOCUMENTS=1 cargo test -p sextant-report --test readme";
const EXAMPLE: &str = "docs/example";
/// A name for each drawing of the picture: for wide pages and for narrow ones.
const PICTURES: [&str; 2] = ["search.svg", "search-narrow.svg"];
const BEGIN: &str = "<!-- example: begin -->\n";
const END: &str = "<!-- example: end -->\n";
const WIDTH: usize = 110;

fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path)
}

/// Compares a file with what it should be, or writes it.
fn same(path: &str, expected: &str) {
    if std::env::var_os("RENEW_DOCUMENTS").is_some() {
        fs::write(at(path), expected).unwrap();
    } else {
        let present = fs::read_to_string(at(path)).unwrap_or_default();
        assert!(present == expected, "{path} differs from the record of the example: {RENEW}");
    }
}

/// The text of a terminal as a quotation of Markdown, whose lines break where the reader's page ends: a
/// paragraph for each that the terminal sets apart.
fn quoted(text: &str) -> String {
    let mut paragraphs: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in text.lines() {
        let mark = ["why", "mind", "note"].iter().find(|mark| line.starts_with(&format!("  {mark}  ")));
        match (mark, paragraphs.last_mut()) {
            _ if line.trim().is_empty() => {}
            (Some(mark), _) => paragraphs.push(format!("**{mark}** {}", line[mark.len() + 4..].trim())),
            (None, Some(open)) if is_open => *open += &format!(" {}", line.trim()),
            (None, _) => paragraphs.push(line.trim().to_owned()),
        }
        is_open = !line.trim().is_empty();
    }
    paragraphs.iter().map(|paragraph| wrapped(paragraph)).collect::<Vec<_>>().join(">\n")
}

fn wrapped(paragraph: &str) -> String {
    let (mut out, mut line) = (String::new(), ">".to_owned());
    for word in paragraph.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            out += &format!("{line}\n");
            line = ">".to_owned();
        }
        line += &format!(" {word}");
    }
    out + &line + "\n"
}

/// What the drawing says to those who do not see it.
fn label(svg: &str) -> &str {
    let (_, rest) = svg.split_once("aria-label=\"").unwrap();
    rest.split_once('"').unwrap().0
}

fn block(results: &Results, [wide, _]: &[String; 2]) -> String {
    let started = results.started_utc.replace(':', "");
    let directory = format!("results/{started}-{}", results.dut.name);
    let end = format!("{}\nReport: {directory}/report.html\n", report::brief(results));
    let [wide_file, narrow_file] = PICTURES;
    format!(
        "{}\n<picture>\n  <source media=\"(min-width: 800px)\" srcset=\"{EXAMPLE}/{wide_file}\">\n  \
         <img src=\"{EXAMPLE}/{narrow_file}\"\n       alt=\"{}\">\n</picture>\n",
        quoted(&end),
        label(wide)
    )
}

#[test]
fn the_readme_shows_the_record_of_its_example() {
    let record = fs::read_to_string(at(EXAMPLE).join("results.json")).unwrap();
    let results: Results = serde_json::from_str(&record).unwrap();
    let pictures = report::search_pictures(&results).unwrap();
    for (name, drawing) in PICTURES.iter().zip(&pictures) {
        same(&format!("{EXAMPLE}/{name}"), drawing);
    }
    let readme = fs::read_to_string(at("README.md")).unwrap();
    let (head, rest) = readme.split_once(BEGIN).unwrap();
    let (_, tail) = rest.split_once(END).unwrap();
    same("README.md", &format!("{head}{BEGIN}{}{END}{tail}", block(&results, &pictures)));
}

#[test]
fn a_terminals_text_becomes_paragraphs() {
    let text = "a b\nc\n\n  why   d\n        e\n  mind  f\n\nReport: g\n";
    assert_eq!(quoted(text), "> a b c\n>\n> **why** d e\n>\n> **mind** f\n>\n> Report: g\n");
}
