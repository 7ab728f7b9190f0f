//! The load generators: how each is called, and what it says of a run.

use std::io;
use std::process::{Command, Output};

use figures::tester as names;
use lab::network::Role;
use serde_json::Value;

use crate::place::{Placement, TESTER_CPU};

/// A load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `sextant trial` with this back-end.
    Sextant(&'static str),
    /// DNS-OARC's dnsperf: a window of outstanding queries, under a cap where a rate is given.
    Dnsperf,
    /// DNS-OARC's resperf, at a constant rate.
    Resperf,
    /// CZ.NIC's kxdpgun over AF_XDP, with this many queries in a batch.
    Kxdpgun(u32),
}

/// What a tool said of its run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    /// Queries sent.
    pub sent: u64,
    /// Answers it counted; of ours only valid ones in time.
    pub answered: u64,
    /// How long it sent, in seconds.
    pub sending_s: f64,
    /// Every query was answered; ours also validly, in time, and sent when it was due.
    pub passed: bool,
    /// How long the Tester's processor was busy for each answer, in µs, with the packet work of both ends
    /// that falls on it.
    pub busy_us: f64,
}

impl Told {
    /// Answers for each second of sending.
    pub fn answered_qps(&self) -> f64 {
        if self.sending_s > 0.0 { self.answered as f64 / self.sending_s } else { 0.0 }
    }
}

/// What to send.
#[derive(Clone, Debug)]
pub struct Load {
    /// Queries per second; `None`: as many as the tool manages (dnsperf only).
    pub rate_qps: Option<u64>,
    /// Seconds.
    pub duration_s: u64,
    /// Timeout of `sextant trial`, in seconds.
    pub timeout_s: f64,
    /// Options for `sextant trial` that say what to ask and expect.
    pub sextant: Vec<String>,
}

impl Tool {
    /// Its name in tables.
    pub fn name(self) -> String {
        match self {
            Self::Sextant(io) => names::ours(io),
            Self::Dnsperf => names::DNSPERF.into(),
            Self::Resperf => names::RESPERF.into(),
            Self::Kxdpgun(batch) => names::kxdpgun(batch),
        }
    }

    /// Runs it on the Tester's processor against the place's server.
    ///
    /// # Errors
    /// It cannot be started, or says nothing that can be read.
    pub fn run(self, place: &Placement, load: &Load) -> io::Result<Told> {
        let _pass = if self.has_sockets() { Some(place.pass()?) } else { None };
        let before = busy_s()?;
        let output = self.command(place, load).output()?;
        let busy_s = busy_s()? - before;
        if matches!(self, Self::Kxdpgun(_)) {
            place.remove_xdp(Role::Tester)?;
        }
        let told = match self {
            Self::Sextant(_) => sextant_told(&output),
            Self::Dnsperf | Self::Resperf => {
                labelled(&output, ["Queries sent:", "Queries completed:", "Run time (s):"])
            }
            Self::Kxdpgun(_) => labelled(&output, ["total queries:", "total replies:", "\nduration:"]),
        };
        let mut told = told.ok_or_else(|| unreadable(&self.name(), &output))?;
        told.busy_us = busy_s * 1e6 / told.answered.max(1) as f64;
        Ok(told)
    }

    /// Whether its packets pass the kernel's stack.
    fn has_sockets(self) -> bool {
        !matches!(self, Self::Sextant("xdp" | "kernel") | Self::Kxdpgun(_))
    }

    fn command(self, place: &Placement, load: &Load) -> Command {
        let (address, port) = (place.server.ip().to_string(), place.server.port().to_string());
        let (file, duration) = (place.query_file.display().to_string(), load.duration_s.to_string());
        let rate = load.rate_qps.map(|rate| rate.to_string());
        let mut command = place.tester_command(self.program());
        match self {
            Self::Sextant(io) => {
                let server = place.server.to_string();
                let rate = rate.unwrap_or_default();
                command.args(["trial", "--json", "--server", &server, "--io", io, "--rate", &rate]);
                let timeout = load.timeout_s.to_string();
                command.args(["--duration", &duration, "--timeout", &timeout, "--cpus", TESTER_CPU]);
                command.args(&load.sextant);
            }
            Self::Dnsperf => {
                command.args(["-s", &address, "-p", &port, "-d", &file, "-l", &duration]);
                command.args([
                    "-T",
                    "1",
                    "-c",
                    "16",
                    "-q",
                    "400",
                    "-t",
                    "1",
                    "-O",
                    "suppress=timeout,unexpected",
                ]);
                command.args(rate.iter().flat_map(|rate| ["-Q", rate]));
            }
            Self::Resperf => {
                let rate = rate.unwrap_or_default();
                command.args([
                    "-s", &address, "-p", &port, "-d", &file, "-m", &rate, "-r", "0", "-c", &duration,
                ]);
                command.args(["-t", "1", "-C", "16", "-P", "/dev/null", "-R"]);
            }
            Self::Kxdpgun(batch) => {
                let rate = rate.unwrap_or_default();
                command.args(["-t", &duration, "-Q", &rate, "-b", &batch.to_string(), "-p", &port]);
                command.args(["-F", &format!("{TESTER_CPU}s1"), "-i", &file, &address]);
            }
        }
        command
    }

    fn program(self) -> &'static str {
        match self {
            Self::Sextant(_) => env!("CARGO_BIN_EXE_sextant"),
            Self::Dnsperf => "dnsperf",
            Self::Resperf => "resperf",
            Self::Kxdpgun(_) => "kxdpgun",
        }
    }
}

pub fn unreadable(tool: &str, output: &Output) -> io::Error {
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = text.lines().rev().take(4).collect();
    io::Error::other(format!("{tool} ended with {}: {}", output.status, last.join(" | ")))
}

/// Seconds that the Tester's processor was not idle since the machine started.
pub fn busy_s() -> io::Result<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/stat")?;
    let line = stat.lines().find_map(|line| line.strip_prefix(&format!("cpu{TESTER_CPU} ")));
    let line = line.ok_or_else(|| io::Error::other("the Tester's processor is not in /proc/stat"))?;
    let ticks: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal.
    Ok([0, 1, 2, 5, 6].iter().filter_map(|&at| ticks.get(at)).sum::<f64>() / TICKS_PER_SECOND)
}

/// A Tester that keeps its rate is less late than this for 99 % of the queries, whatever pauses the machine
/// makes.
const LATENESS_NS_MAX: u64 = 20_000_000;

pub fn sextant_told(output: &Output) -> Option<Told> {
    let trial: Value = serde_json::from_slice(&output.stdout).ok()?;
    let count = |name: &str| trial.get(name).and_then(Value::as_u64);
    let lateness_ns = trial.get("schedule_error_ns")?.get("p99")?.as_u64()?;
    Some(Told {
        sent: count("sent")?,
        answered: count("valid")?,
        sending_s: trial.get("duration_s")?.as_f64()?,
        passed: count("valid")? == count("scheduled")? && lateness_ns < LATENESS_NS_MAX,
        busy_us: 0.0,
    })
}

/// dnsperf, resperf and kxdpgun print numbers behind labels.
pub fn labelled(output: &Output, [sent, answered, time_s]: [&str; 3]) -> Option<Told> {
    let text = String::from_utf8_lossy(&output.stdout);
    let number = |label: &str| {
        let (_, rest) = text.split_once(label)?;
        rest.split_whitespace().next()?.parse::<f64>().ok()
    };
    let (sent, answered) = (number(sent)?, number(answered)?);
    Some(Told {
        sent: sent as u64,
        answered: answered as u64,
        sending_s: number(time_s)?,
        passed: sent > 0.0 && sent == answered,
        busy_us: 0.0,
    })
}
