//! The verdict on a trial: pass, fail or void.

use std::collections::BTreeMap;

use crate::matcher::rcode_name;
use crate::pacer::{SECOND_NS, Schedule};
use crate::record::{Outcome, Trial};
use crate::stats::{Stats, UNEVEN_PCT};

/// Which answers count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validity {
    /// The AAAA expected from the name.
    #[default]
    Strict,
    /// dns64perf++'s rule: a NOERROR response with any answer record.
    Compat,
    /// Any response that repeats ID and question: what reflectors and ordinary servers give.
    Response,
}

impl Validity {
    /// Its name in options and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Compat => "compat",
            Self::Response => "response",
        }
    }

    /// The queries of a trial that count as answered.
    pub fn counted(self, trial: &Trial) -> u64 {
        match self {
            // The workload of such a trial takes any response for valid.
            Self::Strict | Self::Response => trial.valid,
            Self::Compat => trial.valid_compat,
        }
    }
}

/// Up to where a Tester's own faults are borne.
///
/// A machine with other guests pauses now and then for some milliseconds, and what was due meanwhile is sent in a burst.
/// That makes a trial harder for the server, never easier: a trial that passes in spite of it has passed. One that fails
/// counts only if more queries failed than were displaced by such pauses, for a queue that is full loses at most one
/// query for each that comes at the wrong time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// p99.9 of the lateness of the sender, in ns.
    pub lateness_p999_ns: u64,
    /// The lateness of any query, in ns.
    pub lateness_max_ns: u64,
    /// Share of 10 ms windows that may be more than 5 % off the schedule, in percent.
    pub windows_off_pct: f64,
}

impl Tolerance {
    /// 1 % of the timeout for 999 of 1000 queries, 10 % for all, and 2 % of the windows.
    pub fn for_timeout(timeout_ns: u64) -> Self {
        Self { lateness_p999_ns: timeout_ns / 100, lateness_max_ns: timeout_ns / 10, windows_off_pct: 2.0 }
    }
}

/// What the Tester knows of its own losses and of those that the machine's counters showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnFaults {
    /// Datagrams dropped at the Measurer's sockets or rings.
    pub socket_drops: u64,
    /// Answers that came to a queue of the device that nobody read.
    pub wrong_queue: u64,
    /// Packets that the device of the queries dropped, in either direction.
    pub device_drops: u64,
    /// The trial was cut short.
    pub interrupted: bool,
}

/// Where queries were lost. The keys of [`Trial::losses`].
pub mod place {
    /// The kernel refused to send.
    pub const OWN_SEND_ERROR: &str = "own_send_error";
    /// Never sent, because the trial was cut short or the Tester gave up.
    pub const UNSENT: &str = "unsent";
    /// Dropped at the Measurer's sockets or rings.
    pub const OWN_SOCKET_DROP: &str = "own_socket_drop";
    /// Answered, but to a queue of the device that nobody read.
    pub const WRONG_QUEUE: &str = "wrong_queue";
    /// Dropped by the device that the queries leave by, or by its queue.
    pub const OWN_DEVICE_DROP: &str = "own_device_drop";
    /// Dropped by the kernel of this machine between device and socket.
    pub const SOFTNET_DROP: &str = "softnet_drop";
    /// Dropped at the server's listening socket.
    pub const SERVER_SOCKET_DROP: &str = "server_socket_drop";
    /// Dropped at the AuthDNS's sockets.
    pub const AUTH_SOCKET_DROP: &str = "auth_socket_drop";
    /// Taken by the server (as far as is known) and never answered.
    pub const SERVER_SILENT: &str = "server_silent";
    /// Answered after the timeout.
    pub const LATE: &str = "late";
    /// Answered in time, but wrong.
    pub const WRONG_ANSWER: &str = "wrong_answer";
}

/// Turns the counts into a record and judges it.
pub fn conclude(
    schedule: &Schedule,
    stats: &Stats,
    faults: OwnFaults,
    tolerance: &Tolerance,
    validity: Validity,
) -> Trial {
    let answered = stats.valid + stats.invalid + stats.late;
    let duration_ns =
        if schedule.ends_by_count() { stats.active_ns.max(1) } else { schedule.end_ns() - schedule.start_ns };
    let duration_s = duration_ns as f64 / SECOND_NS as f64;
    let closed_loop = schedule.model.is_closed();
    let attempted = stats.sent + stats.send_errors;
    let mut trial = Trial {
        rate_qps: if closed_loop { (attempted as f64 / duration_s) as u64 } else { schedule.rate_qps },
        duration_s,
        // A closed loop has no schedule: what it sent was due.
        scheduled: if closed_loop { attempted } else { schedule.queries },
        sent: stats.sent,
        answered,
        valid: stats.valid,
        invalid: stats.invalid,
        late: stats.late,
        lost: stats.sent.saturating_sub(answered),
        valid_compat: stats.valid_compat,
        duplicates: stats.duplicates,
        unexpected: stats.unexpected,
        unexpected_reasons: stats.unexpected_reasons.iter().map(|(why, n)| ((*why).to_owned(), *n)).collect(),
        latency_ns: stats.latency(),
        latency_from_send_ns: stats.latency_from_send(),
        schedule_error_ns: stats.schedule_error(),
        windows: stats.windows(),
        displaced: stats.displaced(),
        losses: BTreeMap::new(),
        latency_curve: stats.latency_curve(),
        series: stats.series(),
        answers: stats.answers(),
        invalid_reasons: reasons(stats),
        validity: validity.name().to_owned(),
        load: schedule.model.to_string(),
        closed_loop,
        experiments: stats.experiments.to_record(),
        rcodes: rcodes(stats),
        ..Trial::default()
    };
    trial.losses = losses(trial.scheduled, stats, faults);
    let counted = validity.counted(&trial);
    trial.void = void_reason(&trial, stats, faults, tolerance).or_else(|| own_doing(&trial, counted, &[]));
    trial.outcome = match (&trial.void, counted == trial.scheduled) {
        (Some(_), _) => Outcome::Void,
        (None, true) => Outcome::Pass,
        (None, false) => Outcome::Fail,
    };
    trial
}

/// The Tester's own faults, in the order of their weight; the first one is the reason.
fn void_reason(trial: &Trial, stats: &Stats, faults: OwnFaults, tolerance: &Tolerance) -> Option<String> {
    if faults.interrupted {
        return Some("interrupted".into());
    }
    if stats.send_errors > 0 {
        return Some(format!("the Tester could not send {} queries (send errors)", stats.send_errors));
    }
    if let Some(why) = &stats.ran_out {
        return Some(why.clone());
    }
    let unsent = trial.scheduled.saturating_sub(stats.sent);
    if unsent > 0 && stats.starved > 0 {
        return Some(too_slow(stats));
    }
    if unsent > 0 {
        return Some(format!(
            "the Tester cannot send so fast: {unsent} of {} queries never left",
            trial.scheduled
        ));
    }
    if faults.socket_drops > 0 {
        return Some(format!("the Tester dropped {} answers at its own sockets", faults.socket_drops));
    }
    // The device has other traffic too: what it drops matters when a query is missing.
    if trial.lost > 0 && faults.device_drops > 0 {
        return Some(format!("the Tester's own device dropped {} packets", faults.device_drops));
    }
    if trial.lost > 0 && faults.wrong_queue > 0 {
        return Some(format!("{} answers came to queues that the Tester does not read", faults.wrong_queue));
    }
    if trial.closed_loop {
        return (trial.sent == 0).then(|| "no query was sent".into());
    }
    let off_schedule = off_schedule(trial, tolerance)?;
    Some(if stats.starved > 0 { too_slow(stats) } else { off_schedule })
}

fn too_slow(stats: &Stats) -> String {
    format!("query file too slow: {} times queries were due and none was read yet", stats.starved)
}

/// Whether the Tester could not follow the schedule, apart from pauses that it made good: a query was sent later than is
/// tolerated, or than a tenth of the trial; or more windows of 100 ms were off than is tolerated of those of 10 ms.
pub fn fell_behind(trial: &Trial, tolerance: &Tolerance) -> bool {
    let tenth_ns = (trial.duration_s * SECOND_NS as f64 / 10.0) as u64;
    trial.schedule_error_ns.max > tolerance.lateness_max_ns.min(tenth_ns)
        || trial.windows.ms100.off_pct > tolerance.windows_off_pct
}

/// How far the sending was off its schedule, if more than is tolerated.
fn off_schedule(trial: &Trial, tolerance: &Tolerance) -> Option<String> {
    for (what, lateness_ns, allowed_ns) in [
        ("p99.9", trial.schedule_error_ns.p999, tolerance.lateness_p999_ns),
        ("the largest", trial.schedule_error_ns.max, tolerance.lateness_max_ns),
    ] {
        if lateness_ns > allowed_ns {
            return Some(format!(
                "the Tester was late: {what} of the schedule errors is {:.1} ms, {:.1} ms is allowed",
                lateness_ns as f64 / 1e6,
                allowed_ns as f64 / 1e6
            ));
        }
    }
    let off_pct = trial.windows.ms10.off_pct;
    // A burst that crosses the end of a window is no unevenness; its lateness was judged above.
    let bursts = trial.load.starts_with("burst");
    if off_pct > tolerance.windows_off_pct && !bursts {
        return Some(format!(
            "the Tester sent unevenly: {off_pct:.1} % of the 10 ms windows are more than {UNEVEN_PCT} % off the schedule, {} % is allowed",
            tolerance.windows_off_pct
        ));
    }
    None
}

/// Whether bursts after pauses of the Measurer and drops of the Tester may have made every failure of the trial.
fn own_doing(trial: &Trial, counted: u64, drops: &[(&str, u64)]) -> Option<String> {
    let (failed, displaced) = (trial.scheduled.saturating_sub(counted), trial.displaced);
    let excused = drops.iter().fold(displaced, |sum, (_, drops)| sum.saturating_add(*drops));
    (failed > 0 && failed <= excused).then(|| {
        let dropped = drops.iter().filter(|(_, drops)| *drops > 0);
        let dropped: String = dropped.map(|(who, drops)| format!(", {who} dropped {drops}")).collect();
        format!(
            "the Tester may have caused it: {failed} queries failed, and its own pauses displaced {displaced}{dropped}"
        )
    })
}

/// Voids a failed trial if what parts of the Tester dropped may have caused it: who, and how many. One of them is the
/// AuthDNS.
pub fn excuse_drops(trial: &mut Trial, drops: &[(&str, u64)], validity: Validity) {
    if trial.outcome != Outcome::Fail || drops.iter().all(|(_, drops)| *drops == 0) {
        return;
    }
    if let Some(reason) = own_doing(trial, validity.counted(trial), drops) {
        trial.void = Some(reason);
        trial.outcome = Outcome::Void;
    }
}

fn losses(scheduled: u64, stats: &Stats, faults: OwnFaults) -> BTreeMap<String, u64> {
    let answered = stats.valid + stats.invalid + stats.late;
    let lost = stats.sent.saturating_sub(answered);
    let mut silent = lost;
    let mut take = |counted: u64| {
        let taken = counted.min(silent);
        silent -= taken;
        taken
    };
    let (at_sockets, at_queues) = (take(faults.socket_drops), take(faults.wrong_queue));
    let at_device = take(faults.device_drops);
    let unsent = scheduled.saturating_sub(stats.sent + stats.send_errors);
    let places = [
        (place::OWN_SEND_ERROR, stats.send_errors),
        (place::UNSENT, unsent),
        (place::OWN_SOCKET_DROP, at_sockets),
        (place::WRONG_QUEUE, at_queues),
        (place::OWN_DEVICE_DROP, at_device),
        (place::SERVER_SILENT, silent),
        (place::LATE, stats.late),
        (place::WRONG_ANSWER, stats.invalid),
    ];
    places.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| (name.to_owned(), count)).collect()
}

/// Moves losses from "server silent" to a place that a counter proves, for example the drops at the server's socket.
pub fn attribute_loss(trial: &mut Trial, place: &str, counted: u64) {
    let silent = trial.losses.get(place::SERVER_SILENT).copied().unwrap_or(0);
    let moved = counted.min(silent);
    if moved == 0 {
        return;
    }
    *trial.losses.entry(place.to_owned()).or_default() += moved;
    if silent == moved {
        trial.losses.remove(place::SERVER_SILENT);
    } else {
        trial.losses.insert(place::SERVER_SILENT.to_owned(), silent - moved);
    }
}

fn rcodes(stats: &Stats) -> BTreeMap<String, u64> {
    let seen = stats.rcodes.iter().zip(0u8..).filter(|(count, _)| **count > 0);
    seen.map(|(count, code)| (rcode_name(code), *count)).collect()
}

fn reasons(stats: &Stats) -> BTreeMap<String, u64> {
    let mut reasons = stats.defects.clone();
    if let (Some(count), Some((got, expected))) = (reasons.remove("wrong address"), stats.wrong_address) {
        reasons.insert(format!("wrong address (first: {got} instead of {expected})"), count);
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    fn perfect() -> (Schedule, Stats) {
        let schedule = Schedule::new(1, 10_000, SECOND_NS);
        let mut stats = Stats::new(schedule);
        for n in 0..schedule.queries {
            let due = schedule.due_ns(n);
            stats.note_sent(due, due);
            stats.note_valid(due, 0, due + 1000);
            stats.valid_compat += 1;
        }
        (schedule, stats)
    }

    fn concluded(schedule: &Schedule, stats: &Stats, faults: OwnFaults) -> Trial {
        conclude(schedule, stats, faults, &Tolerance::for_timeout(SECOND_NS), Validity::Strict)
    }

    #[test]
    fn all_valid_passes_and_one_lost_fails() {
        let (schedule, mut stats) = perfect();
        assert_eq!(concluded(&schedule, &stats, OwnFaults::default()).outcome, Outcome::Pass);
        stats.valid -= 1;
        let failed = concluded(&schedule, &stats, OwnFaults::default());
        assert_eq!((failed.outcome, failed.lost), (Outcome::Fail, 1));
        assert_eq!(failed.losses, BTreeMap::from([("server_silent".to_owned(), 1)]));
        let compat = conclude(
            &schedule,
            &stats,
            OwnFaults::default(),
            &Tolerance::for_timeout(SECOND_NS),
            Validity::Compat,
        );
        assert_eq!(compat.outcome, Outcome::Pass);
    }

    #[test]
    fn the_testers_own_faults_void_and_never_blame_the_server() {
        let (schedule, stats) = perfect();
        let void = |stats: &Stats, faults| {
            let trial = concluded(&schedule, stats, faults);
            assert_eq!(trial.outcome, Outcome::Void);
            trial.void.unwrap()
        };
        assert!(
            void(&stats, OwnFaults { socket_drops: 3, ..OwnFaults::default() }).contains("dropped 3 answers")
        );
        assert!(
            void(&stats, OwnFaults { interrupted: true, ..OwnFaults::default() }).contains("interrupted")
        );
        let mut refused = stats.clone();
        refused.note_send_errors(2);
        assert!(void(&refused, OwnFaults::default()).contains("could not send 2"));
        let mut unsent = stats.clone();
        (unsent.sent, unsent.valid) = (unsent.sent - 5, unsent.valid - 5);
        assert!(void(&unsent, OwnFaults::default()).contains("5 of 10000 queries never left"));
        let mut late = Stats::new(schedule);
        for n in 0..schedule.queries {
            late.note_sent(schedule.due_ns(n), schedule.due_ns(n) + 20_000_000);
        }
        assert!(void(&late, OwnFaults::default()).contains("was late"));
    }

    #[test]
    fn drops_of_the_own_device_void_a_trial_that_misses_answers() {
        let (schedule, mut stats) = perfect();
        for (faults, reason) in [
            (OwnFaults { device_drops: 7, ..OwnFaults::default() }, "own device dropped 7"),
            (OwnFaults { wrong_queue: 7, ..OwnFaults::default() }, "7 answers came to queues"),
        ] {
            assert_eq!(
                concluded(&schedule, &stats, faults).outcome,
                Outcome::Pass,
                "they were somebody else's"
            );
            stats.valid -= 9;
            let trial = concluded(&schedule, &stats, faults);
            assert!(trial.void.unwrap().contains(reason));
            assert_eq!(trial.losses["server_silent"], 2);
            stats.valid += 9;
        }
    }

    /// A pause of 5 ms displaces 50 queries; all but `lost` are answered.
    fn after_a_pause(lost: u64) -> Trial {
        let schedule = Schedule::new(1, 10_000, SECOND_NS);
        let mut stats = Stats::new(schedule);
        for n in 0..schedule.queries {
            let due = schedule.due_ns(n);
            let pause = schedule.start_ns + 505_000_000..schedule.start_ns + 510_000_000;
            stats.note_sent(due, if pause.contains(&due) { pause.end } else { due });
            if n >= lost {
                stats.note_valid(due, 0, due + 1000);
            }
        }
        concluded(&schedule, &stats, OwnFaults::default())
    }

    #[test]
    fn a_pause_that_was_made_good_is_not_falling_behind() {
        let tolerance = Tolerance::for_timeout(SECOND_NS);
        assert!(!fell_behind(&after_a_pause(0), &tolerance));
        // By 160 ms at the end, and by 8 ms.
        for (duration_ns, slower_pct) in [(4 * SECOND_NS, 4), (SECOND_NS / 50, 40)] {
            let schedule = Schedule::new(1, 10_000, duration_ns);
            let mut stats = Stats::new(schedule);
            for n in 0..schedule.queries {
                let due = schedule.due_ns(n);
                stats.note_sent(due, due + (due - schedule.start_ns) * slower_pct / 100);
            }
            assert!(fell_behind(&concluded(&schedule, &stats, OwnFaults::default()), &tolerance));
        }
    }

    #[test]
    fn a_pause_of_the_tester_excuses_as_many_failures_as_it_displaced_queries() {
        let passed = after_a_pause(0);
        assert_eq!((passed.outcome, passed.void.as_deref()), (Outcome::Pass, None));
        assert_eq!(passed.displaced, 49, "a deviation of one is rounding");
        assert!(
            after_a_pause(49).void.unwrap().contains("49 queries failed, and its own pauses displaced 49")
        );
        assert_eq!(after_a_pause(50).outcome, Outcome::Fail);
    }

    #[test]
    fn drops_of_the_authdns_excuse_as_many_failures() {
        let (schedule, mut stats) = perfect();
        stats.valid -= 10;
        for (drops, outcome) in [(0, Outcome::Fail), (9, Outcome::Fail), (10, Outcome::Void)] {
            let mut trial = concluded(&schedule, &stats, OwnFaults::default());
            excuse_drops(&mut trial, &[("it", drops)], Validity::Strict);
            assert_eq!((trial.outcome, trial.void.is_some()), (outcome, drops == 10));
        }
        let (schedule, stats) = perfect();
        let mut passed = concluded(&schedule, &stats, OwnFaults::default());
        excuse_drops(&mut passed, &[("it", 10)], Validity::Strict);
        assert_eq!(passed.outcome, Outcome::Pass);
    }

    #[test]
    fn every_query_without_a_valid_answer_has_a_place() {
        let (schedule, mut stats) = perfect();
        stats.valid -= 100;
        stats.late = 20;
        stats.invalid = 30;
        stats.note_send_errors(10);
        let faults = OwnFaults { socket_drops: 5, wrong_queue: 4, device_drops: 3, interrupted: false };
        let mut trial = concluded(&schedule, &stats, faults);
        attribute_loss(&mut trial, place::SERVER_SOCKET_DROP, 12);
        attribute_loss(&mut trial, place::OWN_DEVICE_DROP, 2);
        assert_eq!(trial.losses.values().sum::<u64>(), trial.scheduled - trial.valid);
        assert_eq!(trial.losses["server_socket_drop"], 12);
        assert_eq!(trial.losses["server_silent"], 100 - 20 - 30 - 10 - 5 - 4 - 3 - 12 - 2);
        assert_eq!((trial.losses["wrong_queue"], trial.losses["own_device_drop"]), (4, 5));
        attribute_loss(&mut trial, place::SOFTNET_DROP, u64::MAX);
        assert!(!trial.losses.contains_key("server_silent"));
        assert_eq!(trial.losses.values().sum::<u64>(), trial.scheduled - trial.valid);
    }
}
