//! The upstream servers of the attackers' zones. Their threads end with the program.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use dns64::wire::{Message, rtype};
use lab::network::Role;

use crate::site::{CHAINS_SERVER, Site, victim_server, victim_zone};
use crate::wire::{Raw, address, begin, name, record};

/// What the true server says.
pub const TRUE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// What the forger says.
pub const FALSE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 66);

/// What a client asks and the forger answers.
#[derive(Clone, Debug)]
pub struct Question {
    /// The name.
    pub name: String,
    /// The server of its zone.
    pub server: SocketAddrV4,
}

/// What came to the servers of the zones whose answers are forged.
#[derive(Debug)]
pub struct Seen {
    /// Their numbers ([`victim_server`]); each has a zone of its own.
    pub servers: Range<u16>,
    /// Queries over UDP, which it does not answer: each leaves the forger the time of one try.
    over_udp: AtomicU64,
    /// Queries over TCP, which it answers with the truth.
    over_tcp: AtomicU64,
    /// The number of the query over UDP that is open; 0: none.
    open: AtomicU64,
    /// Whether it tells the forger port and ID of each query, who then answers over UDP.
    pub betrays: AtomicBool,
}

impl Seen {
    /// Of these servers, to which nothing came yet.
    pub fn of(servers: Range<u16>) -> Self {
        Self {
            servers,
            over_udp: AtomicU64::new(0),
            over_tcp: AtomicU64::new(0),
            open: AtomicU64::new(0),
            betrays: AtomicBool::new(false),
        }
    }

    /// The n-th question: the servers in turn.
    pub fn question(&self, number: u64) -> Question {
        let server = self.servers.start + (number % self.servers.len() as u64) as u16;
        let name = format!("{number}.{}", victim_zone(server));
        Question { name, server: victim_server(server) }
    }

    /// The number of the query over UDP that is open, if one is. It opens when it has come to the server; it
    /// ends when the client has its answer, or the same question comes over TCP.
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Acquire)
    }

    /// The query that was open has ended.
    pub fn close(&self) {
        self.open.store(0, Ordering::Release);
    }

    fn note_udp(&self) {
        let number = self.over_udp.fetch_add(1, Ordering::Relaxed) + 1;
        self.open.store(number, Ordering::Release);
    }

    fn note_tcp(&self) {
        self.over_tcp.fetch_add(1, Ordering::Relaxed);
        self.close();
    }

    /// Queries over UDP.
    pub fn over_udp(&self) -> u64 {
        self.over_udp.load(Ordering::Relaxed)
    }

    /// Queries over TCP.
    pub fn over_tcp(&self) -> u64 {
        self.over_tcp.load(Ordering::Relaxed)
    }
}

/// The servers of the zones whose answers are forged: silent over UDP, as if another flood kept them busy,
/// true over TCP.
///
/// # Errors
/// Their sockets cannot be opened.
pub fn victims(site: &Site, servers: Range<u16>) -> io::Result<Arc<Seen>> {
    let seen = Arc::new(Seen::of(servers.clone()));
    for server in servers.map(victim_server) {
        victim(site, server, &seen)?;
    }
    Ok(seen)
}

fn victim(site: &Site, server: SocketAddrV4, seen: &Arc<Seen>) -> io::Result<()> {
    let (udp, tcp) = sockets(site, server)?;
    let mut forger = sys::netns::within(&site.namespace(Role::Auth), Raw::open)??;
    let noted = seen.clone();
    site.spawn(move || {
        let mut octets = [0; 4096];
        while let Ok((length, from)) = udp.recv_from(&mut octets) {
            noted.note_udp();
            if noted.betrays.load(Ordering::Relaxed)
                && let (SocketAddr::V4(from), Some(answer)) = (from, address(&octets[..length], FALSE))
            {
                forger.udp(server, from, &answer);
            }
        }
    });
    let noted = seen.clone();
    site.spawn(move || {
        serve(&tcp, move |query| {
            noted.note_tcp();
            address(query, TRUE)
        });
    });
    Ok(())
}

/// The server of the zone of costly chains, which fit over TCP alone.
///
/// # Errors
/// Its sockets cannot be opened.
pub fn chains(site: &Site) -> io::Result<()> {
    let (udp, tcp) = sockets(site, CHAINS_SERVER)?;
    site.spawn(move || {
        let mut octets = [0; 4096];
        while let Ok((length, from)) = udp.recv_from(&mut octets) {
            if let Some(mut truncated) = begin(&octets[..length]) {
                truncated[2] |= 2;
                let _ = udp.send_to(&truncated, from);
            }
        }
    });
    site.spawn(move || serve(&tcp, chain));
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
