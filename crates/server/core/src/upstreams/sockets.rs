//! Which socket the next query to an upstream server leaves from.
//!
//! While new sockets are plenty, each query has one of its own. Otherwise the queries of one moment share a
//! socket: a burst. A used socket is drained: when its last query has ended, the caller replaces it with a
//! new socket at another port. While the caller has no new socket ready, bursts leave from sockets drawn at
//! random among all.

use crate::ids::Random;

/// Queries of one moment that leave from one socket, at most: they are one message to the kernel
/// (`UDP_SEGMENT`).
const QUERIES_OF_A_BURST: u8 = 32;

/// More queries of one moment than this say that the thread is busy.
const QUERIES_AT_LEISURE: u32 = 2;
/// A busy thread renews a socket after so many queries: opening one costs as much as some queries do.
const QUERIES_FOR_A_RENEWAL: u32 = 512;
/// Without a query for so long the thread is not busy.
const LEISURE_NS: u64 = 1_000_000;

/// The sockets towards one server, by their numbers.
#[derive(Clone, Debug)]
pub(super) struct Sockets {
    places: Vec<Place>,
    /// Sockets that nothing has left from.
    fresh: Vec<u16>,
    /// Sockets whose last query has ended, or had, when they were listed.
    drained: Vec<u16>,
    current: usize,
    left: u8,
    /// When the burst began: all its queries leave then.
    moment_ns: u64,
    /// Queries of the last moment, and since the last renewal.
    of_moment: u32,
    since_renewal: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    in_flight: u32,
    /// It is among the drained.
    listed: bool,
}

impl Sockets {
    /// So many sockets, at least one, all of them new.
    pub fn new(count: usize) -> Self {
        let count = count.clamp(1, usize::from(u16::MAX));
        Self {
            places: vec![Place::default(); count],
            fresh: (0..count as u16).rev().collect(),
            drained: Vec::with_capacity(count),
            current: 0,
            left: 0,
            moment_ns: 0,
            of_moment: 0,
            since_renewal: 0,
        }
    }

    /// The number of the socket for the next query.
    pub fn draw(&mut self, now_ns: u64, random: &mut Random) -> usize {
        self.of_moment = if now_ns == self.moment_ns { self.of_moment + 1 } else { 1 };
        self.since_renewal = self.since_renewal.saturating_add(1);
        if !self.is_bursting(now_ns) {
            let plenty = self.fresh.len() > self.places.len() / 2;
            self.current = match self.fresh.pop() {
                Some(fresh) => usize::from(fresh),
                None => random.below(self.places.len()),
            };
            self.left = if plenty { 1 } else { QUERIES_OF_A_BURST };
        }
        self.moment_ns = now_ns;
        self.left -= 1;
        self.current
    }

    /// A query leaves from a socket.
    pub fn sent(&mut self, socket: usize) {
        if let Some(place) = self.places.get_mut(socket) {
            place.in_flight += 1;
        }
    }

    /// A query that left from a socket has ended.
    pub fn ended(&mut self, socket: usize) {
        let Some(place) = self.places.get_mut(socket) else { return };
        place.in_flight = place.in_flight.saturating_sub(1);
        if place.in_flight == 0 && !std::mem::replace(&mut place.listed, true) {
            self.drained.push(socket as u16);
        }
    }

    /// A socket that is used and waits for nothing, whose burst is over: the caller renews it now and says so
    /// by [`Sockets::renewed`]. A busy thread is given few.
    pub fn take_drained(&mut self, now_ns: u64) -> Option<usize> {
        let is_busy = self.of_moment > QUERIES_AT_LEISURE && now_ns < self.moment_ns + LEISURE_NS;
        if is_busy && self.since_renewal < QUERIES_FOR_A_RENEWAL {
            return None;
        }
        let open = self.is_bursting(now_ns).then_some(self.current);
        loop {
            let at = self.drained.iter().position(|&socket| Some(usize::from(socket)) != open)?;
            let socket = usize::from(self.drained.swap_remove(at));
            self.places[socket].listed = false;
            // One that was drawn again is listed again when its queries have ended.
            if self.places[socket].in_flight == 0 {
                return Some(socket);
            }
        }
    }

    /// A new socket has this number.
    pub fn renewed(&mut self, socket: usize) {
        self.since_renewal = 0;
        self.fresh.push(socket as u16);
    }

    fn is_bursting(&self, now_ns: u64) -> bool {
        self.left > 0 && now_ns == self.moment_ns
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sockets_change_after_a_few_queries_and_from_moment_to_moment() {
        let few = usize::from(QUERIES_OF_A_BURST);
        for (apart_ns, together) in [(0, few), (1, 1)] {
            let (mut sockets, mut random) = (Sockets::new(64), Random::new([3; 32]));
            let mut draw = |n: u64| sockets.draw(n * apart_ns, &mut random);
            // Half of them are taken one by one, the rest by bursts.
            let firsts: HashSet<usize> = (0..32).map(&mut draw).collect();
            assert_eq!(firsts.len(), 32);
            let drawn: Vec<usize> = (32..32 + 100 * together as u64).map(&mut draw).collect();
            assert!(drawn.chunks(together).all(|chunk| chunk.iter().all(|socket| *socket == chunk[0])));
            let seconds: HashSet<usize> = drawn.chunks(together).take(32).map(|chunk| chunk[0]).collect();
            assert!(seconds.len() == 32 && seconds.is_disjoint(&firsts), "the new ones come first");
            let later: HashSet<_> = drawn.chunks(together).skip(32).map(|chunk| chunk[0]).collect();
            assert!(later.len() > 20, "then chance: {}", later.len());
        }
    }

    /// Ports that somebody has learnt are of no use any more.
    #[test]
    fn attack_no_burst_leaves_from_a_socket_of_an_earlier_one() {
        let (mut sockets, mut random) = (Sockets::new(4), Random::new([3; 32]));
        let (mut ports, mut next_port) = (vec![0, 1, 2, 3], 4);
        let mut seen = HashSet::new();
        for burst in 0..1_000 {
            let now_ns = burst;
            let socket = sockets.draw(now_ns, &mut random);
            sockets.sent(socket);
            assert!(seen.insert(ports[socket]), "burst {burst}");
            sockets.ended(socket);
            let drained = sockets.take_drained(now_ns + 1).unwrap();
            assert_eq!(drained, socket);
            (ports[socket], next_port) = (next_port, next_port + 1);
            sockets.renewed(socket);
        }
    }

    #[test]
    fn a_busy_thread_renews_a_socket_after_many_queries() {
        let (mut sockets, mut random) = (Sockets::new(64), Random::new([3; 32]));
        let (mut renewed, mut queries) = (0, 0);
        for moment in 0..500 {
            for _ in 0..20 {
                let socket = sockets.draw(moment, &mut random);
                sockets.sent(socket);
                sockets.ended(socket);
                queries += 1;
            }
            if let Some(drained) = sockets.take_drained(moment) {
                sockets.renewed(drained);
                renewed += 1;
            }
        }
        // Not sooner than said, and at most one moment later.
        let (most, least) = (queries / QUERIES_FOR_A_RENEWAL, queries / (QUERIES_FOR_A_RENEWAL + 20));
        assert!((least..=most).contains(&renewed), "{renewed} for {queries}");
        assert!(sockets.take_drained(500 + LEISURE_NS).is_some(), "there is time");
    }

    proptest! {
        /// Whatever is drawn and ended, nothing is renewed that still waits, and everything is in the end.
        #[test]
        fn only_drained_sockets_are_renewed(steps in prop::collection::vec((0u8..3, 0u64..3), 0..300)) {
            let (mut sockets, mut random) = (Sockets::new(5), Random::new([4; 32]));
            let (mut in_flight, mut now_ns) = (Vec::new(), 0);
            for (step, moment) in steps {
                now_ns += moment;
                match step {
                    0 => {
                        let socket = sockets.draw(now_ns, &mut random);
                        sockets.sent(socket);
                        in_flight.push(socket);
                    }
                    1 if !in_flight.is_empty() => sockets.ended(in_flight.swap_remove(0)),
                    _ => if let Some(drained) = sockets.take_drained(now_ns) {
                        prop_assert!(!in_flight.contains(&drained));
                        sockets.renewed(drained);
                    }
                }
            }
            in_flight.into_iter().for_each(|socket| sockets.ended(socket));
            while let Some(drained) = sockets.take_drained(now_ns + LEISURE_NS) {
                sockets.renewed(drained);
            }
            let fresh: HashSet<_> = sockets.fresh.iter().collect();
            prop_assert_eq!((fresh.len(), sockets.fresh.len()), (5, 5));
        }
    }
}
