//! `docs/performance/attacks.json`: dns64d attacked in a lab.

mod render;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Origin, Sample};

pub use render::block;

/// A query counts as answered soon if its answer comes so much later than the quiet median at most, in ms.
pub const NEAR_MS: f64 = 10.0;

/// Of the client's queries, so many must be answered soon, in percent.
pub const NEAR_PCT: f64 = 90.0;

/// Runs of `make attack-lab`. Each part is as old as its own origin says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// All attacks together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<Together>,
    /// The forger alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forger: Option<Forger>,
    /// IDs and ports beside those of Unbound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identifiers: Option<Identifiers>,
}

impl Record {
    /// Whether dns64d held out as far as a run of any length can tell: the client answered soon although all
    /// attacked as much as they should, no forged answer taken where none should be, memory within its bound,
    /// and an end in order.
    pub fn holds(&self) -> bool {
        let together = self.together.as_ref().is_none_or(|part| {
            part.attacked.near_pct >= NEAR_PCT
                && part.too_slow().next().is_none()
                && part.forged_taken == 0
                && part.attacked.false_addresses == 0
                && part.exit_code == 0
                && part.peak_mib <= part.bound_mib
        });
        let forger = self.forger.as_ref().is_none_or(|part| {
            part.hits == 0
                && part.open.is_none_or(|open| open.hits == 0)
                && part.fixed.hits > 0
                && part.betrayed > 0
                && part.betrayed_hits == part.betrayed
        });
        together && forger
    }
}

/// A client before and during all attacks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Together {
    /// When, of what, and where.
    pub origin: Origin,
    /// The length of the attacks, in seconds.
    pub duration_s: f64,
    /// The client's rate, in q/s.
    pub rate_qps: u64,
    /// Its queries for names that are cached, in percent.
    pub cached_pct: u8,
    /// The client before the attacks.
    pub quiet: Client,
    /// The client during the attacks.
    pub attacked: Client,
    /// What the attackers did.
    pub attackers: Vec<Attacker>,
    /// Forged answers that a client was given.
    pub forged_taken: u64,
    /// The memory of dns64d before the attacks, at its peak (`VmHWM`), in MiB.
    pub quiet_mib: f64,
    /// The most memory that dns64d ever had (`VmHWM`), in MiB.
    pub peak_mib: f64,
    /// The bound of its memory by docs/security.md, in MiB.
    pub bound_mib: f64,
    /// Its exit code after SIGTERM at the end.
    pub exit_code: i32,
    /// Its counters of what is out of the ordinary.
    pub counters: BTreeMap<String, u64>,
}

impl Together {
    /// The attackers who did less than they should: such a run says little.
    pub fn too_slow(&self) -> impl Iterator<Item = &Attacker> {
        self.attackers.iter().filter(|attacker| !attacker.is_fast_enough())
    }
}

/// What a client saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// Queries.
    pub sent: u64,
    /// Right answers within a second.
    pub valid: u64,
    /// Answers without an address: errors.
    pub failed: u64,
    /// Answers with another address than that of the name.
    pub false_addresses: u64,
    /// The median latency of right answers, in ms.
    pub median_ms: f64,
    /// The 99th percentile, in ms.
    pub p99_ms: f64,
    /// Right answers at most [`NEAR_MS`] after the quiet median, in percent of the queries.
    pub near_pct: f64,
    /// How late the client itself sent, the 99.9th percentile, in ms: latencies include it. `None` in records
    /// of older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_p999_ms: Option<f64>,
}

/// What an attacker did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Attacker {
    /// In words.
    pub what: String,
    /// What is counted.
    pub unit: String,
    /// So many.
    pub count: u64,
    /// So many each second.
    pub per_s: f64,
    /// So many each second are an attack; 0 in records of older programs, which knew no such bound.
    #[serde(default)]
    pub least_per_s: f64,
}

impl Attacker {
    /// Whether it attacked as much as it should.
    pub fn is_fast_enough(&self) -> bool {
        self.least_per_s > 0.0 && self.per_s >= self.least_per_s
    }
}

/// The forger alone, with all the time it needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Forger {
    /// When, of what, and where.
    pub origin: Origin,
    /// Forged packets.
    pub packets: u64,
    /// Of these, so many met an open query over UDP; `None` in records of older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub met: Option<u64>,
    /// For so long, in seconds.
    pub duration_s: f64,
    /// Questions that were asked meanwhile.
    pub questions: u64,
    /// Of these, so many were answered with the truth.
    pub answered: u64,
    /// Queries over UDP, during each of which the forger had its chance.
    pub over_udp: u64,
    /// Queries over TCP, which cannot be forged.
    pub over_tcp: u64,
    /// Forged answers that dns64d took.
    pub hits: u64,
    /// Packets at the right port with a wrong ID.
    pub near_misses: u64,
    /// Forged answers with port and ID of the query, all of which dns64d took: the packets are right.
    pub betrayed_hits: u64,
    /// Of so many.
    pub betrayed: u64,
    /// The same forger against fixed ports.
    pub fixed: Fixed,
    /// The same forger against dns64d with so many upstream servers that a query over UDP is always open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<Open>,
}

/// dns64d asks many servers in turn, so that near misses at one of them leave others that are asked over UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// The upstream servers.
    pub servers: u64,
    /// Forged packets.
    pub packets: u64,
    /// Of these, so many met an open query over UDP: it had come to the server before the packet was sent,
    /// and had not ended afterwards.
    pub met: u64,
    /// For so long, in seconds.
    pub duration_s: f64,
    /// Questions that were asked meanwhile.
    pub questions: u64,
    /// Queries over UDP.
    pub over_udp: u64,
    /// Packets at the right port with a wrong ID.
    pub near_misses: u64,
    /// The ports that dns64d draws from: one packet in so many meets the port of the query.
    pub ports: u64,
    /// Forged answers that dns64d took.
    pub hits: u64,
}

/// A model of a client with fixed ports and without near misses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fixed {
    /// Its ports.
    pub ports: u64,
    /// Forged answers that it took.
    pub hits: u64,
    /// Packets for all of them.
    pub packets: u64,
}

/// What the AuthDNS sees of two servers under the same load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Identifiers {
    /// When, of what, and where.
    pub origin: Origin,
    /// The rate of the client, in q/s, for names that are not cached.
    pub rate_qps: u64,
    /// The length of one repetition, in seconds.
    pub duration_s: f64,
    /// Each server in turn.
    pub servers: Vec<Identified>,
}

/// The IDs and ports of one server, a value for each repetition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Identified {
    /// Its name.
    pub server: String,
    /// As it states it.
    pub version: String,
    /// Queries over UDP.
    pub queries: Sample,
    /// Different IDs among them.
    pub ids: Sample,
    /// Different ports.
    pub ports: Sample,
    /// Among how many IDs the next is hidden (`sextant auth --observe`).
    pub ids_hidden: Sample,
    /// Among how many ports.
    pub ports_hidden: Sample,
    /// Binary logarithm of the forged answers for an even chance.
    pub even_chance_bits: Sample,
    /// Weaknesses that were found in any repetition.
    pub weak: Vec<String>,
}
