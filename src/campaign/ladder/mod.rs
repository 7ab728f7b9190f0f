//! The ladder of presentation 004: what limits this environment, found with a reflector before a server is blamed.
//!
//! Its story: BIND answered 24,600 q/s with one thread and 29,582 with four, which looked like BIND's limit; but a reflector answered
//! 25,148 and 29,718. It was the environment; mended, the same reflector reached 561,695.

mod judge;
mod reflector;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use engine::pacer::Model;
use engine::record::Trial;
use net::link::{addresses, device_to};
use serde::{Deserialize, Serialize};

use super::progress::{Doing, Progress};
use super::reach::{Unreached, reach};
use super::site::Site;
use super::tester::{MeasureError, Target, Tester};
use crate::lab::environment::{Finding, NetworkDevice};
use crate::lab::network::Role;
use crate::lab::observe::{ProcessCounters, receive_buffer_octets};
pub use judge::judge;
use reflector::Reflector;

/// Queries outstanding in a closed loop: enough to keep any number of workers busy.
const OUTSTANDING: u32 = 256;
/// Queries of a burst (one of those of RFC 2544 section 21).
const BURST: u32 = 256;
/// Bursts come at this share of the rate that the reflector has shown.
const BURST_SHARE: f64 = 0.2;
/// Bursts come at least so fast, in q/s.
const BURST_QPS_MIN: f64 = 2_000.0;
/// Source ports that are tried where the Tester has one alone.
const MORE_PORTS: usize = 16;

/// One measurement on the way up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// What it is called.
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
pub struct OnTheWay {
    /// Whose it is: `Tester` or `server`.
    pub whose: String,
    /// The threads that it feeds.
    pub threads: usize,
    /// It.
    pub device: NetworkDevice,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Climb {
    /// Processors of the server; none where it is somebody else's.
    pub server_cpus: Vec<usize>,
    /// The measurements, in their order.
    pub rungs: Vec<Rung>,
    /// The devices that queries pass.
    pub devices: Vec<OnTheWay>,
    /// The smallest receive buffer of who is asked, in octets as the kernel counts them; absent where it is not known.
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
    pub climb: Option<Climb>,
}

impl Record {
    /// Joins what is known of the machine with what was measured.
    pub fn new(mut findings: Vec<Finding>, climb: Option<Climb>) -> Self {
        findings.extend(climb.iter().flat_map(judge));
        Self { findings, summary: climb.as_ref().map(Climb::summary), climb }
    }
}

impl Climb {
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

/// Who is asked.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Where.
    pub server: SocketAddr,
    /// Its process, if it is on this machine.
    pub pid: Option<u32>,
}

/// A ladder to climb.
pub struct Ladder<'a> {
    /// Where the reflector is started.
    pub site: &'a Site,
    /// Who asks.
    pub tester: &'a mut Tester,
    /// What is asked; any response to it must be right.
    pub target: &'a Target,
    /// How long each measurement lasts.
    pub duration: Duration,
    /// Shows what is done.
    pub progress: &'a Progress,
}

/// Why the ladder ended early.
#[derive(Debug)]
pub enum LadderError {
    /// The user ended it.
    Interrupted,
    /// Nobody answers, or nothing could be started: why.
    Unfit(String),
    /// A trial could not be run.
    Measure(MeasureError),
}

impl Ladder<'_> {
    /// Asks a reflector of ours, with one worker and more.
    ///
    /// # Errors
    /// [`LadderError`].
    pub fn climb(mut self, cpus: &[usize]) -> Result<Climb, LadderError> {
        let mut climb = Climb { server_cpus: cpus.to_vec(), ..Climb::default() };
        let workers = worker_counts(cpus.len());
        for (index, &count) in workers.iter().enumerate() {
            let unfit = |error: io::Error| LadderError::Unfit(error.to_string());
            let reflector = Reflector::start(self.site, count, cpus).map_err(unfit)?;
            let subject = Subject { server: reflector.address, pid: Some(reflector.pid()) };
            let name = crate::report::number::plural(count, "worker", "workers");
            let own_ports = self.tester.source_ports;
            climb.rungs.push(self.rung(name, subject, (own_ports, Some(count)), None)?);
            if index + 1 == workers.len() {
                self.rest(subject, Some(count), &mut climb)?;
            }
        }
        Ok(climb)
    }

    /// Asks a reflector or server that runs already.
    ///
    /// # Errors
    /// [`LadderError`].
    pub fn climb_at(mut self, subject: Subject) -> Result<Climb, LadderError> {
        let mut climb = Climb::default();
        let own_ports = self.tester.source_ports;
        climb.rungs.push(self.rung("as it is".into(), subject, (own_ports, None), None)?);
        let seen = climb.rungs[0].trial.observation.as_ref();
        let workers = seen.and_then(|seen| seen.dut_sockets).map(|sockets| sockets as usize);
        climb.rungs[0].workers = workers;
        self.rest(subject, workers, &mut climb)?;
        Ok(climb)
    }

    /// The same with other ports, then bursts, then the devices.
    fn rest(
        &mut self,
        subject: Subject,
        workers: Option<usize>,
        climb: &mut Climb,
    ) -> Result<(), LadderError> {
        let own_ports = self.tester.source_ports;
        let threads = self.tester.cpus.len().max(1);
        let other_ports = if own_ports > threads { threads } else { MORE_PORTS * threads };
        let name = crate::report::number::plural(other_ports, "port", "ports");
        climb.rungs.push(self.rung(name, subject, (other_ports, workers), None)?);
        let fastest = climb.rungs.iter().map(|rung| rung.rate_qps).fold(0.0, f64::max);
        let rate_qps = (fastest * BURST_SHARE).max(BURST_QPS_MIN) as u64;
        let name = format!("bursts of {BURST}");
        climb.rungs.push(self.rung(name, subject, (own_ports, workers), Some(rate_qps))?);
        climb.devices = self.devices(subject, workers.unwrap_or(1));
        let at_server = |pid| {
            net::netns::within_process(pid, || receive_buffer_octets(subject.server.port())).ok().flatten()
        };
        climb.server_buffer_octets = subject.pid.and_then(at_server);
        Ok(())
    }

    /// One measurement: a closed loop, or bursts at a mean rate.
    fn rung(
        &mut self,
        name: String,
        subject: Subject,
        (ports, workers): (usize, Option<usize>),
        burst_qps: Option<u64>,
    ) -> Result<Rung, LadderError> {
        let load = match burst_qps {
            Some(_) => Model::Burst { queries: BURST },
            None => Model::Window { queries: OUTSTANDING },
        };
        let target = Target { server: subject.server, pid: subject.pid, load, ..self.target.clone() };
        reach(&target, self.tester)?;
        let duration_ns = self.duration.as_nanos() as u64;
        let doing = Doing {
            phase: format!("ladder: {name}"),
            rate_qps: burst_qps.unwrap_or(0),
            length: self.duration + Duration::from_nanos(target.listen_ns),
            ..Doing::default()
        };
        let reading = || subject.pid.and_then(ProcessCounters::of);
        let own_ports = std::mem::replace(&mut self.tester.source_ports, ports);
        let before = reading();
        let tried = self
            .progress
            .during(&doing, || self.tester.trial(&target, None, burst_qps.unwrap_or(1), duration_ns));
        self.tester.source_ports = own_ports;
        let used = reading().zip(before).map(|(now, before)| now.since(&before));
        if self.tester.stopped() {
            return Err(LadderError::Interrupted);
        }
        let trial = tried.map_err(LadderError::Measure)?.trial;
        let answered = trial.answered.max(1) as f64;
        Ok(Rung {
            name,
            workers,
            ports,
            bursts: burst_qps.is_some(),
            rate_qps: trial.valid as f64 / trial.duration_s.max(f64::MIN_POSITIVE),
            own_us_per_query: used.map(|used| used.user_ns as f64 / 1e3 / answered),
            trial,
        })
    }

    /// The Tester's device towards the server, and the server's with its address.
    fn devices(&self, subject: Subject, workers: usize) -> Vec<OnTheWay> {
        let near = net::netns::inside(self.tester.namespace.as_deref(), || {
            NetworkDevice::named(&device_to(subject.server).ok()?.name)
        });
        let far = || {
            let assigned = addresses().ok()?.into_iter().find(|at| at.address == subject.server.ip())?;
            NetworkDevice::named(&assigned.device)
        };
        let far = match (self.site.namespace(Role::Dut), subject.pid) {
            (_, Some(pid)) => net::netns::within_process(pid, far),
            (Some(namespace), None) => net::netns::within(&namespace, far),
            (None, None) => Ok(None),
        };
        let ends = [("Tester", self.tester.cpus.len(), near), ("server", workers, far)];
        let there = ends.into_iter().filter_map(|(whose, threads, device)| {
            let device = device.ok().flatten().filter(|device| device.name != "lo")?;
            Some(OnTheWay { whose: whose.to_owned(), threads, device })
        });
        there.collect()
    }
}

impl From<Unreached> for LadderError {
    fn from(why: Unreached) -> Self {
        match why {
            Unreached::Interrupted => Self::Interrupted,
            Unreached::Tester(why) | Unreached::Server(why) => Self::Unfit(why),
        }
    }
}

/// One worker, then twice as many each time, up to one for each processor, but at least two: how clients are spread shows from two on.
fn worker_counts(cpus: usize) -> Vec<usize> {
    let most = cpus.max(2);
    let mut counts: Vec<usize> =
        std::iter::successors(Some(1), |count| Some(count * 2)).take_while(|&count| count < most).collect();
    counts.push(most);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_double_up_to_the_processors() {
        assert_eq!(worker_counts(1), [1, 2]);
        assert_eq!(worker_counts(6), [1, 2, 4, 6]);
        assert_eq!(worker_counts(8), [1, 2, 4, 8]);
    }
}
