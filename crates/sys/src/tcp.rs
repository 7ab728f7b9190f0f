//! TCP: listeners, and connections with times of arrival.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};

use socket2::{Domain, Protocol, Socket, Type};

use crate::option;
use crate::udp::{Control, EMPTY_CONTROL, read_control};

/// Binds a non-blocking listener that takes IPv6 only if its address is of IPv6; `backlog` connections may
/// wait for their acceptance.
///
/// # Errors
/// The address is in use or not of this machine, or the port needs privileges.
pub fn listen(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Connections of an earlier process that linger do not keep the port.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    Ok(socket.into())
}

/// Begins to connect, from `source` if one is given; the socket does not block, and can be written when it is
/// connected or has failed ([`TcpStream::take_error`]). Octets leave at once (`TCP_NODELAY`), and the kernel
/// notes when octets arrive.
///
/// # Errors
/// No port is free, too many files are open, the source is not of this machine, or the kernel knows already
/// that nobody can be reached.
pub fn connect(server: SocketAddr, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    option::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    if let Some(source) = source {
        // The port is chosen when the other end is known: each server's port has all ports for itself.
        option::set(socket.as_fd(), libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
        let (level, name) = match source {
            IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_FREEBIND),
            IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_FREEBIND),
        };
        option::set(socket.as_fd(), level, name, 1)?;
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    match socket.connect(&server.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// Takes what has arrived, up to the length of the buffer: how many octets, 0 at the end of the stream, and
/// when the kernel took the last of them, in ns since 1970, where it noted that.
///
/// # Errors
/// Those of recvmsg(2); `WouldBlock` when nothing is there.
pub fn receive(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = EMPTY_CONTROL;
    // SAFETY: this C structure is valid when all its octets are zero.
    let mut header = unsafe { zeroed::<libc::msghdr>() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = size_of::<Control>() as _;
    // SAFETY: the header points to the buffer and to the control area, with their true lengths, and both live
    // until the call is over.
    let received =
        unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT as libc::c_int) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    Ok((received, read_control(&control, header.msg_controllen as usize).time_ns))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::*;

    fn wait_for_octets(stream: &TcpStream, buffer: &mut [u8]) -> (usize, Option<u64>) {
        loop {
            match receive(stream, buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                received => return received.unwrap(),
            }
        }
    }

    #[test]
    fn octets_arrive_with_their_time() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = listen(address.parse().unwrap(), 4).unwrap();
            let server = listener.local_addr().unwrap();
            let client = connect(server, Some(server.ip())).unwrap();
            listener.set_nonblocking(false).unwrap();
            let (mut accepted, from) = listener.accept().unwrap();
            assert_eq!(from, client.local_addr().unwrap());
            let mut buffer = [0; 8];
            assert_eq!(receive(&client, &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            // The kernel begins to note times a little after the first socket asks for them.
            let at_ns = (0..1000).find_map(|_| {
                accepted.write_all(b"abc").unwrap();
                let (octets, at_ns) = wait_for_octets(&client, &mut buffer);
                assert_eq!(&buffer[..octets], b"abc");
                std::thread::sleep(Duration::from_millis(if at_ns.is_some() { 0 } else { 5 }));
                at_ns
            });
            assert!(at_ns.unwrap().abs_diff(crate::clock::realtime_ns()) < 5_000_000_000);
            drop(accepted);
        }
    }
}
