//! UDP in batches (recvmmsg, sendmmsg), each datagram for itself or as segments of a longer message.

mod fixed;
mod receive;
mod send;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::option;

pub(crate) use receive::read_control;
pub use receive::{Datagram, ReceiveBatch};
pub use send::{Flushed, SendBatch};

/// What a socket is made with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Several sockets share the address and the kernel spreads the flows over them (`SO_REUSEPORT`).
    pub reuse_port: bool,
    /// `SO_RCVBUF`, beyond `rmem_max` where the process may; 0 leaves the default.
    pub receive_buffer_octets: usize,
    /// `SO_SNDBUF`, likewise.
    pub send_buffer_octets: usize,
    /// The kernel notes when each datagram arrived (`SO_TIMESTAMPNS`).
    pub timestamps: bool,
    /// Equally long datagrams of one sender may arrive joined; [`ReceiveBatch`] takes them apart (`UDP_GRO`,
    /// udp(7)).
    pub join: bool,
    /// It may be bound to an address that no device has (`IP_FREEBIND`, `IPV6_FREEBIND`): with a local route
    /// to it, the answers come.
    pub any_source: bool,
    /// ICMP messages do not lower the MTU of its path: a forged one cannot make answers be fragmented, whose
    /// second fragments can be forged (`IP_PMTUDISC_OMIT`, RFC 9715 3.1 and appendix C).
    pub no_path_mtu: bool,
    /// It is connected before it is used: destinations need not be noted.
    pub single_peer: bool,
}

/// A non-blocking UDP socket. IPv6 sockets take IPv6 only.
#[derive(Debug)]
pub struct UdpSocket {
    socket: Socket,
}

impl UdpSocket {
    /// Binds a socket; port 0 takes a free one. Bound to the unspecified address, it notes the destination of
    /// every datagram, so that an answer can leave from the address that was asked.
    ///
    /// # Errors
    /// The address is in use or not of this machine, or the port needs privileges.
    pub fn bind(address: SocketAddr, options: &Options) -> io::Result<Self> {
        let socket =
            Socket::new(Domain::for_address(address), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        if options.reuse_port {
            socket.set_reuse_port(true)?;
        }
        let this = Self { socket };
        if options.no_path_mtu {
            this.ignore_path_mtu(address)?;
        }
        this.set_buffer(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, options.receive_buffer_octets)?;
        this.set_buffer(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, options.send_buffer_octets)?;
        if options.timestamps {
            this.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        }
        if options.join {
            this.set(libc::SOL_UDP, libc::UDP_GRO, 1)?;
        }
        if options.any_source {
            match address {
                SocketAddr::V4(_) => this.set(libc::IPPROTO_IP, libc::IP_FREEBIND, 1)?,
                SocketAddr::V6(_) => this.set(libc::IPPROTO_IPV6, libc::IPV6_FREEBIND, 1)?,
            }
        }
        if !options.single_peer {
            this.note_destinations(address)?;
        }
        this.socket.bind(&address.into())?;
        Ok(this)
    }

    /// Takes a socket that somebody else has bound. It becomes non-blocking, notes destinations as one of
    /// [`UdpSocket::bind`] does, joins datagrams ([`Options::join`]) and ignores the MTU of paths
    /// ([`Options::no_path_mtu`]).
    ///
    /// # Errors
    /// Only those of a broken descriptor.
    pub fn adopt(socket: std::net::UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let this = Self { socket: socket.into() };
        this.set(libc::SOL_UDP, libc::UDP_GRO, 1)?;
        let address = this.local_addr()?;
        this.ignore_path_mtu(address)?;
        this.note_destinations(address)?;
        Ok(this)
    }

    fn ignore_path_mtu(&self, address: SocketAddr) -> io::Result<()> {
        match address {
            SocketAddr::V4(_) => self.set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_OMIT),
            SocketAddr::V6(_) => {
                self.set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_OMIT)
            }
        }
    }

    fn note_destinations(&self, address: SocketAddr) -> io::Result<()> {
        match address {
            _ if !address.ip().is_unspecified() => Ok(()),
            SocketAddr::V4(_) => self.set(libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
            SocketAddr::V6(_) => self.set(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
        }
    }

    /// Sends to this peer from now on and receives from it alone.
    ///
    /// # Errors
    /// There is no route to it, or it is of the other address family.
    pub fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        self.socket.connect(&SockAddr::from(peer))
    }

    /// The address it is bound to.
    ///
    /// # Errors
    /// Only those of a broken descriptor.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// The size of the receive buffer as the kernel counts it (twice what was asked for), in octets.
    ///
    /// # Errors
    /// Only those of a broken descriptor.
    pub fn receive_buffer_octets(&self) -> io::Result<usize> {
        self.socket.recv_buffer_size()
    }

    /// How many datagrams the kernel dropped at this socket since it was made (`SO_MEMINFO`).
    ///
    /// # Errors
    /// The kernel does not have the option (before 4.12).
    pub fn drops(&self) -> io::Result<u32> {
        const SK_MEMINFO_DROPS: usize = 8;
        const SO_MEMINFO: libc::c_int = 55;
        let mut values = [0u32; SK_MEMINFO_DROPS + 1];
        let mut length = size_of_val(&values) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` octets into the array.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                SO_MEMINFO,
                values.as_mut_ptr().cast(),
                &mut length,
            )
        };
        crate::check(result)?;
        Ok(values[SK_MEMINFO_DROPS])
    }

    /// Takes the pending error of the socket, for example a refused connection (ICMP port unreachable).
    ///
    /// # Errors
    /// Only those of a broken descriptor.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket.take_error()
    }

    fn set_buffer(&self, force: libc::c_int, plain: libc::c_int, octets: usize) -> io::Result<()> {
        if octets == 0 {
            return Ok(());
        }
        let octets = libc::c_int::try_from(octets).unwrap_or(libc::c_int::MAX / 2);
        // Going beyond the system's maximum needs CAP_NET_ADMIN.
        self.set(libc::SOL_SOCKET, force, octets).or_else(|_| self.set(libc::SOL_SOCKET, plain, octets))
    }

    fn set(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        option::set(self.socket.as_fd(), level, name, value)
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether an error of a call is news of an earlier datagram: an ICMP message came back for it (the kernel's
/// `icmp_err_convert`, net/ipv4/icmp.c, and its like for IPv6). It stands until a call takes it.
fn is_icmp(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::ENOPROTOOPT
                | libc::EPROTO
                | libc::EACCES
                | libc::EPERM
                | libc::EMSGSIZE
                | libc::EOPNOTSUPP
        )
    )
}

/// Room for the control messages of pktinfo, a timestamp and a length of segments, aligned as the kernel
/// wants it.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Control([u8; 96]);

pub(crate) const EMPTY_CONTROL: Control = Control([0; 96]);

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(listen: &str) -> (UdpSocket, UdpSocket) {
        let options = Options { timestamps: true, ..Options::default() };
        let server = UdpSocket::bind(listen.parse().unwrap(), &options).unwrap();
        let mut to = server.local_addr().unwrap();
        if to.ip().is_unspecified() {
            to.set_ip(if to.is_ipv4() {
                [127, 0, 0, 1].into()
            } else {
                std::net::Ipv6Addr::LOCALHOST.into()
            });
        }
        let any = if to.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
        let client = UdpSocket::bind(any.parse().unwrap(), &Options::default()).unwrap();
        client.connect(to).unwrap();
        (server, client)
    }

    /// A datagram goes there and an answer comes back from the address that was asked.
    fn there_and_back(listen: &str) {
        let (server, client) = pair(listen);
        let mut out = SendBatch::new(4, 64);
        for octet in 0..4u8 {
            assert!(out.push(None, None, |buffer| {
                buffer[0] = octet;
                1
            }));
        }
        assert!(out.is_full() && !out.push(None, None, |_| 1));
        assert_eq!(out.flush(&client).sent, 4);

        let (mut received, mut replies) = (ReceiveBatch::new(8, 64), SendBatch::new(8, 64));
        assert_eq!(received.receive(&server).unwrap(), 4);
        for datagram in received.iter() {
            assert_eq!(datagram.from, client.local_addr().unwrap());
            assert!(
                datagram
                    .received_realtime_ns
                    .is_some_and(|at| at.abs_diff(crate::clock::realtime_ns()) < 5_000_000_000)
            );
            replies.push(Some(datagram.from), datagram.local, |buffer| {
                buffer[0] = datagram.octets[0] + 10;
                1
            });
        }
        assert_eq!(replies.flush(&server).sent, 4);
        assert_eq!(received.receive(&client).unwrap(), 4);
        let answers: Vec<u8> = received.iter().map(|datagram| datagram.octets[0]).collect();
        assert_eq!(answers, [10, 11, 12, 13]);
        assert_eq!(received.receive(&client).unwrap(), 0, "nothing is left");
    }

    #[test]
    fn batches_cross_ipv4_ipv6_and_wildcard_sockets() {
        for listen in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0"] {
            there_and_back(listen);
        }
    }

    fn path_mtu(socket: &UdpSocket) -> libc::c_int {
        let (level, name) = match socket.local_addr().unwrap() {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
        };
        let (mut value, mut length) = (-1, size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: the kernel writes one c_int, whose length it is told.
        let result = unsafe {
            let place = std::ptr::from_mut(&mut value).cast();
            libc::getsockopt(socket.socket.as_raw_fd(), level, name, place, &mut length)
        };
        crate::check(result).map(|_| value).unwrap()
    }

    #[test]
    fn attack_a_forged_mtu_is_ignored_where_that_was_asked_for() {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let options = Options { no_path_mtu: true, ..Options::default() };
            let bound = UdpSocket::bind(listen.parse().unwrap(), &options).unwrap();
            let adopted = UdpSocket::adopt(std::net::UdpSocket::bind(listen).unwrap()).unwrap();
            assert_eq!([path_mtu(&bound), path_mtu(&adopted)], [libc::IP_PMTUDISC_OMIT; 2], "{listen}");
        }
    }

    #[test]
    fn segmented_datagrams_arrive_as_they_were() {
        for listen in ["[::1]:0", "127.0.0.1:0"] {
            let server = pair(listen).0;
            let other =
                UdpSocket::bind((server.local_addr().unwrap().ip(), 0).into(), &Options::default()).unwrap();
            let destinations = [server.local_addr().unwrap(), other.local_addr().unwrap()];
            let sender =
                UdpSocket::bind((server.local_addr().unwrap().ip(), 0).into(), &Options::default()).unwrap();
            let mut out = SendBatch::new(64, 64).segmenting();
            // Runs of three kinds: another length, another destination, a single one.
            let plan: Vec<(usize, usize)> =
                (0..40).map(|n| (n / 10 % 2, 8 + usize::from(n % 7 == 3))).collect();
            for (n, &(destination, length)) in plan.iter().enumerate() {
                out.push(Some(destinations[destination]), None, |buffer| {
                    buffer[..length].fill(n as u8);
                    length
                });
            }
            assert_eq!(out.flush(&sender).sent, 40);
            for (index, socket) in [&server, &other].into_iter().enumerate() {
                let mut received = ReceiveBatch::new(64, 64);
                received.receive(socket).unwrap();
                let arrived: Vec<_> =
                    received.iter().map(|datagram| (datagram.octets[0], datagram.octets.len())).collect();
                let sent: Vec<_> = plan
                    .iter()
                    .enumerate()
                    .filter(|(_, p)| p.0 == index)
                    .map(|(n, p)| (n as u8, p.1))
                    .collect();
                assert_eq!(arrived, sent);
            }
        }
    }

    #[test]
    fn joined_datagrams_are_taken_apart() {
        for listen in ["[::1]:0", "127.0.0.1:0"] {
            let options = Options { join: true, timestamps: true, ..Options::default() };
            let server = UdpSocket::bind(listen.parse().unwrap(), &options).unwrap();
            let sender = UdpSocket::bind(listen.parse().unwrap(), &Options::default()).unwrap();
            sender.connect(server.local_addr().unwrap()).unwrap();
            let mut out = SendBatch::new(64, 64).segmenting();
            for (n, length) in (0..40u8).zip([48].repeat(40)).chain([(40, 20), (41, 0), (42, 48)]) {
                out.push(None, None, |buffer| {
                    buffer[..length].fill(n);
                    length
                });
            }
            assert_eq!(out.flush(&sender).sent, 42, "one without octets is none");
            let mut received = ReceiveBatch::new(8, 65_535);
            let messages = received.receive(&server).unwrap();
            assert!(messages < 5, "over loopback messages stay whole: {messages}");
            let arrived: Vec<_> = received.iter().map(|d| (d.octets[0], d.octets.len())).collect();
            let sent: Vec<_> = (0..40).map(|n| (n, 48)).chain([(40, 20), (42, 48)]).collect();
            assert_eq!(arrived, sent);
            assert!(received.iter().all(|datagram| datagram.received_realtime_ns.is_some()));
        }
    }

    #[test]
    fn news_of_undelivered_datagrams_is_counted_at_either_call() {
        let any = "127.0.0.1:0".parse().unwrap();
        let closed = UdpSocket::bind(any, &Options::default()).unwrap().local_addr().unwrap();
        let client = UdpSocket::bind(any, &Options::default()).unwrap();
        client.connect(closed).unwrap();
        let (mut out, mut received) = (SendBatch::new(8, 16), ReceiveBatch::new(8, 64));
        let mut send = || {
            out.push(None, None, |_| 16);
            out.flush(&client)
        };
        assert_eq!((send().icmp_errors, send().icmp_errors), (0, 1));
        assert_eq!(received.receive(&client).unwrap(), 0);
        assert_eq!(received.icmp_errors(), 1);
    }

    #[test]
    fn a_datagram_too_long_to_share_a_message_is_sent_alone() {
        let server = pair("127.0.0.1:0").0;
        let sender = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &Options::default()).unwrap();
        let mut out = SendBatch::new(2, 65_500).segmenting();
        for _ in 0..2 {
            out.push(server.local_addr().ok(), None, |_| 65_400);
        }
        assert_eq!(out.flush(&sender).sent, 2);
    }

    #[test]
    fn drops_of_a_full_socket_are_counted() {
        let options = Options { receive_buffer_octets: 4096, ..Options::default() };
        let server = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &Options::default()).unwrap();
        client.connect(server.local_addr().unwrap()).unwrap();
        let mut out = SendBatch::new(64, 512);
        for _ in 0..64 {
            out.push(None, None, |_| 512);
        }
        assert_eq!(out.flush(&client).sent, 64);
        let mut received = ReceiveBatch::new(64, 512);
        let arrived = received.receive(&server).unwrap();
        assert_eq!(arrived + server.drops().unwrap() as usize, 64);
        assert!(arrived < 64);
    }

    #[test]
    fn a_refused_peer_is_reported_and_does_not_stop_the_batch() {
        let closed = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &Options::default())
            .unwrap()
            .local_addr()
            .unwrap();
        let client = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &Options::default()).unwrap();
        client.connect(closed).unwrap();
        let mut out = SendBatch::new(8, 16);
        let mut refused = 0;
        for size in [1, 8] {
            for _ in 0..size {
                out.push(None, None, |_| 16);
            }
            let flushed = out.flush(&client);
            assert_eq!((flushed.sent, flushed.failed), (size, 0));
            refused += flushed.refused;
        }
        assert_eq!(refused, 1, "the second batch meets the refusal of the first");
    }
}
