//! Query IDs: random, and unique in flight on each upstream socket by construction.

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

    /// Random bits for a whole name.
    pub fn bits(&mut self) -> [u8; 32] {
        let mut bits = [0; 32];
        self.generator.fill_bytes(&mut bits);
        bits
    }
}

/// The slot number that means none.
const FREE: u16 = u16::MAX;

/// Half of all IDs, so that a random draw soon finds a free one.
const OUTSTANDING_MAX: u32 = 1 << 15;

/// The IDs in flight on one socket: a slot for each of the 65536, so a match is one look and two queries can never
/// share an ID.
pub struct Ids {
    slots: Box<[u16]>,
    outstanding: u32,
}

impl Ids {
    /// All IDs free.
    pub fn new() -> Self {
        Self { slots: vec![FREE; 1 << 16].into_boxed_slice(), outstanding: 0 }
    }

    /// Gives a free ID, drawn at random, to the query in `slot` (below 65535). `None` when half of all are taken.
    pub fn take(&mut self, slot: u16, random: &mut Random) -> Option<u16> {
        if self.outstanding >= OUTSTANDING_MAX {
            return None;
        }
        // Each draw finds a free ID with a chance of over one half: 64 in vain will not be seen.
        let id = (0..64).map(|_| random.word()).find(|&id| self.slots[usize::from(id)] == FREE)?;
        self.slots[usize::from(id)] = slot;
        self.outstanding += 1;
        Some(id)
    }

    /// The slot of the query with this ID.
    pub fn slot(&self, id: u16) -> Option<u16> {
        Some(self.slots[usize::from(id)]).filter(|&slot| slot != FREE)
    }

    /// Frees an ID.
    pub fn release(&mut self, id: u16) {
        let place = &mut self.slots[usize::from(id)];
        if std::mem::replace(place, FREE) != FREE {
            self.outstanding -= 1;
        }
    }

    /// How many IDs are in flight.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }
}

impl Default for Ids {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_flight_are_unique_and_half_of_all_at_most() {
        let (mut ids, mut random) = (Ids::new(), Random::new([1; 32]));
        let mut taken = std::collections::HashSet::new();
        while let Some(id) = ids.take(7, &mut random) {
            assert!(taken.insert(id), "{id} twice");
            assert_eq!(ids.slot(id), Some(7));
        }
        assert_eq!(taken.len(), 1 << 15);
        for id in taken {
            ids.release(id);
            assert_eq!(ids.slot(id), None);
        }
        ids.release(0);
        assert_eq!(ids.outstanding(), 0);
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
}
