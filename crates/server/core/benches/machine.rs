//! What the machine costs without sockets: `cargo bench -p dns64d-core --bench machine [-- BATCHES]`.
//!
//! Batches of clients' questions for names without AAAA, as a thread would receive them; the upstream
//! server's answers are made outside the time measured. A miss is RFC 8219's worst case: both questions asked
//! upstream, both replies kept.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark has a clock and prints"
)]

mod common;

use std::hint::black_box;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Instant;

use common::median;
use dns64::Range;
use dns64::rule::Policy;
use dns64::wire::{CLASS_IN, Header, Message, Name, Question, Section, Writer, rtype};
use dns64::wire::{Edns, append_option};
use server_core::client::{Channel, Client};
use server_core::machine::{Notice, Shared};
use server_core::settings::{Settings, View};
use server_core::{Machine, Output};

/// Questions in a batch.
const BATCH: usize = 32;
/// Batches, where no argument says otherwise.
const BATCHES: usize = 1 << 13;
const CACHES_MIB: [usize; 3] = [0, 1, 64];
/// Time between batches, in ns: 100,000 questions per second.
const BATCH_NS: u64 = BATCH as u64 * 10_000;
const TTL_S: u32 = 60;

fn main() {
    let batches = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(BATCHES).max(1);
    println!("   MiB   miss: questions  AAAA replies  A replies     all     hit   [ns each]");
    for cache_mib in CACHES_MIB {
        let mut bench = Bench::new(cache_mib << 20);
        let stages: Vec<[f64; 3]> = (0..batches).map(|batch| bench.misses(batch)).collect();
        let [ask, aaaa, a] = [0, 1, 2].map(|stage| median(stages.iter().map(|costs| costs[stage]).collect()));
        let all = median(stages.iter().map(|costs| costs.iter().sum()).collect());
        let last = batches - 1;
        let hit = match cache_mib {
            0 => f64::NAN,
            _ => median((0..batches).map(|_| bench.hits(last)).collect()),
        };
        println!("{cache_mib:6} {ask:17.0} {aaaa:13.0} {a:10.0} {all:7.0} {hit:7.0}");
    }
}

/// Takes messages as sockets would: into a buffer each.
#[derive(Default)]
struct Wire {
    answers: usize,
    answer: Vec<u8>,
    /// Queries one after the other, and for each its socket and where it begins.
    queries: Vec<u8>,
    asked: Vec<(usize, usize)>,
}

impl Output for Wire {
    fn to_client(&mut self, _: &Client, write: impl FnOnce(&mut [u8]) -> usize) {
        self.answers += usize::from(write(&mut self.answer) > 0);
    }

    fn no_answer(&mut self, _: &Client) {}

    fn to_upstream(&mut self, _: usize, socket: usize, write: impl FnOnce(&mut [u8]) -> usize) {
        let at = self.queries.len();
        self.queries.resize(at + server_core::answer::QUERY_OCTETS_MAX, 0);
        let octets = write(&mut self.queries[at..]);
        self.queries.truncate(at + octets);
        self.asked.push((socket, at));
    }

    fn to_upstream_stream(&mut self, _: usize, _: u64, _: &[u8]) {}

    fn notice(&mut self, _: Notice) {}
}

struct Bench {
    machine: Machine,
    wire: Wire,
    now_ns: u64,
}

impl Bench {
    fn new(cache_octets: usize) -> Self {
        let settings = Arc::new(settings());
        let shared = Shared::new(&settings, cache_octets, [3; 32]);
        let machine = Machine::new(settings, shared, [4; 32]);
        let wire = Wire { answer: vec![0; 1232], ..Wire::default() };
        Self { machine, wire, now_ns: 1_000_000_000 }
    }

    /// Nanoseconds for each question: its coming, the reply to AAAA, the reply to A.
    fn misses(&mut self, batch: usize) -> [f64; 3] {
        let asked = self.ask(batch);
        let replies = self.replies();
        assert_eq!(replies.len(), BATCH, "each is asked upstream");
        let aaaa = self.take(&replies);
        let replies = self.replies();
        assert_eq!(replies.len(), BATCH, "and again for A");
        let a = self.take(&replies);
        assert_eq!(self.wire.answers, BATCH, "and answered");
        [asked, aaaa, a]
    }

    /// Nanoseconds for each question whose replies are kept.
    fn hits(&mut self, batch: usize) -> f64 {
        let cost = self.ask(batch);
        assert_eq!((self.wire.answers, self.wire.asked.len()), (BATCH, 0), "answered at once");
        cost
    }

    fn ask(&mut self, batch: usize) -> f64 {
        self.now_ns += BATCH_NS;
        self.wire.answers = 0;
        let queries: Vec<Vec<u8>> = (0..BATCH).map(|n| query(batch * BATCH + n)).collect();
        let start = Instant::now();
        for (n, query) in queries.iter().enumerate() {
            let channel = Channel::Udp { socket: 0, local: None };
            let address = (Ipv6Addr::LOCALHOST, 1024 + n as u16).into();
            let client = Client { address, listener: 0, channel };
            self.machine.handle_client(self.now_ns, client, black_box(query), &mut self.wire);
        }
        start.elapsed().as_nanos() as f64 / BATCH as f64
    }

    fn take(&mut self, replies: &[(usize, Vec<u8>)]) -> f64 {
        let start = Instant::now();
        for (socket, reply) in replies {
            self.machine.handle_upstream(self.now_ns, 0, *socket, black_box(reply), &mut self.wire);
        }
        start.elapsed().as_nanos() as f64 / BATCH as f64
    }

    /// What the upstream server makes of the questions that wait.
    fn replies(&mut self) -> Vec<(usize, Vec<u8>)> {
        let Wire { queries, asked, .. } = &mut self.wire;
        let replies = asked.iter().map(|&(socket, at)| (socket, reply(&queries[at..]))).collect();
        asked.clear();
        queries.clear();
        replies
    }
}

/// One upstream server and the prefix `2001:db8:64::/96`, for this machine alone.
fn settings() -> Settings {
    let prefix = "2001:db8:64::/96".parse().expect("a prefix");
    let rule = Policy { prefixes: vec![prefix], ..Policy::default() };
    let view = View { rule: Some(rule), ..View::default() };
    let allow = vec![Range::v6(Ipv6Addr::LOCALHOST, 128)];
    Settings { views: vec![view], allow, ..Settings::default() }
}

/// A question as the Measurer asks it, without an OPT record.
fn query(n: usize) -> Vec<u8> {
    let [_, b, c, d] = (n as u32).to_be_bytes();
    let name = Name::from_text(&format!("010-{b:03}-{c:03}-{d:03}.dns64perf.test")).expect("a name");
    let question = Question { name, qtype: rtype::AAAA, qclass: CLASS_IN };
    let mut buffer = vec![0; 512];
    let length = Writer::new(&mut buffer, n as u16, Header::RD, &question).expect("room").finish();
    buffer.truncate(length);
    buffer
}

/// NODATA with the zone's SOA for AAAA, one record for A, and EDNS with a server cookie where the query has
/// one.
fn reply(query: &[u8]) -> Vec<u8> {
    let asked = Message::parse(query).expect("a query of ours");
    let mut buffer = vec![0; 512];
    let flags = Header::QR | Header::AA | Header::RD;
    let mut writer = Writer::new(&mut buffer, asked.header.id, flags, &asked.question()).expect("room");
    let (name, zone) = (asked.question().name, Name::from_text("dns64perf.test").expect("a name"));
    let written = if asked.qtype == rtype::A {
        writer.record(Section::Answer, &name, rtype::A, CLASS_IN, TTL_S, &[192, 0, 2, 1])
    } else {
        let mut soa = [0; 22];
        soa[18..].copy_from_slice(&TTL_S.to_be_bytes());
        writer.record(Section::Authority, &zone, rtype::SOA, CLASS_IN, TTL_S, &soa)
    };
    written.expect("room");
    let length = writer.finish();
    let edns = Edns { payload_octets: 1232, extended_rcode: 0, version: 0, dnssec_ok: false };
    let length = dns64::rewrite::append_edns(&mut buffer, length, &edns);
    let cookie = dns64::wire::Options::of(&asked)
        .iter()
        .find(|(code, _)| *code == dns64::wire::option_code::COOKIE)
        .and_then(|(_, value)| value.first_chunk::<8>().copied());
    let length = match cookie {
        Some(client) => {
            let mut both = [7; 24];
            both[..8].copy_from_slice(&client);
            append_option(&mut buffer, length, dns64::wire::option_code::COOKIE, &both)
        }
        None => length,
    };
    buffer.truncate(length);
    buffer
}
