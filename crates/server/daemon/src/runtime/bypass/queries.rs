//! The queries of one generation to its upstream servers, and their answers, past the stack.
//!
//! Each leaves as if from the connected socket that the machine drew, so that its port is as random, and as
//! much ours, as without this. What the kernel has to say of it, that the port is closed for example, comes
//! to the socket.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::bypass::{Arrived, BypassTable, PortClaim};
use sys::frame::Template;
use sys::udp::UdpSocket;

use super::Rings;
use super::way::Route;

/// The sockets of one generation and thread that may be passed by.
#[derive(Default)]
pub(in crate::runtime) struct Queries {
    /// For each upstream server; without a way its sockets alone are used.
    lanes: Vec<Option<Lane>>,
    /// The local ports of all, sorted, with their servers and numbers.
    ports: Vec<(SocketAddr, u32, u32)>,
    _claims: Vec<PortClaim>,
}

/// The sockets towards one server.
struct Lane {
    server: SocketAddr,
    way: Arc<Route>,
    sources: Vec<SocketAddr>,
    /// The version of the way that the rest belongs to.
    version: Option<u32>,
    /// The thread's ring on the way's device, where it has one.
    ring: Option<usize>,
    /// The headers from each socket.
    templates: Vec<Template>,
}

impl Queries {
    /// For the sockets of a worker, of which `ways` has the way for each server. From now on the answers that
    /// come by one of the worker's queues are taken from the stack.
    pub(super) fn new(
        worker: usize,
        ways: &[Option<Arc<Route>>],
        sockets: &[Vec<UdpSocket>],
        tables: &[Arc<BypassTable>],
    ) -> Self {
        let mut queries = Self::default();
        for (upstream, (way, sockets)) in ways.iter().zip(sockets).enumerate() {
            let lane = way.as_ref().and_then(|way| Lane::new(way, sockets));
            if let Some(lane) = &lane {
                let ports = lane.sources.iter().zip(0u32..);
                queries.ports.extend(ports.map(|(&source, socket)| (source, upstream as u32, socket)));
                queries._claims.extend(tables.iter().filter_map(|table| lane.claim(worker, table)));
            }
            queries.lanes.push(lane);
        }
        queries.ports.sort_unstable();
        queries
    }

    /// The ring and the headers for a query from a socket. `None` where it shall leave by the socket itself.
    pub fn way(&mut self, upstream: usize, socket: usize, rings: &mut Rings) -> Option<(usize, &Template)> {
        let lane = self.lanes.get_mut(upstream)?.as_mut()?;
        lane.keep_up(rings);
        let ring = lane.ring?;
        if lane.way.take_doubt() || !rings.has_room(ring) {
            return None;
        }
        Some((ring, lane.templates.get(socket)?))
    }

    /// The server and socket that an answer is for; `None` if it is for none of these, or not from the server
    /// asked.
    pub fn find(&self, arrived: &Arrived<'_>) -> Option<(usize, usize)> {
        let found = self.ports.binary_search_by_key(&arrived.destination, |&(source, ..)| source).ok()?;
        let (_, upstream, socket) = self.ports[found];
        let lane = self.lanes.get(upstream as usize)?.as_ref()?;
        (lane.server == arrived.source).then_some((upstream as usize, socket as usize))
    }
}

impl Lane {
    fn new(way: &Arc<Route>, sockets: &[UdpSocket]) -> Option<Self> {
        let sources: Vec<_> = sockets.iter().map(UdpSocket::local_addr).collect::<Result<_, _>>().ok()?;
        (!sources.is_empty()).then(|| Self {
            server: way.server(),
            way: way.clone(),
            sources,
            version: None,
            ring: None,
            templates: Vec::new(),
        })
    }

    fn claim(&self, worker: usize, table: &Arc<BypassTable>) -> Option<PortClaim> {
        let ports: Vec<u16> = self.sources.iter().map(SocketAddr::port).collect();
        table.claim(u16::try_from(worker).ok()?, self.server, self.sources.first()?.ip(), &ports)
    }

    /// Follows the way where it has changed.
    fn keep_up(&mut self, rings: &Rings) {
        let version = self.way.version();
        if self.version == Some(version) {
            return;
        }
        self.version = Some(version);
        self.templates.clear();
        self.ring = self.way.hop().and_then(|(device, mac)| {
            let (number, ring) = rings.on_device(device)?;
            let templates = self.sources.iter().map(|&source| ring.template(mac, source, self.server));
            self.templates = templates.collect::<Option<_>>()?;
            Some(number)
        });
    }
}
