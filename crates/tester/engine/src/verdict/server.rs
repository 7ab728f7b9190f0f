//! The rules about everything beyond the Tester: this machine's kernel, the AuthDNS, the server, the path,
//! other load.

use record::number::{count as grouped, plural};
use record::{Cause, LossPlace, Observation};

use super::tester::may_have_caused;
use super::{Evidence, Finding, Limits, Weight};

fn tells(cause: Cause, text: String) -> Finding {
    Finding { cause, weight: Weight::Tells, text }
}

fn excuses(cause: Cause, text: String) -> Finding {
    Finding { cause, weight: Weight::Excuses, text }
}

/// Connections that were to stand through the whole trial, and that the server did not give or ended. A query
/// need not be lost with a connection.
pub(super) fn standing(evidence: &Evidence<'_>, _: &Limits) -> Option<Finding> {
    let wanted = evidence.circumstances.standing?;
    let seen = evidence.trial.connections.as_ref()?;
    let had = seen.opened.saturating_sub(seen.opened_in_trial);
    (had < wanted || seen.closed_by_server > 0).then(|| {
        let (had, wanted, ended) = (grouped(had), grouped(wanted), grouped(seen.closed_by_server));
        let said = |(place, number): (&LossPlace, &u64)| {
            format!("; {}: {}", place.as_str().replace('_', " "), grouped(*number))
        };
        let failed: String = seen.failed.iter().map(said).collect();
        let text = format!(
            "{had} of {wanted} connections were had before the first query, and the server ended {ended}{failed}"
        );
        Finding { cause: Cause::Connections, weight: Weight::Fails, text }
    })
}

/// Queries that ended with their connections, or never had one.
pub(super) fn connections(evidence: &Evidence<'_>, _: &Limits) -> Option<Finding> {
    const PLACES: [(LossPlace, &str); 12] = [
        (LossPlace::ConnectionRefused, "refused"),
        (LossPlace::ConnectionUnreachable, "without a way to the server"),
        (LossPlace::ConnectionTimedOut, "not ready within the timeout"),
        (LossPlace::HandshakeFailed, "ended by a failed handshake"),
        (LossPlace::ConnectionReset, "broken off"),
        (LossPlace::ConnectionClosed, "closed by the server"),
        (LossPlace::FlowControl, "full"),
        (LossPlace::HttpStatus, "answered with another status than 200"),
        (LossPlace::HttpMalformed, "answered without a message of DNS"),
        (LossPlace::StreamReset, "reset"),
        (LossPlace::GoAway, "not taken any more (GOAWAY)"),
        (LossPlace::OwnConnectionLimit, "in use by earlier queries"),
    ];
    let lost = PLACES.iter().map(|(place, words)| (evidence.lost_at(std::slice::from_ref(place)), words));
    let lost: Vec<_> = lost.filter(|(count, _)| *count > 0).collect();
    let all: u64 = lost.iter().map(|(count, _)| count).sum();
    (all > 0).then(|| {
        let each: Vec<_> = lost.iter().map(|(count, words)| format!("{} {words}", grouped(*count))).collect();
        let text = format!("{} queries were lost with their connections: {}", grouped(all), each.join(", "));
        tells(Cause::Connections, text)
    })
}

pub(super) fn kernel(evidence: &Evidence<'_>, _: &Limits) -> Option<Finding> {
    let softnet = evidence.seen().and_then(|seen| seen.softnet_drops).unwrap_or(0);
    let device = evidence.lost_at(&[LossPlace::OwnDeviceDrop]);
    (softnet > 0 || device > 0).then(|| {
        let (softnet, device) = (grouped(softnet), grouped(device));
        let text = format!(
            "the device of the queries dropped {device} packets, and the kernel {softnet} before any socket"
        );
        tells(Cause::Kernel, text)
    })
}

/// The AuthDNS answered fewer queries than came to its device.
pub(super) fn auth_silent(evidence: &Evidence<'_>, _: &Limits) -> Option<Finding> {
    let seen = evidence.seen()?;
    let (queries, answers) = (seen.auth_queries?, seen.auth_answers?);
    let drops = seen.auth_socket_drops.unwrap_or(0);
    (drops > 0 || answers < queries).then(|| {
        let (queries, answers, drops) = (grouped(queries), grouped(answers), grouped(drops));
        let text =
            format!("the AuthDNS answered {answers} of {queries} queries and its sockets dropped {drops}");
        tells(Cause::AuthDns, text)
    })
}

/// The AuthDNS kept the server waiting, as far as the Tester's own questions to the AuthDNS show (RFC 8219
/// 9.2.1).
pub(super) fn auth_slow(evidence: &Evidence<'_>, limits: &Limits) -> Option<Finding> {
    let seen = evidence.seen()?;
    let (asked, late) = (seen.auth_probes?, seen.auth_probes_late?);
    let share = late as f64 * 100.0 >= asked as f64 * limits.auth_late_pct;
    let (auth, device) = evidence.dropped();
    let left = evidence.unexplained(&[Cause::TesterCpu, Cause::AuthDns]);
    (late >= limits.auth_late_answers && share && left <= auth.saturating_add(device)).then(|| {
        let text = format!(
            "the AuthDNS was slow: {late} of {asked} questions to the AuthDNS beside the trial had no answer after a quarter of the timeout"
        );
        excuses(Cause::AuthDns, text)
    })
}

/// What the AuthDNS and the device of the queries dropped, with the Measurer's pauses, may have made every
/// failure.
pub(super) fn drops(evidence: &Evidence<'_>, _: &Limits) -> Option<Finding> {
    let (auth, device) = evidence.dropped();
    let left = evidence.unexplained(&[Cause::TesterCpu]);
    (evidence.failed() > 0 && auth.max(device) > 0 && left <= auth.saturating_add(device)).then(|| {
        let dropped = [("the AuthDNS's sockets", auth), ("the device of the queries", device)];
        let dropped = dropped.iter().filter(|(_, drops)| *drops > 0);
        let dropped: String = dropped.map(|(who, drops)| format!(", {who} dropped {drops}")).collect();
        let cause = if auth > 0 { Cause::AuthDns } else { Cause::Kernel };
        excuses(cause, may_have_caused(evidence, &dropped))
    })
}

/// A server that has to look up names that should be in its cache does more than it was to do. That it did
/// not answer them is a failure of the server, unless the Tester's own counters of the warm-up show another.
pub(super) fn cold_cache(evidence: &Evidence<'_>, _: &Limits) -> Option<Finding> {
    let cold = evidence.circumstances.cold_cache.as_ref()?;
    let text = format!(
        "the cache could not be warmed: {} of {} queries got no valid answer in time beforehand",
        cold.without, cold.queries
    );
    let (weight, text) = match &cold.tester_fault {
        Some(fault) => (Weight::Spoils, format!("{text} ({fault})")),
        None => (Weight::Fails, text),
    };
    Some(Finding { cause: Cause::ColdCache, weight, text })
}

/// Several sockets share the port, and one thread has all the work.
pub(super) fn one_thread(evidence: &Evidence<'_>, limits: &Limits) -> Option<Finding> {
    let seen = evidence.seen()?;
    let hottest = seen.dut_hottest_thread_pct.filter(|&pct| pct >= limits.dut_thread_busy_pct)?;
    let (all, sockets) = (seen.dut_cpu_pct?, seen.dut_sockets?);
    (sockets > 1 && all - hottest < limits.dut_threads_idle_pct).then(|| {
        let thread = seen.dut_hottest_thread.as_deref().unwrap_or("its busiest");
        let text = format!(
            "the server's thread {thread} used {hottest:.0} % of a processor and all others together {:.0} %, though {sockets} sockets share its port: queries come from too few ports, or the device has one queue",
            (all - hottest).max(0.0)
        );
        tells(Cause::OneThread, text)
    })
}

pub(super) fn dut_cpu(evidence: &Evidence<'_>, limits: &Limits) -> Option<Finding> {
    let seen = evidence.seen()?;
    let pct = seen.dut_hottest_thread_pct.filter(|&pct| pct >= limits.dut_thread_busy_pct)?;
    let thread = seen.dut_hottest_thread.as_deref().unwrap_or("its busiest");
    let drops = grouped(seen.dut_socket_drops.unwrap_or(0));
    let text =
        format!("the server's thread {thread} used {pct:.0} % of a processor and its socket dropped {drops}");
    Some(tells(Cause::DutCpu, text))
}

pub(super) fn dut_socket(evidence: &Evidence<'_>, _: &Limits) -> Option<Finding> {
    let seen = evidence.seen()?;
    let drops = grouped(seen.dut_socket_drops.filter(|&drops| drops > 0)?);
    let busy = seen
        .dut_hottest_thread_pct
        .map_or(String::new(), |pct| format!(" while its busiest thread used {pct:.0} %"));
    let text = format!(
        "the server's socket dropped {drops}{busy}: the server paused for longer than the buffer of the socket lasts"
    );
    Some(tells(Cause::DutSocket, text))
}

/// Datagrams that one side sent and the other never had, as far as the counters of both namespaces tell.
pub(super) fn path(evidence: &Evidence<'_>, limits: &Limits) -> Option<Finding> {
    let (trial, seen) = (evidence.trial, evidence.seen()?);
    if trial.connections.is_some() {
        // The counters are those of datagrams.
        return None;
    }
    let (taken, sent) = (seen.dut_datagrams_in?, seen.dut_datagrams_out?);
    let (auth_queries, auth_answers) = (seen.auth_queries?, seen.auth_answers?);
    // A server past the stack counts neither; then nothing can be said.
    let answers = sent.checked_sub(auth_queries).filter(|&answers| answers >= trial.answered)?;
    let queries = taken.checked_sub(auth_answers)? + seen.dut_socket_drops.unwrap_or(0);
    let lost_answers = answers - trial.answered.saturating_add(trial.duplicates).min(answers);
    let lost_queries = trial.sent.saturating_sub(queries);
    let share_pct = lost_answers.max(lost_queries) as f64 * 100.0 / trial.lost.max(1) as f64;
    (trial.lost > 0 && share_pct >= limits.path_share_pct).then(|| {
        let text = format!(
            "of {} queries {} came to the server's sockets, and of its {} answers {} came back",
            grouped(trial.sent),
            grouped(queries.min(trial.sent)),
            grouped(answers),
            grouped(trial.answered)
        );
        tells(Cause::Path, text)
    })
}

/// Other programs and the hypervisor, if queries failed while they used the processors, and nothing else than
/// the Tester failed meanwhile.
pub(super) fn other_load(evidence: &Evidence<'_>, _: &Limits) -> Option<Finding> {
    let (auth, device) = evidence.dropped();
    let without = evidence.unexplained(&[Cause::TesterCpu, Cause::AuthDns]);
    let left = evidence.unexplained(&[Cause::TesterCpu, Cause::AuthDns, Cause::OtherLoad]);
    (left < without && left <= auth.saturating_add(device)).then(|| {
        let failed = evidence.failed();
        let text =
            format!("{}; of {failed} failures {} were due meanwhile", load_text(evidence), without - left);
        excuses(Cause::OtherLoad, text)
    })
}

/// The load of others over the whole trial where it exceeds a limit: it stands beside the reason of a void
/// trial.
pub(super) fn load(evidence: &Evidence<'_>, limits: &Limits) -> Option<String> {
    let seen = evidence.seen()?;
    let steal = seen.steal_pct.unwrap_or(0.0);
    let foreign = seen.other_programs_pct().unwrap_or(0.0);
    (foreign >= limits.foreign_load_pct || steal >= limits.steal_pct).then(|| load_text(evidence))
}

fn load_text(evidence: &Evidence<'_>) -> String {
    let foreign = evidence.seen().and_then(Observation::other_programs_pct).unwrap_or(0.0);
    let steal = evidence.seen().and_then(|seen| seen.steal_pct).unwrap_or(0.0);
    format!("other programs used {foreign:.0} % of a processor and the hypervisor took {steal:.1} %")
}

pub(super) fn queueing(evidence: &Evidence<'_>, _: &Limits) -> Option<Finding> {
    let late = evidence.trial.late;
    (late > 0 && evidence.seen().is_some()).then(|| {
        let late = plural(usize::try_from(late).unwrap_or(usize::MAX), "answer", "answers");
        tells(Cause::DutQueueing, format!("{late} came after the timeout, and no counter shows a drop"))
    })
}
