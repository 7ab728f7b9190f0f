//! What was aimed at, and how far it is reached.

use super::{Rates, Record, is_ours, ours};
use crate::goals::{Goal, Reached};

/// A quotient that is to be at least so large: the goal, our back-end, the other server.
const QUOTIENTS: [(&str, &str, &str, f64); 4] = [
    ("sockets: at least 1.3 x NSD per core", "udp", "NSD", 1.3),
    ("sockets: at least 1.4 x Knot per core", "udp", "Knot", 1.4),
    ("AF_XDP: at least 2 x Knot with AF_XDP", "xdp", "Knot, AF_XDP", 2.0),
    ("kernel: at least 5 x Knot with AF_XDP", "kernel", "Knot, AF_XDP", 5.0),
];
/// What the certificate for 1,000,000 q/s needs: 2.2 times its rate in q/s (RFC 8219 9.2.1, with a margin of
/// 10 %), for so many seconds, with every answer within so many.
const TESTED_QPS: f64 = 2_200_000.0;
const TRIAL_S: f64 = 60.0;
const TIMEOUT_S: f64 = 0.25;
const START_S_MAX: f64 = 0.1;
const MEMORY_MIB_MAX: f64 = 64.0;

pub(super) fn goals(record: &Record) -> Vec<Goal> {
    let quotients = QUOTIENTS.iter().map(|goal| quotient(&record.aaaa, goal));
    quotients.chain([certified(record), small(record)]).collect()
}

/// How many times as fast a server is as another. The ratio is the lowest of those with the same generator
/// and as many names: what favours joined packets or a small zone is the client's gift. Without such a pair
/// it is that of both at their best, which decides nothing.
fn quotient(rows: &[Rates], (goal, io, theirs, least): &(&str, &str, &str, f64)) -> Goal {
    let ours = ours(io);
    let by = |name: &str| -> Vec<&Rates> {
        rows.iter().filter(|row| row.server == name && row.peak_qps.median() > 0.0).collect()
    };
    let (ours, theirs) = (by(&ours), by(theirs));
    let equal = |a: &Rates, b: &Rates| (&a.generator, a.names_bits) == (&b.generator, b.names_bits);
    let pairs = ours.iter().flat_map(|&a| theirs.iter().map(move |&b| (a, b)));
    let lowest = pairs.filter(|(a, b)| equal(a, b)).min_by(|a, b| times(*a).total_cmp(&times(*b)));
    let (pair, of_whom) = match (lowest, best(&ours).zip(best(&theirs))) {
        (Some(pair), _) => (pair, format!("asked by {}", pair.0.generator)),
        (None, Some((a, b))) => {
            let (ours, theirs) = (a.names_bits, b.names_bits);
            ((a, b), format!("both at their best, with unequal names: 2^{ours} and 2^{theirs}"))
        }
        (None, None) => return Goal::not_measured(goal),
    };
    let thousands = |rates: &Rates| rates.peak_qps.median() / 1e3;
    let text = format!(
        "{:.2}: {:.0} against {:.0} thousand q/s ({of_whom})",
        times(pair),
        thousands(pair.0),
        thousands(pair.1)
    );
    let reached = if lowest.is_some() { Reached::if_true(times(pair) >= *least) } else { Reached::Unequal };
    Goal::new(goal, text, reached)
}

fn best<'r>(rows: &[&'r Rates]) -> Option<&'r Rates> {
    rows.iter().copied().max_by(|a, b| a.peak_qps.median().total_cmp(&b.peak_qps.median()))
}

fn times((ours, theirs): (&Rates, &Rates)) -> f64 {
    ours.peak_qps.median() / theirs.peak_qps.median()
}

fn certified(record: &Record) -> Goal {
    const GOAL: &str = "kernel: 2.2 million q/s, every answer valid within 0.25 s, for 60 s: the certificate for 1,000,000 q/s";
    let Some(certificate) = record.certificate else {
        return Goal::new(GOAL, "no certificate given (--certificate FILE)", Reached::Open);
    };
    let super::Certificate { required_qps, trial_s, timeout_s, certified_qps } = certificate;
    let text = format!(
        "{required_qps:.0} q/s for {trial_s:.0} s, answers within {timeout_s} s: certified to {certified_qps:.0} q/s"
    );
    let reached = required_qps >= TESTED_QPS && trial_s >= TRIAL_S && timeout_s <= TIMEOUT_S;
    Goal::new(GOAL, text, Reached::if_true(reached))
}

fn small(record: &Record) -> Goal {
    const GOAL: &str = "start < 0.1 s and memory < 64 MiB, whatever the name space";
    let ours = || record.sizes.iter().filter(|row| is_ours(&row.server) && !row.start_s.is_empty());
    if ours().next().is_none() {
        return Goal::not_measured(GOAL);
    }
    let start_s = ours().map(|row| row.start_s.median()).fold(0.0, f64::max);
    let memory_mib = ours().map(|row| row.peak_mib.median()).fold(0.0, f64::max);
    let text = format!("at most {start_s:.3} s and {memory_mib:.1} MiB");
    Goal::new(GOAL, text, Reached::if_true(start_s < START_S_MAX && memory_mib < MEMORY_MIB_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(server: &str, generator: &str, names_bits: u8, qps: f64) -> Rates {
        Rates {
            server: server.into(),
            generator: generator.into(),
            names_bits,
            peak_qps: vec![qps].into(),
            ..Rates::default()
        }
    }

    #[test]
    fn equal_generators_and_names_are_compared_before_anything_else() {
        let mut rows = vec![
            rates("sextant auth --io xdp", "kernel", 24, 1200.0),
            rates("Knot, AF_XDP", "kernel", 21, 500.0),
        ];
        let goal = quotient(&rows, &QUOTIENTS[2]);
        assert_eq!(goal.reached, Reached::Unequal);
        assert!(goal.here.contains("unequal names: 2^24 and 2^21"), "{}", goal.here);
        rows.push(rates("sextant auth --io xdp", "gso", 16, 700.0));
        rows.push(rates("Knot, AF_XDP", "gso", 16, 450.0));
        let goal = quotient(&rows, &QUOTIENTS[2]);
        assert_eq!(goal.reached, Reached::No, "{}", goal.here);
        assert_eq!(quotient(&rows, &QUOTIENTS[0]).reached, Reached::Open);
    }
}
