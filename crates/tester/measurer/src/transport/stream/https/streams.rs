//! The streams of a connection that are not over yet.

use std::collections::VecDeque;

/// A stream: one query and its response.
#[derive(Debug)]
pub(super) struct Stream {
    /// The place of the query among those of its client.
    pub place: u64,
    /// When it left, in ns.
    pub left_ns: u64,
    /// The ID of the query.
    pub id: [u8; 2],
    pub response: Response,
    /// What has come of the body, if it comes in parts.
    pub body: Vec<u8>,
}

/// How far the response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// Nothing has come.
    Awaited,
    /// Its header fields came; the message follows.
    Begun,
    /// It is no answer, and the query is lost; the rest of it is not read.
    Unwanted,
}

/// The streams in the order of their identifiers, which are odd and count up.
#[derive(Debug, Default)]
pub(super) struct Streams {
    ring: VecDeque<Option<Stream>>,
    /// The identifier of the first one in the ring.
    first: u32,
    open: usize,
}

impl Streams {
    /// How many there are.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Adds one; each has a higher identifier by two than the one before.
    pub fn push(&mut self, identifier: u32, stream: Stream) {
        if self.ring.is_empty() {
            self.first = identifier;
        }
        self.ring.push_back(Some(stream));
        self.open += 1;
    }

    fn place(&self, identifier: u32) -> Option<usize> {
        let distance = identifier.checked_sub(self.first)?;
        (distance % 2 == 0).then_some(distance as usize / 2)
    }

    /// The stream, if it is not over.
    pub fn get(&mut self, identifier: u32) -> Option<&mut Stream> {
        let place = self.place(identifier)?;
        self.ring.get_mut(place)?.as_mut()
    }

    /// Ends the stream.
    pub fn take(&mut self, identifier: u32) -> Option<Stream> {
        let place = self.place(identifier)?;
        let stream = self.ring.get_mut(place)?.take()?;
        self.open -= 1;
        while let Some(None) = self.ring.front() {
            self.ring.pop_front();
            self.first += 2;
        }
        Some(stream)
    }

    /// Ends the oldest stream, if it left before this instant; returns its identifier, too.
    pub fn take_before(&mut self, instant_ns: u64) -> Option<(u32, Stream)> {
        let oldest = self.ring.front()?.as_ref()?;
        let identifier = self.first;
        (oldest.left_ns < instant_ns).then(|| self.take(identifier).map(|stream| (identifier, stream)))?
    }

    /// Ends a stream with a higher identifier than this one, if there is any.
    pub fn take_above(&mut self, identifier: u32) -> Option<Stream> {
        while let Some(None) = self.ring.back() {
            self.ring.pop_back();
        }
        let last = self.first + 2 * (self.ring.len().checked_sub(1)? as u32);
        (last > identifier).then(|| self.take(last))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(count: u64) -> Streams {
        let mut streams = Streams::default();
        for place in 0..count {
            let (left_ns, id, response) = (100 + place, [0; 2], Response::Awaited);
            let stream = Stream { place, left_ns, id, response, body: Vec::new() };
            streams.push(2 * place as u32 + 1, stream);
        }
        streams
    }

    #[test]
    fn streams_end_in_any_order() {
        let mut streams = streams(5);
        for (identifier, place) in [(5, 2), (1, 0), (9, 4), (3, 1)] {
            assert_eq!(streams.take(identifier).unwrap().place, place);
            assert!(streams.take(identifier).is_none() && streams.get(identifier).is_none());
        }
        assert_eq!((streams.open(), streams.first), (1, 7));
        assert!(streams.get(8).is_none() && streams.get(11).is_none() && streams.get(0).is_none());
        assert_eq!(streams.take(7).unwrap().place, 3);
        assert_eq!((streams.open(), streams.ring.len()), (0, 0));
        let stream =
            Stream { place: 5, left_ns: 0, id: [0; 2], response: Response::Awaited, body: Vec::new() };
        streams.push(11, stream);
        assert_eq!(streams.get(11).unwrap().place, 5);
    }

    #[test]
    fn old_ones_and_those_above_are_found() {
        let mut streams = streams(5);
        let old: Vec<_> = std::iter::from_fn(|| streams.take_before(102)).map(|(id, _)| id).collect();
        assert_eq!(old, [1, 3]);
        streams.take(7);
        let above: Vec<_> = std::iter::from_fn(|| streams.take_above(5)).map(|one| one.place).collect();
        assert_eq!((above, streams.open()), (vec![4], 1));
        assert_eq!(streams.take_above(0).unwrap().place, 2);
        assert!(streams.take_above(0).is_none());
    }
}
