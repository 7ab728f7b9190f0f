//! What was aimed at, and how far it is reached.

use super::{DNSPERF, Pacing, Record, SOCKETS, XDP, kxdpgun, ours, streams};
use crate::Sample;
use crate::goals::{Goal, Reached};

/// The back-ends of the Measurer.
const ALL: [&str; 4] = ["udp", "gso", "xdp", "kernel"];

/// All goals.
pub(super) fn goals(record: &Record) -> Vec<Goal> {
    let mut goals = of_datagrams(record);
    goals.extend(streams::goals(record.streams.as_ref()));
    goals
}

fn of_datagrams(record: &Record) -> Vec<Goal> {
    let against_kxdpgun = kxdpgun(10);
    vec![
        fast(
            record,
            "sockets reflector: udp and gso at least 1.7 x dnsperf",
            SOCKETS,
            &ALL[..2],
            (DNSPERF, 1.7),
        ),
        fast(
            record,
            "sockets reflector: each at least 1.0 x kxdpgun",
            SOCKETS,
            &ALL,
            (&against_kxdpgun, 1.0),
        ),
        fast_enough(record, "XDP reflector: gso or xdp at least 1.0 x kxdpgun", &ALL[1..3], 1.0),
        fast_enough(record, "XDP reflector: kernel at least 4 x kxdpgun", &ALL[3..], 4.0),
        even(
            record,
            ("udp", 100_000),
            "udp at 100,000 q/s: cv of 1 ms windows at most 1 %",
            |row| &row.cv_1_ms_pct,
            1.0,
        ),
        even(
            record,
            ("kernel", 100_000),
            "kernel at 100,000 q/s: cv of 1 ms windows at most 0.1 %",
            |row| &row.cv_1_ms_pct,
            0.1,
        ),
        even(
            record,
            ("kernel", 2_000_000),
            "kernel at 2,000,000 q/s: worst 10 ms window at most 0.1 % off",
            |row| &row.worst_10_ms_pct,
            0.1,
        ),
        stopped(record),
        exact(record),
        evenly_on_all(record),
        held(record, "2,200,000 q/s for 60 s: ten of ten tries valid", 2_200_000, |tries, valid| {
            // Fewer tries that were all valid decide nothing.
            if valid < tries || tries >= 10 { Reached::if_true(valid == tries) } else { Reached::Open }
        }),
        held(record, "4,000,000 q/s for 60 s: valid in a quiet minute", 4_000_000, |_, valid| {
            Reached::if_true(valid > 0)
        }),
    ]
}

/// On all processors, the worst round.
fn evenly_on_all(record: &Record) -> Goal {
    const GOAL: &str = "kernel at 2,000,000 q/s: 99 % of the 10 ms windows within 1 %, on all processors";
    let on_all = record.lanes.as_ref().and_then(|lanes| lanes.even_pct.last()).filter(|pct| !pct.is_empty());
    match on_all.map(Sample::range) {
        Some((low, high)) => {
            Goal::new(GOAL, format!("{low:.2} to {high:.2} %"), Reached::if_true(low >= 99.0))
        }
        None => Goal::not_measured(GOAL),
    }
}

/// Of the tries of a minute at a rate, so many are to be valid.
fn held(record: &Record, goal: &str, rate_qps: u64, reached: fn(usize, usize) -> Reached) -> Goal {
    let tries = record.lanes.as_ref().map(|lanes| lanes.tries_at(rate_qps, 60));
    match tries.filter(|(tries, _)| *tries > 0) {
        Some((tries, valid)) => Goal::new(goal, format!("{valid} of {tries}"), reached(tries, valid)),
        None => Goal::not_measured(goal),
    }
}

/// The quotients of back-ends by another tool, with their names.
fn quotients(record: &Record, target: &str, ios: &[&str], tool: &str) -> Vec<(f64, String)> {
    let Some(target) = record.target(target) else { return Vec::new() };
    let theirs = target.row(tool).map(|row| &row.answered_qps);
    let quotient = |io: &&str| {
        let times = target.row(&ours(io))?.answered_qps.times(theirs?)?;
        Some((times, format!("{io} {times:.2}")))
    };
    ios.iter().filter_map(quotient).collect()
}

fn in_words(quotients: &[(f64, String)]) -> String {
    quotients.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(", ")
}

/// All of them are to be so fast.
fn fast(record: &Record, goal: &str, target: &str, ios: &[&str], (tool, least): (&str, f64)) -> Goal {
    let found = quotients(record, target, ios, tool);
    match found.iter().map(|(times, _)| *times).min_by(f64::total_cmp) {
        Some(lowest) => Goal::new(goal, in_words(&found), Reached::if_true(lowest >= least)),
        None => Goal::not_measured(goal),
    }
}

/// One of them is to be so fast as a multiple of kxdpgun at the XDP reflector.
fn fast_enough(record: &Record, goal: &str, ios: &[&str], least: f64) -> Goal {
    let found = quotients(record, XDP, ios, &kxdpgun(10));
    match found.iter().map(|(times, _)| *times).max_by(f64::total_cmp) {
        Some(highest) => Goal::new(goal, in_words(&found), Reached::if_true(highest >= least)),
        None => Goal::not_measured(goal),
    }
}

/// The worst round at a rate is to be so even.
fn even(
    record: &Record,
    (io, rate_qps): (&str, u64),
    goal: &str,
    of: fn(&Pacing) -> &Sample,
    most: f64,
) -> Goal {
    let rows = record.evenness.iter().filter(|row| row.tool == ours(io) && row.rate_qps == rate_qps);
    let ranges: Vec<(f64, f64)> =
        rows.map(of).filter(|sample| !sample.is_empty()).map(Sample::range).collect();
    let low = ranges.iter().map(|(low, _)| *low).min_by(f64::total_cmp);
    let high = ranges.iter().map(|(_, high)| *high).max_by(f64::total_cmp);
    match low.zip(high) {
        Some((low, high)) => {
            Goal::new(goal, format!("{low:.2} to {high:.2} %"), Reached::if_true(high <= most))
        }
        None => Goal::not_measured(goal),
    }
}

fn stopped(record: &Record) -> Goal {
    const GOAL: &str = "server stopped for 200 ms: count, p99 and p99.9 within 1 % of arithmetic";
    let Some(stall) = &record.stall else { return Goal::not_measured(GOAL) };
    let off_pct = [&stall.slow, &stall.p99_ms, &stall.p999_ms].map(|[_, _, off_pct]| {
        let (low, high) = off_pct.range();
        low.abs().max(high.abs())
    });
    let [slow, p99, p999] = off_pct;
    let text = format!("{slow:.2}, {p99:.2}, {p999:.2} %");
    Goal::new(GOAL, text, Reached::if_true(off_pct.iter().all(|off| *off <= 1.0)))
}

/// The first datagram of sextant asks whether the server answers: one too many is exact.
fn exact(record: &Record) -> Goal {
    const GOAL: &str = "70,000, 105,000 and 150,000 q/s exact to one query";
    let rows: Vec<&Pacing> = record.rates.iter().filter(|row| row.tool.starts_with("sextant ")).collect();
    if rows.is_empty() {
        return Goal::not_measured(GOAL);
    }
    let wrong = |row: &&&Pacing| {
        let (low, high) = row.excess.range();
        low < 0.0 || high > 1.0
    };
    match rows.iter().find(wrong) {
        None => Goal::new(GOAL, "exact in every run", Reached::Yes),
        Some(row) => {
            let text = format!("{} at {} q/s: {} too many", row.tool, row.rate_qps, row.excess.decimals(0));
            Goal::new(GOAL, text, Reached::No)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tester::{Capacity, Stall, Target};

    fn row(tool: String, qps: f64) -> Capacity {
        Capacity { tool, answered_qps: vec![qps].into(), ..Capacity::default() }
    }

    #[test]
    fn a_goal_for_all_is_missed_by_one() {
        let rows = vec![row(DNSPERF.into(), 100.0), row(ours("udp"), 180.0), row(ours("gso"), 160.0)];
        let mut record =
            Record { capacity: vec![Target { name: SOCKETS.into(), rows }], ..Record::default() };
        assert_eq!(
            (goals(&record)[0].reached, goals(&record)[0].here.as_str()),
            (Reached::No, "udp 1.80, gso 1.60")
        );
        record.capacity[0].rows[2] = row(ours("gso"), 170.0);
        assert_eq!(goals(&record)[0].reached, Reached::Yes);
        assert_eq!(goals(&record)[2].reached, Reached::Open);
    }

    #[test]
    fn one_uneven_round_misses_a_goal() {
        let pacing = |values: &[f64]| Pacing {
            tool: ours("udp"),
            rate_qps: 100_000,
            cv_1_ms_pct: values.to_vec().into(),
            ..Pacing::default()
        };
        let record = |values: &[f64]| Record { evenness: vec![pacing(values)], ..Record::default() };
        assert_eq!(goals(&record(&[0.1, 0.9]))[4].reached, Reached::Yes);
        assert_eq!(goals(&record(&[0.1, 0.2, 1.1]))[4].reached, Reached::No);
    }

    #[test]
    fn differences_count_in_both_directions() {
        let mut record = Record { stall: Some(Stall::default()), ..Record::default() };
        assert_eq!(stopped(&record).reached, Reached::Yes);
        record.stall.as_mut().unwrap().p99_ms[2] = vec![-1.5, 0.1].into();
        assert_eq!(stopped(&record).reached, Reached::No);
        let missing = Pacing { tool: ours("udp"), excess: vec![1.0, -2.0].into(), ..Pacing::default() };
        record.rates.push(missing);
        assert_eq!(exact(&record).reached, Reached::No);
    }
}
