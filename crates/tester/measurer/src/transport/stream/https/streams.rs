//! The streams of a connection that are not over yet, and how their responses become answers.

use std::collections::VecDeque;

use engine::connections::Breakdown;

use super::fields::Head;
use super::request::Https;
use crate::transport::stream::link::News;

/// A stream: one query and its response.
#[derive(Debug)]
pub(in crate::transport::stream) struct Stream<F = ()> {
    /// The place of the query among those of its client.
    pub place: u64,
    /// When it left, in ns.
    pub left_ns: u64,
    /// The ID of the query.
    pub id: [u8; 2],
    pub response: Response,
    /// What has come of the body, if it comes in parts.
    pub body: Vec<u8>,
    /// How far its frames are, where they are its own.
    pub frames: F,
}

/// How far the response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transport::stream) enum Response {
    /// Nothing has come.
    Awaited,
    /// Its header fields came; the message follows.
    Begun,
    /// The answer has come, or this is none and the query is lost; the rest of it is not read.
    Unwanted,
}

/// A response with a message that no message of DNS is as long as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transport::stream) struct Endless;

/// The longest message of DNS.
pub(in crate::transport::stream) const MESSAGE_OCTETS_MAX: usize = 65_535;
/// The shortest one: its header.
const MESSAGE_OCTETS_MIN: usize = 12;

impl<F> Stream<F> {
    /// That of a query that leaves.
    pub fn new(query: &[u8], (place, left_ns): (u64, u64), frames: F) -> Self {
        let id = query.first_chunk().copied().unwrap_or_default();
        Self { place, left_ns, id, response: Response::Awaited, body: Vec::new(), frames }
    }

    /// Takes all header fields of a response; those after its body are its end.
    pub fn take_fields(&mut self, head: Head, (https, at_ns): (&Https, u64), tell: &mut dyn FnMut(News<'_>)) {
        match self.response {
            Response::Unwanted => {}
            // An interim response (RFC 9110 15.2).
            Response::Awaited if head.status / 100 == 1 => {}
            Response::Awaited if head.status == 0 => self.lose("no status", tell),
            Response::Awaited if head.status != 200 => {
                self.response = Response::Unwanted;
                tell(News::Refused(format!("status {}", head.status)));
                tell(News::Lost(self.place, Breakdown::HttpStatus));
            }
            Response::Awaited if !head.is_dns => self.lose("no application/dns-message", tell),
            Response::Awaited => self.response = Response::Begun,
            Response::Begun => self.finish(&[], (https, at_ns), tell),
        }
    }

    /// Takes octets of the body, with more to come.
    ///
    /// # Errors
    /// They are too many; the query is lost.
    pub fn take_content(&mut self, octets: &[u8], tell: &mut dyn FnMut(News<'_>)) -> Result<(), Endless> {
        match self.response {
            Response::Unwanted => {}
            Response::Awaited => self.lose("no header fields", tell),
            Response::Begun if self.body.len() + octets.len() > MESSAGE_OCTETS_MAX => {
                self.lose("longer than 65,535 octets", tell);
                return Err(Endless);
            }
            Response::Begun => self.body.extend_from_slice(octets),
        }
        Ok(())
    }

    /// Takes the last octets of the body.
    pub fn finish(&mut self, octets: &[u8], (https, at_ns): (&Https, u64), tell: &mut dyn FnMut(News<'_>)) {
        let before = std::mem::take(&mut self.body);
        match self.response {
            Response::Unwanted => {}
            Response::Awaited => self.lose("no header fields", tell),
            Response::Begun if before.len() + octets.len() > MESSAGE_OCTETS_MAX => {
                self.lose("longer than 65,535 octets", tell);
            }
            Response::Begun if before.is_empty() => self.answer(octets, (https, at_ns), tell),
            Response::Begun => self.answer(&[&before, octets].concat(), (https, at_ns), tell),
        }
    }

    /// Takes the whole body of a response.
    fn answer(&mut self, body: &[u8], (https, at_ns): (&Https, u64), tell: &mut dyn FnMut(News<'_>)) {
        let id = https.sent_id(self.id);
        if body.len() < MESSAGE_OCTETS_MIN {
            return self.lose("no message", tell);
        }
        if body[..2] != id {
            return self.lose("another ID", tell);
        }
        self.response = Response::Unwanted;
        if id == self.id {
            return tell(News::Message(at_ns, body));
        }
        let mut message = body.to_vec();
        message[..2].copy_from_slice(&self.id);
        tell(News::Message(at_ns, &message));
    }

    /// The response is no answer.
    fn lose(&mut self, why: &str, tell: &mut dyn FnMut(News<'_>)) {
        self.response = Response::Unwanted;
        tell(News::Refused(why.to_owned()));
        tell(News::Lost(self.place, Breakdown::HttpMalformed));
    }
}

/// The streams in the order in which they were opened: by their numbers, from 0.
#[derive(Debug)]
pub(in crate::transport::stream) struct Streams<F = ()> {
    ring: VecDeque<Option<Stream<F>>>,
    /// The number of the first one in the ring.
    first: u64,
    open: usize,
}

impl<F> Default for Streams<F> {
    fn default() -> Self {
        Self { ring: VecDeque::new(), first: 0, open: 0 }
    }
}

impl<F> Streams<F> {
    /// How many there are.
    pub fn open(&self) -> usize {
        self.open
    }

    /// The number of the next one.
    pub fn next(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    /// Adds one.
    pub fn push(&mut self, stream: Stream<F>) {
        self.ring.push_back(Some(stream));
        self.open += 1;
    }

    fn place(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    /// The stream, if it is not over.
    pub fn get(&mut self, number: u64) -> Option<&mut Stream<F>> {
        let place = self.place(number)?;
        self.ring.get_mut(place)?.as_mut()
    }

    /// Ends the stream.
    pub fn take(&mut self, number: u64) -> Option<Stream<F>> {
        let place = self.place(number)?;
        let stream = self.ring.get_mut(place)?.take()?;
        self.open -= 1;
        self.forget_ended();
        Some(stream)
    }

    /// The oldest stream, by its number.
    pub fn oldest(&self) -> Option<(u64, &Stream<F>)> {
        self.ring.front()?.as_ref().map(|stream| (self.first, stream))
    }

    /// Ends the streams from this number on, the last one first.
    pub fn take_from(&mut self, number: u64) -> Vec<Stream<F>> {
        let place = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let from = place.min(self.ring.len());
        let taken: Vec<_> = self.ring.range_mut(from..).rev().filter_map(Option::take).collect();
        self.open -= taken.len();
        self.forget_ended();
        taken
    }

    fn forget_ended(&mut self) {
        while let Some(None) = self.ring.front() {
            self.ring.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(count: u64) -> Streams {
        let mut streams = Streams::default();
        (0..count).for_each(|place| streams.push(Stream::new(&[], (place, 100 + place), ())));
        streams
    }

    #[test]
    fn streams_end_in_any_order() {
        let mut streams = streams(5);
        for number in [2, 0, 4, 1] {
            assert_eq!(streams.take(number).unwrap().place, number);
            assert!(streams.take(number).is_none() && streams.get(number).is_none());
        }
        assert_eq!((streams.open(), streams.first, streams.next()), (1, 3, 5));
        assert!(streams.get(5).is_none() && streams.get(0).is_none());
        assert_eq!(streams.take(3).unwrap().place, 3);
        assert_eq!((streams.open(), streams.ring.len()), (0, 0));
        streams.push(Stream::new(&[], (5, 0), ()));
        assert_eq!(streams.get(5).unwrap().place, 5);
    }

    #[test]
    fn old_ones_and_those_from_a_number_on_are_found() {
        let mut streams = streams(5);
        assert_eq!(streams.oldest().map(|(number, stream)| (number, stream.left_ns)), Some((0, 100)));
        streams.take(3);
        let from = |streams: &mut Streams, number| {
            streams.take_from(number).iter().map(|one| one.place).collect::<Vec<_>>()
        };
        assert_eq!((from(&mut streams, 3), streams.open(), streams.next()), (vec![4], 3, 5));
        streams.push(Stream::new(&[], (5, 0), ()));
        assert_eq!((from(&mut streams, 9), from(&mut streams, 5)), (vec![], vec![5]));
        assert_eq!((from(&mut streams, 0), from(&mut streams, 0)), (vec![2, 1, 0], vec![]));
        assert!(streams.oldest().is_none() && streams.next() == 6);
    }
}
