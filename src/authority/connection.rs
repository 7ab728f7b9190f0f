//! One TCP connection: messages with their length before them (RFC 1035 4.2.2), answered in the order they came.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use super::counters::{SharedTraffic, Traffic};
use super::zone::{Answer, QueryKind, TCP_ANSWER_OCTETS_MAX, Transport, Zone};

/// The octets of the length before each message.
const PREFIX_OCTETS: usize = 2;
/// A longer message is no query that the zone can answer: it ends the connection.
const QUERY_OCTETS_MAX: usize = 4096;
/// Answers wait here while the client reads slowly; it is sent no more than this before it has read.
const OUTPUT_OCTETS: usize = 16 * 1024;
/// Reads of one client before the others have their turn.
const READS_AT_ONCE: usize = 8;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// More of a query.
    Reading,
    /// Room for answers; nothing is read until they are gone.
    Writing,
    /// Nothing: it is over.
    Closed,
}

/// A client and what is under way to and from it.
pub struct Connection {
    stream: TcpStream,
    state: State,
    active_at: Instant,
    input: Box<[u8; PREFIX_OCTETS + QUERY_OCTETS_MAX]>,
    input_length: usize,
    output: Vec<u8>,
    output_sent: usize,
}

impl Connection {
    /// A connection that was accepted; `stream` must be non-blocking.
    pub fn new(stream: TcpStream, now: Instant) -> Self {
        Self {
            stream,
            state: State::Reading,
            active_at: now,
            input: Box::new([0; PREFIX_OCTETS + QUERY_OCTETS_MAX]),
            input_length: 0,
            output: Vec::with_capacity(OUTPUT_OCTETS),
            output_sent: 0,
        }
    }

    /// What it waits for.
    pub fn state(&self) -> State {
        self.state
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// When it was opened or its last whole query came.
    pub fn active_at(&self) -> Instant {
        self.active_at
    }

    /// Reads, answers and writes as far as it goes without waiting.
    pub fn proceed(&mut self, zone: &Zone, traffic: &SharedTraffic, now: Instant) -> State {
        let mut counted = Traffic::default();
        self.state = State::Reading;
        // What an earlier call had to leave comes first: no new octets may come to announce it.
        self.answer_all(zone, &mut counted, now);
        for _ in 0..READS_AT_ONCE {
            if self.state != State::Reading || !self.read() {
                break;
            }
            self.answer_all(zone, &mut counted, now);
        }
        traffic.add(counted);
        self.state
    }

    /// Writes and answers until no whole query is left, or the client must read first.
    fn answer_all(&mut self, zone: &Zone, counted: &mut Traffic, now: Instant) {
        loop {
            self.write();
            if self.state != State::Reading || !self.answer_input(zone, counted, now) {
                return;
            }
        }
    }

    /// Answers the whole messages of the input, as long as there is room for answers; tells whether there were any.
    fn answer_input(&mut self, zone: &Zone, counted: &mut Traffic, now: Instant) -> bool {
        let mut at = 0;
        while self.output.len() + PREFIX_OCTETS + TCP_ANSWER_OCTETS_MAX <= OUTPUT_OCTETS {
            let Some((prefix, rest)) = self.input[at..self.input_length].split_first_chunk() else { break };
            let length = usize::from(u16::from_be_bytes(*prefix));
            if length > QUERY_OCTETS_MAX {
                counted.count(Answer { octets: 0, kind: QueryKind::Malformed });
                self.state = State::Closed;
                return false;
            }
            let Some(query) = rest.get(..length) else { break };
            answer_message(zone, query, &mut self.output, counted);
            at += PREFIX_OCTETS + length;
        }
        if at > 0 {
            self.active_at = now;
            self.input.copy_within(at..self.input_length, 0);
            self.input_length -= at;
        }
        at > 0
    }

    /// Writes the answers; what the client does not take yet stays.
    fn write(&mut self) {
        while self.output_sent < self.output.len() && self.state != State::Closed {
            match self.stream.write(&self.output[self.output_sent..]) {
                Ok(sent) if sent > 0 => self.output_sent += sent,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.state = State::Writing;
                    return;
                }
                _ => self.state = State::Closed,
            }
        }
        self.output.clear();
        self.output_sent = 0;
    }

    /// Whether anything new came.
    fn read(&mut self) -> bool {
        match self.stream.read(&mut self.input[self.input_length..]) {
            Ok(0) => self.state = State::Closed,
            Ok(length) => {
                self.input_length += length;
                return true;
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.state = State::Closed,
        }
        false
    }
}

/// Adds an answer with its length before it to `output`, or nothing where none is due.
fn answer_message(zone: &Zone, query: &[u8], output: &mut Vec<u8>, counted: &mut Traffic) {
    let start = output.len();
    output.resize(start + PREFIX_OCTETS + TCP_ANSWER_OCTETS_MAX, 0);
    let answer = zone.answer(query, Transport::Tcp, &mut output[start + PREFIX_OCTETS..]);
    counted.count(answer);
    if answer.octets == 0 {
        output.truncate(start);
        return;
    }
    counted.answers += 1;
    let length = answer.octets.min(TCP_ANSWER_OCTETS_MAX) as u16;
    output[start..start + PREFIX_OCTETS].copy_from_slice(&length.to_be_bytes());
    output.truncate(start + PREFIX_OCTETS + answer.octets);
}
