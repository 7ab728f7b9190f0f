//! `sextant compare` on result directories made from a real record.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use record::{Fact, Results, Run, State};
use serde_json::Value;

use super::running::{sextant, stderr, stdout};

/// Result directories, removed with this.
struct Shelf(tempfile::TempDir);

impl Shelf {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes text as the record of a directory.
    fn write(&self, name: &str, record: &str) -> String {
        let directory = self.path(name);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("results.json"), record).unwrap();
        directory.to_str().unwrap().to_owned()
    }

    /// A result with these rates, changed as told.
    fn result(&self, name: &str, rates_qps: &[u64], change: impl FnOnce(&mut Results)) -> String {
        let fixture =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/tester/cli/tests/fixtures/results-quick.json");
        let mut results: Results = serde_json::from_str(&fs::read_to_string(fixture).unwrap()).unwrap();
        let run = |&qps| Run { qps, stop_width_qps: qps / 200, complete: true, ..Run::default() };
        results.runs = rates_qps.iter().map(run).collect();
        change(&mut results);
        self.write(name, &serde_json::to_string(&results).unwrap())
    }
}

const RATES: [u64; 6] = [59_000, 60_000, 60_300, 59_800, 60_100, 59_900];

fn scaled(percent: u64) -> Vec<u64> {
    RATES.iter().map(|rate| rate * percent / 100).collect()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(output)))
}

fn unchanged(_: &mut Results) {}

#[test]
fn a_change_is_judged_and_the_exit_code_says_it() {
    let shelf = Shelf::new();
    let before = shelf.result("before", &RATES, unchanged);
    // The half of a percent that the search cannot tell apart is below every threshold here.
    for (percent, verdict, condition, code) in [
        (100, "same", "worse>3%", 0),
        (90, "worse", "worse>3%", 1),
        (110, "better", "worse>3%", 0),
        (97, "inconclusive", "worse>3%", 3),
        (97, "inconclusive", "worse>10%", 0),
        (97, "inconclusive", "worse>0.6%", 1),
    ] {
        let after = shelf.result("after", &scaled(percent), unchanged);
        let found = sextant(&["compare", &before, &after, "--json", "--threshold", "3"]);
        assert_eq!(found.status.code(), Some(0), "without a condition: {}", stderr(&found));
        assert_eq!(json(&found)["verdict"], verdict, "{percent} %: {}", stdout(&found));
        let judged = sextant(&["compare", &before, &after, "--fail-if", condition]);
        assert_eq!(judged.status.code(), Some(code), "{percent} %, {condition}: {}", stdout(&judged));
    }
}

#[test]
fn few_runs_say_nothing_and_how_to_go_on() {
    let shelf = Shelf::new();
    let (a, b) = (shelf.result("a", &RATES[..3], unchanged), shelf.result("b", &RATES, unchanged));
    let found = sextant(&["compare", &a, &b, "--fail-if", "worse>2%"]);
    assert_eq!(found.status.code(), Some(3));
    let text = stdout(&found);
    assert!(text.contains("3 runs of a result are too few, 4 are needed"), "{text}");
    assert!(text.contains("A B B A A B B A"), "{text}");
}

#[test]
fn noise_raises_the_threshold() {
    let shelf = Shelf::new();
    let a = shelf.result("a", &RATES, unchanged);
    let again = shelf.result("again", &scaled(95), unchanged);
    let b = shelf.result("b", &scaled(94), unchanged);
    assert_eq!(json(&sextant(&["compare", &a, &b, "--json"]))["verdict"], "worse");
    let found = sextant(&["compare", &a, &b, "--aa", &again, "--json", "--fail-if", "worse>2%"]);
    let (code, found) = (found.status.code(), json(&found));
    assert_eq!((found["verdict"].as_str(), code), (Some("inconclusive"), Some(3)), "{found}");
    let floor = found["noise_floor_pct"].as_f64().unwrap();
    assert!((5.0..8.0).contains(&floor) && found["threshold_pct"].as_f64() == Some(floor), "{found}");
}

#[test]
fn a_ceiling_is_only_a_lower_bound() {
    let shelf = Shelf::new();
    let at_ceiling = |results: &mut Results| results.runs[0].at_ceiling = true;
    let (low, high) =
        (shelf.result("low", &RATES, unchanged), shelf.result("high", &scaled(120), at_ceiling));
    let verdict = |a: &str, b: &str| json(&sextant(&["compare", a, b, "--json"]))["verdict"].clone();
    assert_eq!(verdict(&low, &high), "better");
    assert_eq!(verdict(&high, &low), "worse");
    let other = shelf.result("other", &scaled(120), at_ceiling);
    assert_eq!(verdict(&high, &other), "inconclusive");
    let judged = sextant(&["compare", &high, &other, "--fail-if", "worse>2%"]);
    assert_eq!(judged.status.code(), Some(3));
    assert!(stdout(&judged).contains("--max-rate"));
}

#[test]
fn markdown_is_a_table_and_records_are_no_markup() {
    let shelf = Shelf::new();
    let a = shelf.result("a", &RATES, unchanged);
    let b = shelf.result("b", &scaled(80), |results| {
        results.dut.version = "x | `y` @everybody <script>\u{1b}[31m".into();
    });
    let text = stdout(&sextant(&["compare", &a, &b, "--markdown"]));
    assert!(text.starts_with("**Worse: B answers fewer queries than A (-20.00 %)"), "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    let cells = |row: &str| row.replace("\\|", "").matches('|').count();
    assert!(rows.len() == 4 && rows.iter().all(|row| cells(row) == 8), "{text}");
    assert!(
        !text.contains('\u{1b}') && text.contains("x \\| 'y' @everybody <script>\u{fffd}[31m`"),
        "{text}"
    );
}

#[test]
fn other_machines_and_conditions_are_told() {
    let shelf = Shelf::new();
    let a = shelf.result("a", &RATES, unchanged);
    let b = shelf.result("b", &RATES, |results| {
        let model = |fact: &&mut Fact| fact.name == "model";
        results.environment.facts.iter_mut().find(model).unwrap().before = "Another One".into();
        results.settings.trial_s = 30.0;
        results.state = State::Interrupted;
        results.selftest = None;
    });
    let found = json(&sextant(&["compare", &a, &b, "--json"]));
    let warnings = found["warnings"].to_string();
    for part in
        ["other machine: Processor model", "trial length in s 2 in A, 30 in B", "interrupted", "9.2.1"]
    {
        assert!(warnings.contains(part), "'{part}' is missing in {warnings}");
    }
}

#[test]
fn what_cannot_be_compared_is_told_in_one_line() {
    let shelf = Shelf::new();
    let good = shelf.result("good", &RATES, unchanged);
    let whole = fs::read_to_string(shelf.path("good").join("results.json")).unwrap();
    let compat =
        shelf.result("compat", &RATES, |results| results.settings.validity = record::Validity::Compat);
    let empty = shelf.path("empty");
    fs::create_dir_all(&empty).unwrap();
    for (other, reason) in [
        (shelf.write("half", &whole[..whole.len() / 2]), "ends in the middle"),
        (shelf.write("newer", &whole.replacen("\"schema\":1", "\"schema\":99", 1)), "has schema 99"),
        (shelf.write("foreign", "[]"), "not a record of sextant"),
        (shelf.path("nowhere").to_str().unwrap().to_owned(), "no such directory"),
        (empty.to_str().unwrap().to_owned(), "holds no results.json"),
        (shelf.result("begun", &[], unchanged), "holds no search that came to its end"),
        (compat, "the validity compat"),
        (good.clone(), "given twice"),
    ] {
        let output = sextant(&["compare", &good, &other]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(reason) && text.contains(&other), "'{reason}' is missing in: {text}");
        assert_eq!((text.lines().count(), output.stdout.len()), (1, 0), "{text}");
    }
    let usage = |arguments: &[&str]| {
        let output = sextant(&[&["compare"], arguments].concat());
        (output.status.code(), stderr(&output))
    };
    let (code, text) = usage(&[&good]);
    assert!(code == Some(2) && text.contains("two result directories"), "{text}");
    let (code, text) = usage(&[&good, &good, "--fail-if", "slower"]);
    assert!(code == Some(2) && text.contains("worse>PERCENT%"), "{text}");
}

#[test]
fn a_history_shows_where_it_jumps() {
    let shelf = Shelf::new();
    let result = |day: usize, percent: u64| {
        shelf.result(&format!("day-{day:02}"), &scaled(percent), |results| {
            results.started_utc = format!("2026-03-{day:02}T12:00:00Z");
            // No two days are alike.
            results.runs.iter_mut().for_each(|run| run.qps += day as u64 % 3 * 20);
        })
    };
    let mut days: Vec<String> = (1..=12).map(|day| result(day, if day < 7 { 100 } else { 90 })).collect();
    days.reverse();
    let mut arguments = vec!["compare", "--history", "--fail-if", "worse>5%"];
    arguments.extend(days.iter().map(String::as_str));
    let judged = sextant(&arguments);
    let text = stdout(&judged);
    assert_eq!(judged.status.code(), Some(1), "{text}");
    assert!(text.contains("1 change") && text.contains("day-07  <- -"), "{text}");
    let first = text.lines().position(|line| line.contains("day-01")).unwrap();
    assert!(text.lines().nth(first + 1).unwrap().contains("day-02"), "by time: {text}");
    arguments.push("--markdown");
    assert!(stdout(&sextant(&arguments)).contains("| Started | Server |"));

    // Newest first: the last five are the oldest.
    let few: Vec<&str> = ["compare", "--history", "--fail-if", "worse>5%"]
        .into_iter()
        .chain(days[7..].iter().map(String::as_str))
        .collect();
    let judged = sextant(&few);
    assert_eq!(judged.status.code(), Some(3), "{}", stdout(&judged));
    assert!(stdout(&judged).contains("5 results are too few"));
}
