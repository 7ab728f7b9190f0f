//! sendmmsg.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use super::{Control, EMPTY_CONTROL, UdpSocket};

/// What became of a batch.
#[derive(Debug, Default)]
pub struct Flushed {
    /// Datagrams that the kernel took.
    pub sent: usize,
    /// Datagrams that it refused; they are gone.
    pub failed: usize,
    /// How often the peer had refused earlier datagrams (ICMP port unreachable).
    pub refused: usize,
    /// The last error that made datagrams fail.
    pub error: Option<io::Error>,
}

/// Slots for the datagrams of one call, allocated once.
pub struct SendBatch {
    headers: Box<[libc::mmsghdr]>,
    // The headers point into the four boxes below, which are never resized.
    vectors: Box<[libc::iovec]>,
    addresses: Box<[libc::sockaddr_storage]>,
    controls: Box<[Control]>,
    buffer: Box<[u8]>,
    octets_each: usize,
    used: usize,
}

// SAFETY: the raw pointers in the headers lead into boxes that move along with the value.
unsafe impl Send for SendBatch {}

impl SendBatch {
    /// Room for `slots` datagrams of up to `octets_each` octets each.
    pub fn new(slots: usize, octets_each: usize) -> Self {
        let mut buffer = vec![0u8; slots * octets_each].into_boxed_slice();
        // SAFETY: these C structures are valid when all their octets are zero.
        let (addresses, mut headers) = unsafe {
            let addresses = vec![zeroed::<libc::sockaddr_storage>(); slots].into_boxed_slice();
            (addresses, vec![zeroed::<libc::mmsghdr>(); slots].into_boxed_slice())
        };
        let controls = vec![EMPTY_CONTROL; slots].into_boxed_slice();
        let mut vectors: Box<[libc::iovec]> = buffer
            .chunks_exact_mut(octets_each)
            .map(|slot| libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: 0 })
            .collect();
        for (header, vector) in headers.iter_mut().zip(vectors.iter_mut()) {
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        Self { headers, vectors, addresses, controls, buffer, octets_each, used: 0 }
    }

    /// The number of datagrams that wait in the batch.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether nothing waits in it.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Whether it takes no more.
    pub fn is_full(&self) -> bool {
        self.used == self.headers.len()
    }

    /// Adds a datagram: `write` fills the buffer and returns the length; 0 adds nothing. `to` is not needed at a
    /// connected socket; `from_local` chooses the source address. `false` means that the batch was full.
    pub fn push(
        &mut self,
        to: Option<SocketAddr>,
        from_local: Option<IpAddr>,
        write: impl FnOnce(&mut [u8]) -> usize,
    ) -> bool {
        if self.is_full() {
            return false;
        }
        let start = self.used * self.octets_each;
        let slot = &mut self.buffer[start..start + self.octets_each];
        let length = write(slot).min(self.octets_each);
        if length == 0 {
            return true;
        }
        self.vectors[self.used].iov_len = length;
        let message = &mut self.headers[self.used].msg_hdr;
        match to {
            Some(to) => {
                let address = &mut self.addresses[self.used];
                message.msg_namelen = write_socket_addr(address, to);
                message.msg_name = std::ptr::from_mut(address).cast();
            }
            None => (message.msg_name, message.msg_namelen) = (std::ptr::null_mut(), 0),
        }
        match from_local {
            Some(from) => {
                let control = &mut self.controls[self.used];
                message.msg_controllen = write_pktinfo(control, from) as _;
                message.msg_control = std::ptr::from_mut(control).cast();
            }
            None => (message.msg_control, message.msg_controllen) = (std::ptr::null_mut(), 0),
        }
        self.used += 1;
        true
    }

    /// Hands all datagrams to the kernel and empties the batch. An error that belongs to an earlier datagram (a
    /// refused connection) costs nothing: the datagram it interrupted is tried again.
    pub fn flush(&mut self, socket: &UdpSocket) -> Flushed {
        let mut flushed = Flushed::default();
        let (mut at, mut retried) = (0, false);
        while at < self.used {
            let left = &mut self.headers[at..self.used];
            // SAFETY: every header points to a buffer and, where not null, to an address and a control area of its own.
            let result = unsafe {
                libc::sendmmsg(socket.as_fd().as_raw_fd(), left.as_mut_ptr(), left.len() as libc::c_uint, 0)
            };
            match crate::check(result) {
                Ok(sent) => {
                    at += sent as usize;
                    flushed.sent += sent as usize;
                    retried = false;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && !retried => {
                    flushed.refused += 1;
                    retried = true;
                }
                Err(error) => {
                    flushed.failed += 1;
                    flushed.error = Some(error);
                    at += 1;
                    retried = false;
                }
            }
        }
        self.used = 0;
        flushed
    }
}

fn write_socket_addr(storage: &mut libc::sockaddr_storage, address: SocketAddr) -> libc::socklen_t {
    let pointer = std::ptr::from_mut(storage);
    match address {
        SocketAddr::V4(v4) => {
            // SAFETY: the storage is large enough and aligned for every address family.
            let place = unsafe { &mut *pointer.cast::<libc::sockaddr_in>() };
            place.sin_family = libc::AF_INET as libc::sa_family_t;
            place.sin_port = v4.port().to_be();
            place.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            size_of::<libc::sockaddr_in>() as libc::socklen_t
        }
        SocketAddr::V6(v6) => {
            // SAFETY: likewise.
            let place = unsafe { &mut *pointer.cast::<libc::sockaddr_in6>() };
            place.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            place.sin6_port = v6.port().to_be();
            place.sin6_flowinfo = 0;
            place.sin6_addr.s6_addr = v6.ip().octets();
            place.sin6_scope_id = v6.scope_id();
            size_of::<libc::sockaddr_in6>() as libc::socklen_t
        }
    }
}

/// Writes the control message that chooses the source address (RFC 3542 6.2, ip(7)); returns its length.
fn write_pktinfo(control: &mut Control, from: IpAddr) -> usize {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    let mut data = [0u8; 20];
    let (level, kind, length) = match from {
        IpAddr::V6(address) => {
            data[..16].copy_from_slice(&address.octets());
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 20)
        }
        // struct in_pktinfo: interface, local address, destination of the header.
        IpAddr::V4(address) => {
            data[4..8].copy_from_slice(&address.octets());
            (libc::IPPROTO_IP, libc::IP_PKTINFO, 12)
        }
    };
    let level_at = HEADER - 2 * size_of::<libc::c_int>();
    control.0[..level_at].copy_from_slice(&(HEADER + length).to_ne_bytes()[..level_at]);
    control.0[level_at..level_at + 4].copy_from_slice(&level.to_ne_bytes());
    control.0[level_at + 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
    control.0[HEADER..HEADER + length].copy_from_slice(&data[..length]);
    (HEADER + length).next_multiple_of(size_of::<usize>())
}
