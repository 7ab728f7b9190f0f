//! The DNS queries of a packet.

use std::net::IpAddr;

use engine::workload::question::check_request;
use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TcpSlice, TransportSlice, UdpSlice};

use crate::left_out::{LeftOut, Reason};
use crate::packets::Packet;

/// The port of DNS over UDP and TCP.
pub const DNS_PORT: u16 = 53;

/// A query of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'p> {
    /// When its packet was captured, in ns since 1970.
    pub time_ns: u64,
    /// Who asked.
    pub client: IpAddr,
    /// The message.
    pub message: &'p [u8],
}

/// Link types that are read (`LINKTYPE_`, draft-ietf-opsawg-pcaplinktype).
mod link {
    pub const ETHERNET: u16 = 1;
    pub const RAW: u16 = 101;
    /// What OpenBSD and others write for RAW.
    pub const RAW_OF_BSD: [u16; 2] = [12, 14];
    pub const LINUX_SLL: u16 = 113;
    pub const IPV4: u16 = 228;
    pub const IPV6: u16 = 229;
    pub const LINUX_SLL2: u16 = 276;
    /// The header of SLL: the protocol stands in its last two octets.
    pub const SLL_OCTETS: usize = 16;
    /// The header of SLL2: the protocol stands in its first two octets.
    pub const SLL2_OCTETS: usize = 20;
}

/// Hands over the queries to `port` that a packet has, and counts what it has instead.
pub fn queries_of(packet: &Packet<'_>, port: u16, left_out: &mut LeftOut, take: &mut dyn FnMut(Query<'_>)) {
    let Some(sliced) = slice(packet, left_out) else { return };
    let (client, payload) = match &sliced.net {
        Some(LaxNetSlice::Ipv4(ip)) => (IpAddr::V4(ip.header().source_addr()), ip.payload()),
        Some(LaxNetSlice::Ipv6(ip)) => (IpAddr::V6(ip.header().source_addr()), ip.payload()),
        _ => return left_out.note(Reason::Other),
    };
    if payload.fragmented {
        return left_out.note(Reason::Fragment);
    }
    let ports = match &sliced.transport {
        Some(TransportSlice::Udp(udp)) => (udp.source_port(), udp.destination_port()),
        Some(TransportSlice::Tcp(tcp)) => (tcp.source_port(), tcp.destination_port()),
        _ => return left_out.note(Reason::Other),
    };
    if ports.1 != port {
        return left_out.note(if ports.0 == port { Reason::Response } else { Reason::Other });
    }
    let Some(time_ns) = packet.time_ns else { return left_out.note(Reason::NoTime) };
    let cut = packet.is_cut || payload.incomplete;
    let mut of_message = |message: &[u8], left_out: &mut LeftOut| match check_request(message) {
        Ok(()) => take(Query { time_ns, client, message }),
        Err(_) => left_out.note(Reason::Unaskable),
    };
    match &sliced.transport {
        Some(TransportSlice::Udp(udp)) => match whole_datagram(udp, cut) {
            Some(message) => of_message(message, left_out),
            None => left_out.note(Reason::Cut),
        },
        Some(TransportSlice::Tcp(tcp)) => of_segment(tcp, cut, left_out, &mut of_message),
        _ => {}
    }
}

/// The packet in its layers, where its link type is read.
fn slice<'p>(packet: &Packet<'p>, left_out: &mut LeftOut) -> Option<LaxSlicedPacket<'p>> {
    let octets = packet.octets;
    let cooked = |at: usize, header: usize| {
        let protocol = u16::from_be_bytes(*octets.get(at..)?.first_chunk()?);
        Some(LaxSlicedPacket::from_ether_type(EtherType(protocol), octets.get(header..)?))
    };
    let sliced = match packet.link_type {
        link::ETHERNET => LaxSlicedPacket::from_ethernet(octets).ok(),
        link::LINUX_SLL => cooked(link::SLL_OCTETS - 2, link::SLL_OCTETS),
        link::LINUX_SLL2 => cooked(0, link::SLL2_OCTETS),
        link::RAW | link::IPV4 | link::IPV6 => LaxSlicedPacket::from_ip(octets).ok(),
        other if link::RAW_OF_BSD.contains(&other) => LaxSlicedPacket::from_ip(octets).ok(),
        _ => {
            left_out.note(Reason::LinkType);
            return None;
        }
    };
    if sliced.is_none() {
        left_out.note(Reason::Other);
    }
    sliced
}

/// What a datagram carries, if the capture has all of it.
fn whole_datagram<'p>(udp: &UdpSlice<'p>, cut: bool) -> Option<&'p [u8]> {
    let whole = !cut && usize::from(udp.length()) == udp.slice().len();
    whole.then(|| udp.payload())
}

/// The messages of a segment, each behind its length (RFC 1035 4.2.2), where they lie whole in it.
fn of_segment(
    tcp: &TcpSlice<'_>,
    cut: bool,
    left_out: &mut LeftOut,
    of_message: &mut dyn FnMut(&[u8], &mut LeftOut),
) {
    let mut rest = tcp.payload();
    match (rest, cut) {
        (_, true) => return left_out.note(Reason::Cut),
        ([], false) => return left_out.note(Reason::Other),
        _ => {}
    }
    while let [high, low, after @ ..] = rest {
        let Some((message, next)) = after.split_at_checked(u16::from_be_bytes([*high, *low]).into()) else {
            break;
        };
        of_message(message, left_out);
        rest = next;
    }
    if !rest.is_empty() {
        left_out.note(Reason::Segment);
    }
}
