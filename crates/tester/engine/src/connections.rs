//! Where queries end that need a connection, and what became of the connections: pure accounting.

use std::collections::BTreeMap;
use std::ops::Range;

use hdrhistogram::Histogram;
use record::{Connections, LossPlace};

use crate::times;

/// Why a connection brought no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Breakdown {
    /// The server refused the connection.
    Refused,
    /// The network has no way to the server.
    Unreachable,
    /// The connection was not ready within the timeout.
    TimedOut,
    /// The server broke the connection off, or what it sent could not be read.
    Reset,
    /// The server closed the connection.
    Closed,
    /// The handshake of TLS failed.
    Handshake,
    /// The connection took no more octets, or the server allowed no further stream, within the timeout.
    FlowControl,
    /// The response was of another status of HTTP than 200.
    HttpStatus,
    /// The response was of status 200 and had no message of DNS.
    HttpMalformed,
    /// The server reset the stream of the query.
    StreamReset,
    /// The server said that it takes no more queries by the connection.
    GoAway,
    /// All connections that the Tester may have were in use.
    OwnLimit,
}

impl Breakdown {
    /// Whether a new query would meet the same at once: there was no connection to begin with.
    pub(crate) fn is_before_connection(self) -> bool {
        matches!(self, Self::Refused | Self::Unreachable | Self::Handshake | Self::OwnLimit)
    }

    /// Where a query is lost by it.
    pub fn place(self) -> LossPlace {
        match self {
            Self::Refused => LossPlace::ConnectionRefused,
            Self::Unreachable => LossPlace::ConnectionUnreachable,
            Self::TimedOut => LossPlace::ConnectionTimedOut,
            Self::Reset => LossPlace::ConnectionReset,
            Self::Closed => LossPlace::ConnectionClosed,
            Self::Handshake => LossPlace::HandshakeFailed,
            Self::FlowControl => LossPlace::FlowControl,
            Self::HttpStatus => LossPlace::HttpStatus,
            Self::HttpMalformed => LossPlace::HttpMalformed,
            Self::StreamReset => LossPlace::StreamReset,
            Self::GoAway => LossPlace::GoAway,
            Self::OwnLimit => LossPlace::OwnConnectionLimit,
        }
    }
}

/// What became of queries beside their answers. A query is known by its client (the socket of a
/// [`crate::lane::Batch`]) and its place among the queries of that client, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A query had to wait for its connection, and has left now.
    Left {
        /// The client.
        client: usize,
        /// Its place.
        place: u64,
        /// How long it waited, in ns.
        waited_ns: u64,
    },
    /// Those of these queries that have no answer will have none.
    Lost {
        /// The client.
        client: usize,
        /// Their places.
        places: Range<u64>,
        /// Those before this place had left.
        left_before: u64,
        /// When, in ns.
        at_ns: u64,
        /// Why.
        why: Breakdown,
    },
}

/// What one thread's connections did, or those of all after [`ConnectionStats::merge`].
#[derive(Clone, Debug)]
pub struct ConnectionStats {
    /// Connections that were ready for queries.
    pub opened: u64,
    /// Of these, before the first query was due.
    pub opened_before: u64,
    /// Handshakes that resumed a session.
    pub resumed: u64,
    /// Attempts without a connection.
    pub failed: BTreeMap<Breakdown, u64>,
    /// Why handshakes failed; at most [`REASONS_MAX`] reasons.
    pub handshake_failures: BTreeMap<String, u64>,
    /// What the server said instead of answers, or instead of taking more queries, or at the end of a
    /// connection; at most [`REASONS_MAX`] kinds.
    pub refusals: BTreeMap<String, u64>,
    /// Connections that the server ended.
    pub closed_by_server: u64,
    /// Queries that left in one write with others.
    pub joined: u64,
    /// How long queries waited for their connection, of those that did, in ns.
    pub waiting_ns: Histogram<u64>,
    /// How long the transport layer took to connect, in ns.
    pub connect_ns: Histogram<u64>,
    /// How long handshakes took, in ns.
    pub handshake_ns: Histogram<u64>,
}

/// The most reasons of failed handshakes, and the most kinds of refusals, that are told apart.
pub const REASONS_MAX: usize = 16;

impl Default for ConnectionStats {
    fn default() -> Self {
        Self {
            opened: 0,
            opened_before: 0,
            resumed: 0,
            failed: BTreeMap::new(),
            handshake_failures: BTreeMap::new(),
            refusals: BTreeMap::new(),
            closed_by_server: 0,
            joined: 0,
            waiting_ns: times::histogram(),
            connect_ns: times::histogram(),
            handshake_ns: times::histogram(),
        }
    }
}

impl ConnectionStats {
    /// Notes an attempt that gave no connection, with the reason if it is one of a handshake.
    pub fn note_failed(&mut self, why: Breakdown, reason: Option<String>) {
        *self.failed.entry(why).or_default() += 1;
        if let Some(reason) = reason {
            note(&mut self.handshake_failures, reason);
        }
    }

    /// Notes what the server said instead of an answer, instead of taking more queries, or at the end of a
    /// connection.
    pub fn note_refusal(&mut self, kind: String) {
        note(&mut self.refusals, kind);
    }

    /// Adds what another thread counted.
    pub fn merge(&mut self, other: &Self) {
        self.opened += other.opened;
        self.opened_before += other.opened_before;
        self.resumed += other.resumed;
        self.closed_by_server += other.closed_by_server;
        self.joined += other.joined;
        for (why, count) in &other.failed {
            *self.failed.entry(*why).or_default() += count;
        }
        for (own, others) in
            [(&mut self.handshake_failures, &other.handshake_failures), (&mut self.refusals, &other.refusals)]
        {
            others.iter().for_each(|(reason, count)| *own.entry(reason.clone()).or_default() += count);
        }
        for (own, others) in [
            (&mut self.waiting_ns, &other.waiting_ns),
            (&mut self.connect_ns, &other.connect_ns),
            (&mut self.handshake_ns, &other.handshake_ns),
        ] {
            own.add(others).expect("all histograms have the same bounds");
        }
    }

    /// For the record; how the connections were to be used is for the caller to add.
    pub fn to_record(&self) -> Connections {
        Connections {
            opened: self.opened,
            opened_in_trial: self.opened.saturating_sub(self.opened_before),
            resumed: self.resumed,
            failed: self.failed.iter().map(|(why, count)| (why.place(), *count)).collect(),
            handshake_failures: self.handshake_failures.clone(),
            refusals: self.refusals.clone(),
            closed_by_server: self.closed_by_server,
            joined: self.joined,
            waiting_ns: times::summarize(&self.waiting_ns),
            waited: self.waiting_ns.len(),
            connect_ns: times::summarize_any(&self.connect_ns),
            handshake_ns: times::summarize_any(&self.handshake_ns),
            ..Connections::default()
        }
    }
}

/// Counts a reason, as one of the others if there are many already.
fn note(reasons: &mut BTreeMap<String, u64>, reason: String) {
    let is_told_apart = reasons.contains_key(&reason) || reasons.len() < REASONS_MAX;
    *reasons.entry(if is_told_apart { reason } else { "other".into() }).or_default() += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up_and_reasons_are_bounded() {
        let (mut one, mut two) = (ConnectionStats::default(), ConnectionStats::default());
        for reason in 0..2 * REASONS_MAX {
            one.note_failed(Breakdown::Handshake, Some(format!("alert {reason}")));
        }
        assert_eq!(one.handshake_failures.len(), REASONS_MAX + 1);
        two.note_failed(Breakdown::Refused, None);
        one.note_refusal("status 503".to_owned());
        two.note_refusal("status 503".to_owned());
        (two.opened, two.opened_before, two.joined) = (5, 3, 7);
        two.connect_ns.saturating_record(1000);
        one.merge(&two);
        let record = one.to_record();
        assert_eq!((record.opened, record.opened_in_trial, record.joined), (5, 2, 7));
        assert_eq!(record.failed[&LossPlace::HandshakeFailed], 2 * REASONS_MAX as u64);
        assert_eq!(record.failed[&LossPlace::ConnectionRefused], 1);
        assert_eq!(record.refusals, [("status 503".to_owned(), 2)].into());
        assert_eq!((record.connect_ns.unwrap().max, record.waited), (1000, 0));
        assert!(record.handshake_ns.is_none());
    }
}
