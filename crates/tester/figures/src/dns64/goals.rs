//! What was aimed at, and how far it is reached.

use super::{OURS, Quotient, Record, SecondMethod};
use crate::Sample;
use crate::goals::{Goal, Reached};

/// A quotient that is to be at least so large.
const QUOTIENTS: [(&str, Quotient, &str, f64); 5] = [
    ("RFC 8219 rate, one core: at least 4 x Unbound's", Quotient::Rate, "unbound", 4.0),
    ("RFC 8219 rate, one core: at least 2.3 x mtd64-ng's", Quotient::Rate, "mtd64-ng", 2.3),
    ("processor time of a miss: at most a quarter of Unbound's", Quotient::Miss, "unbound", 4.0),
    ("processor time of a miss: at most 1/2.3 of mtd64-ng's", Quotient::Miss, "mtd64-ng", 2.3),
    ("processor time of a hit: at most 1/2.2 of Unbound's", Quotient::Hit, "unbound", 2.2),
];
/// The most processor time of a miss and of a hit over sockets, in µs.
const MISS_US_MAX: f64 = 12.0;
const HIT_US_MAX: f64 = 2.0;
/// The most memory before the first query, in MiB.
const EMPTY_MIB_MAX: f64 = 32.0;
/// dns64d with AF_XDP, by its name, and how many times as fast as over sockets it is to be.
const WITH_XDP: &str = "dns64d-xdp";
const XDP_TIMES_MIN: f64 = 2.0;
/// Processor time of a miss without and with the protection against forged answers, in µs: medians of five
/// trials in turns, of 2026-11-24 (docs/decisions/0034).
const MISS_US_WITHOUT_AND_WITH_PROTECTION: [f64; 2] = [8.6, 9.6];
/// What the protection may add to a miss, in percent.
const PROTECTION_PCT_MAX: f64 = 5.0;

pub(super) fn goals(record: &Record) -> Vec<Goal> {
    let mut goals: Vec<Goal> = QUOTIENTS.iter().map(|goal| quotient(record, goal)).collect();
    let costs = record.server(OURS).map(|ours| &ours.costs);
    goals.push(at_most(
        "a miss over sockets: at most 12 µs",
        costs.map(|costs| &costs.miss_us),
        MISS_US_MAX,
        "µs",
    ));
    goals.push(at_most(
        "a hit over sockets: at most 2 µs",
        costs.map(|costs| &costs.hit_us),
        HIT_US_MAX,
        "µs",
    ));
    goals.push(protection());
    goals.push(lowest_p999(record));
    let empty = record.server(OURS).map(|ours| &ours.sizes.empty_mib);
    goals.push(at_most("memory before the first query: below 32 MiB", empty, EMPTY_MIB_MAX, "MiB"));
    goals.push(with_xdp(record));
    goals
}

fn at_most(goal: &str, measured: Option<&Sample>, most: f64, unit: &str) -> Goal {
    match measured.filter(|sample| !sample.is_empty()) {
        Some(sample) => {
            let median = sample.median();
            Goal::new(goal, format!("{median:.1} {unit}"), Reached::if_true(median <= most))
        }
        None => Goal::not_measured(goal),
    }
}

fn quotient(record: &Record, (goal, quotient, server, least): &(&str, Quotient, &str, f64)) -> Goal {
    let second =
        record.second_method.iter().find(|second| second.quotient == *quotient && second.server == *server);
    let here = record.times(*quotient, server);
    let of = if record.compares_kept_up(*quotient, server) { " of the rates kept up" } else { "" };
    let text = match (here, second) {
        (None, None) => return Goal::not_measured(goal),
        (Some(times), None) => format!("{times:.2}{of}"),
        (None, Some(second)) => format!("not measured here; {}", in_words(second)),
        (Some(times), Some(second)) => format!("{times:.2}{of}; {}", in_words(second)),
    };
    let reached = match (here.map(|times| times >= *least), second.map(|second| second.low >= *least)) {
        (Some(true), Some(false)) => Reached::HereOnly,
        (Some(true), _) | (None, Some(true)) => Reached::Yes,
        _ => Reached::No,
    };
    Goal::new(goal, text, reached)
}

fn in_words(second: &SecondMethod) -> String {
    format!("by the other method {:.2} to {:.2}", second.low, second.high)
}

/// What new ports and random letter case add to a miss. No bench measures it again: the program without them
/// is of the past.
fn protection() -> Goal {
    let [without_us, with_us] = MISS_US_WITHOUT_AND_WITH_PROTECTION;
    let more_pct = 100.0 * (with_us / without_us - 1.0);
    Goal::new(
        &format!("protection against forged answers: a miss costs at most {PROTECTION_PCT_MAX:.0} % more"),
        format!(
            "{more_pct:.0} % more, {with_us:.1} instead of {without_us:.1} µs, on 2026-11-24 (decision 0034)"
        ),
        Reached::if_true(more_pct <= PROTECTION_PCT_MAX),
    )
}

/// The lowest p99.9 at half of the own rate is to be dns64d's.
fn lowest_p999(record: &Record) -> Goal {
    const GOAL: &str = "p99.9 at half of the own rate: below every other server's";
    let p999 = |name: &str| {
        let sample = &record.server(name)?.latencies_at(50)?.p999_us;
        (!sample.is_empty()).then(|| sample.median())
    };
    let others = record.servers.iter().map(|server| server.name.as_str());
    let others = others.filter(|name| !name.starts_with(OURS));
    let lowest = others.filter_map(|name| Some((p999(name)?, name))).min_by(|a, b| a.0.total_cmp(&b.0));
    match (p999(OURS), lowest) {
        (Some(ours), Some((theirs, name))) => {
            let text = format!("{ours:.0} µs; the lowest other is {theirs:.0} µs ({name})");
            Goal::new(GOAL, text, Reached::if_true(ours < theirs))
        }
        _ => Goal::not_measured(GOAL),
    }
}

fn with_xdp(record: &Record) -> Goal {
    const GOAL: &str = "AF_XDP: a rate of at least 2 x that over sockets";
    let rates = |name: &str| Some(&record.server(name)?.one_core);
    match rates(WITH_XDP).zip(rates(OURS)).and_then(|(xdp, sockets)| xdp.rate_times(sockets)) {
        Some(times) => Goal::new(GOAL, format!("{times:.2}"), Reached::if_true(times >= XDP_TIMES_MIN)),
        None => Goal::not_measured(GOAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns64::{Rates, Server};

    fn server(name: &str, rate_qps: f64) -> Server {
        let one_core = Rates { rfc8219_qps: vec![rate_qps].into(), ..Rates::default() };
        Server { name: name.into(), one_core, ..Server::default() }
    }

    fn rate_goal(record: &Record) -> Reached {
        quotient(record, &QUOTIENTS[0]).reached
    }

    #[test]
    fn what_was_kept_up_with_decides_where_it_is_known() {
        let mut servers = vec![server(OURS, 50.0), server("unbound", 20.0)];
        assert_eq!(rate_goal(&Record { servers: servers.clone(), ..Record::default() }), Reached::No);
        servers[1].one_core.kept_up_qps = vec![10.0].into();
        assert_eq!(rate_goal(&Record { servers: servers.clone(), ..Record::default() }), Reached::No);
        servers[0].one_core.kept_up_qps = vec![45.0].into();
        let goal = quotient(&Record { servers, ..Record::default() }, &QUOTIENTS[0]);
        assert_eq!((goal.here.as_str(), goal.reached), ("4.50 of the rates kept up", Reached::Yes));
    }

    #[test]
    fn another_method_can_take_a_goal_back() {
        let mut record =
            Record { servers: vec![server(OURS, 50.0), server("unbound", 10.0)], ..Record::default() };
        assert_eq!(rate_goal(&record), Reached::Yes);
        let second = SecondMethod { quotient: Quotient::Rate, server: "unbound".into(), low: 3.0, high: 5.0 };
        record.second_method.push(second);
        assert_eq!(rate_goal(&record), Reached::HereOnly);
        record.second_method[0].low = 4.0;
        assert_eq!(rate_goal(&record), Reached::Yes);
        record.servers[0] = server(OURS, 39.0);
        assert_eq!(rate_goal(&record), Reached::No);
        record.servers.pop();
        assert_eq!(rate_goal(&record), Reached::Yes, "by the other method alone");
        record.second_method.clear();
        assert_eq!(rate_goal(&record), Reached::Open);
    }
}
