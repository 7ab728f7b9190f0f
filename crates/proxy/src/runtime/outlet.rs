//! Where a machine's messages leave: batches of datagrams, and TCP connections.

use std::net::SocketAddr;

use net::poll::Poller;
use net::udp::{SendBatch, UdpSocket};

use super::sockets::ThreadSockets;
use super::tcp_clients::TcpClients;
use super::tcp_upstreams::TcpUpstreams;
use crate::answer::QUERY_OCTETS_MAX;
use crate::config::Config;
use crate::inflight::{Channel, Client};
use crate::machine::Output;

/// Datagrams in one system call.
pub(super) const BATCH: usize = 64;

/// The way out of one thread.
pub(super) struct Outlet {
    pub poller: Poller,
    pub tcp_clients: TcpClients,
    pub tcp_upstreams: TcpUpstreams,
    /// The time of this round of work.
    pub now_ns: u64,
    /// Upstream sockets whose peer refused a datagram, as server and socket.
    pub refused: Vec<(usize, usize)>,
    listeners: Vec<Lane>,
    upstreams: Vec<UpstreamLane>,
}

/// A socket and what waits to leave from it.
struct Lane {
    socket: UdpSocket,
    batch: SendBatch,
}

/// The sockets of an upstream server. What waits leaves from one of them: the machine keeps to one for a round.
struct UpstreamLane {
    address: SocketAddr,
    sockets: Vec<UdpSocket>,
    batch: SendBatch,
    from: usize,
}

impl Outlet {
    pub fn new(config: &Config, sockets: ThreadSockets, poller: Poller) -> Self {
        let octets = usize::from(config.settings.udp_payload_octets);
        let lane = |socket| Lane { socket, batch: SendBatch::new(BATCH, octets) };
        let upstream_lane = |(sockets, &address)| UpstreamLane {
            address,
            sockets,
            batch: SendBatch::new(BATCH, QUERY_OCTETS_MAX),
            from: 0,
        };
        Self {
            poller,
            tcp_clients: TcpClients::new(config.tcp_connections, config.tcp_idle_ns, sockets.tcp_listeners),
            tcp_upstreams: TcpUpstreams::new(config.settings.timeout_ns),
            now_ns: 0,
            refused: Vec::new(),
            listeners: sockets.listeners.into_iter().map(lane).collect(),
            upstreams: sockets.upstreams.into_iter().zip(&config.upstreams).map(upstream_lane).collect(),
        }
    }

    pub fn listeners(&self) -> impl Iterator<Item = &UdpSocket> {
        self.listeners.iter().map(|lane| &lane.socket)
    }

    pub fn listener(&self, index: usize) -> Option<&UdpSocket> {
        self.listeners.get(index).map(|lane| &lane.socket)
    }

    pub fn upstream_sockets(&self) -> impl Iterator<Item = (usize, usize, &UdpSocket)> {
        self.upstreams.iter().enumerate().flat_map(|(upstream, lane)| {
            lane.sockets.iter().enumerate().map(move |(index, socket)| (upstream, index, socket))
        })
    }

    pub fn upstream_socket(&self, upstream: usize, socket: usize) -> Option<&UdpSocket> {
        self.upstreams.get(upstream)?.sockets.get(socket)
    }

    /// Sends everything that waits.
    pub fn flush(&mut self) {
        for upstream in 0..self.upstreams.len() {
            self.flush_upstream(upstream);
        }
        for lane in self.listeners.iter_mut().filter(|lane| !lane.batch.is_empty()) {
            lane.flush();
        }
        self.tcp_clients.flush(&self.poller);
    }

    fn flush_upstream(&mut self, upstream: usize) {
        let lane = &mut self.upstreams[upstream];
        if !lane.batch.is_empty() && lane.batch.flush(&lane.sockets[lane.from]).refused > 0 {
            self.refused.push((upstream, lane.from));
        }
    }
}

impl Lane {
    /// An answer that the kernel does not take is lost, as on any network; the client asks again.
    fn flush(&mut self) {
        self.batch.flush(&self.socket);
    }
}

impl Output for Outlet {
    fn to_client(&mut self, client: &Client, write: impl FnOnce(&mut [u8]) -> usize) {
        match client.channel {
            Channel::Udp { socket, local } => {
                let Some(lane) = self.listeners.get_mut(socket) else { return };
                if lane.batch.is_full() {
                    lane.flush();
                }
                lane.batch.push(Some(client.address), local, write);
            }
            Channel::Tcp { connection } => self.tcp_clients.answer(connection, write),
        }
    }

    fn to_upstream(&mut self, upstream: usize, socket: usize, write: impl FnOnce(&mut [u8]) -> usize) {
        let Some(lane) = self.upstreams.get(upstream) else { return };
        if lane.from != socket || lane.batch.is_full() {
            self.flush_upstream(upstream);
        }
        let lane = &mut self.upstreams[upstream];
        lane.from = socket;
        lane.batch.push(None, None, write);
    }

    fn to_upstream_tcp(&mut self, token: u64, upstream: usize, query: &[u8]) {
        let Some(lane) = self.upstreams.get(upstream) else { return };
        self.tcp_upstreams.start(&self.poller, self.now_ns, token, lane.address, query);
    }
}
