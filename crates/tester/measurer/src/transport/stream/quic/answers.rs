//! Which query has which stream, and what came of its answer. The message ID is 0 on the wire (RFC 9250
//! 4.2.1): the stream tells the query, and its answer is handed on with the query's own ID.

use std::collections::VecDeque;

use crate::transport::stream::framing::LENGTH;

/// The queries of a connection whose streams are open. Streams are opened in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// The number of the stream of the first one.
    first: u64,
    queries: VecDeque<Query>,
}

/// A query whose stream is open.
#[derive(Debug)]
struct Query {
    /// Its place among the queries of the client.
    place: u64,
    left_ns: u64,
    id: [u8; 2],
    state: State,
    /// The beginning of its answer, never longer than a message and its length.
    partial: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    /// The whole answer came; the stream is open yet.
    Answered,
    /// The stream is closed.
    Closed,
}

/// What octets of a stream made of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// There is more to come.
    None,
    /// The answer is whole: so many octets of it are in the room for it.
    Whole(usize),
}

/// What the server did that RFC 9250 4.3.3 forbids.
pub(super) type Violation = &'static str;

const TOO_LONG: Violation = "more than one answer on a stream";
const TOO_SHORT: Violation = "a stream ended before its answer was whole";
const ID: Violation = "an answer whose message ID is not 0";

impl Asked {
    /// Streams that are not closed, with some that are.
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// Notes the query of the next stream.
    pub fn push(&mut self, place: u64, id: [u8; 2], left_ns: u64) {
        let query = Query { place, left_ns, id, state: State::Waiting, partial: Vec::new() };
        self.queries.push_back(query);
    }

    /// Takes octets of a stream. A whole answer is written to `room`, which has room for any.
    pub fn take(&mut self, stream: u64, octets: &[u8], room: &mut [u8]) -> Result<Progress, Violation> {
        let Some(query) = self.query(stream) else { return Ok(Progress::None) };
        if query.state != State::Waiting {
            return if octets.is_empty() { Ok(Progress::None) } else { Err(TOO_LONG) };
        }
        let beginning = query.partial.is_empty();
        if !beginning {
            query.partial.extend_from_slice(octets);
        }
        let so_far = if beginning { octets } else { &query.partial };
        let Some((length, message)) = so_far.split_first_chunk::<LENGTH>() else {
            if beginning {
                query.partial.extend_from_slice(octets);
            }
            return Ok(Progress::None);
        };
        let length = usize::from(u16::from_be_bytes(*length));
        match message.len() {
            there if there > length => Err(TOO_LONG),
            there if there < length => {
                if beginning {
                    query.partial.extend_from_slice(octets);
                }
                Ok(Progress::None)
            }
            _ if message.first_chunk::<2>().is_some_and(|id| *id != [0; 2]) => Err(ID),
            _ => {
                let answer = &mut room[..length];
                answer.copy_from_slice(message);
                if let Some(id) = answer.first_chunk_mut::<2>() {
                    *id = query.id;
                }
                query.state = State::Answered;
                query.partial = Vec::new();
                Ok(Progress::Whole(length))
            }
        }
    }

    /// The server has ended a stream in order.
    pub fn finish(&mut self, stream: u64) -> Result<(), Violation> {
        match self.close(stream) {
            Some(_) => Err(TOO_SHORT),
            None => Ok(()),
        }
    }

    /// A stream is over; returns the place of its query if it has no answer.
    pub fn close(&mut self, stream: u64) -> Option<u64> {
        let query = self.query(stream)?;
        let place = (query.state == State::Waiting).then_some(query.place);
        (query.state, query.partial) = (State::Closed, Vec::new());
        while self.queries.front().is_some_and(|query| query.state == State::Closed) {
            self.queries.pop_front();
            self.first += 1;
        }
        place
    }

    /// The oldest stream, and when its query left, in ns.
    pub fn oldest(&self) -> Option<(u64, u64)> {
        self.queries.front().map(|query| (self.first, query.left_ns))
    }

    fn query(&mut self, stream: u64) -> Option<&mut Query> {
        let at = usize::try_from(stream.checked_sub(self.first)?).ok()?;
        self.queries.get_mut(at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::transport::stream::framing;

    fn asked(queries: u64) -> Asked {
        let mut asked = Asked::default();
        (0..queries).for_each(|n| asked.push(100 + n, [7, n as u8], n * 10));
        asked
    }

    fn framed(message: &[u8]) -> Vec<u8> {
        let mut framed = Vec::new();
        framing::push(message, &mut framed);
        framed
    }

    proptest! {
        #[test]
        fn answers_come_whole_with_the_ids_of_their_queries(
            body in prop::collection::vec(any::<u8>(), 0..600),
            cuts in prop::collection::vec(1usize..700, 1..20),
            stream in 0u64..4,
        ) {
            let message = [&[0, 0], &body[..]].concat();
            let (stream_octets, mut asked, mut room) = (framed(&message), asked(4), vec![0; 1 << 16]);
            let (mut rest, mut found) = (&stream_octets[..], None);
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                if let Progress::Whole(length) = asked.take(stream, now, &mut room).unwrap() {
                    found = Some(room[..length].to_vec());
                }
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(found, Some([&[7, stream as u8], &body[..]].concat()));
            prop_assert_eq!(asked.finish(stream), Ok(()));
        }

        #[test]
        fn whatever_comes_is_kept_within_bounds(
            pieces in prop::collection::vec((0u64..6, prop::collection::vec(any::<u8>(), 0..5000)), 0..40),
        ) {
            let (mut asked, mut room) = (asked(4), vec![0; 1 << 16]);
            for (stream, octets) in pieces {
                let _ = asked.take(stream, &octets, &mut room);
                for query in &asked.queries {
                    prop_assert!(query.partial.len() < LENGTH + usize::from(u16::MAX) + 5000);
                }
            }
        }
    }

    #[test]
    fn what_the_protocol_forbids_is_told_apart() {
        let mut room = vec![0; 1 << 16];
        let answer = framed(&[0, 0, 1]);
        let mut one = asked(4);
        assert_eq!(one.take(0, &[&answer[..], &answer].concat(), &mut room), Err(TOO_LONG));
        assert_eq!(one.take(1, &answer, &mut room), Ok(Progress::Whole(3)));
        assert_eq!(one.take(1, &answer, &mut room), Err(TOO_LONG));
        assert_eq!(one.take(2, &framed(&[7, 2, 1]), &mut room), Err(ID));
        assert_eq!(one.take(3, &answer[..4], &mut room), Ok(Progress::None));
        assert_eq!(one.finish(3), Err(TOO_SHORT));
        // A stream that was never opened, or is closed.
        assert_eq!((one.take(9, &answer, &mut room), one.close(3)), (Ok(Progress::None), None));
    }

    #[test]
    fn closed_streams_are_forgotten_in_order() {
        let mut asked = asked(4);
        assert_eq!((asked.close(1), asked.len(), asked.oldest()), (Some(101), 4, Some((0, 0))));
        assert_eq!((asked.close(0), asked.len(), asked.oldest()), (Some(100), 2, Some((2, 20))));
        asked.push(104, [7, 4], 40);
        assert_eq!((asked.close(4), asked.close(4), asked.len()), (Some(104), None, 3));
    }
}
