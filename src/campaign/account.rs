//! What the counters of the machine and of the AuthDNS say of a trial.

use engine::record::{Outcome, Trial};
use engine::trial::{attribute_loss, excuse_drops, place};

use super::auth_probe::Probed;
use super::tester::{Auth, Target};
use crate::authority::Counters;
use crate::lab::observe::{Observation as Seen, Observer, Snapshot};

/// Other programs that use more of a processor than this, in percent, may make any trial fail.
const FOREIGN_PCT: f64 = 20.0;
/// So may a hypervisor that takes more than this.
const STEAL_PCT: f64 = 5.0;

/// The counters at one instant.
pub struct Reading {
    machine: Snapshot,
    auth: Option<Counters>,
}

impl Reading {
    /// Reads all of them.
    pub fn take(observer: &Observer, auth: Option<&Auth>) -> Self {
        Self { machine: observer.snapshot(), auth: auth.map(|auth| auth.authority.counters()) }
    }

    /// What has happened since an earlier reading.
    pub fn since(&self, earlier: &Self) -> (Seen, Option<Traffic>) {
        let traffic = self.auth.zip(earlier.auth).map(|(now, then)| {
            let answers = |counters: &Counters| counters.udp.answers + counters.tcp.answers;
            let queries = |counters: &Counters| counters.udp.queries() + counters.tcp.queries();
            Traffic {
                queries: queries(&now) - queries(&then),
                answers: answers(&now) - answers(&then),
                drops: now.udp_socket_drops - then.udp_socket_drops,
            }
        });
        (self.machine.since(&earlier.machine), traffic)
    }
}

/// What the AuthDNS did during a trial.
pub struct Traffic {
    queries: u64,
    answers: u64,
    drops: u64,
}

/// Puts the counters of the machine and of the AuthDNS to the trial's account; those of the device not where the back-end
/// has an account of its own.
pub fn attribute(
    trial: &mut Trial,
    (seen, auth, probed): (Seen, Option<Traffic>, Option<Probed>),
    target: &Target,
    own_account: bool,
) {
    let mut observation = seen.to_record(trial.sent, target.server.port());
    if let Some(auth) = auth {
        // Our own questions are not the server's.
        let own = probed.map_or(0, |probed| probed.asked - probed.late);
        let (queries, answers) = (auth.queries.saturating_sub(own), auth.answers.saturating_sub(own));
        observation.auth_queries = Some(queries);
        observation.auth_answers = Some(answers);
        observation.auth_socket_drops = Some(auth.drops);
        observation.auth_queries_per_query = (trial.sent > 0).then(|| queries as f64 / trial.sent as f64);
    }
    observation.auth_probes = probed.map(|probed| probed.asked);
    observation.auth_probes_late = probed.map(|probed| probed.late);
    // The server works while queries come; the time in which the Measurer only listens would water its load down.
    // A thread that worked on after the last query had all of a processor before, and no more.
    let full = observation.dut_hottest_thread_pct.map_or(f64::MAX, |pct| 100.0 / pct);
    let scale = (observation.elapsed_s / trial.duration_s.max(f64::MIN_POSITIVE)).min(full);
    observation.dut_cpu_pct = observation.dut_cpu_pct.map(|pct| pct * scale);
    observation.dut_hottest_thread_pct = observation.dut_hottest_thread_pct.map(|pct| pct * scale);
    let (softnet_drops, discards) = seen.kernel_drops();
    let discards = if own_account { 0 } else { discards };
    let auth_drops = observation.auth_socket_drops.unwrap_or(0);
    for (place, drops) in [
        (place::SERVER_SOCKET_DROP, observation.dut_socket_drops.unwrap_or(0)),
        (place::AUTH_SOCKET_DROP, auth_drops),
        (place::SOFTNET_DROP, softnet_drops),
        (place::OWN_DEVICE_DROP, discards),
    ] {
        attribute_loss(trial, place, drops);
    }
    let drops = [("the AuthDNS's sockets", auth_drops), ("the device of the queries", discards)];
    excuse_drops(trial, &drops, target.validity);
    if let Some(slow) = probed.filter(|probed| probed.is_slow()) {
        excuse_slow_auth(trial, slow);
    }
    trial.observation = Some(observation);
}

/// A failure while the AuthDNS kept the server waiting is void.
fn excuse_slow_auth(trial: &mut Trial, Probed { asked, late }: Probed) {
    if trial.outcome == Outcome::Fail {
        trial.outcome = Outcome::Void;
        trial.void = Some(format!(
            "the AuthDNS was slow: {late} of {asked} questions to it had no answer after a quarter of the timeout"
        ));
    }
}

/// A failure while others used the processors is not the server's: it is void. A pass is a pass all the more. Of a
/// server whose process is unknown the own work would look like that of others, so then only the hypervisor's counts.
pub fn excuse(trial: &mut Trial, server_is_known: bool) {
    let Some(seen) = &trial.observation else { return };
    let foreign_pct = seen.foreign_cpu_pct.filter(|_| server_is_known).unwrap_or(0.0);
    let steal_pct = seen.steal_pct.unwrap_or(0.0);
    if foreign_pct < FOREIGN_PCT && steal_pct < STEAL_PCT {
        return;
    }
    let what = format!(
        "other programs used {foreign_pct:.0} % of a processor and the hypervisor took {steal_pct:.0} %"
    );
    match (&mut trial.void, trial.outcome) {
        (Some(void), _) => void.push_str(&format!(" ({what})")),
        (None, Outcome::Fail) => {
            trial.outcome = Outcome::Void;
            trial.void = Some(format!("the machine was not the server's alone: {what}"));
        }
        (None, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::record::Observation;

    fn excused(outcome: Outcome, foreign_pct: f64, server_is_known: bool) -> Trial {
        let seen = Observation { foreign_cpu_pct: Some(foreign_pct), ..Observation::default() };
        let mut trial = Trial { outcome, observation: Some(seen), ..Trial::default() };
        excuse(&mut trial, server_is_known);
        trial
    }

    #[test]
    fn failures_under_foreign_load_are_void_and_passes_stand() {
        let failed = excused(Outcome::Fail, 60.0, true);
        assert!(failed.outcome == Outcome::Void && failed.void.unwrap().contains("60 % of a processor"));
        assert_eq!(excused(Outcome::Fail, 5.0, true).outcome, Outcome::Fail);
        assert_eq!(excused(Outcome::Pass, 60.0, true).outcome, Outcome::Pass);
        assert_eq!(
            excused(Outcome::Fail, 60.0, false).outcome,
            Outcome::Fail,
            "it may be the server's own work"
        );
    }
}
