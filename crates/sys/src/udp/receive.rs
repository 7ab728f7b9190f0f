//! recvmmsg.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use super::fixed::Fixed;
use super::{Control, EMPTY_CONTROL, UdpSocket};

/// One datagram of a [`ReceiveBatch`].
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Its payload.
    pub octets: &'a [u8],
    /// Where it came from.
    pub from: SocketAddr,
    /// The address it was sent to, at sockets bound to the unspecified address.
    pub local: Option<IpAddr>,
    /// It was longer than the slot.
    pub truncated: bool,
    /// When the kernel took it, in ns since 1970, at sockets with timestamps.
    pub received_realtime_ns: Option<u64>,
}

/// From one slot to the next so many octets are left, an odd number of cache lines: where slots are whole
/// pages, the beginnings of all would compete for the same few places of the processor's cache.
const STAGGER_OCTETS: usize = 17 * 64;

/// Slots for the datagrams of one call, allocated once.
pub struct ReceiveBatch {
    headers: Box<[libc::mmsghdr]>,
    // The headers point into the four below.
    _vectors: Fixed<libc::iovec>,
    addresses: Fixed<libc::sockaddr_storage>,
    controls: Fixed<Control>,
    buffer: Fixed<u8>,
    octets_each: usize,
    octets_apart: usize,
    received: usize,
    icmp_errors: u64,
}

// SAFETY: the raw pointers in the headers lead into memory that the value owns.
unsafe impl Send for ReceiveBatch {}

impl ReceiveBatch {
    /// Room for `slots` datagrams of up to `octets_each` octets each.
    pub fn new(slots: usize, octets_each: usize) -> Self {
        let octets_apart = octets_each.next_multiple_of(64) + STAGGER_OCTETS;
        let buffer = Fixed::new(0, slots * octets_apart);
        // SAFETY: these C structures are valid when all their octets are zero.
        let (address, header) = unsafe { (zeroed::<libc::sockaddr_storage>(), zeroed::<libc::mmsghdr>()) };
        let (addresses, controls) = (Fixed::new(address, slots), Fixed::new(EMPTY_CONTROL, slots));
        let mut vectors =
            Fixed::new(libc::iovec { iov_base: std::ptr::null_mut(), iov_len: octets_each }, slots);
        for (index, vector) in vectors.iter_mut().enumerate() {
            vector.iov_base = buffer.at(index * octets_apart).cast();
        }
        let mut headers = vec![header; slots].into_boxed_slice();
        for (index, header) in headers.iter_mut().enumerate() {
            let message = &mut header.msg_hdr;
            message.msg_iov = vectors.at(index);
            message.msg_iovlen = 1;
            message.msg_name = addresses.at(index).cast();
            message.msg_control = controls.at(index).cast();
        }
        Self {
            headers,
            _vectors: vectors,
            addresses,
            controls,
            buffer,
            octets_each,
            octets_apart,
            received: slots,
            icmp_errors: 0,
        }
    }

    /// Takes what waits at the socket, at most one message for each slot; 0 when nothing is there. A message
    /// is a datagram or, at sockets that join them, several.
    ///
    /// # Errors
    /// Those of the socket. That an earlier datagram was not delivered is none: it counts as nothing there,
    /// and in [`ReceiveBatch::icmp_errors`].
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        // Only slots that the last call filled have been changed by the kernel.
        for header in &mut self.headers[..self.received] {
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_hdr.msg_controllen = size_of::<Control>() as _;
            header.msg_hdr.msg_flags = 0;
        }
        self.received = 0;
        let slots = self.headers.len() as libc::c_uint;
        // SAFETY: every header points to an address, a buffer and a control area of its own, with their true
        // lengths.
        let result = unsafe {
            libc::recvmmsg(
                socket.as_fd().as_raw_fd(),
                self.headers.as_mut_ptr(),
                slots,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        match crate::check(result) {
            Ok(received) => self.received = received as usize,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) if super::is_icmp(&error) => self.icmp_errors += 1,
            Err(error) => return Err(error),
        }
        Ok(self.received)
    }

    /// The datagrams of the last call. Those of one message have one time of arrival.
    pub fn iter(&self) -> impl Iterator<Item = Datagram<'_>> {
        (0..self.received).flat_map(|index| {
            let (whole, each) = self.message(index);
            // A message without octets is a datagram too.
            let datagrams = whole.octets.len().div_ceil(each).max(1);
            (0..datagrams).map(move |nth| {
                let end = whole.octets.len().min((nth + 1) * each);
                Datagram { octets: &whole.octets[nth * each..end], ..whole }
            })
        })
    }

    /// How often a call met the news that an earlier datagram was not delivered, for example because nobody
    /// listens at the port. The kernel keeps one such error for each socket at a time.
    pub fn icmp_errors(&self) -> u64 {
        self.icmp_errors
    }

    /// The number of messages of the last call.
    pub fn len(&self) -> usize {
        self.received
    }

    /// Whether the last call found nothing.
    pub fn is_empty(&self) -> bool {
        self.received == 0
    }

    /// A message as it came, and the length of each datagram in it but the last.
    fn message(&self, index: usize) -> (Datagram<'_>, usize) {
        let header = &self.headers[index];
        let start = index * self.octets_apart;
        let length = (header.msg_len as usize).min(self.octets_each);
        let notes = read_control(&self.controls[index], header.msg_hdr.msg_controllen);
        let whole = Datagram {
            octets: &self.buffer[start..start + length],
            from: to_socket_addr(&self.addresses[index]),
            local: notes.local,
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            received_realtime_ns: notes.time_ns,
        };
        (whole, notes.segment_octets.unwrap_or(usize::MAX))
    }
}

fn to_socket_addr(storage: &libc::sockaddr_storage) -> SocketAddr {
    let pointer = std::ptr::from_ref(storage);
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET6 => {
            // SAFETY: the family says that the storage holds a sockaddr_in6, and it is aligned for every
            // family.
            let address = unsafe { &*pointer.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            std::net::SocketAddrV6::new(ip, u16::from_be(address.sin6_port), 0, address.sin6_scope_id).into()
        }
        libc::AF_INET => {
            // SAFETY: likewise for sockaddr_in.
            let address = unsafe { &*pointer.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes());
            (ip, u16::from_be(address.sin_port)).into()
        }
        _ => (Ipv4Addr::UNSPECIFIED, 0).into(),
    }
}

/// What the kernel noted of a message.
#[derive(Default)]
pub(crate) struct Ancillary {
    /// The address it was sent to.
    local: Option<IpAddr>,
    /// When it came, in ns since 1970.
    pub(crate) time_ns: Option<u64>,
    /// The length of each datagram in it, where several are joined; never 0.
    segment_octets: Option<usize>,
}

/// Reads the control messages (RFC 3542, socket(7), udp(7)).
pub(crate) fn read_control(control: &Control, length: usize) -> Ancillary {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    let area = &control.0[..length.min(size_of::<Control>())];
    let (mut notes, mut at) = (Ancillary::default(), 0);
    while let Some(head) = area.get(at..at + HEADER) {
        let field =
            |from: usize| i32::from_ne_bytes([head[from], head[from + 1], head[from + 2], head[from + 3]]);
        let total = usize::from_ne_bytes(head.first_chunk().copied().unwrap_or_default());
        let level_at = HEADER - 2 * size_of::<libc::c_int>();
        let Some(data) = area.get(at + HEADER..at + total) else { break };
        match (field(level_at), field(level_at + 4)) {
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                notes.local = data.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets).into());
            }
            // struct in_pktinfo: interface, local address, destination of the header.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                notes.local = data
                    .get(8..12)
                    .and_then(<[u8]>::first_chunk::<4>)
                    .map(|octets| Ipv4Addr::from(*octets).into());
            }
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                let word = |from: usize| {
                    data.get(from..from + 8)?.first_chunk().map(|octets| u64::from_ne_bytes(*octets))
                };
                notes.time_ns = word(0).zip(word(8)).map(|(seconds, ns)| seconds * 1_000_000_000 + ns);
            }
            (libc::SOL_UDP, libc::UDP_GRO) => {
                let octets = data.first_chunk().map(|octets| i32::from_ne_bytes(*octets));
                notes.segment_octets =
                    octets.and_then(|octets| usize::try_from(octets).ok()).filter(|&n| n > 0);
            }
            _ => {}
        }
        at += total.next_multiple_of(size_of::<usize>());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills in a message as the kernel does, at the pointers of its header.
    fn write(header: &mut libc::mmsghdr, octets: &[u8], from: Ipv4Addr) {
        let message = &mut header.msg_hdr;
        let control = libc::cmsghdr {
            cmsg_len: size_of::<libc::cmsghdr>() + 4,
            cmsg_level: libc::SOL_UDP,
            cmsg_type: libc::UDP_GRO,
        };
        let source = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: 53u16.to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(from.octets()) },
            sin_zero: [0; 8],
        };
        // SAFETY: the header's pointers lead to room for all this.
        unsafe {
            let vector = &*message.msg_iov;
            assert!(octets.len() <= vector.iov_len);
            vector.iov_base.cast::<u8>().copy_from(octets.as_ptr(), octets.len());
            message.msg_name.cast::<libc::sockaddr_in>().write(source);
            message.msg_control.cast::<libc::cmsghdr>().write(control);
            message.msg_control.cast::<libc::cmsghdr>().add(1).cast::<i32>().write(3);
        }
        message.msg_controllen = size_of::<libc::cmsghdr>() + 8;
        header.msg_len = octets.len() as u32;
    }

    /// Runs under Miri as well, which knows when a pointer has become invalid.
    #[test]
    fn datagrams_are_found_where_headers_lead_wherever_the_batch_is() {
        let mut batch = ReceiveBatch::new(2, 16);
        for round in 1..3u8 {
            batch = *Box::new(batch);
            for (index, header) in batch.headers.iter_mut().enumerate() {
                write(header, &[round, 1, 1, index as u8], Ipv4Addr::new(192, 0, 2, round));
            }
            batch.received = 2;
            let from = SocketAddr::from(([192, 0, 2, round], 53));
            let found: Vec<_> = batch.iter().map(|datagram| (datagram.octets, datagram.from)).collect();
            let (first, [one, other]) = ([round, 1, 1], [[0], [1]]);
            assert_eq!(found, [(&first[..], from), (&one, from), (&first, from), (&other, from)]);
        }
    }
}
