//! HTTP/2 as a client of DNS over HTTPS speaks it (RFC 9113, RFC 8484): octets on one side, queries and their
//! answers on the other. It knows no socket and no clock.

use engine::connections::Breakdown;

use super::fields::Decoder;
use super::frames::{self, CANCEL, Frame, Frames, Kind, TooLong, code_name, flag, setting};
use super::request::{Https, Method, Writing};
use super::streams::{Response, Stream, Streams};
use crate::transport::stream::link::{End, News};

/// One connection, from the client's side.
pub struct Session {
    https: Https,
    writing: Writing,
    /// How long an answer is waited for, in ns.
    timeout_ns: u64,
    /// What is to be sent beside queries.
    output: Vec<u8>,
    frames: Frames,
    decoder: Decoder,
    /// Header fields that are not complete yet.
    block: Option<Block>,
    streams: Streams,
    /// How many streams the server allows at a time.
    streams_max: usize,
    /// How many octets of bodies it takes now, of all streams and of a new one.
    window: u64,
    stream_window: i64,
    held: Option<Held>,
    /// Octets of bodies that came and were not credited to the server again.
    uncredited: u32,
    /// The server takes no more queries.
    leaving: bool,
}

/// Header fields that are not complete yet.
struct Block {
    stream: u32,
    ends: bool,
    octets: Vec<u8>,
}

/// A query that the windows let leave in part.
struct Held {
    stream: u32,
    /// What the stream's own window takes.
    window: i64,
    rest: Vec<u8>,
}

/// What every connection begins with (RFC 9113 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Windows before anything was said of them, and the largest ones (RFC 9113 6.9.2, 6.9.1).
const WINDOW: u32 = 65_535;
const WINDOW_MAX: u32 = (1 << 31) - 1;
/// The Tester's own windows never hold a server up: a message is shorter than that of a stream, and that of
/// the connection is filled up at half.
const OWN_STREAM_WINDOW: u32 = 1 << 20;
const OWN_WINDOW_LOW: u32 = 1 << 30;
/// So many streams every server should allow (RFC 9113 6.5.2); taken until it says its number.
const STREAMS_UNTOLD: usize = 100;
/// Identifiers of streams count up by two, from 1, and have 31 bits (RFC 9113 5.1.1).
const STREAMS_EVER: u64 = 1 << 30;
/// No two queries in flight on a connection have the same ID.
const STREAMS_MAX: usize = 1 << 16;
/// A table of header fields as everybody has it at first (RFC 9113 6.5.2).
const TABLE_OCTETS: u32 = 4096;
/// The longest header fields that are read.
const FIELDS_OCTETS_MAX: usize = 1 << 16;

impl From<TooLong> for End {
    fn from(_: TooLong) -> Self {
        Breakdown::Reset.into()
    }
}

/// What the server sent breaks the protocol.
fn broken() -> End {
    Breakdown::Reset.into()
}

impl Session {
    /// A connection that has just come to be.
    pub fn new(https: Https, timeout_ns: u64) -> Self {
        let mut output = PREFACE.to_vec();
        let settings = [
            (setting::ENABLE_PUSH, 0),
            (setting::INITIAL_WINDOW_SIZE, OWN_STREAM_WINDOW),
            (setting::MAX_HEADER_LIST_SIZE, FIELDS_OCTETS_MAX as u32),
        ];
        let header = frames::begin(Kind::SETTINGS, 0, 0, &mut output);
        for (name, value) in settings {
            output.extend_from_slice(&name.to_be_bytes());
            output.extend_from_slice(&value.to_be_bytes());
        }
        frames::finish(header, &mut output);
        frames::push((Kind::WINDOW_UPDATE, 0, 0), &(WINDOW_MAX - WINDOW).to_be_bytes(), &mut output);
        Self {
            https,
            writing: Writing::default(),
            timeout_ns,
            output,
            frames: Frames::default(),
            decoder: Decoder::default(),
            block: None,
            streams: Streams::default(),
            streams_max: STREAMS_UNTOLD,
            window: WINDOW.into(),
            stream_window: WINDOW.into(),
            held: None,
            uncredited: 0,
            leaving: false,
        }
    }

    /// Whether it takes a query now.
    pub fn has_room(&self) -> bool {
        let in_body = self.https.method == Method::Post;
        !self.is_leaving()
            && self.streams.open() < self.streams_max
            && self.held.is_none()
            && (self.window > 0 || !in_body)
    }

    /// Whether it will take no more queries.
    pub fn is_leaving(&self) -> bool {
        self.leaving || self.streams.next() >= STREAMS_EVER
    }

    /// Whether the server said that it would take no more queries.
    pub fn was_told_to_leave(&self) -> bool {
        self.leaving
    }

    /// Moves what is to be sent beside queries.
    pub fn take_output(&mut self, output: &mut Vec<u8>) {
        output.append(&mut self.output);
    }

    /// Appends a query, where there is room, that is at this place among those of its client.
    pub fn push(&mut self, query: &[u8], (place, now_ns): (u64, u64), output: &mut Vec<u8>) {
        let stream = identifier(self.streams.next());
        self.streams.push(Stream::new(query, (place, now_ns), ()));
        self.https.write((stream, query), &mut self.writing, output);
        if self.https.method == Method::Get {
            return;
        }
        let taken = self.allowed(query.len(), self.stream_window);
        self.window -= taken as u64;
        let (now, rest) = query.split_at(taken);
        let end = if rest.is_empty() { flag::END_STREAM } else { 0 };
        if !now.is_empty() {
            frames::push((Kind::DATA, end, stream), now, output);
        }
        if !rest.is_empty() {
            self.held = Some(Held { stream, window: self.stream_window - taken as i64, rest: rest.to_vec() });
        }
    }

    /// How many of these octets the windows let leave.
    fn allowed(&self, octets: usize, stream_window: i64) -> usize {
        let window = self.window.min(u64::try_from(stream_window).unwrap_or(0));
        octets.min(usize::try_from(window).unwrap_or(usize::MAX))
    }

    /// Lets the query leave that was held, as far as the windows allow.
    fn release(&mut self) {
        let Some(mut held) = self.held.take() else { return };
        let taken = self.allowed(held.rest.len(), held.window);
        if taken > 0 {
            let end = if taken == held.rest.len() { flag::END_STREAM } else { 0 };
            frames::push((Kind::DATA, end, held.stream), &held.rest[..taken], &mut self.output);
            self.window -= taken as u64;
            held.window -= taken as i64;
            held.rest.drain(..taken);
        }
        self.held = Some(held).filter(|held| !held.rest.is_empty());
    }

    /// Cancels streams whose answers nobody waits for any more; returns how many had none.
    pub fn expire(&mut self, now_ns: u64) -> u64 {
        let Some(instant_ns) = now_ns.checked_sub(self.timeout_ns) else { return 0 };
        let mut unanswered = 0;
        while let Some((number, stream)) = self.streams.oldest()
            && stream.left_ns < instant_ns
        {
            unanswered += u64::from(stream.response != Response::Unwanted);
            self.streams.take(number);
            self.cancel(identifier(number));
        }
        unanswered
    }

    /// Tells the server that a stream is over.
    fn cancel(&mut self, identifier: u32) {
        self.held.take_if(|held| held.stream == identifier);
        frames::push((Kind::RST_STREAM, 0, identifier), &CANCEL.to_be_bytes(), &mut self.output);
    }

    /// Says goodbye.
    pub fn close(&mut self) {
        frames::push((Kind::GOAWAY, 0, 0), &[0; 8], &mut self.output);
    }

    /// Takes octets that arrived at `at_ns`; `tell` hears what they said.
    ///
    /// # Errors
    /// The connection is over: they break the protocol.
    pub fn take(&mut self, at_ns: u64, octets: &[u8], tell: &mut dyn FnMut(News<'_>)) -> Result<(), End> {
        let mut frames = std::mem::take(&mut self.frames);
        let taken = frames.take(octets, &mut |frame| self.take_frame(at_ns, &frame, tell));
        self.frames = frames;
        taken
    }

    fn take_frame(
        &mut self,
        at_ns: u64,
        frame: &Frame<'_>,
        tell: &mut dyn FnMut(News<'_>),
    ) -> Result<(), End> {
        if self.block.is_some() && frame.kind != Kind::CONTINUATION {
            return Err(broken());
        }
        match frame.kind {
            Kind::DATA => self.take_data(at_ns, frame, tell),
            Kind::HEADERS | Kind::CONTINUATION => self.take_fields(at_ns, frame, tell),
            Kind::RST_STREAM => self.take_reset(frame, tell),
            Kind::SETTINGS => self.take_settings(frame),
            Kind::PUSH_PROMISE => Err(broken()),
            Kind::PING => self.take_ping(frame),
            Kind::GOAWAY => self.take_goaway(frame, tell),
            Kind::WINDOW_UPDATE => self.take_credit(frame),
            // Frames of other types are to be ignored (RFC 9113 5.5).
            _ => Ok(()),
        }
    }

    /// The number of a stream that the Tester has opened.
    fn opened(&self, identifier: u32) -> Result<u64, End> {
        let number = u64::from(identifier / 2);
        if identifier % 2 == 1 && number < self.streams.next() { Ok(number) } else { Err(broken()) }
    }

    fn take_data(
        &mut self,
        at_ns: u64,
        frame: &Frame<'_>,
        tell: &mut dyn FnMut(News<'_>),
    ) -> Result<(), End> {
        let (number, content) = (self.opened(frame.stream)?, frame.content().ok_or_else(broken)?);
        self.credit(frame.payload.len() as u32);
        let Some(stream) = self.streams.get(number) else { return Ok(()) };
        if frame.has(flag::END_STREAM) {
            stream.finish(content, (&self.https, at_ns), tell);
            self.streams.take(number);
        } else if stream.take_content(content, tell).is_err() {
            self.streams.take(number);
            self.cancel(frame.stream);
        }
        Ok(())
    }

    /// Credits octets to the server again before its window is used up.
    fn credit(&mut self, octets: u32) {
        self.uncredited = self.uncredited.saturating_add(octets);
        if self.uncredited >= OWN_WINDOW_LOW {
            let credit = std::mem::take(&mut self.uncredited).to_be_bytes();
            frames::push((Kind::WINDOW_UPDATE, 0, 0), &credit, &mut self.output);
        }
    }

    /// Takes HEADERS or CONTINUATION.
    fn take_fields(
        &mut self,
        at_ns: u64,
        frame: &Frame<'_>,
        tell: &mut dyn FnMut(News<'_>),
    ) -> Result<(), End> {
        let begins = frame.kind == Kind::HEADERS;
        let content = if begins { frame.content() } else { Some(frame.payload) };
        let (number, content) = (self.opened(frame.stream)?, content.ok_or_else(broken)?);
        let complete = frame.has(flag::END_HEADERS);
        if begins && complete {
            return self.take_response(at_ns, (number, frame.has(flag::END_STREAM)), content, tell);
        }
        let mut block = if begins {
            Block { stream: frame.stream, ends: frame.has(flag::END_STREAM), octets: Vec::new() }
        } else {
            self.block.take().filter(|block| block.stream == frame.stream).ok_or_else(broken)?
        };
        if content.is_empty() && !complete || block.octets.len() + content.len() > FIELDS_OCTETS_MAX {
            return Err(broken());
        }
        block.octets.extend_from_slice(content);
        if complete {
            return self.take_response(at_ns, (number, block.ends), &block.octets, tell);
        }
        self.block = Some(block);
        Ok(())
    }

    /// Takes all header fields of a response, or its trailers.
    fn take_response(
        &mut self,
        at_ns: u64,
        (number, ends): (u64, bool),
        block: &[u8],
        tell: &mut dyn FnMut(News<'_>),
    ) -> Result<(), End> {
        let head = self.decoder.head(block).map_err(|_| broken())?;
        let Some(stream) = self.streams.get(number) else { return Ok(()) };
        stream.take_fields(head, (&self.https, at_ns), tell);
        if ends {
            stream.finish(&[], (&self.https, at_ns), tell);
            self.streams.take(number);
        }
        Ok(())
    }

    fn take_reset(&mut self, frame: &Frame<'_>, tell: &mut dyn FnMut(News<'_>)) -> Result<(), End> {
        let code = frame.payload.try_into().map(u32::from_be_bytes).map_err(|_| broken())?;
        let number = self.opened(frame.stream)?;
        self.held.take_if(|held| held.stream == frame.stream);
        let Some(stream) = self.streams.take(number) else { return Ok(()) };
        if stream.response != Response::Unwanted {
            tell(News::Refused(format!("RST_STREAM {}", code_name(code))));
            tell(News::Lost(stream.place, Breakdown::StreamReset));
        }
        Ok(())
    }

    fn take_settings(&mut self, frame: &Frame<'_>) -> Result<(), End> {
        let (settings, odd) = frame.payload.as_chunks::<6>();
        if frame.stream != 0 || !odd.is_empty() {
            return Err(broken());
        }
        if frame.has(flag::ACK) {
            return Ok(());
        }
        for &[high, low, ref value @ ..] in settings {
            let value = u32::from_be_bytes(*value);
            match u16::from_be_bytes([high, low]) {
                setting::HEADER_TABLE_SIZE if value < TABLE_OCTETS => {
                    let said = self.writing == Writing::Bare { said: true };
                    self.writing = Writing::Bare { said };
                }
                setting::MAX_CONCURRENT_STREAMS => {
                    self.streams_max = usize::try_from(value).unwrap_or(STREAMS_MAX).min(STREAMS_MAX);
                }
                setting::INITIAL_WINDOW_SIZE if value > WINDOW_MAX => return Err(broken()),
                setting::INITIAL_WINDOW_SIZE => {
                    let before = std::mem::replace(&mut self.stream_window, value.into());
                    if let Some(held) = &mut self.held {
                        held.window += self.stream_window - before;
                    }
                }
                _ => {}
            }
        }
        frames::push((Kind::SETTINGS, flag::ACK, 0), &[], &mut self.output);
        self.release();
        Ok(())
    }

    fn take_ping(&mut self, frame: &Frame<'_>) -> Result<(), End> {
        if frame.payload.len() != 8 || frame.stream != 0 {
            return Err(broken());
        }
        if !frame.has(flag::ACK) {
            frames::push((Kind::PING, flag::ACK, 0), frame.payload, &mut self.output);
        }
        Ok(())
    }

    /// The server takes no stream above the one it names.
    fn take_goaway(&mut self, frame: &Frame<'_>, tell: &mut dyn FnMut(News<'_>)) -> Result<(), End> {
        let last = frame.number().filter(|_| frame.stream == 0).ok_or_else(broken)?;
        let code = frame.payload.get(4..8).and_then(|code| code.try_into().ok()).ok_or_else(broken)?;
        self.leaving = true;
        tell(News::Refused(format!("GOAWAY {}", code_name(u32::from_be_bytes(code)))));
        self.held.take_if(|held| held.stream > last);
        for stream in self.streams.take_from(u64::from(last.div_ceil(2))) {
            if stream.response != Response::Unwanted {
                tell(News::Lost(stream.place, Breakdown::GoAway));
            }
        }
        Ok(())
    }

    /// Takes WINDOW_UPDATE.
    fn take_credit(&mut self, frame: &Frame<'_>) -> Result<(), End> {
        let credit =
            frame.number().filter(|&credit| credit > 0 && frame.payload.len() == 4).ok_or_else(broken)?;
        if frame.stream == 0 {
            self.window += u64::from(credit);
            if self.window > WINDOW_MAX.into() {
                return Err(broken());
            }
        } else if let Some(held) = self.held.as_mut().filter(|held| held.stream == frame.stream) {
            held.window += i64::from(credit);
            if held.window > WINDOW_MAX.into() {
                return Err(broken());
            }
        }
        self.release();
        Ok(())
    }
}

/// The identifier of the stream with this number.
fn identifier(number: u64) -> u32 {
    (2 * number + 1) as u32
}

#[cfg(test)]
mod tests;
