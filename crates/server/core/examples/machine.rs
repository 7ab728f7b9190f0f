//! The machine of dns64d with a scripted upstream server: `cargo run -p dns64d-core --example machine`.
//!
//! A client asks for the AAAA records of a name that has an A record alone. The machine asks the upstream
//! server for AAAA, then for A, and answers with the IPv4 address in the prefix. The second client is
//! answered by the cache.
#![allow(clippy::disallowed_macros, reason = "an example shows what happens")]

use std::net::Ipv6Addr;
use std::sync::Arc;

use dns64::rule::Policy;
use dns64::wire::{CLASS_IN, Header, Message, Name, Question, Section, Writer, rtype};
use server_core::answer::QUERY_OCTETS_MAX;
use server_core::client::{Channel, Client};
use server_core::machine::{Notice, Shared};
use server_core::{Machine, Output, Settings};

const MILLISECOND_NS: u64 = 1_000_000;

/// Where the machine's messages go: two lists instead of sockets.
#[derive(Default)]
struct Wires {
    to_clients: Vec<Vec<u8>>,
    /// Upstream server, socket and query.
    to_upstreams: Vec<(usize, usize, Vec<u8>)>,
}

impl Output for Wires {
    fn to_client(&mut self, _: &Client, write: impl FnOnce(&mut [u8]) -> usize) {
        self.to_clients.push(written(1232, write));
    }

    fn to_upstream(&mut self, upstream: usize, socket: usize, write: impl FnOnce(&mut [u8]) -> usize) {
        self.to_upstreams.push((upstream, socket, written(QUERY_OCTETS_MAX, write)));
    }

    // Neither happens here: the upstream server speaks UDP and answers each query.
    fn no_answer(&mut self, _: &Client) {}
    fn to_upstream_stream(&mut self, _: usize, _: u64, _: &[u8]) {}
    fn notice(&mut self, _: Notice) {}
}

fn written(room: usize, write: impl FnOnce(&mut [u8]) -> usize) -> Vec<u8> {
    let mut octets = vec![0; room];
    let length = write(&mut octets);
    octets.truncate(length);
    octets
}

fn main() {
    // The defaults of the configuration but for the prefix: 64:ff9b::/96 must not carry the addresses of
    // examples.
    let mut settings = Settings::default();
    let prefix = "2001:db8:64::/96".parse().expect("a prefix");
    settings.views[0].rule = Some(Policy { prefixes: vec![prefix], ..Policy::default() });
    let shared = Shared::new(&settings, 1 << 20, [1; 32]);
    let mut machine = Machine::new(Arc::new(settings), shared, [2; 32]);
    let mut wires = Wires::default();
    let mut now_ns = MILLISECOND_NS;

    let query = message(7, Header::RD, "ipv4.example", rtype::AAAA, None);
    let client = Client {
        address: ([192, 168, 1, 2], 5353).into(),
        listener: 0,
        channel: Channel::Udp { socket: 0, local: None },
    };
    machine.handle_client(now_ns, client, &query, &mut wires);
    // Every query upstream gets its reply 1 ms later: no AAAA record, one A record.
    while let Some((upstream, socket, query)) = wires.to_upstreams.pop() {
        now_ns += MILLISECOND_NS;
        let asked = Message::parse(&query).expect("the machine writes whole messages");
        println!("upstream server {upstream} is asked for type {}", asked.qtype);
        let address = (asked.qtype == rtype::A).then_some([192, 0, 2, 33]);
        let flags = Header::QR | Header::RD | Header::RA;
        let reply = message(asked.header.id, flags, "ipv4.example", asked.qtype, address);
        machine.handle_upstream(now_ns, upstream, socket, &reply, &mut wires);
    }
    // From the cache: nothing is asked upstream.
    machine.handle_client(now_ns, client, &query, &mut wires);
    assert!(wires.to_upstreams.is_empty());
    assert_eq!(wires.to_clients.len(), 2, "an answer for each query");
    for answer in &wires.to_clients {
        let answer = Message::parse(answer).expect("the machine writes whole messages");
        let record = answer.answers().next().expect("a AAAA record");
        let address = <[u8; 16]>::try_from(record.rdata).map(Ipv6Addr::from).expect("16 octets");
        println!("the client is told {address}, for {} s", record.ttl);
        assert_eq!(address, "2001:db8:64::192.0.2.33".parse::<Ipv6Addr>().expect("an address"));
    }
    assert_eq!((machine.stats().client_messages, machine.stats().synthesized), (2, 2));
}

/// A query; or a response with an A record, or with a SOA record that says how long nothing else will be
/// there.
fn message(id: u16, flags: u16, name: &str, qtype: u16, address: Option<[u8; 4]>) -> Vec<u8> {
    let name = Name::from_text(name).expect("a name");
    let mut octets = vec![0; 512];
    let question = Question { name, qtype, qclass: CLASS_IN };
    let mut writer = Writer::new(&mut octets, id, flags, &question).expect("room");
    match address {
        Some(address) => {
            writer.record(Section::Answer, &name, rtype::A, CLASS_IN, 300, &address).expect("room");
        }
        None if flags & Header::QR != 0 => {
            // Root names, and five times 300: serial, refresh, retry, expire, minimum (RFC 1035 3.3.13).
            let soa = [&[0, 0][..], &[0, 0, 1, 44].repeat(5)].concat();
            writer.record(Section::Authority, &name, rtype::SOA, CLASS_IN, 300, &soa).expect("room");
        }
        None => {}
    }
    let length = writer.finish();
    octets.truncate(length);
    octets
}
