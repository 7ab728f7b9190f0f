//! HTTP/3 as a client of DNS over HTTPS speaks it: octets of streams on one side, queries and their answers
//! on the other. Streams are known by their numbers: the client's requests have the numbers 0, 1, 2, ..., and
//! so have the streams that the server opens.

use engine::connections::Breakdown;

use super::codes::{Code, Stop};
use super::fields;
use super::frames::{self, Frame, Frames, Kind};
use super::request::Requests;
use crate::transport::stream::https::fields::Head;
use crate::transport::stream::https::request::Https;
use crate::transport::stream::https::streams::{Endless, Response, Stream, Streams};
use crate::transport::stream::link::News;

/// One connection, from the client's side.
pub struct Http3Session {
    requests: Requests,
    streams: Streams<Frames>,
    /// The server's streams that are read, by their numbers.
    incoming: Vec<(u64, Incoming)>,
    /// The settings of the server came.
    is_set: bool,
    /// The server takes no request from this number on.
    goaway: Option<u64>,
    /// A string that was decoded.
    text: Vec<u8>,
}

/// A stream of the server (RFC 9114 6.2).
enum Incoming {
    /// Its type has not come as a whole.
    Untold(Vec<u8>),
    Control(Frames),
    /// What fills the server's table: nothing comes, as the Tester's has no room (RFC 9204 3.2.3).
    Encoder,
    /// What the server did with the Tester's table, which is never used.
    Decoder,
}

/// The types of streams (RFC 9114 6.2, RFC 9204 4.2).
mod kind {
    pub(super) const CONTROL: u64 = 0;
    pub(super) const PUSH: u64 = 1;
    pub(super) const ENCODER: u64 = 2;
    pub(super) const DECODER: u64 = 3;
}

/// Settings (RFC 9114 7.2.4.1, RFC 9204 5).
mod setting {
    pub(super) const TABLE_CAPACITY: u8 = 1;
    /// Those of HTTP/2 that may not be sent.
    pub(super) const OF_HTTP2: std::ops::RangeInclusive<u64> = 2..=5;
    pub(super) const FIELD_SECTION_SIZE: u8 = 6;
    pub(super) const BLOCKED_STREAMS: u8 = 7;
}

/// Streams of the server that are open at a time: its control, its two of header fields, and others, whose
/// types mean nothing here.
pub(in crate::transport::stream) const INCOMING_MAX: u32 = 8;
/// The longest header fields that are taken: the setting says it as an integer of two octets.
const FIELDS_OCTETS_MAX: u16 = (1 << 14) - 1;
/// Identifiers of a client's streams count up by so much (RFC 9000 2.1).
const STREAM_STEP: u64 = 4;

impl Http3Session {
    /// The octets of the one stream that the client opens for itself: control, with its settings.
    pub const CONTROL: [u8; 10] = {
        let [high, low] = (FIELDS_OCTETS_MAX | 0x4000).to_be_bytes();
        [
            kind::CONTROL as u8,
            Kind::SETTINGS.0 as u8,
            7,
            setting::TABLE_CAPACITY,
            0,
            setting::BLOCKED_STREAMS,
            0,
            setting::FIELD_SECTION_SIZE,
            high,
            low,
        ]
    };

    /// A connection that has just come to be.
    pub fn new(https: Https) -> Self {
        Self {
            requests: Requests::new(https),
            streams: Streams::default(),
            incoming: Vec::new(),
            is_set: false,
            goaway: None,
            text: Vec::new(),
        }
    }

    /// Requests whose streams are open.
    pub fn open(&self) -> usize {
        self.streams.open()
    }

    /// Whether the server said that it would take no more requests.
    pub fn is_leaving(&self) -> bool {
        self.goaway.is_some()
    }

    /// Appends what is to be sent on the next stream for a query that is at this place among those of its
    /// client and leaves now, in ns.
    pub fn push(&mut self, query: &[u8], at: (u64, u64), output: &mut Vec<u8>) {
        self.streams.push(Stream::new(query, at, Frames::default()));
        self.requests.write(query, output);
    }

    /// The oldest open stream, and when its query left, in ns.
    pub fn oldest(&self) -> Option<(u64, u64)> {
        self.streams.oldest().map(|(number, stream)| (number, stream.left_ns))
    }

    /// Takes octets of the response on this stream, which arrived at `at_ns`; `tell` hears what they said.
    ///
    /// # Errors
    /// They break the protocol: the connection is to be ended with this code.
    pub fn take(
        &mut self,
        at_ns: u64,
        (number, octets): (u64, &[u8]),
        tell: &mut dyn FnMut(News<'_>),
    ) -> Result<Option<Stop>, Code> {
        let (https, text) = (&self.requests.https, &mut self.text);
        let Some(stream) = self.streams.get(number) else { return Ok(None) };
        let mut frames = std::mem::take(&mut stream.frames);
        let mut endless = Ok(());
        frames.take(octets, &mut |frame| match frame {
            Frame::Data(_) if stream.response == Response::Awaited => Err(Code::FRAME_UNEXPECTED),
            Frame::Data(octets) => {
                endless = endless.and(stream.take_content(octets, tell));
                Ok(())
            }
            Frame::Whole(Kind::HEADERS, block) => {
                let head: Head = fields::read(block, text).map_err(|_| Code::QPACK_DECOMPRESSION_FAILED)?;
                stream.take_fields(head, (https, at_ns), tell);
                Ok(())
            }
            // The Tester allows no push (RFC 9114 7.2.5).
            Frame::Whole(Kind::PUSH_PROMISE, _) => Err(Code::ID),
            Frame::Whole(..) => Err(Code::FRAME_UNEXPECTED),
        })?;
        stream.frames = frames;
        if endless == Err(Endless) {
            self.streams.take(number);
            return Ok(Some(Stop(Code::REQUEST_CANCELLED)));
        }
        Ok(None)
    }

    /// The response on this stream has ended.
    ///
    /// # Errors
    /// A frame is cut off: the connection is to be ended with this code.
    pub fn finish(&mut self, at_ns: u64, number: u64, tell: &mut dyn FnMut(News<'_>)) -> Result<(), Code> {
        let Some(stream) = self.streams.get(number) else { return Ok(()) };
        if !stream.frames.are_whole() {
            return Err(Code::FRAME);
        }
        stream.finish(&[], (&self.requests.https, at_ns), tell);
        self.streams.take(number);
        Ok(())
    }

    /// The server has reset this stream.
    pub fn reset(&mut self, number: u64, code: Code, tell: &mut dyn FnMut(News<'_>)) {
        if let Some(place) = self.forget(number) {
            tell(News::Refused(code.to_string()));
            tell(News::Lost(place, Breakdown::StreamReset));
        }
    }

    /// Nobody waits for the response on this stream any more; returns the place of its query if it has no
    /// answer.
    pub fn forget(&mut self, number: u64) -> Option<u64> {
        let stream = self.streams.take(number)?;
        (stream.response != Response::Unwanted).then_some(stream.place)
    }

    /// Takes octets of a stream that the server opened; `tell` hears what they said.
    ///
    /// # Errors
    /// They break the protocol: the connection is to be ended with this code.
    pub fn take_incoming(
        &mut self,
        (number, octets): (u64, &[u8]),
        tell: &mut dyn FnMut(News<'_>),
    ) -> Result<Option<Stop>, Code> {
        let place = self.incoming.iter().position(|(other, _)| *other == number);
        let mut stream = match place {
            Some(place) => self.incoming.swap_remove(place).1,
            None => Incoming::Untold(Vec::new()),
        };
        let mut octets = octets;
        let mut told;
        if let Incoming::Untold(before) = &mut stream {
            told = std::mem::take(before);
            told.extend_from_slice(octets);
            let Some((kind, rest)) = frames::split_integer(&told) else {
                self.incoming.push((number, Incoming::Untold(told)));
                return Ok(None);
            };
            octets = rest;
            stream = match self.identify(kind)? {
                Some(stream) => stream,
                // Streams of other types are left (RFC 9114 6.2).
                None => return Ok(Some(Stop(Code::STREAM_CREATION))),
            };
        }
        match &mut stream {
            Incoming::Control(frames) => {
                frames.take(octets, &mut |frame| match frame {
                    Frame::Data(_) => Err(Code::FRAME_UNEXPECTED),
                    Frame::Whole(kind, payload) => self.take_control(kind, payload, tell),
                })?;
            }
            Incoming::Encoder if !octets.is_empty() => return Err(Code::QPACK_ENCODER_STREAM),
            Incoming::Encoder | Incoming::Decoder | Incoming::Untold(_) => {}
        }
        self.incoming.push((number, stream));
        Ok(None)
    }

    /// A stream of this type; `None`: it means nothing here.
    fn identify(&self, kind: u64) -> Result<Option<Incoming>, Code> {
        let stream = match kind {
            kind::CONTROL => Incoming::Control(Frames::default()),
            kind::ENCODER => Incoming::Encoder,
            kind::DECODER => Incoming::Decoder,
            // The Tester allows no push (RFC 9114 4.6).
            kind::PUSH => return Err(Code::ID),
            _ => return Ok(None),
        };
        let same =
            |(_, other): &(u64, Incoming)| std::mem::discriminant(other) == std::mem::discriminant(&stream);
        if self.incoming.iter().any(same) { Err(Code::STREAM_CREATION) } else { Ok(Some(stream)) }
    }

    /// A stream that the server opened has ended.
    ///
    /// # Errors
    /// It must stay: the connection is to be ended with this code (RFC 9114 6.2.1, RFC 9204 4.2).
    pub fn finish_incoming(&mut self, number: u64) -> Result<(), Code> {
        let place = self.incoming.iter().position(|(other, _)| *other == number);
        match place.map(|place| self.incoming.swap_remove(place).1) {
            None | Some(Incoming::Untold(_)) => Ok(()),
            Some(_) => Err(Code::CLOSED_CRITICAL_STREAM),
        }
    }

    /// Takes a frame of the control stream (RFC 9114 7.2).
    fn take_control(
        &mut self,
        kind: Kind,
        payload: &[u8],
        tell: &mut dyn FnMut(News<'_>),
    ) -> Result<(), Code> {
        match kind {
            Kind::SETTINGS if !self.is_set => {
                self.is_set = true;
                check_settings(payload)
            }
            _ if !self.is_set => Err(Code::MISSING_SETTINGS),
            Kind::GOAWAY => self.take_goaway(payload, tell),
            // The Tester allows no push (RFC 9114 7.2.3).
            Kind::CANCEL_PUSH => Err(Code::ID),
            _ => Err(Code::FRAME_UNEXPECTED),
        }
    }

    /// The server takes no request from the one on that it names (RFC 9114 5.2).
    fn take_goaway(&mut self, payload: &[u8], tell: &mut dyn FnMut(News<'_>)) -> Result<(), Code> {
        let (identifier, rest) = frames::split_integer(payload).ok_or(Code::FRAME)?;
        if !rest.is_empty() {
            return Err(Code::FRAME);
        }
        let number = identifier / STREAM_STEP;
        if !identifier.is_multiple_of(STREAM_STEP) || self.goaway.is_some_and(|before| number > before) {
            return Err(Code::ID);
        }
        if self.goaway.replace(number).is_none() {
            tell(News::Refused("GOAWAY".to_owned()));
        }
        for stream in self.streams.take_from(number) {
            if stream.response != Response::Unwanted {
                tell(News::Lost(stream.place, Breakdown::GoAway));
            }
        }
        Ok(())
    }
}

/// Whether these settings may be sent. What they say is of no use here: requests are short, and need no
/// table.
fn check_settings(mut payload: &[u8]) -> Result<(), Code> {
    let mut seen = Vec::new();
    while !payload.is_empty() {
        let (name, rest) = frames::split_integer(payload).ok_or(Code::FRAME)?;
        let (_, rest) = frames::split_integer(rest).ok_or(Code::FRAME)?;
        if setting::OF_HTTP2.contains(&name) || seen.contains(&name) {
            return Err(Code::SETTINGS);
        }
        if seen.len() < SETTINGS_COMPARED {
            seen.push(name);
        }
        payload = rest;
    }
    Ok(())
}

/// Among so many settings none may come twice; what follows is read all the same.
const SETTINGS_COMPARED: usize = 64;

#[cfg(test)]
mod tests;
