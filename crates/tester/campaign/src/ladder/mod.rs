//! The ladder of presentation 004: what limits this environment, found with a reflector before a server is
//! blamed.
//!
//! The example of the presentation: BIND answered 24,600 q/s with one thread and 29,582 with four, which
//! looked like BIND's limit; but a reflector answered 25,148 and 29,718. The environment was the limit: after
//! it was corrected, the same reflector reached 561,695.

mod reflector;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use engine::pacer::Model;
use record::ladder::{BURST, LadderRun, PathDevice, Rung};
use sys::link::{addresses, device_to};

use super::progress::{Progress, Status};
use super::reach::{Unreached, reach};
use super::site::Site;
use super::target::Target;
use super::tester::{MeasureError, Tester};
use lab::environment::device_named;
use lab::network::Role;
use lab::observe::{ProcessCounters, receive_buffer_of};
use reflector::Reflector;

/// Queries outstanding in a closed loop: enough to keep any number of workers busy.
const OUTSTANDING: u32 = 256;
/// Bursts come at this share of the rate that the reflector has shown.
const BURST_SHARE: f64 = 0.2;
/// Bursts come at least so fast, in q/s.
const BURST_QPS_MIN: f64 = 2_000.0;
/// Source ports that are tried where the Tester has one alone.
const MORE_PORTS: usize = 16;

/// Who is asked.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// The address and port asked.
    pub server: SocketAddr,
    /// Its process, if it is on this machine.
    pub pid: Option<u32>,
}

/// A ladder to climb.
pub struct Ladder<'a> {
    /// Where the reflector is started.
    pub site: &'a Site,
    /// The Measurer that asks.
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
    pub fn climb(mut self, cpus: &[usize]) -> Result<LadderRun, LadderError> {
        let mut climb = LadderRun { server_cpus: cpus.to_vec(), ..LadderRun::default() };
        let workers = worker_counts(cpus.len());
        for (index, &count) in workers.iter().enumerate() {
            let unfit = |error: io::Error| LadderError::Unfit(error.to_string());
            let reflector = Reflector::start(self.site, count, cpus).map_err(unfit)?;
            let subject = Subject { server: reflector.address, pid: Some(reflector.pid()) };
            let name = record::number::plural(count, "worker", "workers");
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
    pub fn climb_at(mut self, subject: Subject) -> Result<LadderRun, LadderError> {
        let mut climb = LadderRun::default();
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
        climb: &mut LadderRun,
    ) -> Result<(), LadderError> {
        let own_ports = self.tester.source_ports;
        let threads = self.tester.cpus.len().max(1);
        let other_ports = if own_ports > threads { threads } else { MORE_PORTS * threads };
        let name = record::number::plural(other_ports, "port", "ports");
        climb.rungs.push(self.rung(name, subject, (other_ports, workers), None)?);
        let fastest = climb.rungs.iter().map(|rung| rung.rate_qps).fold(0.0, f64::max);
        let rate_qps = (fastest * BURST_SHARE).max(BURST_QPS_MIN) as u64;
        let name = format!("bursts of {BURST}");
        climb.rungs.push(self.rung(name, subject, (own_ports, workers), Some(rate_qps))?);
        climb.devices = self.devices(subject, workers.unwrap_or(1));
        let at_server = |pid| receive_buffer_of(pid, subject.server.port());
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
        let target = Target {
            server: subject.server,
            pids: subject.pid.into_iter().collect(),
            load,
            ..self.target.clone()
        };
        reach(&target, self.tester)?;
        let duration_ns = self.duration.as_nanos() as u64;
        let doing = Status {
            phase: format!("ladder: {name}"),
            rate_qps: burst_qps.unwrap_or(0),
            length: self.duration + Duration::from_nanos(target.listen_ns),
            ..Status::default()
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
    fn devices(&self, subject: Subject, workers: usize) -> Vec<PathDevice> {
        let near = sys::netns::inside(self.tester.namespace.as_deref(), || {
            device_named(&device_to(subject.server).ok()?.name)
        });
        let far = || {
            let assigned = addresses().ok()?.into_iter().find(|at| at.address == subject.server.ip())?;
            device_named(&assigned.device)
        };
        let far = match (self.site.namespace(Role::Dut), subject.pid) {
            (_, Some(pid)) => sys::netns::within_process(pid, far),
            (Some(namespace), None) => sys::netns::within(&namespace, far),
            (None, None) => Ok(None),
        };
        let ends = [("Tester", self.tester.cpus.len(), near), ("server", workers, far)];
        let there = ends.into_iter().filter_map(|(whose, threads, device)| {
            let device = device.ok().flatten().filter(|device| device.name != "lo")?;
            Some(PathDevice { whose: whose.to_owned(), threads, device })
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

/// One worker, then twice as many each time, up to one for each processor, but at least two: how clients are
/// spread shows from two on.
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
