//! The connections of one pool: how many each address and each network holds, and which connection is ended
//! when a limit is reached.
//!
//! The pool selects the network with the most connections, in this network the address with the most
//! connections, and of this address the connection that has been idle for the longest time. A client that
//! holds many connections therefore cannot exclude others, and no connection is ended while there is room.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use super::usage::Usage;
use crate::Limits;

/// Networks with equally many connections that are compared.
const EQUALS_MAX: usize = 32;

/// The part of the idle time that remains when the pool is full.
const PRESSED_PART: u32 = 10;

/// No room, and nobody who has to give some.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// The connections of one pool.
#[derive(Default)]
pub(super) struct Pool {
    places: HashMap<u64, Place>,
    networks: HashMap<IpAddr, Network>,
    /// The networks by the number of their connections; of equal ones, the last has had so many the longest.
    ranks: BTreeSet<(usize, Reverse<u64>, IpAddr)>,
    changes: u64,
}

struct Place {
    address: IpAddr,
    network: IpAddr,
    usage: Arc<Usage>,
}

#[derive(Default)]
struct Network {
    places: Vec<u64>,
    /// How many of them each address has.
    addresses: HashMap<IpAddr, usize>,
    /// The change that gave it so many places.
    changed: u64,
}

impl Network {
    fn add(&mut self, number: u64, address: IpAddr) {
        self.places.push(number);
        *self.addresses.entry(address).or_default() += 1;
    }

    fn remove(&mut self, number: u64, address: IpAddr) {
        self.places.retain(|&own| own != number);
        if let Entry::Occupied(mut count) = self.addresses.entry(address) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// How many connections one client competes with.
#[derive(Clone, Copy)]
struct Held {
    by_address: usize,
    by_network: usize,
}

impl Pool {
    /// Takes a connection in, under a number that no other has. Returns the connection that has to go for it.
    pub fn enter(
        &mut self,
        limits: &Limits,
        number: u64,
        client: IpAddr,
        usage: Arc<Usage>,
    ) -> Result<Option<Arc<Usage>>, Full> {
        let (address, network) = (address_of(client), network_of(client));
        let victim = self.victim(limits, address, network)?;
        let gone = victim.and_then(|victim| self.leave(victim));
        self.places.insert(number, Place { address, network, usage });
        self.change(network, |network| network.add(number, address));
        Ok(gone)
    }

    /// Takes a connection out, if it is still there.
    pub fn leave(&mut self, number: u64) -> Option<Arc<Usage>> {
        let place = self.places.remove(&number)?;
        self.change(place.network, |network| network.remove(number, place.address));
        Some(place.usage)
    }

    /// Whether more than half of what a client can have is taken.
    pub fn is_crowded(&self, limits: &Limits, client: IpAddr) -> bool {
        let held = self.held(address_of(client), network_of(client));
        2 * self.places.len() >= limits.connections
            || 2 * held.by_network >= limits.connections_per_network
            || 2 * held.by_address >= limits.connections_per_address
    }

    /// Takes out the connections that have been idle for longer than a pool so full allows.
    pub fn leave_idle(&mut self, limits: &Limits, now_us: u64) -> Vec<Arc<Usage>> {
        let Some(idle) = pressed_idle(limits, self.places.len()) else { return Vec::new() };
        let is_over = |place: &Place| {
            place.usage.is_idle()
                && u128::from(now_us - place.usage.used_us().min(now_us)) >= idle.as_micros()
        };
        let over: Vec<u64> =
            self.places.iter().filter(|(_, place)| is_over(place)).map(|(&number, _)| number).collect();
        over.into_iter().filter_map(|number| self.leave(number)).collect()
    }

    /// The octets that wait for the network that the most wait for, and its connection that the most wait
    /// for; `None` where nothing waits.
    pub fn heaviest(&self) -> Option<(u64, u64)> {
        let waiting = |number: &u64| self.places[number].usage.waiting_octets();
        let of_network = |network: &Network| network.places.iter().map(waiting).sum::<u64>();
        let networks = self.networks.values().map(|network| (of_network(network), network));
        let (octets, network) =
            networks.max_by_key(|(octets, _)| *octets).filter(|(octets, _)| *octets > 0)?;
        Some((octets, network.places.iter().copied().max_by_key(waiting)?))
    }

    fn held(&self, address: IpAddr, network: IpAddr) -> Held {
        let Some(network) = self.networks.get(&network) else {
            return Held { by_address: 0, by_network: 0 };
        };
        let by_address = network.addresses.get(&address).copied().unwrap_or(0);
        Held { by_address, by_network: network.places.len() }
    }

    /// The connection that has to go for one of this address; `None` where there is room.
    fn victim(&self, limits: &Limits, address: IpAddr, network: IpAddr) -> Result<Option<u64>, Full> {
        let held = self.held(address, network);
        let own =
            || self.networks.get(&network).into_iter().flat_map(|network| network.places.iter().copied());
        if held.by_address >= limits.connections_per_address {
            let of_address = own().filter(|number| self.places[number].address == address);
            return self.least_used(of_address, false).map(Some).ok_or(Full);
        }
        if held.by_network >= limits.connections_per_network {
            return self.of_heaviest(own().collect(), held.by_network, held).map(Some);
        }
        if self.places.len() >= limits.connections {
            let most = self.ranks.last().map_or(0, |&(count, ..)| count);
            let equals = self.ranks.iter().rev().take_while(|&&(count, ..)| count == most).take(EQUALS_MAX);
            let candidates = equals.flat_map(|(_, _, network)| &self.networks[network].places).copied();
            return self.of_heaviest(candidates.collect(), most, held).map(Some);
        }
        Ok(None)
    }

    /// Of these connections, whose networks have `by_network` each, one of the address with the most. One
    /// with queries in progress goes only for a client that holds less.
    fn of_heaviest(&self, candidates: Vec<u64>, by_network: usize, newcomer: Held) -> Result<u64, Full> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for number in &candidates {
            *counts.entry(self.places[number].address).or_default() += 1;
        }
        let most = counts.values().copied().max().unwrap_or(0);
        let heaviest = candidates.into_iter().filter(|number| counts[&self.places[number].address] == most);
        let holds_less = newcomer.by_network + 1 < by_network || newcomer.by_address + 1 < most;
        self.least_used(heaviest, holds_less).ok_or(Full)
    }

    /// The connection that has been idle for the longest time; if `even_busy`, without an idle one that whose
    /// last query is the oldest.
    fn least_used(&self, candidates: impl Iterator<Item = u64>, even_busy: bool) -> Option<u64> {
        let usage = |number: &u64| &self.places[number].usage;
        let usable = candidates.filter(|number| even_busy || usage(number).is_idle());
        usable.min_by_key(|number| (!usage(number).is_idle(), usage(number).used_us(), *number))
    }

    /// Changes the connections of a network, and its rank with them.
    fn change(&mut self, address: IpAddr, change: impl FnOnce(&mut Network)) {
        let network = self.networks.entry(address).or_default();
        self.ranks.remove(&(network.places.len(), Reverse(network.changed), address));
        change(network);
        self.changes += 1;
        network.changed = self.changes;
        if network.places.is_empty() {
            self.networks.remove(&address);
        } else {
            self.ranks.insert((network.places.len(), Reverse(network.changed), address));
        }
    }
}

/// The time after which an idle connection goes, where a pool with so many connections has less patience than
/// others: from all of the idle time at half of the connections down to a tenth at all of them.
fn pressed_idle(limits: &Limits, connections: usize) -> Option<Duration> {
    let most = u32::try_from(limits.connections).unwrap_or(u32::MAX).max(1);
    let free = most.saturating_sub(u32::try_from(connections).unwrap_or(u32::MAX));
    if free >= most.div_ceil(2) {
        return None;
    }
    Some((limits.idle / most * 2 * free).max(limits.idle / PRESSED_PART))
}

/// What counts as one address: an address of IPv4, or a /64 of IPv6, of which one host has all addresses.
fn address_of(client: IpAddr) -> IpAddr {
    cut(client, 32, 64)
}

/// What counts as one network: a /24 of IPv4, or a /56 of IPv6.
fn network_of(client: IpAddr) -> IpAddr {
    cut(client, 24, 56)
}

/// The first address of the client's network of this length, IPv4 and IPv6.
fn cut(client: IpAddr, v4_bits: u32, v6_bits: u32) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(address) => IpAddr::from((address.to_bits() & (u32::MAX << (32 - v4_bits))).to_be_bytes()),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - v6_bits))).into(),
    }
}

#[cfg(test)]
mod tests;
