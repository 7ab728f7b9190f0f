//! A connection over QUIC. Each query has its stream, which ends with it (RFC 9250 4.2, RFC 9114 4.1).

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use engine::connections::Breakdown;
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, ReadError,
    StreamEvent, StreamId, VarInt,
};
use sys::clock;
use sys::poll::Interest;
use sys::udp::UdpSocket;

use super::client::QuicClient;
use super::codes;
use super::dialect::{Dialect, Violation};
use super::io::{self, Clock, Room};
use crate::transport::stream::https::Https;
use crate::transport::stream::link::{End, Leaving, News, Scratch, Waiting};
use crate::transport::stream::octets::unconnected;

/// The most packets that the library makes at a time.
const PACKETS_AT_ONCE: usize = 10;
/// The most open streams of a connection, however many the server allows.
const STREAMS_MAX: usize = 1 << 16;
/// After so many queries were taken back, the client's next query goes by a new connection: nobody tells when
/// the memory of such streams is free.
const CANCELLED_MAX: u32 = 1 << 16;

/// Where a connection leads, and how long its queries are waited for.
pub(in crate::transport::stream) struct Way<'a> {
    pub server: SocketAddr,
    pub name: &'a str,
    pub source: Option<IpAddr>,
    pub timeout_ns: u64,
    /// What is asked for by HTTP/3; `None`: DNS over QUIC.
    pub https: Option<&'a Https>,
}

/// A connection over QUIC.
pub(in crate::transport::stream) struct QuicLink {
    socket: UdpSocket,
    server: SocketAddr,
    client: QuicClient,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    clock: Clock,
    began_ns: u64,
    ready: bool,
    /// A certificate was checked: the session is a new one.
    checked: bool,
    /// The stream of the next query, if the server allows one.
    next: Option<StreamId>,
    dialect: Dialect,
    /// What is not yet said on the stream of the client's control.
    control: &'static [u8],
    /// A stream of the client, and what it did not take.
    unwritten: Option<(StreamId, Vec<u8>)>,
    /// Unanswered queries are taken back after so long, in ns.
    patience_ns: u64,
    cancelled: u32,
}

impl QuicLink {
    /// Begins the handshake.
    ///
    /// # Errors
    /// It cannot even begin.
    pub fn open(
        client: &QuicClient,
        way: &Way<'_>,
        scratch: &mut Scratch,
        (waiting, now_ns): (Waiting<'_>, u64),
    ) -> Result<Self, End> {
        let socket = io::socket(way.server, way.source).map_err(|error| unconnected(&error))?;
        waiting.poller.add(&socket, waiting.token, Interest::Read).map_err(|error| unconnected(&error))?;
        let room = scratch.quic();
        let mut endpoint = Endpoint::new(client.endpoint.clone(), None, false, None);
        let began = endpoint.connect(room.clock.instant(now_ns), client.config.clone(), way.server, way.name);
        let (handle, connection) =
            began.map_err(|error| End { why: Breakdown::Handshake, reason: Some(error.to_string()) })?;
        let dialect = Dialect::new(way.https);
        let mut link = Self {
            socket,
            server: way.server,
            client: client.clone(),
            endpoint,
            handle,
            connection,
            clock: room.clock,
            began_ns: now_ns,
            ready: false,
            checked: false,
            next: None,
            control: dialect.control(),
            dialect,
            unwritten: None,
            patience_ns: 2 * way.timeout_ns,
            cancelled: 0,
        };
        link.transmit(now_ns, room)?;
        Ok(link)
    }

    /// Does what its time has come for, and what has arrived; `tell` hears what came of it.
    ///
    /// # Errors
    /// The connection is over.
    pub fn drive(
        &mut self,
        now_ns: u64,
        scratch: &mut Scratch,
        tell: &mut dyn FnMut(News<'_>),
    ) -> Result<(), End> {
        if !self.ready
            && let Some(error) = self.socket.take_error().map_err(|error| unconnected(&error))?
        {
            return Err(unconnected(&error));
        }
        let now = self.clock.instant(now_ns);
        let mut driven = self.receive(now, scratch, tell);
        if driven.is_ok() && self.connection.poll_timeout().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
            driven = self.attend(now_ns, &mut scratch.opened, tell);
        }
        self.cancel_overdue(now_ns);
        // A server whose handshake failed, or that broke the rules, is told why.
        let sent = self.flush(now_ns, scratch);
        driven.and(sent)
    }

    /// Takes what has arrived, at most one batch of it.
    fn receive(
        &mut self,
        now: Instant,
        scratch: &mut Scratch,
        tell: &mut dyn FnMut(News<'_>),
    ) -> Result<(), End> {
        let Scratch { quic, opened, .. } = scratch;
        let room = quic.get_or_insert_default();
        if room.incoming.receive(&self.socket).map_err(|_| Breakdown::Reset)? == 0 {
            return Ok(());
        }
        // The kernel notes arrivals on its real-time clock.
        let clocks = clock::Distance::read();
        for datagram in room.incoming.iter() {
            let arrived_ns = datagram.received_realtime_ns;
            let at_ns = arrived_ns.map_or(clocks.monotonic_ns(), |at_ns| clocks.to_monotonic_ns(at_ns));
            let octets = BytesMut::from(datagram.octets);
            room.packets.clear();
            let event = self.endpoint.handle(now, self.server, None, None, octets, &mut room.packets);
            // What belongs to no connection of this client needs no answer.
            let Some(DatagramEvent::ConnectionEvent(_, event)) = event else { continue };
            let checks = self.client.checks();
            self.connection.handle_event(event);
            self.checked |= checks != self.client.checks();
            self.attend(at_ns, opened, tell)?;
        }
        Ok(())
    }

    /// Attends to what happened in the connection.
    fn attend(&mut self, at_ns: u64, opened: &mut [u8], tell: &mut dyn FnMut(News<'_>)) -> Result<(), End> {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => {
                    self.ready = true;
                    tell(News::Ready {
                        connect_ns: None,
                        handshake_ns: Some(at_ns.saturating_sub(self.began_ns)),
                        resumed: self.client.checks().is_some() && !self.checked,
                    });
                }
                Event::ConnectionLost { reason } => return Err(self.ended(&reason)),
                Event::Stream(StreamEvent::Readable { id }) => self.read(id, at_ns, opened, tell)?,
                Event::Stream(StreamEvent::Writable { .. }) => self.write_rest(),
                Event::Stream(StreamEvent::Stopped { id, .. }) if id.dir() == Dir::Uni => {
                    return Err(self.refuse(self.dialect.refused_control(), at_ns));
                }
                // The server resets its own half, too, or answers all the same.
                Event::Stream(StreamEvent::Stopped { id, error_code }) => self.take_back(id, error_code),
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(id) = self.connection.streams().accept(dir) {
                        self.read(id, at_ns, opened, tell)?;
                    }
                }
                Event::Stream(StreamEvent::Finished { .. } | StreamEvent::Available { .. })
                | Event::HandshakeDataReady
                | Event::DatagramReceived
                | Event::DatagramsUnblocked => {}
            }
        }
        self.prepare_stream();
        Ok(())
    }

    /// Takes what a stream has brought.
    fn read(
        &mut self,
        id: StreamId,
        at_ns: u64,
        opened: &mut [u8],
        tell: &mut dyn FnMut(News<'_>),
    ) -> Result<(), End> {
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return Ok(()) };
        let read = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => match self.dialect.take((at_ns, id), &chunk.bytes, opened, tell) {
                    Ok(None) => {}
                    stop => break stop,
                },
                Ok(None) => break self.dialect.finish((at_ns, id), tell).map(|()| None),
                Err(ReadError::Blocked) => break Ok(None),
                Err(ReadError::Reset(code)) => break self.dialect.reset(id, code, tell).map(|()| None),
            }
        };
        // All that there is to send is sent after each turn.
        let _ = chunks.finalize();
        if let Some(code) = read.map_err(|violation| self.refuse(violation, at_ns))? {
            self.stop(id, code);
        }
        Ok(())
    }

    /// Ends a connection whose server broke the rules.
    fn refuse(&mut self, violation: Violation, at_ns: u64) -> End {
        self.connection.close(self.clock.instant(at_ns), violation.code, Bytes::new());
        End { why: Breakdown::Reset, reason: Some(violation.reason) }
    }

    /// The connection is over. A server that said that it would go has not closed it by surprise.
    fn ended(&self, reason: &ConnectionError) -> End {
        let name = |code| self.dialect.name(code);
        let end = codes::end(reason, self.ready, (self.dialect.no_error(), &name));
        let closed = matches!(end.why, Breakdown::Closed | Breakdown::Reset);
        if closed && self.dialect.is_leaving() { Breakdown::GoAway.into() } else { end }
    }

    /// Whether it will take no more queries.
    pub fn is_leaving(&self) -> bool {
        self.dialect.is_leaving()
    }

    /// Whether it takes a query now.
    pub fn has_room(&self) -> bool {
        self.next.is_some() && self.unwritten.is_none() && !self.dialect.is_leaving()
    }

    /// Whether the client's next query needs another connection.
    pub fn is_worn(&self) -> bool {
        self.cancelled >= CANCELLED_MAX
    }

    /// Adds a query to those that leave with the next [`QuicLink::flush`]. Only where it has room.
    pub fn push(&mut self, query: &Leaving<'_>, scratch: &mut Scratch) {
        let (Some(id), Some(message_id)) = (self.next.take(), query.octets.first_chunk::<2>()) else {
            return;
        };
        let frame = &mut scratch.quic().frame;
        self.dialect.write(query, *message_id, frame);
        // A new stream takes nothing only where the connection does not.
        let taken = self.connection.send_stream(id).write(frame).unwrap_or(0);
        if taken == frame.len() {
            let _ = self.connection.send_stream(id).finish();
        } else {
            self.unwritten = Some((id, frame[taken..].to_vec()));
        }
        self.prepare_stream();
    }

    fn write_rest(&mut self) {
        let Some((id, rest)) = &mut self.unwritten else { return };
        let mut stream = self.connection.send_stream(*id);
        let taken = stream.write(rest).unwrap_or(0);
        rest.drain(..taken);
        if rest.is_empty() {
            if id.dir() == Dir::Bi {
                let _ = stream.finish();
            }
            self.unwritten = None;
        }
    }

    /// Opens the stream of the next query, if there may be one; nothing is sent by that.
    fn prepare_stream(&mut self) {
        if !self.ready || self.next.is_some() {
            return;
        }
        if !self.control.is_empty() {
            let Some(id) = self.connection.streams().open(Dir::Uni) else { return };
            let taken = self.connection.send_stream(id).write(self.control).unwrap_or(0);
            let (_, rest) = std::mem::take(&mut self.control).split_at(taken);
            self.unwritten = (!rest.is_empty()).then(|| (id, rest.to_vec()));
        }
        if self.dialect.open() < STREAMS_MAX && !self.dialect.is_leaving() {
            self.next = self.connection.streams().open(Dir::Bi);
        }
    }

    /// Takes queries back that nobody waits for any more (RFC 9250 4.3.1, RFC 9114 4.1.1): their streams
    /// count against the limit of the server.
    fn cancel_overdue(&mut self, now_ns: u64) {
        while let Some((stream, left_ns)) = self.dialect.oldest()
            && left_ns + self.patience_ns <= now_ns
        {
            let code = self.dialect.forget(stream);
            self.stop(StreamId::new(self.connection.side(), Dir::Bi, stream), code);
        }
    }

    /// Leaves a stream.
    fn stop(&mut self, id: StreamId, code: VarInt) {
        let _ = self.connection.recv_stream(id).stop(code);
        if id.dir() == Dir::Bi {
            self.take_back(id, code);
            self.cancelled += 1;
        }
    }

    /// Leaves the rest of a query unsent.
    fn take_back(&mut self, id: StreamId, code: VarInt) {
        if self.unwritten.as_ref().is_some_and(|(unwritten, _)| *unwritten == id) {
            let _ = self.connection.send_stream(id).reset(code);
            self.unwritten = None;
        }
    }

    /// Sends what there is to send.
    ///
    /// # Errors
    /// The connection is over.
    pub fn flush(&mut self, now_ns: u64, scratch: &mut Scratch) -> Result<(), End> {
        self.transmit(now_ns, scratch.quic())
    }

    fn transmit(&mut self, now_ns: u64, room: &mut Room) -> Result<(), End> {
        let now = self.clock.instant(now_ns);
        let mut refused = 0;
        loop {
            room.packets.clear();
            let made = self.connection.poll_transmit(now, PACKETS_AT_ONCE, &mut room.packets);
            let Some(made) = made else { break };
            for packet in room.packets[..made.size].chunks(made.segment_size.unwrap_or(made.size)) {
                if room.outgoing.is_full() {
                    refused += room.outgoing.flush(&self.socket).refused;
                }
                room.outgoing.push(None, None, |slot| {
                    slot[..packet.len()].copy_from_slice(packet);
                    packet.len()
                });
            }
        }
        if !room.outgoing.is_empty() {
            // What the kernel does not take is lost like any packet: it is sent again.
            refused += room.outgoing.flush(&self.socket).refused;
        }
        if refused > 0 && !self.ready { Err(Breakdown::Refused.into()) } else { Ok(()) }
    }

    /// When it is to be driven though nothing arrives, in ns.
    pub fn alarm_ns(&mut self) -> Option<u64> {
        let library_ns = self.connection.poll_timeout().map(|at| self.clock.ns(at));
        let cancel_ns = self.dialect.oldest().map(|(_, left_ns)| left_ns + self.patience_ns);
        library_ns.into_iter().chain(cancel_ns).min()
    }

    /// Packets that the kernel dropped at its socket.
    pub fn drops(&self) -> u64 {
        self.socket.drops().unwrap_or(0).into()
    }

    /// Says goodbye.
    pub fn close(&mut self, now_ns: u64, scratch: &mut Scratch) {
        self.connection.close(self.clock.instant(now_ns), self.dialect.no_error(), Bytes::new());
        // Nobody waits for what becomes of it.
        let _ = self.flush(now_ns, scratch);
    }
}
