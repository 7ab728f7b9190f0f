//! From a hash to the positions of entries: buckets of a cache line, so that a look-up costs one.

use super::entry::UNIT_OCTETS;

/// The slots of a bucket: 64 octets.
const BUCKET_SLOTS: usize = 16;
/// The octets of a slot.
const SLOT_OCTETS: usize = 4;
/// A slot holds eight bits of the hash above this many bits of the position, in units.
const POSITION_BITS: u32 = 24;
const POSITION_MASK: u32 = (1 << POSITION_BITS) - 1;

/// The largest position plus one that a slot can hold.
pub(super) const POSITION_END: usize = UNIT_OCTETS << POSITION_BITS;
/// The octets of a bucket, a cache line.
pub(super) const BUCKET_OCTETS: usize = BUCKET_SLOTS * SLOT_OCTETS;

/// An open-addressed table of fixed size. A slot of 0 is free: no entry stands at position 0.
#[derive(Debug)]
pub(super) struct Index {
    slots: Vec<u32>,
    /// The slots before the first cache line.
    skipped: usize,
    buckets: u32,
}

impl Index {
    /// An index of so many buckets, at least one.
    pub(super) fn new(buckets: u32) -> Self {
        let buckets = buckets.max(1);
        let slots = vec![0; (buckets as usize + 1) * BUCKET_SLOTS];
        let skipped = slots.as_ptr().align_offset(BUCKET_OCTETS).min(BUCKET_SLOTS);
        Self { slots, skipped, buckets }
    }

    /// The memory of an index of so many buckets.
    pub(super) fn octets(buckets: u32) -> usize {
        (buckets.max(1) as usize + 1) * BUCKET_OCTETS
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.slots.fill(0);
    }

    /// Where the hash's bucket begins: the upper bits choose it, the lower eight tell its entries apart.
    fn bucket_at(&self, hash: u32) -> usize {
        let bucket = (u64::from(hash) * u64::from(self.buckets)) >> 32;
        self.skipped + bucket as usize * BUCKET_SLOTS
    }

    fn bucket(&self, hash: u32) -> &[u32] {
        let at = self.bucket_at(hash);
        &self.slots[at..at + BUCKET_SLOTS]
    }

    fn bucket_mut(&mut self, hash: u32) -> &mut [u32] {
        let at = self.bucket_at(hash);
        &mut self.slots[at..at + BUCKET_SLOTS]
    }

    /// The positions of the entries that may have this hash.
    pub(super) fn candidates(&self, hash: u32) -> impl Iterator<Item = usize> {
        let tag = tag(hash);
        let alike = move |slot: u32| slot != 0 && slot & !POSITION_MASK == tag;
        self.bucket(hash).iter().filter(move |slot| alike(**slot)).map(|&slot| position(slot))
    }

    /// Whether an entry with this hash is known to stand at `at`.
    pub(super) fn holds(&self, hash: u32, at: usize) -> bool {
        self.bucket(hash).contains(&slot(hash, at))
    }

    /// Says that the entry at `from` stands at `to` now; `false` where it was not known.
    pub(super) fn relocate(&mut self, hash: u32, from: usize, to: usize) -> bool {
        self.replace(hash, slot(hash, from), slot(hash, to))
    }

    /// Forgets the entry at `at`; `false` where it was not known.
    pub(super) fn remove(&mut self, hash: u32, at: usize) -> bool {
        self.replace(hash, slot(hash, at), 0)
    }

    /// Adds an entry. Where the bucket is full, the entry of most `seniority` gives way: its position is
    /// returned.
    pub(super) fn insert(
        &mut self,
        hash: u32,
        at: usize,
        seniority: impl Fn(usize) -> usize,
    ) -> Option<usize> {
        let new = slot(hash, at);
        if self.replace(hash, 0, new) {
            return None;
        }
        let oldest = self.bucket_mut(hash).iter_mut().max_by_key(|slot| seniority(position(**slot)))?;
        Some(position(std::mem::replace(oldest, new)))
    }

    fn replace(&mut self, hash: u32, old: u32, new: u32) -> bool {
        let place = self.bucket_mut(hash).iter_mut().find(|slot| **slot == old);
        place.map(|slot| *slot = new).is_some()
    }
}

fn tag(hash: u32) -> u32 {
    hash << POSITION_BITS
}

fn slot(hash: u32, at: usize) -> u32 {
    tag(hash) | (at / UNIT_OCTETS) as u32 & POSITION_MASK
}

fn position(slot: u32) -> usize {
    (slot & POSITION_MASK) as usize * UNIT_OCTETS
}
