//! What the AuthDNS sees of the server under test, in a separate trial, so that the observation does not slow
//! the other trials.

use std::time::Duration;

use record::Results;

use super::Bench;
use crate::plan::OBSERVING_NS as LENGTH_NS;
use crate::progress::Status;
use record::number::rate_of;

/// The fastest rate, in q/s: 10,000 names are enough for all that can be found.
const RATE_MAX_QPS: u64 = 2000;
/// The share of the rate found at which a server has time to do everything as it means to.
const SHARE: u64 = 2;

/// Looks at the server's queries at half of the lowest rate found, if the AuthDNS is ours and can look. The
/// record keeps what was found; that nothing could be seen is said and is no failure.
pub fn observe(bench: &mut Bench<'_>, results: &mut Results) {
    let Bench { tester, target, auth, progress, plan, alive, .. } = bench;
    let Some(auth) = auth else { return };
    let Some(observer) = auth.authority.observer().cloned() else { return };
    let rate_qps = results.summary.as_ref().map_or(0, |summary| summary.min / SHARE).min(RATE_MAX_QPS);
    if rate_qps == 0 || tester.stopped() || alive().is_err() {
        return;
    }
    // What a program in the kernel answers nobody sees. It is the last trial.
    auth.authority.leave_kernel();
    let phase = "its queries".to_owned();
    let length = Duration::from_nanos(LENGTH_NS + plan.listen_ns);
    let doing = Status { phase, rate_qps, length, ..Status::default() };
    observer.take();
    observer.watch(true);
    let tried = progress.during(&doing, || tester.trial(target, Some(auth), rate_qps, LENGTH_NS));
    observer.watch(false);
    let observation = observer.take();
    match tried {
        Ok(tried) => {
            let analysis = observation.analyse(Some(tried.trial.sent));
            progress.say(&format!(
                "  its queries   {} of them at {}: an ID of {:.0}, a port of {:.0}",
                analysis.seen,
                rate_of(rate_qps),
                analysis.spoofing.ids,
                analysis.spoofing.ports
            ));
            results.observed = Some(analysis);
        }
        Err(error) => progress.say(&format!("  its queries were not looked at: {error}")),
    }
}
