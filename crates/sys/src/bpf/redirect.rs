//! A program that hands datagrams to AF_XDP sockets.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

use aya::maps::{MapData, XskMap};

use super::BpfError;
use super::attach::{Attached, Mode, attach};
use super::object::{Counters, Object, refused};

/// A program with a map of sockets, on a device.
pub struct Redirect {
    sockets: XskMap<MapData>,
    counters: Counters<2>,
    attached: Attached,
}

/// What became of the datagrams that the program takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedirectCounters {
    /// Handed to the socket of their queue. Full rings count them in their own statistics (`XDP_STATISTICS`).
    pub taken: u64,
    /// Arrived on a queue without a socket, and dropped.
    pub wrong_queue: u64,
}

impl Redirect {
    /// Puts a program on a device: `name` is the object's and the program's; it redirects to the sockets of
    /// its map `sockets` and has the two counters of [`RedirectCounters`] in its map `counters`. Without a
    /// mode, native is tried first, then generic.
    ///
    /// # Errors
    /// The device is missing, occupied or takes no program.
    pub fn attach(
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
pub fn address_octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&v4.octets());
            octets
        }
        IpAddr::V6(v6) => v6.octets(),
    }
}
