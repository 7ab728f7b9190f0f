//! Trials and their verdicts.

use super::*;
use crate::connections::{Breakdown, ConnectionStats};
use crate::pacer::{SECOND_NS, Schedule};
use crate::stats::Stats;
use crate::trial::{ColdCache, LoadSample, OwnFaults, conclude};
use proptest::prelude::*;
use std::ops::Range;

/// A trial of one second at 10,000 q/s; every query is answered at once.
fn perfect() -> (Schedule, Stats) {
    late_by(|_| 0)
}

/// The same with so many ns between the instant at which a query is due, counted from the start, and its
/// sending.
fn late_by(lateness_ns: impl Fn(u64) -> u64) -> (Schedule, Stats) {
    counted(1, lateness_ns, |_| true)
}

/// The same for so many seconds, and only some of the queries, by their numbers, get an answer.
fn counted(
    seconds: u64,
    lateness_ns: impl Fn(u64) -> u64,
    is_answered: impl Fn(u64) -> bool,
) -> (Schedule, Stats) {
    let schedule = Schedule::new(1, 10_000, seconds * SECOND_NS);
    let mut stats = Stats::new(schedule);
    for n in 0..schedule.queries {
        let due = schedule.due_ns(n);
        stats.note_sent(due, due + lateness_ns(due - schedule.start_ns));
        if is_answered(n) {
            stats.note_valid(due, 0, due + 1000);
            stats.valid_compat += 1;
        }
    }
    (schedule, stats)
}

/// A trial in which the queries of these numbers fail: 100 of them are due in a window of 10 ms.
fn lossy(lost: Range<u64>) -> (Schedule, Stats) {
    counted(1, |_| 0, |n| !lost.contains(&n))
}

const MS_NS: u64 = 1_000_000;

/// Nothing is sent from one instant to the other, in ms; then all of it at once.
fn pausing(from_ms: u64, until_ms: u64) -> impl Fn(u64) -> u64 {
    move |due_ns| match due_ns {
        due_ns if (from_ms * MS_NS..until_ms * MS_NS).contains(&due_ns) => until_ms * MS_NS - due_ns,
        _ => 0,
    }
}

/// Ten samples of a tenth of a second, with what the hypervisor and other programs took in each, in ms.
fn load(steal_ms: [u64; 10], other_programs_ms: [u64; 10]) -> Circumstances {
    let sample = |at: usize| LoadSample {
        from_ns: 1 + at as u64 * 100 * MS_NS,
        until_ns: 1 + (at as u64 + 1) * 100 * MS_NS,
        steal_ns: steal_ms[at] * MS_NS,
        other_programs_ns: Some(other_programs_ms[at] * MS_NS),
    };
    let mean = |of: [u64; 10]| of.iter().sum::<u64>() as f64 / 10.0;
    Circumstances {
        load: (0..10).map(sample).collect(),
        ..seen(Observation {
            steal_pct: Some(mean(steal_ms)),
            foreign_cpu_pct: Some(mean(other_programs_ms)),
            dut_cpu_pct: Some(1.0),
            ..Observation::default()
        })
    }
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

/// Joined answers are dropped together, 128 at most.
#[test]
fn a_drop_excuses_no_more_failures_than_it_can_have_made() {
    for faults in [
        OwnFaults { socket_drops: 2, ..OwnFaults::default() },
        OwnFaults { device_drops: 2, ..OwnFaults::default() },
        OwnFaults { wrong_queue: 2, ..OwnFaults::default() },
    ] {
        for (lost, outcome) in [(256, Outcome::Void), (257, Outcome::Fail)] {
            let trial = concluded(&lossy(1000..1000 + lost), &own(faults.clone()));
            assert_eq!(trial.outcome, outcome, "{lost} lost, {faults:?}");
        }
    }
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

/// A pause of 5 ms displaces 50 queries; all but so many are answered, of those from the pause on.
fn after_a_pause(lost: u64) -> Trial {
    let counted = counted(1, pausing(505, 510), |n| !(5050..5050 + lost).contains(&n));
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
    let why = void.void.unwrap();
    assert!(why.contains("49 queries failed, 49 of them during its own pauses, which displaced 49"), "{why}");
    assert_eq!(after_a_pause(50).outcome, Outcome::Fail);
}

/// A trial of 4 s with a pause, and with a timeout that is so long that no pause is too long for it; the
/// queries of these numbers fail.
fn with_pause((from_ms, until_ms): (u64, u64), lost: Range<u64>) -> Trial {
    let counted = counted(4, pausing(from_ms, until_ms), |n| !lost.contains(&n));
    verdict(&counted, &Circumstances::default(), 10 * SECOND_NS, Validity::Strict)
}

#[test]
fn a_pause_excuses_no_failure_at_another_time() {
    let at = |from: u64, lost: u64| with_pause((505, 525), from..from + lost);
    // The pause shows in the windows 50 to 52, one before and three after it count with it.
    for from in [4900, 5050, 5200, 5500] {
        let void = at(from, 30);
        assert_eq!((void.outcome, cause(&void)), (Outcome::Void, Cause::TesterCpu), "{from}");
        let [of] = &void.disturbances[..] else { panic!("{:?}", void.disturbances) };
        assert_eq!((of.from_s, of.until_s, of.failed, of.explains), (0.49, 0.56, 30, 149), "{of:?}");
    }
    for from in [0, 4870, 5590, 9000] {
        let failed = at(from, 30);
        assert_eq!((failed.outcome, failed.void.as_ref()), (Outcome::Fail, None), "{from}");
        assert_eq!(cause(&failed), Cause::Unattributed, "nothing else was seen");
    }
    assert_eq!(at(9000, 1).disturbances, [], "nothing failed while it paused");
}

/// As with a pause at 0.5 s and losses at 1.5 s, whatever the load.
#[test]
fn at_any_load_a_pause_excuses_what_coincides() {
    for model in ["constant", "poisson:7", "burst:100", "steps:5000,15000", "ramp:2000-18000"] {
        let model: Model = model.parse().unwrap();
        let schedule = Schedule::with_model(1, 10_000, 2 * SECOND_NS, model);
        let outcome = |lost_ms: Range<u64>| {
            let mut stats = Stats::new(schedule);
            let mut cursor = crate::pacer::Cursor::new(schedule, 0, 1);
            for _ in 0..schedule.queries {
                let due_ns = cursor.next_ns();
                let after_ns = due_ns - schedule.start_ns;
                stats.note_due(due_ns);
                stats.note_sent(due_ns, due_ns + pausing(500, 530)(after_ns));
                if !lost_ms.contains(&(after_ns / MS_NS)) {
                    stats.note_valid(due_ns, 0, due_ns + 1000);
                }
            }
            let of = (schedule, stats);
            let trial = verdict(&of, &Circumstances::default(), 10 * SECOND_NS, Validity::Strict);
            assert!(trial.valid < trial.scheduled, "{model}");
            trial.outcome
        };
        assert_eq!(outcome(505..520), Outcome::Void, "{model}");
        assert_eq!(outcome(1500..1515), Outcome::Fail, "{model}");
        assert_eq!(outcome(480..520), Outcome::Fail, "{model}: more than the pause explains");
    }
}

proptest! {
    /// Failures after any pause, and before it, are the server's; the more fail, the less is excused.
    #[test]
    fn no_pause_excuses_what_it_does_not_touch(
        from_ms in 100u64..400,
        length_ms in 6u64..60,
        lost_at in 0u64..10_000,
        lost in 1u64..600,
    ) {
        let until_ms = from_ms + length_ms;
        let trial = with_pause((from_ms, until_ms), lost_at..lost_at + lost);
        let (first_ms, last_ms) = (lost_at / 10, (lost_at + lost) / 10);
        // The pause begins and ends within windows, of which one before and as many again after count.
        let apart = last_ms + 20 < from_ms || first_ms > until_ms + length_ms + 40;
        if apart || lost > 10 * length_ms {
            prop_assert_eq!(trial.outcome, Outcome::Fail);
        }
        if first_ms >= from_ms && last_ms < until_ms && lost <= trial.displaced {
            prop_assert_eq!(trial.outcome, Outcome::Void);
        }
        let explained: u64 = trial.disturbances.iter().map(|of| of.failed.min(of.explains)).sum();
        prop_assert_eq!(trial.outcome == Outcome::Void, explained >= trial.scheduled - trial.valid);
    }

    /// Load excuses no more failures than were due in the time that it took, and none elsewhere.
    #[test]
    fn no_load_excuses_what_it_does_not_touch(at in 0usize..10, taken_ms in 0u64..100, lost in 1u64..2000) {
        let mut steal_ms = [0; 10];
        steal_ms[at] = taken_ms;
        let first = at as u64 * 1000;
        let lost = lost.min(10_000 - first);
        let outcome = concluded(&lossy(first..first + lost), &load(steal_ms, [0; 10])).outcome;
        if lost > taken_ms * 10 || taken_ms == 0 {
            prop_assert_eq!(outcome, Outcome::Fail);
        }
        if taken_ms >= 25 && lost <= taken_ms * 10 {
            prop_assert_eq!(outcome, Outcome::Void);
        }
        let elsewhere = (first + 5000) % 10_000;
        let outcome = concluded(&lossy(elsewhere..elsewhere + 10), &load(steal_ms, [0; 10])).outcome;
        prop_assert_eq!(outcome, Outcome::Fail);
    }
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
    let outcome = |asked, late| {
        let probed = Observation { auth_probes: Some(asked), auth_probes_late: Some(late), ..answering() };
        let waited = vec![100 * MS_NS..350 * MS_NS; late as usize];
        let slow = Circumstances { auth_late: waited, ..seen(probed) };
        concluded(&lossy(2000..2010), &slow).outcome
    };
    for (asked, late) in [(10, 2), (200, 2), (600, 600)] {
        assert_eq!(outcome(asked, late), Outcome::Void, "{late} of {asked}");
    }
    for (asked, late) in [(10, 0), (10, 1), (600, 5)] {
        assert_eq!(outcome(asked, late), Outcome::Fail, "{late} of {asked}");
    }
}

#[test]
fn a_slow_authdns_excuses_what_may_have_waited_for_it() {
    let probed = Observation { auth_probes: Some(20), auth_probes_late: Some(2), ..answering() };
    let slow = Circumstances { auth_late: vec![500 * MS_NS + 1..550 * MS_NS + 1; 2], ..seen(probed) };
    let outcome = |lost| verdict(&lossy(lost), &slow, SECOND_NS / 5, Validity::Strict).outcome;
    // A query may have waited for 200 ms.
    assert_eq!(outcome(3000..3010), Outcome::Void);
    assert_eq!(outcome(5500..5510), Outcome::Void);
    assert_eq!(outcome(2900..2910), Outcome::Fail);
    assert_eq!(outcome(5590..5610), Outcome::Fail);
    let untimed = Circumstances { auth_late: Vec::new(), ..slow.clone() };
    assert_eq!(concluded(&lossy(5000..5010), &untimed).outcome, Outcome::Fail, "nobody knows when");
}

#[test]
fn failures_under_other_load_are_void_and_passes_stand() {
    let (quiet, early) = ([0; 10], [0, 60, 60, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(concluded(&perfect(), &load(quiet, early)).outcome, Outcome::Pass);
    let void = concluded(&lossy(1500..1600), &load(quiet, early));
    assert_eq!((void.outcome, cause(&void)), (Outcome::Void, Cause::OtherLoad));
    assert!(void.void.unwrap().contains("12 % of a processor"));
    assert_eq!(concluded(&lossy(8000..8100), &load(quiet, early)).outcome, Outcome::Fail, "at another time");
    let light = [0, 30, 30, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(concluded(&lossy(1500..1600), &load(quiet, light)).outcome, Outcome::Fail);
    let unsampled = Circumstances { load: Vec::new(), ..load([50; 10], [60; 10]) };
    assert_eq!(concluded(&lossy(1500..1600), &unsampled).outcome, Outcome::Fail, "nobody knows when");
    let mut unknown = load(quiet, [60; 10]);
    unknown.load.iter_mut().for_each(|sample| sample.other_programs_ns = None);
    assert_eq!(
        concluded(&lossy(1500..1600), &unknown).outcome,
        Outcome::Fail,
        "it may be the server's own work"
    );
    let dropped =
        Circumstances { own: OwnFaults { socket_drops: 1, ..OwnFaults::default() }, ..load([5; 10], quiet) };
    let beside = concluded(&lossy(1500..1600), &dropped).void.unwrap();
    assert!(beside.starts_with("the Tester dropped") && beside.ends_with("took 5.0 %)"), "{beside}");
}

#[test]
fn packets_of_connections_that_the_tester_dropped_matter_where_a_query_failed() {
    let by_connections = |(schedule, mut stats): (Schedule, Stats)| {
        stats.connections = Some(Box::default());
        (schedule, stats)
    };
    let dropped = own(OwnFaults { socket_drops: 3, ..OwnFaults::default() });
    assert_eq!(concluded(&by_connections(perfect()), &dropped).outcome, Outcome::Pass);
    let void = concluded(&by_connections(lossy(1500..1600)), &dropped).void.unwrap();
    assert!(void.contains("the Tester dropped 3 packets"), "{void}");
}

#[test]
fn steal_excuses_as_many_failures_as_were_due_in_the_time_it_took() {
    let stolen = load([0, 0, 0, 30, 0, 0, 0, 0, 0, 0], [0; 10]);
    for (lost, outcome) in [
        (3000..3300, Outcome::Void),
        (3000..3301, Outcome::Fail),
        // Into the time after it, and beyond.
        (4200..4300, Outcome::Void),
        (4200..4301, Outcome::Fail),
        (2900..3000, Outcome::Void),
        (2890..3000, Outcome::Fail),
    ] {
        assert_eq!(concluded(&lossy(lost.clone()), &stolen).outcome, outcome, "{lost:?}");
    }
    // With a pause of the Tester beside: each has its own failures.
    let both = |n: u64| !(3000..3200).contains(&n) && !(7050..7090).contains(&n);
    let paused = counted(1, pausing(705, 710), both);
    assert_eq!(concluded(&paused, &stolen).outcome, Outcome::Void);
    assert_eq!(concluded(&paused, &Circumstances::default()).outcome, Outcome::Fail);
}

#[test]
fn interrupts_are_not_other_programs() {
    let with = |interrupt_pct| {
        let seen = seen(Observation {
            foreign_cpu_pct: Some(60.0),
            interrupt_pct,
            dut_cpu_pct: Some(1.0),
            ..Observation::default()
        });
        let dropped = OwnFaults { socket_drops: 1, ..OwnFaults::default() };
        concluded(&lossy(0..10), &Circumstances { own: dropped, ..seen }).void.unwrap()
    };
    assert!(with(None).contains("other programs used 60 %"), "a record of an older program");
    assert!(!with(Some(45.0)).contains("other programs"), "15 % is below the limit");
}

#[test]
fn a_cold_cache_is_the_servers_unless_the_tester_failed() {
    let warmed = |tester_fault: Option<&str>| {
        let tester_fault = tester_fault.map(str::to_owned);
        let cold_cache = Some(ColdCache { queries: 100, without: 3, tester_fault });
        Circumstances { cold_cache, ..Circumstances::default() }
    };
    let failed = concluded(&perfect(), &warmed(None));
    assert_eq!((failed.outcome, cause(&failed), failed.void), (Outcome::Fail, Cause::ColdCache, None));
    assert!(failed.cause.unwrap().evidence.contains("3 of 100 queries"));
    let void = concluded(&perfect(), &warmed(Some("the Tester dropped 2 answers at its own sockets")));
    assert_eq!((void.outcome, cause(&void)), (Outcome::Void, Cause::ColdCache));
    let why = void.void.unwrap();
    assert!(why.contains("3 of 100 queries") && why.contains("dropped 2 answers"), "{why}");
    // What a pause of the trial explains does not explain the warm-up; what spoils the trial voids it.
    let paused = counted(1, pausing(505, 510), |n| n != 5060);
    let both = concluded(&paused, &warmed(None));
    assert_eq!((both.outcome, cause(&both)), (Outcome::Fail, Cause::ColdCache));
    let late = late_by(|_| 20_000_000);
    assert_eq!(concluded(&late, &warmed(None)).outcome, Outcome::Void);
}

fn answering() -> Observation {
    Observation { auth_queries: Some(20), auth_answers: Some(20), ..Observation::default() }
}

/// The cause of a trial of which 300 queries failed, so many of them late. The hypervisor took half of a
/// processor, and the AuthDNS was slow, if the observation says so.
fn cause_of(observation: Observation, late: u64) -> Cause {
    let mut counted = lossy(0..300);
    counted.1.late = late;
    let stolen = observation.steal_pct.map_or([0; 10], |_| [50; 10]);
    let waited = 0..observation.auth_probes_late.unwrap_or(0);
    let circumstances = Circumstances {
        auth_late: waited.map(|_| 100 * MS_NS..350 * MS_NS).collect(),
        load: load(stolen, [0; 10]).load,
        ..seen(observation)
    };
    cause(&concluded(&counted, &circumstances))
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
        Circumstances { own: OwnFaults { socket_drops: 3, ..OwnFaults::default() }, ..seen(dropped.clone()) };
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

/// A trial with all answers whose 500 connections were to stand.
fn standing(seen: ConnectionStats, stats_of: impl FnOnce(&mut Stats)) -> Trial {
    let (schedule, mut stats) = perfect();
    stats.connections = Some(Box::new(seen));
    stats_of(&mut stats);
    concluded(&(schedule, stats), &Circumstances { standing: Some(500), ..Circumstances::default() })
}

#[test]
fn connections_that_were_to_stand_fail_a_trial_whose_queries_were_all_answered() {
    let had = ConnectionStats { opened: 500, opened_before: 500, ..ConnectionStats::default() };
    assert_eq!(standing(had.clone(), |_| ()).outcome, Outcome::Pass);
    let ended = standing(ConnectionStats { closed_by_server: 1, ..had.clone() }, |_| ());
    assert_eq!((ended.outcome, cause(&ended)), (Outcome::Fail, Cause::Connections));
    let mut refused = ConnectionStats { opened_before: 499, ..had.clone() };
    refused.note_failed(Breakdown::Refused, None);
    let refused = standing(refused, |_| ());
    assert_eq!((refused.outcome, cause(&refused)), (Outcome::Fail, Cause::Connections));
    let said = refused.cause.unwrap().evidence;
    let expected = "at 10,000 q/s: 499 of 500 connections were had before the first query, and the server ended \
                    0; connection refused: 1";
    assert_eq!(said, expected);
    let unasked = Circumstances::default();
    let (schedule, mut stats) = perfect();
    stats.connections = Some(Box::new(ConnectionStats { closed_by_server: 9, ..had.clone() }));
    assert_eq!(concluded(&(schedule, stats), &unasked).outcome, Outcome::Pass, "they may come and go");
    let lost = standing(had, |stats| stats.valid -= 1);
    assert_eq!(lost.outcome, Outcome::Fail);
}

#[test]
fn connections_that_the_tester_cannot_open_void_the_trial() {
    let mut own = ConnectionStats { opened: 300, opened_before: 300, ..ConnectionStats::default() };
    own.note_failed(Breakdown::OwnLimit, None);
    let own = standing(own, |stats| stats.valid -= 10);
    assert_eq!((own.outcome, cause(&own)), (Outcome::Void, Cause::TesterConnections));
    assert_eq!(own.void.unwrap(), "the Tester had no port or no file for 1 of its connections");
}
