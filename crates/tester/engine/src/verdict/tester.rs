//! The rules about the Tester: queries that it did not send in time, and answers that it lost.

use record::limits::WINDOW_DEVIATION;
use record::{Cause, LossPlace, Trial};

use super::{Evidence, Finding, Limits, Weight};
use crate::pacer::{Model, SECOND_NS};

fn own_loss(cause: Cause, text: String) -> Finding {
    Finding { cause, weight: Weight::OwnLoss, text }
}

pub(super) fn interrupted(evidence: &Evidence<'_>, _: &Limits) -> Option<Finding> {
    let own = &evidence.circumstances.own;
    own.interrupted.then(|| own_loss(Cause::Interrupted, "interrupted".into()))
}

/// The file or pipe that the queries come from ended early, or was too slow for the schedule.
pub(super) fn query_file(evidence: &Evidence<'_>, limits: &Limits) -> Option<Finding> {
    if let Some(why) = evidence.ran_out {
        return Some(own_loss(Cause::QueryFile, why.to_owned()));
    }
    let text =
        || format!("query file too slow: {} times queries were due and none was read yet", evidence.starved);
    let weight = match evidence.starved {
        0 => return None,
        _ if evidence.lost_at(&[LossPlace::Unsent]) > 0 => Weight::OwnLoss,
        _ => off_schedule(evidence, limits)?.weight,
    };
    Some(Finding { cause: Cause::QueryFile, weight, text: text() })
}

/// Queries that never left.
pub(super) fn unsent(evidence: &Evidence<'_>, _: &Limits) -> Option<Finding> {
    let trial = evidence.trial;
    let (errors, unsent) =
        (evidence.lost_at(&[LossPlace::OwnSendError]), evidence.lost_at(&[LossPlace::Unsent]));
    let text = if errors > 0 {
        let why = evidence.circumstances.own.send_error.as_ref().map(|why| format!(": {why}"));
        format!("the Tester could not send {errors} queries (send errors){}", why.unwrap_or_default())
    } else if unsent > 0 {
        format!("the Tester cannot send so fast: {unsent} of {} queries never left", trial.scheduled)
    } else if trial.closed_loop && trial.sent == 0 {
        "no query was sent".to_owned()
    } else {
        return None;
    };
    Some(own_loss(Cause::TesterCpu, text))
}

/// How far the sending was off its schedule. A closed loop has none.
pub(super) fn off_schedule(evidence: &Evidence<'_>, limits: &Limits) -> Option<Finding> {
    let trial = evidence.trial;
    if trial.closed_loop {
        return None;
    }
    let lateness = trial.schedule_error_ns;
    let late = [
        ("one query in a thousand", lateness.p999, limits.lateness_p999_ns),
        ("one query", lateness.max, limits.lateness_max_ns),
    ]
    .into_iter()
    .find(|(_, late_ns, allowed_ns)| late_ns > allowed_ns)
    .map(|(which, late_ns, allowed_ns)| {
        let (late_ms, allowed_ms) = (late_ns as f64 / 1e6, allowed_ns as f64 / 1e6);
        format!(
            "the Tester was late: {which} was {late_ms:.1} ms late or more, {allowed_ms:.1} ms is allowed"
        )
    });
    let text = late.or_else(|| uneven(evidence, limits))?;
    Some(Finding { cause: Cause::TesterCpu, weight: Weight::Spoils, text })
}

fn uneven(evidence: &Evidence<'_>, limits: &Limits) -> Option<String> {
    let off_pct = evidence.trial.windows.ms10.off_pct;
    // A burst that crosses the end of a window is no unevenness; its lateness was judged above.
    let bursts = matches!(evidence.model, Model::Burst { .. });
    (off_pct > limits.uneven_windows_pct && !bursts).then(|| {
        format!(
            "the Tester sent unevenly: {off_pct:.1} % of the 10 ms windows are more than {} % off the schedule, {} % is allowed",
            WINDOW_DEVIATION.value, limits.uneven_windows_pct
        )
    })
}

/// Whether the Tester could not follow the schedule, apart from pauses that it made good: the self-test asks
/// this, where a burst after a pause is an AuthDNS's to bear. Windows of 100 ms show it, for they are longer
/// than a pause.
pub fn fell_behind(trial: &Trial, limits: &Limits) -> bool {
    let of_trial_ns = (trial.duration_s * SECOND_NS as f64 * limits.lateness_in_trial_pct / 100.0) as u64;
    trial.schedule_error_ns.max > limits.lateness_max_ns.min(of_trial_ns)
        || trial.windows.ms100.off_pct > limits.uneven_windows_pct
}

/// Bursts after pauses of the Measurer may have made every failure: the failures lie where the pauses do, and
/// a queue that is full loses at most one query for each that comes at the wrong time.
pub(super) fn pauses(evidence: &Evidence<'_>, _: &Limits) -> Option<Finding> {
    let failed = evidence.failed();
    (failed > 0 && evidence.unexplained(&[Cause::TesterCpu]) == 0).then(|| Finding {
        cause: Cause::TesterCpu,
        weight: Weight::Excuses,
        text: may_have_caused(evidence, ""),
    })
}

pub(super) fn may_have_caused(evidence: &Evidence<'_>, dropped: &str) -> String {
    let failed = evidence.failed();
    let during = failed - evidence.unexplained(&[Cause::TesterCpu]).min(failed);
    let displaced = evidence.trial.displaced;
    format!(
        "the Tester may have caused the failure: {failed} queries failed, {during} of them during its own pauses, which displaced {displaced} queries{dropped}"
    )
}

pub(super) fn own_sockets(evidence: &Evidence<'_>, _: &Limits) -> Option<Finding> {
    let drops = evidence.circumstances.own.socket_drops;
    let by_connections = evidence.trial.connections.is_some();
    let what = if by_connections { "packets" } else { "answers" };
    let text = || format!("the Tester dropped {drops} {what} at its own sockets");
    // Packets of a connection are sent again: it matters where that took too long.
    let matters = !by_connections || evidence.failed() > 0;
    (drops > 0 && matters && may_be_all(evidence, drops)).then(|| own_loss(Cause::TesterReceive, text()))
}

/// So many datagrams at most are one entry of a queue, and one drop, where they are received joined
/// (`UDP_MAX_SEGMENTS` of Linux).
const JOINED_MAX: u64 = 128;

/// Whether the Tester's drops may be all of the failures. If more queries failed than answers can have been
/// dropped, the server lost some in any case, and the trial is judged by the other rules. By connections a
/// lost packet may delay any number of answers.
fn may_be_all(evidence: &Evidence<'_>, drops: u64) -> bool {
    evidence.trial.connections.is_some() || evidence.failed() <= drops.saturating_mul(JOINED_MAX)
}

pub(super) fn wrong_queue(evidence: &Evidence<'_>, _: &Limits) -> Option<Finding> {
    let answers = evidence.circumstances.own.wrong_queue;
    let text = || format!("{answers} answers came to queues that the Tester does not read");
    (evidence.trial.lost > 0 && answers > 0 && may_be_all(evidence, answers))
        .then(|| own_loss(Cause::TesterReceive, text()))
}

/// Of connections that were to stand the Tester could not open all: no port was free, or no file might be
/// opened.
pub(super) fn own_connections(evidence: &Evidence<'_>, _: &Limits) -> Option<Finding> {
    evidence.circumstances.standing?;
    let failed = evidence.trial.connections.as_ref()?.failed.get(&LossPlace::OwnConnectionLimit).copied()?;
    let text = format!("the Tester had no port or no file for {failed} of its connections");
    (failed > 0).then(|| own_loss(Cause::TesterConnections, text))
}

/// The device has other traffic too: what it drops matters when a query is missing.
pub(super) fn own_device(evidence: &Evidence<'_>, _: &Limits) -> Option<Finding> {
    let drops = evidence.circumstances.own.device_drops;
    let text = || format!("the Tester's own device dropped {drops} packets");
    (evidence.trial.lost > 0 && drops > 0 && may_be_all(evidence, drops))
        .then(|| own_loss(Cause::Kernel, text()))
}
