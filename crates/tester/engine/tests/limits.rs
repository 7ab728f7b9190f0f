//! docs/method.md prints the limits that decide.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]
#![allow(clippy::disallowed_methods, reason = "a test of a document reads and writes that document")]

use std::path::Path;

use engine::verdict::LIMITS;

const START: &str = "<!-- limits -->\n";
const END: &str = "<!-- end of limits -->\n";

fn table() -> String {
    let head = "| limit | value | what it decides | source |\n|---|---|---|---|\n";
    let rows = LIMITS.iter().map(|limit| {
        let (name, value, unit) = (limit.name, limit.value, limit.unit);
        format!("| {name} | {value} {unit} | {} | {} |\n", limit.decides, limit.source)
    });
    head.to_owned() + &rows.collect::<String>()
}

/// `RENEW_DOCUMENTS=1` writes the table.
#[test]
fn the_document_has_every_limit() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/method.md");
    let present = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = present.split_once(START).expect("the mark before the limits");
    let (_, after) = rest.split_once(END).expect("the mark behind the limits");
    let expected = format!("{before}{START}\n{}\n{END}{after}", table());
    if std::env::var_os("RENEW_DOCUMENTS").is_some() {
        std::fs::write(&path, expected).unwrap();
    } else {
        assert!(
            present == expected,
            "docs/method.md is old: RENEW_DOCUMENTS=1 cargo test -p sextant-engine --test limits"
        );
    }
}

#[test]
fn every_limit_has_a_name_of_its_own_and_fits_a_cell() {
    for (index, limit) in LIMITS.iter().enumerate() {
        assert!(LIMITS[..index].iter().all(|other| other.name != limit.name), "{}", limit.name);
        for text in [limit.name, limit.unit, limit.decides, limit.source] {
            assert!(!text.is_empty() && !text.contains('|'), "{}: {text}", limit.name);
        }
    }
}
