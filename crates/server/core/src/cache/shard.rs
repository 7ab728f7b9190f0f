//! A part of the cache behind one lock: a ring of entries and the index into it.

use dns64::steps;

use super::counts::CacheCounts;
use super::entry::{Header, KINDS, Kind};
use super::index::{BUCKET_OCTETS, Index, POSITION_END};
use super::ring::Ring;
use super::{Found, ttls};

/// One part in so many of the memory is the index: at 100 octets an entry, the shortest, six of ten slots are
/// used.
const INDEX_SHARE: usize = 16;
/// The longest entry, in octets.
const ENTRY_OCTETS_MAX: usize = u16::MAX as usize;
/// No entry takes up more than one part in so many of a ring.
const ENTRY_SHARE: usize = 8;
/// How many entries one insertion carries over at most, which bounds its time.
const CARRIED_MAX: u32 = 16;
/// An entry announces its end only if its life is at least so long, in seconds.
const ANNOUNCED_LIFE_S: u32 = 10;

/// The most memory that a shard can make use of, in octets.
pub(super) const SHARD_OCTETS_MAX: usize = POSITION_END;

/// Replies, failures and names that do not exist, found by the octets of their keys.
///
/// Entries are evicted in the order in which they were written; one that was found since then is written once
/// more instead, so that one-time names pass through and those in use stay (the second chance of FIFO
/// caches).
#[derive(Debug)]
pub(super) struct Shard {
    index: Index,
    ring: Ring,
    live: [u64; KINDS],
    counts: CacheCounts,
}

impl Shard {
    /// A shard in so many octets of memory, its index included.
    pub(super) fn new(octets: usize) -> Self {
        let octets = octets.min(SHARD_OCTETS_MAX);
        let buckets = (octets / INDEX_SHARE / BUCKET_OCTETS) as u32;
        let ring = Ring::new(octets.saturating_sub(Index::octets(buckets)));
        Self { index: Index::new(buckets), ring, live: [0; KINDS], counts: CacheCounts::default() }
    }

    /// How many entries of each kind it holds.
    pub(super) fn live(&self) -> [u64; KINDS] {
        self.live
    }

    /// What it holds and has counted.
    pub(super) fn counts(&self) -> CacheCounts {
        let [entries, failures, nxdomains] = self.live;
        CacheCounts {
            entries,
            failures,
            nxdomains,
            octets: self.ring.used_octets() as u64,
            octets_max: self.ring.room_octets() as u64,
            ..self.counts
        }
    }

    /// The entry of a key: where it stands, and its header.
    fn find(&self, hash: u32, kind: Kind, key: &[u8]) -> Option<(usize, Header)> {
        self.index.candidates(hash).find_map(|position| {
            let entry = self.ring.at(position);
            let header = Header::read(entry);
            let same = (header.hash, header.kind) == (hash, kind) && header.key(entry) == key;
            same.then_some((position, header))
        })
    }

    /// The header and the value of a key's entry whose value is one word.
    pub(super) fn word(&mut self, hash: u32, kind: Kind, key: &[u8]) -> Option<(Header, u16)> {
        let (position, header) = self.find(hash, kind, key)?;
        let entry = self.ring.at_mut(position);
        if !header.hit {
            Header { hit: true, ..header }.write(entry);
        }
        let (_, value) = header.parts(entry);
        Some((header, u16::from_be_bytes(*value.first_chunk()?)))
    }

    /// Writes an entry whose value is one word.
    pub(super) fn write_word(&mut self, header: &Header, key: &[u8], value: u16) {
        self.write(header, key, |_, place| place.copy_from_slice(&value.to_be_bytes()));
    }

    /// Copies the reply of a key into `out`, aged, unless it is longer than `octets_max` octets.
    pub(super) fn reply(
        &mut self,
        hash: u32,
        key: &[u8],
        now_ns: u64,
        octets_max: usize,
        out: &mut Vec<u8>,
    ) -> Option<Found> {
        let Some((position, header)) = self.find(hash, Kind::Reply, key) else {
            self.counts.misses += 1;
            return None;
        };
        let ttl_left_s = header.left_s(now_ns);
        let copied = self.copy_aged(position, &header, now_ns, octets_max, out);
        let ageing = ttl_left_s > 0 && !header.told && is_last_tenth(header.life_s, ttl_left_s);
        if ageing {
            Header { hit: true, told: true, ..header }.write(self.ring.at_mut(position));
        }
        *if ttl_left_s > 0 { &mut self.counts.hits } else { &mut self.counts.stale_hits } += 1;
        let ticks_ns = header.ticks_ns(now_ns);
        Some(Found { ttl_left_s, stale_s: header.stale_s(now_ns), ageing, copied, ticks_ns })
    }

    /// The same for the reply that says that a name does not exist, if it is fresh and says so still.
    pub(super) fn denial(
        &mut self,
        hash: u32,
        key: &[u8],
        now_ns: u64,
        octets_max: usize,
        out: &mut Vec<u8>,
    ) -> Option<Found> {
        let (position, header) = self.find(hash, Kind::Reply, key)?;
        let ttl_left_s = header.left_s(now_ns);
        if ttl_left_s == 0 || !ttls::denies_its_name(header.parts(self.ring.at(position)).1) {
            return None;
        }
        let copied = self.copy_aged(position, &header, now_ns, octets_max, out);
        self.counts.nxdomain_hits += 1;
        Some(Found { ttl_left_s, stale_s: 0, ageing: false, copied, ticks_ns: header.ticks_ns(now_ns) })
    }

    /// Copies a reply into `out`, aged, unless it is too long, and notes in its entry that it was found.
    /// Returns whether it was copied.
    fn copy_aged(
        &mut self,
        position: usize,
        header: &Header,
        now_ns: u64,
        octets_max: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let entry = self.ring.at_mut(position);
        let (places, value) = header.parts(entry);
        let fits = value.len() <= octets_max;
        if fits {
            steps::add_octets(value.len());
            out.clear();
            out.extend_from_slice(value);
            ttls::age(out, places, header.age_s(now_ns));
        }
        // Written once only: the cache lines of entries in use stay shared by all processors.
        if !header.hit {
            Header { hit: true, ..*header }.write(entry);
        }
        fits
    }

    /// Writes the entry that `header` describes, in the place of the key's old one; `fill` writes the places
    /// of TTLs and the value. An entry that is too long takes the old one away all the same: that is no
    /// longer true.
    pub(super) fn write(&mut self, header: &Header, key: &[u8], fill: impl FnOnce(&mut [u8], &mut [u8])) {
        let octets = header.entry_octets();
        let old = self.find(header.hash, header.kind, key);
        let position = match old {
            // A renewal mostly is as long as what it renews. It stays in its place, and has been asked for.
            Some((position, old)) if old.entry_octets() == octets => {
                Header { hit: true, ..*header }.write(self.ring.at_mut(position));
                position
            }
            old => {
                if let Some((position, old)) = old {
                    self.forget(&old, position);
                }
                if octets > (self.ring.room_octets() / ENTRY_SHARE).min(ENTRY_OCTETS_MAX) {
                    self.counts.refused += 1;
                    return;
                }
                let position = self.make_room(octets, header.born_ns);
                header.write(self.ring.at_mut(position));
                self.enter(header, position);
                position
            }
        };
        let (places, value) = header.parts_mut(self.ring.at_mut(position), key);
        fill(places, value);
        self.counts.inserted += 1;
    }

    fn enter(&mut self, header: &Header, position: usize) {
        let ring = &self.ring;
        if let Some(displaced) = self.index.insert(header.hash, position, |at| ring.seniority(at)) {
            let displaced = Header::read(self.ring.at(displaced));
            self.live[displaced.kind as usize] -= 1;
            self.counts.evicted += 1;
        }
        self.live[header.kind as usize] += 1;
    }

    /// A place at the head for so many octets, which fit into the ring many times.
    fn make_room(&mut self, octets: usize, now_ns: u64) -> usize {
        let mut carries = CARRIED_MAX;
        loop {
            if let Some(position) = self.ring.take(octets) {
                return position;
            }
            self.evict_oldest(now_ns, &mut carries);
        }
    }

    fn evict_oldest(&mut self, now_ns: u64, carries: &mut u32) {
        let Some((position, header)) = self.ring.release() else { return };
        // A replaced entry is not in the index any more.
        if !self.index.holds(header.hash, position) {
            return;
        }
        if header.hit && *carries > 0 && header.left_s(now_ns) > 0 {
            *carries -= 1;
            if let Some(to) = self.ring.carry(position, header.entry_octets()) {
                Header { hit: false, ..header }.write(self.ring.at_mut(to));
                self.index.relocate(header.hash, position, to);
                self.counts.carried += 1;
                return;
            }
        }
        self.index.remove(header.hash, position);
        self.live[header.kind as usize] -= 1;
        self.counts.evicted += 1;
    }

    /// Forgets the entry of a key.
    pub(super) fn remove(&mut self, hash: u32, kind: Kind, key: &[u8]) {
        if let Some((position, header)) = self.find(hash, kind, key) {
            self.forget(&header, position);
        }
    }

    fn forget(&mut self, header: &Header, position: usize) {
        self.index.remove(header.hash, position);
        self.live[header.kind as usize] -= 1;
    }

    /// Forgets everything; returns how many entries that were.
    pub(super) fn clear(&mut self) -> u64 {
        let removed = self.live.iter().sum();
        self.index.clear();
        self.ring.clear();
        self.live = [0; KINDS];
        removed
    }

    /// Forgets the entries whose kind and key `chosen` names; returns how many those were.
    pub(super) fn remove_where(&mut self, chosen: impl Fn(Kind, &[u8]) -> bool) -> u64 {
        let Self { index, ring, live, .. } = self;
        let mut removed = 0;
        ring.for_each(|position, header, entry| {
            if chosen(header.kind, header.key(entry)) && index.remove(header.hash, position) {
                live[header.kind as usize] -= 1;
                removed += 1;
            }
        });
        removed
    }
}

/// Whether a life that is long enough to be renewed in time is in its last tenth.
fn is_last_tenth(life_s: u32, left_s: u32) -> bool {
    life_s >= ANNOUNCED_LIFE_S && left_s <= life_s / 10
}
