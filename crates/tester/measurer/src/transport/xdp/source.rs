//! The source addresses and ports of the lanes' sockets, which nobody else may use meanwhile.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use sys::udp::{Options, UdpSocket};
use sys::xdp::XdpError;

/// The sources in the order of the sockets, and the ports reserved.
#[derive(Debug)]
pub(super) struct Reserved {
    /// The source of each socket.
    pub sources: Vec<SocketAddr>,
    /// For each port of the range the addresses and numbers of the sockets with that port, sorted.
    by_port: Vec<Vec<(IpAddr, usize)>>,
    first_port: u16,
    /// Sockets that keep the kernel from giving the ports to others, and from answering that they are closed.
    _held: Vec<UdpSocket>,
}

/// Attempts at finding enough free ports in a row.
const ATTEMPTS: usize = 200;

impl Reserved {
    /// Reserves the ports. The unspecified address stands for `own`, which the kernel takes for the server;
    /// port 0, if all have it, for free ports in a row.
    pub fn take(sources: &[SocketAddr], own: IpAddr) -> Result<Self, XdpError> {
        let mut sources = specified(sources, own)?;
        let held = if sources.iter().all(|source| source.port() == 0) {
            let held = bind_free(own, sources.len())?;
            for (source, socket) in sources.iter_mut().zip(&held) {
                let bound =
                    socket.local_addr().map_err(|error| XdpError::Io("reading a source port", error))?;
                source.set_port(bound.port());
            }
            held
        } else {
            let ports: BTreeSet<u16> = sources.iter().map(SocketAddr::port).collect();
            let bind = |port| bind(own, port).map_err(|error| XdpError::Port(port, error));
            ports.into_iter().map(bind).collect::<Result<_, _>>()?
        };
        Self::index(sources, held)
    }

    fn index(sources: Vec<SocketAddr>, held: Vec<UdpSocket>) -> Result<Self, XdpError> {
        let ports = || sources.iter().map(SocketAddr::port);
        let (first_port, last) = (ports().min().unwrap_or(0), ports().max().unwrap_or(0));
        let mut by_port = vec![Vec::new(); usize::from(last - first_port) + 1];
        for (number, source) in sources.iter().enumerate() {
            by_port[usize::from(source.port() - first_port)].push((source.ip(), number));
        }
        for sockets in &mut by_port {
            sockets.sort_unstable();
            if let Some(twice) = sockets.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                let message = format!("source {} is given twice", sources[twice[0].1]);
                return Err(XdpError::Sources(message));
            }
        }
        Ok(Self { sources, by_port, first_port, _held: held })
    }

    /// The ports from the first to the last.
    pub fn ports(&self) -> RangeInclusive<u16> {
        self.first_port..=self.first_port + (self.by_port.len() - 1) as u16
    }

    /// The number of the socket with that source; `None` if there is none.
    pub fn find(&self, source: SocketAddr) -> Option<usize> {
        let place = source.port().checked_sub(self.first_port)?;
        let sockets = self.by_port.get(usize::from(place))?;
        let found = sockets.binary_search_by(|(address, _)| address.cmp(&source.ip())).ok()?;
        Some(sockets[found].1)
    }
}

/// The sources with the kernel's choice in place of unspecified addresses.
fn specified(sources: &[SocketAddr], own: IpAddr) -> Result<Vec<SocketAddr>, XdpError> {
    let some_free = sources.iter().any(|source| source.port() == 0);
    if sources.is_empty() || some_free && sources.iter().any(|source| source.port() != 0) {
        return Err(XdpError::Sources("give a source port for each socket, or for none".into()));
    }
    let specify = |source: &SocketAddr| {
        let address = if source.ip().is_unspecified() { own } else { source.ip() };
        if address.is_ipv4() == own.is_ipv4() {
            return Ok(SocketAddr::new(address, source.port()));
        }
        Err(XdpError::Sources(format!("source {source} is of another address family than the server")))
    };
    sources.iter().map(specify).collect()
}

/// Takes a port at all addresses of the family.
fn bind(own: IpAddr, port: u16) -> io::Result<UdpSocket> {
    let any = if own.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0u8; 16]) };
    UdpSocket::bind((any, port).into(), &Options::default())
}

/// Takes free ports in a row: from one that the kernel chooses upwards, or, if one of them is taken, from
/// another.
fn bind_free(own: IpAddr, count: usize) -> Result<Vec<UdpSocket>, XdpError> {
    let row = || -> io::Result<Vec<UdpSocket>> {
        let first = bind(own, 0)?;
        let from = first.local_addr()?.port();
        let mut held = vec![first];
        for ahead in 1..count {
            let port = u16::try_from(ahead).ok().and_then(|ahead| from.checked_add(ahead));
            held.push(bind(own, port.ok_or(io::ErrorKind::AddrInUse)?)?);
        }
        Ok(held)
    };
    for _ in 0..ATTEMPTS {
        match row() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            other => return other.map_err(|error| XdpError::Io("reserving source ports", error)),
        }
    }
    let message = format!("there are no {count} free ports in a row; use fewer sockets, or name the ports");
    Err(XdpError::Sources(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: [SocketAddr; 16] = [SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0); 16];
    const OWN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn free_ports_are_in_a_row_and_taken() {
        let reserved = Reserved::take(&FREE, OWN).unwrap();
        assert_eq!(reserved.ports().count(), 16);
        for (number, &source) in reserved.sources.iter().enumerate() {
            assert_eq!(reserved.find(source), Some(number));
            assert_eq!(std::net::UdpSocket::bind(source).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        }
        assert_eq!(reserved.find("127.0.0.2:1".parse().unwrap()), None);
        let port = reserved.sources[3].port();
        assert_eq!(reserved.find(SocketAddr::from(([127, 0, 0, 2], port))), None);
        let refused = Reserved::take(&reserved.sources[..1], OWN).unwrap_err().to_string();
        assert!(refused.contains(&reserved.sources[0].port().to_string()), "{refused}");
    }

    #[test]
    fn sources_are_found_by_address_and_port_and_wrong_ones_refused() {
        let port = Reserved::take(&FREE, OWN).unwrap().sources[0].port();
        let text = |address: &str, port: u16| SocketAddr::new(address.parse().unwrap(), port);
        let these = [text("0.0.0.0", port), text("127.9.9.9", port), text("127.1.1.1", port)];
        let reserved = Reserved::take(&these, OWN).unwrap();
        assert_eq!(reserved.sources[0], text("127.0.0.1", port));
        for (number, &source) in reserved.sources.iter().enumerate() {
            assert_eq!(reserved.find(source), Some(number));
        }
        drop(reserved);
        let refused = |sources: &[SocketAddr]| Reserved::take(sources, OWN).unwrap_err().to_string();
        assert!(refused(&[these[0], these[0]]).contains("twice"));
        assert!(refused(&[text("::1", port)]).contains("family"));
        assert!(refused(&[these[0], text("0.0.0.0", 0)]).contains("or for none"));
        assert!(refused(&[]).contains("a source port for each"));
    }
}
