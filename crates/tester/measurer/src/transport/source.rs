//! Where queries come from: addresses of a prefix and ports of a range, spread over the sockets.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use sys::udp::{Options, UdpSocket};

/// The source addresses and ports of a Measurer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Addresses; by default the one that the kernel takes for the server.
    pub addresses: Option<SourcePrefix>,
    /// Ports; by default free ones.
    pub ports: Option<PortRange>,
}

/// An address, or a prefix whose addresses are taken one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcePrefix {
    address: IpAddr,
    length: u8,
}

/// Ports, first and last included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl Sources {
    /// The pairs of address and port that there are, where ports are given; else there is no limit but the
    /// kernel's.
    pub fn pairs(&self) -> Option<u64> {
        let ports = self.ports?.len();
        Some(ports.saturating_mul(self.addresses.map_or(1, |prefix| prefix.len())))
    }

    /// The sources of all of a Measurer's sockets; port 0 where none is given.
    pub fn all(&self, sockets: usize, server: SocketAddr) -> Vec<SocketAddr> {
        (0..sockets).map(|n| self.of_socket(n, server)).collect()
    }

    /// Binds the `n`-th socket of a Measurer that asks `server`; neighbours differ in address and port.
    ///
    /// # Errors
    /// The address is not of this machine, or the port is taken. The message says what to do.
    pub fn bind(&self, n: usize, server: SocketAddr, options: &Options) -> io::Result<UdpSocket> {
        let at = self.of_socket(n, server);
        let any_source = self.addresses.is_some();
        UdpSocket::bind(at, &Options { any_source, ..*options }).map_err(|error| self.explain(&error, at))
    }

    /// Whether answers to the addresses that `sockets` sockets use come to this machine.
    ///
    /// # Errors
    /// They do not; the message names the address and the command that makes a route.
    pub fn check(&self, sockets: usize, server: SocketAddr) -> io::Result<()> {
        let Some(prefix) = self.addresses else { return Ok(()) };
        if server.is_ipv4() != prefix.address.is_ipv4() {
            let message =
                format!("sources of {prefix} cannot ask {server}: they are of another address family");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        for n in [0, sockets.saturating_sub(1)] {
            let source = self.of_socket(n, server).ip();
            if !is_local(source)? {
                let message = format!("{source} is no address of this machine: {}", prefix.remedy());
                return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, message));
            }
        }
        Ok(())
    }

    /// Every pair comes once in `pairs()` sockets: within the least common multiple of both numbers (address,
    /// port) differ while both count up, and after each the ports are moved by one.
    pub(super) fn of_socket(&self, n: usize, server: SocketAddr) -> SocketAddr {
        let n = n as u64;
        let address = self.addresses.map_or(unspecified(server), |prefix| prefix.nth(n));
        let port = self.ports.map_or(0, |ports| {
            let addresses = self.addresses.map_or(1, |prefix| prefix.len());
            let moved = n / least_common_multiple(addresses, ports.len());
            ports.nth(n.wrapping_add(moved))
        });
        (address, port).into()
    }

    fn explain(&self, error: &io::Error, at: SocketAddr) -> io::Error {
        let remedy = match (error.kind(), self.ports, self.addresses) {
            (io::ErrorKind::AddrInUse, Some(_), _) => {
                "another program has the port: choose other source ports".into()
            }
            (io::ErrorKind::AddrInUse, None, _) => {
                "no port is free: ask for fewer sockets, or widen net.ipv4.ip_local_port_range".into()
            }
            (io::ErrorKind::AddrNotAvailable, _, Some(prefix)) => prefix.remedy(),
            (io::ErrorKind::PermissionDenied, Some(_), _) => {
                "ports below net.ipv4.ip_unprivileged_port_start need CAP_NET_BIND_SERVICE".into()
            }
            _ => return io::Error::new(error.kind(), format!("source {at}: {error}")),
        };
        io::Error::new(error.kind(), format!("source {at}: {error}; {remedy}"))
    }
}

fn unspecified(server: SocketAddr) -> IpAddr {
    match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b).max(1)
}

/// Whether datagrams to the address come to this machine: one is sent there, and it arrives. It passes no
/// router.
fn is_local(address: IpAddr) -> io::Result<bool> {
    let domain = if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let receiver = UdpSocket::bind((address, 0).into(), &Options { any_source: true, ..Options::default() });
    let Ok(receiver) = receiver else { return Ok(false) };
    let sender = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv4() {
        sender.set_ttl_v4(1)?;
    } else {
        sender.set_unicast_hops_v6(1)?;
    }
    if sender.send_to(b"?", &receiver.local_addr()?.into()).is_err() {
        return Ok(false);
    }
    let poller = sys::poll::Poller::new()?;
    poller.add(&receiver, 0, sys::poll::Interest::Read)?;
    let arrived = poller.wait(&mut sys::poll::Events::with_capacity(1), Some(ARRIVES_WITHIN))?;
    Ok(arrived > 0)
}

/// A datagram that does not leave the machine needs microseconds.
const ARRIVES_WITHIN: Duration = Duration::from_millis(300);

impl SourcePrefix {
    /// The number of addresses to use, at most 2^32: of a longer prefix than an address all but the first
    /// and, in IPv4, the last, which are no host's (RFC 4291 2.6.1, RFC 1122 3.2.1.3).
    pub(crate) fn len(self) -> u64 {
        let bits = self.width() - self.length;
        match (bits, self.address) {
            (0, _) => 1,
            (1, _) => 2,
            (32.., _) => 1 << 32,
            (_, IpAddr::V4(_)) => (1 << bits) - 2,
            (_, IpAddr::V6(_)) => (1 << bits) - 1,
        }
    }

    fn nth(self, n: u64) -> IpAddr {
        let first = u64::from(self.width() - self.length > 1);
        let at = first + n % self.len();
        match self.address {
            // Within the prefix, so within 32 bits.
            IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() | at as u32).into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() | u128::from(at)).into(),
        }
    }

    fn width(self) -> u8 {
        if self.address.is_ipv4() { 32 } else { 128 }
    }

    fn remedy(self) -> String {
        let family = if self.address.is_ipv4() { "" } else { " -6" };
        format!("add a route to it with 'ip{family} route add local {self} dev lo'")
    }
}

impl fmt::Display for SourcePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl FromStr for SourcePrefix {
    type Err = String;

    /// Reads an address, or an address and the number of bits that are fixed; the others must be zero.
    fn from_str(text: &str) -> Result<Self, String> {
        let (address, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
        let address: IpAddr = address.parse().map_err(|_| format!("'{address}' is not an IP address"))?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let length =
            match length {
                None => width,
                Some(text) => text.parse().ok().filter(|&length| length <= width).ok_or_else(|| {
                    format!("the length of the prefix must be from 0 to {width}, not '{text}'")
                })?,
            };
        let clear = match address {
            IpAddr::V4(address) => address.to_bits().checked_shl(length.into()).unwrap_or(0) == 0,
            IpAddr::V6(address) => address.to_bits().checked_shl(length.into()).unwrap_or(0) == 0,
        };
        if !clear && length < width {
            return Err(format!("the bits after the first {length} must be zero"));
        }
        Ok(Self { address, length })
    }
}

impl PortRange {
    fn len(self) -> u64 {
        u64::from(self.last - self.first) + 1
    }

    fn nth(self, n: u64) -> u16 {
        // Below the length, which is at most 65,535.
        self.first + (n % self.len()) as u16
    }

    /// All of them.
    pub fn ports(self) -> RangeInclusive<u16> {
        self.first..=self.last
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for PortRange {
    type Err = String;

    /// Reads `FIRST-LAST` or one port.
    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.parse().ok().filter(|&port| port > 0);
        let (Some(first), Some(last)) = (port(first), port(last)) else {
            return Err(format!("'{text}' is not FIRST-LAST with ports from 1 to 65535"));
        };
        if first > last {
            return Err(format!("the range ends at {last}, before it begins at {first}"));
        }
        Ok(Self { first, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const SERVER: &str = "[::1]:53";

    fn sources(prefix: &str, ports: &str) -> Sources {
        Sources { addresses: Some(prefix.parse().unwrap()), ports: ports.parse().ok() }
    }

    #[test]
    fn every_pair_of_address_and_port_comes_once() {
        for (prefix, ports, pairs) in [
            ("2001:db8::/125", "20000-20009", 70),
            ("192.0.2.0/29", "20000-20009", 60),
            ("192.0.2.0/31", "20000-20003", 8),
            ("2001:db8::7", "1-5", 5),
        ] {
            let sources = sources(prefix, ports);
            let server = SERVER.parse().unwrap();
            let all: HashSet<_> = (0..pairs).map(|n| sources.of_socket(n, server)).collect();
            assert_eq!((all.len(), sources.pairs()), (pairs, Some(pairs as u64)), "{prefix} {ports}");
            assert_ne!(sources.of_socket(0, server), sources.of_socket(1, server));
        }
        let wide = sources("2001:db8::/32", "20000-20009");
        let server = SERVER.parse().unwrap();
        assert_eq!(wide.of_socket(1, server), "[2001:db8::2]:20001".parse().unwrap());
        assert_eq!(Sources::default().of_socket(7, server), "[::]:0".parse().unwrap());
    }

    #[test]
    fn texts_that_are_no_sources_say_why() {
        let prefix = |text: &str| text.parse::<SourcePrefix>();
        assert_eq!(prefix("2001:db8::/64").unwrap().to_string(), "2001:db8::/64");
        assert_eq!(prefix("0.0.0.0/0").unwrap().len(), 1 << 32);
        assert!(prefix("2001:db8::1/64").unwrap_err().contains("after the first 64 must be zero"));
        assert!(prefix("192.0.2.0/33").unwrap_err().contains("from 0 to 32"));
        assert!(prefix("eth0").unwrap_err().contains("not an IP address"));
        let ports = |text: &str| text.parse::<PortRange>();
        assert_eq!(ports("20000-20999").unwrap().len(), 1000);
        assert_eq!(ports("65535").unwrap().len(), 1);
        assert!(ports("5-4").unwrap_err().contains("before it begins"));
        assert!(ports("0-4").unwrap_err().contains("from 1 to 65535"));
    }

    #[test]
    fn local_addresses_are_told_from_others() {
        let server = "127.0.0.1:53".parse().unwrap();
        assert!(sources("127.0.1.0/24", "").check(254, server).is_ok());
        let elsewhere = sources("192.0.2.0/24", "").check(4, server).unwrap_err().to_string();
        assert!(elsewhere.contains("ip route add local 192.0.2.0/24 dev lo"), "{elsewhere}");
        let other = sources("2001:db8::1", "").check(1, server).unwrap_err().to_string();
        assert!(other.contains("another address family"), "{other}");
        let taken = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &Options::default()).unwrap();
        let port = taken.local_addr().unwrap().port().to_string();
        let busy = sources("127.0.0.1", &port).bind(0, server, &Options::default()).unwrap_err().to_string();
        assert!(busy.contains("choose other source ports"), "{busy}");
    }
}
