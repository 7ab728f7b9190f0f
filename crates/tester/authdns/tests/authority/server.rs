//! Real sockets on the loopback interface.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use authdns::{Authority, AuthorityConfig, ConnectionLimits, StartError, Zone, ZoneConfig};
use domain::base::iana::{Rcode, Rtype};

use crate::zone::{HOST, query, rcode, records};

/// Long enough for any loaded machine; nothing here waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(20);

pub fn zone() -> Arc<Zone> {
    Arc::new(Zone::new(ZoneConfig::default()).unwrap())
}

pub fn start(listen: &[&str], change: impl FnOnce(&mut AuthorityConfig)) -> Authority {
    let listen = listen.iter().map(|address| address.parse().unwrap()).collect();
    let mut config = AuthorityConfig { listen, ..AuthorityConfig::default() };
    change(&mut config);
    Authority::start(zone(), &config).unwrap()
}

pub fn client(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(if server.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(server).unwrap();
    socket
}

fn ask_udp(server: SocketAddr, query: &[u8]) -> Vec<u8> {
    let socket = client(server);
    socket.send(query).unwrap();
    let mut answer = [0; 2048];
    let length = socket.recv(&mut answer).unwrap();
    answer[..length].to_vec()
}

pub fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

pub fn with_length(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

pub fn read_message(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message).unwrap();
    message
}

/// Waits until a condition holds.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "still not so: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn every_address_answers_over_udp_and_tcp() {
    let server = start(&["127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0"], |config| config.threads = 2);
    let query = query(HOST, Rtype::A, Some((1232, false)));
    for &address in server.local_addrs() {
        let mut to = address;
        if address.ip().is_unspecified() {
            // Another address than that of the route back: the answer must leave from the one that was asked.
            to.set_ip(if address.is_ipv4() {
                [127, 0, 0, 9].into()
            } else {
                std::net::Ipv6Addr::LOCALHOST.into()
            });
        }
        let over_udp = ask_udp(to, &query);
        assert_eq!(records(&over_udp)[0], [format!("{HOST} 60 A 10.0.0.7")]);
        let mut stream = connect(to);
        stream.write_all(&with_length(&query)).unwrap();
        assert_eq!(read_message(&mut stream), over_udp);
    }
    let counters = server.stop();
    assert_eq!((counters.udp.queries_a, counters.udp.answers), (4, 4));
    assert_eq!((counters.tcp.queries_a, counters.tcp.answers, counters.tcp_connections), (4, 4, 4));
}

#[test]
fn every_message_is_accounted_for() {
    let server = start(&["[::1]:0"], |_| ());
    let socket = client(server.local_addrs()[0]);
    let aaaa = query(HOST, Rtype::AAAA, None);
    let mut response = aaaa.clone();
    response[2] |= 0x80;
    let mut broken = aaaa.clone();
    broken[5] = 9;
    let messages: [&[u8]; 7] = [
        &query(HOST, Rtype::A, None),
        &aaaa,
        &query(HOST, Rtype::MX, None),
        &response,
        &broken,
        &[],
        &[0; 1300],
    ];
    for message in messages {
        socket.send(message).unwrap();
    }
    until("all are counted", || server.counters().udp.queries() == 7);
    let udp = server.stop().udp;
    assert_eq!((udp.queries_a, udp.queries_aaaa, udp.queries_other, udp.malformed), (1, 1, 1, 4));
    assert_eq!((udp.answers, udp.dropped, udp.send_failures), (5, 2, 0));
}

#[test]
fn a_flood_over_many_ports_is_answered_by_all_threads() {
    const CLIENTS: usize = 16;
    const QUERIES: usize = 200;
    // Few enough for the smallest receive buffers.
    const BURST: usize = 5;
    let server = start(&["127.0.0.1:0"], |config| config.threads = 3);
    let clients: Vec<_> = (0..CLIENTS).map(|_| client(server.local_addrs()[0])).collect();
    let query = query("010-001-002-003.dns64perf.test", Rtype::AAAA, Some((1232, true)));
    let mut answer = [0; 512];
    for _ in 0..QUERIES / BURST {
        for client in &clients {
            for _ in 0..BURST {
                client.send(&query).unwrap();
            }
        }
        for client in &clients {
            for _ in 0..BURST {
                client.recv(&mut answer).unwrap();
            }
        }
    }
    let counters = server.stop();
    assert_eq!(counters.udp.answers, (CLIENTS * QUERIES) as u64);
    assert_eq!(counters.udp_socket_drops, 0);
}

#[test]
fn sockets_are_taken_polled_and_given_back() {
    let server = start(&["127.0.0.1:0", "[::1]:0"], |config| config.threads = 2);
    let query = query(HOST, Rtype::A, None);
    let mut taken = server.take_services();
    assert_eq!(taken.len(), 4);
    assert!(server.take_services().is_empty(), "they are taken already");
    let socket = client(server.local_addrs()[1]);
    socket.send(&query).unwrap();
    socket.set_nonblocking(true).unwrap();
    assert!(socket.recv(&mut [0; 512]).is_err(), "nobody polls");
    let mut polled = 0;
    until("the query arrives", || {
        polled = taken.iter_mut().map(|service| service.poll(4).unwrap()).sum();
        polled > 0
    });
    assert_eq!(polled, 1);
    socket.set_nonblocking(false).unwrap();
    assert_eq!(socket.recv(&mut [0; 512]).unwrap(), query.len() + 16);

    server.give_back(taken);
    for &address in server.local_addrs() {
        assert_eq!(rcode(&ask_udp(address, &query)).0, Rcode::NOERROR, "the threads serve again");
    }
    // An answer is counted when it has left.
    until("all answers are counted, whoever polled", || server.counters().udp.answers == 3);
    let taken = server.take_services();
    assert_eq!(server.stop().udp.answers, 3, "stopping does not wait for what is taken");
    drop(taken);
}

#[test]
fn tcp_queries_are_pipelined_and_may_come_in_pieces() {
    let server = start(&["127.0.0.1:0"], |_| ());
    let mut stream = connect(server.local_addrs()[0]);
    // More than the output buffer holds, written before anything is read.
    const QUERIES: u16 = 1000;
    let mut queries = Vec::new();
    for id in 0..QUERIES {
        let mut query = query(HOST, Rtype::AAAA, Some((1232, false)));
        query[..2].copy_from_slice(&id.to_be_bytes());
        queries.extend(with_length(&query));
    }
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let (start, rest) = queries.split_at(7);
        writer.write_all(start).unwrap();
        writer.flush().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        writer.write_all(rest).unwrap();
    });
    for id in 0..QUERIES {
        let answer = read_message(&mut stream);
        assert_eq!(answer[..2], id.to_be_bytes(), "in order");
        assert_eq!(rcode(&answer), (Rcode::NOERROR, true));
    }
    sender.join().unwrap();
    assert_eq!(server.stop().tcp.queries_aaaa, u64::from(QUERIES));
}

fn assert_closed(stream: &mut TcpStream, why: &str) {
    let read = stream.read(&mut [0; 1]);
    let is_reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
    assert!(matches!(read, Ok(0)) || read.as_ref().is_err_and(is_reset), "{why}: {read:?}");
}

#[test]
fn tcp_connections_are_bounded() {
    let limits = ConnectionLimits { connections: 2, ..ConnectionLimits::default() };
    let server = start(&["127.0.0.1:0"], |config| config.limits = limits);
    let address = server.local_addrs()[0];
    let [mut endless, mut other] = [connect(address), connect(address)];
    until("both are admitted", || server.counters().tcp_connections == 2);
    assert_closed(&mut connect(address), "there is no room for a third");
    endless.write_all(&[0xff, 0xff, 0]).unwrap();
    assert_closed(&mut endless, "no query is so long");
    other.write_all(&with_length(&query(HOST, Rtype::A, None))).unwrap();
    assert_eq!(rcode(&read_message(&mut other)).0, Rcode::NOERROR, "the others do not notice");
    let counters = server.stop();
    assert_eq!((counters.tcp_connections_refused, counters.tcp.malformed, counters.tcp.dropped), (1, 1, 1));
}

#[test]
fn idle_tcp_connections_are_closed() {
    let limits = ConnectionLimits { idle_timeout: Duration::from_millis(50), ..ConnectionLimits::default() };
    let server = start(&["[::1]:0"], |config| config.limits = limits);
    assert_closed(&mut connect(server.local_addrs()[0]), "it sends nothing");
    let mut slow = connect(server.local_addrs()[0]);
    slow.write_all(&[0, 40, 1]).unwrap();
    assert_closed(&mut slow, "it sends no whole query");
}

#[test]
fn what_stands_in_the_way_of_a_start_is_told() {
    let attempt = |listen: SocketAddr, threads, cpus: &[usize]| {
        let config = AuthorityConfig {
            listen: vec![listen],
            threads,
            cpus: cpus.to_vec(),
            ..AuthorityConfig::default()
        };
        Authority::start(zone(), &config)
    };
    let free: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let first = attempt(free, 2, &[]).unwrap();
    for threads in [1, 2] {
        let error = attempt(first.local_addrs()[0], threads, &[]).err().unwrap().to_string();
        assert!(error.contains("(UDP)") && error.contains("stop the server that uses it"), "{error}");
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let error = attempt(listener.local_addr().unwrap(), 1, &[]).err().unwrap().to_string();
    assert!(error.contains("(TCP)"), "{error}");
    let foreign = "192.0.2.1:0".parse().unwrap();
    assert!(attempt(foreign, 1, &[]).err().unwrap().to_string().contains("an address of this machine"));
    assert!(matches!(attempt(free, 1, &[100_000]), Err(StartError::Thread(_))));
    let none = Authority::start(zone(), &AuthorityConfig::default());
    assert!(matches!(none, Err(StartError::NoAddress)));
}

#[test]
fn a_stopped_server_leaves_its_port_free() {
    // Nobody else takes ports of this address meanwhile.
    let server = start(&["127.0.3.7:0"], |config| config.threads = 2);
    let address = server.local_addrs()[0];
    let mut open = connect(address);
    open.write_all(&with_length(&query(HOST, Rtype::A, None))).unwrap();
    read_message(&mut open);
    drop(server);
    let again = start(&[&address.to_string()], |_| ());
    assert_eq!(again.local_addrs(), [address]);
}
