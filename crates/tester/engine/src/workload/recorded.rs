//! Queries that were read from somewhere: kept in memory, or fed to the lanes while a trial runs.

use std::sync::Arc;

use record::random::{self, Sequence};

/// Queries, one behind the other: questions (name, type and class on the wire), or whole messages.
#[derive(Clone, Debug, Default)]
pub struct Arena {
    octets: Vec<u8>,
    /// The end of each query within `octets`.
    ends: Vec<u32>,
}

/// An arena grows up to so many octets, so that its places fit into 32 bits.
pub const ARENA_OCTETS_MAX: usize = 1 << 31;

impl Arena {
    /// An empty one with room for `queries` of `octets` in total, so that it need not grow.
    pub fn with_capacity(queries: usize, octets: usize) -> Self {
        Self { octets: Vec::with_capacity(octets), ends: Vec::with_capacity(queries) }
    }

    /// Adds a query; `false` if it is full.
    pub fn push(&mut self, query: &[u8]) -> bool {
        if self.octets.len() + query.len() > ARENA_OCTETS_MAX {
            return false;
        }
        self.octets.extend_from_slice(query);
        self.ends.push(self.octets.len() as u32);
        true
    }

    /// The number of queries.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The memory it uses, in octets.
    pub fn octets(&self) -> usize {
        self.octets.len() + self.ends.len() * size_of::<u32>()
    }

    /// Query `index`, from 0.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)? as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        self.octets.get(start..end)
    }

    /// Empties it, keeping the memory.
    pub fn clear(&mut self) {
        self.octets.clear();
        self.ends.clear();
    }
}

/// Places in a random order of their own for each seed (Fisher and Yates).
pub fn shuffled(count: usize, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..u32::try_from(count).unwrap_or(u32::MAX)).collect();
    let mut numbers = Sequence::new(seed, 0x5f1e);
    for last in (1..order.len()).rev() {
        let other = random::below(numbers.bits(), last as u64 + 1) as usize;
        order.swap(last, other);
    }
    order
}

/// Where lanes get queries that do not fit into memory.
pub trait Feeds: std::fmt::Debug + Send + Sync {
    /// The feed of lane `lane` (from 0) of `lanes`, for one trial. Called before the clock runs.
    fn open(&self, lane: u64, lanes: u64) -> Box<dyn Feed>;
}

/// The queries of one lane as they come. Neither call waits or allocates.
pub trait Feed: Send {
    /// How many queries can be taken at once, at least; 0 if none is there.
    fn ready(&mut self) -> usize;

    /// Takes the next query; `None` if none is there.
    fn next(&mut self) -> Option<&[u8]>;

    /// When and by whom the query is asked that comes so many after the next one, if both are known now;
    /// `None` also where the schedule and the lane tell that.
    fn stamp(&self, _ahead: usize) -> Option<Stamp> {
        None
    }

    /// Why no more will come; `None` while more may.
    fn ended(&mut self) -> Option<String>;
}

/// When and by whom a recorded query is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// In ns after the start of the schedule.
    pub after_ns: u64,
    /// The socket of the lane.
    pub socket: u32,
}

/// What a workload of recorded queries is made of.
#[derive(Clone, Debug)]
pub enum Recording {
    /// All of them, in the order of the places; when they are used up they start over.
    Whole {
        /// The octets of the queries, one after the other.
        arena: Arc<Arena>,
        /// Their order; `None` as they stand.
        order: Option<Arc<Vec<u32>>>,
    },
    /// They come while the trial runs.
    Stream(Arc<dyn Feeds>),
}

impl Recording {
    /// Query `n`; `None` of a stream, or if there is none at all.
    pub(super) fn get(&self, n: u64) -> Option<&[u8]> {
        let Self::Whole { arena, order } = self else { return None };
        let place = n.checked_rem(arena.len() as u64)? as usize;
        let index = order.as_ref().map_or(Some(place), |order| order.get(place).map(|index| *index as usize));
        arena.get(index?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_start_over_in_their_order() {
        let mut arena = Arena::with_capacity(3, 9);
        assert!(["a", "bcd", ""].iter().all(|query| arena.push(query.as_bytes())));
        let arena = Arc::new(arena);
        let plain = Recording::Whole { arena: Arc::clone(&arena), order: None };
        let seen: Vec<_> = (0..4).map(|n| plain.get(n).unwrap()).collect();
        assert_eq!(seen, [&b"a"[..], b"bcd", b"", b"a"]);
        let order = Some(Arc::new(shuffled(3, 1)));
        let mixed = Recording::Whole { arena, order };
        let mut seen: Vec<_> = (3..6).map(|n| mixed.get(n).unwrap()).collect();
        seen.sort_unstable();
        assert_eq!(seen, [&b""[..], b"a", b"bcd"]);
        let none = Recording::Whole { arena: Arc::default(), order: None };
        assert_eq!(none.get(0), None);
    }

    #[test]
    fn a_shuffle_keeps_every_place_and_follows_its_seed() {
        let mut order = shuffled(1000, 3);
        assert_eq!(order, shuffled(1000, 3));
        assert_ne!(order, shuffled(1000, 4));
        order.sort_unstable();
        assert_eq!(order, (0..1000).collect::<Vec<_>>());
        assert!(shuffled(0, 1).is_empty());
    }
}
