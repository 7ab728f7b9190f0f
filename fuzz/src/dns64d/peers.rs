//! The clients and the upstream servers of a conversation: what each was sent.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use dns64::wire::{Header, Message, Options, option_code, rtype};
use server_core::client::{Channel, Client, StreamKind};
use server_core::machine::Notice;
use server_core::{Output, Settings};

use super::super::judge::{self, Section};

/// The first client's port; each further one has the next.
const FIRST_PORT: u16 = 1024;
/// The UDP answer that every client takes (RFC 1035 4.2.1).
const PLAIN_UDP_OCTETS: usize = 512;
/// How far back the queries go that may still be answered.
const QUERIES_MAX: usize = 32;

/// A query to an upstream server.
pub struct ClientQuery {
    pub upstream: usize,
    pub way: Way,
    pub octets: Vec<u8>,
}

/// How it was sent.
#[derive(Clone, Copy)]
pub enum Way {
    Udp { socket: usize },
    Stream { token: u64 },
}

/// A client with one query.
struct Customer {
    message: Vec<u8>,
    answers: u32,
    given_up: u32,
}

/// Everybody the machine talks to.
pub struct Peers {
    clients: Vec<Customer>,
    queries: Vec<ClientQuery>,
    buffer: Vec<u8>,
    udp_octets_max: usize,
    trusts_ad: bool,
}

impl Peers {
    pub fn new(settings: &Settings) -> Self {
        Self {
            clients: Vec::new(),
            queries: Vec::new(),
            buffer: vec![0; 65_535],
            udp_octets_max: settings.udp_payload_octets.into(),
            trusts_ad: settings.upstreams.iter().any(|upstream| upstream.trust_ad),
        }
    }

    /// A new client comes with a message. Its kind is its way in the lower three bits and its network in the
    /// next two.
    pub fn arrive(&mut self, kind: u8, message: Vec<u8>) -> Client {
        let number = self.clients.len();
        self.clients.push(Customer { message, answers: 0, given_up: 0 });
        let address: IpAddr = match kind >> 3 & 3 {
            0 => Ipv6Addr::LOCALHOST.into(),
            1 => Ipv4Addr::LOCALHOST.into(),
            2 => Ipv4Addr::new(10, 1, 2, 3).to_ipv6_mapped().into(),
            // Nobody that may ask.
            _ => Ipv4Addr::new(203, 0, 113, 9).into(),
        };
        let stream = |kind| Channel::Stream { token: number as u64, kind };
        let channel = match kind & 7 {
            1 => stream(StreamKind::Tcp),
            2 => stream(StreamKind::Tls),
            3 => stream(StreamKind::Https),
            4 => stream(StreamKind::Quic),
            _ => Channel::Udp { socket: 0, local: None },
        };
        Client { address: SocketAddr::new(address, FIRST_PORT + number as u16), listener: 0, channel }
    }

    /// A query, counted from the latest backwards.
    pub fn asked(&self, back: u8) -> Option<&ClientQuery> {
        let at = self.queries.len().checked_sub(1 + usize::from(back) % QUERIES_MAX)?;
        Some(&self.queries[at])
    }

    /// A client's message, counted from the latest backwards.
    pub fn earlier_message(&self, back: u8) -> Option<Vec<u8>> {
        let at = self.clients.len().checked_sub(1 + usize::from(back))?;
        Some(self.clients[at].message.clone())
    }

    /// What is true when nothing is in flight any more.
    pub fn end(&self) {
        for customer in &self.clients {
            let Customer { message, answers, given_up } = customer;
            assert!(answers + given_up <= 1, "{message:?} ended {answers} + {given_up} times");
        }
    }

    fn customer(&mut self, client: &Client) -> &mut Customer {
        &mut self.clients[usize::from(client.address.port() - FIRST_PORT)]
    }

    fn judge(&self, client: &Client, message: &[u8], answer: &[u8]) {
        assert_eq!(answer[..2], message[..2], "the ID");
        let header = Header::parse(answer).expect("a header");
        assert!(header.has(Header::QR));
        assert!(self.trusts_ad || !header.has(Header::AD), "AD of a server that is not trusted");
        let query = Message::parse(message).ok();
        let edns = query.and_then(|query| query.edns().ok().flatten());
        if client.channel.is_udp() {
            let theirs = edns.map_or(PLAIN_UDP_OCTETS, |edns| edns.payload_octets.into());
            assert!(
                answer.len() <= theirs.clamp(PLAIN_UDP_OCTETS, self.udp_octets_max),
                "{} octets",
                answer.len()
            );
        }
        let seen = judge::records(answer);
        let options = seen.iter().filter(|record| record.rtype == rtype::OPT);
        let options: Vec<_> = options.filter(|record| record.section == Section::Additional).collect();
        assert!(options.len() <= 1 && options.iter().all(|record| record.owner.len() <= 1), "{options:?}");
        let Some(query) = query else { return };
        if let Ok(answer) = Message::parse(answer) {
            assert_eq!(
                answer.question().name.as_wire(),
                query.question().name.as_wire(),
                "the client's spelling"
            );
            assert_eq!(answer.question(), query.question());
            if let Some(cookie) = Options::of(&answer).find(option_code::COOKIE) {
                assert_eq!(
                    Some(&cookie[..8]),
                    Options::of(&query).find(option_code::COOKIE).map(|own| &own[..8])
                );
            }
        }
    }
}

impl Output for Peers {
    fn to_client(&mut self, client: &Client, write: impl FnOnce(&mut [u8]) -> usize) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let room = if client.channel.is_udp() { self.udp_octets_max } else { buffer.len() };
        let octets = write(&mut buffer[..room]);
        assert!(octets > 0, "an answer");
        let message = self.customer(client).message.clone();
        self.judge(client, &message, &buffer[..octets]);
        self.buffer = buffer;
        self.customer(client).answers += 1;
    }

    fn no_answer(&mut self, client: &Client) {
        self.customer(client).given_up += 1;
    }

    fn to_upstream(&mut self, upstream: usize, socket: usize, write: impl FnOnce(&mut [u8]) -> usize) {
        let mut octets = vec![0; server_core::answer::QUERY_OCTETS_MAX];
        let length = write(&mut octets);
        octets.truncate(length);
        judge::records(&octets);
        self.queries.push(ClientQuery { upstream, way: Way::Udp { socket }, octets });
    }

    fn to_upstream_stream(&mut self, upstream: usize, token: u64, query: &[u8]) {
        judge::records(query);
        self.queries.push(ClientQuery { upstream, way: Way::Stream { token }, octets: query.to_vec() });
    }

    fn notice(&mut self, _: Notice) {}
}
