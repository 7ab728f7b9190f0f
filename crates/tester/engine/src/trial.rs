//! A trial in the record: its counts, where its queries were lost, and the verdict on it.

use std::collections::BTreeMap;

use crate::matcher::rcode_name;
use crate::pacer::{SECOND_NS, Schedule};
use crate::stats::Stats;
use crate::verdict::{Evidence, Limits, disturbances, disturbances_in_record, judge};
use record::{LossPlace, Observation, Trial};

pub use crate::circumstances::{Circumstances, ColdCache, LoadSample, OwnFaults, Validity};

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
    let attempted = attempted(stats);
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
        connections: stats.connections.as_ref().map(|connections| connections.to_record()),
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
    if schedule.model.is_closed() { attempted(stats) } else { schedule.queries }
}

/// The queries that were handed over to be sent.
fn attempted(stats: &Stats) -> u64 {
    stats.sent + stats.send_errors + stats.never_left
}

/// Every query without a valid answer in time by the place where it was lost: of those that nobody answered,
/// as many as counters prove, in this order; the others are the server's silence.
fn losses(schedule: &Schedule, stats: &Stats, circumstances: &Circumstances) -> BTreeMap<LossPlace, u64> {
    let Circumstances { own, observation, softnet_drops, device_discards, .. } = circumstances;
    let drops = |of: fn(&Observation) -> Option<u64>| observation.as_ref().and_then(of).unwrap_or(0);
    let unsent = scheduled(schedule, stats).saturating_sub(attempted(stats));
    let mut losses = BTreeMap::new();
    let mut add = |place: LossPlace, count: u64| {
        if count > 0 {
            *losses.entry(place).or_default() += count;
        }
    };
    let answered = stats.valid + stats.invalid + stats.late;
    let mut silent = stats.sent.saturating_sub(answered + stats.cut_off);
    for (why, count) in &stats.broken {
        add(why.place(), *count);
    }
    // A dropped packet of a connection is sent again: its loss is none of a query.
    let datagrams = if stats.connections.is_none() { u64::MAX } else { 0 };
    for (place, counted) in [
        (LossPlace::OwnSocketDrop, own.socket_drops),
        (LossPlace::WrongQueue, own.wrong_queue),
        (LossPlace::OwnDeviceDrop, own.device_drops),
        (LossPlace::ServerSocketDrop, drops(|seen| seen.dut_socket_drops)),
        (LossPlace::AuthSocketDrop, drops(|seen| seen.auth_socket_drops)),
        (LossPlace::SoftnetDrop, *softnet_drops),
        (LossPlace::OwnDeviceDrop, *device_discards),
    ] {
        let taken = counted.min(silent).min(datagrams);
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
