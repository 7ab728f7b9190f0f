//! What limited the rate: the first rule whose evidence is there, and nothing where none is.

use engine::record::{Bottleneck, Observation, Outcome, Results, Trial};

use crate::report::number::{count as grouped, plural};

/// A thread above this share of a processor, in percent, is at its limit.
const SATURATED_PCT: f64 = 90.0;
/// Other programs above this share of a processor, in percent, disturb.
const FOREIGN_PCT: f64 = 10.0;
/// So does the hypervisor above this.
const STEAL_PCT: f64 = 3.0;

/// Judges the last trial of each run that failed; the most frequent cause is the answer.
pub fn bottleneck(results: &Results) -> Option<Bottleneck> {
    if !results.runs.is_empty() && results.runs.iter().all(|run| run.at_ceiling) {
        return Some(Bottleneck {
            cause: "the Tester's certificate".into(),
            evidence:
                "every run passed at the highest rate that the self-test allows; the server may be faster"
                    .into(),
        });
    }
    let failed =
        results.runs.iter().filter_map(|run| run.trials.iter().rfind(|trial| trial.outcome == Outcome::Fail));
    let causes: Vec<Bottleneck> = failed.map(judge).collect();
    let count = |cause: &str| causes.iter().filter(|other| other.cause == cause).count();
    // Of equally frequent causes the first one stands.
    causes.iter().rev().max_by_key(|bottleneck| count(&bottleneck.cause)).cloned()
}

fn judge(trial: &Trial) -> Bottleneck {
    let none = Observation::default();
    let seen = trial.observation.as_ref().unwrap_or(&none);
    let rules = [auth, kernel, server_cpu, server_socket, others, late];
    let found = rules.iter().find_map(|rule| rule(trial, seen));
    let (cause, evidence) =
        found.unwrap_or_else(|| ("unattributed", "no counter shows where the queries went".into()));
    Bottleneck { cause: cause.into(), evidence: format!("at {} q/s: {evidence}", grouped(trial.rate_qps)) }
}

type Verdict = Option<(&'static str, String)>;

fn auth(_: &Trial, seen: &Observation) -> Verdict {
    let (queries, answers) = (seen.auth_queries?, seen.auth_answers?);
    let drops = seen.auth_socket_drops.unwrap_or(0);
    (drops > 0 || answers < queries).then(|| {
        let text = format!(
            "the AuthDNS answered {} of {} queries and its sockets dropped {}",
            grouped(answers),
            grouped(queries),
            grouped(drops)
        );
        ("AuthDNS", text)
    })
}

fn kernel(_: &Trial, seen: &Observation) -> Verdict {
    let drops = seen.softnet_drops.filter(|&drops| drops > 0)?;
    Some(("kernel of this host", format!("softnet dropped {} packets", grouped(drops))))
}

fn server_cpu(_: &Trial, seen: &Observation) -> Verdict {
    let pct = seen.dut_hottest_thread_pct.filter(|&pct| pct >= SATURATED_PCT)?;
    let thread = seen.dut_hottest_thread.as_deref().unwrap_or("its busiest");
    let drops = seen.dut_socket_drops.unwrap_or(0);
    let text = format!(
        "the server's thread {thread} used {pct:.0} % of a processor and its socket dropped {}",
        grouped(drops)
    );
    Some(("DUT CPU", text))
}

fn server_socket(_: &Trial, seen: &Observation) -> Verdict {
    let drops = seen.dut_socket_drops.filter(|&drops| drops > 0)?;
    let busy = seen
        .dut_hottest_thread_pct
        .map_or(String::new(), |pct| format!(" while its busiest thread used {pct:.0} %"));
    let text = format!(
        "the server's socket dropped {}{busy}: it paused for longer than its buffer lasts",
        grouped(drops)
    );
    Some(("DUT socket buffer and pauses", text))
}

fn others(_: &Trial, seen: &Observation) -> Verdict {
    let foreign = seen.foreign_cpu_pct.unwrap_or(0.0);
    let steal = seen.steal_pct.unwrap_or(0.0);
    (foreign >= FOREIGN_PCT || steal >= STEAL_PCT).then(|| {
        let text =
            format!("other programs used {foreign:.0} % of a processor and the hypervisor took {steal:.1} %");
        ("other load on this machine", text)
    })
}

fn late(trial: &Trial, _: &Observation) -> Verdict {
    (trial.late > 0).then(|| {
        let late = plural(usize::try_from(trial.late).unwrap_or(usize::MAX), "answer", "answers");
        let text = format!("{late} came after the timeout while no counter shows a drop");
        ("DUT queueing", text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(observation: Observation, late: u64) -> String {
        judge(&Trial { observation: Some(observation), late, ..Trial::default() }).cause
    }

    #[test]
    fn the_first_rule_with_evidence_wins() {
        let clean =
            || Observation { auth_queries: Some(10), auth_answers: Some(10), ..Observation::default() };
        assert_eq!(cause(clean(), 0), "unattributed");
        assert_eq!(cause(clean(), 3), "DUT queueing");
        assert_eq!(cause(Observation { steal_pct: Some(5.0), ..clean() }, 3), "other load on this machine");
        let drops = Observation { dut_socket_drops: Some(5), steal_pct: Some(5.0), ..clean() };
        assert_eq!(cause(drops.clone(), 3), "DUT socket buffer and pauses");
        let hot = Observation { dut_hottest_thread_pct: Some(99.0), ..drops };
        assert_eq!(cause(hot.clone(), 3), "DUT CPU");
        assert_eq!(cause(Observation { softnet_drops: Some(1), ..hot.clone() }, 3), "kernel of this host");
        assert_eq!(cause(Observation { auth_answers: Some(9), softnet_drops: Some(1), ..hot }, 3), "AuthDNS");
    }
}
