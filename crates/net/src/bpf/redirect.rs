//! The program that hands a server's answers to AF_XDP sockets.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd};

use aya::maps::{Map, MapData, XskMap};

use super::attach::{Attached, Mode, attach};
use super::object::{Counters, Object, refused};
use super::{BpfError, objects, probe};
use crate::kernel::Place;
use crate::link::Device;

/// The redirect program on a device.
pub struct Redirect {
    sockets: XskMap<MapData>,
    counters: Counters<2>,
    attached: Attached,
}

/// Where the program of a server with sockets is: `struct place` of `bpf/bypass.bpf.c`.
pub(crate) struct BypassPlace {
    /// Frames to other Ethernet addresses pass.
    pub mac: [u8; 6],
    /// The receive queue k is worker `k % workers`'s; at least 1.
    pub workers: u32,
    /// Longer frames pass.
    pub frame_octets_max: u32,
    /// Answers of each worker that can be repeated at one time, a power of two; 0 repeats none.
    pub answers: u32,
}

impl BypassPlace {
    fn octets(&self, redirects: bool) -> [u8; 24] {
        let mut octets = [0; 24];
        octets[..6].copy_from_slice(&self.mac);
        octets[8..12].copy_from_slice(&self.workers.to_ne_bytes());
        octets[12..16].copy_from_slice(&self.frame_octets_max.to_ne_bytes());
        octets[16..20].copy_from_slice(&self.answers.to_ne_bytes());
        octets[20..].copy_from_slice(&u32::from(redirects).to_ne_bytes());
        octets
    }
}

/// What the program of a server with sockets shares with it.
pub(crate) struct BypassMaps {
    /// `struct table` of `bpf/bypass.bpf.c`.
    pub table: Map,
    /// The `struct answer`s of `bpf/repeat.h`, where there are any, or why answers of programs do not leave the device.
    pub answers: Result<Option<Map>, BpfError>,
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

    /// Puts the program of a server with sockets on a device; all that it does not take passes.
    ///
    /// # Errors
    /// XDP is not available, or the device is missing, occupied or takes no program.
    pub(crate) fn attach_bypass(
        device: &Device,
        place: &BypassPlace,
        queues: u32,
        mode: Option<Mode>,
    ) -> Result<(Self, BypassMaps), BpfError> {
        let repeats = place.answers > 0;
        let redirects = repeats && probe::is_needed(device).map_err(asking)?;
        let octets = place.octets(redirects);
        let globals = [("place", &octets[..]), ("device", &device.index.to_ne_bytes()[..])];
        let answers = place.workers.saturating_mul(place.answers).max(1);
        let sizes = [("sockets", queues.max(1)), ("answers", answers)];
        let mut object = Object::load("bypass", objects::BYPASS, &globals, &sizes)?;
        let (table, answers) = (object.take_map("table")?, object.take_map("answers")?);
        let tried = if redirects { Some(object.program_fd("probe")?) } else { None };
        let attached = Self::attach_object("bypass", object, device.index, mode)?;
        let leave = tried.map_or(Ok(()), |program| probe::check(&program, device, place.mac));
        Ok((attached, BypassMaps { table, answers: leave.map(|()| repeats.then_some(answers)) }))
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

fn asking(error: std::io::Error) -> BpfError {
    BpfError::Io { operation: "asking the device for its driver", error }
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
