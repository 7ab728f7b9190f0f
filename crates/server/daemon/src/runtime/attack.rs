//! Attacks on the server as a whole, with its threads and sockets.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};

use super::*;
use crate::log::Log;

/// Nothing here takes so long but what never comes.
const PATIENCE: Duration = Duration::from_secs(20);

/// `localhost A`, which is answered without asking, with the ID 1.
const QUERY: &[u8] = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x09localhost\0\0\x01\0\x01";

fn config(text: &str) -> Config {
    let base = "threads = 2\nstream_threads = 2\nupstream.loop_probe = false\ncache.size_mib = 1\n";
    Config::parse(&format!("{base}{text}"), "test.toml").unwrap()
}

fn start(text: &str) -> Server {
    start_with(text, Vec::new())
}

fn start_with(text: &str, given: Vec<GivenSocket>) -> Server {
    let config = config(text);
    let services = Services { log: Log::start(&config.log).unwrap(), tap: None };
    let on_end: OnEnd = Arc::new(|| {});
    Server::start(&config, given, &services, &on_end, &mut || Ok(())).unwrap()
}

fn until(what: &str, happened: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether the server answers at its first address over UDP and over TCP.
fn answers(server: &Server) -> bool {
    let (_, address) = server.addresses()[0];
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send_to(QUERY, address).unwrap();
    let over_udp = socket.recv(&mut [0; 512]).is_ok_and(|length| length > QUERY.len());
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&[&[0, QUERY.len() as u8], QUERY].concat()).unwrap();
    over_udp && stream.read_exact(&mut [0; 40]).is_ok()
}

/// Who could take over the program with a message finds it without its privileges.
#[test]
fn attack_nothing_is_read_before_it_is_settled() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = config(&format!("listen = ['{address}']\nupstreams = ['127.0.0.1:9']\n"));
    let services = Services { log: Log::start(&config.log).unwrap(), tap: None };
    let on_end: OnEnd = Arc::new(|| {});
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut early = None;
    let mut settle = || {
        datagrams.send_to(QUERY, address).unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&[&[0, QUERY.len() as u8], QUERY].concat()).unwrap();
        datagrams.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert!(datagrams.recv(&mut [0; 512]).is_err() && stream.read(&mut [0; 512]).is_err());
        early = Some(stream);
        Ok(())
    };
    let server = Server::start(&config, Vec::new(), &services, &on_end, &mut settle).unwrap();
    let mut stream = early.unwrap();
    datagrams.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(datagrams.recv(&mut [0; 512]).is_ok() && stream.read_exact(&mut [0; 40]).is_ok());
    server.stop().unwrap();
    let refused = &mut || Err("cannot become user".to_owned());
    let error = Server::start(&config, Vec::new(), &services, &on_end, refused).err().unwrap();
    assert_eq!(error.to_string(), "cannot become user");
}

/// A configuration that is refused leaves the one before whole: also the cache that `flush` and `cache` are
/// about, which the next good reload used to drop.
#[test]
fn a_reload_that_fails_changes_nothing() {
    let good = "listen = ['127.0.0.1:0']\nupstreams = ['127.0.0.1:9']\n";
    let mut server = start(good);
    let (cache, addresses) = (server.cache().clone(), server.addresses().to_vec());
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap();
    let bad = [
        format!("listen = ['127.0.0.1:0', '{taken}']\nupstreams = ['127.0.0.2:9']\n"),
        "listen = ['127.0.0.1:0']\nupstreams = ['127.0.0.2:9']\nupstream.source = ['192.0.2.53']\n"
            .to_owned(),
    ];
    for text in &bad {
        assert!(server.reload(&config(text)).is_err(), "{text}");
        assert!(Arc::ptr_eq(&cache, server.cache()), "{text}");
        assert_eq!(server.addresses(), addresses, "{text}");
        assert!(answers(&server), "{text}");
        server.reload(&config(good)).unwrap();
        assert!(Arc::ptr_eq(&cache, server.cache()), "the cache stays after {text}");
        assert!(answers(&server), "{text}");
    }
    server.stop().unwrap();
}

/// One thread cannot wait for the sockets that it would go on with: no thread goes on, and the next reload
/// finds everything as it was.
#[test]
fn attack_a_reload_that_one_thread_cannot_follow_changes_nothing() {
    let good = "listen = ['127.0.0.1:0']\nupstreams = ['127.0.0.1:9']\n";
    let other = config("listen = ['127.0.0.1:0', '127.0.0.1:0']\nupstreams = ['127.0.0.2:9']\n");
    let mut server = start(good);
    let (cache, addresses) = (server.cache().clone(), server.addresses().to_vec());
    let poller = std::mem::take(&mut server.pollers[1]);
    let error = server.reload(&other).err().unwrap();
    assert!(error.to_string().contains("a thread has ended"), "{error}");
    assert!(Arc::ptr_eq(&cache, server.cache()) && server.addresses() == addresses && answers(&server));
    assert!(server.workers.iter().all(|worker| worker.board.read().generation == 0));
    server.pollers[1] = poller;
    server.reload(&other).unwrap();
    assert_eq!(server.addresses().len(), 2);
    assert!(answers(&server));
    server.stop().unwrap();
}

/// The service manager's sockets that a refused configuration wanted are there for the next one.
#[test]
fn a_reload_that_fails_closes_no_given_socket() {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = udp.local_addr().unwrap();
    let tcp = TcpListener::bind(address).unwrap();
    // As long as the manager has them, too, nobody can open the address anew.
    let (_manager_udp, _manager_tcp) = (udp.try_clone().unwrap(), tcp.try_clone().unwrap());
    let given = |socket| GivenSocket { name: String::new(), address, socket };
    let sockets = vec![given(sys::given::Socket::Udp(udp)), given(sys::given::Socket::Tcp(tcp))];
    let mut server = start_with("listen = ['127.0.0.1:0']\nupstreams = ['127.0.0.1:9']\n", sockets);
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap();
    let bad = format!("listen = ['{address}', '{taken}']\nupstreams = ['127.0.0.1:9']\n");
    assert!(server.reload(&config(&bad)).is_err());
    server.reload(&config(&format!("listen = ['{address}']\nupstreams = ['127.0.0.1:9']\n"))).unwrap();
    assert_eq!(server.addresses()[0].1, address);
    assert!(answers(&server));
    server.stop().unwrap();
}

#[test]
fn strangers_are_turned_away_before_they_have_a_connection() {
    let server = start("listen = ['127.0.0.1:0']\nupstreams = ['127.0.0.1:9']\nallow = ['192.0.2.0/24']\n");
    let (_, address) = server.addresses()[0];
    for _ in 0..10 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)));
    }
    let reading = |name: &str| {
        let readings = server.readings();
        readings.iter().find(|reading| reading.counter.name == name).unwrap().counter.value
    };
    until("all are counted", || reading("stream_strangers") == 10);
    assert_eq!((reading("stream_connections_accepted"), server.stats().client_messages), (0, 0));
    server.stop().unwrap();
}

#[test]
fn all_threads_of_a_server_that_works_give_signs_of_life() {
    let server = start("listen = ['127.0.0.1:0']\nupstreams = ['127.0.0.1:9']\n");
    assert!(server.silent_threads().is_empty(), "nobody was asked before");
    // Two workers, two threads of clients, and that of the upstream servers.
    let all_answer = || server.silent_threads().is_empty();
    until("all answer", all_answer);
    until("all answer again", all_answer);
    let names: Vec<&str> = server.workers.iter().map(|worker| worker.inbox.pulse.thread()).collect();
    assert_eq!(names, ["dns64d-0", "dns64d-1"]);
    server.stop().unwrap();
}

/// A worker of a running server hangs: it cannot show its counters. The server names it, and no other.
#[test]
fn attack_a_worker_of_a_server_that_hangs_is_named() {
    let server = start("listen = ['127.0.0.1:0']\nupstreams = ['127.0.0.1:9']\n");
    until("all answer", || server.silent_threads().is_empty());
    server.workers[1].board.write(|_| until("it is named", || server.silent_threads() == ["dns64d-1"]));
    until("it answers again", || server.silent_threads().is_empty());
    server.stop().unwrap();
}

/// A worker that hangs is named from the second question on.
#[test]
fn a_worker_that_hangs_is_silent() {
    let inbox = Inbox::new("dns64d-7").unwrap();
    assert!(!inbox.is_silent());
    assert!(inbox.is_silent() && inbox.is_silent());
    let mut events = Vec::new();
    inbox.take(&mut events);
    assert!(matches!(events[..], [Event::GiveSign]), "it is asked once");
    inbox.pulse.answer();
    assert!(!inbox.is_silent());
}

#[test]
fn forged_handshakes_leave_those_of_proven_addresses_alone() {
    use streams::Gate;
    let config = config("upstreams = ['127.0.0.1:9']\nlimits.handshakes_per_second = 1\n");
    let gate = ConnectionGate::new(&config, [[1; 32], [2; 32]]);
    let [client, other] = ["10.0.0.1", "10.0.1.1"].map(|text| text.parse().unwrap());
    assert_eq!((0..100).filter(|_| gate.may_shake_hands(client, false)).count(), 2);
    assert_eq!((0..100).filter(|_| gate.may_shake_hands(client, true)).count(), 2);
    assert!(gate.may_shake_hands(other, true), "another network has its own");
}
