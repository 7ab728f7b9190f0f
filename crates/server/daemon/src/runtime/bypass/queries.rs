//! The queries of one generation to its upstream servers, and their answers, past the stack.
//!
//! Each leaves as if from the connected socket that the machine drew, so that its port is as random, and as
//! much ours, as without this. What the kernel has to say of it, that the port is closed for example, comes
//! to the socket.

use std::collections::HashMap;
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::bypass::{Arrived, BypassTable, PortClaim};
use sys::frame::Template;

use super::Rings;
use super::way::{Hop, Route};
use crate::runtime::ports::UpstreamSocket;

/// The sockets of one generation and thread that may be passed by.
#[derive(Default)]
pub(in crate::runtime) struct Queries {
    worker: u16,
    /// For each upstream server; without a way its sockets alone are used.
    lanes: Vec<Option<Lane>>,
    /// The server and the number of each socket, by its address.
    sockets: HashMap<SocketAddr, (u32, u32)>,
    tables: Vec<DeviceTable>,
}

/// What is taken from the stack on a device of this number.
pub(super) type DeviceTable = (u32, Arc<BypassTable>);

/// The sockets towards one server.
struct Lane {
    server: SocketAddr,
    way: Arc<Route>,
    sources: Vec<SocketAddr>,
    /// The version of the way that the rest belongs to.
    version: Option<u32>,
    hop: Option<Hop>,
    /// The thread's ring on the way's device, where it has one.
    ring: Option<usize>,
    /// The headers from each socket.
    templates: Vec<Option<Template>>,
    /// Answers are taken from the stack on the way's device, and on no other.
    claim: Option<PortClaim>,
}

impl Queries {
    /// For the sockets of a worker, of which `ways` has the way for each server.
    pub(super) fn new(
        worker: usize,
        ways: &[Option<Arc<Route>>],
        sockets: &[Vec<UpstreamSocket>],
        tables: Vec<DeviceTable>,
    ) -> Self {
        let worker = u16::try_from(worker).unwrap_or(u16::MAX);
        let mut queries = Self { worker, tables, ..Self::default() };
        for (upstream, (way, sockets)) in ways.iter().zip(sockets).enumerate() {
            let lane = way.as_ref().map(|way| Lane::new(way, sockets));
            for (source, number) in lane.iter().flat_map(|lane| lane.sources.iter().zip(0..)) {
                queries.sockets.insert(*source, (upstream as u32, number));
            }
            queries.lanes.push(lane);
        }
        queries
    }

    /// The ring and the headers for a query from a socket. `None` where it shall leave by the socket itself.
    pub fn way(&mut self, upstream: usize, socket: usize, rings: &mut Rings) -> Option<(usize, &Template)> {
        let lane = self.lanes.get_mut(upstream)?.as_mut()?;
        lane.keep_up(self.worker, rings, &self.tables);
        let ring = lane.ring?;
        if lane.way.take_doubt() || !rings.has_room(ring) {
            return None;
        }
        Some((ring, lane.templates.get(socket)?.as_ref()?))
    }

    /// A new socket with this address has this number from now on.
    pub fn replace(&mut self, upstream: usize, socket: usize, address: SocketAddr, rings: &Rings) {
        let Some(lane) = self.lanes.get_mut(upstream).and_then(Option::as_mut) else { return };
        let Some(place) = lane.sources.get_mut(socket) else { return };
        let before = mem::replace(place, address);
        self.sockets.remove(&before);
        self.sockets.insert(address, (upstream as u32, socket as u32));
        if let Some(claim) = &mut lane.claim {
            claim.replace(before.port(), address);
        }
        let template = lane.template(address, rings);
        if let Some(place) = lane.templates.get_mut(socket) {
            *place = template;
        }
    }

    /// The server and socket that an answer on a device is for; `None` if it is for none of these, not from
    /// the server asked, or on another device than that of the way to the server.
    pub fn find(&self, device: u32, arrived: &Arrived<'_>) -> Option<(usize, usize)> {
        let &(upstream, socket) = self.sockets.get(&arrived.destination)?;
        let lane = self.lanes.get(upstream as usize)?.as_ref()?;
        let expected = lane.server == arrived.source && lane.hop.is_some_and(|(of_way, _)| of_way == device);
        expected.then_some((upstream as usize, socket as usize))
    }
}

impl Lane {
    fn new(way: &Arc<Route>, sockets: &[UpstreamSocket]) -> Self {
        Self {
            server: way.server(),
            way: way.clone(),
            sources: sockets.iter().map(|socket| socket.address).collect(),
            version: None,
            hop: None,
            ring: None,
            templates: Vec::new(),
            claim: None,
        }
    }

    /// Follows the way where it has changed.
    fn keep_up(&mut self, worker: u16, rings: &Rings, tables: &[DeviceTable]) {
        let version = self.way.version();
        if self.version == Some(version) {
            return;
        }
        self.version = Some(version);
        self.hop = self.way.hop();
        self.ring = self.hop.and_then(|(device, _)| rings.on_device(device)).map(|(number, _)| number);
        self.templates = self.sources.iter().map(|&source| self.template(source, rings)).collect();
        // The old one ends first: the table has one entry for each port.
        self.claim = None;
        let table = self.hop.and_then(|(device, _)| tables.iter().find(|(number, _)| *number == device));
        self.claim = table.and_then(|(_, table)| {
            let own = self.way.own();
            let here = self.sources.iter().filter(|source| source.ip() == own);
            let ports: Vec<u16> = here.map(SocketAddr::port).collect();
            table.claim(worker, self.server, own, &ports)
        });
    }

    /// The headers from a socket; `None` where it has another address than the way is for.
    fn template(&self, source: SocketAddr, rings: &Rings) -> Option<Template> {
        let (device, mac) = self.hop.filter(|_| source.ip() == self.way.own())?;
        rings.on_device(device)?.1.template(mac, source, self.server)
    }
}
