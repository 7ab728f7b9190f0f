//! What a search costs and how far it errs, against a simulated server of known capacity that sometimes
//! pauses.
//!
//! The tables are snapshots: a change of a search shows here in trials, seconds and errors. Trials of 1 s
//! (csit) find more than the capacity, because the server's buffer holds what is too much in so short a time.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod server;

use engine::search::{Goal, Mode, Next, Point, SearchSpec, goal_bounds, next};
use server::{CAPACITY_QPS, Pauses, Server};

const SECOND_NS: u64 = 1_000_000_000;
const SEARCHES: u64 = 100;

fn spec(mode: Mode) -> SearchSpec {
    SearchSpec { mode, low: 100, high: 250_000, trial_ns: 60 * SECOND_NS, width_pct: 0.5, voids_max: 3 }
}

struct Searched {
    trials: usize,
    seconds: u64,
    /// The highest loads for the goals; of a bisection the one rate.
    rates_qps: Vec<u64>,
}

fn search(spec: &SearchSpec, mut server: Server) -> Searched {
    let mut history: Vec<Point> = Vec::new();
    let found = loop {
        match next(spec, &history) {
            Next::Try(input) => history.push(server.trial(input)),
            Next::Found(found) => break found,
            Next::Unfit(_) => unreachable!("no simulated trial is void"),
        }
    };
    let rates_qps = match &spec.mode {
        Mode::Mlr(goals) => {
            goal_bounds(spec, goals, &history).iter().map(|bounds| bounds.lower_qps.unwrap_or(0)).collect()
        }
        _ => vec![found.load],
    };
    let seconds = history.iter().map(|point| point.duration_ns).sum::<u64>() / SECOND_NS;
    Searched { trials: history.len(), seconds, rates_qps }
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// A row for each goal: the rates that 100 searches found, and what a search cost.
fn rows(name: &str, mode: Mode, pauses: Pauses) -> String {
    let spec = spec(mode);
    let all: Vec<Searched> = (0..SEARCHES).map(|seed| search(&spec, Server::new(pauses, seed))).collect();
    let cost = |of: fn(&Searched) -> u64| median(all.iter().map(of).collect());
    let row = |goal: usize| {
        let mut rates: Vec<u64> = all.iter().map(|searched| searched.rates_qps[goal]).collect();
        rates.sort_unstable();
        let (p5, middle, max) = (rates[4], rates[rates.len() / 2], rates[rates.len() - 1]);
        let label = match &spec.mode {
            Mode::Mlr(goals) => format!("{name}, {} %", goals[goal].loss_ratio * 100.0),
            _ => name.to_owned(),
        };
        let error_pct = (middle as f64 / CAPACITY_QPS - 1.0) * 100.0;
        let (trials, seconds) = match goal {
            0 => (cost(|one| one.trials as u64).to_string(), cost(|one| one.seconds).to_string()),
            _ => (String::new(), String::new()),
        };
        format!("{label:<28}{trials:>7}{seconds:>9}{p5:>9}{middle:>9}{max:>9}{error_pct:>9.1}\n")
    };
    (0..all[0].rates_qps.len()).map(row).collect()
}

fn table(pauses: Pauses) -> String {
    let mut table = format!(
        "{:<28}{:>7}{:>9}{:>9}{:>9}{:>9}{:>9}\n",
        "search", "trials", "seconds", "P5", "median", "max", "error %"
    );
    table += &rows("rfc8219", Mode::Rfc8219, pauses);
    table += &rows("verify", Mode::Verify, pauses);
    table += &rows("mlr rfc2544", Mode::Mlr(Goal::rfc2544(0.5)), pauses);
    table += &rows("mlr tst009", Mode::Mlr(Goal::tst009(0.5)), pauses);
    table += &rows("mlr ladder", Mode::Mlr(Goal::ladder(60 * SECOND_NS, 0.5)), pauses);
    table += &rows("mlr csit", Mode::Mlr(Goal::csit(0.5)), pauses);
    table
}

#[test]
fn of_a_steady_server() {
    insta::assert_snapshot!(table(Pauses::NONE));
}

/// A pause so long that its backlog overflows at the capacity comes every 100 s.
#[test]
fn of_a_server_that_seldom_pauses() {
    let table = table(Pauses { every_s: 100.0, mean_s: 0.05 });
    let document = include_str!("../../../../../docs/compare.md");
    let (_, rows) = document.split_once("| Search | Trials | Seconds | P5 | Median |\n").unwrap();
    let shown: Vec<&str> = rows.lines().skip(1).take_while(|line| line.starts_with('|')).collect();
    assert_eq!(shown, in_the_document(&table), "docs/compare.md shows this table");
    insta::assert_snapshot!(table);
}

/// The rows of a table that stand for a whole search, as docs/compare.md shows them.
fn in_the_document(table: &str) -> Vec<String> {
    let row = |line: &str| {
        let (label, figures) = line.split_at(28);
        let figures: Vec<&str> = figures.split_whitespace().collect();
        // Of a search with several goals, the rows after the first have no cost.
        let &[trials, seconds, p5, median, _, _] = figures.as_slice() else { return None };
        let words: Vec<String> =
            label.trim_end().trim_end_matches(", 0 %").split(' ').map(|word| format!("`{word}`")).collect();
        let width = if label.starts_with("rfc8219") { ", width 0.5 %" } else { "" };
        let label = format!("{}{width}", words.join(", "));
        let [p5, median] = [p5, median].map(|rate| record::number::count(rate.parse().unwrap()));
        Some(format!("| {label} | {trials} | {seconds} | {p5} | {median} |"))
    };
    table.lines().skip(1).filter_map(row).collect()
}

/// Pauses of 10 ms on average every 3 s: near the capacity whether a trial of 60 s passes is a matter of
/// luck.
#[test]
fn of_a_server_that_often_pauses() {
    insta::assert_snapshot!(table(Pauses { every_s: 3.0, mean_s: 0.01 }));
}
