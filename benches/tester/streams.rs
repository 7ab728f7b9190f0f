//! Queries by connections, beside dnsperf: `streams`.
//!
//! NSD answers over TCP and TLS, the AuthDNS over HTTPS and QUIC. The tools keep as many queries outstanding
//! on as many connections, and their processor is compared, as a server may be slower than each of them.

use std::io;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use figures::tester::{Asked, DNSPERF, Evenness, Memory, SEXTANT, Streams};
use lab::observe::ProcessCounters;
use serde_json::Value;

use crate::place::{Placement, Server, TESTER_CPU, Target};
use crate::tools::{Told, busy_s, labelled, sextant_told, unreadable};

/// Length of a run in seconds.
const RUN_S: &str = "4";
/// Outstanding queries, and the connections that they share.
const OUTSTANDING: &str = "100";
const CONNECTIONS: &str = "16";
/// The rate whose evenness is looked at, in q/s, and its connections.
const EVENNESS_QPS: &str = "50000";
const EVENNESS_CONNECTIONS: &str = "1000";
/// The most connections that are tried at a time: as many as the goal has.
const STANDING_MAX: u64 = 100_000;
/// Open files that a process has beside its connections, with those that are being closed.
const FILES_BESIDE: u64 = 2048;

/// How often the memory of the Measurer is read.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A tool that asks by connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    Sextant,
    Dnsperf,
}

/// What a row of the tables measures.
struct Run {
    transport: &'static str,
    asker: Asker,
    target: Target,
    /// Each query has a connection of its own.
    anew: bool,
}

/// Everything, interleaved.
///
/// # Errors
/// No privileges, a server or a tool is missing, or says nothing that can be read.
pub fn measure(rounds: usize) -> io::Result<Streams> {
    let place = Placement::new()?;
    let mut measured = Streams::default();
    let runs = runs();
    let mut rows: Vec<Asked> = runs.iter().map(Run::row).collect();
    let mut evenness =
        ["udp", "tcp"].map(|transport| Evenness { transport: transport.into(), ..Evenness::default() });
    let mut memory = Memory { connections: standing_connections(), ..Memory::default() };
    for round in 1..=rounds {
        for target in [Target::NsdTls, Target::Auth] {
            let server = place.serve(target)?;
            for (run, row) in runs.iter().zip(&mut rows).filter(|(run, _)| run.target == target) {
                let told = run.measure(&place)?;
                if told.answered > 0 {
                    row.answered_qps.push(told.answered_qps());
                    row.busy_us.push(told.busy_us);
                }
                eprintln!("round {round}: {}", in_words(row));
            }
            if target == Target::NsdTls {
                evenness.iter_mut().try_for_each(|row| even(&place, row))?;
            } else {
                memory.octets.push(octets_with(&place, memory.connections)?);
                memory.octets_of_few.push(octets_with(&place, 16)?);
                eprintln!("round {round}: {memory:?}");
            }
            drop::<Server>(server);
        }
    }
    for (run, row) in runs.iter().zip(rows) {
        if run.anew { measured.handshakes.push(row) } else { measured.standing.push(row) }
    }
    Ok(Streams { rounds, evenness: evenness.into(), memory: Some(memory), ..measured })
}

fn runs() -> Vec<Run> {
    use Asker::{Dnsperf, Sextant};
    let run = |target, transport, asker, anew| Run { transport, asker, target, anew };
    let of_tools = |target, transport, other, anew| {
        [run(target, transport, Sextant, anew), run(target, transport, other, anew)]
    };
    let (nsd, auth) = (Target::NsdTls, Target::Auth);
    [
        of_tools(nsd, "tcp", Dnsperf, false),
        of_tools(nsd, "dot", Dnsperf, false),
        of_tools(nsd, "tcp", Dnsperf, true),
        of_tools(nsd, "dot", Dnsperf, true),
    ]
    .into_iter()
    .flatten()
    // dnsperf 2.10 gets hardly an answer over HTTPS from this AuthDNS, and kxdpgun 3.2 none over QUIC.
    .chain([
        run(auth, "dot", Sextant, false),
        run(auth, "doh", Sextant, false),
        run(auth, "doq", Sextant, false),
    ])
    .collect()
}

fn in_words(row: &Asked) -> String {
    let Asked { transport, server, tool, answered_qps, busy_us } = row;
    let (qps, us) = (answered_qps.thousands(), busy_us.decimals(2));
    format!("{tool} at {server} over {transport}: {qps} thousand q/s, {us} us")
}

impl Run {
    fn row(&self) -> Asked {
        let tool = match self.asker {
            Asker::Sextant => SEXTANT,
            Asker::Dnsperf => DNSPERF,
        };
        let (transport, server) = (self.transport.to_owned(), self.target.name().to_owned());
        Asked { transport, server, tool: tool.to_owned(), ..Asked::default() }
    }

    fn measure(&self, place: &Placement) -> io::Result<Told> {
        let before = busy_s()?;
        let output = self.command(place).output()?;
        let busy_s = busy_s()? - before;
        let told = match self.asker {
            Asker::Sextant => sextant_told(&output),
            Asker::Dnsperf => labelled(&output, ["Queries sent:", "Queries completed:", "Run time (s):"]),
        };
        let mut told = told.ok_or_else(|| unreadable(&self.row().tool, &output))?;
        told.busy_us = busy_s * 1e6 / told.answered.max(1) as f64;
        Ok(told)
    }

    /// With a connection for each query no more than there may be connections.
    fn outstanding(&self) -> &'static str {
        if self.anew { CONNECTIONS } else { OUTSTANDING }
    }

    fn command(&self, place: &Placement) -> Command {
        let server = place.server_over(self.transport);
        let (address, port) = (server.ip().to_string(), server.port().to_string());
        let file = place.query_file.display().to_string();
        match self.asker {
            Asker::Sextant => {
                let mut command = trial(place, self.target, self.transport, RUN_S);
                command.args([
                    "--load",
                    &format!("closed:{}", self.outstanding()),
                    "--connections",
                    CONNECTIONS,
                ]);
                command.args(["--queries-per-connection", if self.anew { "1" } else { "0" }]);
                command
            }
            Asker::Dnsperf => {
                let mut command = place.tester_command("dnsperf");
                command.args(["-m", self.transport, "-s", &address, "-p", &port, "-d", &file, "-l", RUN_S]);
                command.args(["-T", "1", "-c", CONNECTIONS, "-q", self.outstanding(), "-t", "1"]);
                command.args(["-O", "suppress=timeout,unexpected"]);
                if self.anew {
                    command.args(["-O", "num-queries-per-conn=1"]);
                }
                command
            }
        }
    }
}

/// `sextant trial` over a transport.
fn trial(place: &Placement, target: Target, transport: &str, duration_s: &str) -> Command {
    let mut command = place.tester_command(env!("CARGO_BIN_EXE_sextant"));
    let server = place.server_over(transport).to_string();
    command.args([
        "trial",
        "--json",
        "--server",
        &server,
        "--transport",
        transport,
        "--duration",
        duration_s,
    ]);
    command.args(["--cpus", TESTER_CPU, "--timeout", "1"]).args(target.sextant_options());
    command
}

fn even(place: &Placement, row: &mut Evenness) -> io::Result<()> {
    let mut command = trial(place, Target::NsdTls, &row.transport, RUN_S);
    command.args(["--rate", EVENNESS_QPS]);
    match row.transport.as_str() {
        "udp" => command.args(["--io", "udp"]),
        _ => command.args(["--connections", EVENNESS_CONNECTIONS]),
    };
    let output = command.output()?;
    let read = |path: &str| serde_json::from_slice::<Value>(&output.stdout).ok()?.pointer(path)?.as_f64();
    let (off, late_ns) = (read("/windows/ms10/off_pct"), read("/schedule_error_ns/p99"));
    let (Some(off), Some(late_ns)) = (off, late_ns) else { return Err(unreadable("sextant", &output)) };
    row.off_10_ms_pct.push(off);
    row.late_p99_us.push(late_ns / 1e3);
    eprintln!("{row:?}");
    Ok(())
}

/// As many connections as the goal has, or as a process may have open files here.
fn standing_connections() -> u64 {
    sys::process::raise_file_limit().saturating_sub(FILES_BESIDE).min(STANDING_MAX)
}

/// The most memory that the Measurer had with so many DoT connections, in octets.
fn octets_with(place: &Placement, connections: u64) -> io::Result<f64> {
    let mut command = place.tester_program(env!("CARGO_BIN_EXE_sextant"));
    let server = place.server_over("dot").to_string();
    command.args(["trial", "--json", "--server", &server, "--transport", "dot", "--duration", "1"]);
    command.args(["--rate", "1000", "--timeout", "5", "--connections", &connections.to_string()]);
    command.args(Target::Auth.sextant_options()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let mut peak_octets = 0;
    while child.try_wait()?.is_none() {
        let counters = ProcessCounters::of(child.id());
        peak_octets = counters
            .map_or(peak_octets, |counters| counters.since(&counters).memory_peak_octets.max(peak_octets));
        thread::sleep(LOOK_EVERY);
    }
    let output = child.wait_with_output()?;
    let stood = serde_json::from_slice::<Value>(&output.stdout).ok();
    let stood = stood.and_then(|trial| trial.pointer("/connections/opened")?.as_u64());
    match stood {
        Some(stood) if stood >= connections => Ok(peak_octets as f64),
        _ => Err(unreadable(&format!("sextant with {connections} connections"), &output)),
    }
}
