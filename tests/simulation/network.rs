//! A network on a virtual clock: seeded loss, delay, duplication and reordering, and hosts of known capacity.
//!
//! Nothing here waits or reads a clock. A test moves the time from one event to the next, so a lab of several
//! hosts runs in one thread, as fast as the code under test allows, and the same seed gives the same run.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;

/// What a network does to every datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The shortest delay in ns.
    pub delay_ns: u64,
    /// Up to so much more, evenly spread, in ns: datagrams overtake each other where it exceeds their
    /// distance.
    pub jitter_ns: u64,
    /// Datagrams lost of a million.
    pub loss_ppm: u32,
    /// Datagrams delivered twice of a million.
    pub duplication_ppm: u32,
}

/// A datagram on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Where it came from.
    pub from: SocketAddr,
    /// Where it goes.
    pub to: SocketAddr,
    /// Its payload.
    pub octets: Vec<u8>,
}

/// SplitMix64: good enough to scatter events, and the same everywhere. Not for secrets.
#[derive(Clone, Debug)]
struct Scatter(u64);

impl Scatter {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`, which must not be 0.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    fn happens(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.below(1_000_000) < u64::from(ppm)
    }
}

/// The datagrams under way.
#[derive(Debug)]
pub struct Network {
    conditions: Conditions,
    scatter: Scatter,
    under_way: BinaryHeap<Reverse<(u64, u64, usize)>>,
    packets: Vec<Option<Packet>>,
    free: Vec<usize>,
    count: u64,
}

impl Network {
    /// An empty network.
    pub fn new(conditions: Conditions, seed: u64) -> Self {
        Self {
            conditions,
            scatter: Scatter(seed),
            under_way: BinaryHeap::new(),
            packets: Vec::new(),
            free: Vec::new(),
            count: 0,
        }
    }

    /// Takes a datagram at `now_ns`.
    pub fn send(&mut self, now_ns: u64, packet: Packet) {
        if self.scatter.happens(self.conditions.loss_ppm) {
            return;
        }
        if self.scatter.happens(self.conditions.duplication_ppm) {
            self.put(now_ns, packet.clone());
        }
        self.put(now_ns, packet);
    }

    fn put(&mut self, now_ns: u64, packet: Packet) {
        let jitter_ns = self.scatter.below(self.conditions.jitter_ns + 1);
        let at_ns = now_ns + self.conditions.delay_ns + jitter_ns;
        let place = self.free.pop().unwrap_or_else(|| {
            self.packets.push(None);
            self.packets.len() - 1
        });
        self.packets[place] = Some(packet);
        self.count += 1;
        self.under_way.push(Reverse((at_ns, self.count, place)));
    }

    /// When the next datagram arrives.
    pub fn next_at_ns(&self) -> Option<u64> {
        self.under_way.peek().map(|Reverse((at_ns, ..))| *at_ns)
    }

    /// The next datagram that has arrived by `now_ns`.
    pub fn receive(&mut self, now_ns: u64) -> Option<Packet> {
        if self.next_at_ns()? > now_ns {
            return None;
        }
        let Reverse((_, _, place)) = self.under_way.pop()?;
        self.free.push(place);
        self.packets[place].take()
    }
}

/// A host that takes one datagram after the other: a receive buffer, and a processor that needs its time for
/// each.
#[derive(Debug)]
pub struct Host {
    service_ns: u64,
    buffer: usize,
    waiting: VecDeque<Packet>,
    free_at_ns: u64,
    dropped: u64,
}

impl Host {
    /// A host that needs `service_ns` for each datagram and keeps `buffer` of them waiting.
    pub fn new(service_ns: u64, buffer: usize) -> Self {
        Self { service_ns, buffer, waiting: VecDeque::new(), free_at_ns: 0, dropped: 0 }
    }

    /// A datagram arrives; if the buffer is full it is dropped.
    pub fn arrive(&mut self, now_ns: u64, packet: Packet) {
        if self.waiting.len() == self.buffer {
            self.dropped += 1;
            return;
        }
        if self.waiting.is_empty() {
            self.free_at_ns = self.free_at_ns.max(now_ns) + self.service_ns;
        }
        self.waiting.push_back(packet);
    }

    /// When the datagram at work is done.
    pub fn next_at_ns(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then_some(self.free_at_ns)
    }

    /// The datagram that is done by `now_ns`; its answer leaves now.
    pub fn serve(&mut self, now_ns: u64) -> Option<Packet> {
        if self.next_at_ns()? > now_ns {
            return None;
        }
        let packet = self.waiting.pop_front();
        self.free_at_ns += self.service_ns;
        packet
    }

    /// Stops it for a while from `now_ns`: what is at work and what waits is done that much later.
    pub fn stall(&mut self, now_ns: u64, for_ns: u64) {
        self.free_at_ns = self.free_at_ns.max(now_ns) + for_ns;
    }

    /// Datagrams dropped so far because the buffer was full.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(octet: u8) -> Packet {
        let address = "[::1]:1".parse().unwrap();
        Packet { from: address, to: address, octets: vec![octet] }
    }

    /// Sends `count` datagrams a microsecond apart and returns what arrives, in order.
    fn cross(conditions: Conditions, seed: u64, count: u64) -> Vec<u8> {
        let mut network = Network::new(conditions, seed);
        for n in 0..count {
            network.send(n * 1000, packet(n as u8));
        }
        std::iter::from_fn(|| network.receive(u64::MAX).map(|packet| packet.octets[0])).collect()
    }

    #[test]
    fn a_clean_network_changes_nothing() {
        let arrived = cross(Conditions { delay_ns: 5, ..Conditions::default() }, 1, 100);
        assert_eq!(arrived, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn loss_duplication_and_reordering_follow_the_seed() {
        let conditions =
            Conditions { delay_ns: 5, jitter_ns: 5000, loss_ppm: 100_000, duplication_ppm: 100_000 };
        let arrived = cross(conditions, 7, 200);
        assert_eq!(arrived, cross(conditions, 7, 200));
        assert_ne!(arrived, cross(conditions, 8, 200));
        assert!(!arrived.is_sorted());
        let distinct: std::collections::BTreeSet<_> = arrived.iter().collect();
        assert!(
            distinct.len() < 195 && distinct.len() < arrived.len(),
            "{} of {}",
            distinct.len(),
            arrived.len()
        );
    }

    #[test]
    fn a_host_serves_at_its_rate_and_drops_beyond_its_buffer() {
        let mut host = Host::new(1000, 4);
        (0..6).for_each(|n| host.arrive(0, packet(n)));
        assert_eq!(host.dropped(), 2);
        assert_eq!(host.serve(999), None);
        let served: Vec<_> = (1..=5).map(|k| host.serve(k * 1000).map(|packet| packet.octets[0])).collect();
        assert_eq!(served, [Some(0), Some(1), Some(2), Some(3), None]);
        host.arrive(10_000, packet(9));
        host.stall(10_000, 500);
        assert_eq!(host.next_at_ns(), Some(11_500));
    }
}
