//! One trial of `sextant trial` against a server, and what it cost.

use std::io;
use std::process::Stdio;

use lab::network::Role;
use serde_json::Value;

use crate::place::{Content, Placement, Running, SERVER_CPU, TESTER_CPU};

/// How the queries are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generator {
    /// Sockets with UDP_SEGMENT: ordinary packets, from one processor.
    Gso,
    /// AF_XDP from so many ports in turn that no device joins what belongs together (GRO).
    ManyPorts,
    /// BPF live frames, from one processor.
    Kernel,
}

impl Generator {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gso => "gso",
            Self::Kernel => "kernel",
            Self::ManyPorts => "xdp, 512 ports",
        }
    }

    fn io(self) -> &'static str {
        match self {
            Self::Gso => "gso",
            Self::ManyPorts => "xdp",
            Self::Kernel => "kernel",
        }
    }

    /// Whether its queries can ask names again: the kernel's sink knows a query by its name.
    pub fn repeats(self) -> bool {
        !matches!(self, Self::Kernel)
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// AAAA; the answer must carry the address that the name stands for.
    Aaaa,
    /// AAAA of names of which half have none: the response must be one to the question.
    HalfNoData,
}

impl Question {
    /// The zone's share of AAAA records.
    pub fn aaaa_share(self) -> u8 {
        if self == Self::HalfNoData { 50 } else { 100 }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Aaaa => &["--prefix", "2001:2:0:aaaa::/96"],
            Self::HalfNoData => &["--validity", "response"],
        }
    }
}

/// A load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How.
    pub generator: Generator,
    /// What.
    pub question: Question,
    /// Of which zone.
    pub content: Content,
    /// Queries per second.
    pub rate_qps: f64,
    /// Seconds.
    pub duration_s: f64,
}

/// What a trial said, and what it cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    /// Queries that were to be sent.
    pub scheduled: u64,
    /// Valid answers in time.
    pub valid: u64,
    /// Valid answers for each second that sending really took.
    pub answered_qps: f64,
    /// 99 % of the queries left within this time of their instant, in seconds.
    pub late_s: f64,
    /// Processor time of the server's processes for each answer, in µs.
    pub process_us: f64,
    /// Busy time of the server's processor for each answer, in µs.
    pub core_us: f64,
    /// Busy time of both processors for each answer, in µs: Tester, server and what lies between.
    pub both_us: f64,
}

/// The Tester kept the rate if 99 % of the queries were less late than this, in seconds, whatever pauses
/// there were.
const LATE_S_MAX: f64 = 0.02;
/// The timeout of a query in seconds.
const TIMEOUT_S: u32 = 1;
/// Source ports of a trial, at least.
const PORTS_MIN: u64 = 16;
const MANY_PORTS: u64 = 512;

impl Told {
    /// Whether the rate was really offered.
    pub fn kept_rate(&self) -> bool {
        self.late_s < LATE_S_MAX
    }

    /// The share of the queries that were answered.
    pub fn answered_share(&self) -> f64 {
        self.valid as f64 / self.scheduled.max(1) as f64
    }
}

impl Load {
    /// Sends it.
    ///
    /// # Errors
    /// `sextant trial` cannot be started or says nothing that can be read.
    pub fn run(&self, place: &Placement, server: &Running<'_>) -> io::Result<Told> {
        place.goes_on()?;
        // The other generators bring an XDP program of their own.
        let needs_pass = server.subject().is_xdp() && self.generator == Generator::Gso;
        let _pass = if needs_pass { Some(place.pass()?) } else { None };
        let mut command = place.lab.command(Role::Tester, "timeout");
        command.args(["-k", "1", "60", env!("CARGO_BIN_EXE_sextant"), "trial", "--json"]);
        command.args(["--server", &place.server.to_string(), "--io", self.generator.io()]);
        command.args(["--cpus", &TESTER_CPU.to_string(), "--timeout", &TIMEOUT_S.to_string()]);
        command.args(["--rate", &(self.rate_qps as u64).to_string()]);
        command.args(["--duration", &self.duration_s.to_string(), "--names", &self.content.names()]);
        command.args(self.question.options());
        if self.generator.repeats() {
            command.args(["--repeat", "--ports", &self.ports().to_string()]);
        }
        let before = (busy_s()?, server.usage().cpu_s);
        let output = command.stdin(Stdio::null()).output()?;
        let after = (busy_s()?, server.usage().cpu_s);
        let mut told = read(&output.stdout).ok_or_else(|| {
            let text = String::from_utf8_lossy(&output.stderr);
            io::Error::other(format!("sextant trial against {}: {}", server.subject().name(), text.trim()))
        })?;
        let each_us = |seconds: f64| seconds * 1e6 / told.valid.max(1) as f64;
        told.process_us = each_us(after.1 - before.1);
        told.core_us = each_us(after.0[0] - before.0[0]);
        told.both_us = each_us(after.0[0] - before.0[0] + after.0[1] - before.0[1]);
        Ok(told)
    }

    /// As few as tell all queries in flight apart, and not too few for the servers; the back-end in the
    /// kernel has its own.
    fn ports(&self) -> u64 {
        const IDS: f64 = 65_536.0;
        if self.generator == Generator::ManyPorts {
            return MANY_PORTS;
        }
        ((self.rate_qps * f64::from(TIMEOUT_S) / IDS) as u64 + 1).max(PORTS_MIN)
    }
}

fn read(json: &[u8]) -> Option<Told> {
    let trial: Value = serde_json::from_slice(json).ok()?;
    let count = |name: &str| trial.get(name).and_then(Value::as_u64);
    let lateness_s = |name: &str| Some(trial.get("schedule_error_ns")?.get(name)?.as_u64()? as f64 / 1e9);
    let (valid, late_s) = (count("valid")?, lateness_s("p99")?);
    // What was sent late was sent for longer than planned.
    let sending_s = trial.get("duration_s")?.as_f64()? + late_s;
    let answered_qps = valid as f64 / sending_s;
    Some(Told { scheduled: count("scheduled")?, valid, answered_qps, late_s, ..Told::default() })
}

/// Seconds that the server's and the Tester's processor were not idle since the machine started, with
/// interrupts.
fn busy_s() -> io::Result<[f64; 2]> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let busy_of = |cpu: usize| {
        let line = stat.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} ")))?;
        let ticks: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal.
        let busy: f64 = [0, 1, 2, 5, 6].iter().filter_map(|&at| ticks.get(at)).sum();
        Some(busy / sys::process::ticks_per_second() as f64)
    };
    match (busy_of(SERVER_CPU), busy_of(TESTER_CPU)) {
        (Some(server), Some(tester)) => Ok([server, tester]),
        _ => Err(io::Error::other("two processors are needed: /proc/stat shows fewer")),
    }
}
