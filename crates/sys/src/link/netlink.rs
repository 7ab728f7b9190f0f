//! One question to the kernel's routing tables and its answer, or one change to them (netlink(7),
//! rtnetlink(7)).

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A question or a change: the fixed part of a message of type `kind`, and attributes after it.
pub(super) struct Request {
    octets: Vec<u8>,
}

/// An answer, without its header.
pub(crate) struct Reply {
    octets: Vec<u8>,
    fixed: usize,
}

/// `struct nlmsghdr`: length, type, flags, sequence number, port.
const HEADER_OCTETS: usize = 16;
/// `struct nlattr`: length, type.
const ATTRIBUTE_HEADER_OCTETS: usize = 4;
/// Messages and attributes start at multiples of it.
const ALIGNMENT: usize = 4;
/// The upper bits of an attribute's type are flags.
const TYPE_MASK: u16 = 0x3fff;
/// The description of a device is a few kilobytes.
const REPLY_OCTETS_MAX: usize = 64 * 1024;
/// The kernel answers before the question's system call is over; this only bounds the unforeseen.
const PATIENCE_S: libc::time_t = 2;

impl Request {
    /// Starts a question with the fixed part that its type has.
    pub fn new(kind: u16, fixed: &[u8]) -> Self {
        let mut octets = vec![0; HEADER_OCTETS];
        octets[4..6].copy_from_slice(&kind.to_ne_bytes());
        octets.extend_from_slice(fixed);
        Self { octets }
    }

    /// Adds an attribute.
    pub fn with(mut self, kind: u16, value: &[u8]) -> Self {
        let length = (ATTRIBUTE_HEADER_OCTETS + value.len()) as u16;
        self.octets.extend_from_slice(&length.to_ne_bytes());
        self.octets.extend_from_slice(&kind.to_ne_bytes());
        self.octets.extend_from_slice(value);
        self.octets.resize(self.octets.len().next_multiple_of(ALIGNMENT), 0);
        self
    }

    /// Adds an attribute that holds what `add` adds.
    pub fn with_nested(self, kind: u16, add: impl FnOnce(Self) -> Self) -> Self {
        let start = self.octets.len();
        let mut nested = add(self.with(kind, &[]));
        let length = (nested.octets.len() - start) as u16;
        nested.octets[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        nested
    }

    /// Adds a fixed part, where a nested attribute begins with one.
    pub fn with_fixed(mut self, fixed: &[u8]) -> Self {
        self.octets.extend_from_slice(fixed);
        self
    }

    /// Adds a name, with its end.
    pub fn with_name(self, kind: u16, name: &str) -> Self {
        let terminated = [name.as_bytes(), &[0]].concat();
        self.with(kind, &terminated)
    }

    /// Adds an address.
    pub fn with_address(self, kind: u16, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => self.with(kind, &address.octets()),
            IpAddr::V6(address) => self.with(kind, &address.octets()),
        }
    }

    /// Asks, in the network namespace of the calling thread. The answer's fixed part has `fixed` octets.
    ///
    /// # Errors
    /// The kernel's own, for example that there is no such device, route or neighbour.
    pub fn ask(self, fixed: usize) -> io::Result<Reply> {
        Reply::parse(&self.exchange(0)?, fixed)
    }

    /// Has the kernel make the change, in the network namespace of the calling thread. The flags say whether
    /// what is changed must be there already (`NLM_F_CREATE`, `NLM_F_EXCL`, `NLM_F_REPLACE`).
    ///
    /// # Errors
    /// The kernel's own.
    pub fn change(self, flags: libc::c_int) -> io::Result<()> {
        acknowledged(&self.exchange(libc::NLM_F_ACK | flags)?)
    }

    /// Sends the message, with flags beside `NLM_F_REQUEST`, and waits for the first message that comes back.
    fn exchange(mut self, flags: libc::c_int) -> io::Result<Vec<u8>> {
        let length = self.octets.len() as u32;
        self.octets[0..4].copy_from_slice(&length.to_ne_bytes());
        self.octets[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
        let socket = open()?;
        // SAFETY: the kernel reads `len` octets of the vector.
        let sent = unsafe {
            libc::send(socket.as_raw_fd(), self.octets.as_ptr().cast(), self.octets.len(), libc::MSG_NOSIGNAL)
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut octets = vec![0u8; REPLY_OCTETS_MAX];
        // SAFETY: the kernel writes at most `len` octets into the vector.
        let received = unsafe { libc::recv(socket.as_raw_fd(), octets.as_mut_ptr().cast(), octets.len(), 0) };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        octets.truncate(received);
        Ok(octets)
    }
}

pub(super) fn open() -> io::Result<OwnedFd> {
    // SAFETY: on success the call returns a new descriptor that nobody else owns.
    let socket = unsafe {
        OwnedFd::from_raw_fd(crate::check(libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            libc::NETLINK_ROUTE,
        ))?)
    };
    let patience = libc::timeval { tv_sec: PATIENCE_S, tv_usec: 0 };
    // SAFETY: the kernel reads one timeval from a valid reference.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            std::ptr::from_ref(&patience).cast(),
            size_of::<libc::timeval>() as libc::socklen_t,
        )
    };
    crate::check(result)?;
    Ok(socket)
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a malformed netlink message")
}

/// The type of a message, and what follows its header.
fn split(octets: &[u8]) -> io::Result<(libc::c_int, &[u8])> {
    let length = u32_at(octets, 0).ok_or_else(malformed)? as usize;
    let kind = u16_at(octets, 4).ok_or_else(malformed)?;
    let body = octets.get(HEADER_OCTETS..length).ok_or_else(malformed)?;
    Ok((kind.into(), body))
}

/// Reads whether a change was made: a message of errors with the number 0.
fn acknowledged(octets: &[u8]) -> io::Result<()> {
    let (kind, body) = split(octets)?;
    match u32_at(body, 0).filter(|_| kind == libc::NLMSG_ERROR) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error((error as i32).wrapping_neg())),
        None => Err(malformed()),
    }
}

impl Reply {
    fn parse(octets: &[u8], fixed: usize) -> io::Result<Self> {
        let (kind, body) = split(octets)?;
        if kind == libc::NLMSG_ERROR {
            acknowledged(octets)?;
        }
        if kind == libc::NLMSG_ERROR || body.len() < fixed {
            return Err(malformed());
        }
        Ok(Self { octets: body.to_vec(), fixed })
    }

    /// The fixed part.
    pub fn fixed(&self) -> &[u8] {
        &self.octets[..self.fixed]
    }

    /// The value of the first attribute of a type.
    pub fn attribute(&self, kind: u16) -> Option<&[u8]> {
        let attributes = self.octets.get(self.fixed.next_multiple_of(ALIGNMENT)..)?;
        Attributes::of(attributes).find(|(found, _)| *found == kind).map(|(_, value)| value)
    }

    /// The value of an attribute that is a number of 32 bits.
    pub fn number(&self, kind: u16) -> Option<u32> {
        u32_at(self.attribute(kind)?, 0)
    }

    /// The value of an attribute that is an address.
    pub fn address(&self, kind: u16) -> Option<IpAddr> {
        address(self.attribute(kind)?)
    }
}

/// Attributes one after the other, of a message or within another attribute: their types and values.
pub(crate) struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// Those that stand in these octets; what is cut short ends them.
    pub fn of(octets: &'a [u8]) -> Self {
        Self(octets)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16_at(self.0, 0)?);
        let kind = u16_at(self.0, 2)? & TYPE_MASK;
        let value = self.0.get(ATTRIBUTE_HEADER_OCTETS..length)?;
        self.0 = self.0.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
        Some((kind, value))
    }
}

/// An address of four or sixteen octets.
pub(super) fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}

/// The number of 16 bits at an offset, in the host's order.
pub(super) fn u16_at(octets: &[u8], offset: usize) -> Option<u16> {
    octets.get(offset..)?.first_chunk().copied().map(u16::from_ne_bytes)
}

/// The number of 32 bits at an offset, in the host's order.
pub(crate) fn u32_at(octets: &[u8], offset: usize) -> Option<u32> {
    octets.get(offset..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

/// The number of 64 bits at an offset, in the host's order.
pub(super) fn u64_at(octets: &[u8], offset: usize) -> Option<u64> {
    octets.get(offset..)?.first_chunk().copied().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_behind_unaligned_ones_and_truncation_ends_the_search() {
        let mut octets = Request::new(7, &[1; 12]).with(1, b"abc").with(2, &9u32.to_ne_bytes()).octets;
        let length = octets.len() as u32;
        octets[..4].copy_from_slice(&length.to_ne_bytes());
        let reply = Reply::parse(&octets, 12).unwrap();
        assert_eq!((reply.fixed(), reply.attribute(1)), (&[1u8; 12][..], Some(&b"abc"[..])));
        assert_eq!((reply.number(2), reply.number(3)), (Some(9), None));
        for cut in 0..octets.len() {
            assert!(Reply::parse(&octets[..cut], 12).is_err());
            let cut = Reply { octets: reply.octets[..cut.min(reply.octets.len())].to_vec(), fixed: 12 };
            assert!(cut.number(3).is_none());
        }
    }

    #[test]
    fn any_attributes_are_read_without_a_panic() {
        // A nested one with the number 9 inside, then the same cut short and with wrong lengths.
        let mut octets = vec![20, 0, 43, 0, 5, 0, 2, 0, 0, 0, 0, 0, 8, 0, 4, 0, 9, 0, 0, 0];
        octets[8..12].copy_from_slice(&[0; 4]);
        octets[4..8].copy_from_slice(&[8, 0, 2, 0]);
        let nested = Attributes::of(&octets).next().unwrap();
        assert_eq!(nested.0, 43);
        let numbers: Vec<_> =
            Attributes::of(nested.1).map(|(kind, value)| (kind, u32_at(value, 0))).collect();
        assert_eq!(numbers, [(2, Some(0)), (4, Some(9))]);
        for length in 0..octets.len() {
            assert!(Attributes::of(&octets[..length]).count() <= length);
        }
        for at in 0..octets.len() {
            for octet in [0, 1, 3, 255] {
                let mut changed = octets.clone();
                changed[at] = octet;
                assert!(Attributes::of(&changed).count() <= changed.len());
            }
        }
    }

    #[test]
    fn nested_attributes_hold_what_is_added_inside() {
        let add = |request: Request| request.with_fixed(&[7; 8]).with_name(2, "veth");
        let octets = Request::new(7, &[]).with_nested(1, add).with(3, &[1]).octets;
        let all: Vec<_> = Attributes::of(&octets[HEADER_OCTETS..]).collect();
        assert_eq!(all.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(Attributes::of(&all[0].1[8..]).collect::<Vec<_>>(), [(2, &b"veth\0"[..])]);
        assert_eq!(all[0].1.len() % ALIGNMENT, 0);
    }

    #[test]
    fn only_the_number_zero_acknowledges() {
        let message = |kind: u16, body: &[u8]| {
            let mut octets = Request::new(kind, body).octets;
            let length = octets.len() as u32;
            octets[..4].copy_from_slice(&length.to_ne_bytes());
            octets
        };
        let error = |code: i32| message(libc::NLMSG_ERROR as u16, &code.to_ne_bytes());
        acknowledged(&error(0)).unwrap();
        assert_eq!(acknowledged(&error(-libc::EEXIST)).unwrap_err().raw_os_error(), Some(libc::EEXIST));
        assert!(acknowledged(&message(libc::RTM_NEWLINK, &[0; 16])).is_err());
        assert!(Reply::parse(&error(0), 0).is_err(), "it is no answer");
        for cut in 0..HEADER_OCTETS + 4 {
            assert!(acknowledged(&error(0)[..cut]).is_err());
        }
    }

    #[test]
    fn the_kernels_error_is_handed_on() {
        let unknown = Request::new(libc::RTM_GETLINK, &[0; 16]).with(3, b"no-such-device\0").ask(16);
        assert_eq!(unknown.err().and_then(|error| error.raw_os_error()), Some(libc::ENODEV));
    }
}
