//! The processes that take what comes to an address of this machine: by `/proc/net/udp` and `/proc/net/tcp`,
//! which list sockets with their inodes, and `/proc/PID/fd`, which lists the inodes of a process (proc(5)).

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use super::process::stat_parent;

/// Of so many processes the sockets are looked at.
const PROCESSES_MAX: usize = 65_536;
/// The process that holds the sockets of all units with socket activation.
const INIT: u32 = 1;

/// The processes that hold a UDP socket, or where there is none a listening TCP socket, to which the kernel
/// gives what is sent to `server` from the calling thread's network namespace, without those that another one
/// of them started: these count with it. Several share a port with SO_REUSEPORT. Empty where the address is
/// not of this machine, nobody listens, or the sockets of the process may not be seen.
pub fn listeners(server: SocketAddr) -> Vec<u32> {
    // An address that a socket can be bound to is of this machine.
    if UdpSocket::bind((server.ip(), 0)).is_err() {
        return Vec::new();
    }
    let read = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
    let of = |protocol: &str| listening(&[read(protocol), read(&format!("{protocol}6"))], server);
    let Some(inodes) = ["udp", "tcp"].into_iter().map(of).find(|inodes| !inodes.is_empty()) else {
        return Vec::new();
    };
    let holders: BTreeSet<u32> =
        processes().filter(|&pid| pid != std::process::id() && holds(pid, &inodes)).collect();
    roots(&holders, stat_parent)
}

/// The inodes of the unconnected sockets that take what comes to an address: those bound to it, or those
/// bound to any address if there are none.
fn listening(tables: &[String], server: SocketAddr) -> BTreeSet<u64> {
    let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    let sockets = || tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(parse_listening);
    let bound_to = |to: &[IpAddr]| -> BTreeSet<u64> {
        let takes =
            |(local, _): &(SocketAddr, u64)| local.port() == server.port() && to.contains(&local.ip());
        sockets().filter(takes).map(|(_, inode)| inode).collect()
    };
    let own = bound_to(&[server.ip()]);
    if !own.is_empty() {
        return own;
    }
    // A socket of IPv6 takes both families unless it is told not to; one of IPv4 takes its own.
    let of_family = if server.is_ipv4() { bound_to(&any[..1]) } else { BTreeSet::new() };
    if of_family.is_empty() { bound_to(&any[1..]) } else { of_family }
}

/// `sl local:port remote:port st tx:rx tr:when retrnsmt uid timeout inode ...`: the local address and the
/// inode of a socket that is not connected.
fn parse_listening(line: &str) -> Option<(SocketAddr, u64)> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (local, remote) = (parse_address(words.next()?)?, parse_address(words.next()?)?);
    let inode = words.nth(6)?.parse().ok()?;
    (remote.port() == 0).then_some((local, inode))
}

/// An address in hexadecimal, in words of 32 bits in the machine's order of octets, and a port.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let word = u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let ip: IpAddr = match address.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let octets: [u8; 16] = std::array::from_fn(|at| words[at / 4][at % 4]);
            Ipv6Addr::from(octets).to_canonical()
        }
        _ => return None,
    };
    Some((ip, port).into())
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).take(PROCESSES_MAX)
}

/// Whether a process holds one of these sockets.
fn holds(pid: u32, inodes: &BTreeSet<u64>) -> bool {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.any(|link| {
        let inode =
            link.to_str().and_then(|link| link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
        inode.is_some_and(|inode| inodes.contains(&inode))
    })
}

/// Those that none of the others started.
fn roots(holders: &BTreeSet<u32>, parent: impl Fn(u32) -> Option<u32>) -> Vec<u32> {
    let is_started_by_another = |pid: u32| {
        let ancestors = std::iter::successors(parent(pid), |&above| parent(above)).take(holders.len() + 64);
        ancestors.take_while(|&above| above > INIT).any(|above| holders.contains(&above))
    };
    holders.iter().copied().filter(|&pid| pid != INIT && !is_started_by_another(pid)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::{Command, Stdio};

    const UDP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
         1: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 11 2 0000000000000000 0\n\
         2: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 12 2 0000000000000000 0\n\
         3: 0100007F:0035 0200007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 13 2 0000000000000000 0\n";
    const UDP6: &str = "  sl  local_address remote_address st\n\
         4: 00000000000000000000000001000000:0035 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 21 2 0 0\n\
         5: 00000000000000000000000000000000:0036 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 22 2 0 0\n\
         broken\n";

    #[test]
    #[cfg(target_endian = "little")]
    fn the_sockets_that_an_address_reaches_are_found() {
        let tables = [UDP.to_owned(), UDP6.to_owned()];
        let found =
            |server: &str| listening(&tables, server.parse().unwrap()).into_iter().collect::<Vec<_>>();
        assert_eq!(found("127.0.0.1:53"), [11], "the connected one is somebody's query");
        assert_eq!(found("127.0.0.2:53"), [12], "what is bound to any address");
        assert_eq!(found("[::1]:53"), [21]);
        assert_eq!((found("[2001:db8::1]:54"), found("127.0.0.1:54")), (vec![22], vec![22]), "both families");
        assert_eq!(found("[2001:db8::1]:53"), [] as [u64; 0]);
    }

    #[test]
    fn a_process_counts_with_the_one_that_started_it() {
        // 10 has started 11 and 12, and a shell that holds nothing stands between 10 and 12.
        let parent = |pid: u32| match pid {
            11 | 30 => Some(10),
            12 => Some(30),
            10 | 20 => Some(INIT),
            _ => None,
        };
        assert_eq!(roots(&BTreeSet::from([INIT, 10, 11, 12, 20]), parent), [10, 20]);
        assert_eq!(
            roots(&BTreeSet::from([11, 12]), parent),
            [11, 12],
            "the one that started them holds nothing"
        );
    }

    /// A process that inherits a bound socket holds it, as one does that bound it.
    #[test]
    fn a_server_of_this_machine_is_found_by_its_socket() {
        use std::net::TcpListener;
        use std::os::fd::OwnedFd;
        let (udp, tcp) = (UdpSocket::bind("[::1]:0").unwrap(), TcpListener::bind("[::1]:0").unwrap());
        let both = [
            (udp.local_addr().unwrap(), OwnedFd::from(udp)),
            (tcp.local_addr().unwrap(), OwnedFd::from(tcp)),
        ];
        for (at, socket) in both {
            assert_eq!(listeners(at), [] as [u32; 0], "the Tester is no server");
            let mut child = Command::new("sleep").arg("30").stdin(Stdio::from(socket)).spawn().unwrap();
            let found = listeners(at);
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(found, [child.id()]);
            assert_eq!(listeners(at), [] as [u32; 0]);
        }
        assert_eq!(listeners("192.0.2.1:53".parse().unwrap()), [] as [u32; 0], "another machine");
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "( *[0-9]+: )?[0-9A-F: ]{0,120}") {
            let _ = parse_listening(&text);
        }
    }
}
