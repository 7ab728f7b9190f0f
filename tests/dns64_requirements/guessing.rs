//! A forger off the path: it sends from the upstream server's address, and sees no query.

use std::collections::HashSet;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dns64::wire::{Header, Message};

use crate::support::server::{Server, config_text};
use crate::support::upstream::Upstream;
use crate::support::words::reply;
use crate::support::{read_frame, write_frame};

const TRUE: &str = "192.0.2.1";
const FALSE: &str = "203.0.113.66";

/// Forged packets of the test; `FORGED_PACKETS` sets another number.
const PACKETS: u64 = 400_000;
/// The upstream server's address and dns64d's own are of this test alone: forged packets to any port must not
/// meet the sockets of other tests.
const SERVER: &str = "127.0.0.2:0";
const ASKS_FROM: &str = "127.0.0.3";
/// The zone of its questions: a stray packet names its origin.
const ZONE: &str = "guessing-test-forger.example";
/// The forger ends then, however few it has sent.
const LONGEST: Duration = Duration::from_secs(300);

#[test]
fn attack_ports_learnt_a_moment_ago_are_closed() {
    let upstream = Upstream::start();
    let server = Server::before(&upstream, "");
    for number in 0..302 {
        server.ask(&format!("{number}.example A"));
    }
    let received = upstream.received();
    let ports: HashSet<u16> = received.iter().map(|query| query.from.port()).collect();
    // Before there were four, as many as sockets. How many there are depends on the time that the thread has
    // which opens them.
    // A query may be sent again; each name has one question.
    let names: HashSet<String> =
        received.iter().map(|query| query.question().name.to_string().to_lowercase()).collect();
    assert!(names.len() == 302 && ports.len() > 40, "{} ports, {} names", ports.len(), names.len());
    assert!(ports.iter().any(|&port| !(32_768..61_000).contains(&port)), "{ports:?}");
}

/// An upstream server that is silent over UDP and tells the truth over TCP, and its address, from which the
/// forger sends as well.
struct Stage {
    udp: UdpSocket,
    address: SocketAddr,
    /// The ports that queries came from.
    seen: Arc<Mutex<Vec<u16>>>,
}

impl Stage {
    fn set() -> Self {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind(SERVER).unwrap();
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()) {
                break (udp, tcp);
            }
        };
        let seen = Arc::<Mutex<Vec<u16>>>::default();
        std::thread::spawn(move || {
            for mut stream in tcp.incoming().map_while(Result::ok) {
                std::thread::spawn(move || {
                    while let Some(octets) = read_frame(&mut stream) {
                        write_frame(&mut stream, &answer(&octets, TRUE));
                    }
                });
            }
        });
        let (socket, ports) = (udp.try_clone().unwrap(), seen.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((_, from)) = socket.recv_from(&mut buffer) {
                ports.lock().unwrap_or_else(PoisonError::into_inner).push(from.port());
            }
        });
        Self { address: udp.local_addr().unwrap(), udp, seen }
    }

    /// The ports of the queries until now.
    fn ports(&self) -> Vec<u16> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends forged answers to a question: each second one to a port that an earlier question was asked from,
    /// the others anywhere.
    fn forge(&self, plan: &Mutex<(String, Vec<u16>)>, sent: &AtomicU64, end: &AtomicBool) {
        // Not for secrets: the forger may be foretold.
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut draw = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u16
        };
        // Whoever waits for the forger may have failed before it was told to end.
        let began = Instant::now();
        while !end.load(Ordering::Relaxed) && began.elapsed() < 2 * LONGEST {
            let (words, learnt) = plan.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let record = format!("an {} 300 A {FALSE}", words.split(' ').next().unwrap_or_default());
            let mut octets = reply(0, &words, 0, &[&record]);
            for number in 0..512 {
                let at = learnt.len().saturating_sub(1 + usize::from(draw()) % 16);
                let known = learnt.get(at).filter(|_| number % 2 == 0);
                let port = known.copied().unwrap_or_else(|| draw().max(1024));
                octets[..2].copy_from_slice(&draw().to_be_bytes());
                let _ = self.udp.send_to(&octets, (ASKS_FROM, port));
            }
            sent.fetch_add(512, Ordering::Relaxed);
        }
    }
}

/// The answer to a query for A with this address.
fn answer(query: &[u8], address: &str) -> Vec<u8> {
    let message = Message::parse(query).unwrap();
    let (header, question) = (message.header, message.question());
    let record = format!("an {} 300 A {address}", question.name.to_string().trim_end_matches('.'));
    let records: &[&str] = if question.qtype == 1 { &[&record] } else { &[] };
    let mut octets = reply(header.id, &format!("{} TYPE{}", question.name, question.qtype), 0, records);
    octets[12..message.question_end()].copy_from_slice(&query[12..message.question_end()]);
    assert!(Header::parse(&octets).unwrap().has(Header::QR));
    octets
}

/// Against four ports that stay, half of the forgers hit within 360,000 packets.
#[test]
fn attack_a_forger_at_the_full_rate_does_not_hit() {
    let wanted = std::env::var("FORGED_PACKETS").map_or(PACKETS, |text| text.parse().unwrap());
    let stage = Arc::new(Stage::set());
    // Names are not spelled at random: the forger has to guess port and ID alone.
    let keys = format!(
        "upstream.case_randomization = false\nupstream.timeout_ms = 300\nupstream.source = ['{ASKS_FROM}']"
    );
    let server = Server::start(&config_text(&[stage.address], &keys));
    let plan = Mutex::new((format!("0.{ZONE} A"), Vec::new()));
    let (sent, end) = (AtomicU64::new(0), AtomicBool::new(false));
    let (mut asked, began) = (0, Instant::now());
    std::thread::scope(|scope| {
        scope.spawn(|| stage.forge(&plan, &sent, &end));
        while sent.load(Ordering::Relaxed) < wanted && began.elapsed() < LONGEST {
            let words = format!("{asked}.{ZONE} A");
            *plan.lock().unwrap_or_else(PoisonError::into_inner) = (words.clone(), stage.ports());
            let said = server.ask(&words).records();
            if said.iter().any(|record| record.contains(FALSE)) {
                end.store(true, Ordering::Relaxed);
                panic!("a forged answer was taken after {} packets", sent.load(Ordering::Relaxed));
            }
            asked += 1;
        }
        end.store(true, Ordering::Relaxed);
    });
    let sent = sent.into_inner();
    println!("{sent} forged packets, {asked} questions, no hit");
    assert!(sent >= wanted && asked > 0, "{sent} packets in {:?}", began.elapsed());
}
