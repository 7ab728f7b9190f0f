//! `sextant preflight --ladder`: the environment under load, with a reflector in the place of a server.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, Parser};
use engine::workload::Variation;

use super::super::{EXIT_UNFIT, EXIT_USAGE};
use crate::failure::Failure;
use crate::options::{QueryArgs, TesterArgs, process, seconds};
use campaign::ladder::{Ladder, LadderError, Subject};
use campaign::{Progress, Site, Target, Tester};
use lab::network::{Lab, LabSpec, QUEUES_MAX};
use record::ladder::{LadderRun, Rung};
use record::number::{count, percent, real};

/// Options of the ladder.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "With --ladder")]
pub(crate) struct LadderArgs {
    /// Ask this reflector or server, which runs already [default: a reflector that is started in a lab]
    #[arg(long, value_name = "ADDR:PORT", requires = "ladder")]
    server: Option<SocketAddr>,
    /// Process ID of the server, if it runs on this machine; its processor time and sockets are then read
    #[arg(long, value_name = "PID", requires = "server", value_parser = process)]
    pid: Option<u32>,
    /// Queues of every device of the lab, in each direction [default: one for each processor, at least 2]
    #[arg(long, value_name = "N", requires = "ladder", conflicts_with = "server",
          value_parser = clap::value_parser!(u16).range(1..=i64::from(QUEUES_MAX)))]
    queues: Option<u16>,
    /// Length of each of its measurements in seconds
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    duration: Duration,
    #[command(flatten)]
    tester: TesterArgs,
}

/// A query as in every other command.
#[derive(Parser)]
struct Defaults {
    #[command(flatten)]
    query: QueryArgs,
}

impl LadderArgs {
    /// How long it takes at most, for this machine's processors.
    pub fn forecast(&self) -> Duration {
        let rungs = 4 + sys::cpu::available().len().ilog2();
        (self.duration + Duration::from_secs(2)) * rungs
    }

    /// Climbs it.
    ///
    /// # Errors
    /// Options that do not go together, nobody answers, or the user ended it.
    pub fn climb(&self, quiet: bool) -> Result<LadderRun, Failure> {
        let query = Defaults::try_parse_from(["ladder", "--validity", "response"]).map(|parsed| parsed.query);
        let query = query.map_err(|error| Failure::new(EXIT_UNFIT, error))?;
        let mut tester = self.tester.tester(query.first_name())?;
        if !tester.backend.has_sockets() {
            let name = tester.backend.name();
            return Err(Failure::new(
                EXIT_USAGE,
                format!("--ladder is climbed with sockets, not with --io {name}"),
            ));
        }
        let timeout_ns = query.timeout_ns();
        let anywhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut target = query.target(self.server.unwrap_or(anywhere), timeout_ns);
        target.workload.variation = Variation { any_response: true, ..Variation::default() };
        let progress = Progress::new(quiet, &tester.watch);
        let climb = match self.server {
            Some(server) => self.climb_at(server, &mut tester, &target, &progress),
            None => self.climb_in_lab(&mut tester, &target, &progress),
        };
        progress.clear();
        climb
    }

    fn climb_at(
        &self,
        server: SocketAddr,
        tester: &mut Tester,
        target: &Target,
        progress: &Progress,
    ) -> Result<LadderRun, Failure> {
        let site = Site::Loopback;
        let ladder = Ladder { site: &site, tester, target, duration: self.duration, progress };
        Ok(ladder.climb_at(Subject { server, pid: self.pid })?)
    }

    fn climb_in_lab(
        &self,
        tester: &mut Tester,
        target: &Target,
        progress: &Progress,
    ) -> Result<LadderRun, Failure> {
        let usable = sys::cpu::available();
        let mut cpus: Vec<usize> = usable.iter().copied().filter(|cpu| !tester.cpus.contains(cpu)).collect();
        if cpus.is_empty() {
            cpus = usable;
        }
        /// The reflector has two workers at least.
        const QUEUES_MIN: u16 = 2;
        let name = format!("sextant-{}", std::process::id());
        let usual = LabSpec::default();
        let queues = self.queues.unwrap_or(usual.queues.max(QUEUES_MIN));
        let spec = LabSpec { name, queues, ..usual };
        let site = match Lab::up(&spec) {
            Ok(lab) => Site::Lab(lab),
            Err(error) => {
                progress.say(&format!("  over loopback  no lab: {error}"));
                Site::Loopback
            }
        };
        tester.namespace = site.namespace(lab::network::Role::Tester);
        let ladder = Ladder { site: &site, tester, target, duration: self.duration, progress };
        Ok(ladder.climb(&cpus)?)
    }
}

impl From<LadderError> for Failure {
    fn from(error: LadderError) -> Self {
        match error {
            LadderError::Interrupted => Self::new(EXIT_UNFIT, "interrupted"),
            LadderError::Unfit(why) => Self::new(EXIT_UNFIT, why),
            LadderError::Measure(error) => error.into(),
        }
    }
}

/// The measurements as a table.
pub fn table(climb: &LadderRun) -> String {
    let mut text = format!(
        "{:<14} {:>6} {:>12} {:>10} {:>14} {:>10} {:>10} {:>9}\n",
        "ladder", "ports", "answers/s", "answered", "busiest worker", "us each", "its own us", "dropped"
    );
    for rung in &climb.rungs {
        let Rung { name, ports, rate_qps, own_us_per_query, trial, .. } = rung;
        let seen = trial.observation.as_ref();
        let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let answered = trial.answered as f64 * 100.0 / trial.sent.max(1) as f64;
        let _ = writeln!(
            text,
            "{name:<14} {ports:>6} {:>12} {:>10} {:>14} {:>10} {:>10} {:>9}",
            count(*rate_qps as u64),
            percent(answered),
            known(seen.and_then(|seen| seen.dut_hottest_thread_pct).map(percent)),
            known(seen.and_then(|seen| seen.dut_cpu_us_per_query).map(|us| real(us, 1))),
            known(own_us_per_query.map(|us| real(us, 1))),
            known(seen.and_then(|seen| seen.dut_socket_drops).map(count)),
        );
    }
    text + "\n"
}
