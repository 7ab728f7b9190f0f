//! One entry as it stands in the ring: header, key, the places of its TTLs, value.

/// The length of an entry's header in octets.
const HEADER_OCTETS: usize = 24;
/// Entries begin at multiples of this many octets.
pub(super) const UNIT_OCTETS: usize = 8;

const NS_PER_S: u64 = 1_000_000_000;

/// What an entry's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A reply.
    Reply,
    /// The cause of a failure (RFC 9520).
    Failure,
    /// The type whose entry holds the reply that the name does not exist (RFC 8020); the key's own type is 0.
    NxDomain,
}

/// How many kinds there are.
pub(super) const KINDS: usize = 3;

/// What is known of an entry without its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// When it was written.
    pub(super) born_ns: u64,
    /// How long it is fresh, in seconds.
    pub(super) life_s: u32,
    /// The half of the key's hash that is used inside a shard.
    pub(super) hash: u32,
    pub(super) kind: Kind,
    /// It was found since it was written or carried over.
    pub(super) hit: bool,
    /// Somebody was told that its end is near.
    pub(super) told: bool,
    /// The length of its key.
    pub(super) key_octets: u16,
    /// How many places of TTLs it lists.
    pub(super) ttls: u16,
    /// The length of its value.
    pub(super) value_octets: u16,
}

impl Header {
    const HIT: u8 = 4;
    const TOLD: u8 = 8;

    /// The header of an entry without TTLs, to be given its times.
    pub(super) fn new(kind: Kind, hash: u32, key: &[u8], value_octets: u16) -> Self {
        let key_octets = key.len() as u16;
        Self { born_ns: 0, life_s: 0, hash, kind, hit: false, told: false, key_octets, ttls: 0, value_octets }
    }

    /// The same where the value is one word.
    pub(super) fn of_word(kind: Kind, hash: u32, key: &[u8]) -> Self {
        Self::new(kind, hash, key, 2)
    }

    /// Reads the header at the start of an entry.
    pub(super) fn read(entry: &[u8]) -> Self {
        let head = &entry[..HEADER_OCTETS];
        let flags = head[22];
        Self {
            born_ns: u64::from_le_bytes(array(head, 0)),
            life_s: u32::from_le_bytes(array(head, 8)),
            hash: u32::from_le_bytes(array(head, 12)),
            key_octets: u16::from_le_bytes(array(head, 16)),
            ttls: u16::from_le_bytes(array(head, 18)),
            value_octets: u16::from_le_bytes(array(head, 20)),
            kind: match flags & 3 {
                0 => Kind::Reply,
                1 => Kind::Failure,
                _ => Kind::NxDomain,
            },
            hit: flags & Self::HIT != 0,
            told: flags & Self::TOLD != 0,
        }
    }

    /// Writes the header at the start of an entry.
    pub(super) fn write(&self, entry: &mut [u8]) {
        let head = &mut entry[..HEADER_OCTETS];
        head[..8].copy_from_slice(&self.born_ns.to_le_bytes());
        head[8..12].copy_from_slice(&self.life_s.to_le_bytes());
        head[12..16].copy_from_slice(&self.hash.to_le_bytes());
        head[16..18].copy_from_slice(&self.key_octets.to_le_bytes());
        head[18..20].copy_from_slice(&self.ttls.to_le_bytes());
        head[20..22].copy_from_slice(&self.value_octets.to_le_bytes());
        let flag = |set, flag| if set { flag } else { 0 };
        head[22] = self.kind as u8 | flag(self.hit, Self::HIT) | flag(self.told, Self::TOLD);
        head[23] = 0;
    }

    /// The length of the whole entry with its padding, in octets.
    pub(super) fn entry_octets(&self) -> usize {
        (self.value_at() + usize::from(self.value_octets)).next_multiple_of(UNIT_OCTETS)
    }

    fn ttls_at(&self) -> usize {
        HEADER_OCTETS + usize::from(self.key_octets)
    }

    fn value_at(&self) -> usize {
        self.ttls_at() + 2 * usize::from(self.ttls)
    }

    /// The key within the entry.
    pub(super) fn key<'e>(&self, entry: &'e [u8]) -> &'e [u8] {
        &entry[HEADER_OCTETS..self.ttls_at()]
    }

    /// The places of the TTLs, two octets each, and the value.
    pub(super) fn parts<'e>(&self, entry: &'e [u8]) -> (&'e [u8], &'e [u8]) {
        let value_end = self.value_at() + usize::from(self.value_octets);
        (&entry[self.ttls_at()..self.value_at()], &entry[self.value_at()..value_end])
    }

    /// Writes the key into the entry and hands out the places for the rest, as [`Self::parts`] reads them.
    pub(super) fn parts_mut<'e>(&self, entry: &'e mut [u8], key: &[u8]) -> (&'e mut [u8], &'e mut [u8]) {
        entry[HEADER_OCTETS..self.ttls_at()].copy_from_slice(key);
        let value_end = self.value_at() + usize::from(self.value_octets);
        let (front, value) = entry[..value_end].split_at_mut(self.value_at());
        (&mut front[self.ttls_at()..], value)
    }

    /// The age in whole seconds. A clock that another thread read earlier gives 0.
    pub(super) fn age_s(&self, now_ns: u64) -> u32 {
        u32::try_from(now_ns.saturating_sub(self.born_ns) / NS_PER_S).unwrap_or(u32::MAX)
    }

    /// When the age will be a second more.
    pub(super) fn ticks_ns(&self, now_ns: u64) -> u64 {
        self.born_ns.saturating_add((u64::from(self.age_s(now_ns)) + 1) * NS_PER_S)
    }

    /// The seconds left of its life; at least 1 while it is fresh.
    pub(super) fn left_s(&self, now_ns: u64) -> u32 {
        self.life_s.saturating_sub(self.age_s(now_ns))
    }

    /// The seconds since its end.
    pub(super) fn stale_s(&self, now_ns: u64) -> u32 {
        self.age_s(now_ns).saturating_sub(self.life_s)
    }
}

fn array<const OCTETS: usize>(octets: &[u8], at: usize) -> [u8; OCTETS] {
    let mut array = [0; OCTETS];
    array.copy_from_slice(&octets[at..at + OCTETS]);
    array
}
