//! The whole lab in one thread: Measurer, dns64d and AuthDNS on a virtual clock and a seeded network.
//!
//! A server of known capacity is planted and the search must find it. The tables are snapshots: a change of
//! any room of the corridor that changes a result shows here, and the same seed reproduces it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod faults;
mod lab;
mod network;

use crate::network::Conditions;
use engine::pacer::SECOND_NS;
use engine::search::{Goal, Mode, Next, Point, SearchSpec, TrialInput, loss_inversions, next};
use engine::trial::Validity;
use lab::{Lab, Planted};
use record::{Outcome, Trial};

/// A network that changes nothing but the time.
const CLEAN: Conditions = Conditions { delay_ns: 20_000, jitter_ns: 0, loss_ppm: 0, duplication_ppm: 0 };
/// One that reorders and duplicates.
const UNRULY: Conditions =
    Conditions { delay_ns: 20_000, jitter_ns: 400_000, loss_ppm: 0, duplication_ppm: 20_000 };
/// One that loses one datagram of 20,000.
const LOSSY: Conditions = Conditions { loss_ppm: 50, ..CLEAN };

/// Searches the planted server and returns a row of the table.
fn search(name: &str, mode: Mode, planted: Planted) -> String {
    let spec =
        SearchSpec { mode, low: 10, high: 40_000, trial_ns: SECOND_NS / 2, width_pct: 1.0, voids_max: 3 };
    let mut history: Vec<Point> = Vec::new();
    let mut trials: Vec<Trial> = Vec::new();
    let found = loop {
        match next(&spec, &history) {
            Next::Try(input) => {
                let TrialInput { load, duration_ns } = input;
                let trial = Lab::new(planted, history.len() as u64).trial(load, duration_ns);
                history.push(Point::of(input, &trial, Validity::Strict));
                trials.push(trial);
            }
            Next::Found(found) => break found,
            Next::Unfit(load) => panic!("a simulated Tester is never unfit ({load} q/s)"),
        }
    };
    for trial in &trials {
        assert_eq!(trial.sent, trial.valid + trial.invalid + trial.late + trial.lost);
        assert_eq!(trial.losses.values().sum::<u64>(), trial.scheduled - trial.valid);
    }
    let fails = history.iter().filter(|point| point.outcome == Outcome::Fail).count();
    format!(
        "{name:<28} {:>8} {:>6} {:>6} {:>6} {:>6} {:>10}\n",
        planted.capacity_qps(),
        found.load,
        found.stop_width,
        history.len(),
        fails,
        loss_inversions(&history)
    )
}

fn header() -> String {
    format!(
        "{:<28} {:>8} {:>6} {:>6} {:>6} {:>6} {:>10}\n",
        "server", "capacity", "found", "width", "trials", "fails", "inversions"
    )
}

/// A rate slightly above the capacity passes for as long as the buffer lasts, so the buffers are small: at
/// 10,156 q/s the half second of a trial leaves 78 of 10,000 q/s waiting.
#[test]
fn the_search_finds_the_planted_capacity() {
    let auth = Planted { service_ns: 100_000, buffer: 100, ..Planted::authoritative(CLEAN) };
    let dns64 = Planted { service_ns: 25_000, buffer: 200, ..Planted::dns64(CLEAN) };
    let mut table = header();
    table += &search("authoritative", Mode::Rfc8219, auth);
    table += &search("authoritative, unruly", Mode::Rfc8219, Planted { conditions: UNRULY, ..auth });
    table += &search("dns64d", Mode::Rfc8219, dns64);
    table += &search("dns64d, unruly", Mode::Verify, Planted { conditions: UNRULY, ..dns64 });
    table += &search("dns64d, small buffer", Mode::Rfc8219, Planted { buffer: 20, ..dns64 });
    table += &search("authoritative, loss, strict", Mode::Rfc8219, Planted { conditions: LOSSY, ..auth });
    table += &search("authoritative, loss, verify", Mode::Verify, Planted { conditions: LOSSY, ..auth });
    let goals = Goal::ladder(SECOND_NS / 2, 1.0);
    table += &search("dns64d, mlr", Mode::Mlr(goals.clone()), dns64);
    table += &search("authoritative, loss, mlr", Mode::Mlr(goals), Planted { conditions: LOSSY, ..auth });
    insta::assert_snapshot!(table);
}

/// Where the queries of one trial went.
fn account(name: &str, trial: &Trial) -> String {
    let losses: Vec<String> = trial.losses.iter().map(|(place, count)| format!("{place} {count}")).collect();
    format!(
        "{name:<34} {:?}: sent {} valid {} invalid {} late {} lost {} duplicates {} [{}]\n",
        trial.outcome,
        trial.sent,
        trial.valid,
        trial.invalid,
        trial.late,
        trial.lost,
        trial.duplicates,
        losses.join(", ")
    )
}

#[test]
fn every_query_is_accounted_for() {
    let clean = Planted { service_ns: 10_000, buffer: 1000, ..Planted::dns64(CLEAN) };
    let trial = |planted, rate| Lab::new(planted, 42).trial(rate, SECOND_NS / 2);
    let mut table = account("clean", &trial(clean, 5000));
    table += &account("duplicating and reordering", &trial(Planted { conditions: UNRULY, ..clean }, 5000));
    let lossy = Conditions { loss_ppm: 20_000, ..CLEAN };
    table += &account("2 % loss on every link", &trial(Planted { conditions: lossy, ..clean }, 5000));
    table += &account("overloaded", &trial(Planted { service_ns: 100_000, buffer: 500, ..clean }, 5000));
    let slow = Conditions { delay_ns: 400_000_000, ..CLEAN };
    table += &account("links of 400 ms", &trial(Planted { conditions: slow, ..clean }, 500));
    let wrong = "2001:db8:bad::/96".parse().unwrap();
    table += &account("another prefix", &trial(Planted { prefix: wrong, ..clean }, 500));
    insta::assert_snapshot!(table);
}

/// The server stops for 200 ms at 10,000 q/s: 2000 queries wait from 200 ms down to nothing, and those that
/// come while it catches up wait too. An open-loop Measurer shows all of them; a closed-loop one would show a
/// single slow query.
#[test]
fn a_stall_is_seen_in_full() {
    let planted = Planted { service_ns: 10_000, buffer: 1 << 20, ..Planted::authoritative(CLEAN) };
    let mut lab = Lab::new(planted, 1);
    lab.stall_at(SECOND_NS / 2, 200_000_000);
    let trial = lab.trial(10_000, 2 * SECOND_NS);
    assert_eq!(trial.outcome, Outcome::Pass);
    // The backlog of 2000 shrinks by 100,000 - 10,000 each second: it lasts 22 ms, in which 222 more arrive.
    let affected = 2222.0;
    let p99_ns = trial.latency_ns.p99 as f64;
    // 200 of 20,000 answers are slower than p99; latency falls linearly over the affected ones.
    let expected_ns = 200e6 * (1.0 - 200.0 / affected);
    assert!((p99_ns / expected_ns - 1.0).abs() < 0.01, "p99 {p99_ns} instead of {expected_ns}");
    assert!((trial.latency_ns.max as f64 / 200e6 - 1.0).abs() < 0.01);
}

/// At 50,000 q/s a server stops for 200 ms: 10,000 queries wait for it. It needs 2 µs for each, so the
/// backlog shrinks by 450,000 a second and lasts 22.2 ms, in which 1111 more come. The latency of the n-th of
/// these 11,111 falls evenly from 200 ms to nothing, and percentiles and counts follow.
#[test]
fn a_stall_at_50000_queries_per_second_is_as_computed() {
    const RATE: f64 = 50_000.0;
    const STALL_NS: f64 = 200e6;
    let planted = Planted { service_ns: 2_000, buffer: 1 << 20, ..Planted::authoritative(CLEAN) };
    let mut lab = Lab::new(planted, 1);
    lab.stall_at(SECOND_NS / 2, STALL_NS as u64);
    let (trial, latency_ns) = lab.trial_with_latencies(RATE as u64, 2 * SECOND_NS);
    assert_eq!((trial.outcome, trial.valid), (Outcome::Pass, 100_000));

    let affected = RATE * 0.2 / (1.0 - RATE / 500_000.0);
    // Two ways of 20 µs and the service.
    let undisturbed_ns = 42_000.0;
    let slower_than = |threshold_ns: f64| affected * (1.0 - (threshold_ns - undisturbed_ns) / STALL_NS);
    let percentile = |share: f64| undisturbed_ns + STALL_NS * (1.0 - share * 100_000.0 / affected);
    for (what, found, computed) in [
        ("p99", trial.latency_ns.p99 as f64, percentile(0.01)),
        ("p99.9", trial.latency_ns.p999 as f64, percentile(0.001)),
        ("max", trial.latency_ns.max as f64, percentile(0.0)),
        ("slower than 1 ms", latency_ns.count_between(1_000_000, u64::MAX) as f64, slower_than(1e6)),
        ("slower than 100 ms", latency_ns.count_between(100_000_000, u64::MAX) as f64, slower_than(100e6)),
    ] {
        // The histogram has three digits, and a query more or less may be at the edge of its bucket.
        assert!((found / computed - 1.0).abs() < 0.002, "{what}: {found} instead of {computed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trial() {
    let planted = Planted { service_ns: 30_000, buffer: 100, ..Planted::dns64(UNRULY) };
    let trial = |seed| Lab::new(planted, seed).trial(12_000, SECOND_NS / 4);
    assert_eq!(trial(5), trial(5));
    assert_ne!(trial(5).latency_curve, trial(6).latency_curve);
}
