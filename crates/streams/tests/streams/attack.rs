//! Attacks on the connections of others: by strangers, by clients that hold too many, by handshakes.
//!
//! All addresses are of 127.0.0.0/8, from which Linux lets any be used. A network is a /24.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use streams::{Gate, Limits, Protocol, Streams, Upstream};

use crate::common::*;

/// Who may connect in these tests: 127.0.0.0/16. Others are strangers.
struct Allowed;

impl Gate for Allowed {
    fn allows(&self, client: IpAddr) -> bool {
        matches!(client, IpAddr::V4(client) if client.octets()[..2] == [127, 0])
    }

    fn may_shake_hands(&self, _: IpAddr, _: bool) -> bool {
        true
    }
}

const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 9, 0, 1);

/// The host with this number of the network with this number.
pub fn host(network: u8, number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, network, number)
}

/// A connection from this address. It ends without a trace, so that its port is free again at once.
fn try_connect(server: &Server, number: usize, from: Ipv4Addr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.set_linger(Some(Duration::ZERO))?;
    socket.connect(&server.addresses[number].into())?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// The same of a client.
pub fn connect(server: &Server, number: usize, from: Ipv4Addr) -> TcpStream {
    try_connect(server, number, from).unwrap()
}

/// The same of a stranger; none where the server reset it before the stranger saw that it was there.
fn connect_stranger(server: &Server, number: usize) -> Option<TcpStream> {
    match try_connect(server, number, STRANGER) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
        connected => Some(connected.unwrap()),
    }
}

/// Sends a query over TCP, and says whether an answer comes.
fn is_answered(stream: &mut TcpStream) -> bool {
    let expected = framed(&answer(&query(1, "a.test")));
    let mut octets = vec![0; expected.len()];
    let sent = stream.write_all(&framed(&query(1, "a.test"))).is_ok();
    sent && stream.read_exact(&mut octets).is_ok() && octets == expected
}

/// A client of all protocols that asks from this address.
pub fn asker(server: &Server, protocols: &[Protocol], from: Ipv4Addr) -> Asker {
    let from = Some(from.into());
    let upstreams = protocols.iter().enumerate();
    Asker::new(upstreams.map(|(n, &p)| Upstream { source: from, ..server.upstream(p, n) }).collect())
}

#[test]
fn strangers_do_not_close_out_a_client() {
    let limits = Limits { connections: 4, ..Limits::default() };
    let server = Server::start(&Protocol::UPSTREAM, limits, answers);
    server.streams.set_gate(Arc::new(Allowed));
    let mut strangers: Vec<TcpStream> =
        (0..12).filter_map(|number| connect_stranger(&server, number % 3)).collect();
    let client = asker(&server, &Protocol::UPSTREAM, host(0, 1));
    for protocol in Protocol::UPSTREAM {
        assert!(client.ask(protocol.index(), query(1, "a.test")).is_some(), "{protocol}");
    }
    for stream in &mut strangers {
        assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)));
    }
}

#[test]
fn nothing_is_spent_on_strangers() {
    let server = Server::start(&Protocol::UPSTREAM, Limits::default(), answers);
    server.streams.set_gate(Arc::new(Allowed));
    let stranger = asker(&server, &Protocol::UPSTREAM, STRANGER);
    for protocol in Protocol::UPSTREAM {
        assert_eq!(stranger.ask_briefly(protocol.index(), query(1, "a.test")), None, "{protocol}");
        let counts = *server.streams.counts().of(protocol);
        assert!(counts.strangers > 0, "{protocol}");
        assert_eq!((counts.accepted, counts.handshake_failures, counts.refused), (0, 0, 0), "{protocol}");
    }
}

#[test]
fn a_client_is_answered_while_a_stranger_opens_thousands_of_connections() {
    const CONNECTIONS: usize = 3000;
    let server = Server::start(&[Protocol::Tcp], Limits::default(), answers);
    server.streams.set_gate(Arc::new(Allowed));
    std::thread::scope(|scope| {
        let stranger = scope.spawn(|| {
            for _ in 0..CONNECTIONS {
                connect_stranger(&server, 0);
            }
        });
        while !stranger.is_finished() {
            assert!(is_answered(&mut connect(&server, 0, host(0, 1))));
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let counts = || *server.streams.counts().of(Protocol::Tcp);
    until("all are looked at", || counts().strangers == CONNECTIONS as u64);
    until("no connection is left", || counts().open == 0);
    assert_eq!(counts().refused, 0);
}

#[test]
fn one_network_does_not_close_out_another() {
    let limits = Limits { connections: 20, connections_per_network: 20, ..Limits::default() };
    let server = Server::start(&[Protocol::Tcp], limits, answers);
    let mut greedy: Vec<TcpStream> = (1..=20).map(|number| connect(&server, 0, host(1, number))).collect();
    until("the pool is full", || server.streams.counts().of(Protocol::Tcp).open == 20);
    let mut clients: Vec<TcpStream> =
        (1..=5).map(|network| connect(&server, 0, host(1 + network, 1))).collect();
    for client in &mut clients {
        assert!(is_answered(client));
    }
    // A connection that is to end may answer a query that came before.
    until("five have ended", || server.streams.counts().of(Protocol::Tcp).open == 20);
    let left = greedy.iter_mut().filter_map(|stream| is_answered(stream).then_some(())).count();
    assert_eq!((left, server.streams.counts().of(Protocol::Tcp).evicted), (15, 5));
}

#[test]
fn one_host_does_not_close_out_its_site() {
    let limits = Limits { connections_per_network: 10, connections_per_address: 10, ..Limits::default() };
    let server = Server::start(&[Protocol::Tcp], limits, answers);
    let _greedy: Vec<TcpStream> = (0..10).map(|_| connect(&server, 0, host(1, 1))).collect();
    until("the network is full", || server.streams.counts().of(Protocol::Tcp).open == 10);
    for number in 2..6 {
        assert!(is_answered(&mut connect(&server, 0, host(1, number))));
    }
}

/// Queries that are never answered, for example of a zone whose servers are silent, keep no place.
#[test]
fn queries_in_progress_do_not_close_out_others() {
    let limits = Limits { connections: 10, ..Limits::default() };
    let server = Server::start(&[Protocol::Tcp], limits, |query| {
        if query.client.ip() == IpAddr::V4(host(1, 1)) { Reaction::Keep } else { answers(query) }
    });
    let mut greedy: Vec<TcpStream> = (0..10).map(|_| connect(&server, 0, host(1, 1))).collect();
    for stream in &mut greedy {
        stream.write_all(&framed(&query(1, "slow.test"))).unwrap();
    }
    until("all are in progress", || server.queries.lock().unwrap().len() == 10);
    assert!(is_answered(&mut connect(&server, 0, host(2, 1))));
}

#[test]
fn connections_in_the_clear_leave_room_for_encrypted_ones() {
    let limits = Limits { connections: 4, ..Limits::default() };
    let server = Server::start(&Protocol::UPSTREAM, limits, |_| Reaction::Keep);
    let mut plain: Vec<TcpStream> = (0..4).map(|_| connect(&server, 0, host(1, 1))).collect();
    for stream in &mut plain {
        stream.write_all(&framed(&query(1, "slow.test"))).unwrap();
    }
    until("all are in progress", || server.queries.lock().unwrap().len() == 4);
    let client = asker(&server, &Protocol::UPSTREAM, host(1, 1));
    client.send(Protocol::Tls.index(), 1, query(1, "a.test"));
    until("the query came by TLS", || server.queries.lock().unwrap().len() == 5);
    assert_eq!(server.streams.counts().of(Protocol::Tcp).evicted, 0);
}

/// Lets so many handshakes begin.
struct Rationed(AtomicUsize);

impl Gate for Rationed {
    fn allows(&self, _: IpAddr) -> bool {
        true
    }

    fn may_shake_hands(&self, _: IpAddr, _: bool) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

#[test]
fn handshakes_above_the_rate_cost_no_handshake() {
    let encrypted = [Protocol::Tls, Protocol::Https, Protocol::Quic];
    let server = Server::start(&encrypted, Limits::default(), answers);
    server.streams.set_gate(Arc::new(Rationed(AtomicUsize::new(3))));
    let first = asker(&server, &encrypted, host(1, 1));
    let second = asker(&server, &encrypted, host(1, 1));
    for (number, protocol) in encrypted.into_iter().enumerate() {
        assert!(first.ask(number, query(1, "a.test")).is_some(), "{protocol}");
    }
    for (number, protocol) in encrypted.into_iter().enumerate() {
        assert_eq!(second.ask_briefly(number, query(1, "a.test")), None, "{protocol}");
        let counts = *server.streams.counts().of(protocol);
        assert_eq!((counts.accepted, counts.handshake_failures), (1, 0), "{protocol}");
        assert!(counts.refused > 0, "{protocol}");
    }
}

/// All threads that serve clients are busy: with handshakes, for example. The owner's questions to upstream
/// servers are answered all the same.
#[test]
fn clients_do_not_delay_upstream_answers() {
    let upstream = Server::start(&[Protocol::Tcp], Limits::default(), answers);
    let (busy, release) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (entered, released) = (busy.clone(), release.clone());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let answered = asked.clone();
    let on_query = move |_| {
        entered.fetch_add(1, Ordering::Relaxed);
        // Until it is released, or the test has failed before that.
        let began = Instant::now();
        while !released.load(Ordering::Relaxed) && began.elapsed() < 2 * PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let on_answer = move |answer: streams::Answer| answered.lock().unwrap().push(answer.octets);
    let streams = Streams::start("test", CLIENT_THREADS, on_query, on_answer).unwrap();
    let (listener, address) = listener(Protocol::Tcp, 0);
    streams.listen(vec![listener], None, Limits::default()).unwrap();
    streams.set_upstreams(1, vec![upstream.upstream(Protocol::Tcp, 0)]).unwrap();
    assert!(streams.silent_threads().is_empty());
    let clients = Mutex::new(Vec::new());
    until("all threads of clients are busy", || {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(&framed(&query(1, "a.test"))).unwrap();
        clients.lock().unwrap().push(client);
        busy.load(Ordering::Relaxed) == CLIENT_THREADS
    });
    streams.handle().ask(1, 0, 7, query(9, "b.test"), PATIENCE);
    until("the upstream server answers", || asked.lock().unwrap().len() == 1);
    assert_eq!(*asked.lock().unwrap(), [Ok(answer(&query(9, "b.test")))]);
    // And whoever watches the threads learns which of them hang.
    until("they are silent", || {
        let silent = streams.silent_threads();
        silent.len() == CLIENT_THREADS && silent.iter().all(|name| name.starts_with("test-client-"))
    });
    release.store(true, Ordering::Relaxed);
    until("they work again", || streams.silent_threads().is_empty());
}

/// Questions that the server does not answer take all places: another one is asked all the same, and the
/// oldest is told that this was not the server's fault.
#[test]
fn attack_questions_without_an_answer_leave_room_for_others() {
    let server = Server::start(&[Protocol::Tcp], Limits::default(), |query| match query.octets[13] {
        b'a' => Reaction::Keep,
        _ => answers(query),
    });
    let asker = Asker::new(vec![Upstream { in_flight: 4, ..server.upstream(Protocol::Tcp, 0) }]);
    for token in 0..4 {
        asker.send(0, token, query(token as u16, &format!("a{token}.test")));
    }
    asker.send(0, 4, query(4, "b.test"));
    let mut ended = [asker.next(), asker.next()];
    ended.sort_by_key(|answer| answer.token);
    let full = streams::Answer { token: 0, octets: Err(streams::NoAnswer::Full) };
    let answered = streams::Answer { token: 4, octets: Ok(answer(&query(4, "b.test"))) };
    assert_eq!(ended, [full, answered]);
}

#[test]
fn slow_handshakes_leave_room_for_others() {
    let limits = Limits { connections: 10, message_timeout: PATIENCE, ..Limits::default() };
    let server = Server::start(&[Protocol::Tls], limits, answers);
    let mut slow: Vec<TcpStream> = (0..10).map(|_| connect(&server, 0, host(1, 1))).collect();
    for stream in &mut slow {
        stream.write_all(&[22, 3, 1]).unwrap();
    }
    until("all have begun", || server.streams.counts().of(Protocol::Tls).open == 10);
    let client = asker(&server, &[Protocol::Tls], host(2, 1));
    assert!(client.ask(0, query(1, "a.test")).is_some());
    assert_eq!(server.streams.counts().of(Protocol::Tls).evicted, 1);
}
