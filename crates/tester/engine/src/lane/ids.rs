//! Sockets and IDs of a lane's queries: known from their number, and the number from them, without a division
//! or a table.

/// Neighbouring queries share a socket in blocks; at each socket IDs count up by one for each query, so that
/// 65,536 in flight at one socket differ; multiplied by an odd number, so that they do not look like a
/// counter.
#[derive(Clone, Debug)]
pub(super) struct Ids {
    /// Queries of a block: a power of two.
    block: u64,
    /// The next query: its socket, and its place in the block.
    socket: usize,
    in_block: u64,
    /// How many queries each socket has sent.
    sent: Box<[u64]>,
}

const FACTOR: u16 = 0x9e35;
const OFFSET: u16 = 0x5bd1;
/// FACTOR * INVERSE = 1 modulo 2^16.
const INVERSE: u16 = {
    let (mut inverse, mut round) = (1u16, 0);
    // Each step of Newton's method doubles the number of right bits.
    while round < 4 {
        inverse = inverse.wrapping_mul(2u16.wrapping_sub(FACTOR.wrapping_mul(inverse)));
        round += 1;
    }
    inverse
};

/// The ID of the query at this place.
#[inline]
pub(super) fn id_at(place: u64) -> u16 {
    (place as u16).wrapping_mul(FACTOR).wrapping_add(OFFSET)
}

/// The places below `end` whose queries have this ID, the last first.
#[inline]
pub(super) fn places_of(end: u64, id: u16) -> impl Iterator<Item = u64> {
    let low = id.wrapping_sub(OFFSET).wrapping_mul(INVERSE);
    // The last place with these low bits: at most 65,535 before the end.
    let last =
        end.checked_sub(1).and_then(|last| last.checked_sub(u64::from((last as u16).wrapping_sub(low))));
    std::iter::successors(last, |place| place.checked_sub(1 << 16))
}

impl Ids {
    /// For so many sockets, at least 1, and blocks of at most `batch_max` queries, at least 1.
    pub(super) fn new(sockets: u64, batch_max: u64) -> Self {
        let block = 1 << batch_max.ilog2();
        Self { block, socket: 0, in_block: 0, sent: vec![0; sockets as usize].into_boxed_slice() }
    }

    /// The socket of the next query, and how many more share it.
    pub(super) fn next_block(&self) -> (usize, u64) {
        (self.socket, self.block - self.in_block)
    }

    /// The ID of the next query; goes on to the one after it.
    #[inline]
    pub(super) fn take(&mut self) -> u16 {
        let at_socket = self.sent[self.socket];
        self.sent[self.socket] += 1;
        self.in_block += 1;
        if self.in_block == self.block {
            self.in_block = 0;
            self.socket = if self.socket + 1 == self.sent.len() { 0 } else { self.socket + 1 };
        }
        id_at(at_socket)
    }

    /// The queries sent with this socket and ID, the newest first, as numbers within the lane.
    #[inline]
    pub(super) fn candidates(&self, socket: usize, id: u16) -> impl Iterator<Item = u64> + use<> {
        let sent = self.sent.get(socket).copied().unwrap_or(0);
        places_of(sent, id).map(self.numbers(socket))
    }

    /// The number within the lane of the n-th query of this socket, from 0.
    pub(super) fn numbers(&self, socket: usize) -> impl Fn(u64) -> u64 + use<> {
        let (block, shift) = (self.block, self.block.trailing_zeros());
        let (round, offset) = (block * self.sent.len() as u64, socket as u64 * block);
        move |at_socket| (at_socket >> shift) * round + offset + (at_socket & (block - 1))
    }

    /// The socket and ID of query `own`; by division, for the rare case.
    pub(super) fn of(&self, own: u64) -> (usize, u16) {
        let (round, place) = (own / self.block, own % self.block);
        let at_socket = round / self.sent.len() as u64 * self.block + place;
        ((round % self.sent.len() as u64) as usize, id_at(at_socket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back_from_socket_and_id(sockets in 1u64..40, batch_max in 1u64..=64, queries in 1u64..3000) {
            let mut ids = Ids::new(sockets, batch_max);
            let sent: Vec<(usize, u16)> = (0..queries).map(|_| (ids.next_block().0, ids.take())).collect();
            for (own, (socket, id)) in sent.iter().enumerate() {
                prop_assert_eq!(ids.candidates(*socket, *id).next(), Some(own as u64));
                prop_assert_eq!(ids.of(own as u64), (*socket, *id));
            }
            prop_assert_eq!(ids.candidates(sockets as usize, 0).next(), None);
            let distinct: std::collections::HashSet<_> = sent.iter().collect();
            prop_assert_eq!(distinct.len(), sent.len());
        }
    }

    #[test]
    fn after_a_wrap_the_older_ones_follow() {
        let mut ids = Ids::new(1, 8);
        let first = ids.take();
        for _ in 1..200_000 {
            ids.take();
        }
        assert_eq!(ids.candidates(0, first).collect::<Vec<_>>(), [196_608, 131_072, 65_536, 0]);
    }
}
