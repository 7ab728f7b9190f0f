//! Many DoT connections that stand at the same time, and the memory that they take in the Measurer.
//!
//! A process may have fewer open files than there are connections. So there are pairs of a Measurer and an
//! AuthDNS. They begin one after the other, and every connection of all pairs stands before the first ends.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use figures::tester::Memory;
use lab::observe::ProcessCounters;
use serde_json::Value;

use crate::place::{Placement, Target};
use crate::tools::unreadable;

/// The connections of the goal.
const CONNECTIONS: u64 = 100_000;
/// Fewer, to see what a process takes without them.
const FEW: u64 = 16;
/// Open files that a process has beside its connections, with those that are being closed.
const FILES_BESIDE: u64 = 2048;
/// The rate of each Measurer in q/s: an AuthDNS closes a connection without a query for 10 s.
const RATE_QPS: u64 = 2500;
/// Queries that leave together.
const BURST: u64 = 100;
/// A Measurer opens its connections in less than this time, in seconds. The first asks until the last one has
/// opened its own, and each connection had a query.
const OPENED_WITHIN_S: u64 = 8;
/// How often the memory is read.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A Measurer with its connections; dropped, it ends.
struct Measurer {
    child: Option<Child>,
    /// What it tells each second.
    seconds: PathBuf,
    asks: bool,
    peak_octets: u64,
}

/// As many connections as the goal has, and no measurement.
pub fn none() -> Memory {
    let files = sys::process::raise_file_limit().saturating_sub(FILES_BESIDE);
    let each = files.clamp(1, RATE_QPS * OPENED_WITHIN_S);
    let processes = CONNECTIONS.div_ceil(each);
    let connections = processes * CONNECTIONS.div_ceil(processes);
    Memory { connections, processes, ..Memory::default() }
}

/// Measures once.
///
/// # Errors
/// A server or a Measurer cannot be started, a connection is missing or was closed, or they did not all stand
/// at the same time.
pub fn measure(place: &Placement, memory: &mut Memory) -> io::Result<()> {
    let Memory { connections, processes, .. } = *memory;
    memory.octets.push(octets_of(place, processes, connections / processes)?);
    memory.octets_of_few.push(octets_of(place, 1, FEW)?);
    Ok(())
}

/// The most memory of so many Measurers with so many connections each, added up, in octets.
fn octets_of(place: &Placement, processes: u64, connections: u64) -> io::Result<f64> {
    let (mut servers, mut measurers) = (Vec::new(), Vec::new());
    for number in 0..processes as u16 {
        servers.push(place.serve_beside(number)?);
    }
    for (number, (_, server)) in servers.iter().enumerate() {
        let asks_s = OPENED_WITHIN_S * (processes - number as u64);
        measurers.push(Measurer::start(place, number, &server.to_string(), connections, asks_s)?);
        while look(&mut measurers)? && measurers.iter().any(|measurer| !measurer.asks) {
            thread::sleep(LOOK_EVERY);
        }
    }
    let together = measurers.iter().all(|measurer| measurer.asks) && look(&mut measurers)?;
    while measurers.iter_mut().map(Measurer::look).collect::<io::Result<Vec<_>>>()?.contains(&true) {
        thread::sleep(LOOK_EVERY);
    }
    let octets: u64 = measurers.iter().map(|measurer| measurer.peak_octets).sum();
    for measurer in measurers {
        measurer.finish(connections)?;
    }
    if !together {
        return Err(io::Error::other("the connections of all Measurers did not stand at the same time"));
    }
    Ok(octets as f64)
}

/// Reads the memory of Measurers; returns whether all of them go on.
fn look(measurers: &mut [Measurer]) -> io::Result<bool> {
    Ok(!measurers.iter_mut().map(Measurer::look).collect::<io::Result<Vec<_>>>()?.contains(&false))
}

impl Measurer {
    fn start(
        place: &Placement,
        number: usize,
        server: &str,
        connections: u64,
        asks_s: u64,
    ) -> io::Result<Self> {
        let seconds = place.scratch(&format!("seconds-{number}.jsonl"));
        // That of the round before, if there was one.
        let _ = fs::remove_file(&seconds);
        let mut command = place.tester_program(env!("CARGO_BIN_EXE_sextant"));
        command.args(["trial", "--json", "--server", server, "--transport", "dot", "--timeout", "5"]);
        command.args(["--connections", &connections.to_string(), "--rate", &RATE_QPS.to_string()]);
        // In bursts: a thread that waits for the next query of an even rate leaves no processor to others.
        command.args(["--load", &format!("burst:{BURST}"), "--duration", &asks_s.to_string()]);
        command.arg("--seconds").arg(&seconds);
        command.args(Target::Auth.sextant_options()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Self { child: Some(command.spawn()?), seconds, asks: false, peak_octets: 0 })
    }

    /// Reads its memory; returns whether it goes on.
    fn look(&mut self) -> io::Result<bool> {
        let Some(child) = self.child.as_mut() else { return Ok(false) };
        if let Some(counters) = ProcessCounters::of(child.id()) {
            self.peak_octets = self.peak_octets.max(counters.since(&counters).memory_peak_octets);
        }
        // Queries go out only when all connections stand.
        self.asks = self.asks || asked(&fs::read_to_string(&self.seconds).unwrap_or_default());
        Ok(child.try_wait()?.is_none())
    }

    /// Its end: it had every connection, and the server closed none.
    fn finish(mut self, connections: u64) -> io::Result<()> {
        let Some(child) = self.child.take() else { return Ok(()) };
        let output = child.wait_with_output()?;
        let trial: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let count = |name: &str| trial.pointer(&format!("/connections/{name}")).and_then(Value::as_u64);
        match (count("opened"), count("closed_by_server")) {
            (Some(opened), Some(0)) if opened >= connections => Ok(()),
            _ => Err(unreadable(&format!("sextant with {connections} connections"), &output)),
        }
    }
}

impl Drop for Measurer {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether the lines of `--seconds` tell of queries.
fn asked(lines: &str) -> bool {
    let sent = |line: &str| serde_json::from_str::<Value>(line).ok()?.get("sent")?.as_u64();
    lines.lines().filter_map(sent).any(|sent| sent > 0)
}
