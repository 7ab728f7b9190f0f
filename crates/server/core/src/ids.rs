//! Query IDs: random, and unique in flight on each upstream socket by construction (RFC 5452 4.3).

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Octets drawn from the generator at once.
const POOL_OCTETS: usize = 1024;

/// A cryptographic generator that is asked in bulk: 16 bits cost a copy.
pub struct Random {
    generator: ChaCha12Rng,
    pool: [u8; POOL_OCTETS],
    at: usize,
}

impl Random {
    /// Starts from a seed, which must be secret: the operating system's, or a simulation's.
    pub fn new(seed: [u8; 32]) -> Self {
        Self { generator: ChaCha12Rng::from_seed(seed), pool: [0; POOL_OCTETS], at: POOL_OCTETS }
    }

    /// Takes in another secret. Whoever knows only the generator's state or only the secret knows nothing of
    /// what is drawn from now on.
    pub fn renew(&mut self, secret: [u8; 32]) {
        let mut seed = self.seed();
        seed.iter_mut().zip(secret).for_each(|(octet, other)| *octet ^= other);
        *self = Self::new(seed);
    }

    /// 16 random bits.
    pub fn word(&mut self) -> u16 {
        if self.at == POOL_OCTETS {
            self.generator.fill_bytes(&mut self.pool);
            self.at = 0;
        }
        let word = u16::from_ne_bytes([self.pool[self.at], self.pool[self.at + 1]]);
        self.at += 2;
        word
    }

    /// A number below `bound`, which is at most 65536 and not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (usize::from(self.word()) * bound) >> 16
    }

    /// A secret of 32 octets.
    pub fn seed(&mut self) -> [u8; 32] {
        self.bits()
    }

    /// A secret of 16 octets.
    pub fn secret(&mut self) -> [u8; 16] {
        let mut secret = [0; 16];
        self.generator.fill_bytes(&mut secret);
        secret
    }

    /// Random bits for a whole name.
    pub fn bits(&mut self) -> [u8; 32] {
        let mut bits = [0; 32];
        self.generator.fill_bytes(&mut bits);
        bits
    }
}

/// A place of the table that holds nothing.
const EMPTY: Entry = Entry { key: u32::MAX, slot: 0 };

/// The IDs in flight of all upstream sockets of one thread: an open-addressed table from (socket, ID) to the
/// slot of the lookup. A match is one look, two lookups of a socket can never share an ID, and the table is
/// as large as the slab of lookups wants it, however many sockets there are.
pub struct Ids {
    places: Box<[Entry]>,
    mask: usize,
    taken: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    /// The number of the socket above the ID.
    key: u32,
    slot: u16,
}

impl Ids {
    /// Sockets that can be told apart at most.
    pub const SOCKETS_MAX: usize = u16::MAX as usize;

    /// Room for the IDs of `lookups` lookups.
    pub fn new(lookups: usize) -> Self {
        // Half full at most, so that a search ends soon.
        let places = (2 * lookups.max(8)).next_power_of_two();
        Self { places: vec![EMPTY; places].into_boxed_slice(), mask: places - 1, taken: 0 }
    }

    /// Gives an ID that is free on this socket (below [`Ids::SOCKETS_MAX`]), drawn at random, to the lookup
    /// in `slot`. `None` when the table is full or so many IDs of the socket are taken that 64 draws found
    /// none.
    pub fn take(&mut self, socket: usize, slot: u16, random: &mut Random) -> Option<u16> {
        if 2 * self.taken >= self.places.len() {
            return None;
        }
        for _ in 0..64 {
            let id = random.word();
            let key = key(socket, id);
            if let Err(free) = self.find(key) {
                self.places[free] = Entry { key, slot };
                self.taken += 1;
                return Some(id);
            }
        }
        None
    }

    /// The slot of the lookup with this ID on this socket.
    pub fn slot(&self, socket: usize, id: u16) -> Option<u16> {
        self.find(key(socket, id)).ok().map(|at| self.places[at].slot)
    }

    /// Frees an ID.
    pub fn release(&mut self, socket: usize, id: u16) {
        let Ok(mut hole) = self.find(key(socket, id)) else { return };
        self.taken -= 1;
        // What stands behind the hole moves up where it may, so that no search ends too early.
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let place = self.places[at];
            if place == EMPTY {
                break;
            }
            let distance_home = at.wrapping_sub(self.home(place.key)) & self.mask;
            let distance_hole = at.wrapping_sub(hole) & self.mask;
            if distance_home >= distance_hole {
                self.places[hole] = place;
                hole = at;
            }
        }
        self.places[hole] = EMPTY;
    }

    /// How many IDs are in flight.
    pub fn outstanding(&self) -> usize {
        self.taken
    }

    /// Where the key stands, or the free place where it belongs.
    fn find(&self, key: u32) -> Result<usize, usize> {
        let mut at = self.home(key);
        loop {
            match self.places[at] {
                place if place.key == key => return Ok(at),
                EMPTY => return Err(at),
                _ => at = (at + 1) & self.mask,
            }
        }
    }

    /// IDs are random; the product spreads the numbers of the sockets over the table.
    fn home(&self, key: u32) -> usize {
        (u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & self.mask
    }
}

/// Never that of an empty place: sockets end below the largest number.
fn key(socket: usize, id: u16) -> u32 {
    let socket = socket.min(Ids::SOCKETS_MAX - 1) as u32;
    socket << 16 | u32::from(id)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_in_flight_are_unique_on_their_socket() {
        let (mut ids, mut random) = (Ids::new(4096), Random::new([1; 32]));
        let mut taken = HashMap::new();
        while let Some(id) = ids.take(taken.len() % 3, 7, &mut random) {
            assert_eq!(taken.insert((taken.len() % 3, id), ()), None, "{id} twice");
        }
        assert_eq!(taken.len(), 4096);
        for (socket, id) in taken.into_keys() {
            assert_eq!(ids.slot(socket, id), Some(7));
            ids.release(socket, id);
            assert_eq!(ids.slot(socket, id), None);
        }
        ids.release(0, 0);
        assert_eq!(ids.outstanding(), 0);
    }

    #[test]
    fn attack_a_known_state_is_worth_nothing_after_a_renewal() {
        let draw = |secret| {
            let mut random = Random::new([3; 32]);
            random.renew(secret);
            random.seed()
        };
        assert_eq!(draw([1; 32]), draw([1; 32]), "a simulation repeats itself");
        assert!(draw([1; 32]) != draw([2; 32]) && draw([0; 32]) != Random::new([3; 32]).seed());
    }

    #[test]
    fn draws_cover_the_whole_range() {
        let mut random = Random::new([2; 32]);
        let mut seen = [0u32; 16];
        for _ in 0..16_000 {
            seen[random.below(16)] += 1;
        }
        assert!(seen.iter().all(|&count| (800..1200).contains(&count)), "{seen:?}");
    }

    proptest! {
        /// Whatever is taken and released, the table agrees with a map.
        #[test]
        fn the_table_is_a_map(steps in prop::collection::vec((0usize..4, 0u16..50, any::<bool>()), 0..300), seed: [u8; 32]) {
            let (mut ids, mut random) = (Ids::new(64), Random::new(seed));
            let mut model: Vec<(usize, u16, u16)> = Vec::new();
            for (socket, slot, take) in steps {
                if take {
                    match ids.take(socket, slot, &mut random) {
                        Some(id) => model.push((socket, id, slot)),
                        None => prop_assert_eq!(model.len(), 64),
                    }
                } else if !model.is_empty() {
                    let (socket, id, _) = model.swap_remove(usize::from(slot) % model.len());
                    ids.release(socket, id);
                }
                prop_assert_eq!(ids.outstanding(), model.len());
                for &(socket, id, slot) in &model {
                    prop_assert_eq!(ids.slot(socket, id), Some(slot));
                }
            }
        }
    }
}
