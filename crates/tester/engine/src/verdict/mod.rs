//! The verdict on a trial and on a measurement: what became of it, what caused that, and why.
//!
//! [`judge`] is the only place where a trial passes, fails or becomes void. It looks at the [`Evidence`] with
//! the rules of [`RULES`], in their order, and with the limits of [`LIMITS`]. The cause of a measurement
//! comes from the causes of its trials ([`bottleneck()`]).

mod bottleneck;
mod limits;
mod server;
mod tester;
#[cfg(test)]
mod tests;

use record::number::count as grouped;
use record::{Bottleneck, Cause, LossPlace, Observation, Outcome, Trial};

pub use bottleneck::bottleneck;
pub use limits::{LIMITS, Limits};
pub use tester::fell_behind;

use crate::pacer::Model;
use crate::trial::{Circumstances, Validity};

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
const RULES: [Rule; 19] = [
    tester::interrupted,
    tester::query_file,
    tester::unsent,
    tester::off_schedule,
    tester::pauses,
    tester::own_sockets,
    tester::wrong_queue,
    tester::own_device,
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
    let bearing = || findings.iter().filter(|finding| failed || finding.weight >= Weight::Spoils);
    // The first of equally heavy ones.
    let heaviest = bearing().rev().max_by_key(|finding| finding.weight);
    let voiding = heaviest.filter(|finding| finding.weight > Weight::Tells);
    let outcome = match voiding {
        Some(_) => Outcome::Void,
        None if failed => Outcome::Fail,
        None => Outcome::Pass,
    };
    let first = bearing().next().map(|finding| (finding.cause.clone(), finding.text.as_str()));
    let cause = first.or_else(|| failed.then(|| (Cause::Unattributed, evidence.silence())));
    Verdict {
        outcome,
        cause: cause.map(|(cause, text)| Bottleneck {
            cause,
            evidence: format!("at {} q/s: {text}", grouped(evidence.trial.rate_qps)),
        }),
        reason: voiding.map(|finding| reason(finding, &findings)),
    }
}

/// The reason of a void trial, with the load of others beside, if there was any.
fn reason(of: &Finding, findings: &[Finding]) -> String {
    let others = findings.iter().find(|finding| finding.cause == Cause::OtherLoad);
    match (&of.cause, others) {
        (Cause::OtherLoad, _) => format!("the machine was not the server's alone: {}", of.text),
        (Cause::Interrupted, _) | (_, None) => of.text.clone(),
        (_, Some(others)) => format!("{} ({})", of.text, others.text),
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
