//! How true the result of a search is, against simulated servers whose true rate is known, while the Tester
//! pauses as a recorded virtual machine did.
//!
//! docs/method.md describes the model, says what follows, and has the whole table. `SEARCH_TRUTH=N` computes
//! the table with N measurements in each row, and compares; with `RENEW_DOCUMENTS=1` it writes the table.
//! With N = 1000, `--release` and two processors this takes half an hour. `NOISE_TRUTH` does the same for the
//! table of noisy machines.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]
#![allow(clippy::disallowed_methods, reason = "the test reads a document, and uses all processors")]

mod cases;
mod measurement;
mod neighbours;
mod noise;
mod pauses;
mod server;
mod table;
mod tester;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use cases::{CASES, Case, Ceiling, Claim, Search, noisy_cases, noisy_searches, searches};
use noise::NoisySample;
use table::{ABOVE, HEAD, KEPT_UP_ABOVE, Sample, label};

/// The marks around a table of docs/method.md.
struct Marks(&'static str, &'static str);

const TRUTH: Marks = Marks("<!-- truth of the searches -->\n", "<!-- end of the truth of the searches -->\n");
const NOISE: Marks =
    Marks("<!-- truth on noisy machines -->\n", "<!-- end of the truth on noisy machines -->\n");

/// Measurements of a server by a search, and by one whose trials last 60 s.
#[derive(Clone, Copy)]
struct Seeds(u64, u64);

/// Few enough for every run of the tests; they are the first ones of the table.
const FEW: Seeds = Seeds(5, 1);
/// Likewise on noisy machines.
const FEW_NOISY: u64 = 2;

impl Seeds {
    /// Those that this variable says: one number, or two with a comma between them.
    fn asked_for(variable: &str) -> Option<Self> {
        let text = std::env::var(variable).ok()?;
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

/// The first measurements of each row, as they were when the table was computed. A change that alters any of
/// them makes the table old: `RENEW_DOCUMENTS=1` writes the file, and `make deep-truth` says how the table is
/// renewed.
const FIRST: &str = "tests/search_truth/first.txt";

#[test]
fn results_are_too_high_as_seldom_as_is_claimed() {
    let computed = RefCell::new(FEW.caption() + HEAD);
    cells(|search, case| {
        let sample = FEW.sample(search, case);
        *computed.borrow_mut() += &sample.row();
        let at_most = |count: usize| {
            assert!(count * 20 <= sample.found(), "{}{count} of {}", label(search, case), sample.found());
        };
        match Claim::of(search, case) {
            Claim::Result => at_most(sample.too_high()),
            Claim::KeptUp => at_most(sample.kept_too_high()),
            Claim::Nothing => {}
        }
    });
    let (path, computed) = (Path::new(env!("CARGO_MANIFEST_DIR")).join(FIRST), computed.into_inner());
    if std::env::var_os("RENEW_DOCUMENTS").is_some() {
        std::fs::write(path, computed).unwrap();
    } else {
        let known = std::fs::read_to_string(path).unwrap();
        assert!(known == computed, "the searches find other rates than the table of docs/method.md has");
    }
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

impl Marks {
    /// The document before the table, the table, and the document after it.
    fn document(&self) -> (PathBuf, [String; 3]) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/method.md");
        let text = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = text.split_once(self.0).expect("the mark before the table");
        let (table, after) = rest.split_once(self.1).expect("the mark behind the table");
        (path, [before, table, after].map(str::to_owned))
    }

    /// Compares the table with what was computed, or writes it.
    fn compare(&self, computed: &str) {
        let (path, [before, table, after]) = self.document();
        let computed = format!("\n{computed}\n");
        if std::env::var_os("RENEW_DOCUMENTS").is_some() {
            std::fs::write(&path, format!("{before}{}{computed}{}{after}", self.0, self.1)).unwrap();
        } else {
            let differing = differing(&table, &computed);
            assert!(
                table == computed,
                "docs/method.md is old, RENEW_DOCUMENTS=1 renews it; computed now:\n{differing}"
            );
        }
    }
}

/// The lines of what was computed that a table does not have.
fn differing(table: &str, computed: &str) -> String {
    let known: Vec<&str> = table.lines().collect();
    computed.lines().filter(|line| !known.contains(line)).map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_table_has_every_search_and_keeps_what_is_claimed() {
    let (_, [_, table, _]) = TRUTH.document();
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

/// Every search on every noisy machine.
fn noisy_cells(mut of: impl FnMut(&Search, &Case)) {
    let cases = noisy_cases();
    noisy_searches().iter().for_each(|search| cases.iter().for_each(|case| of(search, case)));
}

/// The most that a measurement with the quick preset may take on any machine, in minutes.
const QUICK_MAX_MIN: f64 = 15.0;

#[test]
fn on_noisy_machines_rates_are_not_too_high_and_intervals_hold_the_knee() {
    let (quick, cases) = (&noisy_searches()[0], noisy_cases());
    let mut said = 0;
    for case in &cases {
        let sample = NoisySample::new(case, quick, FEW_NOISY);
        let ((found, above), (intervals, held)) = (sample.rates(), sample.held());
        assert_eq!((above, intervals - held), (0, 0), "{}", sample.row());
        assert!(sample.longest_min() < QUICK_MAX_MIN, "{}", sample.row());
        said += found + intervals;
    }
    let measurements = cases.len() * FEW_NOISY as usize;
    assert!(said * 20 >= measurements * 19, "{said} of {measurements} measurements have a result");
}

#[test]
fn the_table_of_noisy_machines_keeps_what_is_claimed() {
    let (_, [_, table, _]) = NOISE.document();
    noisy_cells(|search, case| {
        let label = noise::label(search, case);
        let row = table.lines().find_map(|line| line.strip_prefix(&label)).expect(&label);
        let figures: Vec<&str> = row.split(" | ").collect();
        // Nothing stands where there is no rate, or no interval.
        let figure = |at: usize, nothing: f64| figures[at].parse::<f64>().unwrap_or(nothing);
        let too_high = figure(noise::RATES, 0.0) * figure(noise::ABOVE, 0.0) / 100.0;
        let not_held = figure(noise::INTERVALS, 0.0) * (100.0 - figure(noise::HOLDS, 100.0)) / 100.0;
        assert!(too_high + not_held <= 5.0, "{label}{row}");
    });
}

/// Only where `SEARCH_TRUTH` asks for it.
#[test]
fn the_whole_table_is_what_is_computed() {
    let Some(seeds) = Seeds::asked_for("SEARCH_TRUTH") else { return };
    let computed = RefCell::new(seeds.caption() + HEAD);
    cells(|search, case| *computed.borrow_mut() += &seeds.sample(search, case).row());
    TRUTH.compare(&computed.into_inner());
}

/// Likewise, by `NOISE_TRUTH`.
#[test]
fn the_whole_table_of_noisy_machines_is_what_is_computed() {
    let Some(Seeds(all, long)) = Seeds::asked_for("NOISE_TRUTH") else { return };
    let mut computed = Seeds(all, long).caption() + noise::HEAD;
    noisy_cells(|search, case| {
        let seeds = if search.is_long() { long } else { all };
        computed += &NoisySample::new(case, search, seeds).row();
    });
    NOISE.compare(&computed);
}
