//! The ring of one queue: datagrams come in and leave as frames.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use super::repeats::{Repeatable, Repeats};
use sys::frame::{self, ETHERNET_OCTETS, Template, may_be_intact};
use sys::xdp::XdpSocket;

/// Datagrams taken in one call.
const BATCH: u32 = 64;

/// The ring of one queue, for one thread.
pub struct BypassRing {
    pub(super) socket: XdpSocket,
    pub(super) device: u32,
    pub(super) mac: [u8; 6],
    /// The longest frame that the device sends.
    pub(super) frame_octets_max: usize,
    /// Where answers can be repeated.
    pub(super) repeats: Option<Repeats>,
}

/// Datagrams that have come, taken out of their frames.
#[derive(Default)]
pub struct Arrivals {
    octets: Vec<u8>,
    list: Vec<Arrival>,
    damaged: u64,
}

struct Arrival {
    source: SocketAddr,
    destination: SocketAddr,
    mac: [u8; 6],
    from: usize,
    to: usize,
}

/// A datagram that has come in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived<'f> {
    /// Who sent it.
    pub source: SocketAddr,
    /// Whom it is for.
    pub destination: SocketAddr,
    /// The Ethernet address that the frame came from: the way back.
    pub mac: [u8; 6],
    /// What it carries.
    pub octets: &'f [u8],
}

impl Arrivals {
    /// The datagrams of the last call of [`BypassRing::receive`].
    pub fn iter(&self) -> impl Iterator<Item = Arrived<'_>> {
        self.list.iter().map(|&Arrival { source, destination, mac, from, to }| Arrived {
            source,
            destination,
            mac,
            octets: &self.octets[from..to],
        })
    }

    /// Frames of all calls that were dropped because a length or checksum is wrong, as the stack drops them.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    fn take(&mut self, device: u32, octets: &[u8]) {
        let Some(datagram) = frame::parse(octets).filter(|_| may_be_intact(octets)) else {
            self.damaged += 1;
            return;
        };
        let from = self.octets.len();
        self.octets.extend_from_slice(datagram.payload);
        self.list.push(Arrival {
            source: scoped(datagram.source, device),
            destination: datagram.destination,
            mac: octets[6..12].try_into().unwrap_or_default(),
            from,
            to: self.octets.len(),
        });
    }
}

/// A link-local address with the device it is on, as sockets give it.
fn scoped(mut source: SocketAddr, device: u32) -> SocketAddr {
    if let SocketAddr::V6(v6) = &mut source
        && v6.ip().is_unicast_link_local()
    {
        v6.set_scope_id(device);
    }
    source
}

impl BypassRing {
    /// Takes up to 64 datagrams that have come; returns how many frames there were. Never blocks.
    pub fn receive(&mut self, into: &mut Arrivals) -> usize {
        into.octets.clear();
        into.list.clear();
        if self.socket.look() == 0 {
            return 0;
        }
        let device = self.device;
        self.socket.receive(BATCH, |_, octets| into.take(device, octets))
    }

    /// Which answers to queries of this ring are repeated: to be read before one is made; 0 if none are.
    pub fn epoch(&self) -> u64 {
        self.repeats.as_ref().map_or(0, Repeats::epoch)
    }

    /// Has the program give an answer to whoever asks the same by this ring's worker's queues. False if it
    /// cannot: it is no answer to the query, too long, known, or there is no room for it now.
    pub fn remember(&self, now_ns: u64, repeatable: &Repeatable<'_>) -> bool {
        self.repeats.as_ref().is_some_and(|repeats| repeats.remember(now_ns, repeatable))
    }

    /// The headers of datagrams from one of our addresses to a host, by this device and the next hop with
    /// this Ethernet address. `None` if one address is of IPv4 and the other of IPv6.
    pub fn template(
        &self,
        next_hop: [u8; 6],
        source: SocketAddr,
        destination: SocketAddr,
    ) -> Option<Template> {
        Template::new(self.mac, next_hop, source, destination)
    }

    /// Whether a frame could be put in line now.
    pub fn has_room(&mut self) -> bool {
        self.socket.has_room()
    }

    /// Whether a datagram of so many octets fits into a frame of the device.
    pub fn holds(&self, template: &Template, octets: usize) -> bool {
        template.payload_offset() + octets <= self.frame_octets_max
    }

    /// Has `write` write a datagram, of at most `octets_max`, and puts it in line; its length is what `write`
    /// returns, 0 for none. False if it was none, or if there was no room for it, which
    /// [`BypassRing::has_room`] and [`BypassRing::holds`] tell before.
    pub fn send(
        &mut self,
        template: &Template,
        octets_max: usize,
        write: impl FnOnce(&mut [u8]) -> usize,
    ) -> bool {
        self.socket.send(|frame| {
            let Some(payload) = frame.get_mut(template.payload_offset()..) else { return 0 };
            let Some(payload) = payload.get_mut(..octets_max) else { return 0 };
            let octets = write(payload).min(octets_max);
            if octets > 0 { template.complete(frame, octets) } else { 0 }
        })
    }

    /// Sends what is in line, as far as the device takes it; call it again while [`BypassRing::has_pending`].
    ///
    /// # Errors
    /// The device is down or gone.
    pub fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }

    /// Frames that the device refused since the last call.
    pub fn take_refused(&mut self) -> usize {
        self.socket.take_refused()
    }

    /// Whether frames are in line that the device has not taken.
    pub fn has_pending(&self) -> bool {
        self.socket.has_pending()
    }

    /// Datagrams that were dropped because the ring was full.
    pub fn drops(&self) -> u64 {
        self.socket.statistics().map_or(0, |statistics| statistics.rx_ring_full + statistics.rx_dropped)
    }

    /// Whether the device reads and writes the memory itself.
    pub fn is_zero_copy(&self) -> bool {
        self.socket.is_zero_copy()
    }

    /// The number of its device.
    pub fn device(&self) -> u32 {
        self.device
    }
}

impl AsFd for BypassRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The longest frame of a device that sends packets of so many octets.
pub(super) fn frame_octets(mtu_octets: usize) -> usize {
    ETHERNET_OCTETS + mtu_octets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_sources_have_their_device() {
        let local = scoped("[fe80::1]:53".parse().unwrap(), 7);
        assert_eq!(local, SocketAddr::V6(std::net::SocketAddrV6::new("fe80::1".parse().unwrap(), 53, 0, 7)));
        let global = "[2001:db8::1]:53".parse().unwrap();
        assert_eq!(scoped(global, 7), global);
    }
}
