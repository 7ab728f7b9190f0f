//! Clients over TCP: length-prefixed messages, many on one connection (RFC 7766), everything bounded.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use net::poll::{Interest, Poller};

use super::tcp_upstreams::again;
use super::worker::Token;

/// A connection is read no further while so many octets of answers wait for the client to take them.
const OUTPUT_PAUSE_OCTETS: usize = 128 << 10;

/// A client that leaves so many octets of answers waiting is cut off.
const OUTPUT_MAX_OCTETS: usize = 1 << 20;

/// Connections accepted in one round of work; the poller tells again of those that still wait.
const ACCEPTS_AT_ONCE: usize = 64;

/// One whole message with its length, so that every message fits.
const INPUT_OCTETS: usize = 2 + 65_535;

/// The longest message.
const MESSAGE_OCTETS: usize = 65_535;

/// The connections of one thread.
pub(super) struct TcpClients {
    listeners: Vec<TcpListener>,
    connections: Vec<Option<Connection>>,
    next_serial: u64,
    idle_ns: u64,
    /// Connections with answers that have not been offered to the kernel.
    dirty: Vec<u64>,
    /// Accepting failed (no more descriptors): it is tried again at the next sweep.
    paused: Vec<usize>,
    scratch: Vec<u8>,
}

struct Connection {
    number: u64,
    stream: TcpStream,
    peer: SocketAddr,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    active_ns: u64,
    /// Queries whose answers are still to come.
    outstanding: usize,
    /// The client will send no more.
    ended: bool,
    interest: Option<Interest>,
}

/// The low bits of a connection's number are its place in the list.
const PLACE_BITS: u32 = 16;

impl TcpClients {
    pub fn new(connections: usize, idle_ns: u64, listeners: Vec<TcpListener>) -> Self {
        Self {
            listeners,
            connections: (0..connections).map(|_| None).collect(),
            next_serial: 0,
            idle_ns,
            dirty: Vec::new(),
            paused: Vec::new(),
            scratch: vec![0; MESSAGE_OCTETS],
        }
    }

    pub fn listeners(&self) -> impl Iterator<Item = &TcpListener> {
        self.listeners.iter()
    }

    /// Takes waiting connections, so many at once that other work has its turn; those beyond the limit are closed.
    pub fn accept(&mut self, poller: &Poller, listener: usize, now_ns: u64) {
        for _ in 0..ACCEPTS_AT_ONCE {
            let Some(socket) = self.listeners.get(listener) else { return };
            match socket.accept() {
                Ok((stream, peer)) => {
                    // What goes wrong here concerns this connection alone, and dropping it ends it.
                    let _ = self.admit(poller, stream, peer, now_ns);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    let _ = poller.remove(socket);
                    return self.paused.push(listener);
                }
            }
        }
    }

    fn admit(&mut self, poller: &Poller, stream: TcpStream, peer: SocketAddr, now_ns: u64) -> io::Result<()> {
        let Some(place) = self.connections.iter().position(Option::is_none) else { return Ok(()) };
        let number = self.next_serial << PLACE_BITS | place as u64;
        self.next_serial = (self.next_serial + 1) & (u64::MAX >> (PLACE_BITS + 8));
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        poller.add(&stream, Token::TcpClient(number).encode(), Interest::Read)?;
        self.connections[place] = Some(Connection {
            number,
            stream,
            peer,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            active_ns: now_ns,
            outstanding: 0,
            ended: false,
            interest: Some(Interest::Read),
        });
        Ok(())
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Connection> {
        let place = (number & ((1 << PLACE_BITS) - 1)) as usize;
        self.connections.get_mut(place)?.as_mut().filter(|connection| connection.number == number)
    }

    fn close(&mut self, number: u64) {
        if self.get_mut(number).is_some() {
            self.connections[(number & ((1 << PLACE_BITS) - 1)) as usize] = None;
        }
    }

    /// Reads what has come. Returns the client's address and the octets, whose whole messages [`take_frame`] gives;
    /// what is left goes back with [`TcpClients::keep`].
    pub fn read(&mut self, number: u64) -> Option<(SocketAddr, Vec<u8>)> {
        let connection = self.get_mut(number)?;
        let have = connection.input.len();
        connection.input.resize(INPUT_OCTETS, 0);
        let read = again(connection.stream.read(&mut connection.input[have..]));
        connection.input.truncate(have + read.as_ref().map_or(0, |octets| octets.unwrap_or(0)));
        match read {
            Ok(Some(0)) => connection.ended = true,
            Ok(_) => {}
            Err(_) => {
                self.close(number);
                return None;
            }
        }
        Some((connection.peer, std::mem::take(&mut connection.input)))
    }

    /// Notes that a whole message came. Its answer may follow at once.
    pub fn expect_answer(&mut self, number: u64, now_ns: u64) {
        let Some(connection) = self.get_mut(number) else { return };
        connection.outstanding += 1;
        connection.active_ns = now_ns;
    }

    /// Takes back the octets after the last whole message.
    pub fn keep(&mut self, number: u64, mut input: Vec<u8>, used: usize) {
        let Some(connection) = self.get_mut(number) else { return };
        input.drain(..used);
        connection.input = input;
        self.dirty.push(number);
    }

    /// Adds an answer, to leave with the next flush.
    pub fn answer(&mut self, number: u64, write: impl FnOnce(&mut [u8]) -> usize) {
        let length = write(&mut self.scratch).min(MESSAGE_OCTETS);
        let scratch = std::mem::take(&mut self.scratch);
        if let Some(connection) = self.get_mut(number).filter(|_| length > 0) {
            connection.outstanding = connection.outstanding.saturating_sub(1);
            connection.output.extend_from_slice(&(length as u16).to_be_bytes());
            connection.output.extend_from_slice(&scratch[..length]);
            self.dirty.push(number);
        }
        self.scratch = scratch;
    }

    /// Goes on writing where the kernel takes more.
    pub fn writable(&mut self, number: u64) {
        self.dirty.push(number);
    }

    /// Ends a connection that failed.
    pub fn failed(&mut self, number: u64) {
        self.close(number);
    }

    /// Offers all answers to the kernel.
    pub fn flush(&mut self, poller: &Poller) {
        while let Some(number) = self.dirty.pop() {
            let Some(connection) = self.get_mut(number) else { continue };
            let kept = connection.write().is_ok() && connection.watch(poller).is_ok();
            if !kept || connection.is_done() {
                self.close(number);
            }
        }
    }

    /// Closes idle connections, and accepts again where that had failed.
    pub fn sweep(&mut self, poller: &Poller, now_ns: u64) {
        let idle_ns = self.idle_ns;
        for connection in &mut self.connections {
            if connection.as_ref().is_some_and(|open| now_ns.saturating_sub(open.active_ns) > idle_ns) {
                *connection = None;
            }
        }
        for listener in self.paused.drain(..) {
            let _ =
                poller.add(&self.listeners[listener], Token::TcpListener(listener).encode(), Interest::Read);
        }
    }

    /// Whether nothing needs a sweep.
    pub fn is_idle(&self) -> bool {
        self.paused.is_empty() && self.connections.iter().all(Option::is_none)
    }
}

impl Connection {
    fn write(&mut self) -> io::Result<()> {
        while self.sent < self.output.len() {
            match again(self.stream.write(&self.output[self.sent..]))? {
                Some(octets) => self.sent += octets,
                None => break,
            }
        }
        self.output.drain(..self.sent);
        self.sent = 0;
        if self.output.len() > OUTPUT_MAX_OCTETS { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
    }

    /// Tells the poller what the connection waits for now.
    fn watch(&mut self, poller: &Poller) -> io::Result<()> {
        let reads = !self.ended && self.output.len() < OUTPUT_PAUSE_OCTETS;
        let wanted = match (reads, !self.output.is_empty()) {
            (true, true) => Some(Interest::Both),
            (true, false) => Some(Interest::Read),
            (false, true) => Some(Interest::Write),
            (false, false) => None,
        };
        let token = Token::TcpClient(self.number).encode();
        match (self.interest, wanted) {
            (before, wanted) if before == wanted => {}
            (None, Some(interest)) => poller.add(&self.stream, token, interest)?,
            (Some(_), Some(interest)) => poller.modify(&self.stream, token, interest)?,
            (_, None) => poller.remove(&self.stream)?,
        }
        self.interest = wanted;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.ended && self.output.is_empty() && self.outstanding == 0
    }
}

/// The first whole message of a stream's octets.
pub(super) fn take_frame(octets: &[u8]) -> Option<&[u8]> {
    let (length, rest) = octets.split_first_chunk()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}
