//! The connections of a trial whose queries are not carried in UDP datagrams.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::latency::Latency;
use crate::number::{plural, short};
use crate::terms::LossPlace;

/// How queries are carried, and what was asked of the connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Transport {
    /// `tcp`, `dot`, `doh`, `doq` or `doh3`.
    pub protocol: String,
    /// Connections at a time, of all threads together; in the settings of a search for connections 0: each
    /// trial has its own number.
    pub connections: usize,
    /// Queries of each connection, after which a new one takes its place; 0: without end. Where they are
    /// drawn, their median.
    pub queries_each: u64,
    /// The numbers of queries were drawn (lognormal), with this standard deviation of their logarithm;
    /// absent: all connections have the same number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queries_sigma: Option<f64>,
    /// Several queries of a connection may wait for their answers; otherwise one at a time.
    pub pipelined: bool,
    /// A connection without a query for so long is closed, in seconds; absent: it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_s: Option<f64>,
    /// How the certificate was checked: `not checked`, `checked against FILE for NAME`, `pinned`; empty
    /// without TLS.
    #[serde(default)]
    pub certificate: String,
    /// A client's next connection resumes the session of its last one, where the server allows it.
    #[serde(default)]
    pub resumption: bool,
    /// What is asked for by HTTPS: the method and the URI, as in `POST https://dns.example/dns-query`; empty
    /// without HTTPS.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request: String,
}

impl Transport {
    /// The protocol in sentences, for example DoT; a protocol of another version as it stands.
    pub fn protocol_in_words(&self) -> &str {
        match self.protocol.as_str() {
            "tcp" => "TCP",
            "dot" => "DoT",
            "doh" => "DoH",
            "doq" => "DoQ",
            "doh3" => "DoH3",
            other => other,
        }
    }

    /// How many queries a connection has: `20 queries each`; `None` if connections do not end.
    pub fn queries_in_words(&self) -> Option<String> {
        let queries = plural(usize::try_from(self.queries_each).unwrap_or(usize::MAX), "query", "queries");
        match (self.queries_each, self.queries_sigma) {
            (0, _) => None,
            (_, None) => Some(format!("{queries} each")),
            (_, Some(sigma)) => {
                Some(format!("{queries} each in the median (lognormal, sigma {})", short(sigma)))
            }
        }
    }
}

/// What one repetition of a search for connections found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundConnections {
    /// The highest number of standing connections that passed by the rule of the search; 0 if none did.
    pub most: u64,
    /// The distance from there to the lowest number that failed above it; where void trials ended the search
    /// and none had failed, to the highest number that it may try.
    pub stop_width: u64,
    /// Void trials left this number undecided, so that the search ended with what was known. Absent if it
    /// ended otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by_voids: Option<u64>,
}

/// What became of the connections of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// How they were used.
    pub transport: Transport,
    /// Connections that were ready for queries at some time; those before the first query are among them.
    pub opened: u64,
    /// Of these, opened after the first query was due.
    pub opened_in_trial: u64,
    /// Of those opened: handshakes that resumed a session.
    pub resumed: u64,
    /// Attempts without a connection, by what ended them.
    pub failed: BTreeMap<LossPlace, u64>,
    /// Why handshakes failed, in the words of the TLS library, for example an alert.
    pub handshake_failures: BTreeMap<String, u64>,
    /// What the server said instead of answers, instead of taking more queries, or at the end of a
    /// connection: `status 503`, `RST_STREAM REFUSED_STREAM`, `GOAWAY NO_ERROR`, `DOQ_EXCESSIVE_LOAD`, and
    /// what a response with status 200 lacked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refusals: BTreeMap<String, u64>,
    /// Connections that the server closed or broke off, with or without a query that waited.
    pub closed_by_server: u64,
    /// Queries that left in one write together with others, because they were due together or the connection
    /// was behind.
    pub joined: u64,
    /// From the moment at which a query was handed over to its leaving, of queries that had to wait for their
    /// connection, in ns.
    pub waiting_ns: Latency,
    /// Memory of the server for each connection that stood before the first query, in octets; absent where
    /// its processes are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_memory_octets: Option<u64>,
    /// How many had to wait.
    pub waited: u64,
    /// From the first packet to the connection of the transport layer (TCP), in ns; absent where no
    /// connection had this time, as with QUIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_ns: Option<Latency>,
    /// From there, with QUIC from the first packet, to the end of the handshake, in ns; absent where no
    /// connection had a handshake, as with TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake_ns: Option<Latency>,
}
