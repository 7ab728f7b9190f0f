//! The output of a machine: batches of datagrams, and messages to the side threads of the streams.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use server_core::answer::QUERY_OCTETS_MAX;
use server_core::client::{Channel, Client};
use server_core::machine::{Notice, Output};
use sys::poll::Poller;
use sys::udp::{SendBatch, UdpSocket};

use super::bypass::{Queries, Rings};
use super::judging::ValidationHandle;
use super::observer::Observer;
use super::ports::UpstreamSocket;
use super::renewal::Exchange;
use crate::dnstap::Kind;

/// Datagrams in one system call.
pub(super) const BATCH: usize = 64;

/// The longest message.
const MESSAGE_OCTETS_MAX: usize = 65_535;

/// The UDP sockets that clients ask, of one thread, by numbers that stay as they are. A socket that is given
/// up leaves its place empty.
#[derive(Default)]
pub(super) struct ClientSide {
    lanes: Vec<Option<Lane>>,
}

/// A socket and what waits to leave from it.
struct Lane {
    socket: UdpSocket,
    batch: SendBatch,
    /// The number of its listener in the configuration.
    listener: usize,
}

impl ClientSide {
    /// Takes a socket with this number, which no other had before, or gives one another listener's number.
    pub fn put(&mut self, number: usize, socket: UdpSocket, listener: usize, payload_octets: usize) {
        if self.lanes.len() <= number {
            self.lanes.resize_with(number + 1, || None);
        }
        let batch = SendBatch::new(BATCH, payload_octets).segmenting();
        self.lanes[number] = Some(Lane { socket, batch, listener });
    }

    /// The socket of this number is another listener's from now on, with answers as long as this at most; its
    /// place in the configuration may have changed.
    pub fn renumber(&mut self, number: usize, listener: usize, payload_octets: usize) {
        if let Some(lane) = self.lanes.get_mut(number).and_then(Option::as_mut) {
            lane.listener = listener;
            lane.batch.flush(&lane.socket);
            lane.batch = SendBatch::new(BATCH, payload_octets).segmenting();
        }
    }

    pub fn close(&mut self, number: usize) -> Option<UdpSocket> {
        let mut lane = self.lanes.get_mut(number)?.take()?;
        lane.batch.flush(&lane.socket);
        Some(lane.socket)
    }

    /// A socket and the number of its listener.
    pub fn get(&self, number: usize) -> Option<(&UdpSocket, usize)> {
        self.lanes.get(number)?.as_ref().map(|lane| (&lane.socket, lane.listener))
    }

    /// All sockets with their numbers.
    pub fn sockets(&self) -> impl Iterator<Item = (usize, &UdpSocket)> {
        let lanes = self.lanes.iter().enumerate();
        lanes.filter_map(|(number, lane)| Some((number, &lane.as_ref()?.socket)))
    }

    /// Sends everything that waits. An answer that the kernel does not take is lost, as on any network; the
    /// client asks again.
    pub fn flush(&mut self) {
        for lane in self.lanes.iter_mut().flatten().filter(|lane| !lane.batch.is_empty()) {
            lane.batch.flush(&lane.socket);
        }
    }

    /// Puts an answer in line, at the socket that was asked.
    pub fn push(&mut self, client: &Client, write: impl FnOnce(&mut [u8]) -> usize) {
        let (number, local) = match client.channel {
            Channel::Udp { socket, local } => (socket, local),
            Channel::Frame { socket, local, .. } => (socket as usize, Some(local)),
            Channel::Stream { .. } => return,
        };
        let Some(lane) = self.lanes.get_mut(number).and_then(Option::as_mut) else { return };
        if lane.batch.is_full() {
            lane.batch.flush(&lane.socket);
        }
        lane.batch.push(Some(client.address), local, write);
    }
}

/// The sockets towards the upstream servers of one generation, of one thread.
pub(super) struct UpstreamSide {
    lanes: Vec<UpstreamLane>,
    /// New sockets, by their servers, and used ones, which wait to be traded.
    fresh: Vec<Vec<UpstreamSocket>>,
    used: Vec<UpstreamSocket>,
    exchange: Option<Arc<Exchange>>,
    traded_ns: u64,
    /// Upstream servers that refused a datagram.
    pub refused: Vec<usize>,
}

/// The sockets of an upstream server. What waits leaves from one of them: the machine keeps to one for a
/// while.
struct UpstreamLane {
    sockets: Vec<UpstreamSocket>,
    batch: SendBatch,
    from: usize,
}

/// Sockets are traded this often at most.
const TRADE_NS: u64 = 1_000_000;

impl UpstreamSide {
    pub fn new(sockets: Vec<Vec<UpstreamSocket>>, exchange: Option<Arc<Exchange>>) -> Self {
        let batch = || SendBatch::new(BATCH, QUERY_OCTETS_MAX).segmenting();
        let lane = |sockets| UpstreamLane { sockets, batch: batch(), from: 0 };
        Self {
            fresh: sockets.iter().map(|_| Vec::new()).collect(),
            lanes: sockets.into_iter().map(lane).collect(),
            used: Vec::new(),
            exchange,
            traded_ns: 0,
            refused: Vec::new(),
        }
    }

    pub fn get(&self, upstream: usize, socket: usize) -> Option<&UdpSocket> {
        self.lanes.get(upstream)?.sockets.get(socket).map(|known| &known.socket)
    }

    /// The number of servers.
    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Hands over used sockets and takes new ones, if some are used or missing and the last time was a moment
    /// ago.
    pub fn trade(&mut self, now_ns: u64) {
        let Some(exchange) = &self.exchange else { return };
        let is_missing =
            |(lane, fresh): (&UpstreamLane, &Vec<_>)| fresh.is_empty() && !lane.sockets.is_empty();
        let wants = !self.used.is_empty() || self.lanes.iter().zip(&self.fresh).any(is_missing);
        if wants && now_ns >= self.traded_ns + TRADE_NS {
            self.traded_ns = now_ns;
            exchange.trade(&mut self.used, &mut self.fresh);
        }
    }

    /// A new socket for a server, if one is there.
    pub fn take_fresh(&mut self, upstream: usize) -> Option<UpstreamSocket> {
        self.fresh.get_mut(upstream)?.pop()
    }

    /// Whether a new socket is there for a server.
    pub fn has_fresh(&self, upstream: usize) -> bool {
        self.fresh.get(upstream).is_some_and(|fresh| !fresh.is_empty())
    }

    /// Puts a new socket in the place of a used one, which is closed soon.
    pub fn replace(&mut self, upstream: usize, socket: usize, fresh: UpstreamSocket, poller: &Poller) {
        // What waits in the batch belongs to the used one.
        if self.lanes.get(upstream).is_some_and(|lane| lane.from == socket) {
            self.flush_lane(upstream);
        }
        let lane = self.lanes.get_mut(upstream);
        let Some(place) = lane.and_then(|lane| lane.sockets.get_mut(socket)) else { return };
        let used = std::mem::replace(place, fresh);
        // It is closed soon, which takes it out of the poller, too.
        let _ = poller.remove(&used.socket);
        self.used.push(used);
    }

    /// Sends everything that waits.
    pub fn flush(&mut self) {
        for upstream in 0..self.lanes.len() {
            self.flush_lane(upstream);
        }
    }

    fn flush_lane(&mut self, upstream: usize) {
        let lane = &mut self.lanes[upstream];
        let Some(known) = lane.sockets.get(lane.from).filter(|_| !lane.batch.is_empty()) else { return };
        if lane.batch.flush(&known.socket).refused > 0 {
            self.refused.push(upstream);
        }
    }

    fn push(&mut self, upstream: usize, socket: usize, write: impl FnOnce(&mut [u8]) -> usize) {
        let Some(lane) = self.lanes.get(upstream) else { return };
        if lane.from != socket || lane.batch.is_full() {
            self.flush_lane(upstream);
        }
        let lane = &mut self.lanes[upstream];
        lane.from = socket;
        lane.batch.push(None, None, write);
    }
}

/// The way to the room of the streams.
pub(super) struct StreamSide {
    pub handle: streams::Handle,
    /// The number of this thread.
    pub worker: usize,
    pub buffer: Vec<u8>,
}

impl StreamSide {
    pub fn new(handle: streams::Handle, worker: usize) -> Self {
        Self { handle, worker, buffer: vec![0; MESSAGE_OCTETS_MAX] }
    }
}

/// What names a question to the room of the streams: the thread and generation that its answer goes to, and
/// the machine's token, which has 48 bits.
pub(super) mod stream_token {
    const TOKEN_BITS: u32 = 48;

    pub fn join(worker: usize, generation: u8, token: u64) -> u64 {
        (worker as u64) << 56 | u64::from(generation) << TOKEN_BITS | token & ((1 << TOKEN_BITS) - 1)
    }

    pub fn split(token: u64) -> (usize, u8, u64) {
        ((token >> 56) as usize, (token >> TOKEN_BITS) as u8, token & ((1 << TOKEN_BITS) - 1))
    }
}

/// The way out of one machine.
pub(super) struct Outlet<'w> {
    pub clients: &'w mut ClientSide,
    pub upstreams: &'w mut UpstreamSide,
    pub rings: &'w mut Rings,
    pub queries: &'w mut Queries,
    pub streams: &'w mut StreamSide,
    pub observer: &'w Observer,
    pub upstream_addresses: &'w [SocketAddr],
    pub judge: Option<&'w ValidationHandle>,
    pub generation: u64,
    pub timeout: Duration,
}

impl Output for Outlet<'_> {
    fn to_client(&mut self, client: &Client, write: impl FnOnce(&mut [u8]) -> usize) {
        let observer = self.observer;
        let watched = |buffer: &mut [u8]| {
            let octets = write(buffer);
            observer.client_response(client, &buffer[..octets]);
            octets
        };
        match client.channel {
            Channel::Udp { .. } => self.clients.push(client, watched),
            Channel::Frame { .. } => self.rings.answer(client, self.clients, watched),
            Channel::Stream { token, .. } => {
                let octets = watched(&mut self.streams.buffer);
                self.streams.handle.answer(token, &self.streams.buffer[..octets]);
            }
        }
    }

    fn no_answer(&mut self, client: &Client) {
        if let Channel::Stream { token, .. } = client.channel {
            self.streams.handle.forget(token);
        }
    }

    fn to_upstream(&mut self, upstream: usize, socket: usize, write: impl FnOnce(&mut [u8]) -> usize) {
        let (observer, address) = (self.observer, self.upstream_addresses.get(upstream));
        let watched = |buffer: &mut [u8]| {
            let octets = write(buffer);
            observer.upstream(address, false, Kind::ForwarderQuery, &buffer[..octets]);
            octets
        };
        match self.queries.way(upstream, socket, self.rings) {
            Some((ring, template)) => self.rings.query(ring, template, watched),
            None => self.upstreams.push(upstream, socket, watched),
        }
    }

    fn to_upstream_stream(&mut self, upstream: usize, token: u64, query: &[u8]) {
        let address = self.upstream_addresses.get(upstream);
        self.observer.upstream(address, true, Kind::ForwarderQuery, query);
        let token = stream_token::join(self.streams.worker, self.generation as u8, token);
        let (generation, query, timeout) = (self.generation, query.to_vec(), self.timeout);
        match self.judge.filter(|judge| judge.judges(upstream)) {
            Some(judge) => judge.ask(generation, upstream, token, query, timeout),
            None => self.streams.handle.ask(generation, upstream, token, query, timeout),
        }
    }

    fn notice(&mut self, notice: Notice) {
        self.observer.notice(notice, self.upstream_addresses);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back() {
        let token = (1 << 48) - 3;
        assert_eq!(stream_token::split(stream_token::join(200, 255, token)), (200, 255, token));
    }
}
