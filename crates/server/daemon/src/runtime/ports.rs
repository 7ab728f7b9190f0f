//! Sockets towards upstream servers, each from a port and, where a prefix is given, an address of its own.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use dns64::Range;
use server_core::ids::Random;
use server_core::own_sockets::OwnSockets;
use sys::udp::{Options, UdpSocket};

use crate::config::{Config, UpstreamServer};

/// Room for the answers to the queries of one socket.
const BUFFER_OCTETS: usize = 1 << 20;

/// So many ports are tried for a socket; others may have all of them for the moment.
const TRIES: usize = 64;

/// Ports below are for services (RFC 6335 6).
const FIRST_PORT: u16 = 1024;

/// The ports that queries leave from, each as likely as another.
#[derive(Clone, Debug)]
pub(super) struct Ports(Arc<[u16]>);

/// What the system keeps back for others (ip-sysctl.txt), read while files can be.
#[derive(Clone, Debug, Default)]
pub(super) struct Reserved {
    list: String,
    first: u16,
}

impl Reserved {
    /// Those of the network namespace of this thread; none where the system does not tell.
    pub fn of_system() -> Self {
        let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
        let first = read("ip_unprivileged_port_start").trim().parse().unwrap_or(FIRST_PORT);
        Self { list: read("ip_local_reserved_ports"), first }
    }
}

impl Ports {
    /// All from 1024 to 65535 without those that the system keeps back and those that we listen on.
    pub fn new(reserved: &Reserved, config: &Config) -> Self {
        let own = config.listen.iter().map(|listen| listen.address.port());
        let own: Vec<u16> = own.chain(config.metrics.map(|metrics| metrics.port())).collect();
        let ranges = ranges(&reserved.list);
        let taken = |port: u16| own.contains(&port) || ranges.iter().any(|range| range.contains(&port));
        let ports: Arc<[u16]> =
            (reserved.first.max(FIRST_PORT)..=u16::MAX).filter(|&port| !taken(port)).collect();
        // Port 0 is the kernel's choice: better than none where an operator has reserved all.
        Self(if ports.is_empty() { [0].into() } else { ports })
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.0.len() as u32
    }
}

/// Ranges as the system writes them: `8080,9148-9150`.
fn ranges(list: &str) -> Vec<std::ops::RangeInclusive<u16>> {
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).collect()
}

/// A socket that is connected to an upstream server, and the address it has, which is known as ours until
/// this is dropped.
pub(super) struct UpstreamSocket {
    pub socket: UdpSocket,
    pub address: SocketAddr,
    own: Arc<OwnSockets>,
}

impl Drop for UpstreamSocket {
    fn drop(&mut self) {
        self.own.remove(self.address);
    }
}

/// Opens sockets at ports and addresses drawn at random.
pub(super) struct Opener {
    random: Random,
    ports: Ports,
    own: Arc<OwnSockets>,
}

impl Opener {
    /// `own` is told of the sockets, `secret` is what ports and addresses are drawn from.
    pub fn new(ports: Ports, own: Arc<OwnSockets>, secret: [u8; 32]) -> Self {
        Self { random: Random::new(secret), ports, own }
    }

    /// Draws from another secret as well, and from these ports, from now on.
    pub fn renew(&mut self, ports: &Ports, secret: [u8; 32]) {
        self.random.renew(secret);
        self.ports = ports.clone();
    }

    /// A new socket towards a server.
    ///
    /// # Errors
    /// There is no way to the server, no port is free, or too many files are open.
    pub fn open(&mut self, upstream: &UpstreamServer) -> io::Result<UpstreamSocket> {
        let mut result = Err(io::ErrorKind::AddrInUse.into());
        for _ in 0..TRIES {
            result = self.try_open(upstream);
            // Others have the port, or a security module keeps it.
            let is_of_port = |error: &io::Error| {
                matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied)
            };
            if !result.as_ref().is_err_and(is_of_port) {
                break;
            }
        }
        result
    }

    fn try_open(&mut self, upstream: &UpstreamServer) -> io::Result<UpstreamSocket> {
        let port = self.ports.0[self.random.below(self.ports.0.len())];
        let any: IpAddr = match upstream.address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let source = upstream.source.map_or(any, |range| self.address_of(&range));
        let options = Options {
            receive_buffer_octets: BUFFER_OCTETS,
            join: true,
            any_source: upstream.source_bits() > 0,
            no_path_mtu: true,
            single_peer: true,
            ..Options::default()
        };
        let socket = UdpSocket::bind(SocketAddr::new(source, port), &options)?;
        socket.connect(upstream.address)?;
        let address = socket.local_addr()?;
        self.own.add(address);
        Ok(UpstreamSocket { socket, address, own: self.own.clone() })
    }

    /// An address of the range, each as likely as another.
    fn address_of(&mut self, range: &Range) -> IpAddr {
        let drawn = u128::from_ne_bytes(self.random.secret());
        let length = u32::from(range.length_bits());
        match range.first() {
            IpAddr::V4(first) => {
                let hosts = u32::MAX.checked_shr(length).unwrap_or(0);
                Ipv4Addr::from_bits(first.to_bits() | drawn as u32 & hosts).into()
            }
            IpAddr::V6(first) => {
                let hosts = u128::MAX.checked_shr(length).unwrap_or(0);
                Ipv6Addr::from_bits(first.to_bits() | drawn & hosts).into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn config(more: &str) -> Config {
        let text = format!("upstreams = [\"127.0.0.2:5300\"]\nlisten = [\"127.0.0.1:5353\"]\n{more}");
        Config::parse(&text, "test").unwrap()
    }

    #[test]
    fn reserved_ports_and_our_own_are_left_out() {
        let reserved = Reserved { list: "8080,9148-9150\n".to_owned(), first: 1030 };
        let ports = Ports::new(&reserved, &config(""));
        assert_eq!(ports.count(), 65_536 - 1030 - 4 - 1);
        for left_out in [1029, 8080, 9148, 9149, 9150, 5353] {
            assert!(!ports.0.contains(&left_out), "{left_out}");
        }
        assert_eq!(Ports::new(&Reserved::default(), &config("")).count(), 64_511, "without the listener's");
        let all = Reserved { list: "1024-65535".to_owned(), first: 0 };
        assert_eq!(Ports::new(&all, &config("")).0[..], [0]);
    }

    #[test]
    fn attack_ports_of_new_sockets_are_spread_over_the_whole_range() {
        let config = config("");
        let mut opener = Opener::new(Ports::new(&Reserved::of_system(), &config), Arc::default(), [5; 32]);
        let open = |_| opener.open(&config.upstreams[0]).unwrap();
        let sockets: Vec<UpstreamSocket> = (0..200).map(open).collect();
        let ports: HashSet<u16> = sockets.iter().map(|socket| socket.address.port()).collect();
        assert_eq!(ports.len(), 200);
        let eighths: HashSet<u16> = ports.iter().map(|port| port / 8192).collect();
        assert_eq!(eighths.len(), 8);
    }

    #[test]
    fn attack_source_addresses_are_spread_over_the_prefix() {
        // All of 127.0.0.0/8 is this machine's.
        let config = config("[upstream]\nsource = [\"127.64.0.0/10\"]");
        let mut opener = Opener::new(Ports::new(&Reserved::of_system(), &config), Arc::default(), [6; 32]);
        let open = |_| opener.open(&config.upstreams[0]).unwrap().address.ip();
        let addresses: HashSet<IpAddr> = (0..100).map(open).collect();
        assert!(addresses.len() > 95, "{}", addresses.len());
        assert!(addresses.iter().all(|&address| config.upstreams[0].source.unwrap().contains(address)));
    }
}
