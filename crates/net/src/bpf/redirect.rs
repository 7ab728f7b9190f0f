//! The program that hands a server's answers to AF_XDP sockets.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd};

use aya::maps::{Map, MapData, XskMap};

use super::attach::{Attached, Mode, attach};
use super::object::{Counters, Object, refused};
use super::{BpfError, objects};
use crate::kernel::Place;

/// The redirect program on a device.
pub struct Redirect {
    sockets: XskMap<MapData>,
    counters: Counters<2>,
    attached: Attached,
}

/// What became of the server's answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedirectCounters {
    /// Handed to the socket of their queue. Full rings count them in their own statistics (`XDP_STATISTICS`).
    pub taken: u64,
    /// Arrived on a queue without a socket, and dropped.
    pub wrong_queue: u64,
}

impl Redirect {
    /// Puts the program on a device: UDP datagrams from `server` to one of `local_ports` go to the socket of the queue
    /// they arrive on, of `queues` queues; all else passes. Without a mode, native is tried first, then generic.
    ///
    /// # Errors
    /// XDP is not available, or the device is missing, occupied or takes no program.
    pub fn attach(
        device: u32,
        server: SocketAddr,
        local_ports: &RangeInclusive<u16>,
        queues: u32,
        mode: Option<Mode>,
    ) -> Result<Self, BpfError> {
        let object = Object::load(
            "redirect",
            objects::REDIRECT,
            &[
                ("server_address", &address_octets(server.ip())),
                ("server_port", &server.port().to_be_bytes()),
                ("server_is_ipv6", &[u8::from(server.is_ipv6())]),
                ("first_port", &local_ports.start().to_ne_bytes()),
                ("last_port", &local_ports.end().to_ne_bytes()),
            ],
            &[("sockets", queues.max(1))],
        )?;
        Self::attach_object("redirect", object, device, mode)
    }

    /// Puts the program of a server on a device: UDP datagrams in frames to `mac` for one of the addresses `listen` go to
    /// the socket of the queue they arrive on, of `queues` queues; all else passes, also where a queue has no socket.
    ///
    /// # Errors
    /// XDP is not available, or the device is missing, occupied or takes no program.
    pub(crate) fn attach_service(
        device: u32,
        listen: &[SocketAddr],
        mac: [u8; 6],
        queues: u32,
        mode: Option<Mode>,
    ) -> Result<Self, BpfError> {
        let place = Place::new(listen, mac, false);
        let (globals, sizes) = ([("place", place.octets())], [("sockets", queues.max(1))]);
        let object = Object::load("service", objects::SERVICE, &globals, &sizes)?;
        Self::attach_object("service", object, device, mode)
    }

    /// Puts the program of a server with sockets on a device; the map is `struct table` of `bpf/bypass.bpf.c`. The receive
    /// queue k is worker `k % workers`'s; frames to other addresses than `mac` or beyond `frame_octets_max` pass.
    ///
    /// # Errors
    /// XDP is not available, or the device is missing, occupied or takes no program.
    pub(crate) fn attach_bypass(
        device: u32,
        mac: [u8; 6],
        workers: u32,
        frame_octets_max: u32,
        queues: u32,
        mode: Option<Mode>,
    ) -> Result<(Self, Map), BpfError> {
        // `struct place`.
        let mut place = [0; 16];
        place[..6].copy_from_slice(&mac);
        place[8..12].copy_from_slice(&workers.max(1).to_ne_bytes());
        place[12..].copy_from_slice(&frame_octets_max.to_ne_bytes());
        let (globals, sizes) = ([("place", &place[..])], [("sockets", queues.max(1))]);
        let mut object = Object::load("bypass", objects::BYPASS, &globals, &sizes)?;
        let table = object.take_map("table")?;
        Ok((Self::attach_object("bypass", object, device, mode)?, table))
    }

    fn attach_object(
        name: &'static str,
        mut object: Object,
        device: u32,
        mode: Option<Mode>,
    ) -> Result<Self, BpfError> {
        let sockets = XskMap::try_from(object.take_map("sockets")?);
        let sockets = sockets.map_err(|error| refused(name, &error))?;
        let counters = object.counters("counters")?;
        let attached = attach(&object.program_fd(name)?, device, mode)?;
        Ok(Self { sockets, counters, attached })
    }

    /// Names the socket for a queue. It must be bound to this device and queue.
    ///
    /// # Errors
    /// The queue is beyond the number given, or the socket is no AF_XDP socket.
    pub fn set_socket(&mut self, queue: u32, socket: &impl AsFd) -> Result<(), BpfError> {
        let set = self.sockets.set(queue, socket.as_fd().as_raw_fd(), 0);
        set.map_err(|error| refused("redirect", &error))
    }

    /// What was counted so far.
    pub fn counters(&self) -> RedirectCounters {
        let [taken, wrong_queue] = self.counters.read();
        RedirectCounters { taken, wrong_queue }
    }

    /// Where the program runs.
    pub fn mode(&self) -> Mode {
        self.attached.mode()
    }
}

/// An address as the programs keep it: 16 octets, of which IPv4 uses the first four.
pub(crate) fn address_octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&v4.octets());
            octets
        }
        IpAddr::V6(v6) => v6.octets(),
    }
}
