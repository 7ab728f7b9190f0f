//! The upstream servers of the attackers' zones. Their threads end with the program.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use dns64::wire::{Message, rtype};
use lab::network::Role;

use crate::site::{CHAINS_SERVER, Site, VICTIM_SERVER};
use crate::wire::{Raw, address, begin, name, record};

/// What the true server says.
pub const TRUE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// What the forger says.
pub const FALSE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 66);

/// What came to the server of the zone whose answers are forged.
#[derive(Debug, Default)]
pub struct Seen {
    /// Queries over UDP, which it does not answer: each leaves the forger the time of one try.
    over_udp: AtomicU64,
    /// Queries over TCP, which it answers with the truth.
    over_tcp: AtomicU64,
    /// Whether it tells the forger port and ID of each query, who then answers over UDP.
    pub betrays: AtomicBool,
}

impl Seen {
    /// Queries over UDP.
    pub fn over_udp(&self) -> u64 {
        self.over_udp.load(Ordering::Relaxed)
    }

    /// Queries over TCP.
    pub fn over_tcp(&self) -> u64 {
        self.over_tcp.load(Ordering::Relaxed)
    }
}

/// The server of the zone whose answers are forged: silent over UDP, as if another flood kept it busy, true
/// over TCP.
///
/// # Errors
/// Its sockets cannot be opened.
pub fn victim(site: &Site) -> io::Result<Arc<Seen>> {
    let seen = Arc::<Seen>::default();
    let (udp, tcp) = sockets(site, VICTIM_SERVER)?;
    let mut forger = sys::netns::within(&site.namespace(Role::Auth), Raw::open)??;
    let noted = seen.clone();
    thread::spawn(move || {
        let mut octets = [0; 4096];
        while let Ok((length, from)) = udp.recv_from(&mut octets) {
            noted.over_udp.fetch_add(1, Ordering::Relaxed);
            if noted.betrays.load(Ordering::Relaxed)
                && let (SocketAddr::V4(from), Some(answer)) = (from, address(&octets[..length], FALSE))
            {
                forger.udp(VICTIM_SERVER, from, &answer);
            }
        }
    });
    let noted = seen.clone();
    thread::spawn(move || {
        serve(&tcp, move |query| {
            noted.over_tcp.fetch_add(1, Ordering::Relaxed);
            address(query, TRUE)
        });
    });
    Ok(seen)
}

/// The server of the zone of costly chains, which fit over TCP alone.
///
/// # Errors
/// Its sockets cannot be opened.
pub fn chains(site: &Site) -> io::Result<()> {
    let (udp, tcp) = sockets(site, CHAINS_SERVER)?;
    thread::spawn(move || {
        let mut octets = [0; 4096];
        while let Ok((length, from)) = udp.recv_from(&mut octets) {
            if let Some(mut truncated) = begin(&octets[..length]) {
                truncated[2] |= 2;
                let _ = udp.send_to(&truncated, from);
            }
        }
    });
    thread::spawn(move || serve(&tcp, chain));
    Ok(())
}

/// Eleven aliases with names of 120 labels that differ in the last one, then an address.
fn chain(query: &[u8]) -> Option<Vec<u8>> {
    let mut answer = begin(query)?;
    let is_a = Message::parse(query).ok()?.qtype == rtype::A;
    answer[7] = 11 + u8::from(is_a);
    let mut owner = [0xc0, 12];
    for letter in 'b'..='l' {
        let rdata_at = answer.len() + 12;
        let target = name(&format!("{}{letter}", "a.".repeat(119))).ok()?;
        record(&mut answer, &owner, rtype::CNAME, target.as_wire());
        owner = (0xc000 | rdata_at as u16).to_be_bytes();
    }
    if is_a {
        record(&mut answer, &owner, rtype::A, &TRUE.octets());
    }
    Some(answer)
}

fn sockets(site: &Site, at: SocketAddrV4) -> io::Result<(UdpSocket, TcpListener)> {
    sys::netns::within(&site.namespace(Role::Auth), || Ok((UdpSocket::bind(at)?, TcpListener::bind(at)?)))?
}

/// Answers over TCP, each connection with a thread.
fn serve(tcp: &TcpListener, answer: impl Fn(&[u8]) -> Option<Vec<u8>> + Clone + Send + 'static) {
    for mut stream in tcp.incoming().map_while(Result::ok) {
        let answer = answer.clone();
        thread::spawn(move || {
            let _ = stream.set_nodelay(true);
            while let Ok(query) = read_frame(&mut stream) {
                let Some(answer) = answer(&query) else { break };
                if write_frame(&mut stream, &answer).is_err() {
                    break;
                }
            }
        });
    }
}

/// Reads a message with its length before it (RFC 1035 4.2.2).
///
/// # Errors
/// The stream ends.
pub fn read_frame(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut message)?;
    Ok(message)
}

/// Writes a message with its length before it.
///
/// # Errors
/// The stream ends.
pub fn write_frame(stream: &mut impl Write, message: &[u8]) -> io::Result<()> {
    stream.write_all(&[&(message.len() as u16).to_be_bytes()[..], message].concat())
}
