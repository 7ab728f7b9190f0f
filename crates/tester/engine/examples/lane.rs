//! A lane of the Measurer over a fake transport: `cargo run -p sextant-engine --example lane`.
//!
//! The loop below is what a back-end does with sockets and a clock. Here the clock is a number, and the
//! "server" is a queue of answers with their instants: it answers after 3 ms and loses every hundredth query.
#![allow(clippy::disallowed_macros, reason = "an example shows what happens")]

use std::collections::VecDeque;
use std::error::Error;

use dns64::wire::{CLASS_IN, Header, Message, Name, Section, Writer, rtype};
use engine::lane::{Lane, LaneSpec};
use engine::pacer::{SECOND_NS, Schedule};
use engine::workload::{Variation, Workload, WorkloadSpec};

const RATE_QPS: u64 = 1000;
const SERVER_NS: u64 = 3_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let workload = Workload::new(WorkloadSpec {
        names: "10.0.0.0/8".parse()?,
        first_name: 0,
        suffix: Name::from_text("dns64perf.test")?,
        prefix: "64:ff9b::/96".parse()?,
        native: None,
        edns_octets: None,
        variation: Variation::default(),
    })?;
    let mut lane = Lane::new(
        LaneSpec {
            schedule: Schedule::new(0, RATE_QPS, SECOND_NS),
            lane: 0,
            lanes: 1,
            sockets: 4,
            timeout_ns: SECOND_NS,
            listen_ns: SECOND_NS,
            log: false,
        },
        workload.clone(),
    );
    let (mut now_ns, mut asked) = (0, 0_u64);
    let mut answers: VecDeque<(u64, usize, Vec<u8>)> = VecDeque::new();
    while !lane.is_done(now_ns) {
        // What is due, goes out: some queries at once, all with one socket.
        while let Some(batch) = lane.due(now_ns) {
            for _ in 0..batch.queries {
                let mut query = [0; 512];
                let octets = lane.write(now_ns, &mut query);
                if !asked.is_multiple_of(100) {
                    let answer = answer(&workload, &query[..octets])?;
                    answers.push_back((now_ns + SERVER_NS, batch.socket, answer));
                }
                asked += 1;
            }
        }
        // What has arrived, comes in. The lane finds the query by socket, ID and question.
        while answers.front().is_some_and(|&(at_ns, ..)| at_ns <= now_ns) {
            let Some((at_ns, socket, answer)) = answers.pop_front() else { break };
            lane.receive(at_ns, socket, &answer);
        }
        // The clock goes on to whatever comes first.
        let next_answer_ns = answers.front().map(|&(at_ns, ..)| at_ns);
        let next = [lane.next_due_ns(), next_answer_ns].into_iter().flatten().min();
        now_ns = next.unwrap_or_else(|| lane.listen_until_ns());
    }
    let stats = lane.finish();
    println!("{} queries in {:.3} s, {} valid answers", stats.sent, now_ns as f64 / 1e9, stats.valid);
    println!("median latency: {:.1} ms", stats.latency_ns.value_at_quantile(0.5) as f64 / 1e6);
    assert_eq!((stats.sent, stats.valid, stats.late, stats.unexpected), (1000, 990, 0, 0));
    Ok(())
}

/// The right answer: the query's question, and the AAAA record with the address that its name says.
fn answer(workload: &Workload, query: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let query = Message::parse(query).map_err(|error| format!("{error:?}"))?;
    let number = workload.number_of(query.octets()).ok_or("a name of the workload")?;
    let question = query.question();
    let mut octets = vec![0; 512];
    let no_room = |_| "no room";
    let mut writer = Writer::new(&mut octets, query.header.id, Header::QR, &question).map_err(no_room)?;
    let address = workload.expected(number).octets();
    writer.record(Section::Answer, &question.name, rtype::AAAA, CLASS_IN, 60, &address).map_err(no_room)?;
    let length = writer.finish();
    octets.truncate(length);
    Ok(octets)
}
