//! What has happened so far, counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Protocol;

/// All counters at one time, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Clients, by the index of their [`Protocol`].
    pub clients: [ProtocolCounts; Protocol::ALL.len()],
    /// Upstream servers of all protocols.
    pub upstreams: UpstreamCounts,
    /// Octets of clients' queries and answers that wait now, at most [`crate::Limits::waiting_octets_max`].
    pub waiting_octets: u64,
}

impl Counts {
    /// The clients of one protocol.
    pub fn of(&self, protocol: Protocol) -> &ProtocolCounts {
        &self.clients[protocol.index()]
    }
}

macro_rules! counters {
    ($(#[$note:meta])* $copy:ident, $cells:ident { $($(#[$doc:meta])* $name:ident,)* }) => {
        $(#[$note])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $copy { $($(#[$doc])* pub $name: u64,)* }

        #[derive(Debug, Default)]
        pub(crate) struct $cells { $(pub $name: Cell,)* }

        impl $cells {
            pub fn copy(&self) -> $copy {
                $copy { $($name: self.$name.get(),)* }
            }
        }
    };
}

counters! {
    /// Clients that speak one protocol.
    ProtocolCounts, ClientCells {
        /// Connections open now, unfinished handshakes among them.
        open,
        /// Connections accepted.
        accepted,
        /// Connections turned away by a limit.
        refused,
        /// Connections of clients that may not connect, ended before anything was spent on them.
        strangers,
        /// Connections ended to make room for others.
        evicted,
        /// Handshakes of TLS or QUIC that failed or took too long.
        handshake_failures,
        /// Queries given to the owner.
        queries,
        /// Answers given to clients' connections.
        answers,
        /// Connections and requests that broke their protocol, such as half frames and HTTP requests without
        /// a query.
        malformed,
        /// Connections cut off because the client took too long to send a message or to read its answers.
        too_slow,
    }
}

counters! {
    /// What upstream servers were asked.
    UpstreamCounts, UpstreamCells {
        /// Questions that the owner has asked.
        asked,
        /// Questions that the server answered in time.
        answered,
        /// Questions that ran into their time limit.
        timeouts,
        /// Questions that failed before their time: no connection, an unusable answer, or too many in flight.
        failures,
        /// Connections opened to the server.
        connections,
        /// Connections that could not be made.
        connection_failures,
        /// Questions sent again because their connection ended before the answer.
        retries,
        /// Answers to no question in flight.
        mismatched,
    }
}

#[derive(Debug, Default)]
pub(crate) struct Cell(AtomicU64);

impl Cell {
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn subtract(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters themselves, shared by all tasks.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    clients: [ClientCells; Protocol::ALL.len()],
    pub upstreams: Arc<UpstreamCells>,
}

impl Tally {
    pub fn of(&self, protocol: Protocol) -> &ClientCells {
        &self.clients[protocol.index()]
    }

    pub fn copy(&self) -> Counts {
        let clients = self.clients.each_ref().map(ClientCells::copy);
        Counts { clients, upstreams: self.upstreams.copy(), ..Counts::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_copied() {
        let tally = Tally::default();
        tally.of(Protocol::Quic).open.add();
        tally.of(Protocol::Quic).open.add();
        tally.of(Protocol::Quic).open.subtract();
        tally.upstreams.retries.add();
        let counts = tally.copy();
        assert_eq!(counts.of(Protocol::Quic), &ProtocolCounts { open: 1, ..ProtocolCounts::default() });
        assert_eq!(counts.of(Protocol::Tls), &ProtocolCounts::default());
        assert_eq!(counts.upstreams, UpstreamCounts { retries: 1, ..UpstreamCounts::default() });
    }
}
