//! The route of frames to a server: device, addresses, next hop.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use super::Device;
use super::netlink::{Request, address, u16_at};
use crate::clock;

/// The way to a server, as the kernel would send to it at the time of asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The device that queries leave by.
    pub device: Device,
    /// The source address the kernel would choose.
    pub source: IpAddr,
    /// The device's Ethernet address.
    pub source_mac: [u8; 6],
    /// The Ethernet address of the server, or of the router before it.
    pub next_hop_mac: [u8; 6],
    /// The server.
    pub server: SocketAddr,
}

/// Why there is no way on which frames could be sent.
#[derive(Debug)]
pub enum PathError {
    /// The routing table knows no way, or one that refuses.
    NoRoute(SocketAddr, io::Error),
    /// The server is on this machine, in this namespace.
    Loopback(SocketAddr),
    /// The way leads over a device without Ethernet.
    NotEthernet(SocketAddr, Device),
    /// The server, or the router before it, does not answer ARP or neighbour discovery.
    Silent {
        /// The server.
        server: SocketAddr,
        /// Who does not answer.
        next_hop: IpAddr,
        /// Where it was asked for.
        device: Device,
    },
    /// The kernel did not tell.
    Lookup(SocketAddr, io::Error),
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoute(server, error) => write!(f, "there is no route to {}: {error}", server.ip()),
            Self::Loopback(server) => {
                write!(f, "{} is on this machine, over lo, and lo has no Ethernet; use --io udp", server.ip())
            }
            Self::NotEthernet(server, device) => write!(
                f,
                "the route to {} is over {}, which has no Ethernet; use --io udp",
                server.ip(),
                device.name
            ),
            Self::Silent { server, next_hop, device } => {
                let asked = if next_hop.is_ipv4() { "ARP" } else { "neighbour discovery" };
                let role = if *next_hop == server.ip() { "" } else { "the next hop towards the server, " };
                write!(
                    f,
                    "{role}{next_hop} does not answer {asked} on {}; check that it is up and on this network",
                    device.name
                )
            }
            Self::Lookup(server, error) => write!(f, "cannot look up the route to {}: {error}", server.ip()),
        }
    }
}

impl std::error::Error for PathError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoRoute(_, error) | Self::Lookup(_, error) => Some(error),
            _ => None,
        }
    }
}

/// `struct rtmsg`: family, lengths of destination and source, TOS, table, protocol, scope, type, flags.
pub(super) const RTMSG_OCTETS: usize = 12;
/// `struct ndmsg`: family, padding, device, state, flags, type.
pub(super) const NDMSG_OCTETS: usize = 12;
/// `RTA_VIA`: a next hop of the other address family (RFC 5549).
const RTA_VIA: u16 = 18;
/// States in which the kernel itself would use an entry.
const USABLE: u16 = libc::NUD_PERMANENT
    | libc::NUD_NOARP
    | libc::NUD_REACHABLE
    | libc::NUD_PROBE
    | libc::NUD_STALE
    | libc::NUD_DELAY;
/// Of these, those that need no confirmation.
const CERTAIN: u16 = libc::NUD_PERMANENT | libc::NUD_NOARP | libc::NUD_REACHABLE;
/// RFC 863: what comes here is thrown away.
const DISCARD_PORT: u16 = 9;
/// How long a next hop has to answer: the kernel asks three times, a second apart, and the first question is
/// lost where the link has just come up.
const PATIENCE_NS: u64 = 3_500_000_000;
/// How often it is looked whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The way to a server by the routing table. Where the next hop's Ethernet address is unknown, the kernel is
/// made to ask for it, by a datagram to the discard port; that takes at most 3.5 s.
///
/// # Errors
/// No route, no Ethernet on it, or a next hop that does not answer.
pub fn path_to(server: SocketAddr) -> Result<Path, PathError> {
    find(server, None)
}

/// The same for queries that shall leave by a given device.
///
/// # Errors
/// Those of [`path_to`].
pub fn path_via(server: SocketAddr, device: &Device) -> Result<Path, PathError> {
    find(server, Some(device.index))
}

/// The device alone, whatever its kind, without asking for the next hop; `lo` for a server of this machine.
///
/// # Errors
/// No route.
pub fn device_to(server: SocketAddr) -> Result<Device, PathError> {
    let device = match Route::look_up(server, scope_of(server)) {
        Ok(route) => Device::by_index(route.device),
        Err(PathError::Loopback(_)) => Device::named("lo"),
        Err(error) => return Err(error),
    };
    device.map_err(|error| PathError::Lookup(server, error))
}

/// The device that the server's address itself names.
fn scope_of(server: SocketAddr) -> Option<u32> {
    match server {
        SocketAddr::V6(server) if server.scope_id() != 0 => Some(server.scope_id()),
        _ => None,
    }
}

fn find(server: SocketAddr, device: Option<u32>) -> Result<Path, PathError> {
    // Where lo is down there is no route to it, but that is not what is wrong.
    if server.ip().is_loopback() {
        return Err(PathError::Loopback(server));
    }
    let route = Route::look_up(server, device.or(scope_of(server)))?;
    let lookup = |error| PathError::Lookup(server, error);
    let device = Device::by_index(route.device).map_err(lookup)?;
    let source_mac = device.hardware_address().map_err(|error| match error.kind() {
        io::ErrorKind::Unsupported => PathError::NotEthernet(server, device.clone()),
        _ => PathError::Lookup(server, error),
    })?;
    let next_hop_mac = resolve(server, &device, route.next_hop)?;
    Ok(Path { source: route.source, source_mac, next_hop_mac, device, server })
}

pub(super) struct Route {
    pub device: u32,
    pub next_hop: IpAddr,
    source: IpAddr,
}

impl Route {
    fn look_up(server: SocketAddr, device: Option<u32>) -> Result<Self, PathError> {
        Self::ask(server, device, None)
    }

    /// The route of what one of our addresses sends: rules may go by that.
    pub fn look_up_from(server: SocketAddr, source: IpAddr) -> Result<Self, PathError> {
        Self::ask(server, scope_of(server), Some(source))
    }

    fn ask(server: SocketAddr, device: Option<u32>, from: Option<IpAddr>) -> Result<Self, PathError> {
        // Where lo is down there is no route to it, but that is not what is wrong.
        if server.ip().is_loopback() {
            return Err(PathError::Loopback(server));
        }
        let mut fixed = [0; RTMSG_OCTETS];
        (fixed[0], fixed[1]) = family_and_bits(server.ip());
        fixed[2] = from.map_or(0, |from| family_and_bits(from).1);
        let mut request = Request::new(libc::RTM_GETROUTE, &fixed).with_address(libc::RTA_DST, server.ip());
        if let Some(from) = from {
            request = request.with_address(libc::RTA_SRC, from);
        }
        if let Some(device) = device {
            request = request.with(libc::RTA_OIF, &device.to_ne_bytes());
        }
        let reply = request.ask(RTMSG_OCTETS).map_err(|error| PathError::NoRoute(server, error))?;
        let refusal = match reply.fixed()[7] {
            libc::RTN_UNICAST => None,
            libc::RTN_LOCAL => return Err(PathError::Loopback(server)),
            libc::RTN_BLACKHOLE => Some(libc::EINVAL),
            libc::RTN_PROHIBIT => Some(libc::EACCES),
            _ => Some(libc::ENETUNREACH),
        };
        if let Some(code) = refusal {
            return Err(PathError::NoRoute(server, io::Error::from_raw_os_error(code)));
        }
        let incomplete = || {
            let error = io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer lacks the device");
            PathError::Lookup(server, error)
        };
        // RTA_VIA: the family in two octets, then the address.
        let via = reply.attribute(RTA_VIA).and_then(|via| address(via.get(2..)?));
        let source = from.or_else(|| reply.address(libc::RTA_PREFSRC));
        let source = source.map_or_else(|| chosen_source(server), Ok)?;
        Ok(Self {
            device: reply.number(libc::RTA_OIF).ok_or_else(incomplete)?,
            next_hop: reply.address(libc::RTA_GATEWAY).or(via).unwrap_or(server.ip()),
            source,
        })
    }
}

/// The source address of a socket that is connected to the server.
fn chosen_source(server: SocketAddr) -> Result<IpAddr, PathError> {
    let source = || {
        let socket = UdpSocket::bind(unspecified(server))?;
        socket.connect(server)?;
        socket.local_addr().map(|address| address.ip())
    };
    source().map_err(|error| PathError::NoRoute(server, error))
}

fn unspecified(server: SocketAddr) -> SocketAddr {
    if server.is_ipv4() { ([0; 4], 0).into() } else { ([0u8; 16], 0).into() }
}

pub(super) fn family_and_bits(address: IpAddr) -> (u8, u8) {
    if address.is_ipv4() { (libc::AF_INET as u8, 32) } else { (libc::AF_INET6 as u8, 128) }
}

/// The Ethernet address of the next hop.
fn resolve(server: SocketAddr, device: &Device, next_hop: IpAddr) -> Result<[u8; 6], PathError> {
    let lookup = |error| PathError::Lookup(server, error);
    let mut found = neighbour(device, next_hop).map_err(lookup)?;
    if !found.is_some_and(|found| found.certain) {
        // An entry that is merely old is used; the datagram has the kernel confirm it, as its own sending
        // would.
        provoke(server).map_err(lookup)?;
        let until_ns = clock::monotonic_ns() + PATIENCE_NS;
        while found.is_none() && clock::monotonic_ns() < until_ns {
            std::thread::sleep(LOOK_EVERY);
            found = neighbour(device, next_hop).map_err(lookup)?;
        }
    }
    let silent = || PathError::Silent { server, next_hop, device: device.clone() };
    found.map(|found| found.address).ok_or_else(silent)
}

#[derive(Clone, Copy)]
pub(super) struct Neighbour {
    pub address: [u8; 6],
    pub certain: bool,
}

/// What the kernel knows of a neighbour; `None` where it would have to ask first.
pub(super) fn neighbour(device: &Device, address: IpAddr) -> io::Result<Option<Neighbour>> {
    let mut fixed = [0; NDMSG_OCTETS];
    fixed[0] = family_and_bits(address).0;
    fixed[4..8].copy_from_slice(&device.index.to_ne_bytes());
    let request = Request::new(libc::RTM_GETNEIGH, &fixed).with_address(libc::NDA_DST, address);
    let reply = match request.ask(NDMSG_OCTETS) {
        Ok(reply) => reply,
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
        Err(error) => return Err(error),
    };
    let state = u16_at(reply.fixed(), 8).unwrap_or(0);
    let address = reply.attribute(libc::NDA_LLADDR).and_then(|octets| octets.try_into().ok());
    let neighbour = address.map(|address| Neighbour { address, certain: state & CERTAIN != 0 });
    Ok(neighbour.filter(|_| state & USABLE != 0))
}

/// Has the kernel send something to the server, for which it must know the next hop.
fn provoke(mut server: SocketAddr) -> io::Result<()> {
    let socket = UdpSocket::bind(unspecified(server))?;
    server.set_port(DISCARD_PORT);
    socket.set_nonblocking(true)?;
    match socket.send_to(&[], server) {
        // An earlier failure to resolve is reported here; the kernel asks again all the same.
        Err(error) if error.kind() != io::ErrorKind::HostUnreachable => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_this_machine_is_refused_with_what_to_do_instead() {
        for server in ["127.0.0.1:53", "[::1]:53"] {
            let error = path_to(server.parse().unwrap()).unwrap_err();
            assert!(matches!(error, PathError::Loopback(_)), "{error:?}");
            assert_eq!(device_to(server.parse().unwrap()).unwrap().name, "lo");
            assert!(error.to_string().ends_with("lo has no Ethernet; use --io udp"), "{error}");
        }
    }
}
