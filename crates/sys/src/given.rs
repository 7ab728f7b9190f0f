//! Sockets that the service manager opened and handed over (socket activation, sd_listen_fds(3)).

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The first descriptor that is handed over.
const FIRST: RawFd = 3;
/// More than so many are not taken.
const MOST: usize = 1024;

/// One socket that was handed over, by what can be done with it.
#[derive(Debug)]
pub enum Socket {
    /// A datagram socket, bound.
    Udp(UdpSocket),
    /// A stream socket that listens.
    Tcp(TcpListener),
}

/// One socket that was handed over.
#[derive(Debug)]
pub struct GivenSocket {
    /// Its name (`FileDescriptorName=`), empty without one.
    pub name: String,
    /// The address it is bound to.
    pub address: SocketAddr,
    /// The socket.
    pub socket: Socket,
}

impl GivenSocket {
    /// Another descriptor of the same socket.
    ///
    /// # Errors
    /// The limit of open files is reached.
    pub fn try_clone(&self) -> io::Result<Self> {
        let socket = match &self.socket {
            Socket::Udp(socket) => Socket::Udp(socket.try_clone()?),
            Socket::Tcp(socket) => Socket::Tcp(socket.try_clone()?),
        };
        Ok(Self { name: self.name.clone(), address: self.address, socket })
    }
}

/// Takes the sockets that `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES` speak of. The first call has them;
/// each further one finds none, since a descriptor has one owner.
///
/// # Errors
/// A descriptor is neither a UDP socket nor a listening TCP socket of IPv4 or IPv6.
pub fn take() -> io::Result<Vec<GivenSocket>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let count = count(&variable("LISTEN_PID"), &variable("LISTEN_FDS"), std::process::id());
    if count == 0 || TAKEN.swap(true, Ordering::SeqCst) {
        return Ok(Vec::new());
    }
    let names = variable("LISTEN_FDNAMES");
    let mut names = names.split(':');
    let mut given = Vec::with_capacity(count);
    for number in (FIRST..).take(count) {
        // SAFETY: the call only asks for flags; a descriptor that is not open makes it fail.
        crate::check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })
            .map_err(|error| named(number, &error))?;
        // SAFETY: it is open, as the call above has shown. By the protocol it belongs to this process, and
        // the flag above keeps this from being reached twice, so nobody else in it owns the descriptor.
        let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
        given.push(classify(descriptor, names.next().unwrap_or_default())?);
    }
    Ok(given)
}

/// How many descriptors are meant for this process.
fn count(pid: &str, fds: &str, own_pid: u32) -> usize {
    if pid.parse() != Ok(own_pid) {
        return 0;
    }
    fds.parse::<usize>().unwrap_or(0).min(MOST)
}

fn classify(descriptor: OwnedFd, name: &str) -> io::Result<GivenSocket> {
    let number = descriptor.as_raw_fd();
    let fault = |reason: &str| named(number, &io::Error::new(io::ErrorKind::InvalidInput, reason.to_owned()));
    let socket = socket2::Socket::from(descriptor);
    let kind = socket.r#type().map_err(|error| named(number, &error))?;
    let address = socket.local_addr().map_err(|error| named(number, &error))?;
    let address = address.as_socket().ok_or_else(|| fault("no IPv4 or IPv6 socket"))?;
    let socket = match kind {
        socket2::Type::DGRAM => Socket::Udp(socket.into()),
        socket2::Type::STREAM if socket.is_listener()? => Socket::Tcp(socket.into()),
        _ => return Err(fault("neither a UDP socket nor a TCP socket that listens")),
    };
    Ok(GivenSocket { name: name.to_owned(), address, socket })
}

fn named(number: RawFd, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("descriptor {number} of the service manager: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_descriptors_for_this_process_count() {
        assert_eq!(count("7", "3", 7), 3);
        assert_eq!(count("8", "3", 7), 0);
        assert_eq!(count("", "3", 7), 0);
        assert_eq!(count("7", "-1", 7), 0);
        assert_eq!(count("7", "999999999", 7), MOST);
    }

    #[test]
    fn sockets_are_told_apart() {
        let udp = UdpSocket::bind("[::1]:0").unwrap();
        let (address, tcp) = (udp.local_addr().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let given = classify(udp.into(), "plain").unwrap();
        assert!(matches!(given.socket, Socket::Udp(_)));
        assert_eq!((given.name.as_str(), given.address), ("plain", address));
        assert!(matches!(classify(tcp.into(), "").unwrap().socket, Socket::Tcp(_)));
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(classify(unix.into(), "").unwrap_err().to_string().ends_with("no IPv4 or IPv6 socket"));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(classify(file.into(), "").is_err());
    }
}
