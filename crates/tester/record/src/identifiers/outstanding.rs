//! Queries that were repeated, and queries that shared port and ID with another query in flight.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde::{Deserialize, Serialize};

use super::sequence::VALUES;
use super::{Seen, Spread};

/// How long an answer may take on its way, in ns: RFC 5452 7.2 counts with 0.1 s. The AuthDNS itself answers
/// at once, so what is under way at the same time is computed for this time.
pub(crate) const WINDOW_NS: u64 = 100_000_000;
/// The same question again within this time is a repetition, in ns: resolvers try for some seconds.
const REPEAT_NS: u64 = 10_000_000_000;

/// Queries over UDP that were repeated, or were under way together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outstanding {
    /// How long a query is taken to be under way, in milliseconds.
    pub window_ms: u64,
    /// The most queries that came within such a time.
    pub most: u64,
    /// The same question from the same client within ten seconds, with the same port and ID.
    pub retransmissions: u64,
    /// The same with another port or ID.
    pub retries: u64,
    /// Retries within the window: the same question is under way more than once, and each makes forging
    /// easier (the birthday attack of RFC 5452 5).
    pub same_question: u64,
    /// Different questions under way with the same client, port and ID: an answer to one may be taken for the
    /// other's, but for its question.
    pub same_identifiers: u64,
    /// How many of these there would be if IDs and ports were drawn from pools of the sizes found, without a
    /// look at what is under way.
    pub same_identifiers_by_chance: f64,
}

/// Looks through queries in the order of their arrival.
pub fn find(queries: &[Seen], ids: &Spread, ports: &Spread) -> Outstanding {
    let mut found = Outstanding { window_ms: WINDOW_NS / 1_000_000, ..Outstanding::default() };
    let mut by_question: HashMap<(u32, u64, u16), &Seen> = HashMap::new();
    let mut by_identifiers: HashMap<(u32, u16, u16), &Seen> = HashMap::new();
    let (mut oldest, mut under_way_sum) = (0, 0u64);
    for (at, query) in queries.iter().enumerate() {
        while query.at_ns.saturating_sub(queries[oldest].at_ns) > WINDOW_NS {
            oldest += 1;
        }
        found.most = found.most.max((at - oldest) as u64 + 1);
        under_way_sum += (at - oldest) as u64;
        let question = (query.client, query.name, query.qtype);
        if let Some(before) = by_question.insert(question, query) {
            found.count_repetition(before, query);
        }
        match by_identifiers.entry((query.client, query.port, query.id)) {
            Entry::Occupied(mut entry) => {
                let before = entry.insert(query);
                let differs = (before.name, before.qtype) != (query.name, query.qtype);
                found.same_identifiers += u64::from(differs && is_within(WINDOW_NS, before, query));
            }
            Entry::Vacant(entry) => {
                entry.insert(query);
            }
        }
    }
    let pools = ids.pool.min(VALUES as f64) * ports.pool.min(VALUES as f64);
    found.same_identifiers_by_chance = if pools > 0.0 { under_way_sum as f64 / pools } else { 0.0 };
    found
}

fn is_within(time_ns: u64, before: &Seen, query: &Seen) -> bool {
    query.at_ns.saturating_sub(before.at_ns) <= time_ns
}

impl Outstanding {
    fn count_repetition(&mut self, before: &Seen, query: &Seen) {
        if !is_within(REPEAT_NS, before, query) {
            return;
        }
        if (before.port, before.id) == (query.port, query.id) {
            self.retransmissions += 1;
            return;
        }
        self.retries += 1;
        self.same_question += u64::from(is_within(WINDOW_NS, before, query));
    }
}
