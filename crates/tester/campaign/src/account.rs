//! What the counters of the machine and of the AuthDNS say of a trial: the evidence for its verdict.

use record::Observation;

use super::auth_probe::Probed;
use super::target::Auth;
use authdns::Counters;
use lab::observe::{Observation as Seen, Observer, Snapshot};

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
        let traffic = self.auth.zip(earlier.auth).map(|(now, then)| Traffic {
            queries: now.queries() - then.queries(),
            answers: now.answers() - then.answers(),
            drops: now.udp_socket_drops - then.udp_socket_drops,
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

/// What the machine, the server and the AuthDNS did while `sent` queries, of which `answers` had an answer
/// that counts, went to `server_port` in `duration_s`.
pub fn observation(
    (seen, auth, probed): (&Seen, Option<Traffic>, Option<&Probed>),
    (sent, answers): (u64, u64),
    duration_s: f64,
    server_port: u16,
) -> Observation {
    let mut observation = seen.to_record((sent, answers), server_port);
    if let Some(auth) = auth {
        // Our own questions are not the server's.
        let own = probed.map_or(0, Probed::answered);
        let (queries, answers) = (auth.queries.saturating_sub(own), auth.answers.saturating_sub(own));
        observation.auth_queries = Some(queries);
        observation.auth_answers = Some(answers);
        observation.auth_socket_drops = Some(auth.drops);
        observation.auth_queries_per_query = (sent > 0).then(|| queries as f64 / sent as f64);
    }
    observation.auth_probes = probed.map(|probed| probed.asked);
    observation.auth_probes_late = probed.map(|probed| probed.late.len() as u64);
    // The server works while queries come; the time in which the Measurer only listens would water its load
    // down. A thread that worked on after the last query had all of a processor before, and no more.
    let full = observation.dut_hottest_thread_pct.map_or(f64::MAX, |pct| 100.0 / pct);
    let scale = (observation.elapsed_s / duration_s.max(f64::MIN_POSITIVE)).min(full);
    observation.dut_cpu_pct = observation.dut_cpu_pct.map(|pct| pct * scale);
    observation.dut_hottest_thread_pct = observation.dut_hottest_thread_pct.map(|pct| pct * scale);
    observation
}
