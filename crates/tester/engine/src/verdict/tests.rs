//! Trials and their verdicts.

use super::*;
use crate::pacer::{SECOND_NS, Schedule};
use crate::stats::Stats;
use crate::trial::{ColdCache, OwnFaults, conclude};

/// A trial of one second at 10,000 q/s; every query is answered at once.
fn perfect() -> (Schedule, Stats) {
    late_by(|_| 0)
}

/// The same with so many ns between the instant at which a query is due, counted from the start, and its
/// sending.
fn late_by(lateness_ns: impl Fn(u64) -> u64) -> (Schedule, Stats) {
    let schedule = Schedule::new(1, 10_000, SECOND_NS);
    let mut stats = Stats::new(schedule);
    for n in 0..schedule.queries {
        let due = schedule.due_ns(n);
        stats.note_sent(due, due + lateness_ns(due - schedule.start_ns));
        stats.note_valid(due, 0, due + 1000);
        stats.valid_compat += 1;
    }
    (schedule, stats)
}

fn verdict(
    (schedule, stats): &(Schedule, Stats),
    circumstances: &Circumstances,
    timeout_ns: u64,
    validity: Validity,
) -> Trial {
    conclude(schedule, stats, circumstances, &Limits::for_timeout(timeout_ns), validity)
}

fn concluded(counted: &(Schedule, Stats), circumstances: &Circumstances) -> Trial {
    verdict(counted, circumstances, SECOND_NS, Validity::Strict)
}

fn own(own: OwnFaults) -> Circumstances {
    Circumstances { own, ..Circumstances::default() }
}

fn seen(observation: Observation) -> Circumstances {
    Circumstances { observation: Some(observation), ..Circumstances::default() }
}

fn cause(trial: &Trial) -> Cause {
    trial.cause.clone().unwrap().cause
}

#[test]
fn all_valid_passes_and_one_lost_fails() {
    let mut counted = perfect();
    let passed = concluded(&counted, &Circumstances::default());
    assert_eq!((passed.outcome, passed.void, passed.cause), (Outcome::Pass, None, None));
    counted.1.valid -= 1;
    let failed = concluded(&counted, &Circumstances::default());
    assert_eq!((failed.outcome, failed.lost, failed.void.clone()), (Outcome::Fail, 1, None));
    assert_eq!(failed.losses, [(LossPlace::ServerSilent, 1)].into());
    assert_eq!(cause(&failed), Cause::Unattributed);
    assert!(failed.cause.unwrap().evidence.contains("no counter was read"));
    let compat = verdict(&counted, &Circumstances::default(), SECOND_NS, Validity::Compat);
    assert_eq!(compat.outcome, Outcome::Pass);
}

#[test]
fn the_testers_own_faults_void_and_never_blame_the_server() {
    let void = |stats: &(Schedule, Stats), faults, of: Cause| {
        let trial = concluded(stats, &own(faults));
        assert_eq!((trial.outcome, cause(&trial)), (Outcome::Void, of));
        trial.void.unwrap()
    };
    let (schedule, stats) = perfect();
    let counted = |change: fn(&mut Stats)| {
        let mut stats = stats.clone();
        change(&mut stats);
        (schedule, stats)
    };
    let unchanged = counted(|_| ());
    let dropped = OwnFaults { socket_drops: 3, ..OwnFaults::default() };
    assert!(void(&unchanged, dropped.clone(), Cause::TesterReceive).contains("dropped 3 answers"));
    let cut = OwnFaults { interrupted: true, ..dropped.clone() };
    assert_eq!(void(&unchanged, cut, Cause::Interrupted), "interrupted");
    let refused = OwnFaults { send_error: Some("no buffer".into()), ..OwnFaults::default() };
    let text = void(&counted(|stats| stats.note_send_errors(2)), refused, Cause::TesterCpu);
    assert!(text.contains("could not send 2 queries (send errors): no buffer"), "{text}");
    let unsent = |stats: &mut Stats| (stats.sent, stats.valid) = (stats.sent - 5, stats.valid - 5);
    let text = void(&counted(unsent), OwnFaults::default(), Cause::TesterCpu);
    assert!(text.contains("5 of 10000 queries never left"), "{text}");
    let starved = |stats: &mut Stats| {
        (stats.sent, stats.valid, stats.starved) = (stats.sent - 5, stats.valid - 5, 7);
    };
    assert!(void(&counted(starved), OwnFaults::default(), Cause::QueryFile).contains("7 times"));
    let ended = |stats: &mut Stats| stats.ran_out = Some("the pipe ended".into());
    assert_eq!(void(&counted(ended), OwnFaults::default(), Cause::QueryFile), "the pipe ended");
    let late = late_by(|_| 20_000_000);
    assert!(void(&late, OwnFaults::default(), Cause::TesterCpu).contains("was late"));
    assert!(
        void(&late, dropped, Cause::TesterCpu).contains("dropped 3 answers"),
        "a late Tester reads late: lost answers are the reason, lateness is their cause"
    );
}

/// A Tester that is 5 ms late is late where 250 ms are allowed for an answer, and not where a second is.
#[test]
fn what_is_late_follows_the_timeout() {
    let mut counted = late_by(|due_ns| if due_ns < SECOND_NS / 50 { 5_000_000 } else { 0 });
    // As busy as the server may look, and as late as its answers are.
    counted.1.valid -= 300;
    counted.1.late = 300;
    let busy = || {
        seen(Observation {
            dut_hottest_thread_pct: Some(99.0),
            dut_cpu_pct: Some(99.0),
            ..Observation::default()
        })
    };
    let slow = verdict(&counted, &busy(), SECOND_NS, Validity::Strict);
    assert_eq!((slow.outcome, cause(&slow)), (Outcome::Fail, Cause::DutCpu));
    let late = verdict(&counted, &busy(), SECOND_NS / 4, Validity::Strict);
    assert_eq!((late.outcome, cause(&late)), (Outcome::Void, Cause::TesterCpu));
    let why = late.void.unwrap();
    assert!(why.contains("5.0 ms late") && why.contains("2.5 ms is allowed"), "{why}");
    assert!(late.cause.unwrap().evidence.contains(&why), "the cause is what the reason says");
}

#[test]
fn every_limit_that_is_a_share_of_the_timeout_follows_it() {
    let quarter = Limits::for_timeout(SECOND_NS / 4);
    let shares = [quarter.lateness_p999_ns, quarter.lateness_max_ns, quarter.auth_answer_ns];
    assert_eq!(shares, [2_500_000, 25_000_000, 62_500_000]);
    let whole = Limits::for_timeout(SECOND_NS);
    let of_whole = [whole.lateness_p999_ns, whole.lateness_max_ns, whole.auth_answer_ns];
    assert_eq!(shares.map(|share| share * 4), of_whole);
    let followers = LIMITS.iter().filter(|limit| limit.unit == "% of the timeout").count();
    assert_eq!(followers, shares.len());
}

#[test]
fn drops_of_the_own_device_void_a_trial_that_misses_answers() {
    let mut counted = perfect();
    for (faults, reason) in [
        (OwnFaults { device_drops: 7, ..OwnFaults::default() }, "own device dropped 7"),
        (OwnFaults { wrong_queue: 7, ..OwnFaults::default() }, "7 answers came to queues"),
    ] {
        let passed = concluded(&counted, &own(faults.clone()));
        assert_eq!(passed.outcome, Outcome::Pass, "they were somebody else's");
        counted.1.valid -= 9;
        let trial = concluded(&counted, &own(faults));
        assert!(trial.void.unwrap().contains(reason));
        assert_eq!(trial.losses[&LossPlace::ServerSilent], 2);
        counted.1.valid += 9;
    }
}

/// A pause of 5 ms displaces 50 queries; all but `lost` are answered.
fn after_a_pause(lost: u64) -> Trial {
    let mut counted = late_by(|due_ns| match due_ns {
        505_000_000..510_000_000 => 510_000_000 - due_ns,
        _ => 0,
    });
    counted.1.valid -= lost;
    concluded(&counted, &Circumstances::default())
}

#[test]
fn a_pause_that_was_made_good_is_not_falling_behind() {
    let limits = Limits::for_timeout(SECOND_NS);
    assert!(!fell_behind(&after_a_pause(0), &limits));
    // By 160 ms at the end, and by 8 ms.
    for (duration_ns, slower_pct) in [(4 * SECOND_NS, 4), (SECOND_NS / 50, 40)] {
        let schedule = Schedule::new(1, 10_000, duration_ns);
        let mut stats = Stats::new(schedule);
        for n in 0..schedule.queries {
            let due = schedule.due_ns(n);
            stats.note_sent(due, due + (due - schedule.start_ns) * slower_pct / 100);
        }
        assert!(fell_behind(&concluded(&(schedule, stats), &Circumstances::default()), &limits));
    }
}

#[test]
fn a_pause_of_the_tester_excuses_as_many_failures_as_it_displaced_queries() {
    let passed = after_a_pause(0);
    assert_eq!((passed.outcome, passed.void.as_deref()), (Outcome::Pass, None));
    assert_eq!(passed.displaced, 49, "a deviation of one is rounding");
    let void = after_a_pause(49);
    assert_eq!(cause(&void), Cause::TesterCpu);
    assert!(void.void.unwrap().contains("49 queries failed, and its own pauses displaced 49"));
    assert_eq!(after_a_pause(50).outcome, Outcome::Fail);
}

#[test]
fn drops_of_the_authdns_excuse_as_many_failures() {
    let mut counted = perfect();
    let dropped = |drops| seen(Observation { auth_socket_drops: Some(drops), ..Observation::default() });
    assert_eq!(concluded(&counted, &dropped(10)).outcome, Outcome::Pass);
    counted.1.valid -= 10;
    for (drops, outcome) in [(0, Outcome::Fail), (9, Outcome::Fail), (10, Outcome::Void)] {
        let trial = concluded(&counted, &dropped(drops));
        assert_eq!((trial.outcome, trial.void.is_some()), (outcome, drops == 10));
    }
    let discarded = Circumstances { device_discards: 10, ..Circumstances::default() };
    let trial = concluded(&counted, &discarded);
    assert_eq!((trial.outcome, cause(&trial)), (Outcome::Void, Cause::Kernel));
    assert!(trial.void.unwrap().contains("the device of the queries dropped 10"));
}

#[test]
fn one_late_answer_of_the_authdns_proves_nothing() {
    let mut counted = perfect();
    counted.1.valid -= 10;
    let outcome = |asked, late| {
        let probed = Observation { auth_probes: Some(asked), auth_probes_late: Some(late), ..answering() };
        concluded(&counted, &seen(probed)).outcome
    };
    for (asked, late) in [(10, 2), (200, 2), (600, 600)] {
        assert_eq!(outcome(asked, late), Outcome::Void, "{late} of {asked}");
    }
    for (asked, late) in [(10, 0), (10, 1), (600, 5)] {
        assert_eq!(outcome(asked, late), Outcome::Fail, "{late} of {asked}");
    }
}

#[test]
fn failures_under_other_load_are_void_and_passes_stand() {
    let loaded = |pct, dut_cpu_pct| {
        seen(Observation { foreign_cpu_pct: Some(pct), dut_cpu_pct, ..Observation::default() })
    };
    let mut counted = perfect();
    assert_eq!(concluded(&counted, &loaded(60.0, Some(1.0))).outcome, Outcome::Pass);
    counted.1.valid -= 10;
    let void = concluded(&counted, &loaded(60.0, Some(1.0)));
    assert_eq!((void.outcome, cause(&void)), (Outcome::Void, Cause::OtherLoad));
    assert!(void.void.unwrap().contains("60 % of a processor"));
    assert_eq!(concluded(&counted, &loaded(15.0, Some(1.0))).outcome, Outcome::Fail);
    let unknown = concluded(&counted, &loaded(60.0, None));
    assert_eq!(unknown.outcome, Outcome::Fail, "it may be the server's own work");
    let stolen = Observation { steal_pct: Some(5.0), ..Observation::default() };
    let dropped =
        Circumstances { own: OwnFaults { socket_drops: 1, ..OwnFaults::default() }, ..seen(stolen) };
    let beside = concluded(&counted, &dropped).void.unwrap();
    assert!(beside.starts_with("the Tester dropped") && beside.ends_with("took 5.0 %)"), "{beside}");
}

#[test]
fn a_cold_cache_voids_even_a_pass() {
    let cold = Some(ColdCache { queries: 100, without: 3 });
    let trial = concluded(&perfect(), &Circumstances { cold_cache: cold, ..Circumstances::default() });
    assert_eq!((trial.outcome, cause(&trial)), (Outcome::Void, Cause::ColdCache));
    assert!(trial.void.unwrap().contains("3 of 100 queries"));
}

fn answering() -> Observation {
    Observation { auth_queries: Some(20), auth_answers: Some(20), ..Observation::default() }
}

/// The cause of a trial of which 300 queries failed, so many of them late.
fn cause_of(observation: Observation, late: u64) -> Cause {
    let mut counted = perfect();
    counted.1.valid -= 300;
    counted.1.late = late;
    cause(&concluded(&counted, &seen(observation)))
}

#[test]
fn the_first_rule_with_evidence_wins() {
    assert_eq!(cause_of(answering(), 0), Cause::Unattributed);
    assert_eq!(cause_of(answering(), 3), Cause::DutQueueing);
    let stolen = Observation { steal_pct: Some(5.0), ..answering() };
    assert_eq!(cause_of(stolen.clone(), 3), Cause::OtherLoad);
    let drops = Observation { dut_socket_drops: Some(5), ..stolen };
    assert_eq!(cause_of(drops.clone(), 3), Cause::DutSocket);
    let hot = Observation { dut_hottest_thread_pct: Some(99.0), dut_cpu_pct: Some(101.0), ..drops };
    assert_eq!(cause_of(hot.clone(), 3), Cause::DutCpu);
    let spread = Observation { dut_sockets: Some(4), ..hot };
    assert_eq!(cause_of(spread.clone(), 3), Cause::OneThread);
    assert_eq!(cause_of(Observation { dut_cpu_pct: Some(180.0), ..spread.clone() }, 3), Cause::DutCpu);
    let slow = Observation { auth_probes: Some(9), auth_probes_late: Some(4), ..spread };
    assert_eq!(cause_of(slow.clone(), 3), Cause::AuthDns);
    let unanswered = Observation { auth_answers: Some(9), auth_probes: None, ..slow };
    assert_eq!(cause_of(unanswered.clone(), 3), Cause::AuthDns);
    let dropped = Observation { softnet_drops: Some(1), ..unanswered };
    assert_eq!(cause_of(dropped.clone(), 3), Cause::Kernel);

    let mut counted = perfect();
    counted.1.valid -= 300;
    let receive =
        Circumstances { own: OwnFaults { socket_drops: 1, ..OwnFaults::default() }, ..seen(dropped.clone()) };
    assert_eq!(cause(&concluded(&counted, &receive)), Cause::TesterReceive);
    counted.1.sent -= 7;
    let unsent = concluded(&counted, &seen(dropped));
    assert_eq!(cause(&unsent), Cause::TesterCpu);
    assert!(
        unsent.cause.unwrap().evidence.starts_with("at 10,000 q/s: the Tester cannot send so fast: 7 of")
    );
}

#[test]
fn what_one_side_sent_and_the_other_never_had_was_lost_on_the_way() {
    // 10,000 queries, of which 9,700 were answered.
    let of = |taken, sent, drops| {
        let observation = Observation {
            dut_datagrams_in: Some(taken),
            dut_datagrams_out: Some(sent),
            dut_socket_drops: Some(drops),
            ..answering()
        };
        cause_of(observation, 0)
    };
    assert_eq!(of(10_020, 10_020, 0), Cause::Path, "all were answered");
    assert_eq!(of(9_720, 9_720, 0), Cause::Path, "300 never came");
    assert_eq!(of(10_020, 9_720, 0), Cause::Unattributed, "the server kept 300 for itself");
    assert_eq!(of(9_720, 9_720, 300), Cause::DutSocket);
    assert_eq!(of(20, 20, 0), Cause::Unattributed, "it goes past the counters");
}
