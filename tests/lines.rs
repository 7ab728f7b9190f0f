//! No line is longer than rustfmt's `max_width`: rustfmt looks after Rust code, this test after all other
//! text.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Not written by hand: build output, captured octets and output, figures with the text around them.
const SKIPPED: [&str; 9] = [
    ".git",
    "target",
    "results",
    "fuzz/target",
    "fuzz/corpus",
    "fuzz/artifacts",
    "fuzz/seeds",
    "docs/performance",
    "dist/dns64d.toml",
];

/// The number that rustfmt has.
fn width() -> usize {
    let settings = fs::read_to_string(Path::new(ROOT).join("rustfmt.toml")).unwrap();
    let width = settings.lines().find_map(|line| line.strip_prefix("max_width = ")).unwrap();
    width.parse().unwrap()
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let below = path.strip_prefix(ROOT).unwrap();
        if SKIPPED.iter().any(|skipped| below == Path::new(skipped)) {
            continue;
        }
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => collect(&path, files),
            kind if kind.is_file() => files.push(path),
            _ => {}
        }
    }
}

/// Which lines of a text count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Comments: rustfmt keeps the code.
    Rust,
    /// Prose: no tables, code, or definitions of links.
    Markdown,
    /// Comments: a value may not be divisible.
    Toml,
    /// All lines.
    Other,
}

fn kind(path: &Path, text: &str) -> Option<Kind> {
    let name = path.file_name()?.to_str()?;
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => Some(Kind::Rust),
        Some("md") => Some(Kind::Markdown),
        Some("toml") => Some(Kind::Toml),
        Some("c" | "h" | "sh" | "js" | "css") => Some(Kind::Other),
        _ if text.starts_with("#!") || ["Makefile", "Containerfile"].contains(&name) => Some(Kind::Other),
        _ => None,
    }
}

/// The comment that a line of Rust ends with.
fn rust_comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if line.starts_with("//") {
        return Some(line.trim_start_matches(['/', '!']));
    }
    let (code, comment) = line.rsplit_once(" // ")?;
    (code.matches('"').count() % 2 == 0).then_some(comment)
}

/// The prose in a line; `is_code` says whether the line stands in a block of code, and follows its fences.
fn prose<'l>(kind: Kind, line: &'l str, is_code: &mut bool) -> Option<&'l str> {
    let text = match kind {
        Kind::Other => return Some(line),
        Kind::Toml => return line.starts_with('#').then_some(line),
        Kind::Rust => match rust_comment(line) {
            Some(comment) => comment,
            None => {
                *is_code = false;
                return None;
            }
        },
        Kind::Markdown => line,
    };
    if text.trim_start().starts_with("```") {
        *is_code = !*is_code;
        return None;
    }
    let is_indented = text.starts_with("    ");
    let is_table = text.trim_start().starts_with('|');
    let is_definition = text.split_once("]: ").is_some_and(|(_, target)| !target.contains(' '));
    (!*is_code && !is_indented && !is_table && !is_definition).then_some(text)
}

#[test]
fn no_line_is_too_long() {
    let width = width();
    let mut files = Vec::new();
    collect(Path::new(ROOT), &mut files);
    let mut too_long = Vec::new();
    for path in files {
        // What is no text has no lines.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let Some(kind) = kind(&path, &text) else { continue };
        let (mut is_code, mut is_generated) = (false, false);
        for (number, line) in text.lines().enumerate() {
            is_generated = match line {
                "<!-- keys -->" => true,
                "<!-- end of keys -->" => false,
                _ => is_generated,
            };
            let counts = prose(kind, line, &mut is_code).is_some_and(|prose| prose.trim().contains(' '));
            let columns = line.chars().count();
            if counts && !is_generated && columns > width {
                let place = path.strip_prefix(ROOT).unwrap().display();
                too_long.push(format!("{place}:{}: {columns} columns", number + 1));
            }
        }
    }
    assert!(too_long.is_empty(), "longer than {width} columns:\n{}", too_long.join("\n"));
}
