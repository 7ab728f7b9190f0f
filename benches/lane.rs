//! What a query costs the Measurer without its sockets: `cargo bench --bench lane`.
//!
//! Without arguments it prints ns for each query, the best of some rounds. With `write` or `both` and a
//! number of queries it does that work once, for counting instructions with `valgrind --tool=callgrind` or
//! `perf stat -e instructions:u`; the difference of two runs with different numbers leaves the preparation
//! out.

use std::hint::black_box;
use std::time::Instant;

use dns64::wire::{CLASS_IN, Header, Message, Name, Section, Writer, rtype};
use engine::lane::{Lane, LaneSpec};
use engine::pacer::{SECOND_NS, Schedule};
use engine::workload::{Variation, Workload, WorkloadSpec};

const ROUNDS: u32 = 10;
const QUERIES: u64 = 1 << 18;
/// One core's goal, so that batches and rings are as large as in earnest.
const RATE_QPS: u64 = 2_000_000;
const SOCKETS: u64 = 16;
/// An answer comes so many queries after its own.
const IN_FLIGHT: usize = 256;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let queries = |text: Option<String>| text.and_then(|text| text.parse().ok()).unwrap_or(QUERIES);
    match arguments.next().as_deref() {
        Some("both") => drop(black_box(run(queries(arguments.next()), true))),
        Some("write") => drop(black_box(run(queries(arguments.next()), false))),
        _ => report(),
    }
}

fn report() {
    let best = |answered: bool| {
        let times = (0..ROUNDS).map(|_| run(QUERIES, answered));
        times.fold(f64::INFINITY, f64::min)
    };
    let (write_ns, both_ns) = (best(false), best(true));
    println!("write: {write_ns:.1} ns");
    println!("write and receive: {both_ns:.1} ns");
}

fn workload() -> Workload {
    Workload::new(WorkloadSpec {
        names: "10.0.0.0/8".parse().expect("a range"),
        first_name: 0,
        suffix: Name::from_text("dns64perf.test").expect("a name"),
        prefix: "2001:db8:64::/96".parse().expect("a prefix"),
        native: None,
        edns_octets: None,
        variation: Variation::default(),
    })
    .expect("a short suffix")
}

/// An answer whose address, ID and label are put in from the query.
fn answer() -> Vec<u8> {
    let workload = workload();
    let (mut query, mut buffer) = ([0; 512], [0; 512]);
    let length = workload.write(0, 0, &mut query);
    let message = Message::parse(&query[..length]).expect("our query");
    let mut writer = Writer::new(&mut buffer, 0, Header::QR, &message.question()).expect("room");
    let address = workload.expected(0).octets();
    writer
        .record(Section::Answer, &message.question().name, rtype::AAAA, CLASS_IN, 60, &address)
        .expect("room");
    let length = writer.finish();
    buffer[..length].to_vec()
}

/// Sends all queries at their instants, and answers each a little later; returns ns for each query.
fn run(queries: u64, answered: bool) -> f64 {
    let schedule = Schedule::new(SECOND_NS, RATE_QPS, queries * SECOND_NS / RATE_QPS);
    let spec = LaneSpec {
        schedule,
        lane: 0,
        lanes: 1,
        sockets: SOCKETS,
        timeout_ns: SECOND_NS,
        listen_ns: SECOND_NS,
        log: false,
    };
    let mut lane = Lane::new(spec, workload());
    let mut answers = vec![(0, answer()); IN_FLIGHT];
    let address_at = answers[0].1.len() - 4;
    let (mut buffer, mut now_ns, mut sent) = ([0; 512], SECOND_NS, 0u32);
    let start = Instant::now();
    while let Some(batch) = lane.due(now_ns) {
        for _ in 0..batch.queries {
            black_box(lane.write(now_ns, black_box(&mut buffer)));
            if answered {
                let (socket, reply) = &mut answers[sent as usize % IN_FLIGHT];
                if sent as usize >= IN_FLIGHT {
                    lane.receive(now_ns, *socket, black_box(reply));
                }
                *socket = batch.socket;
                reply[..2].copy_from_slice(&buffer[..2]);
                reply[13..28].copy_from_slice(&buffer[13..28]);
                reply[address_at..].copy_from_slice(&(0x0a00_0000 + sent).to_be_bytes());
            }
            sent += 1;
        }
        now_ns = lane.next_due_ns().unwrap_or(now_ns);
    }
    let each_ns = start.elapsed().as_nanos() as f64 / queries as f64;
    let stats = lane.finish();
    assert_eq!(stats.sent, queries);
    assert!(!answered || stats.valid + IN_FLIGHT as u64 == queries, "{:?}", stats.defects);
    each_ns
}
