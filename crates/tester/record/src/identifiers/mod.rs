//! Analysis of a server's queries to an AuthDNS: how many queries the server sends, which it repeats, and how
//! well its IDs and source ports protect against forged answers (RFC 5452).
//!
//! Everything here is computed from a list of [`Seen`] queries, by formulas that are named where they stand.

mod findings;
mod outstanding;
mod sequence;
mod significance;
mod spoofing;
mod spread;
#[cfg(test)]
mod tests;

pub use outstanding::Outstanding;
pub use sequence::{Steps, Test};
pub(crate) use significance::two_sided;
pub use spoofing::Spoofing;
pub use spread::Spread;

use std::collections::HashSet;

use dns64::wire::rtype;
use serde::{Deserialize, Serialize};

/// The most points kept for drawing.
const POINTS_MAX: usize = 1500;

/// One query as it came, in 32 octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When it came, in ns of any clock.
    pub at_ns: u64,
    /// A hash of QNAME without its case; 0 where there is no question.
    pub name: u64,
    /// A hash of the client's address.
    pub client: u32,
    /// A bit for each of the first 32 octets of QNAME that is an upper-case letter.
    pub upper_case: u32,
    /// The client's port.
    pub port: u16,
    /// The query's ID.
    pub id: u16,
    /// QTYPE; 0 where there is no question.
    pub qtype: u16,
    /// It came over a connection: TCP, DoT, DoH or DoQ.
    pub tcp: bool,
    /// How many letters QNAME has, at most 255.
    pub letters: u8,
}

const _: () = assert!(size_of::<Seen>() == 32);

/// What was found in a list of queries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// All queries, those that were only counted among them.
    pub seen: u64,
    /// The first of them, which were kept; everything else is about these.
    pub kept: u64,
    /// From the first to the last that was kept, in seconds.
    pub duration_s: f64,
    /// Their rate in q/s; 0 where there are fewer than two.
    pub rate_qps: f64,
    /// Questions for A.
    pub a: u64,
    /// Questions for AAAA.
    pub aaaa: u64,
    /// Everything else.
    pub other: u64,
    /// Queries over TCP.
    pub tcp: u64,
    /// Client addresses.
    pub clients: u64,
    /// Different names.
    pub names: u64,
    /// Queries for each name.
    pub queries_per_name: f64,
    /// Queries that were put to the server while these came, where that is known.
    pub client_queries: Option<u64>,
    /// Queries seen for each of those; 2 is expected for names without AAAA.
    pub queries_per_client_query: Option<f64>,
    /// What was asked again, and what was under way at the same time.
    pub outstanding: Outstanding,
    /// Queries over UDP with upper-case letters in their names, in percent: a server that draws the case
    /// (0x20) has nearly 100, one that copies its client's lower case 0.
    pub upper_case_pct: f64,
    /// Letters in a name, on average: so many bits the case could add.
    pub letters_per_name: f64,
    /// The IDs of the queries over UDP.
    pub ids: Spread,
    /// Their source ports.
    pub ports: Spread,
    /// What somebody has to do who forges answers.
    pub spoofing: Spoofing,
    /// In words: what is good, what is weak.
    pub findings: Vec<Finding>,
    /// Some of the queries over UDP, evenly chosen: seconds since the first, ID, port.
    pub points: Vec<(f64, u16, u16)>,
}

/// One thing that an analysis found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// It makes forging easier than it need be, or breaks a rule.
    pub weak: bool,
    /// A sentence without a full stop.
    pub text: String,
}

/// Analyses queries in the order of their arrival. `seen` counts also those that were not kept;
/// `client_queries` is how many were put to the server, where that is known.
pub fn analyse(queries: &[Seen], seen: u64, client_queries: Option<u64>) -> Analysis {
    let udp: Vec<Seen> = queries.iter().copied().filter(|query| !query.tcp).collect();
    let duration_ns = match queries {
        [first, .., last] => last.at_ns.saturating_sub(first.at_ns),
        _ => 0,
    };
    let kept = queries.len() as u64;
    let count = |test: &dyn Fn(&Seen) -> bool| queries.iter().filter(|query| test(query)).count() as u64;
    let names = queries.iter().map(|query| query.name).collect::<HashSet<_>>().len() as u64;
    let (a, aaaa) = (count(&|query| query.qtype == rtype::A), count(&|query| query.qtype == rtype::AAAA));
    let ids = spread::of_ids(&udp);
    let ports = spread::of_ports(&udp);
    let per_s = if duration_ns > 0 { 1e9 / duration_ns as f64 } else { 0.0 };
    let rate_qps = kept.saturating_sub(1) as f64 * per_s;
    let mut analysis = Analysis {
        seen,
        kept,
        duration_s: duration_ns as f64 / 1e9,
        rate_qps,
        a,
        aaaa,
        other: kept - a - aaaa,
        tcp: kept - udp.len() as u64,
        clients: queries.iter().map(|query| query.client).collect::<HashSet<_>>().len() as u64,
        names,
        queries_per_name: ratio(kept, names),
        client_queries,
        queries_per_client_query: client_queries.filter(|asked| *asked > 0).map(|asked| ratio(seen, asked)),
        outstanding: outstanding::find(&udp, &ids, &ports),
        upper_case_pct: 100.0
            * ratio(udp.iter().filter(|query| query.upper_case != 0).count() as u64, udp.len() as u64),
        letters_per_name: ratio(udp.iter().map(|query| u64::from(query.letters)).sum(), udp.len() as u64),
        spoofing: spoofing::estimate(&ids, &ports, rate_qps),
        ids,
        ports,
        findings: Vec::new(),
        points: points(&udp),
    };
    analysis.findings = findings::find(&analysis);
    analysis
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole > 0 { part as f64 / whole as f64 } else { 0.0 }
}

fn points(udp: &[Seen]) -> Vec<(f64, u16, u16)> {
    let begin_ns = udp.first().map_or(0, |query| query.at_ns);
    let point = |query: &Seen| (query.at_ns.saturating_sub(begin_ns) as f64 / 1e9, query.id, query.port);
    udp.iter().step_by(udp.len().div_ceil(POINTS_MAX).max(1)).map(point).collect()
}
