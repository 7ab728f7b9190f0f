//! Anything that happens to a lane of the Measurer: each query has one account, each datagram one count, and
//! what counts as valid has the address that was expected, as another DNS library reads it.
//!
//! An input is an octet that chooses the queries, and operations: an octet for the kind and its fields.

use std::collections::HashSet;
use std::net::IpAddr;

use dns64::wire::{CLASS_IN, Header, Message, Section, Writer, rtype};
use domain::base::Message as DomainMessage;
use domain::rdata::Aaaa;
use engine::lane::{Lane, LaneSpec};
use engine::pacer::{SECOND_NS, Schedule};
use engine::stats::Stats;
use engine::workload::{Choice, Variation, Workload, WorkloadSpec};

use super::input::Input;

const START_NS: u64 = 1_000_000_000;
const RATE_QPS: u64 = 100;
const TIMEOUT_NS: u64 = SECOND_NS / 4;
const SOCKETS: u64 = 3;
const OPERATIONS_MAX: usize = 512;
const MILLISECOND_NS: u64 = 1_000_000;

/// Plays the operations.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let mut talk = Talk::new(input.octet());
    for _ in 0..OPERATIONS_MAX {
        if input.is_empty() {
            break;
        }
        talk.play(&mut input);
    }
    talk.end();
}

struct Sent {
    socket: usize,
    octets: Vec<u8>,
    due_ns: u64,
}

struct Talk {
    lane: Lane,
    workload: Workload,
    now_ns: u64,
    sent: Vec<Sent>,
    /// Queries whose right answer was given, by their place in `sent`.
    answered: HashSet<usize>,
    received: u64,
    is_closed: bool,
    is_by_name: bool,
}

impl Talk {
    fn new(choice: u8) -> Self {
        let is_closed = choice & 1 != 0;
        let model = if is_closed { "closed:4" } else { "constant" };
        let names = match choice >> 1 & 3 {
            0 => Choice::Cached { share_pct: 100, hot_names: 2 },
            1 => Choice::Zipf { exponent: 1.0 },
            _ => Choice::Each,
        };
        let spec = WorkloadSpec {
            names: "10.0.0.0/16".parse().expect("a range"),
            first_name: 65_500,
            suffix: dns64::wire::Name::from_text("dns64perf.test").expect("a name"),
            prefix: "2001:db8:64::/96".parse().expect("a prefix"),
            native: None,
            edns_octets: (choice & 8 != 0).then_some(1232),
            variation: Variation { choice: names, ..Variation::default() },
        };
        let workload = Workload::new(spec).expect("a short suffix");
        let schedule = Schedule::with_model(START_NS, RATE_QPS, SECOND_NS, model.parse().expect("a model"));
        let spec = LaneSpec {
            schedule,
            lane: 0,
            lanes: 1,
            sockets: SOCKETS,
            timeout_ns: TIMEOUT_NS,
            listen_ns: SECOND_NS,
            log: choice & 16 != 0,
        };
        Self {
            lane: Lane::new(spec, workload.clone()),
            is_by_name: workload.is_by_name(),
            workload,
            now_ns: START_NS,
            sent: Vec::new(),
            answered: HashSet::new(),
            received: 0,
            is_closed,
        }
    }

    fn play(&mut self, input: &mut Input<'_>) {
        match input.octet() % 6 {
            0 => self.now_ns += u64::from(input.octet()) * MILLISECOND_NS,
            1 => self.send(),
            2 => self.answer(input.octet()),
            3 => self.answer_wrongly(input),
            4 => {
                let (socket, octets) = (input.octet(), input.counted());
                self.receive(usize::from(socket), octets);
            }
            _ => {
                let lost = self.lane.lost_so_far(self.now_ns);
                assert!(lost <= self.lane.stats().sent);
            }
        }
    }

    /// Sends all that is due.
    fn send(&mut self) {
        while let Some(batch) = self.lane.due(self.now_ns) {
            assert!(batch.queries > 0 && batch.socket < SOCKETS as usize);
            for _ in 0..batch.queries {
                let due_ns = if self.is_closed { self.now_ns } else { self.due_ns() };
                assert!(due_ns <= self.now_ns, "sent before it is due");
                let mut octets = [0; 512];
                let length = self.lane.write(self.now_ns, &mut octets);
                let octets = octets[..length].to_vec();
                assert!(Message::parse(&octets).is_ok());
                self.sent.push(Sent { socket: batch.socket, octets, due_ns });
            }
        }
        assert_eq!(self.lane.stats().sent, self.sent.len() as u64);
    }

    /// When the next query of the constant schedule is due, which never waits for anything.
    fn due_ns(&self) -> u64 {
        START_NS + self.sent.len() as u64 * SECOND_NS / RATE_QPS
    }

    /// The right answer to a query, counted from the latest backwards.
    fn answer(&mut self, back: u8) {
        let Some(at) = self.sent.len().checked_sub(1 + usize::from(back)) else { return };
        let Sent { socket, due_ns, .. } = self.sent[at];
        let reply = self.right_answer(at);
        let before = Counts::of(self.lane.stats());
        self.receive(socket, &reply);
        let after = Counts::of(self.lane.stats());
        if !self.answered.insert(at) {
            return;
        }
        let is_late = self.now_ns - due_ns > TIMEOUT_NS;
        // Wrong answers may have come before the right one; names asked often may be taken for each other.
        if self.is_by_name && after.duplicates == before.duplicates {
            assert_eq!((after.late > before.late, after.valid > before.valid), (is_late, !is_late));
        }
    }

    /// The right answer with some octets changed, or at another socket.
    fn answer_wrongly(&mut self, input: &mut Input<'_>) {
        let (back, away) = (input.octet(), input.octet());
        let changes: [[u8; 2]; 2] = [input.array(), input.array()];
        let Some(at) = self.sent.len().checked_sub(1 + usize::from(back)) else { return };
        let mut reply = self.right_answer(at);
        for [place, with] in changes {
            let place = usize::from(place) % reply.len();
            reply[place] ^= with;
        }
        self.receive((self.sent[at].socket + usize::from(away)) % SOCKETS as usize, &reply);
    }

    fn right_answer(&self, at: usize) -> Vec<u8> {
        let query = Message::parse(&self.sent[at].octets).expect("a query");
        let question = query.question();
        let mut octets = vec![0; 512];
        let mut writer = Writer::new(&mut octets, query.header.id, Header::QR, &question).expect("room");
        let expected = self.workload.expectation(at as u64, query.octets(), self.workload.question_end());
        let IpAddr::V6(address) = expected.address() else { panic!("AAAA is asked for") };
        writer
            .record(Section::Answer, &question.name, rtype::AAAA, CLASS_IN, 60, &address.octets())
            .expect("room");
        let length = writer.finish();
        octets.truncate(length);
        octets
    }

    /// A datagram: it has exactly one count.
    fn receive(&mut self, socket: usize, octets: &[u8]) {
        let before = Counts::of(self.lane.stats());
        self.lane.receive(self.now_ns, socket, octets);
        self.received += 1;
        let after = Counts::of(self.lane.stats());
        assert_eq!(after.total(), before.total() + 1, "{before:?} {after:?}");
        assert_eq!(after.total(), self.received);
        if after.valid > before.valid {
            assert!(has_address(octets), "valid without an address under the prefix");
        }
    }

    fn end(self) {
        let sent = self.sent.len() as u64;
        let until_ns = self.lane.listen_until_ns();
        assert!(self.lane.next_due_ns().is_some() || self.lane.is_done(until_ns.max(self.now_ns)));
        let stats = self.lane.finish();
        assert!(stats.valid + stats.invalid + stats.late <= sent, "an account for each query");
        assert_eq!(stats.latency_ns.len(), stats.valid);
        assert_eq!(stats.rcodes.iter().sum::<u64>(), stats.valid + stats.invalid + stats.late);
        assert_eq!(stats.defects.values().sum::<u64>(), stats.invalid);
        assert_eq!(stats.unexpected_reasons.values().sum::<u64>(), stats.unexpected);
        if let Some(log) = &stats.log {
            let classes = (0..sent).filter_map(|n| log.get(n)).map(|entry| entry.class);
            let valid = classes.filter(|class| *class == engine::querylog::Class::Valid).count();
            assert_eq!(valid as u64, stats.valid);
        }
    }
}

/// What a datagram may be counted as.
#[derive(Clone, Copy, Debug)]
struct Counts {
    valid: u64,
    invalid: u64,
    late: u64,
    duplicates: u64,
    unexpected: u64,
}

impl Counts {
    fn of(stats: &Stats) -> Self {
        let &Stats { valid, invalid, late, duplicates, unexpected, .. } = stats;
        Self { valid, invalid, late, duplicates, unexpected }
    }

    fn total(&self) -> u64 {
        self.valid + self.invalid + self.late + self.duplicates + self.unexpected
    }
}

/// Whether the answer section has a AAAA record under the prefix of the expected ones, up to the first record
/// that cannot be read.
fn has_address(octets: &[u8]) -> bool {
    let message = DomainMessage::from_slice(octets).expect("a header at least");
    message.answer().expect("a question").map_while(Result::ok).any(|record| {
        let read = record.to_record::<Aaaa>().ok().flatten();
        read.is_some_and(|record| {
            let octets = record.data().addr().octets();
            octets[..12] == [0x20, 1, 0xd, 0xb8, 0, 0x64, 0, 0, 0, 0, 0, 0] && octets[12..14] == [10, 0]
        })
    })
}
