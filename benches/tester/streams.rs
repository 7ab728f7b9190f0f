//! Queries by connections, beside dnsperf and kxdpgun: `streams`.
//!
//! NSD answers over TCP and TLS, Unbound over HTTPS, Knot over QUIC, and the AuthDNS over all but TCP. The
//! tools keep as many queries outstanding on as many connections, and their processor is compared, as a
//! server may be slower than each of them. kxdpgun alone keeps a rate, and is given one that the server
//! answers.

use std::io;
use std::process::Command;

use figures::Program;
use figures::tester::{Asked, DNSPERF, Evenness, KXDPGUN, SEXTANT, Streams};
use lab::network::Role;
use serde_json::Value;

use crate::place::{Placement, Server, TESTER_CPU, Target};
use crate::tools::{Told, busy_s, labelled, sextant_told, unreadable};
use crate::{replay, standing};

/// Length of a run in seconds.
const RUN_S: &str = "4";
/// Outstanding queries, and the connections that they share.
const OUTSTANDING: &str = "100";
const CONNECTIONS: &str = "16";
/// The rate whose evenness is looked at, in q/s, and its connections.
const EVENNESS_QPS: &str = "50000";
const EVENNESS_CONNECTIONS: &str = "1000";
/// kxdpgun asks at this share of the rate that sextant got answered just before.
const KXDPGUN_SHARE: f64 = 0.9;

/// A tool that asks by connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    Sextant,
    Dnsperf,
    Kxdpgun,
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
pub fn measure(rounds: usize, programs: Vec<Program>) -> io::Result<Streams> {
    let place = Placement::new()?;
    let runs = runs();
    let mut rows: Vec<Asked> = runs.iter().map(Run::row).collect();
    let mut evenness =
        ["udp", "tcp"].map(|transport| Evenness { transport: transport.into(), ..Evenness::default() });
    let mut memory = standing::none();
    for round in 1..=rounds {
        for target in [Target::NsdTls, Target::Unbound, Target::Auth, Target::Knot] {
            let server = place.serve(target)?;
            let mut answered_qps = 0.0;
            for (run, row) in runs.iter().zip(&mut rows).filter(|(run, _)| run.target == target) {
                let told = run.measure(&place, answered_qps)?;
                answered_qps = told.answered_qps();
                if told.answered > 0 {
                    row.answered_qps.push(answered_qps);
                    row.busy_us.push(told.busy_us);
                }
                eprintln!("round {round}: {}", in_words(row));
            }
            if target == Target::NsdTls {
                evenness.iter_mut().try_for_each(|row| even(&place, row))?;
            }
            drop::<Server>(server);
        }
        standing::measure(&place, &mut memory)?;
        eprintln!("round {round}: {memory:?}");
    }
    drop(place);
    let mut measured = Streams { programs, rounds, evenness: evenness.into(), ..Streams::default() };
    for (run, row) in runs.iter().zip(rows) {
        if run.anew { measured.handshakes.push(row) } else { measured.standing.push(row) }
    }
    Ok(Streams { memory: Some(memory), replays: replay::measure(rounds)?, ..measured })
}

fn runs() -> Vec<Run> {
    use Asker::{Dnsperf, Kxdpgun, Sextant};
    let run = |target, transport, asker, anew| Run { transport, asker, target, anew };
    let (nsd, unbound, knot, auth) = (Target::NsdTls, Target::Unbound, Target::Knot, Target::Auth);
    vec![
        run(nsd, "tcp", Sextant, false),
        run(nsd, "tcp", Dnsperf, false),
        run(nsd, "dot", Sextant, false),
        run(nsd, "dot", Dnsperf, false),
        run(nsd, "tcp", Sextant, true),
        run(nsd, "tcp", Dnsperf, true),
        run(nsd, "dot", Sextant, true),
        run(nsd, "dot", Dnsperf, true),
        run(unbound, "doh", Sextant, false),
        run(unbound, "doh", Dnsperf, false),
        run(auth, "dot", Sextant, false),
        run(auth, "doh", Sextant, false),
        run(auth, "doh3", Sextant, false),
        run(auth, "doq", Sextant, false),
        run(knot, "doq", Sextant, true),
        run(knot, "doq", Kxdpgun, true),
    ]
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
            Asker::Kxdpgun => KXDPGUN,
        };
        let (transport, server) = (self.transport.to_owned(), self.target.name().to_owned());
        Asked { transport, server, tool: tool.to_owned(), ..Asked::default() }
    }

    /// `before_qps`: what was answered in the run before.
    fn measure(&self, place: &Placement, before_qps: f64) -> io::Result<Told> {
        let before_s = busy_s()?;
        let output = self.command(place, before_qps).output()?;
        let busy_s = busy_s()? - before_s;
        let told = match self.asker {
            Asker::Sextant => sextant_told(&output),
            Asker::Dnsperf => labelled(&output, ["Queries sent:", "Queries completed:", "Run time (s):"]),
            Asker::Kxdpgun => {
                place.remove_xdp(Role::Tester)?;
                labelled(&output, ["total initials:", "total replies:", "\nduration:"])
            }
        };
        let mut told = told.ok_or_else(|| unreadable(&self.row().tool, &output))?;
        told.busy_us = busy_s * 1e6 / told.answered.max(1) as f64;
        Ok(told)
    }

    /// With a connection for each query no more than there may be connections.
    fn outstanding(&self) -> &'static str {
        if self.anew { CONNECTIONS } else { OUTSTANDING }
    }

    fn command(&self, place: &Placement, before_qps: f64) -> Command {
        match self.asker {
            Asker::Sextant => {
                let mut command = trial(place, self.target, self.transport, RUN_S);
                let load = format!("closed:{}", self.outstanding());
                command.args(["--load", &load, "--connections", CONNECTIONS]);
                command.args(["--queries-per-connection", if self.anew { "1" } else { "0" }]);
                if self.transport.starts_with("doh") {
                    command.args(["--doh-method", "get"]);
                }
                command
            }
            Asker::Dnsperf => self.dnsperf(place),
            Asker::Kxdpgun => self.kxdpgun(place, before_qps * KXDPGUN_SHARE),
        }
    }

    fn dnsperf(&self, place: &Placement) -> Command {
        let server = place.server_over(self.transport);
        let (address, port) = (server.ip().to_string(), server.port().to_string());
        let mut command = place.tester_command("dnsperf");
        command.args(["-m", self.transport, "-s", &address, "-p", &port, "-l", RUN_S, "-d"]);
        command.arg(&place.query_file);
        command.args(["-T", "1", "-c", CONNECTIONS, "-q", self.outstanding(), "-t", "1"]);
        command.args(["-O", "suppress=timeout,unexpected"]);
        if self.transport == "doh" {
            command.args(["-O", &format!("doh-uri=https://{server}/dns-query"), "-O", "doh-method=GET"]);
        }
        if self.anew {
            command.args(["-O", "num-queries-per-conn=1"]);
        }
        command
    }

    /// It has a connection for each query, and nothing else, here with full handshakes.
    fn kxdpgun(&self, place: &Placement, rate_qps: f64) -> Command {
        let server = place.server_over(self.transport);
        let (address, port) = (server.ip().to_string(), server.port().to_string());
        let mut command = place.tester_command("kxdpgun");
        command.args(["-U0", "-t", RUN_S, "-Q", &(rate_qps.max(1.0) as u64).to_string(), "-p", &port]);
        command.args(["-F", &format!("{TESTER_CPU}s1"), "-i"]).arg(&place.short_query_file).arg(&address);
        command
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
