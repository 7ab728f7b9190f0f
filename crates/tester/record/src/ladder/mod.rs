//! The schema of `ladder.json`: the results of the measurements with a reflector.

mod judge;

use serde::{Deserialize, Serialize};

use crate::Trial;
use crate::machine::NetworkDevice;
use crate::preflight::Finding;
pub use judge::judge;

/// Queries of a burst (one of those of RFC 2544 section 21).
pub const BURST: u32 = 256;

/// One measurement on the way up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// The name of the measurement, for example `reflector`.
    pub name: String,
    /// Workers of who is asked, where they are known.
    pub workers: Option<usize>,
    /// Source ports of the Tester.
    pub ports: usize,
    /// Whether queries come in bursts.
    pub bursts: bool,
    /// Answers per second.
    pub rate_qps: f64,
    /// What the server took for itself for each query, outside the kernel, in us.
    pub own_us_per_query: Option<f64>,
    /// All that was counted.
    pub trial: Trial,
}

/// A device on the way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathDevice {
    /// Whose it is: `Tester` or `server`.
    pub whose: String,
    /// The threads that it feeds.
    pub threads: usize,
    /// Name, driver and queues of the device.
    pub device: NetworkDevice,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LadderRun {
    /// Processors of the server; none where it is somebody else's.
    pub server_cpus: Vec<usize>,
    /// The measurements, in their order.
    pub rungs: Vec<Rung>,
    /// The devices that queries pass.
    pub devices: Vec<PathDevice>,
    /// The smallest receive buffer of who is asked, in octets as the kernel counts them; absent where it is
    /// not known.
    #[serde(default)]
    pub server_buffer_octets: Option<u64>,
}

/// A ladder in short, for tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Answers per second with one worker, or as it is where somebody else runs it.
    pub one_worker_qps: f64,
    /// With all workers and the Tester as it was told to be.
    pub all_workers_qps: f64,
    /// The highest of all.
    pub highest_qps: f64,
    /// Queries of the bursts that got an answer, in percent.
    pub bursts_answered_pct: f64,
}

/// `ladder.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// What was found of the machine, and by the measurements.
    pub findings: Vec<Finding>,
    /// The measurements in short; absent without a ladder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// The measurements.
    #[serde(flatten)]
    pub climb: Option<LadderRun>,
}

impl Record {
    /// Joins what is known of the machine with what was measured.
    pub fn new(mut findings: Vec<Finding>, climb: Option<LadderRun>) -> Self {
        findings.extend(climb.iter().flat_map(judge));
        Self { findings, summary: climb.as_ref().map(LadderRun::summary), climb }
    }
}

impl LadderRun {
    fn summary(&self) -> Summary {
        let rate = |rung: Option<&Rung>| rung.map_or(0.0, |rung| rung.rate_qps);
        let bursts = self.rungs.iter().find(|rung| rung.bursts).map(|rung| &rung.trial);
        Summary {
            one_worker_qps: rate(self.rungs.first()),
            all_workers_qps: rate(self.as_told()),
            highest_qps: rate(self.fastest()),
            bursts_answered_pct: bursts
                .map_or(0.0, |trial| trial.answered as f64 * 100.0 / trial.sent.max(1) as f64),
        }
    }
}
