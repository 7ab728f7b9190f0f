//! The addresses listened on, and what changes with a new configuration.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use streams::{ListenSocket, Listener, Protocol};
use sys::given::{self, GivenSocket};
use sys::udp::UdpSocket;

use super::ServerError;
use super::sockets::{claim, listener, stream_listener};
use crate::config::{Config, Listen, ListenProtocol};

/// One address of the configuration, with its sockets open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listening {
    pub listen: Listen,
    /// Where it is bound, with the port that was free where the configuration left the choice.
    pub address: SocketAddr,
    /// The number of its UDP socket in every thread; others have none there.
    pub lane: Option<usize>,
    /// The room of the streams listens there.
    pub has_stream: bool,
}

/// What changes: everything is open, and nothing has changed yet.
#[derive(Default)]
pub(super) struct Plan {
    /// The addresses of the new configuration, in its order.
    pub listening: Vec<Listening>,
    /// For each thread its new UDP sockets, with their numbers and those of their listeners.
    pub open: Vec<Vec<(usize, UdpSocket, usize)>>,
    /// UDP sockets that stay, likewise.
    pub keep: Vec<(usize, usize)>,
    pub close: Vec<usize>,
    /// What the room of the streams listens on.
    pub streams: Vec<Listener>,
}

impl Plan {
    /// Opens what `before` does not have. Sockets of the service manager are taken where they fit.
    pub fn open(
        config: &Config,
        before: &[Listening],
        threads: usize,
        given: &mut Vec<GivenSocket>,
    ) -> Result<Self, ServerError> {
        let mut plan = Self { open: (0..threads).map(|_| Vec::new()).collect(), ..Self::default() };
        let mut next_lane = before.iter().filter_map(|known| known.lane).max().map_or(0, |lane| lane + 1);
        for (number, listen) in config.listen.iter().enumerate() {
            let known = before.iter().find(|known| {
                known.listen == *listen
                    && !plan
                        .listening
                        .iter()
                        .any(|taken| taken.address == known.address && taken.listen == *listen)
            });
            match known {
                Some(known) => plan.keep(config, number, known)?,
                None => plan.add(config, number, *listen, &mut next_lane, given)?,
            }
        }
        let kept = |lane: usize| plan.keep.iter().any(|&(kept, _)| kept == lane);
        plan.close = before.iter().filter_map(|known| known.lane).filter(|&lane| !kept(lane)).collect();
        Ok(plan)
    }

    fn keep(&mut self, config: &Config, number: usize, known: &Listening) -> Result<(), ServerError> {
        self.listening.push(Listening { has_stream: config.streams.connections > 0, ..*known });
        if let Some(lane) = known.lane {
            self.keep.push((lane, number));
        }
        if config.streams.connections > 0 {
            let socket = if known.has_stream {
                ListenSocket::Kept(known.address)
            } else {
                ListenSocket::Tcp(stream_listener(known.address)?)
            };
            self.push_stream(config, number, known.listen.protocol, socket);
        }
        Ok(())
    }

    fn add(
        &mut self,
        config: &Config,
        number: usize,
        listen: Listen,
        next_lane: &mut usize,
        given: &mut Vec<GivenSocket>,
    ) -> Result<(), ServerError> {
        let wanted = listen.address;
        let streams = config.streams.connections > 0;
        let (mut address, mut lane) = (wanted, None);
        let socket = match listen.protocol {
            ListenProtocol::Plain => {
                lane = Some(*next_lane);
                *next_lane += 1;
                let tcp = self.open_plain(number, wanted, streams, lane.unwrap_or(0), given, &mut address)?;
                tcp.map(ListenSocket::Tcp)
            }
            ListenProtocol::Quic | ListenProtocol::Http3 => {
                Some(ListenSocket::Udp(match take_udp(given, wanted) {
                    Some(socket) => socket,
                    None => std::net::UdpSocket::bind(wanted)
                        .map_err(|error| ServerError::listen(wanted, error))?,
                }))
            }
            ListenProtocol::Tls | ListenProtocol::Https => {
                Some(ListenSocket::Tcp(match take_tcp(given, wanted) {
                    Some(socket) => socket,
                    None => stream_listener(wanted)?,
                }))
            }
        };
        if listen.protocol != ListenProtocol::Plain {
            address = local_address(socket.as_ref()).unwrap_or(wanted);
        }
        if let Some(socket) = socket {
            self.push_stream(config, number, listen.protocol, socket);
        }
        self.listening.push(Listening { listen, address, lane, has_stream: streams });
        Ok(())
    }

    /// UDP sockets for all threads, and a TCP listener.
    fn open_plain(
        &mut self,
        number: usize,
        wanted: SocketAddr,
        streams: bool,
        lane: usize,
        given: &mut Vec<GivenSocket>,
        address: &mut SocketAddr,
    ) -> Result<Option<TcpListener>, ServerError> {
        let tcp = take_tcp(given, wanted).filter(|_| streams);
        if let Some(socket) = take_udp(given, wanted) {
            for thread in &mut self.open {
                let own = socket.try_clone().and_then(UdpSocket::adopt);
                thread.push((lane, own.map_err(|error| ServerError::listen(wanted, error))?, number));
            }
            return match tcp {
                None if streams => stream_listener(wanted).map(Some),
                tcp => Ok(tcp),
            };
        }
        let (bound, claimed) = claim(wanted, streams && tcp.is_none())?;
        *address = bound;
        for thread in &mut self.open {
            thread.push((lane, listener(bound)?, number));
        }
        Ok(tcp.or(claimed))
    }

    fn push_stream(
        &mut self,
        config: &Config,
        number: usize,
        protocol: ListenProtocol,
        socket: ListenSocket,
    ) {
        let protocol = match protocol {
            ListenProtocol::Plain => Protocol::Tcp,
            ListenProtocol::Tls => Protocol::Tls,
            ListenProtocol::Https => Protocol::Https,
            ListenProtocol::Quic => Protocol::Quic,
            ListenProtocol::Http3 => Protocol::Http3,
        };
        self.streams.push(Listener { protocol, number, socket, path: config.https_path.clone() });
    }
}

/// The bounds on clients' streams.
pub(super) fn stream_limits(config: &Config) -> streams::Limits {
    let limits = &config.streams;
    streams::Limits {
        connections: limits.connections,
        connections_per_network: limits.connections_per_network,
        connections_per_address: limits.connections_per_address,
        pipelined: limits.pipelined,
        idle: Duration::from_nanos(limits.idle_ns),
        ..streams::Limits::default()
    }
}

fn local_address(socket: Option<&ListenSocket>) -> Option<SocketAddr> {
    match socket? {
        ListenSocket::Tcp(socket) => socket.local_addr().ok(),
        ListenSocket::Udp(socket) => socket.local_addr().ok(),
        ListenSocket::Kept(address) => Some(*address),
    }
}

fn take_udp(given: &mut Vec<GivenSocket>, address: SocketAddr) -> Option<std::net::UdpSocket> {
    let fits =
        |given: &GivenSocket| given.address == address && matches!(given.socket, given::Socket::Udp(_));
    match given.swap_remove(given.iter().position(fits)?).socket {
        given::Socket::Udp(socket) => Some(socket),
        given::Socket::Tcp(_) => None,
    }
}

fn take_tcp(given: &mut Vec<GivenSocket>, address: SocketAddr) -> Option<TcpListener> {
    let fits =
        |given: &GivenSocket| given.address == address && matches!(given.socket, given::Socket::Tcp(_));
    match given.swap_remove(given.iter().position(fits)?).socket {
        given::Socket::Tcp(socket) => Some(socket),
        given::Socket::Udp(_) => None,
    }
}
