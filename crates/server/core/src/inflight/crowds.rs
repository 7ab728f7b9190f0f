//! Who takes how much of what has a limit.
//!
//! A crowd is what shares a limit: all that waits, or all lookups of one zone or at one upstream server. Its
//! members are counted by the network of the client that wants them. The network with the most members gives
//! up its oldest one when another needs the room, so that a flood takes room from nobody but itself.
//!
//! The networks of a crowd stand in ranks, by the number of their members. A member that comes or goes moves
//! its network to the next rank, and the last rank has the networks with the most: nothing is searched.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, RandomState};
use std::net::IpAddr;

use super::chain::{Links, List};
use super::lookups::PrehashedHasher;
use crate::buckets::network;

/// The number of no share.
const NONE: u32 = u32::MAX;

/// The crowd of all members.
pub const ALL: u64 = 0;

/// A network of clients, as a keyed hash: /24 of IPv4, /56 of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(u64);

impl Network {
    /// That of members that no client waits for. They are the first to go.
    pub const NOBODY: Self = Self(u64::MAX);
}

/// Crowds and their members. A member is a number; it is in one crowd at most.
pub struct Crowds {
    hash: RandomState,
    crowds: HashMap<u64, Crowd, BuildHasherDefault<PrehashedHasher>>,
    /// The shares, by crowd and network together.
    numbers: HashMap<u64, u32, BuildHasherDefault<PrehashedHasher>>,
    shares: Slab<Share>,
    ranks: Slab<Rank>,
    members: Links,
    /// The share that each member belongs to.
    share_of: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct Crowd {
    members: u32,
    /// By the number of members, the fewest first.
    ranks: List,
}

/// The members of one network in one crowd.
#[derive(Clone, Copy)]
struct Share {
    crowd: u64,
    key: u64,
    rank: usize,
    members: List,
}

/// The networks of a crowd that have the same number of members.
#[derive(Clone, Copy)]
struct Rank {
    count: u32,
    shares: List,
}

impl Crowds {
    /// For so many members, without an allocation later.
    pub fn new(members: usize) -> Self {
        let map = || HashMap::with_capacity_and_hasher(members, BuildHasherDefault::default());
        Self {
            hash: RandomState::new(),
            crowds: map(),
            numbers: HashMap::with_capacity_and_hasher(members, BuildHasherDefault::default()),
            shares: Slab::new(members),
            // One more: a network enters a rank before it leaves another.
            ranks: Slab::new(members + 1),
            members: Links::new(members),
            share_of: vec![NONE; members],
        }
    }

    /// The network of a client.
    pub fn network(&self, client: IpAddr) -> Network {
        // Never that of nobody.
        Network(self.hash.hash_one(network(client)) >> 1)
    }

    /// The number of members of a crowd.
    pub fn len(&self, crowd: u64) -> u32 {
        self.crowds.get(&crowd).map_or(0, |crowd| crowd.members)
    }

    /// How many of them a network has.
    pub fn share(&self, crowd: u64, network: Network) -> u32 {
        let share = self.numbers.get(&key(crowd, network));
        share.map_or(0, |&share| self.ranks.items[self.shares.items[share as usize].rank].count)
    }

    /// The member that has to go when a crowd has no room: the oldest of those that nobody waits for, or else
    /// the oldest of the network with the most. With it comes how many that network has; the largest number
    /// for nobody.
    pub fn first_to_go(&self, crowd: u64) -> Option<(usize, u32)> {
        let oldest = |share: usize| self.shares.items[share].members.first();
        if let Some(&share) = self.numbers.get(&key(crowd, Network::NOBODY)) {
            return Some((oldest(share as usize)?, u32::MAX));
        }
        let Rank { count, shares } = self.ranks.items[self.crowds.get(&crowd)?.ranks.last()?];
        Some((oldest(shares.first()?)?, count))
    }

    /// Puts a member, which is in no crowd, into one, as the youngest of its network there.
    pub fn join(&mut self, member: usize, crowd: u64, network: Network) {
        let whole = self.crowds.entry(crowd).or_default();
        whole.members += 1;
        let key = key(crowd, network);
        let number = match self.numbers.get(&key) {
            Some(&number) => {
                let share = &mut self.shares.items[number as usize];
                share.rank =
                    self.ranks.raise(&mut whole.ranks, share.rank, number as usize, &mut self.shares.links);
                number as usize
            }
            None => {
                let number = self.shares.insert(Share { crowd, key, rank: 0, members: List::default() });
                self.numbers.insert(key, number as u32);
                self.shares.items[number].rank =
                    self.ranks.enter(&mut whole.ranks, number, &mut self.shares.links);
                number
            }
        };
        self.members.append(&mut self.shares.items[number].members, member);
        self.share_of[member] = number as u32;
    }

    /// Takes a member out of its crowd, if it is in one.
    pub fn leave(&mut self, member: usize) {
        let number = std::mem::replace(&mut self.share_of[member], NONE);
        if number == NONE {
            return;
        }
        let share = &mut self.shares.items[number as usize];
        self.members.remove(&mut share.members, member);
        let Share { crowd, key, rank, members } = *share;
        let Some(whole) = self.crowds.get_mut(&crowd) else { return };
        whole.members -= 1;
        let lower = self.ranks.lower(&mut whole.ranks, rank, number as usize, &mut self.shares.links);
        match lower {
            Some(lower) => self.shares.items[number as usize].rank = lower,
            None => {
                debug_assert!(members.is_empty(), "a share without a rank");
                self.shares.remove(number as usize);
                self.numbers.remove(&key);
                if whole.members == 0 {
                    self.crowds.remove(&crowd);
                }
            }
        }
    }
}

/// Crowd and network as one number, both of them hashes or few.
fn key(crowd: u64, network: Network) -> u64 {
    crowd.rotate_left(32) ^ network.0
}

/// Items by numbers that are used again.
struct Slab<T> {
    items: Vec<T>,
    free: Vec<u32>,
    links: Links,
}

impl<T> Slab<T> {
    fn new(items: usize) -> Self {
        Self { items: Vec::with_capacity(items), free: Vec::with_capacity(items), links: Links::new(items) }
    }

    fn insert(&mut self, item: T) -> usize {
        match self.free.pop() {
            Some(number) => {
                self.items[number as usize] = item;
                number as usize
            }
            None => {
                self.items.push(item);
                self.items.len() - 1
            }
        }
    }

    fn remove(&mut self, number: usize) {
        self.free.push(number as u32);
    }
}

impl Slab<Rank> {
    /// A new share, with one member, takes its place in the first rank, whose number this returns.
    fn enter(&mut self, ranks: &mut List, share: usize, shares: &mut Links) -> usize {
        let first = ranks.first().filter(|&first| self.items[first].count == 1);
        let rank = first.unwrap_or_else(|| self.found(ranks, None, 1));
        shares.append(&mut self.items[rank].shares, share);
        rank
    }

    /// A share has one member more: returns its rank.
    fn raise(&mut self, ranks: &mut List, rank: usize, share: usize, shares: &mut Links) -> usize {
        let count = self.items[rank].count + 1;
        let next = self.links.next(rank).filter(|&next| self.items[next].count == count);
        self.shift(ranks, (rank, next), Some(rank), count, share, shares)
    }

    /// A share has one member less: returns its rank, if there is a member left.
    fn lower(&mut self, ranks: &mut List, rank: usize, share: usize, shares: &mut Links) -> Option<usize> {
        let count = self.items[rank].count - 1;
        if count == 0 {
            shares.remove(&mut self.items[rank].shares, share);
            self.end_if_empty(ranks, rank);
            return None;
        }
        let before = self.links.previous(rank);
        let same = before.filter(|&before| self.items[before].count == count);
        Some(self.shift(ranks, (rank, same), before, count, share, shares))
    }

    /// Moves a share to the rank of its count, which is a new one after `place` if there is none. A rank that
    /// has the share alone becomes that rank.
    fn shift(
        &mut self,
        ranks: &mut List,
        (from, to): (usize, Option<usize>),
        place: Option<usize>,
        count: u32,
        share: usize,
        shares: &mut Links,
    ) -> usize {
        let rank = &mut self.items[from];
        if to.is_none() && rank.shares.first() == rank.shares.last() {
            rank.count = count;
            return from;
        }
        let to = to.unwrap_or_else(|| self.found(ranks, place, count));
        shares.remove(&mut self.items[from].shares, share);
        shares.append(&mut self.items[to].shares, share);
        self.end_if_empty(ranks, from);
        to
    }

    /// A new rank after this one, or the first.
    fn found(&mut self, ranks: &mut List, after: Option<usize>, count: u32) -> usize {
        let rank = self.insert(Rank { count, shares: List::default() });
        self.links.insert(ranks, after, rank);
        rank
    }

    fn end_if_empty(&mut self, ranks: &mut List, rank: usize) {
        if self.items[rank].shares.is_empty() {
            self.links.remove(ranks, rank);
            self.remove(rank);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_heaviest_network_gives_up_its_oldest_member_and_nobody_goes_first() {
        let mut crowds = Crowds::new(8);
        let [light, heavy] = ["192.0.2.1", "2001:db8::1"].map(|text| crowds.network(text.parse().unwrap()));
        assert_eq!(crowds.first_to_go(ALL), None);
        for (member, network) in [light, heavy, heavy, light, heavy].into_iter().enumerate() {
            crowds.join(member, ALL, network);
        }
        assert_eq!((crowds.len(ALL), crowds.share(ALL, light), crowds.share(ALL, heavy)), (5, 2, 3));
        assert_eq!(crowds.first_to_go(ALL), Some((1, 3)));
        crowds.join(5, ALL, Network::NOBODY);
        assert_eq!(crowds.first_to_go(ALL), Some((5, u32::MAX)));
        crowds.join(6, 7, light);
        assert_eq!((crowds.first_to_go(7), crowds.share(ALL, light)), (Some((6, 1)), 2), "another crowd");
    }

    #[test]
    fn addresses_of_a_network_are_one() {
        let crowds = Crowds::new(1);
        let [a, same, other] =
            ["192.0.2.1", "::ffff:192.0.2.9", "192.0.3.1"].map(|text| crowds.network(text.parse().unwrap()));
        assert!(a == same && a != other);
    }

    proptest! {
        /// Whatever comes and goes, counts and the first to go are those of a list.
        #[test]
        fn crowds_agree_with_a_list(steps in prop::collection::vec((0usize..12, 0u64..3, 0u64..4), 0..200)) {
            let mut crowds = Crowds::new(12);
            let mut model: Vec<(usize, u64, u64)> = Vec::new();
            for (member, crowd, network) in steps {
                match model.iter().position(|&(known, ..)| known == member) {
                    Some(at) => {
                        crowds.leave(member);
                        crowds.leave(member);
                        model.remove(at);
                    }
                    None => {
                        crowds.join(member, crowd, Network(network));
                        model.push((member, crowd, network));
                    }
                }
                for crowd in 0..3 {
                    let of = |network| model.iter().filter(|m| (m.1, m.2) == (crowd, network)).count() as u32;
                    let counts = [0, 1, 2, 3].map(of);
                    prop_assert_eq!([0, 1, 2, 3].map(|number| crowds.share(crowd, Network(number))), counts);
                    prop_assert_eq!(crowds.len(crowd), counts.iter().sum::<u32>());
                    let most = counts.into_iter().max().unwrap();
                    match crowds.first_to_go(crowd) {
                        None => prop_assert_eq!(most, 0),
                        Some((member, count)) => {
                            prop_assert_eq!(count, most);
                            let its = model.iter().find(|m| m.0 == member).unwrap().2;
                            prop_assert_eq!(of(its), most);
                            let oldest = model.iter().find(|m| (m.1, m.2) == (crowd, its)).unwrap().0;
                            prop_assert_eq!(member, oldest);
                        }
                    }
                }
            }
            for member in 0..12 {
                crowds.leave(member);
            }
            prop_assert!(crowds.crowds.is_empty() && crowds.numbers.is_empty());
            prop_assert_eq!(crowds.ranks.free.len(), crowds.ranks.items.len());
        }
    }
}
