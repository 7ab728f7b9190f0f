//! The AuthDNS over TLS, HTTPS and QUIC: the answers of TCP, faults, counts and bounds; kdig as client.

use std::collections::HashMap;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use authdns::faults::{Faults, Kind};
use authdns::{
    Authority, AuthorityConfig, ConnectionLimits, Counters, EncryptedConfig, EncryptedCounters, Observer,
    ServerTls, Transport, self_signed, tls_pin,
};
use domain::base::iana::Rtype;
use streams::{Answer, Handle, Protocol, Roots, Streams, Upstream};

use crate::resolvers::NAME;
use crate::server::{connect, start, until};
use crate::zone::{HOST, query, rcode, records};

/// Nothing here takes so long but what never comes.
const PATIENCE: Duration = Duration::from_secs(20);

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A certificate in PEM, and what a server shows of it.
pub fn certificate() -> (String, ServerTls) {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let (pem, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let tls = ServerTls::from_pem(pem.as_bytes(), key.as_bytes()).unwrap();
    (pem, tls)
}

/// Serves over each encrypted transport.
pub fn encrypted(config: &mut AuthorityConfig, tls: ServerTls) {
    let one = vec![LOOPBACK];
    config.encrypted =
        Some(EncryptedConfig { dot: one.clone(), doh: one.clone(), doq: one.clone(), doh3: one, tls });
}

/// Where an AuthDNS answers over this transport.
pub fn address(server: &Authority, transport: Transport) -> SocketAddr {
    server.encrypted_addrs().iter().find(|(served, _)| *served == transport).unwrap().1
}

/// The counters of DoT, DoH and DoQ.
fn of(counters: &Counters) -> [EncryptedCounters; 3] {
    [counters.dot, counters.doh, counters.doq].map(Option::unwrap)
}

/// A client of all three.
struct Client {
    // In this order: the handle does nothing when the threads have ended.
    handle: Handle,
    _streams: Streams,
    answers: Receiver<Answer>,
}

impl Client {
    fn new(server: &Authority, pem: &str) -> Self {
        let (sender, answers) = mpsc::channel();
        let take = move |answer| sender.send(answer).unwrap();
        let streams = Streams::start("test", 0, |_| {}, take).unwrap();
        let of = |(transport, protocol)| Upstream {
            address: address(server, transport),
            protocol,
            tls_name: Some(NAME.to_owned()),
            path: "/dns-query".to_owned(),
            source: None,
            roots: Some(Roots::from_pem(pem.as_bytes()).unwrap()),
            in_flight: 1000,
        };
        let servers = [
            (Transport::Dot, Protocol::Tls),
            (Transport::Doh, Protocol::Https),
            (Transport::Doq, Protocol::Quic),
        ];
        streams.set_upstreams(1, servers.map(of).into()).unwrap();
        Self { handle: streams.handle(), _streams: streams, answers }
    }

    /// Asks over DoT (0), DoH (1) or DoQ (2).
    fn send(&self, over: usize, token: u64, query: &[u8], timeout: Duration) {
        self.handle.ask(1, over, token, query.to_vec(), timeout);
    }

    fn next(&self) -> Answer {
        self.answers.recv_timeout(PATIENCE).unwrap()
    }

    fn ask(&self, over: usize, query: &[u8], timeout: Duration) -> Option<Vec<u8>> {
        self.send(over, 0, query, timeout);
        self.next().octets.ok()
    }
}

#[test]
fn the_answers_are_those_of_tcp_and_counted_by_transport() {
    let (pem, tls) = certificate();
    let observer = Observer::new(100_000);
    let server = start(&["127.0.0.1:0"], |config| {
        encrypted(config, tls);
        (config.threads, config.observer) = (2, Some(observer.clone()));
    });
    observer.watch(true);
    let client = Client::new(&server, &pem);
    let mut expected = HashMap::new();
    for number in 0..300 {
        let (host, qtype) = (number / 2 % 200, if number % 2 == 0 { Rtype::A } else { Rtype::AAAA });
        let query = query(&format!("010-000-000-{host:03}.dns64perf.test"), qtype, Some((1232, true)));
        let mut answer = vec![0; 6144];
        let octets = crate::server::zone().respond(&query, Transport::Tcp, &mut answer);
        expected.insert(number, answer[..octets].to_vec());
        (0..3).for_each(|over| client.send(over, number * 3 + over as u64, &query, PATIENCE));
    }
    for _ in 0..900 {
        let Answer { token, octets } = client.next();
        assert_eq!(octets.as_ref(), Ok(&expected[&(token / 3)]), "over {}", token % 3);
    }
    let counters = server.stop();
    for counted in of(&counters) {
        let traffic = counted.traffic;
        assert_eq!((traffic.queries_a, traffic.queries_aaaa, traffic.answers), (150, 150, 300));
        assert_eq!((traffic.unaccounted(), traffic.undelivered), (0, 0));
        assert_eq!((counted.connections, counted.handshake_failures, counted.too_slow), (1, 0, 0));
    }
    assert_eq!((counters.udp.queries(), counters.tcp.queries()), (0, 0));
    let observed = observer.take().analyse(None);
    assert_eq!(observed.tcp, 900);
}

#[test]
fn faults_befall_answers_and_all_is_accounted_for() {
    let brief = Duration::from_millis(500);
    for (fault, kind, is_answered, is_counted) in [
        ("loss", Kind::Loss, false, true),
        ("loss,over=tcp", Kind::Loss, true, false),
        ("delay=1ms", Kind::Delay, true, true),
        ("delay=30s", Kind::Delay, false, true),
        ("duplicate", Kind::Duplicate, true, false),
        ("truncate", Kind::Truncate, true, false),
        ("wrong-question", Kind::WrongQuestion, false, true),
        ("rcode=SERVFAIL", Kind::Rcode, true, true),
    ] {
        let (pem, tls) = certificate();
        let faults = Faults::new(1, vec![fault.parse().unwrap()]);
        let server = start(&["127.0.0.1:0"], |config| {
            encrypted(config, tls);
            config.faults = Some(Arc::new(faults));
        });
        let client = Client::new(&server, &pem);
        for over in 0..3 {
            let asked = query(HOST, Rtype::AAAA, None);
            // An answer that is to come has time enough.
            let timeout = if is_answered { PATIENCE } else { brief };
            assert_eq!(client.ask(over, &asked, timeout).is_some(), is_answered, "{fault} over {over}");
        }
        let began = Instant::now();
        let counters = server.stop();
        assert!(began.elapsed() < PATIENCE / 2, "nobody waits for what is delayed");
        for EncryptedCounters { traffic, .. } in of(&counters) {
            assert_eq!(traffic.faults.of(kind) > 0, is_counted, "{fault}: {traffic:?}");
            assert_eq!(traffic.unaccounted(), 0, "{fault}: {traffic:?}");
            assert_eq!(traffic.undelivered > 0, fault == "delay=30s", "{traffic:?}");
        }
    }
}

#[test]
fn connections_are_bounded_and_broken_ones_counted() {
    let (pem, tls) = certificate();
    let server = start(&["127.0.0.1:0"], |config| {
        encrypted(config, tls);
        config.limits = ConnectionLimits { connections: 2, ..ConnectionLimits::default() };
    });
    let at = address(&server, Transport::Dot);
    let dot = |server: &Authority| server.counters().dot.unwrap();
    let mut broken = connect(at);
    broken.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    until("the handshake fails", || dot(&server).handshake_failures == 1);
    let idle: Vec<_> = (0..3).map(|_| connect(at)).collect();
    until("one goes for the third", || dot(&server).connections_evicted == 1);
    let client = Client::new(&server, &pem);
    let answer = client.ask(0, &query(HOST, Rtype::A, None), PATIENCE).unwrap();
    assert_eq!(
        records(&answer)[0],
        [format!("{HOST} 60 A 10.0.0.7")],
        "a client has the place of an idle one"
    );
    drop(idle);
    let counted = server.stop().dot.unwrap();
    assert_eq!((counted.traffic.answers, counted.connections_evicted), (1, 2));
}

#[test]
fn addresses_that_cannot_be_had_are_told_with_the_transport() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let (doq, none) = (vec![taken.local_addr().unwrap()], Vec::new());
    let tls = self_signed(vec![NAME.to_owned()]).unwrap();
    let wanted = EncryptedConfig { dot: none.clone(), doh: none.clone(), doq, doh3: none, tls };
    let config = AuthorityConfig { listen, encrypted: Some(wanted), ..AuthorityConfig::default() };
    let error = Authority::start(crate::server::zone(), &config).err().unwrap().to_string();
    assert!(error.contains("(DoQ)") && error.contains("stop the server that uses it"), "{error}");
    assert!(self_signed(vec!["\u{e4}".to_owned()]).is_err(), "no name of a certificate");
}

/// Runs kdig, or says that it is not there.
fn kdig(server: SocketAddr, options: &[&str]) -> Option<Output> {
    if !testing::has_program("kdig", "knot-dnsutils") {
        return None;
    }
    let output = Command::new("kdig")
        .args(["+timeout=10", "+retry=0", "+short", "-p", &server.port().to_string()])
        .arg(format!("@{}", server.ip()))
        .args(options)
        .args([HOST, "A"])
        .output();
    Some(output.unwrap())
}

#[test]
fn kdig_is_answered_and_knows_the_pin() {
    let tls = self_signed(vec![NAME.to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let pin = format!("+tls-pin={}", tls_pin(&tls).unwrap());
    let server = start(&["127.0.0.1:0"], |config| encrypted(config, tls));
    let cases: [(Transport, &[&str]); 4] = [
        (Transport::Dot, &["+tls", &pin]),
        (Transport::Doh, &["+https", &pin]),
        (Transport::Doh, &["+https", "+https-get", &pin]),
        (Transport::Doq, &[&pin, "+quic"]),
    ];
    for (transport, options) in cases {
        let Some(output) = kdig(address(&server, transport), options) else { return };
        assert_eq!(String::from_utf8_lossy(&output.stdout), "10.0.0.7\n", "{transport}: {output:?}");
    }
    let wrong = "+tls-pin=AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let Some(output) = kdig(address(&server, Transport::Dot), &["+tls", wrong]) else { return };
    assert!(!String::from_utf8_lossy(&output.stdout).contains("10.0.0.7"), "{output:?}");
    let counted = of(&server.stop()).map(|counters| counters.traffic.answers);
    assert_eq!(counted, [1, 2, 1]);
}

#[test]
fn refusals_are_answers_too() {
    let (pem, tls) = certificate();
    let server = start(&["127.0.0.1:0"], |config| encrypted(config, tls));
    let client = Client::new(&server, &pem);
    for over in 0..3 {
        let answer = client.ask(over, &query("www.example.test", Rtype::A, None), PATIENCE).unwrap();
        assert_eq!(rcode(&answer).0, domain::base::iana::Rcode::REFUSED);
    }
}
