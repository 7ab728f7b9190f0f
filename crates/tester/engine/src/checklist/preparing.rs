//! The rows about what comes before the search.

use std::net::SocketAddr;

use record::limits::{AUTH_ANSWER, SELFTEST_RATE};
use record::number::count as grouped;
use record::{Results, SelfTest, State, Trial, Validity};

use super::{Judgement, judged, kept, not_kept, open, trials};

pub(super) fn client_over_ipv6(results: &Results) -> Judgement {
    let address = &results.dut.address;
    match address.parse::<SocketAddr>() {
        Ok(SocketAddr::V6(v6)) if v6.ip().to_ipv4_mapped().is_none() => {
            kept(format!("the server was asked at {address}"))
        }
        Ok(_) => not_kept(format!("the server was asked at {address}, over IPv4")),
        Err(_) => open("the record does not say at which address the server was asked"),
    }
}

pub(super) fn selftest_first(results: &Results) -> Judgement {
    let Some(selftest) = &results.selftest else { return not_tested(results) };
    match &selftest.certificate {
        _ if !selftest.passed && ended_early(results) => open("the self-test did not come to its end"),
        _ if !selftest.passed => not_kept("run, and failed"),
        None => kept("run before the search, passed"),
        Some(used) => {
            let confirmed = if selftest.trials.is_empty() { "" } else { ", and confirmed before the search" };
            kept(format!("run before, certified {}{confirmed}", used.issued_utc))
        }
    }
}

pub(super) fn selftest_rate(results: &Results) -> Judgement {
    let Some(selftest) = &results.selftest else { return not_tested(results) };
    if !selftest.passed {
        let open_yet = ended_early(results) || selftest.trials.is_empty();
        return if open_yet {
            open("the self-test did not come to its end")
        } else {
            not_kept(failed(selftest))
        };
    }
    let certified = selftest.certified_qps;
    let fastest = trials(results).map(|trial| trial.rate_qps).max().unwrap_or(0);
    let tested = selftest.certificate.as_ref().map_or(selftest.required_qps, |used| used.required_qps);
    let note = format!(
        "all answers within {} s at {} q/s: rates up to {} q/s are certified{}",
        selftest.timeout_s,
        grouped(tested),
        grouped(certified),
        attempts(selftest)
    );
    let wrong = [
        (answered_in_vain(selftest), "the deciding trial lacks answers".to_owned()),
        (
            selftest.timeout_s > results.settings.timeout_s * AUTH_ANSWER.value / 100.0,
            format!("{} s is more than a quarter of the timeout", selftest.timeout_s),
        ),
        ((tested as f64) < certified as f64 * SELFTEST_RATE.value, "the rate tested is too low".to_owned()),
        (fastest > certified, format!("a trial of the search ran at {} q/s", grouped(fastest))),
    ];
    match wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
        Some((_, why)) => not_kept(format!("{note}; {why}")),
        None => judged(true, note),
    }
}

/// The Tester was not tested: open as long as it has not tested anything.
fn not_tested(results: &Results) -> Judgement {
    if trials(results).next().is_none() { open("nothing was measured") } else { not_kept("not run") }
}

/// Whether the measurement was ended before the search began.
fn ended_early(results: &Results) -> bool {
    let ended = matches!(results.state, State::Running | State::Interrupted);
    ended && trials(results).next().is_none()
}

/// Whether the last trial, which decides, lacks valid answers. A certificate has its deciding trial
/// elsewhere.
fn answered_in_vain(selftest: &SelfTest) -> bool {
    selftest.trials.last().is_some_and(|trial| !is_answered(trial))
}

fn is_answered(trial: &Trial) -> bool {
    let compat = trial.validity == Validity::Compat;
    let valid = if compat { trial.valid_compat } else { trial.valid };
    trial.scheduled > 0 && valid == trial.scheduled
}

fn failed(selftest: &SelfTest) -> String {
    let Some(last) = selftest.trials.last() else { return "failed".into() };
    format!(
        "failed: at {} q/s {} of {} queries had a valid answer within {} s{}",
        grouped(last.rate_qps),
        grouped(last.valid),
        grouped(last.scheduled),
        selftest.timeout_s,
        attempts(selftest)
    )
}

/// How many of several trials had every answer.
fn attempts(selftest: &SelfTest) -> String {
    let (all, whole) =
        (selftest.trials.len(), selftest.trials.iter().filter(|trial| is_answered(trial)).count());
    if all > 1 { format!("; {whole} of {all} trials had every answer") } else { String::new() }
}
