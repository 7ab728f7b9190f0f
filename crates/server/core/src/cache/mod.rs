//! The cache: replies of upstream servers, kept for the time of their TTLs.
//!
//! The cache keeps replies, not synthesized answers, so that one entry serves every view. It is shared by all
//! threads; its memory is bounded and allocated at the start. Replies, failures (RFC 9520) and names that do
//! not exist (RFC 8020) stand in the same rings, each with its key, so that a hit costs one cache line of an
//! index and one entry. Hashes are keyed with a secret: nobody outside can choose names that meet in one
//! place.

mod admit;
mod counts;
mod entry;
mod failures;
mod index;
mod key;
mod nxdomains;
mod ring;
mod shard;
#[cfg(test)]
mod tests;
mod ttls;

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dns64::steps;
use dns64::wire::{Message, Name};
use siphasher::sip::SipHasher13;

pub use admit::lifetime_s;
pub use counts::CacheCounts;
use entry::{Header, Kind};
pub use failures::Failure;
pub use key::Key;
use key::name_of;
use shard::{SHARD_OCTETS_MAX, Shard};
use ttls::TtlLayout;

/// Locks are few enough to keep the rings long, and enough for threads to miss each other.
const SHARDS: usize = 64;
/// Small caches have fewer shards, so that long replies find room, in octets.
const SHARD_OCTETS_MIN: usize = 512 << 10;

/// A reply that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The seconds left of its life; 0 when it is expired.
    pub ttl_left_s: u32,
    /// The seconds since its end; 0 while it is fresh.
    pub stale_s: u32,
    /// Its life of at least ten seconds is in its last tenth. One caller alone is told so until it is
    /// renewed: to ask for it again in time.
    pub ageing: bool,
    /// It was copied: it is no longer than was wanted.
    pub copied: bool,
    /// When its TTLs will be less by one second; it says the same until then.
    pub ticks_ns: u64,
}

/// What to forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Everything.
    All,
    /// All entries of a name, of whatever type.
    Name(Name),
    /// The entries of a name and of all names below it.
    Below(Name),
    /// The failures.
    Failures,
}

/// The cache of all threads.
pub struct Cache {
    shards: Box<[AlignedShard]>,
    hasher: SipHasher13,
    /// How many failures and how many names that do not exist are held, so that nobody looks for them in
    /// vain.
    failures: AtomicU64,
    nxdomains: AtomicU64,
    /// A bit for each number of labels that a name had which does not exist.
    nxdomain_depths: AtomicU32,
}

/// A shard in cache lines of its own.
#[repr(align(128))]
struct AlignedShard(Mutex<Shard>);

impl AlignedShard {
    fn lock(&self) -> MutexGuard<'_, Shard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    /// A cache in so many octets of memory, its index included; 0 keeps nothing and costs nothing. `seed`
    /// must be secret.
    pub fn new(octets: usize, seed: [u8; 32]) -> Self {
        let shards = shards_for(octets);
        let (shards, each) = (0..shards, octets.checked_div(shards).unwrap_or(0));
        let mut hash_key = [0; 16];
        hash_key.copy_from_slice(&seed[..16]);
        Self {
            shards: shards.map(|_| AlignedShard(Mutex::new(Shard::new(each)))).collect(),
            hasher: SipHasher13::new_with_key(&hash_key),
            failures: AtomicU64::new(0),
            nxdomains: AtomicU64::new(0),
            nxdomain_depths: AtomicU32::new(0),
        }
    }

    /// Whether it keeps anything at all.
    pub fn keeps(&self) -> bool {
        !self.shards.is_empty()
    }

    /// The shard of a key and the half of its hash that is used inside; `None` if the cache keeps nothing.
    fn locate(&self, key: &Key) -> Option<(&AlignedShard, u32)> {
        // One test for a cache of no shards and the mask for the others, whose number is a power of two.
        let mask = self.shards.len().checked_sub(1)?;
        steps::add_octets(key.as_octets().len());
        let hash = self.hasher.hash(key.as_octets());
        Some((&self.shards[(hash >> 32) as usize & mask], hash as u32))
    }

    /// Finds the reply to a question, fresh or expired, and copies it into `out`, whose contents go: as it
    /// was stored, with its age in seconds taken off all TTLs but never below 0. Nothing is allocated if
    /// `out` is large enough.
    pub fn get(&self, key: &Key, now_ns: u64, out: &mut Vec<u8>) -> Option<Found> {
        self.get_within(key, now_ns, usize::MAX, out)
    }

    /// The same, where a reply of more than `octets_max` octets is found and not copied. Its length then
    /// costs nothing, and what `out` holds is of no use.
    pub fn get_within(&self, key: &Key, now_ns: u64, octets_max: usize, out: &mut Vec<u8>) -> Option<Found> {
        let (shard, hash) = self.locate(key)?;
        shard.lock().reply(hash, key.as_octets(), now_ns, octets_max, out)
    }

    /// Keeps a reply for `ttl_s` seconds, as [`lifetime_s`] gives them. What was kept for the key before,
    /// failures included, is forgotten. A malformed reply is not kept, and neither is one that is longer than
    /// an eighth of a shard or than 65,535 octets with its key.
    pub fn insert(&self, key: &Key, reply: &Message<'_>, ttl_s: u32, now_ns: u64) {
        let Some((shard, hash)) = self.locate(key) else { return };
        let Ok(survey) = TtlLayout::of(reply, ttl_s) else { return };
        let header = Header {
            born_ns: now_ns,
            life_s: ttl_s,
            ttls: survey.ttls,
            ..Header::new(Kind::Reply, hash, key.as_octets(), survey.octets)
        };
        let failures = self.failures.load(Ordering::Relaxed) > 0;
        self.change(shard, |shard| {
            shard.write(&header, key.as_octets(), |places, value| survey.store(reply, places, value));
            if failures {
                shard.remove(hash, Kind::Failure, key.as_octets());
            }
        });
        self.learn_existence(key, reply, ttl_s, now_ns);
    }

    /// Forgets entries; returns how many. One shard at a time is kept from its users, while its entries are
    /// read.
    pub fn flush(&self, what: &Flush) -> usize {
        let mut removed = 0u64;
        for shard in &self.shards {
            self.change(shard, |shard| {
                removed += match what {
                    Flush::All => shard.clear(),
                    Flush::Failures => shard.remove_where(|kind, _| kind == Kind::Failure),
                    Flush::Name(name) => shard.remove_where(|_, key| name_of(key) == Some(*name)),
                    Flush::Below(name) => {
                        shard.remove_where(|_, key| name_of(key).is_some_and(|own| own.is_under(name)))
                    }
                };
            });
        }
        removed as usize
    }

    /// What the cache holds and has counted.
    pub fn counts(&self) -> CacheCounts {
        let mut sum = CacheCounts::default();
        for shard in &self.shards {
            sum.add(&shard.lock().counts());
        }
        sum
    }

    /// Changes a shard, and with it the counts that say whether looking for some kinds is worth it.
    fn change(&self, shard: &AlignedShard, change: impl FnOnce(&mut Shard)) {
        let mut shard = shard.lock();
        let before = shard.live();
        change(&mut shard);
        let after = shard.live();
        for (kind, count) in [(Kind::Failure, &self.failures), (Kind::NxDomain, &self.nxdomains)] {
            let difference = after[kind as usize].wrapping_sub(before[kind as usize]);
            if difference != 0 {
                // Adding what wraps is subtracting.
                count.fetch_add(difference, Ordering::Relaxed);
            }
        }
    }
}

/// How many shards so many octets are divided among: a power of two, or none.
fn shards_for(octets: usize) -> usize {
    if octets == 0 {
        return 0;
    }
    let room_for = (octets / SHARD_OCTETS_MIN).clamp(1, SHARDS);
    let needed_for = octets.div_ceil(SHARD_OCTETS_MAX).next_power_of_two();
    // The largest power of two that is not above.
    (1 << room_for.ilog2()).max(needed_for)
}

impl fmt::Debug for Cache {
    /// Without the contents and the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}
