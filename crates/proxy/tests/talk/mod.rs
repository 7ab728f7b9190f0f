//! A conversation with dns64d's state machine: a client, the upstream servers and a clock, all played by the test.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::VecDeque;

use dns64::wire::{Header, Message};
use proxy::inflight::{Channel, Client};
use proxy::{Machine, Output, Settings, Stats};

use crate::support::{lines, query, question, reply};

pub const MS: u64 = 1_000_000;

/// What the machine sent.
#[derive(Default)]
pub struct Sent {
    pub answers: VecDeque<(Client, Vec<u8>)>,
    pub queries: VecDeque<Asked>,
}

/// A query to an upstream server.
#[derive(Clone, Debug)]
pub struct Asked {
    pub upstream: usize,
    pub way: Way,
    pub octets: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Udp { socket: usize },
    Tcp { token: u64 },
}

impl Output for Sent {
    fn to_client(&mut self, client: &Client, write: impl FnOnce(&mut [u8]) -> usize) {
        let mut octets = vec![0; if matches!(client.channel, Channel::Tcp { .. }) { 65_535 } else { 1232 }];
        let length = write(&mut octets);
        octets.truncate(length);
        if length > 0 {
            self.answers.push_back((*client, octets));
        }
    }

    fn to_upstream(&mut self, upstream: usize, socket: usize, write: impl FnOnce(&mut [u8]) -> usize) {
        let mut octets = vec![0; proxy::answer::QUERY_OCTETS_MAX];
        let length = write(&mut octets);
        octets.truncate(length);
        self.queries.push_back(Asked { upstream, way: Way::Udp { socket }, octets });
    }

    fn to_upstream_tcp(&mut self, token: u64, upstream: usize, query: &[u8]) {
        self.queries.push_back(Asked { upstream, way: Way::Tcp { token }, octets: query.to_vec() });
    }
}

pub struct Talk {
    pub machine: Machine,
    pub sent: Sent,
    pub now_ns: u64,
}

pub fn udp_client() -> Client {
    Client { address: "[::1]:5300".parse().unwrap(), channel: Channel::Udp { socket: 0, local: None } }
}

pub fn tcp_client() -> Client {
    Client { channel: Channel::Tcp { connection: 9 }, ..udp_client() }
}

/// Settings with the prefix `2001:db8:64::/96`.
pub fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.rule.prefixes = vec!["2001:db8:64::/96".parse().unwrap()];
    settings
}

impl Talk {
    pub fn new(settings: Settings) -> Self {
        Self { machine: Machine::new(settings, [7; 32]), sent: Sent::default(), now_ns: 1 }
    }

    /// Lets time pass; the machine is woken whenever it asked for it.
    pub fn wait(&mut self, duration_ns: u64) {
        let end_ns = self.now_ns + duration_ns;
        while let Some(due_ns) = self.machine.poll_timeout().filter(|&due_ns| due_ns <= end_ns) {
            self.now_ns = self.now_ns.max(due_ns);
            self.machine.handle_timeout(self.now_ns, &mut self.sent);
        }
        self.now_ns = end_ns;
    }

    pub fn client_sends(&mut self, octets: &[u8]) {
        self.machine.begin_batch();
        self.machine.handle_client(self.now_ns, udp_client(), octets, &mut self.sent);
    }

    /// The client asks, with ID 0x1234 and without EDNS.
    pub fn client_asks(&mut self, words: &str) {
        self.client_sends(&query(0x1234, words, None));
    }

    /// The next query to an upstream server, which must ask for this.
    #[track_caller]
    pub fn asked(&mut self, words: &str) -> Asked {
        let asked =
            self.sent.queries.pop_front().unwrap_or_else(|| panic!("nothing asked, {words} expected"));
        let message = Message::parse(&asked.octets).unwrap();
        assert_eq!(message.question, question(words), "{words}");
        assert_eq!(message.header.flags & !(Header::RD | Header::CD | Header::AD), 0);
        assert!(message.edns().unwrap().is_some_and(|edns| edns.payload_octets == 1232));
        asked
    }

    /// The server answers a query with these records.
    pub fn replies(&mut self, asked: &Asked, rcode: u8, records: &[&str]) {
        let id = Header::parse(&asked.octets).unwrap().id;
        let sent = Message::parse(&asked.octets).unwrap().question;
        let mut octets = reply(id, &words_of(&sent), rcode, records);
        // The question comes back as it was spelled.
        octets[12..12 + sent.name.as_wire().len()].copy_from_slice(sent.name.as_wire());
        self.server_sends(asked, &octets);
    }

    /// The server sends these octets where the answer to a query belongs.
    pub fn server_sends(&mut self, asked: &Asked, octets: &[u8]) {
        self.machine.begin_batch();
        let (upstream, now_ns) = (asked.upstream, self.now_ns);
        match asked.way {
            Way::Udp { socket } => {
                self.machine.handle_upstream(now_ns, upstream, socket, octets, &mut self.sent);
            }
            Way::Tcp { token } => {
                self.machine.handle_upstream_tcp(now_ns, token, Some(octets), &mut self.sent);
            }
        }
    }

    /// The octets of the next answer to the client.
    #[track_caller]
    pub fn answer(&mut self) -> Vec<u8> {
        self.sent.answers.pop_front().expect("an answer").1
    }

    /// The next answer must be to the question asked by [`Talk::client_asks`], with this RCODE and these records.
    #[track_caller]
    pub fn answered(&mut self, words: &str, rcode: u8, records: &[&str]) {
        let octets = self.answer();
        let message = Message::parse(&octets).unwrap();
        assert_eq!(message.header.id, 0x1234);
        assert_eq!(message.question, question(words));
        assert_eq!(message.question.name.as_wire(), question(words).name.as_wire(), "the client's spelling");
        assert_eq!(message.header.flags, Header::QR | Header::RD | Header::RA | u16::from(rcode));
        assert_eq!(lines(&octets), records);
    }

    /// Nothing was sent, and nothing is in flight.
    #[track_caller]
    pub fn over(&mut self) {
        self.silent();
        assert_eq!(self.machine.in_flight(), 0);
        assert_eq!(self.machine.poll_timeout(), None);
        let Stats { accepted, answered, failed, evicted, client_messages, dropped, refused, .. } =
            *self.machine.stats();
        assert_eq!(accepted, answered + failed + evicted, "every query ends once");
        assert_eq!(client_messages, dropped + refused + accepted, "every message ends once");
    }

    /// Nothing was sent.
    #[track_caller]
    pub fn silent(&self) {
        assert!(self.sent.queries.is_empty(), "{:?}", self.sent.queries);
        assert!(self.sent.answers.is_empty(), "{:?}", self.sent.answers);
    }
}

fn words_of(question: &dns64::wire::Question) -> String {
    format!("{} TYPE{}", question.name, question.qtype)
}
