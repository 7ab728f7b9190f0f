//! Packets with any source address, and the DNS messages in them.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use dns64::wire::{CLASS_IN, Header, Message, Name, Question, Writer, rtype};
use record::random::Sequence;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// Not a protocol: the sender writes the IP header itself (raw(7)).
const IPPROTO_RAW: i32 = 255;
const ICMP: u8 = 1;
const UDP: u8 = 17;
const IP_HEADER_OCTETS: usize = 20;
const UDP_HEADER_OCTETS: usize = 8;

/// Sends whole IPv4 packets, so that any source address can be in them.
pub struct Raw {
    socket: Socket,
    packet: Vec<u8>,
}

impl Raw {
    /// In the namespace of the calling thread.
    ///
    /// # Errors
    /// The process has no `CAP_NET_RAW`.
    pub fn open() -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(IPPROTO_RAW)))?;
        Ok(Self { socket, packet: Vec::new() })
    }

    /// Sends a datagram. Whether the kernel took it.
    pub fn udp(&mut self, from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> bool {
        let length = UDP_HEADER_OCTETS + payload.len();
        self.begin(UDP, *from.ip(), *to.ip(), length);
        // A checksum of 0 says that there is none (RFC 768).
        for field in [from.port(), to.port(), length as u16, 0] {
            self.packet.extend(field.to_be_bytes());
        }
        self.packet.extend(payload);
        self.send(*to.ip())
    }

    /// Sends an ICMP message of this type and code about a datagram that its receiver is said to have sent.
    /// `rest` is the second half of the header (RFC 792). Whether the kernel took it.
    pub fn icmp(
        &mut self,
        kind: [u8; 2],
        rest: u32,
        (from, to): (SocketAddrV4, SocketAddrV4),
        sender: Ipv4Addr,
    ) -> bool {
        self.begin(UDP, *from.ip(), *to.ip(), UDP_HEADER_OCTETS);
        for field in [from.port(), to.port(), UDP_HEADER_OCTETS as u16, 0] {
            self.packet.extend(field.to_be_bytes());
        }
        let mut message = [&[kind[0], kind[1], 0, 0][..], &rest.to_be_bytes(), &self.packet].concat();
        let checksum = sys::frame::fold(sys::frame::sum(&message));
        message[2..4].copy_from_slice(&checksum);
        self.begin(ICMP, sender, *from.ip(), message.len());
        self.packet.extend(message);
        self.send(*from.ip())
    }

    /// Begins a packet with its header; the kernel fills in the checksum.
    fn begin(&mut self, protocol: u8, from: Ipv4Addr, to: Ipv4Addr, body_octets: usize) {
        let length = (IP_HEADER_OCTETS + body_octets) as u16;
        self.packet.clear();
        self.packet.extend([0x45, 0]);
        self.packet.extend(length.to_be_bytes());
        self.packet.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
        self.packet.extend(from.octets());
        self.packet.extend(to.octets());
    }

    fn send(&self, to: Ipv4Addr) -> bool {
        self.socket.send_to(&self.packet, &SockAddr::from(SocketAddrV4::new(to, 0))).is_ok()
    }
}

/// Draws 16 bits.
pub fn draw(numbers: &mut Sequence) -> u16 {
    (numbers.bits() >> 48) as u16
}

/// A query with RD.
pub fn query(id: u16, name: &Name, qtype: u16) -> Vec<u8> {
    let mut octets = vec![0; 300];
    let question = Question { name: *name, qtype, qclass: CLASS_IN };
    let written = Writer::new(&mut octets, id, Header::RD, &question).map(Writer::finish);
    octets.truncate(written.unwrap_or_default());
    octets
}

/// A name from its text, which this program has written.
///
/// # Errors
/// It is no name.
pub fn name(text: &str) -> io::Result<Name> {
    Name::from_text(text).map_err(|error| io::Error::other(error.0))
}

/// The answer to a query with this address for A, and without one for all else; `None` to what is no query.
pub fn address(query: &[u8], address: Ipv4Addr) -> Option<Vec<u8>> {
    let message = Message::parse(query).ok()?;
    let mut answer = begin(query)?;
    if message.qtype == rtype::A {
        answer[7] = 1;
        record(&mut answer, &[0xc0, 12], rtype::A, &address.octets());
    }
    Some(answer)
}

/// The header and the question of an answer, spelled as it was asked.
pub fn begin(query: &[u8]) -> Option<Vec<u8>> {
    let mut answer = query.get(..Message::parse(query).ok()?.question_end())?.to_vec();
    answer[2..12].copy_from_slice(&[0x85, 0x80, 0, 1, 0, 0, 0, 0, 0, 0]);
    Some(answer)
}

/// Adds a record of the class IN with a TTL of 300 s.
pub fn record(answer: &mut Vec<u8>, owner: &[u8], rtype: u16, rdata: &[u8]) {
    answer.extend(owner);
    for field in [rtype, CLASS_IN, 0, 300, rdata.len() as u16] {
        answer.extend(field.to_be_bytes());
    }
    answer.extend(rdata);
}
