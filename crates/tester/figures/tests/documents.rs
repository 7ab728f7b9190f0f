//! The figures of the documents against the records beside them.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test that reads and renews documents")]

use std::fs;
use std::path::{Path, PathBuf};

use figures::{attacks, auth, dns64, fill, json_text, promises, tester};
use serde::Serialize;
use serde::de::DeserializeOwned;

const RENEW: &str = "RENEW_DOCUMENTS=1 cargo test -p sextant-figures --test documents";

fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path)
}

/// Compares a file with what it should be, or writes it.
fn same(path: &str, expected: &str) {
    let present = fs::read_to_string(at(path)).unwrap();
    if std::env::var_os("RENEW_DOCUMENTS").is_some() {
        fs::write(at(path), expected).unwrap();
    } else {
        assert!(present == expected, "{path} differs from its record: {RENEW}");
    }
}

/// A document, and how its block is rendered from a record.
type Document<R> = (&'static str, fn(&R) -> String);

/// The record in its usual form, and the block of each document as it renders it.
fn check<R: Serialize + DeserializeOwned>(record: &str, documents: &[Document<R>]) {
    let read: R = serde_json::from_str(&fs::read_to_string(at(record)).unwrap()).unwrap();
    same(record, &json_text(&read).unwrap());
    for (path, block) in documents {
        let present = fs::read_to_string(at(path)).unwrap();
        same(path, &fill(&present, &block(&read)).unwrap());
    }
}

#[test]
fn dns64_and_the_readme_show_their_record() {
    check::<dns64::Record>(
        "docs/performance/dns64.json",
        &[("docs/performance/dns64.md", dns64::block), ("README.md", dns64::readme)],
    );
}

#[test]
fn tester_shows_its_record() {
    check::<tester::Record>("docs/performance/tester.json", &[("docs/performance/tester.md", tester::block)]);
}

#[test]
fn auth_shows_its_record() {
    check::<auth::Record>("docs/performance/auth.json", &[("docs/performance/auth.md", auth::block)]);
}

#[test]
fn attacks_show_their_record() {
    check::<attacks::Record>(
        "docs/performance/attacks.json",
        &[("docs/performance/attacks.md", attacks::block)],
    );
}

#[test]
fn promises_show_their_record() {
    check::<promises::Record>(
        "docs/performance/promises.json",
        &[("docs/performance/promises.md", promises::block)],
    );
}
