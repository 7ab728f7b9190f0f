//! Who may hold a connection, and how many.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::room::Context;
use crate::{Limits, Protocol, lock};

/// The longest time limit.
const DAY: Duration = Duration::from_secs(86_400);

/// All connections of clients, counted by network.
#[derive(Default)]
pub(crate) struct ClientConnections(Mutex<ConnectionCounts>);

#[derive(Default)]
struct ConnectionCounts {
    limits: Limits,
    total: usize,
    networks: HashMap<IpAddr, usize>,
}

/// One admitted connection. Dropping it makes room for another.
pub(crate) struct ClientConnection {
    room: Arc<Context>,
    protocol: Protocol,
    network: IpAddr,
}

impl ClientConnections {
    pub fn limits(&self) -> Limits {
        lock(&self.0).limits
    }

    /// Times are cut to a day, which nobody can tell from more, so that no sum of times overflows.
    pub fn set_limits(&self, limits: Limits) {
        let (idle, message_timeout) = (limits.idle.min(DAY), limits.message_timeout.min(DAY));
        lock(&self.0).limits = Limits { idle, message_timeout, ..limits };
    }

    /// Whether more than half of what `client` can have is taken: then QUIC clients have to prove their
    /// address first, lest forged ones use up the connections of others.
    pub fn is_crowded(&self, client: IpAddr) -> bool {
        let book = lock(&self.0);
        let of_network = book.networks.get(&network(client)).copied().unwrap_or(0);
        2 * book.total >= book.limits.connections || 2 * of_network >= book.limits.connections_per_network
    }

    fn enter(&self, network: IpAddr) -> bool {
        let mut book = lock(&self.0);
        let ConnectionCounts { limits, total, networks } = &mut *book;
        let of_network = networks.get(&network).copied().unwrap_or(0);
        if *total >= limits.connections || of_network >= limits.connections_per_network {
            return false;
        }
        *total += 1;
        networks.insert(network, of_network + 1);
        true
    }

    fn leave(&self, network: IpAddr) {
        let mut book = lock(&self.0);
        book.total -= 1;
        match book.networks.get_mut(&network) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(book.networks.remove(&network)),
        }
    }
}

impl ClientConnection {
    /// Admits a connection, or counts it as refused.
    pub fn admit(room: &Arc<Context>, protocol: Protocol, client: IpAddr) -> Option<Self> {
        let cells = room.tally.of(protocol);
        let network = network(client);
        if !room.guests.enter(network) {
            cells.refused.add();
            return None;
        }
        cells.accepted.add();
        cells.open.add();
        Some(Self { room: room.clone(), protocol, network })
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        self.room.tally.of(self.protocol).open.subtract();
        self.room.guests.leave(self.network);
    }
}

/// The first address of the /24 or /56 that `client` belongs to.
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(address) => IpAddr::from((address.to_bits() & (u32::MAX << 8)).to_be_bytes()),
        IpAddr::V6(address) => IpAddr::from((address.to_bits() & (u128::MAX << 72)).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_counted_apart_and_together() {
        let guests = ClientConnections::default();
        guests.set_limits(Limits { connections: 3, connections_per_network: 2, ..Limits::default() });
        let [a, b] = ["192.0.2.1", "198.51.100.1"].map(|text| network(text.parse().unwrap()));
        assert!(guests.enter(a) && guests.enter(a));
        assert!(!guests.enter(a), "the network has its two");
        assert!(guests.is_crowded(a));
        assert!(guests.enter(b));
        assert!(!guests.enter(b), "the room is full");
        guests.leave(a);
        assert!(guests.enter(b));
        guests.leave(a);
        assert_eq!(lock(&guests.0).networks.len(), 1, "empty networks are forgotten");
    }

    #[test]
    fn networks_are_cut_where_they_should_be() {
        let of = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(of("192.0.2.77"), "192.0.2.0");
        assert_eq!(of("::ffff:192.0.2.77"), "192.0.2.0");
        assert_eq!(of("2001:db8:1:22ff::1"), "2001:db8:1:2200::");
    }
}
