//! Queries by connections: the Measurer beside the tools that ask so.

use serde::{Deserialize, Serialize};

use super::DNSPERF;
use crate::document::wrapped;
use crate::goals::{Goal, Reached};
use crate::sample::table;
use crate::{Origin, Sample};

/// The Measurer in these tables.
pub const SEXTANT: &str = "sextant";
/// kxdpgun in these tables.
pub const KXDPGUN_QUIC: &str = "kxdpgun -U";

/// What was measured of connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Streams {
    /// When, of what, and where: the other figures of the document may be of another day.
    pub origin: Origin,
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
}

/// A tool that asks a server by a transport.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// `tcp`, `dot`, `doh` or `doq`.
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
    /// The most memory of the process, in octets.
    pub octets: Sample,
    /// The same with 16 connections.
    pub octets_of_few: Sample,
}

/// What 100,000 connections may take, in octets.
const GOAL_OCTETS: f64 = 2.0 * (1u64 << 30) as f64;
/// The number of connections of that goal.
const GOAL_CONNECTIONS: f64 = 100_000.0;

impl Memory {
    /// Octets of a connection.
    fn each(&self) -> f64 {
        (self.octets.median() - self.octets_of_few.median()) / self.connections.max(1) as f64
    }
}

impl Streams {
    /// The quotient of the answers for each second of a busy processor.
    fn against(rows: &[Asked], transport: &str, tool: &str) -> Option<f64> {
        let of = |tool: &str| rows.iter().find(|row| (&*row.transport, &*row.tool) == (transport, tool));
        of(tool)?.busy_us.times(&of(SEXTANT)?.busy_us)
    }

    pub(super) fn section(&self) -> String {
        let mut out = String::from("\n## Connections\n\n");
        out += &wrapped(&format!(
            "{}. Rounds: {}. A closed loop: 100 queries are outstanding on 16 connections, or 16 where each has a connection of its \
             own. The quotients compare the answers for each second in which the Tester's processor was busy.{}",
            self.origin.in_words(),
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
            let row = vec![
                memory.connections.to_string(),
                mebibytes(&memory.octets),
                mebibytes(&memory.octets_of_few),
                format!("{:.1}", memory.each() / 1024.0),
            ];
            let head = ["DoT connections", "memory, MiB", "with 16, MiB", "KiB for each connection"];
            out += &format!("\n### Memory of the Measurer\n\n{}", table(&head, &[row]));
        }
        out
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
        let times = Streams::against(rows, &row.transport, &row.tool);
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
    vec![
        quotient("TCP: at least 1.5 x dnsperf's answers for a processor", standing, ("tcp", DNSPERF, 1.5)),
        quotient("DoT: at least 1.5 x dnsperf's answers for a processor", standing, ("dot", DNSPERF, 1.5)),
        quotient("DoH: at least 1.5 x dnsperf's answers for a processor", standing, ("doh", DNSPERF, 1.5)),
        quotient("DoQ: at least kxdpgun's answers for a processor", standing, ("doq", KXDPGUN_QUIC, 1.0)),
        quotient(
            "new TCP connections: at least 1.5 x dnsperf's for a processor",
            handshakes,
            ("tcp", DNSPERF, 1.5),
        ),
        quotient(
            "new TLS connections: at least 1.5 x dnsperf's for a processor",
            handshakes,
            ("dot", DNSPERF, 1.5),
        ),
        standing_connections(streams.memory.as_ref()),
        as_even_as_udp(streams),
    ]
}

fn quotient(goal: &str, rows: &[Asked], (transport, tool, least): (&str, &str, f64)) -> Goal {
    Streams::against(rows, transport, tool).map_or_else(
        || Goal::not_measured(goal),
        |times| Goal::new(goal, format!("{times:.2}"), Reached::if_true(times >= least)),
    )
}

fn standing_connections(memory: Option<&Memory>) -> Goal {
    const GOAL: &str = "100,000 standing DoT connections in 2 GiB";
    let Some(memory) = memory.filter(|memory| !memory.octets.is_empty()) else {
        return Goal::not_measured(GOAL);
    };
    let here = format!(
        "{} connections, {:.1} KiB each: {:.2} GiB for 100,000",
        memory.connections,
        memory.each() / 1024.0,
        memory.each() * GOAL_CONNECTIONS / f64::from(1 << 30)
    );
    // Fewer connections can show that the goal is missed, and not that it is reached.
    let reached = match memory.each() * GOAL_CONNECTIONS <= GOAL_OCTETS {
        true if (memory.connections as f64) < GOAL_CONNECTIONS => Reached::Open,
        fits => Reached::if_true(fits),
    };
    Goal::new(GOAL, here, reached)
}

fn as_even_as_udp(streams: &Streams) -> Goal {
    const GOAL: &str =
        "50,000 q/s over 1,000 TCP connections: as even as over UDP, give or take 0.1 % of the windows";
    let of = |transport: &str| {
        let row = streams.evenness.iter().find(|row| row.transport == transport)?;
        Some(row.off_10_ms_pct.median())
    };
    let (Some(tcp), Some(udp)) = (of("tcp"), of("udp")) else { return Goal::not_measured(GOAL) };
    Goal::new(GOAL, format!("{tcp:.2} % against {udp:.2} %"), Reached::if_true(tcp <= udp + 0.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(transport: &str, tool: &str, busy_us: f64) -> Asked {
        Asked {
            transport: transport.into(),
            tool: tool.into(),
            busy_us: vec![busy_us].into(),
            ..Asked::default()
        }
    }

    #[test]
    fn goals_compare_the_tools_of_one_transport() {
        let standing = vec![row("tcp", SEXTANT, 5.0), row("tcp", DNSPERF, 10.0), row("dot", DNSPERF, 1.0)];
        let found = goals(Some(&Streams { standing, ..Streams::default() }));
        assert_eq!((found[0].here.as_str(), found[0].reached), ("2.00", Reached::Yes));
        assert_eq!(found[1].reached, Reached::Open);
        assert!(goals(None).iter().all(|goal| goal.reached == Reached::Open));
    }

    #[test]
    fn fewer_connections_do_not_reach_the_goal() {
        let memory = |connections, octets: f64| Memory {
            connections,
            octets: vec![octets].into(),
            octets_of_few: vec![0.0].into(),
        };
        assert_eq!(standing_connections(Some(&memory(10_000, 1e8))).reached, Reached::Open);
        assert_eq!(standing_connections(Some(&memory(10_000, 1e9))).reached, Reached::No);
        assert_eq!(standing_connections(Some(&memory(100_000, 1e9))).reached, Reached::Yes);
    }
}
