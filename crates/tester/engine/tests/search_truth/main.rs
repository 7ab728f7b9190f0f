//! How true the result of a search is, against simulated servers whose true rate is known, while the Tester
//! pauses as a recorded virtual machine did.
//!
//! docs/method.md describes the model, says what follows, and has the whole table. `SEARCH_TRUTH=N` computes
//! the table with N measurements in each row, and compares; with `RENEW_DOCUMENTS=1` it writes the table.
//! With N = 1000, `--release` and two processors this takes half an hour.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]
#![allow(clippy::disallowed_methods, reason = "the test reads a document, and uses all processors")]

mod cases;
mod measurement;
mod pauses;
mod server;
mod table;
mod tester;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use cases::{CASES, Case, Ceiling, Claim, Search, searches};
use table::{ABOVE, HEAD, KEPT_UP_ABOVE, Sample, label};

const START: &str = "<!-- truth of the searches -->\n";
const END: &str = "<!-- end of the truth of the searches -->\n";

/// Measurements of a server by a search, and by one whose trials last 60 s.
#[derive(Clone, Copy)]
struct Seeds(u64, u64);

/// Few enough for every run of the tests; they are the first ones of the table.
const FEW: Seeds = Seeds(5, 1);

impl Seeds {
    /// Those that `SEARCH_TRUTH` says: one number, or two with a comma between them.
    fn asked_for() -> Option<Self> {
        let text = std::env::var("SEARCH_TRUTH").ok()?;
        let (all, long) = text.split_once(',').unwrap_or((&text, &text));
        Some(Self(all.parse().unwrap(), long.parse().unwrap()))
    }

    fn sample<'a>(self, search: &'a Search, case: &'a Case) -> Sample<'a> {
        Sample::new(case, search, if search.is_long() { self.1 } else { self.0 })
    }

    fn caption(self) -> String {
        let Self(all, long) = self;
        format!("Measurements in each row: {all}; where trials last 60 s: {long}.\n\n")
    }
}

/// Every search of every server.
fn cells(of: impl Fn(&Search, &Case)) {
    for search in searches() {
        for case in &CASES {
            of(&search, case);
        }
    }
}

#[test]
fn results_are_too_high_as_seldom_as_is_claimed() {
    cells(|search, case| {
        let sample = FEW.sample(search, case);
        let at_most = |count: usize| {
            assert!(count * 20 <= sample.found(), "{}{count} of {}", label(search, case), sample.found());
        };
        match Claim::of(search, case) {
            Claim::Result => at_most(sample.too_high()),
            Claim::KeptUp => at_most(sample.kept_too_high()),
            Claim::Nothing => {}
        }
    });
}

/// A search that finds too little would never be too high.
#[test]
fn a_steady_server_is_measured_to_the_width() {
    for search in searches().into_iter().filter(|search| !matches!(search.ceiling, Ceiling::Fixed(_))) {
        let steady = CASES.iter().find(|case| case.name == "steady").unwrap();
        let sample = FEW.sample(&search, steady);
        let least = 1.0 - 2.0 * search.width_pct / 100.0;
        let median = sample.percentile(50);
        assert!(median.is_none_or(|share| share > least), "{}: {median:?}", search.name);
    }
}

/// The document before the table, the table, and the document after it.
fn document() -> (PathBuf, [String; 3]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/method.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(START).expect("the mark before the table");
    let (table, after) = rest.split_once(END).expect("the mark behind the table");
    (path, [before, table, after].map(str::to_owned))
}

#[test]
fn the_table_has_every_search_and_keeps_what_is_claimed() {
    let (_, [_, table, _]) = document();
    cells(|search, case| {
        let label = label(search, case);
        let row = table.lines().find_map(|line| line.strip_prefix(&label)).expect(&label);
        let figures: Vec<&str> = row.split(" | ").collect();
        let at_most =
            |figure: &str| assert!(figure == "-" || figure.parse::<f64>().unwrap() <= 5.0, "{label}{row}");
        match Claim::of(search, case) {
            Claim::Result => at_most(figures[ABOVE]),
            Claim::KeptUp => at_most(figures[KEPT_UP_ABOVE]),
            Claim::Nothing => {}
        }
    });
}

/// Only where `SEARCH_TRUTH` asks for it.
#[test]
fn the_whole_table_is_what_is_computed() {
    let Some(seeds) = Seeds::asked_for() else { return };
    let (path, [before, table, after]) = document();
    let computed = RefCell::new(seeds.caption() + HEAD);
    cells(|search, case| *computed.borrow_mut() += &seeds.sample(search, case).row());
    let computed = format!("\n{}\n", computed.into_inner());
    if std::env::var_os("RENEW_DOCUMENTS").is_some() {
        std::fs::write(&path, format!("{before}{START}{computed}{END}{after}")).unwrap();
    } else {
        let command =
            "RENEW_DOCUMENTS=1 SEARCH_TRUTH=1000 cargo test --release -p sextant-engine --test search_truth";
        assert!(table == computed, "docs/method.md is old: {command}");
    }
}
