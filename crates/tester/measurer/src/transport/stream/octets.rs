//! The octets of a connection over TCP, with or without TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;

use engine::connections::Breakdown;
use rustls::client::ClientConnection;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Error, HandshakeKind};
use sys::clock;
use sys::poll::Interest;

use super::link::{End, News, Scratch, Waiting};
use super::reason::in_words;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Connecting,
    Handshake,
    Open,
}

/// What a connection brought.
pub(super) enum Arrival<'a> {
    /// [`News::Ready`].
    Ready(News<'static>),
    /// Octets, at this instant in ns (`CLOCK_MONOTONIC`).
    Octets(u64, &'a [u8]),
}

/// A connection over TCP that carries octets.
pub(super) struct Octets {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
    /// The handshake has to choose a protocol (ALPN).
    needs_alpn: bool,
    phase: Phase,
    began_ns: u64,
    connected_ns: u64,
    /// What the kernel did not take.
    unsent: Vec<u8>,
}

impl Octets {
    /// Begins to connect.
    ///
    /// # Errors
    /// It cannot even begin.
    pub fn open(
        server: SocketAddr,
        source: Option<IpAddr>,
        tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
        (waiting, now_ns): (Waiting<'_>, u64),
    ) -> Result<Self, End> {
        let stream = sys::tcp::connect(server, source).map_err(|error| unconnected(&error))?;
        waiting.poller.add(&stream, waiting.token, Interest::Write).map_err(|error| unconnected(&error))?;
        let needs_alpn = tls.as_ref().is_some_and(|(config, _)| !config.alpn_protocols.is_empty());
        let tls = tls.map(|(config, name)| ClientConnection::new(config, name)).transpose();
        let mut tls = tls.map_err(|error| handshake_failed(&error))?.map(Box::new);
        if let Some(tls) = &mut tls {
            // What is written is bounded by who writes.
            tls.set_buffer_limit(None);
        }
        Ok(Self {
            stream,
            tls,
            needs_alpn,
            phase: Phase::Connecting,
            began_ns: now_ns,
            connected_ns: now_ns,
            unsent: Vec::new(),
        })
    }

    /// Does what the socket is ready for; `take` has what came of it. What is to be sent leaves with the next
    /// [`Octets::flush`].
    ///
    /// # Errors
    /// The connection is over.
    pub fn drive(
        &mut self,
        now_ns: u64,
        (scratch, waiting): (&mut Scratch, Waiting<'_>),
        take: &mut impl FnMut(Arrival<'_>) -> Result<(), End>,
    ) -> Result<(), End> {
        if self.phase == Phase::Connecting {
            if !self.connected(waiting)? {
                return Ok(());
            }
            self.connected_ns = now_ns;
            self.phase = Phase::Handshake;
            if self.tls.is_none() {
                self.ready(now_ns, false, take)?;
            }
        }
        if !self.unsent.is_empty() {
            self.send_rest(waiting)?;
        }
        self.receive(now_ns, scratch, take)
    }

    /// Whether the connection is there.
    fn connected(&self, waiting: Waiting<'_>) -> Result<bool, End> {
        if let Some(error) = self.stream.take_error().map_err(|error| unconnected(&error))? {
            return Err(unconnected(&error));
        }
        match self.stream.peer_addr() {
            Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(false),
            Err(error) => return Err(unconnected(&error)),
            Ok(_) => {}
        }
        waiting.poller.modify(&self.stream, waiting.token, Interest::Read).map_err(|_| Breakdown::Reset)?;
        Ok(true)
    }

    fn ready(
        &mut self,
        now_ns: u64,
        resumed: bool,
        take: &mut impl FnMut(Arrival<'_>) -> Result<(), End>,
    ) -> Result<(), End> {
        self.phase = Phase::Open;
        take(Arrival::Ready(News::Ready {
            connect_ns: Some(self.connected_ns.saturating_sub(self.began_ns)),
            handshake_ns: self.tls.is_some().then(|| now_ns.saturating_sub(self.connected_ns)),
            resumed,
        }))
    }

    /// Takes what has arrived, at most one buffer of it.
    fn receive(
        &mut self,
        now_ns: u64,
        scratch: &mut Scratch,
        take: &mut impl FnMut(Arrival<'_>) -> Result<(), End>,
    ) -> Result<(), End> {
        let (octets, realtime_ns) = match sys::tcp::receive(&self.stream, &mut scratch.input) {
            Ok((0, _)) => return Err(self.cut_off(Breakdown::Closed)),
            Ok(received) => received,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(());
            }
            Err(_) => return Err(self.cut_off(Breakdown::Reset)),
        };
        let at_ns = realtime_ns.map_or(now_ns, |at_ns| clock::Distance::read().to_monotonic_ns(at_ns));
        if self.tls.is_none() {
            return take(Arrival::Octets(at_ns, &scratch.input[..octets]));
        }
        self.receive_sealed(at_ns, (octets, scratch), take)
    }

    /// Opens the records of TLS that have arrived.
    fn receive_sealed(
        &mut self,
        at_ns: u64,
        (octets, scratch): (usize, &mut Scratch),
        take: &mut impl FnMut(Arrival<'_>) -> Result<(), End>,
    ) -> Result<(), End> {
        let Scratch { input, opened, .. } = scratch;
        let mut rest = &input[..octets];
        while !rest.is_empty() {
            let Some(tls) = &mut self.tls else { return Ok(()) };
            let handshakes = tls.is_handshaking();
            let read = tls.read_tls(&mut rest);
            match read
                .map_err(|_| Error::General("too much at once".into()))
                .and_then(|_| tls.process_new_packets())
            {
                Ok(_) => {}
                Err(error) => {
                    self.send_alert();
                    return Err(if handshakes { handshake_failed(&error) } else { Breakdown::Reset.into() });
                }
            }
            if handshakes && !tls.is_handshaking() {
                if self.needs_alpn && tls.alpn_protocol().is_none() {
                    let reason = "the server chose no protocol (ALPN)".to_owned();
                    return Err(End { why: Breakdown::Handshake, reason: Some(reason) });
                }
                let resumed = tls.handshake_kind() == Some(HandshakeKind::Resumed);
                self.ready(at_ns, resumed, take)?;
            }
            self.take_opened(at_ns, opened, take)?;
        }
        Ok(())
    }

    fn take_opened(
        &mut self,
        at_ns: u64,
        opened: &mut [u8],
        take: &mut impl FnMut(Arrival<'_>) -> Result<(), End>,
    ) -> Result<(), End> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        loop {
            match tls.reader().read(opened) {
                Ok(0) => return Err(Breakdown::Closed.into()),
                Ok(octets) => take(Arrival::Octets(at_ns, &opened[..octets]))?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(Breakdown::Reset.into()),
            }
        }
    }

    /// The end of the stream means something else during the handshake.
    fn cut_off(&self, why: Breakdown) -> End {
        match self.phase {
            Phase::Open => why.into(),
            Phase::Handshake | Phase::Connecting => {
                let reason = if why == Breakdown::Closed { "connection closed" } else { "connection reset" };
                End { why: Breakdown::Handshake, reason: Some(reason.to_owned()) }
            }
        }
    }

    /// Whether it takes octets now.
    pub fn has_room(&self) -> bool {
        self.phase == Phase::Open && self.unsent.is_empty()
    }

    /// Whether octets can be carried.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// How many octets the kernel has not taken yet.
    pub fn unsent_octets(&self) -> usize {
        self.unsent.len()
    }

    /// Sends [`Scratch::plain`], in one write.
    ///
    /// # Errors
    /// The connection is over.
    pub fn flush(&mut self, scratch: &mut Scratch, waiting: Waiting<'_>) -> Result<(), End> {
        if self.phase == Phase::Connecting {
            return Ok(());
        }
        let Some(tls) = &mut self.tls else {
            let sent = self.send(&scratch.plain, waiting);
            scratch.plain.clear();
            return sent;
        };
        let written = tls.writer().write_all(&scratch.plain);
        scratch.plain.clear();
        written.map_err(|_| Breakdown::Reset)?;
        while tls.wants_write() {
            // Writing to a vector cannot fail.
            let _ = tls.write_tls(&mut scratch.sealed);
        }
        let sent = self.send(&scratch.sealed, waiting);
        scratch.sealed.clear();
        sent
    }

    /// Hands octets to the kernel; what it does not take is kept for later.
    fn send(&mut self, octets: &[u8], waiting: Waiting<'_>) -> Result<(), End> {
        if octets.is_empty() {
            return Ok(());
        }
        let had_unsent = !self.unsent.is_empty();
        let taken = if had_unsent { 0 } else { self.write(octets)? };
        if taken < octets.len() {
            self.unsent.extend_from_slice(&octets[taken..]);
            if !had_unsent {
                self.wait_for(Interest::Both, waiting)?;
            }
        }
        Ok(())
    }

    fn send_rest(&mut self, waiting: Waiting<'_>) -> Result<(), End> {
        let rest = std::mem::take(&mut self.unsent);
        let taken = self.write(&rest)?;
        if taken == rest.len() {
            return self.wait_for(Interest::Read, waiting);
        }
        self.unsent.extend_from_slice(&rest[taken..]);
        Ok(())
    }

    fn wait_for(&self, interest: Interest, waiting: Waiting<'_>) -> Result<(), End> {
        waiting.poller.modify(&self.stream, waiting.token, interest).map_err(|_| Breakdown::Reset.into())
    }

    fn write(&self, octets: &[u8]) -> Result<usize, End> {
        match (&self.stream).write(octets) {
            Ok(taken) => Ok(taken),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            Err(_) => Err(self.cut_off(Breakdown::Reset)),
        }
    }

    /// The server is told why its handshake failed, as far as the kernel takes it at once.
    fn send_alert(&mut self) {
        if let Some(tls) = &mut self.tls {
            let _ = tls.write_tls(&mut &self.stream);
        }
    }

    /// Sends [`Scratch::plain`] and says goodbye, as far as that can be done without waiting.
    pub fn close(&mut self, scratch: &mut Scratch) {
        if let Some(tls) = self.tls.as_mut().filter(|_| self.phase == Phase::Open && self.unsent.is_empty()) {
            let _ = tls.writer().write_all(&scratch.plain);
            tls.send_close_notify();
            while tls.wants_write() {
                let _ = tls.write_tls(&mut scratch.sealed);
            }
            let _ = (&self.stream).write(&scratch.sealed);
            scratch.sealed.clear();
        }
        scratch.plain.clear();
    }
}

/// Why there is no connection.
pub(super) fn unconnected(error: &io::Error) -> End {
    let why = match error.kind() {
        ErrorKind::ConnectionRefused => Breakdown::Refused,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Breakdown::Reset,
        ErrorKind::TimedOut => Breakdown::TimedOut,
        _ if is_own_limit(error) => Breakdown::OwnLimit,
        _ => Breakdown::Unreachable,
    };
    why.into()
}

/// Whether this machine has no port, no file or no memory for a connection.
pub(crate) fn is_own_limit(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::AddrNotAvailable | ErrorKind::AddrInUse)
        || matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS))
}

fn handshake_failed(error: &Error) -> End {
    End { why: Breakdown::Handshake, reason: Some(in_words(&error.to_string())) }
}
