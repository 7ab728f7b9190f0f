//! One TCP connection: messages with their length before them (RFC 1035 4.2.2), answered in the order they
//! came.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::counters::{SharedTraffic, Traffic};
use crate::delayed::Delayed;
use crate::faults::Reply;
use crate::query::Query;
use crate::responder::Responder;
use crate::zone::{Answer, QueryKind, TCP_ANSWER_OCTETS_MAX, Transport};

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
    Reading,
    /// Room for answers; nothing is read until they are gone.
    Writing,
    Closed,
}

/// What a connection answers with.
pub(crate) struct ConnectionContext<'s> {
    pub responder: &'s mut Responder,
    /// Answers that leave later, with the tokens of their connections.
    pub delayed: &'s mut Delayed<(u64, Box<[u8]>)>,
    pub token: u64,
    /// The time, in ns of the monotonic clock.
    pub now_ns: u64,
}

/// A client and what is under way to and from it.
pub struct Connection {
    stream: TcpStream,
    client: SocketAddr,
    state: State,
    active_ns: u64,
    delayed: usize,
    input: Box<[u8; PREFIX_OCTETS + QUERY_OCTETS_MAX]>,
    input_length: usize,
    output: Vec<u8>,
    output_sent: usize,
}

impl Connection {
    /// A connection that was accepted; `stream` must be non-blocking.
    pub fn new(stream: TcpStream, client: SocketAddr, now_ns: u64) -> Self {
        Self {
            stream,
            client,
            state: State::Reading,
            active_ns: now_ns,
            delayed: 0,
            input: Box::new([0; PREFIX_OCTETS + QUERY_OCTETS_MAX]),
            input_length: 0,
            output: Vec::with_capacity(OUTPUT_OCTETS),
            output_sent: 0,
        }
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// How long ago it was opened or its last whole query came; nothing while an answer is due (RFC 7766
    /// 6.2.3).
    pub fn idle_ns(&self, now_ns: u64) -> u64 {
        if self.delayed > 0 { 0 } else { now_ns.saturating_sub(self.active_ns) }
    }

    /// Adds a delayed answer; `false` when there is no room, because the client does not read.
    pub fn add(&mut self, answer: &[u8]) -> bool {
        self.delayed = self.delayed.saturating_sub(1);
        self.write();
        let fits = self.output.len() + PREFIX_OCTETS + answer.len() <= OUTPUT_OCTETS;
        if fits {
            self.output.extend((answer.len() as u16).to_be_bytes());
            self.output.extend(answer);
        }
        fits
    }

    /// Reads, answers and writes as far as it goes without waiting.
    pub(crate) fn proceed(&mut self, mut desk: ConnectionContext<'_>, traffic: &SharedTraffic) -> State {
        let mut counted = Traffic::default();
        self.state = State::Reading;
        // What an earlier call had to leave comes first: no new octets may come to announce it.
        self.answer_all(&mut desk, &mut counted);
        for _ in 0..READS_AT_ONCE {
            if self.state != State::Reading || !self.read() {
                break;
            }
            self.answer_all(&mut desk, &mut counted);
        }
        traffic.add(counted);
        self.state
    }

    /// Writes and answers until no whole query is left, or the client must read first.
    fn answer_all(&mut self, desk: &mut ConnectionContext<'_>, counted: &mut Traffic) {
        loop {
            self.write();
            if self.state != State::Reading || !self.answer_input(desk, counted) {
                return;
            }
        }
    }

    /// Answers the whole messages of the input, as long as there is room for an answer that comes twice;
    /// tells whether there were any.
    fn answer_input(&mut self, desk: &mut ConnectionContext<'_>, counted: &mut Traffic) -> bool {
        let mut at = 0;
        while self.output.len() + 2 * (PREFIX_OCTETS + TCP_ANSWER_OCTETS_MAX) <= OUTPUT_OCTETS {
            let Some((prefix, rest)) = self.input[at..self.input_length].split_first_chunk() else { break };
            let length = usize::from(u16::from_be_bytes(*prefix));
            if length > QUERY_OCTETS_MAX {
                counted.count(&Reply::plain(Answer { octets: 0, kind: QueryKind::Malformed }));
                // What was answered before it is not held back.
                self.write();
                self.state = State::Closed;
                return false;
            }
            let Some(query) = rest.get(..length) else { break };
            let query = Query {
                octets: query,
                from: self.client,
                transport: Transport::Tcp,
                arrived_ns: desk.now_ns,
            };
            self.delayed += answer_message(desk, query, &mut self.output, counted);
            at += PREFIX_OCTETS + length;
        }
        if at > 0 {
            self.active_ns = desk.now_ns;
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

/// Adds an answer with its length before it to `output`, or nothing where none is due now; returns how many
/// are due later.
fn answer_message(
    desk: &mut ConnectionContext<'_>,
    query: Query<'_>,
    output: &mut Vec<u8>,
    counted: &mut Traffic,
) -> usize {
    let start = output.len();
    output.resize(start + PREFIX_OCTETS + TCP_ANSWER_OCTETS_MAX, 0);
    let reply = desk.responder.respond(query, &mut output[start + PREFIX_OCTETS..]);
    counted.count(&reply);
    let octets = reply.answer.octets.min(TCP_ANSWER_OCTETS_MAX);
    output[start..start + PREFIX_OCTETS].copy_from_slice(&(octets as u16).to_be_bytes());
    output.truncate(start + PREFIX_OCTETS + octets);
    if octets > 0 && reply.is_prompt() {
        counted.answers += 1;
        return 0;
    }
    let message = output.split_off(start);
    if octets == 0 {
        return 0;
    }
    if reply.delay_ns == 0 {
        for _ in 0..reply.copies {
            output.extend(&message);
            counted.answers += 1;
        }
        return 0;
    }
    put_off(desk, &reply, &message[PREFIX_OCTETS..], counted)
}

/// Leaves an answer for later; returns how many times.
fn put_off(desk: &mut ConnectionContext<'_>, reply: &Reply, answer: &[u8], counted: &mut Traffic) -> usize {
    let due_ns = desk.now_ns.saturating_add(reply.delay_ns);
    let push = |_: &u8| desk.delayed.push(due_ns, (desk.token, answer.into())).is_ok();
    let kept = (0..reply.copies).filter(push).count();
    counted.undelivered += u64::from(reply.copies) - kept as u64;
    kept
}
