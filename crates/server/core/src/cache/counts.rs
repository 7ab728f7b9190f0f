//! What the cache counts.

/// The state of a cache and what has happened in it since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Replies held, fresh or expired.
    pub entries: u64,
    /// Failures held (RFC 9520), in force or not.
    pub failures: u64,
    /// Names held as not existing (RFC 8020), fresh or expired.
    pub nxdomains: u64,
    /// Octets that entries take up, those included that were replaced and not yet given up.
    pub octets: u64,
    /// Octets that entries may take up; the index has the rest of the memory.
    pub octets_max: u64,
    /// Entries written, whatever their kind.
    pub inserted: u64,
    /// Entries that gave way to newer ones.
    pub evicted: u64,
    /// Entries that stayed because they had been asked for.
    pub carried: u64,
    /// Replies too long to be kept.
    pub refused: u64,
    /// Look-ups that found a fresh reply.
    pub hits: u64,
    /// Look-ups that found an expired reply.
    pub stale_hits: u64,
    /// Look-ups that found nothing.
    pub misses: u64,
    /// Look-ups that found a name above that does not exist.
    pub nxdomain_hits: u64,
}

impl CacheCounts {
    /// Adds the counts of another part of the cache.
    pub(super) fn add(&mut self, other: &Self) {
        self.entries += other.entries;
        self.failures += other.failures;
        self.nxdomains += other.nxdomains;
        self.octets += other.octets;
        self.octets_max += other.octets_max;
        self.inserted += other.inserted;
        self.evicted += other.evicted;
        self.carried += other.carried;
        self.refused += other.refused;
        self.hits += other.hits;
        self.stale_hits += other.stale_hits;
        self.misses += other.misses;
        self.nxdomain_hits += other.nxdomain_hits;
    }
}
