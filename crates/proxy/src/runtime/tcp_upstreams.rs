//! Queries to upstream servers over TCP, one connection for each (RFC 7766).

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use net::poll::{Event, Interest, Poller};
use socket2::{Domain, Protocol, Socket, Type};

use super::worker::Token;

/// Connections at most; a query beyond fails, and is tried again or ends in SERVFAIL.
const CONNECTIONS_MAX: usize = 256;

/// A message with its length before it.
const FRAME_OCTETS_MAX: usize = 2 + 65_535;

/// What became of a query.
pub(super) struct Ended {
    /// The machine's token.
    pub token: u64,
    /// The answer with its length before it, if there is one.
    pub frame: Option<Vec<u8>>,
}

impl Ended {
    pub fn message(&self) -> Option<&[u8]> {
        self.frame.as_ref().and_then(|frame| frame.get(2..))
    }
}

/// The connections of one thread.
pub(super) struct TcpUpstreams {
    connections: Vec<Connection>,
    next_number: u32,
    timeout_ns: u64,
    failed: Vec<u64>,
}

struct Connection {
    number: u32,
    token: u64,
    stream: TcpStream,
    query: Vec<u8>,
    sent: usize,
    answer: Vec<u8>,
    until_ns: u64,
}

impl TcpUpstreams {
    pub fn new(timeout_ns: u64) -> Self {
        Self { connections: Vec::new(), next_number: 0, timeout_ns, failed: Vec::new() }
    }

    /// Begins to connect. A failure is told by [`TcpUpstreams::take_failed`].
    pub fn start(&mut self, poller: &Poller, now_ns: u64, token: u64, upstream: SocketAddr, query: &[u8]) {
        if self.connections.len() >= CONNECTIONS_MAX
            || self.connect(poller, now_ns, token, upstream, query).is_err()
        {
            self.failed.push(token);
        }
    }

    fn connect(
        &mut self,
        poller: &Poller,
        now_ns: u64,
        token: u64,
        upstream: SocketAddr,
        query: &[u8],
    ) -> io::Result<()> {
        let length = u16::try_from(query.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let socket =
            Socket::new(Domain::for_address(upstream), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
        socket.set_tcp_nodelay(true)?;
        match socket.connect(&upstream.into()) {
            Err(error) if error.raw_os_error() == Some(EINPROGRESS) => {}
            result => result?,
        }
        let (number, stream) = (self.next_number, TcpStream::from(socket));
        self.next_number = number.wrapping_add(1);
        poller.add(&stream, Token::TcpUpstream(number).encode(), Interest::Write)?;
        let query = [&length.to_be_bytes()[..], query].concat();
        let until_ns = now_ns + self.timeout_ns;
        self.connections.push(Connection {
            number,
            token,
            stream,
            query,
            sent: 0,
            answer: Vec::new(),
            until_ns,
        });
        Ok(())
    }

    /// The token of a query that failed at its start.
    pub fn take_failed(&mut self) -> Option<u64> {
        self.failed.pop()
    }

    /// Goes on with a connection that is ready; tells when it has ended.
    pub fn ready(&mut self, poller: &Poller, number: u32, event: Event) -> Option<Ended> {
        let index = self.connections.iter().position(|connection| connection.number == number)?;
        let frame = match self.connections[index].step(poller, event) {
            Ok(false) => return None,
            Ok(true) => true,
            Err(_) => false,
        };
        // Dropping the connection closes it, which takes it from the poller too.
        let Connection { token, answer, .. } = self.connections.swap_remove(index);
        Some(Ended { token, frame: frame.then_some(answer) })
    }

    /// Closes connections whose query the machine has given up.
    pub fn sweep(&mut self, now_ns: u64) {
        self.connections.retain(|connection| connection.until_ns > now_ns);
    }

    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }
}

/// `connect` goes on in the background (connect(2)).
const EINPROGRESS: i32 = 115;

impl Connection {
    /// Writes and reads what is possible; `true` when the whole answer is there.
    fn step(&mut self, poller: &Poller, event: Event) -> io::Result<bool> {
        if self.sent < self.query.len() {
            if !event.writable {
                return Ok(false);
            }
            if let Some(error) = self.stream.take_error()? {
                return Err(error);
            }
            self.sent += again(self.stream.write(&self.query[self.sent..]))?.unwrap_or(0);
            if self.sent == self.query.len() {
                poller.modify(&self.stream, Token::TcpUpstream(self.number).encode(), Interest::Read)?;
            }
            return Ok(false);
        }
        let mut buffer = [0; 4096];
        while let Some(octets) = again(self.stream.read(&mut buffer))? {
            if octets == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.answer.extend_from_slice(&buffer[..octets]);
            let length = self.answer.first_chunk().map(|length| 2 + usize::from(u16::from_be_bytes(*length)));
            if let Some(length) = length.filter(|&length| self.answer.len() >= length) {
                self.answer.truncate(length);
                return Ok(true);
            }
            if self.answer.len() >= FRAME_OCTETS_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(false)
    }
}

/// `None` where the kernel has nothing to give or take now.
pub(super) fn again(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(octets) => Ok(Some(octets)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
