//! Every MUST and SHOULD of RFC 8219 section 9 (and what it takes from RFC 2544 and RFC 9693), kept or not
//! kept.

use std::net::SocketAddr;

use record::{Level, Outcome, Requirement, Results, SelfTest, Validity};

use record::limits::WINDOW_DEVIATION;
use record::number::count as grouped;

/// Judges a measurement as far as it came.
pub fn checklist(results: &Results) -> Vec<Requirement> {
    [
        client_over_ipv6,
        selftest_first,
        selftest_rate,
        constant_rate,
        trial_length,
        timeout,
        valid_reply,
        distinct_names,
        worst_case,
        repetitions,
        percentiles,
        restabilisation,
        search_error,
    ]
    .map(|judge| judge(results))
    .to_vec()
}

fn requirement(section: &str, level: Level, text: &str, kept: Option<bool>, note: String) -> Requirement {
    Requirement { section: section.into(), level, text: text.into(), kept, note }
}

fn client_over_ipv6(results: &Results) -> Requirement {
    let address = results.dut.address.parse::<SocketAddr>();
    let kept = address.as_ref().is_ok_and(SocketAddr::is_ipv6);
    let note = format!("the server was asked at {}", results.dut.address);
    requirement("9.2", Level::Must, "The client's side uses IPv6", Some(kept), note)
}

fn selftest_first(results: &Results) -> Requirement {
    let note = match &results.selftest {
        Some(SelfTest { certificate: Some(used), trials, .. }) => {
            let confirmed = if trials.is_empty() { "" } else { ", and confirmed before the search" };
            format!("run before, certified {}{confirmed}", used.issued_utc)
        }
        Some(selftest) if selftest.passed => "run before the search, passed".into(),
        Some(_) => "run before the search, failed".into(),
        None => "not run".to_owned(),
    };
    let kept = results.selftest.as_ref().is_some_and(|selftest| selftest.passed);
    requirement(
        "9.2.1",
        Level::Must,
        "The Tester is tested without the DUT before it tests",
        Some(kept),
        note,
    )
}

fn selftest_rate(results: &Results) -> Requirement {
    let text = "In the self-test, answers within 0.25 of the timeout at 2*(1+delta)*r, delta at least 0.1";
    let Some(selftest) = &results.selftest else {
        return requirement("9.2.1", Level::Should, text, Some(false), "not run".into());
    };
    let note = format!(
        "all answers within {} s at {} q/s: rates up to {} q/s are certified",
        selftest.timeout_s,
        grouped(selftest.required_qps),
        grouped(selftest.certified_qps)
    );
    requirement("9.2.1", Level::Should, text, Some(selftest.passed), note)
}

fn trials(results: &Results) -> impl Iterator<Item = &record::Trial> {
    results.runs.iter().flat_map(|run| &run.trials)
}

fn constant_rate(results: &Results) -> Requirement {
    let counted = || trials(results).filter(|trial| trial.outcome != Outcome::Void);
    let off_pct = counted().map(|trial| trial.windows.ms10.off_pct).fold(0.0, f64::max);
    let late_ns = counted().map(|trial| trial.schedule_error_ns.p999).max().unwrap_or(0);
    let void = trials(results).filter(|trial| trial.outcome == Outcome::Void).count();
    let note = format!(
        "of the trials that count, none was sent later than {:.1} ms at p99.9 or had more than {off_pct:.1} % of its 10 ms windows more than {} % off; {void} trials were void and repeated",
        late_ns as f64 / 1e6,
        WINDOW_DEVIATION.value
    );
    let kept = (counted().count() > 0).then_some(true);
    requirement("9.2", Level::Must, "Queries are sent at a constant rate", kept, note)
}

fn trial_length(results: &Results) -> Requirement {
    let seconds = results.settings.trial_s;
    let kept = Some(seconds >= 60.0);
    requirement("9.2", Level::Should, "A trial lasts at least 60 s", kept, format!("trials of {seconds} s"))
}

fn timeout(results: &Results) -> Requirement {
    let seconds = results.settings.timeout_s;
    let text = "The timeout is 1 s, and no higher one is used";
    requirement("9.2", Level::Should, text, Some(seconds <= 1.0), format!("{seconds} s"))
}

fn valid_reply(results: &Results) -> Requirement {
    let (kept, note) = match results.settings.validity {
        Validity::Strict => (true, "the AAAA that the name asks for, in time, was required"),
        _ => (false, "any answer record was taken, as dns64perf++ does"),
    };
    let text = "An answer counts when it is in time and contains a AAAA record";
    requirement("9.2", Level::Must, text, Some(kept), note.into())
}

fn distinct_names(results: &Results) -> Requirement {
    let text = "All names differ, or do not repeat before the DUT's cache is exhausted";
    let asked: u64 = trials(results).map(|trial| trial.scheduled).sum();
    let Ok(names) = results.settings.names.parse::<dns64::NameSpace>() else {
        return requirement("9.2", Level::Must, text, None, "the name space is unknown".into());
    };
    if asked <= names.size() {
        let note = format!("{} of {} names were asked, each once", grouped(asked), grouped(names.size()));
        return requirement("9.2", Level::Must, text, Some(true), note);
    }
    // A name comes again after the whole range; by then its records must have expired.
    let fastest = trials(results).map(|trial| trial.rate_qps).max().unwrap_or(1).max(1);
    let again_s = names.size() / fastest;
    let ttl_s = results.settings.ttl_s;
    let kept = ttl_s.map(|ttl_s| again_s > u64::from(ttl_s));
    let ttl = ttl_s.map_or("unknown".into(), |ttl_s| format!("{ttl_s} s"));
    let note = format!("names came again after {again_s} s at the earliest; the TTL is {ttl}");
    requirement("9.2", Level::Must, text, kept, note)
}

fn worst_case(results: &Results) -> Requirement {
    let settings = &results.settings;
    let kept = settings.cached_share_pct == 0 && settings.aaaa_share_pct == 0;
    let note = format!("{} % cached, {} % with AAAA", settings.cached_share_pct, settings.aaaa_share_pct);
    let text = "The worst case is measured: nothing cached, no name has a AAAA record";
    requirement("9.2", Level::Must, text, Some(kept), note)
}

fn repetitions(results: &Results) -> Requirement {
    let complete = results.runs.iter().filter(|run| run.complete).count();
    let text = "The search is repeated at least 20 times";
    requirement("9.2", Level::Should, text, Some(complete >= 20), format!("{complete} complete"))
}

fn percentiles(results: &Results) -> Requirement {
    let text = "Median, 1st and 99th percentile are given, with the number of repetitions";
    let note =
        results.summary.as_ref().map_or("no run is complete".into(), |summary| format!("N = {}", summary.n));
    requirement("12", Level::Should, text, Some(results.summary.is_some()), note)
}

fn restabilisation(results: &Results) -> Requirement {
    let settle_s = results.settings.settle_s;
    let text = "Two seconds for residual replies and five for the DUT to restabilize (RFC 2544 23)";
    requirement(
        "4",
        Level::Should,
        text,
        Some(settle_s >= 5.0),
        format!("a pause of {settle_s} s between trials"),
    )
}

fn search_error(results: &Results) -> Requirement {
    let text = "The error of the search is given (RFC 9693 6)";
    let note = match &results.summary {
        Some(summary) => format!("the brackets were at most {} q/s wide", grouped(summary.stop_width_qps)),
        None => "no run is complete".into(),
    };
    requirement("9.3", Level::Should, text, Some(results.summary.is_some()), note)
}
