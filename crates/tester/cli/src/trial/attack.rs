//! Queries for random names during a trial, as an attacker sends them.

use std::thread;
use std::time::Duration;

use engine::pacer::Model;
use engine::trial::Validity;
use engine::workload::{Choice, Variation};
use record::BackgroundQueries;

use super::super::EXIT_USAGE;
use crate::failure::Failure;
use campaign::{MeasureError, Target, Tester, TrialRun, Watch};

/// How much longer it lasts than the trial, at each end.
const MARGIN: Duration = Duration::from_millis(100);
/// Makes its names others than the trial's.
const SEED: u64 = 0x6174_7461_636b;

/// A random-subdomain attack: names that nobody has, each once, so that no cache helps. Only how many of them
/// were answered is told.
pub(crate) struct Attack {
    tester: Tester,
    target: Target,
    rate_qps: u64,
}

impl Attack {
    /// Prepares one on the server of a trial, from the same namespace and processors.
    ///
    /// # Errors
    /// The trial's back-end shares its device with nobody.
    pub fn new(rate_qps: u64, tester: &Tester, target: &Target) -> Result<Self, Failure> {
        if !tester.backend.has_sockets() {
            let message =
                format!("--attack: --io {} has its device for itself; use --io udp", tester.backend.name());
            return Err(Failure::new(EXIT_USAGE, message));
        }
        let variation = Variation {
            choice: Choice::RandomLabels,
            any_response: true,
            seed: SEED,
            ..target.workload.variation.clone()
        };
        let mut target =
            Target { validity: Validity::Response, load: Model::Constant, log: false, ..target.clone() };
        target.workload.variation = variation;
        let tester = Tester {
            cpus: tester.cpus.clone(),
            backend: tester.backend,
            source_ports: tester.source_ports,
            sources: tester.sources,
            receive_buffer_octets: tester.receive_buffer_octets,
            next_name: tester.next_name,
            alone: false,
            stop: tester.stop.clone(),
            watch: Watch::default().into(),
            namespace: tester.namespace.clone(),
        };
        Ok(Self { tester, target, rate_qps })
    }

    /// Attacks while `trial` measures for so long, and notes it in its record.
    ///
    /// # Errors
    /// Either could not be run.
    pub fn beside(
        mut self,
        length: Duration,
        trial: impl FnOnce() -> Result<TrialRun, MeasureError>,
    ) -> Result<TrialRun, MeasureError> {
        let length_ns = u64::try_from((length + 2 * MARGIN).as_nanos()).unwrap_or(u64::MAX);
        let (attacked, tried) = thread::scope(|scope| {
            let attack = scope.spawn(|| self.tester.trial(&self.target, None, self.rate_qps, length_ns));
            thread::sleep(MARGIN);
            let tried = trial();
            (attack.join(), tried)
        });
        let mut tried = tried?;
        let attacked = attacked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?.trial;
        tried.trial.beside = Some(BackgroundQueries {
            rate_qps: self.rate_qps,
            duration_s: attacked.duration_s,
            sent: attacked.sent,
            answered: attacked.answered,
        });
        if let Some(seen) = &mut tried.trial.observation {
            // Nobody knows which share of them was for whom.
            seen.dut_cpu_us_per_query = None;
            seen.dut_cpu_us_per_answer = None;
            seen.tester_cpu_us_per_query = None;
            seen.auth_queries_per_query = None;
        }
        Ok(tried)
    }
}
