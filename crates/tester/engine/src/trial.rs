//! A trial in the record: its counts, where its queries were lost, and the verdict on it.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::matcher::rcode_name;
use crate::pacer::{SECOND_NS, Schedule};
use crate::stats::Stats;
use crate::verdict::{Evidence, Limits, disturbances, disturbances_in_record, judge};
use record::{LossPlace, Observation, Trial};

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
    /// The queries of a trial that count as answered.
    pub fn counted(self, trial: &Trial) -> u64 {
        match self {
            // The workload of such a trial takes any response for valid.
            Self::Strict | Self::Response => trial.valid,
            Self::Compat => trial.valid_compat,
        }
    }
}

impl From<Validity> for record::Validity {
    fn from(validity: Validity) -> Self {
        match validity {
            Validity::Strict => Self::Strict,
            Validity::Compat => Self::Compat,
            Validity::Response => Self::Response,
        }
    }
}

/// What the Tester knows of its own losses and of those that the machine's counters showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnFaults {
    /// Datagrams dropped at the Measurer's sockets or rings.
    pub socket_drops: u64,
    /// Answers that came to a queue of the device that nobody read.
    pub wrong_queue: u64,
    /// Packets that the device of the queries dropped, in either direction.
    pub device_drops: u64,
    /// What the system said when it refused to send.
    pub send_error: Option<String>,
    /// The trial was cut short.
    pub interrupted: bool,
}

/// Names that were to be cached and were not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColdCache {
    /// Names asked before the trial.
    pub queries: u64,
    /// Of these, without a valid answer in time.
    pub without: u64,
    /// What the Tester's own counters showed that makes the failure the Tester's; `None`: it is the server's.
    pub tester_fault: Option<String>,
}

/// The processor time that others took in a short part of a trial. The instants are on the schedule's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadSample {
    /// Its start in ns.
    pub from_ns: u64,
    /// Its end in ns.
    pub until_ns: u64,
    /// What the hypervisor took, all processors, in ns.
    pub steal_ns: u64,
    /// What programs used that are neither Tester nor server, all processors, in ns; `None` where the
    /// server's process is not known, whose work would look like theirs.
    pub other_programs_ns: Option<u64>,
}

impl LoadSample {
    /// Its length in ns.
    pub fn length_ns(&self) -> u64 {
        self.until_ns.saturating_sub(self.from_ns)
    }

    /// What is known of the time of other programs, in ns.
    pub(crate) fn foreign_ns(&self) -> u64 {
        self.other_programs_ns.unwrap_or(0)
    }
}

/// What befell a trial beside what the Measurer counted; nothing where nobody looked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Circumstances {
    /// The Tester's own losses.
    pub own: OwnFaults,
    /// Names that were to be cached and were not.
    pub cold_cache: Option<ColdCache>,
    /// What the counters of the machine, of the server and of the AuthDNS showed.
    pub observation: Option<Observation>,
    /// What others used of the processors, in the order of time; without samples their load excuses nothing.
    pub load: Vec<LoadSample>,
    /// From when until when each question to the AuthDNS waited that had no answer in its time, in ns on the
    /// schedule's clock.
    pub auth_late: Vec<Range<u64>>,
    /// Packets that the kernel dropped before any socket, without those that the device of the queries counts
    /// as its own.
    pub softnet_drops: u64,
    /// Packets that the device of the queries took and the kernel dropped, without
    /// [`Circumstances::softnet_drops`].
    pub device_discards: u64,
}

/// The record of a trial that has ended, with the verdict on it.
pub fn conclude(
    schedule: &Schedule,
    stats: &Stats,
    circumstances: &Circumstances,
    limits: &Limits,
    validity: Validity,
) -> Trial {
    let trial = Trial {
        losses: losses(schedule, stats, circumstances),
        observation: circumstances.observation.clone(),
        ..counts(schedule, stats, validity)
    };
    let failures = failures(&trial, stats, validity);
    let spans =
        failures.as_ref().map_or_else(Vec::new, |_| disturbances(schedule, stats, circumstances, limits));
    let verdict = judge(
        &Evidence {
            trial: &trial,
            model: schedule.model,
            validity,
            starved: stats.starved,
            ran_out: stats.ran_out.as_deref(),
            circumstances,
            failures: failures.as_deref(),
            disturbances: &spans,
        },
        limits,
    );
    Trial {
        outcome: verdict.outcome,
        cause: verdict.cause,
        void: verdict.reason,
        disturbances: disturbances_in_record(&spans, failures.as_deref().unwrap_or_default()),
        ..trial
    }
}

/// The failures of each window of 10 ms, if there are any and the windows hold all of them.
fn failures(trial: &Trial, stats: &Stats, validity: Validity) -> Option<Vec<u32>> {
    let failed = trial.scheduled.checked_sub(validity.counted(trial)).filter(|&failed| failed > 0)?;
    let failures = stats.failures(validity == Validity::Compat);
    (failures.iter().map(|&count| u64::from(count)).sum::<u64>() == failed).then_some(failures)
}

/// What the Measurer counted.
fn counts(schedule: &Schedule, stats: &Stats, validity: Validity) -> Trial {
    let answered = stats.valid + stats.invalid + stats.late;
    let duration_s = duration_s(schedule, stats);
    let closed_loop = schedule.model.is_closed();
    let attempted = stats.sent + stats.send_errors;
    Trial {
        rate_qps: if closed_loop { (attempted as f64 / duration_s) as u64 } else { schedule.rate_qps },
        duration_s,
        scheduled: scheduled(schedule, stats),
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
        latency_curve: stats.latency_curve(),
        series: stats.series(),
        answers: stats.answers(),
        invalid_reasons: reasons(stats),
        validity: validity.into(),
        load: schedule.model.into(),
        closed_loop,
        experiments: stats.experiments.to_record(),
        rcodes: rcodes(stats),
        ..Trial::default()
    }
}

/// The length of a trial in seconds: that of its schedule, or of its experiments where their number ends it.
pub fn duration_s(schedule: &Schedule, stats: &Stats) -> f64 {
    let duration_ns =
        if schedule.ends_by_count() { stats.active_ns.max(1) } else { schedule.end_ns() - schedule.start_ns };
    duration_ns as f64 / SECOND_NS as f64
}

/// The queries that were due. A closed loop has no schedule: what it sent was due.
fn scheduled(schedule: &Schedule, stats: &Stats) -> u64 {
    if schedule.model.is_closed() { stats.sent + stats.send_errors } else { schedule.queries }
}

/// Every query without a valid answer in time by the place where it was lost: of those that nobody answered,
/// as many as counters prove, in this order; the others are the server's silence.
fn losses(schedule: &Schedule, stats: &Stats, circumstances: &Circumstances) -> BTreeMap<LossPlace, u64> {
    let Circumstances { own, observation, softnet_drops, device_discards, .. } = circumstances;
    let drops = |of: fn(&Observation) -> Option<u64>| observation.as_ref().and_then(of).unwrap_or(0);
    let unsent = scheduled(schedule, stats).saturating_sub(stats.sent + stats.send_errors);
    let mut losses = BTreeMap::new();
    let mut add = |place: LossPlace, count: u64| {
        if count > 0 {
            *losses.entry(place).or_default() += count;
        }
    };
    let mut silent = stats.sent.saturating_sub(stats.valid + stats.invalid + stats.late);
    for (place, counted) in [
        (LossPlace::OwnSocketDrop, own.socket_drops),
        (LossPlace::WrongQueue, own.wrong_queue),
        (LossPlace::OwnDeviceDrop, own.device_drops),
        (LossPlace::ServerSocketDrop, drops(|seen| seen.dut_socket_drops)),
        (LossPlace::AuthSocketDrop, drops(|seen| seen.auth_socket_drops)),
        (LossPlace::SoftnetDrop, *softnet_drops),
        (LossPlace::OwnDeviceDrop, *device_discards),
    ] {
        let taken = counted.min(silent);
        silent -= taken;
        add(place, taken);
    }
    add(LossPlace::ServerSilent, silent);
    add(LossPlace::OwnSendError, stats.send_errors);
    add(LossPlace::Unsent, unsent);
    add(LossPlace::Late, stats.late);
    add(LossPlace::WrongAnswer, stats.invalid);
    losses
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

    #[test]
    fn every_query_without_a_valid_answer_has_a_place() {
        let schedule = Schedule::new(1, 10_000, SECOND_NS);
        let mut stats = Stats::new(schedule);
        for n in 0..schedule.queries {
            let due = schedule.due_ns(n);
            stats.note_sent(due, due);
            if n >= 100 {
                stats.note_valid(due, 0, due + 1000);
            }
        }
        stats.late = 20;
        stats.invalid = 30;
        stats.note_send_errors(10);
        let circumstances = |softnet_drops| Circumstances {
            own: OwnFaults { socket_drops: 5, wrong_queue: 4, device_drops: 3, ..OwnFaults::default() },
            observation: Some(Observation { dut_socket_drops: Some(12), ..Observation::default() }),
            softnet_drops,
            device_discards: 2,
            ..Circumstances::default()
        };
        let limits = Limits::for_timeout(SECOND_NS);
        let of = |drops| conclude(&schedule, &stats, &circumstances(drops), &limits, Validity::Strict);
        let trial = of(0);
        assert_eq!(trial.losses.values().sum::<u64>(), trial.scheduled - trial.valid);
        assert_eq!(trial.losses[&LossPlace::ServerSocketDrop], 12);
        assert_eq!(trial.losses[&LossPlace::ServerSilent], 100 - 20 - 30 - 10 - 5 - 4 - 3 - 12 - 2);
        assert_eq!((trial.losses[&LossPlace::WrongQueue], trial.losses[&LossPlace::OwnDeviceDrop]), (4, 5));
        let trial = of(u64::MAX);
        assert!(!trial.losses.contains_key(&LossPlace::ServerSilent));
        assert_eq!(trial.losses.values().sum::<u64>(), trial.scheduled - trial.valid);
    }
}
