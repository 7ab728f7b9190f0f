//! Queries by connections: the Measurer beside the tools that ask so.

use serde::{Deserialize, Serialize};

use super::{DNSPERF, KNOT, NSD, Replayed, UNBOUND, replay};
use crate::document::wrapped;
use crate::goals::{Goal, Reached};
use crate::origin::versions;
use crate::sample::table;
use crate::{Origin, Program, Sample};

/// The Measurer in these tables.
pub const SEXTANT: &str = "sextant";
/// kxdpgun over QUIC, with full handshakes, in these tables.
pub const KXDPGUN: &str = "kxdpgun -U0";

/// What was measured of connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Streams {
    /// When, of what, and where: the other figures of the document may be of another day.
    pub origin: Origin,
    /// The tools and the servers; none in records of older programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Program>,
    /// So often everything was measured.
    pub rounds: usize,
    /// Connections that stay.
    pub standing: Vec<Asked>,
    /// A connection for each query.
    pub handshakes: Vec<Asked>,
    /// How evenly queries leave, by transport.
    pub evenness: Vec<Evenness>,
    /// Many connections at a time, with TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Captures that are replayed over UDP, by rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replays: Vec<Replayed>,
}

/// A tool that asks a server by a transport.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// `tcp`, `dot`, `doh`, `doq` or `doh3`.
    pub transport: String,
    /// The server.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// Answers per second.
    pub answered_qps: Sample,
    /// Busy time of the Tester's processor for each answer, in µs, with what the kernel does there.
    pub busy_us: Sample,
}

/// How evenly the Measurer sends at 50,000 q/s.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evenness {
    /// `udp`, or a transport by 1,000 connections.
    pub transport: String,
    /// Windows of 10 ms that are more than 5 % off, in percent.
    pub off_10_ms_pct: Sample,
    /// The 99th percentile of how late queries left, in µs.
    pub late_p99_us: Sample,
}

/// The memory that connections take in the Measurer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// How many connections stood at a time.
    pub connections: u64,
    /// The processes that had them, an equal share each.
    #[serde(default = "one")]
    pub processes: u64,
    /// The most memory of the processes, added up, in octets.
    pub octets: Sample,
    /// The most memory of a process with 16 connections.
    pub octets_of_few: Sample,
}

/// The processes in records of older programs.
fn one() -> u64 {
    1
}

/// What 100,000 connections may take, in octets.
const GOAL_OCTETS: f64 = 2.0 * (1u64 << 30) as f64;
/// The number of connections of that goal.
const GOAL_CONNECTIONS: u64 = 100_000;

impl Memory {
    /// Octets of a connection.
    fn each(&self) -> f64 {
        let without = self.octets_of_few.median() * self.processes as f64;
        (self.octets.median() - without) / self.connections.max(1) as f64
    }

    fn table(&self) -> String {
        let row = vec![
            self.connections.to_string(),
            self.processes.to_string(),
            mebibytes(&self.octets),
            mebibytes(&self.octets_of_few),
            format!("{:.1}", self.each() / 1024.0),
        ];
        let head = [
            "DoT connections at a time",
            "processes",
            "memory of all, MiB",
            "of one with 16 connections, MiB",
            "KiB for each connection",
        ];
        table(&head, &[row])
    }
}

/// The answers of the Measurer for each second of a busy processor, as a multiple of those of the tool of a
/// row: at the same server, over the same transport.
fn against(rows: &[Asked], other: &Asked) -> Option<f64> {
    let is_ours = |row: &&Asked| {
        (&*row.tool, &row.transport, &row.server) == (SEXTANT, &other.transport, &other.server)
    };
    other.busy_us.times(&rows.iter().find(is_ours)?.busy_us)
}

impl Streams {
    pub(super) fn section(&self) -> String {
        let mut out = String::from("\n## Connections\n\n");
        out += &wrapped(&format!(
            "{}{}. Rounds: {}. A closed loop: 100 queries are outstanding on 16 connections, or 16 where each has a connection of \
             its own. The quotients compare the answers for each second in which the Tester's processor was busy.{}",
            self.origin.in_words(),
            self.versions(),
            self.rounds,
            self.origin.note()
        ));
        for (title, rows) in
            [("Connections that stay", &self.standing), ("A connection for each query", &self.handshakes)]
        {
            if !rows.is_empty() {
                out += &format!("\n### {title}\n\n{}", asked(rows));
            }
        }
        if !self.evenness.is_empty() {
            out += &format!("\n### Evenness at 50,000 q/s\n\n{}", self.evenness_table());
        }
        if let Some(memory) = &self.memory {
            out += &format!("\n### Memory of the Measurer\n\n{}", memory.table());
        }
        if !self.replays.is_empty() {
            out +=
                &format!("\n### Replay of a capture over UDP, from disk\n\n{}", replay::rows(&self.replays));
        }
        out
    }

    fn versions(&self) -> String {
        if self.programs.is_empty() { String::new() } else { format!("; {}", versions(&self.programs)) }
    }

    fn evenness_table(&self) -> String {
        let row = |row: &Evenness| {
            vec![row.transport.clone(), row.off_10_ms_pct.decimals(2), row.late_p99_us.decimals(1)]
        };
        let head = ["transport", "10 ms windows more than 5 % off, %", "queries late, p99, µs"];
        table(&head, &self.evenness.iter().map(row).collect::<Vec<_>>())
    }
}

fn mebibytes(octets: &Sample) -> String {
    format!("{:.0}", octets.median() / f64::from(1 << 20))
}

fn asked(rows: &[Asked]) -> String {
    let head =
        ["transport", "server", "tool", "answered, 1000 q/s", "processor, µs per answer", "x by processor"];
    let row = |row: &Asked| {
        let times = against(rows, row);
        vec![
            row.transport.clone(),
            row.server.clone(),
            row.tool.clone(),
            row.answered_qps.thousands(),
            row.busy_us.decimals(2),
            times.filter(|_| row.tool != SEXTANT).map_or("-".into(), |times| format!("sextant: {times:.2}")),
        ]
    };
    table(&head, &rows.iter().map(row).collect::<Vec<_>>())
}

/// The goals of connections.
pub(super) fn goals(streams: Option<&Streams>) -> Vec<Goal> {
    let none = Streams::default();
    let streams = streams.unwrap_or(&none);
    let Streams { standing, handshakes, .. } = streams;
    let quotients: [(&str, &[Asked], [&str; 3], f64); 6] = [
        ("TCP: at least 1.5 x dnsperf's answers for a processor", standing, ["tcp", NSD, DNSPERF], 1.5),
        ("DoT: at least 1.5 x dnsperf's answers for a processor", standing, ["dot", NSD, DNSPERF], 1.5),
        ("DoH: at least 1.5 x dnsperf's answers for a processor", standing, ["doh", UNBOUND, DNSPERF], 1.5),
        (
            "DoQ, a connection for each query: at least kxdpgun's answers for a processor",
            handshakes,
            ["doq", KNOT, KXDPGUN],
            1.0,
        ),
        (
            "new TCP connections: at least 1.5 x dnsperf's for a processor",
            handshakes,
            ["tcp", NSD, DNSPERF],
            1.5,
        ),
        (
            "new TLS connections: at least 1.5 x dnsperf's for a processor",
            handshakes,
            ["dot", NSD, DNSPERF],
            1.5,
        ),
    ];
    let mut goals: Vec<Goal> =
        quotients.into_iter().map(|(goal, rows, of, least)| quotient(goal, rows, of, least)).collect();
    goals.push(standing_connections(streams.memory.as_ref()));
    goals.push(as_even_as_udp(streams));
    goals.push(replay::goal(&streams.replays));
    goals
}

fn quotient(goal: &str, rows: &[Asked], [transport, server, tool]: [&str; 3], least: f64) -> Goal {
    let is_theirs = |row: &&Asked| [&*row.transport, &*row.server, &*row.tool] == [transport, server, tool];
    rows.iter().find(is_theirs).and_then(|row| against(rows, row)).map_or_else(
        || Goal::not_measured(goal),
        |times| Goal::new(goal, format!("{times:.2}"), Reached::if_true(times >= least)),
    )
}

fn standing_connections(memory: Option<&Memory>) -> Goal {
    const GOAL: &str =
        "100,000 standing DoT connections in 2 GiB, in as many processes as the limit of open files asks for";
    let Some(memory) = memory.filter(|memory| !memory.octets.is_empty()) else {
        return Goal::not_measured(GOAL);
    };
    let (connections, processes) = (memory.connections, memory.processes);
    let (_, most) = memory.octets.range();
    let here = format!(
        "{connections} connections, processes: {processes}, together {:.2} GiB",
        most / f64::from(1 << 30)
    );
    // Fewer connections can show that the goal is missed, and not that it is reached.
    let reached = match most <= GOAL_OCTETS {
        true if connections < GOAL_CONNECTIONS => Reached::Open,
        fits => Reached::if_true(fits),
    };
    Goal::new(GOAL, here, reached)
}

fn as_even_as_udp(streams: &Streams) -> Goal {
    const GOAL: &str =
        "50,000 q/s over 1,000 TCP connections: as even as over UDP, give or take 0.1 % of the windows";
    let of = |transport: &str| {
        let row = streams.evenness.iter().find(|row| row.transport == transport)?;
        Some((row.off_10_ms_pct.median(), row.late_p99_us.median()))
    };
    let (Some((tcp, tcp_us)), Some((udp, udp_us))) = (of("tcp"), of("udp")) else {
        return Goal::not_measured(GOAL);
    };
    let here =
        format!("{tcp:.2} % against {udp:.2} %; queries late, p99: {tcp_us:.0} against {udp_us:.0} µs");
    Goal::new(GOAL, here, Reached::if_true(tcp <= udp + 0.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tester::AUTH;

    fn row([transport, server, tool]: [&str; 3], busy_us: f64) -> Asked {
        Asked {
            transport: transport.into(),
            server: server.into(),
            tool: tool.into(),
            busy_us: vec![busy_us].into(),
            ..Asked::default()
        }
    }

    #[test]
    fn goals_compare_the_tools_of_one_transport_at_one_server() {
        let standing = vec![
            row(["tcp", AUTH, SEXTANT], 1.0),
            row(["tcp", NSD, SEXTANT], 5.0),
            row(["tcp", NSD, DNSPERF], 10.0),
            row(["dot", NSD, DNSPERF], 1.0),
            row(["doh", AUTH, SEXTANT], 1.0),
            row(["doh", UNBOUND, DNSPERF], 9.0),
        ];
        let found = goals(Some(&Streams { standing, ..Streams::default() }));
        assert_eq!((found[0].here.as_str(), found[0].reached), ("2.00", Reached::Yes));
        assert_eq!([found[1].reached, found[2].reached], [Reached::Open; 2]);
        assert!(goals(None).iter().all(|goal| goal.reached == Reached::Open));
    }

    #[test]
    fn fewer_connections_do_not_reach_the_goal() {
        let memory = |connections, octets: f64| Memory {
            connections,
            processes: 6,
            octets: vec![1e6, octets].into(),
            octets_of_few: vec![0.0].into(),
        };
        assert_eq!(standing_connections(Some(&memory(10_000, 1e8))).reached, Reached::Open);
        assert_eq!(standing_connections(Some(&memory(10_000, 3e9))).reached, Reached::No);
        assert_eq!(standing_connections(Some(&memory(100_000, 1e9))).reached, Reached::Yes);
        assert_eq!(standing_connections(Some(&memory(100_000, 3e9))).reached, Reached::No);
    }

    #[test]
    fn a_connection_is_what_a_process_has_beyond_itself() {
        let memory = Memory {
            connections: 100,
            processes: 2,
            octets: vec![1000.0].into(),
            octets_of_few: vec![50.0].into(),
        };
        assert_eq!(memory.each(), 9.0);
        let older = r#"{"connections": 5, "octets": [1.0], "octets_of_few": [1.0]}"#;
        assert_eq!(serde_json::from_str::<Memory>(older).unwrap().processes, 1);
    }
}
