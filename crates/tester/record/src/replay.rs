//! A capture that was replayed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A capture, and what of it a trial asked again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// The file, as it was named.
    pub source: String,
    /// Queries in it that can be asked again.
    pub recorded_queries: u64,
    /// The clients that asked them.
    pub recorded_clients: u64,
    /// From its first query to its last, in seconds.
    pub recorded_s: f64,
    /// So many times as fast the trial asked.
    pub speed: f64,
    /// The clients of the trial.
    pub clients: u64,
    /// What of the capture is no query that can be asked again, by reason, in packets, messages or queries.
    pub left_out: BTreeMap<String, u64>,
    /// Why the capture was not read to its end, and where; absent if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}
