//! The verdict on a trial and on a measurement: outcome, cause and reason.
//!
//! [`judge`] is the only place where a trial passes, fails or becomes void. The function applies the rules of
//! [`RULES`], in their order, to the [`Evidence`], with the limits of [`LIMITS`]. The cause of a measurement
//! comes from the causes of its trials ([`bottleneck()`]).

mod bottleneck;
mod disturbance;
mod limits;
mod server;
mod tester;
#[cfg(test)]
mod tests;

use record::number::count as grouped;
use record::{Bottleneck, Cause, LossPlace, Observation, Outcome, Trial};

pub use bottleneck::bottleneck;
pub use disturbance::{Span, is_loaded};
pub(crate) use disturbance::{disturbances, disturbances_in_record};
pub use limits::{LIMITS, Limits};
pub use tester::fell_behind;

use crate::circumstances::{Circumstances, Validity};
use crate::pacer::Model;

/// All that is known of a trial when it has ended.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// What the Measurer counted, where queries were lost, and what the machine and the AuthDNS showed. Its
    /// outcome, reason and cause are not read.
    pub trial: &'a Trial,
    /// How the queries lay in time.
    pub model: Model,
    /// Which answers count.
    pub validity: Validity,
    /// How often queries were due, but the file or pipe that they come from had none ready.
    pub starved: u64,
    /// Why there were no more queries before the end of the schedule.
    pub ran_out: Option<&'a str>,
    /// What else befell the trial.
    pub circumstances: &'a Circumstances,
    /// Of each window of 10 ms: the queries due in it without an answer that counts; `None` where that is not
    /// known, so that no disturbance can be shown to have met a failure.
    pub failures: Option<&'a [u32]>,
    /// Where in time something else than the server may have made queries fail.
    pub disturbances: &'a [Span],
}

/// What became of a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Pass, fail or void.
    pub outcome: Outcome,
    /// The first rule whose evidence is there; `None` for a trial that passes.
    pub cause: Option<Bottleneck>,
    /// Why the trial is void; `None` if it is not.
    pub reason: Option<String>,
}

/// How much a finding weighs; the heaviest one gives the reason of a void trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// It tells where queries were lost. The trial counts.
    Tells,
    /// A failure may not be the server's: it is void. A pass stands, for it was made harder.
    Excuses,
    /// The server failed whatever came of the queries: before the trial, or by its connections.
    Fails,
    /// The trial was not the one asked for: it is void in any case.
    Spoils,
    /// The Tester lost queries or answers itself: the trial is void in any case.
    OwnLoss,
}

/// What a rule has found.
#[derive(Clone, Debug, PartialEq)]
struct Finding {
    cause: Cause,
    weight: Weight,
    text: String,
}

type Rule = fn(&Evidence<'_>, &Limits) -> Option<Finding>;

/// The rules in the order in which a cause hides those after it: a Tester that could not send or receive,
/// packets that no server saw, an AuthDNS that did not answer; then the server, the path, and other load.
const RULES: [Rule; 22] = [
    tester::interrupted,
    tester::query_file,
    tester::unsent,
    tester::off_schedule,
    tester::pauses,
    tester::own_sockets,
    tester::wrong_queue,
    tester::own_device,
    tester::own_connections,
    server::standing,
    server::connections,
    server::kernel,
    server::auth_silent,
    server::auth_slow,
    server::drops,
    server::cold_cache,
    server::one_thread,
    server::dut_cpu,
    server::dut_socket,
    server::path,
    server::other_load,
    server::queueing,
];

/// Judges a trial.
pub fn judge(evidence: &Evidence<'_>, limits: &Limits) -> Verdict {
    let failed = !evidence.is_complete();
    let findings: Vec<Finding> = RULES.iter().filter_map(|rule| rule(evidence, limits)).collect();
    let bearing = || findings.iter().filter(|finding| failed || finding.weight >= Weight::Fails);
    // The first of equally heavy ones.
    let heaviest = bearing().rev().max_by_key(|finding| finding.weight);
    let (outcome, decides) = match heaviest.map(|finding| (finding, finding.weight)) {
        Some((finding, Weight::Fails)) => (Outcome::Fail, Some(finding)),
        Some((_, Weight::Excuses | Weight::Spoils | Weight::OwnLoss)) => (Outcome::Void, None),
        _ if failed => (Outcome::Fail, None),
        _ => (Outcome::Pass, None),
    };
    let voiding = heaviest.filter(|_| outcome == Outcome::Void);
    let first = decides.or_else(|| bearing().next());
    let first = first.map(|finding| (finding.cause.clone(), finding.text.as_str()));
    let cause = first.or_else(|| failed.then(|| (Cause::Unattributed, evidence.silence())));
    Verdict {
        outcome,
        cause: cause.map(|(cause, text)| Bottleneck {
            cause,
            evidence: format!("at {} q/s: {text}", grouped(evidence.trial.rate_qps)),
        }),
        reason: voiding.map(|finding| reason(finding, server::load(evidence, limits))),
    }
}

/// The reason of a void trial, with the load of others beside, if there was any.
fn reason(of: &Finding, load: Option<String>) -> String {
    match (&of.cause, load) {
        (Cause::OtherLoad, _) => format!("other load on this machine: {}", of.text),
        (Cause::Interrupted, _) | (_, None) => of.text.clone(),
        (_, Some(load)) => format!("{} ({load})", of.text),
    }
}

impl Evidence<'_> {
    /// Whether every query that was due got an answer that counts.
    fn is_complete(&self) -> bool {
        self.validity.counted(self.trial) == self.trial.scheduled
    }

    /// The queries without an answer that counts.
    fn failed(&self) -> u64 {
        self.trial.scheduled.saturating_sub(self.validity.counted(self.trial))
    }

    /// The failures that no disturbance of these causes explains: all of them where it is not known when they
    /// happened.
    fn unexplained(&self, causes: &[Cause]) -> u64 {
        let failures =
            self.failures.map(|failures| disturbance::unexplained(failures, self.disturbances, causes));
        failures.unwrap_or_else(|| self.failed())
    }

    /// Datagrams dropped at the AuthDNS's sockets and by the device of the queries. The counters are read
    /// before and after a trial, so that they tell how many and not when.
    fn dropped(&self) -> (u64, u64) {
        let auth = self.seen().and_then(|seen| seen.auth_socket_drops).unwrap_or(0);
        (auth, self.circumstances.device_discards)
    }

    /// The queries lost at these places.
    fn lost_at(&self, places: &[LossPlace]) -> u64 {
        places.iter().filter_map(|place| self.trial.losses.get(place)).sum()
    }

    /// What the machine's counters showed; `None` where they were not read.
    fn seen(&self) -> Option<&Observation> {
        self.trial.observation.as_ref()
    }

    /// What stands where no rule has found anything.
    fn silence(&self) -> &'static str {
        match self.seen() {
            Some(_) => "no counter shows where the queries went",
            None => "no counter was read",
        }
    }
}
