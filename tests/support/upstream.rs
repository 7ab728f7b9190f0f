//! An upstream server by script, over UDP and TCP on loopback.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard};

use dns64::wire::{CLASS_IN, Header, Message, Options, Question};

use super::words::{question, reply};
use super::{read_frame, write_frame};

/// A query that the server received.
#[derive(Clone, Debug)]
pub struct Query {
    pub over_tcp: bool,
    pub from: SocketAddr,
    pub octets: Vec<u8>,
}

impl Query {
    pub fn message(&self) -> Message<'_> {
        Message::parse(&self.octets).unwrap()
    }

    pub fn question(&self) -> Question {
        self.message().question()
    }

    pub fn id(&self) -> u16 {
        self.message().header.id
    }

    pub fn has(&self, flag: u16) -> bool {
        self.message().header.flags & flag != 0
    }

    pub fn dnssec_ok(&self) -> bool {
        self.message().edns().unwrap().is_some_and(|edns| edns.dnssec_ok)
    }

    /// The value of an EDNS option.
    pub fn option(&self, code: u16) -> Option<Vec<u8>> {
        Options::of(&self.message()).find(code).map(<[u8]>::to_vec)
    }

    /// The reply with these records to the question as it was spelled.
    pub fn reply(&self, rcode: u8, records: &[&str]) -> Vec<u8> {
        let asked = self.question();
        let mut octets = reply(self.id(), &format!("{} TYPE{}", asked.name, asked.qtype), rcode, records);
        let end = self.message().question_end();
        octets[12..end].copy_from_slice(&self.octets[12..end]);
        octets
    }

    /// A reply that did not fit.
    pub fn truncated(&self) -> Vec<u8> {
        let mut octets = self.reply(0, &[]);
        octets[2] |= (Header::TC >> 8) as u8;
        octets
    }
}

/// What the server sends.
pub enum Packet {
    Reply(Vec<u8>),
    /// From a port that was not asked.
    Stray(Vec<u8>),
}

type Act = Box<dyn FnMut(&Query) -> Vec<Packet> + Send>;

#[derive(Default)]
struct Script {
    acts: HashMap<String, Act>,
    received: Vec<Query>,
}

/// The server; its threads end with the test program. It denies the names that its script does not have.
pub struct Upstream {
    pub address: SocketAddr,
    script: Arc<Mutex<Script>>,
}

impl Upstream {
    pub fn start() -> Self {
        Self::at("127.0.0.1:0")
    }

    /// A server whose script has these lines: a question, the RCODE, the records.
    pub fn saying(lines: &[(&str, u8, &[&str])]) -> Self {
        let this = Self::start();
        for (question, rcode, records) in lines {
            this.says(question, *rcode, records);
        }
        this
    }

    pub fn at(address: &str) -> Self {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind(address).unwrap();
            // The port may be free for UDP alone.
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()) {
                break (udp, tcp);
            }
        };
        let this = Self { address: udp.local_addr().unwrap(), script: Arc::default() };
        let script = Arc::clone(&this.script);
        std::thread::spawn(move || serve_udp(&udp, &script));
        let script = Arc::clone(&this.script);
        std::thread::spawn(move || {
            for stream in tcp.incoming().map_while(Result::ok) {
                let script = Arc::clone(&script);
                std::thread::spawn(move || serve_tcp(stream, &script));
            }
        });
        this
    }

    /// From now on, this is the reply to a question.
    pub fn says(&self, question: &str, rcode: u8, records: &[&str]) {
        let records: Vec<String> = records.iter().map(|&record| record.to_owned()).collect();
        self.replies(question, move |query| {
            query.reply(rcode, &records.iter().map(String::as_str).collect::<Vec<_>>())
        });
    }

    /// From now on, a question is answered with these octets.
    pub fn replies(&self, question: &str, mut octets: impl FnMut(&Query) -> Vec<u8> + Send + 'static) {
        self.does(question, move |query| vec![Packet::Reply(octets(query))]);
    }

    pub fn is_silent_on(&self, question: &str) {
        self.does(question, |_| Vec::new());
    }

    /// From now on, this is what a question leads to.
    pub fn does(&self, words: &str, act: impl FnMut(&Query) -> Vec<Packet> + Send + 'static) {
        self.script().acts.insert(key(&question(words)), Box::new(act));
    }

    /// What was received since this was called last.
    pub fn received(&self) -> Vec<Query> {
        std::mem::take(&mut self.script().received)
    }

    /// The names and types asked for since then, as in `www.example.com. 28`.
    #[track_caller]
    pub fn was_asked(&self, questions: &[&str]) {
        let keys: Vec<String> = self.received().iter().map(|query| key(&query.question())).collect();
        let expected: Vec<String> = questions.iter().map(|words| key(&question(words))).collect();
        assert_eq!(keys, expected);
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }
}

/// A name in lower case and a type; classes other than IN are named.
fn key(question: &Question) -> String {
    let class = if question.qclass == CLASS_IN { String::new() } else { format!(" {}", question.qclass) };
    format!("{} {}{class}", question.name.to_string().to_ascii_lowercase(), question.qtype)
}

fn respond(query: &Query, script: &Mutex<Script>) -> Vec<Packet> {
    let mut script = script.lock().unwrap();
    script.received.push(query.clone());
    match script.acts.get_mut(&key(&query.question())) {
        Some(act) => act(query),
        None => vec![Packet::Reply(query.reply(3, &[]))],
    }
}

fn serve_udp(socket: &UdpSocket, script: &Mutex<Script>) {
    let stray = UdpSocket::bind((socket.local_addr().unwrap().ip(), 0)).unwrap();
    let mut buffer = [0; 4096];
    while let Ok((length, from)) = socket.recv_from(&mut buffer) {
        let query = Query { over_tcp: false, from, octets: buffer[..length].to_vec() };
        // The port may have been dns64d's a moment ago, and forged replies go on to come there.
        if query.has(Header::QR) {
            continue;
        }
        for packet in respond(&query, script) {
            let _ = match packet {
                Packet::Reply(octets) => socket.send_to(&octets, from),
                Packet::Stray(octets) => stray.send_to(&octets, from),
            };
        }
    }
}

fn serve_tcp(mut stream: TcpStream, script: &Mutex<Script>) {
    let from = stream.peer_addr().unwrap();
    while let Some(octets) = read_frame(&mut stream) {
        for packet in respond(&Query { over_tcp: true, from, octets }, script) {
            let (Packet::Reply(octets) | Packet::Stray(octets)) = packet;
            write_frame(&mut stream, &octets);
        }
    }
}
