//! The connections of a thread: which client has which, what they send, and how they end.

mod events;
mod opening;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use engine::connections::{Breakdown, ConnectionStats, Fate};
use rustls::ClientConfig;
use sys::clock;
use sys::poll::{Events, Poller};

use super::PoolConfig;
use super::connection::{Connection, Queued};
use super::link::{End, Leaving, Scratch, Waiting};
use super::quic::QuicClient;
use crate::transport::{Sent, Transport};

/// A query is never longer than this.
const QUERY_OCTETS_MAX: usize = 4096;
/// The most events of one call.
const EVENTS_MAX: usize = 1024;
/// Idle connections are looked for as often as this share of their time.
const SWEEPS_IN_IDLE_TIME: u64 = 8;

/// The connections of one of the Measurer's threads.
pub struct StreamTransport {
    config: PoolConfig,
    clients: Vec<Client>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Connections that are not ready yet.
    opening: usize,
    poller: Poller,
    events: Events,
    /// How many of them [`Transport::wait`] found; they are served first.
    found: usize,
    /// When to look at a connection again, by its token; all wait for equally long.
    timers: VecDeque<(u64, u64)>,
    /// When a connection is to be driven for its own sake, by its token: [`Connection::alarm_ns`], or an
    /// instant that counts no more.
    alarms: BinaryHeap<Reverse<(u64, u64)>>,
    swept_ns: u64,
    scratch: Scratch,
    query: Box<[u8]>,
    fates: Vec<Fate>,
    stats: ConnectionStats,
    /// What was dropped at the sockets of connections that are over.
    drops: u64,
    /// Before the first query is due.
    before: bool,
}

/// One of the clients whose queries these are.
struct Client {
    /// The slot of its connection.
    current: Option<usize>,
    /// The place of its next query.
    next: u64,
    /// Connections that it has begun.
    begun: u64,
    security: Security,
}

/// What the connections of a client are secured by.
enum Security {
    None,
    Tls(Arc<ClientConfig>),
    Quic(QuicClient),
}

/// Room for a connection.
#[derive(Default)]
struct Slot {
    connection: Option<Box<Connection>>,
    /// How many it has had: tells late events from those of the present one.
    generation: u32,
}

impl StreamTransport {
    /// Opens the connections of all clients, as far as the server allows.
    ///
    /// # Errors
    /// There is no epoll instance. What the server does is no error.
    pub(crate) fn new(config: PoolConfig, stop: &AtomicBool) -> io::Result<Self> {
        let mut transport = Self::unopened(config)?;
        transport.open_all(stop)?;
        transport.before = false;
        Ok(transport)
    }

    /// The same without any connection yet.
    pub(super) fn unopened(config: PoolConfig) -> io::Result<Self> {
        let clients = (0..config.clients).map(|_| {
            Security::of_client(&config).map(|security| Client { current: None, next: 0, begun: 0, security })
        });
        Ok(Self {
            clients: clients.collect::<io::Result<_>>()?,
            slots: Vec::new(),
            free: Vec::new(),
            opening: 0,
            poller: Poller::new()?,
            events: Events::with_capacity(config.clients.clamp(16, EVENTS_MAX)),
            found: 0,
            timers: VecDeque::new(),
            alarms: BinaryHeap::new(),
            swept_ns: 0,
            scratch: Scratch::new(),
            query: vec![0; QUERY_OCTETS_MAX].into_boxed_slice(),
            fates: Vec::new(),
            stats: ConnectionStats::default(),
            drops: 0,
            before: true,
            config,
        })
    }

    /// Connections that were ready for queries so far.
    pub(crate) fn opened(&self) -> u64 {
        self.stats.opened
    }

    /// What became of the connections so far.
    pub(super) fn stats(&self) -> &ConnectionStats {
        &self.stats
    }

    /// Hands a query over to the client's connection, which is opened if there is none. Returns the slot of
    /// the connection, and whether the query leaves at once.
    fn hand_over(&mut self, client: usize, length: usize, now_ns: u64) -> Option<(usize, bool)> {
        let place = self.clients[client].next;
        let current = self.current(client, now_ns);
        self.clients[client].next += 1;
        let slot = match current {
            Ok(slot) => slot,
            Err(end) => {
                self.stats.note_failed(end.why, end.reason);
                self.lose(client, place, end.why, now_ns);
                return None;
            }
        };
        let pipelined = self.config.streams.pipelined;
        let connection = self.slots[slot].connection.as_deref_mut()?;
        let left = if connection.link.is_worn() { 0 } else { connection.left.saturating_sub(1) };
        (connection.next, connection.left) = (place + 1, left);
        if connection.left == 0 {
            self.clients[client].current = None;
        }
        let free = connection.queue.is_empty() && (pipelined || connection.outstanding == 0);
        let leaves = free && connection.link.has_room();
        if leaves {
            let query = Leaving { place, now_ns, octets: &self.query[..length] };
            connection.link.push(&query, &mut self.scratch);
            connection.leaving = connection.next;
            connection.outstanding += 1;
            connection.used_ns = now_ns;
        } else {
            let octets = self.query[..length].into();
            connection.queue.push_back(Queued { place, since_ns: now_ns, octets });
        }
        if !leaves || connection.left == 0 || !pipelined {
            self.look_again(slot, now_ns);
        }
        Some((slot, leaves))
    }

    /// A query that will never leave.
    fn lose(&mut self, client: usize, place: u64, why: Breakdown, at_ns: u64) {
        self.fates.push(Fate::Lost { client, places: place..place + 1, left_before: 0, at_ns, why });
    }

    /// The connection is to be looked at when a timeout has passed.
    fn look_again(&mut self, slot: usize, now_ns: u64) {
        let token = self.token(slot);
        // Connections that get many queries at once need not be looked at for each of them.
        if self.timers.back().is_none_or(|&(_, last)| last != token)
            || self.timers.back().is_some_and(|&(at_ns, _)| at_ns < now_ns + self.config.timeout_ns)
        {
            self.timers.push_back((now_ns + self.config.timeout_ns + 1, token));
        }
    }

    fn token(&self, slot: usize) -> u64 {
        (u64::from(self.slots[slot].generation) << 32) | slot as u64
    }

    /// Sends what the connection was handed, in one write.
    fn flush(&mut self, slot: usize, queries: u64, now_ns: u64) {
        if queries > 1 {
            self.stats.joined += queries;
        }
        let token = self.token(slot);
        let Some(connection) = self.slots[slot].connection.as_deref_mut() else {
            return self.scratch.plain.clear();
        };
        let waiting = Waiting { poller: &self.poller, token };
        match connection.link.flush(now_ns, (&mut self.scratch, waiting)) {
            Ok(()) => self.set_alarm(slot),
            Err(end) => self.end(slot, end, now_ns),
        }
    }

    /// Notes when the connection is to be driven for its own sake, if that is earlier than was known.
    fn set_alarm(&mut self, slot: usize) {
        let token = self.token(slot);
        let Some(connection) = self.slots[slot].connection.as_deref_mut() else { return };
        let Some(at_ns) = connection.link.alarm_ns() else { return };
        if connection.alarm_ns.is_none_or(|known_ns| at_ns < known_ns) {
            connection.alarm_ns = Some(at_ns);
            self.alarms.push(Reverse((at_ns, token)));
        }
    }

    /// Lets queries leave that had to wait for the connection.
    fn pump(&mut self, slot: usize, now_ns: u64) {
        let Some(connection) = self.slots[slot].connection.as_deref_mut() else { return };
        let mut sent = 0;
        while (self.config.streams.pipelined || connection.outstanding == 0) && connection.link.has_room() {
            let Some(queued) = connection.queue.pop_front() else { break };
            let waited_ns = now_ns.saturating_sub(queued.since_ns);
            self.stats.waiting_ns.saturating_record(waited_ns);
            self.fates.push(Fate::Left { client: connection.client, place: queued.place, waited_ns });
            let query = Leaving { place: queued.place, now_ns, octets: &queued.octets };
            connection.link.push(&query, &mut self.scratch);
            connection.leaving = queued.place + 1;
            connection.outstanding += 1;
            connection.used_ns = now_ns;
            sent += 1;
        }
        if sent > 0 {
            self.look_again(slot, now_ns);
            self.flush(slot, sent, now_ns);
        }
    }

    /// A connection is over: its queries without an answer will have none.
    fn end(&mut self, slot: usize, end: End, now_ns: u64) {
        let Some(connection) = self.slots[slot].connection.take() else { return };
        let Connection { client, ready, first, leaving, next, link, .. } = *connection;
        self.drops += link.drops();
        if !ready {
            self.opening -= 1;
            self.stats.note_failed(end.why, end.reason);
        } else {
            self.stats.closed_by_server += 1;
            end.reason.into_iter().for_each(|reason| self.stats.note_refusal(reason));
        }
        if next > first {
            self.fates.push(Fate::Lost {
                client,
                places: first..next,
                left_before: leaving,
                at_ns: now_ns,
                why: end.why,
            });
        }
        self.vacate(slot, client);
    }

    /// The Tester closes a connection of which nothing is waited for.
    fn close(&mut self, slot: usize, now_ns: u64) {
        let Some(mut connection) = self.slots[slot].connection.take() else { return };
        connection.link.close(now_ns, &mut self.scratch);
        self.drops += connection.link.drops();
        self.opening -= usize::from(!connection.ready);
        self.vacate(slot, connection.client);
    }

    fn vacate(&mut self, slot: usize, client: usize) {
        self.slots[slot].generation = self.slots[slot].generation.wrapping_add(1);
        self.free.push(slot);
        if self.clients[client].current == Some(slot) {
            self.clients[client].current = None;
        }
    }
}

impl Security {
    fn of_client(config: &PoolConfig) -> io::Result<Self> {
        Ok(match &config.streams.tls {
            None => Self::None,
            Some(tls) if config.streams.protocol.is_over_quic() => {
                Self::Quic(tls.of_quic_client(config.streams.protocol)?)
            }
            Some(tls) => Self::Tls(tls.of_client()),
        })
    }
}

impl Transport for StreamTransport {
    fn send(&mut self, socket: usize, count: usize, write: &mut dyn FnMut(&mut [u8]) -> usize) -> Sent {
        let now_ns = clock::monotonic_ns();
        let mut sent = Sent::default();
        let (mut last, mut together) = (None, 0);
        for _ in 0..count {
            let length = write(&mut self.query);
            if length == 0 {
                self.clients[socket].next += 1;
                sent.failed += 1;
                sent.error = Some(crate::transport::too_long(QUERY_OCTETS_MAX));
                continue;
            }
            // Its queries leave before another connection is touched: they share the room of all.
            if let Some(slot) = last.filter(|_| self.clients[socket].current != last) {
                self.flush(slot, std::mem::take(&mut together), now_ns);
                last = None;
            }
            if let Some((slot, leaves)) = self.hand_over(socket, length, now_ns) {
                together += u64::from(leaves);
                last = Some(slot);
            }
        }
        if let Some(slot) = last {
            self.flush(slot, together, now_ns);
        }
        sent
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(u64, usize, &[u8]) -> bool) -> io::Result<usize> {
        self.turn(Duration::ZERO, deliver)
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        let now_ns = clock::monotonic_ns();
        let timer_ns = self.timers.front().map_or(u64::MAX, |&(at_ns, _)| at_ns);
        let alarm_ns = self.alarms.peek().map_or(u64::MAX, |Reverse((at_ns, _))| *at_ns);
        let timeout = Duration::from_nanos(timeout_ns.min(timer_ns.min(alarm_ns).saturating_sub(now_ns)));
        self.found = self.poller.wait(&mut self.events, Some(timeout))?;
        Ok(())
    }

    fn settle(&mut self, tell: &mut dyn FnMut(Fate)) {
        self.fates.drain(..).for_each(tell);
    }

    fn drops(&self) -> u64 {
        let standing = self.slots.iter().filter_map(|slot| slot.connection.as_deref());
        self.drops + standing.map(|connection| connection.link.drops()).sum::<u64>()
    }

    fn retire(&mut self) {
        let now_ns = clock::monotonic_ns();
        self.give_up_queues(now_ns);
        (0..self.slots.len()).for_each(|slot| self.close(slot, now_ns));
    }

    fn connections(&mut self) -> Option<ConnectionStats> {
        Some(std::mem::take(&mut self.stats))
    }
}
