//! What limited the rate: for each trial that did not pass the first rule whose evidence is there, and nothing where none is.
//!
//! The rules stand in the order in which a cause hides those after it: a Tester that could not send or receive, packets that no
//! server saw, an AuthDNS that did not answer; then the server, the way between, and other load.

use engine::record::{Bottleneck, Observation, Outcome, Results, Trial};
use engine::trial::place;

use super::auth_probe::Probed;
use crate::report::number::{count as grouped, plural};

/// A thread above this share of a processor, in percent, is at its limit.
const SATURATED_PCT: f64 = 90.0;
/// Beside a thread at its limit, all others together below this share of a processor, in percent, have nothing to do.
const IDLE_PCT: f64 = 25.0;
/// Queries later than this, in ns, one in a thousand and more, are the Tester's fault: 1 % of RFC 8219's timeout.
const LATE_NS: u64 = 10_000_000;
/// More windows of 10 ms off the schedule than this, in percent, void a trial (`engine::trial::Tolerance`).
const UNEVEN_PCT: f64 = 2.0;
/// Other programs above this share of a processor, in percent, disturb.
const FOREIGN_PCT: f64 = 10.0;
/// So does the hypervisor above this.
const STEAL_PCT: f64 = 3.0;

/// The most frequent cause of the last trials of the runs that did not pass.
pub fn bottleneck(results: &Results) -> Option<Bottleneck> {
    let searched = results.settings.search != "fixed" && !results.runs.is_empty();
    if searched && results.runs.iter().all(|run| run.at_ceiling) {
        return Some(ceiling(results));
    }
    let failed =
        results.runs.iter().filter_map(|run| run.trials.iter().rfind(|trial| trial.outcome == Outcome::Fail));
    // Records of older programs have no cause with the trial.
    let causes: Vec<Bottleneck> =
        failed.filter_map(|trial| trial.cause.clone().or_else(|| cause(trial))).collect();
    let count = |cause: &str| causes.iter().filter(|other| other.cause == cause).count();
    // Of equally frequent causes the first one stands.
    causes.iter().rev().max_by_key(|bottleneck| count(&bottleneck.cause)).cloned()
}

/// Every run passed at the highest rate that it might try: who set that.
fn ceiling(results: &Results) -> Bottleneck {
    let highest = results.settings.rate_range_qps[1];
    let told = results.selftest.as_ref().is_some_and(|test| test.passed && test.certified_qps >= highest);
    let (cause, evidence) = if told {
        (
            "the highest rate tried",
            "every run passed at the highest rate that it was to try (--max-rate); the server may be faster",
        )
    } else {
        (
            "the Tester's certificate",
            "every run passed at the highest rate that the self-test allows; the server may be faster",
        )
    };
    Bottleneck { cause: cause.into(), evidence: evidence.into() }
}

/// Why a trial did not pass; `unattributed` where the counters do not tell, `None` if it passed.
pub fn cause(trial: &Trial) -> Option<Bottleneck> {
    if trial.outcome == Outcome::Pass {
        return None;
    }
    let none = Observation::default();
    let seen = trial.observation.as_ref().unwrap_or(&none);
    let rules = [
        tester_send,
        tester_receive,
        kernel,
        auth,
        one_thread,
        server_cpu,
        server_socket,
        path,
        others,
        late,
    ];
    let found = rules.iter().find_map(|rule| rule(trial, seen));
    let (cause, evidence) =
        found.unwrap_or_else(|| ("unattributed", "no counter shows where the queries went".into()));
    Some(Bottleneck {
        cause: cause.into(),
        evidence: format!("at {} q/s: {evidence}", grouped(trial.rate_qps)),
    })
}

type Verdict = Option<(&'static str, String)>;

fn lost_at(trial: &Trial, places: &[&str]) -> u64 {
    places.iter().filter_map(|place| trial.losses.get(*place)).sum()
}

fn tester_send(trial: &Trial, _: &Observation) -> Verdict {
    let unsent = lost_at(trial, &[place::UNSENT, place::OWN_SEND_ERROR]);
    let late_ns = trial.schedule_error_ns.p999;
    // A trial that is not void bore its uneven windows.
    let uneven_pct = if trial.outcome == Outcome::Void { trial.windows.ms10.off_pct } else { 0.0 };
    let off_schedule = !trial.closed_loop && (late_ns > LATE_NS || uneven_pct > UNEVEN_PCT);
    (unsent > 0 || off_schedule).then(|| {
        let late_ms = late_ns as f64 / 1e6;
        let unsent = grouped(unsent);
        let text = format!(
            "{unsent} queries were not sent, one in a thousand was {late_ms:.1} ms late or more, and {uneven_pct:.0} % of the 10 ms \
             windows were more than 5 % off"
        );
        ("Tester CPU", text)
    })
}

fn tester_receive(trial: &Trial, _: &Observation) -> Verdict {
    let drops = lost_at(trial, &[place::OWN_SOCKET_DROP, place::WRONG_QUEUE]);
    (drops > 0)
        .then(|| ("Tester receive", format!("the Measurer's own sockets dropped {} answers", grouped(drops))))
}

fn kernel(trial: &Trial, seen: &Observation) -> Verdict {
    let softnet = seen.softnet_drops.unwrap_or(0);
    let device = lost_at(trial, &[place::OWN_DEVICE_DROP]);
    (softnet > 0 || device > 0).then(|| {
        let (softnet, device) = (grouped(softnet), grouped(device));
        let text = format!(
            "the device of the queries dropped {device} packets, and the kernel {softnet} before any socket"
        );
        ("NIC or kernel of this host", text)
    })
}

fn auth(_: &Trial, seen: &Observation) -> Verdict {
    let (queries, answers) = (seen.auth_queries?, seen.auth_answers?);
    let drops = seen.auth_socket_drops.unwrap_or(0);
    if drops > 0 || answers < queries {
        let text = format!(
            "the AuthDNS answered {} of {} queries and its sockets dropped {}",
            grouped(answers),
            grouped(queries),
            grouped(drops)
        );
        return Some(("AuthDNS", text));
    }
    let probed = Probed { asked: seen.auth_probes?, late: seen.auth_probes_late? };
    probed.is_slow().then(|| {
        let Probed { asked, late } = probed;
        let text = format!(
            "{late} of {asked} questions to the AuthDNS beside the trial had no answer after a quarter of the timeout"
        );
        ("AuthDNS", text)
    })
}

/// Several sockets share the port, and one thread has all the work.
fn one_thread(_: &Trial, seen: &Observation) -> Verdict {
    let hottest = seen.dut_hottest_thread_pct.filter(|&pct| pct >= SATURATED_PCT)?;
    let (all, sockets) = (seen.dut_cpu_pct?, seen.dut_sockets?);
    (sockets > 1 && all - hottest < IDLE_PCT).then(|| {
        let thread = seen.dut_hottest_thread.as_deref().unwrap_or("its busiest");
        let text = format!(
            "the server's thread {thread} used {hottest:.0} % of a processor and all others together {:.0} %, though {sockets} sockets share its port: queries come from too few ports, or the device has one queue",
            (all - hottest).max(0.0)
        );
        ("one thread of the DUT (RSS, port spread)", text)
    })
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

/// Datagrams that one side sent and the other never had, as far as the counters of both namespaces tell; they must explain at least
/// half of what was lost.
fn path(trial: &Trial, seen: &Observation) -> Verdict {
    let (taken, sent) = (seen.dut_datagrams_in?, seen.dut_datagrams_out?);
    let (auth_queries, auth_answers) = (seen.auth_queries?, seen.auth_answers?);
    // A server past the stack counts neither; then nothing can be said.
    let answers = sent.checked_sub(auth_queries).filter(|&answers| answers >= trial.answered)?;
    let queries = taken.checked_sub(auth_answers)? + seen.dut_socket_drops.unwrap_or(0);
    let lost_answers = answers - trial.answered.saturating_add(trial.duplicates).min(answers);
    let lost_queries = trial.sent.saturating_sub(queries);
    (trial.lost > 0 && lost_answers.max(lost_queries) * 2 >= trial.lost).then(|| {
        let text = format!(
            "of {} queries {} came to the server's sockets, and of its {} answers {} came back",
            grouped(trial.sent),
            grouped(queries.min(trial.sent)),
            grouped(answers),
            grouped(trial.answered)
        );
        ("path", text)
    })
}

fn others(_: &Trial, seen: &Observation) -> Verdict {
    // Of a server whose process is unknown the own work would look like that of others.
    let foreign = seen.foreign_cpu_pct.filter(|_| seen.dut_cpu_pct.is_some()).unwrap_or(0.0);
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

    fn failed(observation: Observation, late: u64) -> Trial {
        Trial { outcome: Outcome::Fail, observation: Some(observation), late, ..Trial::default() }
    }

    fn name(trial: &Trial) -> String {
        cause(trial).unwrap().cause
    }

    fn clean() -> Observation {
        Observation { auth_queries: Some(20), auth_answers: Some(20), ..Observation::default() }
    }

    #[test]
    fn the_first_rule_with_evidence_wins() {
        let of = |observation: Observation, late| name(&failed(observation, late));
        assert_eq!(of(clean(), 0), "unattributed");
        assert_eq!(of(clean(), 3), "DUT queueing");
        assert_eq!(of(Observation { steal_pct: Some(5.0), ..clean() }, 3), "other load on this machine");
        let drops = Observation { dut_socket_drops: Some(5), steal_pct: Some(5.0), ..clean() };
        assert_eq!(of(drops.clone(), 3), "DUT socket buffer and pauses");
        let hot = Observation { dut_hottest_thread_pct: Some(99.0), dut_cpu_pct: Some(101.0), ..drops };
        assert_eq!(of(hot.clone(), 3), "DUT CPU");
        let spread = Observation { dut_sockets: Some(4), ..hot };
        assert_eq!(of(spread.clone(), 3), "one thread of the DUT (RSS, port spread)");
        assert_eq!(of(Observation { dut_cpu_pct: Some(180.0), ..spread.clone() }, 3), "DUT CPU");
        let unanswered = Observation { auth_answers: Some(9), ..spread };
        assert_eq!(of(unanswered.clone(), 3), "AuthDNS");
        let slow = Observation {
            auth_answers: Some(20),
            auth_probes: Some(9),
            auth_probes_late: Some(4),
            ..unanswered.clone()
        };
        assert!(cause(&failed(slow, 3)).unwrap().evidence.contains("4 of 9 questions to the AuthDNS"));
        let dropped = Observation { softnet_drops: Some(1), ..unanswered };
        assert_eq!(of(dropped.clone(), 3), "NIC or kernel of this host");
        let mut trial = failed(dropped, 3);
        trial.losses.insert(place::OWN_SOCKET_DROP.into(), 1);
        assert_eq!(name(&trial), "Tester receive");
        trial.schedule_error_ns.p999 = 2 * LATE_NS;
        assert_eq!(name(&trial), "Tester CPU");
        trial.closed_loop = true;
        assert_eq!(name(&trial), "Tester receive", "a closed loop has no schedule");
        (trial.closed_loop, trial.schedule_error_ns.p999, trial.windows.ms10.off_pct) = (false, 0, 50.0);
        assert_eq!(name(&trial), "Tester receive", "pauses that were made good are nobody's cause");
        trial.outcome = Outcome::Void;
        assert_eq!(name(&trial), "Tester CPU");
        trial.outcome = Outcome::Fail;
        trial.losses.insert(place::UNSENT.into(), 7);
        assert!(cause(&trial).unwrap().evidence.contains("7 queries were not sent"));
        assert_eq!(cause(&Trial { outcome: Outcome::Pass, ..trial }), None);
    }

    #[test]
    fn a_ceiling_that_was_told_is_not_the_certificates() {
        use engine::record::{Run, SelfTest};
        let mut results = super::super::empty_results("bench");
        results.runs = vec![Run { at_ceiling: true, ..Run::default() }];
        assert_eq!(bottleneck(&results).unwrap().cause, "the Tester's certificate");
        results.settings.rate_range_qps = [1, 60_000];
        results.selftest = Some(SelfTest { passed: true, certified_qps: 60_000, ..SelfTest::default() });
        assert_eq!(bottleneck(&results).unwrap().cause, "the highest rate tried");
    }

    #[test]
    fn what_one_side_sent_and_the_other_never_had_was_lost_on_the_way() {
        let trial = |taken, sent, drops| Trial {
            sent: 100,
            answered: 90,
            lost: 10,
            ..failed(
                Observation {
                    dut_datagrams_in: Some(taken),
                    dut_datagrams_out: Some(sent),
                    dut_socket_drops: Some(drops),
                    ..clean()
                },
                0,
            )
        };
        assert_eq!(name(&trial(120, 120, 0)), "path", "all were answered");
        assert_eq!(name(&trial(110, 110, 0)), "path", "ten never came");
        assert_eq!(name(&trial(120, 110, 0)), "unattributed", "the server kept ten for itself");
        assert_eq!(name(&trial(110, 110, 10)), "DUT socket buffer and pauses");
        assert_eq!(name(&trial(20, 20, 0)), "unattributed", "it goes past the counters");
    }
}
