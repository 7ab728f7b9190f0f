//! sendmmsg.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use super::fixed::Fixed;
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
    /// How often a call met the news that an earlier datagram was not delivered (ICMP), refusals among
    /// them.
    pub icmp_errors: usize,
    /// The last error that made datagrams fail.
    pub error: Option<io::Error>,
}

/// Where a datagram goes and which address it leaves from.
type AddressPair = (Option<SocketAddr>, Option<IpAddr>);

/// Slots for the datagrams of one call, allocated once.
pub struct SendBatch {
    headers: Box<[libc::mmsghdr]>,
    // The headers point into the four below.
    vectors: Fixed<libc::iovec>,
    addresses: Fixed<libc::sockaddr_storage>,
    controls: Fixed<Control>,
    buffer: Fixed<u8>,
    ways: Box<[AddressPair]>,
    octets_each: usize,
    used: usize,
    segmenting: bool,
    /// Calls of [`SendBatch::flush`] before segments are tried again.
    paused: u32,
    /// How long the next pause is, in calls.
    next_pause: u32,
}

// SAFETY: the raw pointers in the headers lead into memory that the value owns.
unsafe impl Send for SendBatch {}

/// The most datagrams in one message; the kernel's own limit is 64 or 128 (UDP_MAX_SEGMENTS), by its version.
const SEGMENTS_MAX: usize = 64;
/// The most octets in one message: an IP packet's, less the headers.
const SEGMENTED_OCTETS_MAX: usize = 65_000;
/// After the first refusal so many calls go without segments; each further refusal doubles the pause, up to
/// the most. A route that changes for a moment costs little, a device that never takes segments hardly more.
const FIRST_PAUSE_CALLS: u32 = 64;
const PAUSE_CALLS_MAX: u32 = 65_536;

impl SendBatch {
    /// Room for `slots` datagrams of up to `octets_each` octets each.
    pub fn new(slots: usize, octets_each: usize) -> Self {
        let buffer = Fixed::new(0, (slots * octets_each).max(1));
        // SAFETY: these C structures are valid when all their octets are zero.
        let (address, header) = unsafe { (zeroed::<libc::sockaddr_storage>(), zeroed::<libc::mmsghdr>()) };
        let mut vectors = Fixed::new(libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }, slots);
        for (index, vector) in vectors.iter_mut().enumerate() {
            vector.iov_base = buffer.at(index * octets_each).cast();
        }
        Self {
            headers: vec![header; slots].into_boxed_slice(),
            vectors,
            addresses: Fixed::new(address, slots),
            controls: Fixed::new(EMPTY_CONTROL, slots),
            buffer,
            ways: vec![(None, None); slots].into_boxed_slice(),
            octets_each,
            used: 0,
            segmenting: false,
            paused: 0,
            next_pause: FIRST_PAUSE_CALLS,
        }
    }

    /// From now on, runs of equally long datagrams for one destination pass the network stack as one message,
    /// which the device, or at the latest the receiving socket, takes apart again (`UDP_SEGMENT`, udp(7)).
    /// The receiver sees the same datagrams; the sender saves most of its time. Where the kernel or the
    /// device refuses, nothing is lost: the datagrams leave one by one, and segments are tried again after a
    /// pause.
    #[must_use]
    pub fn segmenting(self) -> Self {
        Self { segmenting: true, ..self }
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

    /// Adds a datagram: `write` fills the buffer and returns the length; 0 adds nothing. `to` is not needed
    /// at a connected socket; `from_local` chooses the source address. `false` means that the batch was full.
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
        if length > 0 {
            self.vectors[self.used].iov_len = length;
            self.ways[self.used] = (to, from_local);
            self.used += 1;
        }
        true
    }

    /// Whether runs of datagrams were refused as one message so far.
    pub fn refused_segments(&self) -> bool {
        self.next_pause > FIRST_PAUSE_CALLS
    }

    /// Whether runs of datagrams leave as one message: [`SendBatch::segmenting`], and no pause after a
    /// refusal.
    fn is_segmenting(&self) -> bool {
        self.segmenting && self.paused == 0
    }

    /// Hands all datagrams to the kernel and empties the batch. An error that may belong to an earlier
    /// datagram (a refused connection) costs nothing: the datagram it interrupted is tried again, once.
    pub fn flush(&mut self, socket: &UdpSocket) -> Flushed {
        let mut flushed = Flushed::default();
        let (mut at, mut retried) = (0, false);
        self.paused = self.paused.saturating_sub(1);
        let mut messages = self.gather(0);
        while at < messages.end {
            let left = &mut self.headers[at..messages.end];
            // SAFETY: every header points to buffers and, where not null, to an address and a control area of
            // its own.
            let result = unsafe {
                libc::sendmmsg(socket.as_fd().as_raw_fd(), left.as_mut_ptr(), left.len() as libc::c_uint, 0)
            };
            let datagrams = self.headers[at].msg_hdr.msg_iovlen;
            match crate::check(result) {
                Ok(sent) => {
                    let taken = &self.headers[at..at + sent as usize];
                    flushed.sent += taken.iter().map(|header| header.msg_hdr.msg_iovlen).sum::<usize>();
                    at += sent as usize;
                    // What goes well the second time was not to blame the first.
                    flushed.icmp_errors += usize::from(retried);
                    retried = false;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if super::is_icmp(&error) && !retried => {
                    flushed.refused += usize::from(error.kind() == io::ErrorKind::ConnectionRefused);
                    retried = true;
                }
                Err(error) if datagrams > 1 && refuses_segments(&error) => {
                    self.pause_segments();
                    messages = self.gather(flushed.sent + flushed.failed);
                    at = 0;
                    retried = false;
                }
                Err(error) => {
                    // Of a full buffer or a missing route: one by one they would fail too.
                    flushed.failed += datagrams;
                    flushed.error = Some(error);
                    at += 1;
                    retried = false;
                }
            }
        }
        self.used = 0;
        flushed
    }

    fn pause_segments(&mut self) {
        self.paused = self.next_pause;
        self.next_pause = (2 * self.next_pause).min(PAUSE_CALLS_MAX);
    }

    /// Fills in the headers of the messages that carry the datagrams from `slot` on.
    fn gather(&mut self, mut slot: usize) -> std::ops::Range<usize> {
        let mut message = 0;
        while slot < self.used {
            let datagrams = self.run_from(slot);
            let length = self.vectors[slot].iov_len;
            let (to, from_local) = self.ways[slot];
            let header = &mut self.headers[message].msg_hdr;
            header.msg_iov = self.vectors.at(slot);
            header.msg_iovlen = datagrams;
            (header.msg_name, header.msg_namelen) = (std::ptr::null_mut(), 0);
            if let Some(to) = to {
                header.msg_namelen = write_socket_addr(&mut self.addresses[message], to);
                header.msg_name = self.addresses.at(message).cast();
            }
            let control = &mut self.controls[message];
            let mut used = from_local.map_or(0, |from| write_pktinfo(control, from));
            if datagrams > 1 {
                used += write_segment_length(control, used, length);
            }
            let area = if used > 0 { self.controls.at(message).cast() } else { std::ptr::null_mut() };
            (header.msg_control, header.msg_controllen) = (area, used as _);
            message += 1;
            slot += datagrams;
        }
        0..message
    }

    /// How many datagrams from `slot` on may share a message.
    fn run_from(&self, slot: usize) -> usize {
        if !self.is_segmenting() {
            return 1;
        }
        let (way, length) = (self.ways[slot], self.vectors[slot].iov_len);
        let most = SEGMENTS_MAX.min(SEGMENTED_OCTETS_MAX / length);
        let like = |other: &usize| self.ways[*other] == way && self.vectors[*other].iov_len == length;
        (slot..self.used).take(most).take_while(like).count().max(1)
    }
}

/// Whether the kernel or the device does not take a message apart: no checksums in the device (EIO),
/// datagrams longer than the path's MTU or too many of them (EINVAL, EMSGSIZE), an old kernel (the others).
fn refuses_segments(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP | libc::ENOPROTOOPT)
    )
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

/// Writes the control message that chooses the source address (RFC 3542 6.2, ip(7)); returns its space.
fn write_pktinfo(control: &mut Control, from: IpAddr) -> usize {
    match from {
        IpAddr::V6(address) => {
            let mut data = [0u8; 20];
            data[..16].copy_from_slice(&address.octets());
            write_control(control, 0, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &data)
        }
        // struct in_pktinfo: interface, local address, destination of the header.
        IpAddr::V4(address) => {
            let mut data = [0u8; 12];
            data[4..8].copy_from_slice(&address.octets());
            write_control(control, 0, libc::IPPROTO_IP, libc::IP_PKTINFO, &data)
        }
    }
}

/// Writes the control message that says how long each datagram of a message is (udp(7)); returns its space.
fn write_segment_length(control: &mut Control, at: usize, length: usize) -> usize {
    // At most SEGMENTED_OCTETS_MAX / 2, for a message has two datagrams at least.
    let data = (length as u16).to_ne_bytes();
    write_control(control, at, libc::SOL_UDP, libc::UDP_SEGMENT, &data)
}

/// Writes a control message (RFC 3542 20.1); returns its space, padding included.
fn write_control(
    control: &mut Control,
    at: usize,
    level: libc::c_int,
    kind: libc::c_int,
    data: &[u8],
) -> usize {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    let level_at = HEADER - 2 * size_of::<libc::c_int>();
    let area = &mut control.0[at..];
    area[..level_at].copy_from_slice(&(HEADER + data.len()).to_ne_bytes()[..level_at]);
    area[level_at..level_at + 4].copy_from_slice(&level.to_ne_bytes());
    area[level_at + 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
    area[HEADER..HEADER + data.len()].copy_from_slice(data);
    (HEADER + data.len()).next_multiple_of(size_of::<usize>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel finds at the pointers of a message: the family of the destination, the level of the
    /// first control message, the payload.
    fn read(header: &libc::msghdr) -> (Option<libc::c_int>, Option<i32>, Vec<u8>) {
        let (name, control) =
            (header.msg_name.cast::<libc::sockaddr>(), header.msg_control.cast::<libc::cmsghdr>());
        // SAFETY: as the kernel reads them, between filling in the headers and the next change of the batch.
        unsafe {
            let family = (!name.is_null()).then(|| (*name).sa_family.into());
            let level = (!control.is_null()).then(|| (*control).cmsg_level);
            let vectors = std::slice::from_raw_parts(header.msg_iov, header.msg_iovlen);
            let octets = |vector: &libc::iovec| {
                std::slice::from_raw_parts(vector.iov_base.cast::<u8>(), vector.iov_len).to_vec()
            };
            (family, level, vectors.iter().flat_map(octets).collect())
        }
    }

    /// One refusal, which an attacker may cause by a forged MTU, must not make every later answer dearer.
    #[test]
    fn attack_a_refused_run_of_segments_turns_them_off_for_a_while_only() {
        let socket = UdpSocket::bind("[::1]:0".parse().unwrap(), &super::super::Options::default()).unwrap();
        socket.connect(socket.local_addr().unwrap()).unwrap();
        let mut batch = SendBatch::new(2, 16).segmenting();
        let runs = |batch: &mut SendBatch| {
            for _ in 0..2 {
                batch.push(None, None, |_| 8);
            }
            let messages = batch.gather(0).len();
            batch.flush(&socket);
            messages == 1
        };
        assert!(runs(&mut batch) && !batch.refused_segments());
        for pause in [FIRST_PAUSE_CALLS, 2 * FIRST_PAUSE_CALLS] {
            batch.pause_segments();
            let without = (0..2 * pause).take_while(|_| !runs(&mut batch)).count();
            assert_eq!((without as u32, batch.refused_segments()), (pause, true));
        }
        for _ in 0..64 {
            batch.pause_segments();
        }
        assert_eq!(batch.paused, PAUSE_CALLS_MAX);
    }

    /// Runs under Miri as well, which knows when a pointer has become invalid.
    #[test]
    fn headers_lead_to_what_was_pushed_wherever_the_batch_is() {
        let to = |text: &str| Some(text.parse::<SocketAddr>().unwrap());
        let mut batch = SendBatch::new(4, 16).segmenting();
        for round in 0..2 {
            batch.used = 0;
            batch = *Box::new(batch);
            for (address, octets) in
                [("192.0.2.1:53", b"one"), ("192.0.2.1:53", b"two"), ("[2001:db8::1]:53", b"3rd")]
            {
                assert!(batch.push(to(address), None, |slot| {
                    slot[..3].copy_from_slice(octets);
                    3
                }));
            }
            assert!(batch.push(None, Some([192, 0, 2, 7].into()), |slot| slot.len()));
            assert_eq!(batch.gather(0), 0..3, "round {round}");
            let found: Vec<_> = batch.headers[..3].iter().map(|header| read(&header.msg_hdr)).collect();
            assert_eq!(found[0], (Some(libc::AF_INET), Some(libc::SOL_UDP), b"onetwo".to_vec()));
            assert_eq!(found[1], (Some(libc::AF_INET6), None, b"3rd".to_vec()));
            assert_eq!((found[2].0, found[2].1, found[2].2.len()), (None, Some(libc::IPPROTO_IP), 16));
        }
    }
}
