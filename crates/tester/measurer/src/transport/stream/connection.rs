//! What a thread knows of one connection beside its octets: its queries and its times.

use std::collections::VecDeque;

use super::link::Link;

/// A query that waits for its connection.
pub(super) struct Queued {
    /// Its place among the queries of the client.
    pub place: u64,
    /// When it was handed over, in ns.
    pub since_ns: u64,
    pub octets: Box<[u8]>,
}

/// A connection of a client.
pub(super) struct Connection {
    pub link: Link,
    pub client: usize,
    pub ready: bool,
    /// When it was begun, in ns.
    pub began_ns: u64,
    /// When a query left or an answer came last, in ns.
    pub used_ns: u64,
    /// The place of its first query, of the next one to leave, and of the next one to be handed over.
    pub first: u64,
    pub leaving: u64,
    pub next: u64,
    /// How many more queries it may have.
    pub left: u64,
    /// Queries that wait for their answers.
    pub outstanding: u64,
    pub queue: VecDeque<Queued>,
    /// When it is driven though its socket is not ready, in ns.
    pub alarm_ns: Option<u64>,
}

impl Connection {
    /// A new one whose first query will have this place, and that may have so many.
    pub fn new(link: Link, (client, first, queries): (usize, u64, u64), now_ns: u64) -> Self {
        Self {
            link,
            client,
            ready: false,
            began_ns: now_ns,
            used_ns: now_ns,
            first,
            leaving: first,
            next: first,
            left: queries,
            outstanding: 0,
            queue: VecDeque::new(),
            alarm_ns: None,
        }
    }

    /// Whether nothing is waited for: neither an answer, at `now_ns` within the timeout, nor a query.
    pub fn is_idle(&self, now_ns: u64, timeout_ns: u64) -> bool {
        let answered = self.outstanding == 0 || now_ns.saturating_sub(self.used_ns) > timeout_ns;
        answered && self.queue.is_empty()
    }

    /// It has had all its queries and their answers.
    pub fn is_done(&self, now_ns: u64, timeout_ns: u64) -> bool {
        self.left == 0 && self.is_idle(now_ns, timeout_ns)
    }
}
