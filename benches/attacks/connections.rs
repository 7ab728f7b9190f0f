//! Attacks by connections.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

use record::random::Sequence;

use crate::crew::Turn;
use crate::flood::connect_to;
use crate::site::{SERVER, SERVER_TLS, network};
use crate::wire::draw;

/// Connections that a client holds: as many as a pool has places.
const HELD: usize = 1024;
/// Between two connections.
const OPEN_EACH: Duration = Duration::from_millis(2);
/// Between two handshakes: twice what a network may begin.
const HANDSHAKE_EACH: Duration = Duration::from_millis(5);
/// The addresses of a network that connect.
const HOSTS: u16 = 200;

/// Strangers who connect and hold what they get, over TCP and TLS in turn.
///
/// # Errors
/// None: connections may fail.
pub fn strangers(turn: &Turn<'_>) -> io::Result<()> {
    hold(turn, network::STRANGERS, &[])
}

/// Clients of one allowed network who hold connections on which half of a message came.
///
/// # Errors
/// None: connections may fail.
pub fn slow(turn: &Turn<'_>) -> io::Result<()> {
    // The beginning of a message of 512 octets; of a record of TLS, too, which has no such type.
    hold(turn, network::CONNECTIONS, &[2, 0, 0])
}

fn hold(turn: &Turn<'_>, network: [u8; 3], said: &[u8]) -> io::Result<()> {
    let (mut held, mut numbers) = (VecDeque::<TcpStream>::new(), Sequence::new(3, u64::from(network[2])));
    let begun = Instant::now();
    while turn.goes_on() {
        let from = network::host(network, 1 + (draw(&mut numbers) % HOSTS) as u8);
        let (to, said) = if turn.done().is_multiple_of(2) {
            (SERVER, said)
        } else {
            (SERVER_TLS, &hello(&mut numbers)[..16])
        };
        if let Ok(mut stream) = connect_to(from, to)
            && stream.write_all(said).is_ok()
        {
            held.push_back(stream);
        }
        if held.len() > HELD {
            held.pop_front();
        }
        turn.add(1);
        turn.pace(begun, OPEN_EACH);
    }
    Ok(())
}

/// Handshakes of one allowed network, up to the server's dear part; then the connection is left.
///
/// # Errors
/// None: connections may fail.
pub fn handshakes(turn: &Turn<'_>) -> io::Result<()> {
    let (mut numbers, begun) = (Sequence::new(3, 3), Instant::now());
    while turn.goes_on() {
        let from = network::host(network::CONNECTIONS, 1 + (draw(&mut numbers) % HOSTS) as u8);
        let _ = handshake(from, SERVER_TLS, &hello(&mut numbers));
        turn.add(1);
        turn.pace(begun, HANDSHAKE_EACH);
    }
    Ok(())
}

/// Whether the server answered with its half of the handshake.
fn handshake(from: std::net::Ipv4Addr, to: SocketAddrV4, hello: &[u8]) -> io::Result<bool> {
    const HANDSHAKE: u8 = 22;
    let mut stream = connect_to(from, to)?;
    stream.write_all(hello)?;
    let mut first = [0];
    stream.read_exact(&mut first)?;
    Ok(first == [HANDSHAKE])
}

/// A ClientHello of TLS 1.3 (RFC 8446 4.1.2) with an X25519 share that nobody has the key of.
fn hello(numbers: &mut Sequence) -> Vec<u8> {
    let mut random = || (0..4).flat_map(|_| numbers.bits().to_be_bytes()).collect::<Vec<u8>>();
    let sized = |octets: &[u8]| [&(octets.len() as u16).to_be_bytes()[..], octets].concat();
    let extension = |kind: u16, octets: &[u8]| [&kind.to_be_bytes()[..], &sized(octets)].concat();
    let share = [&[0, 29, 0, 32][..], &random()].concat();
    let extensions = [
        extension(43, &[2, 3, 4]),
        extension(10, &[0, 2, 0, 29]),
        extension(13, &[0, 6, 4, 3, 8, 4, 8, 7]),
        extension(51, &sized(&share)),
    ]
    .concat();
    // Version, random, no session, TLS_AES_128_GCM_SHA256, no compression.
    let body = [&[3, 3][..], &random(), &[0, 0, 2, 0x13, 1, 1, 0], &sized(&extensions)].concat();
    let handshake = [&[1, 0][..], &sized(&body)].concat();
    [&[22, 3, 1][..], &sized(&handshake)].concat()
}
