//! The octets of a shard: entries one after the other, taken away in the order in which they were written.

use super::entry::{Header, UNIT_OCTETS};

/// No entry stands here, so that position 0 can mean none.
const START: usize = UNIT_OCTETS;

/// A queue of entries in one stretch of octets. No entry goes over the end: the next one starts a new lap.
#[derive(Debug)]
pub(super) struct Ring {
    octets: Vec<u8>,
    /// Where the oldest entry stands.
    tail: usize,
    /// Where the next entry goes.
    head: usize,
    /// The head is a lap ahead: the older entries end here.
    lap_end: Option<usize>,
    /// The octets of the entries in it.
    used_octets: usize,
}

impl Ring {
    /// A ring in so many octets of memory, which the system gives when they are first touched.
    pub(super) fn new(octets: usize) -> Self {
        Self { octets: vec![0; octets], tail: START, head: START, lap_end: None, used_octets: 0 }
    }

    /// The octets that entries can take up.
    pub(super) fn room_octets(&self) -> usize {
        self.octets.len().saturating_sub(START)
    }

    /// The octets that entries take up, those included that the index no longer knows.
    pub(super) fn used_octets(&self) -> usize {
        self.used_octets
    }

    /// Forgets all entries.
    pub(super) fn clear(&mut self) {
        (self.tail, self.head, self.lap_end, self.used_octets) = (START, START, None, 0);
    }

    /// The octets from an entry's start on.
    pub(super) fn at(&self, position: usize) -> &[u8] {
        &self.octets[position..]
    }

    /// The same, to be changed.
    pub(super) fn at_mut(&mut self, position: usize) -> &mut [u8] {
        &mut self.octets[position..]
    }

    /// Takes `octets` at the head for a new entry; `None` while older entries stand in the way.
    pub(super) fn take(&mut self, octets: usize) -> Option<usize> {
        if self.lap_end.is_none() && self.head + octets > self.octets.len() {
            self.lap_end = Some(self.head);
            self.head = START;
        }
        let limit = if self.lap_end.is_some() { self.tail } else { self.octets.len() };
        let position = self.head;
        (position + octets <= limit).then(|| {
            self.head += octets;
            self.used_octets += octets;
            position
        })
    }

    /// Gives up the oldest entry; returns where it stands, and its header. Its octets stay until the head
    /// reaches them.
    pub(super) fn release(&mut self) -> Option<(usize, Header)> {
        let position = self.tail;
        let header = (self.used_octets > 0).then(|| Header::read(self.at(position)))?;
        let octets = header.entry_octets();
        self.used_octets = self.used_octets.saturating_sub(octets);
        self.tail += octets;
        if self.lap_end == Some(self.tail) {
            (self.tail, self.lap_end) = (START, None);
        }
        if self.used_octets == 0 {
            self.clear();
        }
        Some((position, header))
    }

    /// Writes the entry that was released last again, at the head: there is room for it since then.
    pub(super) fn carry(&mut self, position: usize, octets: usize) -> Option<usize> {
        let to = self.take(octets)?;
        self.octets.copy_within(position..position + octets, to);
        Some(to)
    }

    /// Calls `visit` for every entry, the oldest first.
    pub(super) fn for_each(&self, mut visit: impl FnMut(usize, &Header, &[u8])) {
        let (mut position, mut left) = (self.tail, self.used_octets);
        while left > 0 {
            if self.lap_end == Some(position) {
                position = START;
            }
            let header = Header::read(self.at(position));
            visit(position, &header, self.at(position));
            position += header.entry_octets();
            left = left.saturating_sub(header.entry_octets());
        }
    }

    /// How long an entry has been in the ring, in octets written since.
    pub(super) fn seniority(&self, position: usize) -> usize {
        let behind_head = self.head.wrapping_sub(position);
        if position < self.head { behind_head } else { behind_head.wrapping_add(self.octets.len()) }
    }
}
