//! One thread's share of a trial, without its sockets and its clock.
//!
//! Of T lanes, lane k takes the queries k, k + T, k + 2T, ... of the schedule. The number of a query within its lane
//! fixes the socket and the ID, so a reply is checked against both with no table of outstanding queries: its name
//! says which query it answers. Neighbouring queries share a socket in small blocks, so that a sender that is behind
//! can catch up with one system call.

use dns64::wire::Header;

use crate::matcher::{is_compat, judge};
use crate::pacer::{SECOND_NS, Schedule};
use crate::querylog::{Class, Entry, QueryLog};
use crate::stats::Stats;
use crate::workload::Workload;

/// The share of a thread.
#[derive(Clone, Copy, Debug)]
pub struct LaneSpec {
    /// The schedule of the whole trial.
    pub schedule: Schedule,
    /// This lane, from 0.
    pub lane: u64,
    /// The number of lanes, at least 1.
    pub lanes: u64,
    /// The number of sockets of this lane, at least 1.
    pub sockets: u64,
    /// An answer is late after this, in ns from the scheduled instant.
    pub timeout_ns: u64,
    /// How long after the last query is due the lane listens, in ns; at least the timeout.
    pub listen_ns: u64,
    /// Keep a log of every query ([`Stats::log`]).
    pub log: bool,
}

impl LaneSpec {
    /// The number of queries of this lane.
    fn queries(&self) -> u64 {
        self.schedule.queries.saturating_sub(self.lane).div_ceil(self.lanes.max(1))
    }

    /// How many queries' lateness is remembered: a quarter more than are in flight when every answer takes the timeout.
    fn remembered(&self) -> u64 {
        let in_time = u128::from(self.schedule.rate_qps / self.lanes.max(1)) * u128::from(self.timeout_ns)
            / u128::from(SECOND_NS)
            + 1;
        let in_time = u64::try_from(in_time + in_time / 4).unwrap_or(u64::MAX);
        in_time.min(self.queries()).clamp(REMEMBERED_MIN, REMEMBERED_MAX).next_power_of_two()
    }

    /// About how much memory a [`Lane`] allocates, in octets.
    pub fn memory_octets(&self) -> u64 {
        let lateness = self.remembered().saturating_mul(size_of::<u32>() as u64);
        let log = if self.log { QueryLog::memory_octets(self.queries()) } else { 0 };
        (self.queries() / 8)
            .saturating_add(log)
            .saturating_add(lateness)
            .saturating_add(Stats::memory_octets(&self.schedule))
    }
}

/// Queries to be sent with one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The socket to send them with.
    pub socket: usize,
    /// How many, at least 1.
    pub queries: usize,
}

/// A lane at work.
pub struct Lane {
    spec: LaneSpec,
    workload: Workload,
    /// The number of queries of this lane.
    queries: u64,
    /// The next to be sent, counted within the lane.
    next: u64,
    batch_max: u64,
    block: u64,
    answered: Box<[u64]>,
    answered_in_total: u64,
    /// Words of `answered` whose queries are all past their timeout, and how many of those have no answer.
    overdue: (usize, u64),
    /// How late each query was sent, in ns, for as long as its answer would be in time.
    lateness_ns: Box<[u32]>,
    stats: Stats,
}

/// Between two batches of a tardy sender no more than this share of a 10 ms window is sent at once.
const BATCH_SHARE_OF_10_MS: u64 = 100;
/// The largest batch.
const BATCH_MAX: u64 = 64;
/// The fewest queries whose lateness is remembered.
const REMEMBERED_MIN: u64 = 1 << 12;
/// A number that no memory holds, and whose next power of two is a number still.
const REMEMBERED_MAX: u64 = 1 << 62;

impl Lane {
    /// Allocates everything the lane will need.
    pub fn new(spec: LaneSpec, workload: Workload) -> Self {
        let lanes = spec.lanes.max(1);
        let spec = LaneSpec { lanes, sockets: spec.sockets.max(1), ..spec };
        let queries = spec.queries();
        let mut stats = Stats::new(spec.schedule);
        stats.log = spec.log.then(|| QueryLog::new(spec.lane, lanes, queries));
        let batch_max = (spec.schedule.rate_qps / 100 / BATCH_SHARE_OF_10_MS).clamp(1, BATCH_MAX);
        Self {
            spec,
            workload,
            queries,
            next: 0,
            batch_max,
            // The largest power of two within a batch.
            block: 1 << batch_max.ilog2(),
            answered: vec![0; queries.div_ceil(64) as usize].into_boxed_slice(),
            answered_in_total: 0,
            overdue: (0, 0),
            // Written once so that the pages are there before the clock runs.
            lateness_ns: vec![u32::MAX; spec.remembered() as usize].into_boxed_slice(),
            stats,
        }
    }

    /// Moves the schedule, so that the clock is read after everything is allocated. Before the first query only.
    pub fn start_at(&mut self, start_ns: u64) {
        self.spec.schedule.start_ns = start_ns;
        self.stats.start_at(start_ns);
    }

    /// When the next query is due, in ns; `None` when all are sent.
    pub fn next_due_ns(&self) -> Option<u64> {
        (self.next < self.queries).then(|| self.due_ns(self.next))
    }

    /// The queries to send at `now_ns`, all with one socket; `None` if none is due.
    pub fn due(&self, now_ns: u64) -> Option<Batch> {
        if self.next_due_ns()? > now_ns {
            return None;
        }
        let left_in_block = self.block - self.next % self.block;
        let most = left_in_block.min(self.batch_max).min(self.queries - self.next);
        let queries = (1..most).find(|ahead| self.due_ns(self.next + ahead) > now_ns).unwrap_or(most);
        Some(Batch { socket: self.socket_of(self.next), queries: queries as usize })
    }

    /// Writes the next query and counts it as sent at `now_ns`; returns its length.
    pub fn write(&mut self, now_ns: u64, buffer: &mut [u8]) -> usize {
        let (own, due_ns) = (self.next, self.due_ns(self.next));
        let length = self.workload.write(self.number(own), self.id_of(own), buffer);
        let place = own as usize & (self.lateness_ns.len() - 1);
        self.lateness_ns[place] = u32::try_from(now_ns.saturating_sub(due_ns)).unwrap_or(u32::MAX);
        self.stats.note_sent(due_ns, now_ns);
        if let Some(entry) = self.stats.log.as_mut().and_then(|log| log.entry_mut(own)) {
            *entry = Entry { scheduled_ns: due_ns, sent_ns: now_ns, class: Class::Lost, ..Entry::default() };
        }
        self.next += 1;
        length
    }

    /// Notes that the kernel refused some of the queries just written.
    pub fn note_send_errors(&mut self, count: usize) {
        self.stats.note_send_errors(count as u64);
        let Some(log) = &mut self.stats.log else { return };
        for own in self.next.saturating_sub(count as u64)..self.next {
            if let Some(entry) = log.entry_mut(own) {
                entry.class = Class::SendError;
            }
        }
    }

    /// Takes a datagram that arrived at `at_ns` at one of the lane's sockets.
    pub fn receive(&mut self, at_ns: u64, socket: usize, reply: &[u8]) {
        let (own, header) = match self.identify(socket, reply) {
            Ok(identified) => identified,
            Err(reason) => return self.stats.note_unexpected(reason),
        };
        let (word, bit) = ((own / 64) as usize, 1u64 << (own % 64));
        if self.answered[word] & bit != 0 {
            self.stats.duplicates += 1;
            return;
        }
        self.answered[word] |= bit;
        self.answered_in_total += 1;
        // It was given up for lost.
        self.overdue.1 -= u64::from(word < self.overdue.0);
        let due_ns = self.due_ns(own);
        if at_ns.saturating_sub(due_ns) > self.spec.timeout_ns {
            self.stats.late += 1;
            self.log_answer(own, at_ns, Class::Late, &header);
            return;
        }
        let number = self.number(own);
        let judgement = judge(&self.workload, number, &header, reply);
        self.stats.valid_compat += u64::from(judgement.compat);
        let class = if judgement.strict.is_ok() { Class::Valid } else { Class::Invalid };
        self.log_answer(own, at_ns, class, &header);
        match judgement.strict {
            Ok(()) => {
                let lateness_ns = self.lateness_ns[own as usize & (self.lateness_ns.len() - 1)];
                self.stats.note_valid(due_ns, lateness_ns.into(), at_ns);
            }
            Err(defect) => self.stats.note_invalid(defect, self.workload.expected(number)),
        }
    }

    fn log_answer(&mut self, own: u64, at_ns: u64, class: Class, header: &Header) {
        if let Some(entry) = self.stats.log.as_mut().and_then(|log| log.entry_mut(own)) {
            *entry = Entry {
                received_ns: at_ns,
                class,
                rcode: header.rcode(),
                compat: is_compat(header),
                ..*entry
            };
        }
    }

    /// The query of this lane that the datagram answers: by its name, with the right ID, at the right socket, sent; or
    /// what it is instead.
    fn identify(&self, socket: usize, reply: &[u8]) -> Result<(u64, Header), &'static str> {
        let header = Header::parse(reply).map_err(|_| "no DNS message")?;
        if !header.has(Header::QR) || header.opcode() != 0 {
            return Err("no response to a query");
        }
        let number = self.workload.number_of(reply).ok_or("wrong question")?;
        let own = number.checked_sub(self.spec.lane).ok_or("wrong socket")? / self.spec.lanes;
        match () {
            () if self.number(own) != number => Err("wrong socket"),
            () if own >= self.next => Err("not asked"),
            () if self.id_of(own) != header.id => Err("wrong ID"),
            () if self.socket_of(own) != socket => Err("wrong socket"),
            () => Ok((own, header)),
        }
    }

    /// Whether there is nothing left to wait for at `now_ns`.
    pub fn is_done(&self, now_ns: u64) -> bool {
        self.next == self.queries
            && (self.answered_in_total == self.queries || now_ns >= self.listen_until_ns())
    }

    /// Whether the sender is behind by more than the whole schedule and a second: the trial is void long since, and at
    /// the rates that options allow the rest could take hours.
    pub fn is_hopeless(&self, now_ns: u64) -> bool {
        let length_ns = self.spec.schedule.end_ns() - self.spec.schedule.start_ns;
        self.next_due_ns().is_some_and(|due_ns| now_ns.saturating_sub(due_ns) > length_ns + SECOND_NS)
    }

    /// When the lane stops to listen, in ns.
    pub fn listen_until_ns(&self) -> u64 {
        self.spec.schedule.due_ns(self.spec.schedule.queries.saturating_sub(1)) + self.spec.listen_ns
    }

    /// What was counted so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Queries that are past their timeout at `now_ns` and have no answer, but for the newest 63 of them. What the kernel
    /// refused to send is not lost.
    pub fn lost_so_far(&mut self, now_ns: u64) -> u64 {
        loop {
            let (words, unanswered) = self.overdue;
            let last = words as u64 * 64 + 63;
            if last >= self.next || now_ns <= self.due_ns(last) + self.spec.timeout_ns {
                return unanswered.saturating_sub(self.stats.send_errors);
            }
            self.overdue = (words + 1, unanswered + u64::from(self.answered[words].count_zeros()));
        }
    }

    /// What was counted.
    pub fn finish(self) -> Stats {
        self.stats
    }

    fn number(&self, own: u64) -> u64 {
        own * self.spec.lanes + self.spec.lane
    }

    fn due_ns(&self, own: u64) -> u64 {
        self.spec.schedule.due_ns(self.number(own))
    }

    fn socket_of(&self, own: u64) -> usize {
        (own / self.block % self.spec.sockets) as usize
    }

    /// Counts up by one for each query of a socket, so that 65,536 in flight at one socket differ; multiplied by an odd
    /// number, so that they do not look like a counter.
    fn id_of(&self, own: u64) -> u16 {
        let at_socket = own / (self.block * self.spec.sockets) * self.block + own % self.block;
        (at_socket as u16).wrapping_mul(0x9e35).wrapping_add(0x5bd1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::workload;
    use SECOND_NS;
    use dns64::wire::{CLASS_IN, Message, Section, Writer, rtype};
    use proptest::prelude::*;

    const START: u64 = 1_000_000_000;

    fn lane(rate_qps: u64, lane: u64, lanes: u64, sockets: u64) -> Lane {
        let schedule = Schedule::new(START, rate_qps, SECOND_NS);
        let spec = LaneSpec {
            schedule,
            lane,
            lanes,
            sockets,
            timeout_ns: SECOND_NS,
            listen_ns: SECOND_NS,
            log: false,
        };
        Lane::new(spec, workload(0))
    }

    /// The right answer to a query.
    fn answer(query: &[u8]) -> Vec<u8> {
        let message = Message::parse(query).unwrap();
        let number = workload(0).number_of(query).unwrap();
        let mut buffer = [0; 512];
        let mut writer = Writer::new(&mut buffer, message.header.id, Header::QR, &message.question).unwrap();
        let address = workload(0).expected(number).octets();
        writer.record(Section::Answer, &message.question.name, rtype::AAAA, CLASS_IN, 60, &address).unwrap();
        let length = writer.finish();
        buffer[..length].to_vec()
    }

    /// Sends everything due and returns (socket, query) pairs.
    fn send_all(lane: &mut Lane, now_ns: u64) -> Vec<(usize, Vec<u8>)> {
        let mut sent = Vec::new();
        while let Some(batch) = lane.due(now_ns) {
            for _ in 0..batch.queries {
                let mut buffer = [0; 512];
                let length = lane.write(now_ns, &mut buffer);
                sent.push((batch.socket, buffer[..length].to_vec()));
            }
        }
        sent
    }

    #[test]
    fn every_query_ends_in_exactly_one_class() {
        let mut lane = lane(1000, 0, 1, 4);
        let sent = send_all(&mut lane, START + SECOND_NS);
        assert_eq!(sent.len(), 1000);
        for (n, (socket, query)) in sent.iter().enumerate() {
            let due = START + n as u64 * 1_000_000;
            let reply = answer(query);
            match n % 10 {
                0 => lane.receive(due + SECOND_NS + 1, *socket, &reply),
                1 => lane.receive(due + 5, socket + 1, &reply),
                2 => lane.receive(due + 5, *socket, &[&[reply[0] ^ 1], &reply[1..]].concat()),
                3 => lane.receive(due + 5, *socket, &[&reply[..3], &[2], &reply[4..]].concat()),
                4 => (),
                _ => {
                    lane.receive(due + 7_000_000, *socket, &reply);
                    lane.receive(due + 8_000_000, *socket, &reply);
                }
            }
        }
        assert!(!lane.is_done(lane.listen_until_ns() - 1) && lane.is_done(lane.listen_until_ns()));
        let stats = lane.finish();
        assert_eq!((stats.sent, stats.valid, stats.invalid, stats.late), (1000, 500, 100, 100));
        assert_eq!((stats.duplicates, stats.unexpected), (500, 200));
        assert_eq!(stats.defects.get("SERVFAIL"), Some(&100));
        assert_eq!(stats.unexpected_reasons, [("wrong ID", 100), ("wrong socket", 100)].into());
        assert_eq!(stats.latency().p50 / 10_000, 700);
    }

    #[test]
    fn what_is_overdue_is_lost_until_it_comes_late() {
        let mut lane = lane(1000, 0, 1, 1);
        let sent = send_all(&mut lane, START + SECOND_NS);
        for (n, (socket, query)) in sent.iter().enumerate().filter(|(n, _)| n % 4 != 0) {
            lane.receive(START + n as u64 * 1_000_000 + 5, *socket, &answer(query));
        }
        assert_eq!(lane.lost_so_far(START + SECOND_NS), 0);
        assert_eq!(lane.lost_so_far(START + SECOND_NS + 127_000_001), 32);
        assert_eq!(lane.lost_so_far(START + 3 * SECOND_NS), 240, "960 of 1000 are whole words");
        lane.receive(START + 3 * SECOND_NS, sent[8].0, &answer(&sent[8].1));
        assert_eq!(lane.lost_so_far(START + 3 * SECOND_NS), 239);
    }

    #[test]
    fn the_longest_timeout_at_the_highest_rate_is_no_overflow() {
        let schedule = Schedule::new(0, 100_000_000, 86_400 * SECOND_NS);
        let timeout_ns = 86_400 * SECOND_NS;
        let spec = LaneSpec {
            schedule,
            lane: 0,
            lanes: 1,
            sockets: 1,
            timeout_ns,
            listen_ns: timeout_ns,
            log: false,
        };
        assert!(spec.memory_octets() > 1 << 40, "the caller refuses what no machine has");
        let short = LaneSpec { schedule: Schedule::new(0, 300_000, SECOND_NS / 100), ..spec };
        assert!(short.memory_octets() < 1 << 20);
        assert_eq!(Lane::new(short, workload(0)).queries, 3000);
    }

    #[test]
    fn a_lane_may_be_made_before_its_start_is_known() {
        let mut lane = lane(1000, 0, 1, 1);
        lane.start_at(START + 7);
        assert_eq!(lane.next_due_ns(), Some(START + 7));
        send_all(&mut lane, START + SECOND_NS);
        assert_eq!(lane.finish().series()[0].sent, 1000);
    }

    #[test]
    fn lanes_share_the_schedule_without_gap_or_overlap() {
        let mut numbers: Vec<u64> = (0..3)
            .flat_map(|k| {
                let mut lane = lane(1000, k, 3, 2);
                assert_eq!(lane.next_due_ns(), Some(START + k * 1_000_000));
                send_all(&mut lane, START + SECOND_NS)
            })
            .map(|(_, query)| workload(0).number_of(&query).unwrap())
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn ids_in_flight_at_a_socket_differ() {
        let mut lane = lane(100_000, 0, 1, 3);
        let sent = send_all(&mut lane, START + SECOND_NS);
        let distinct: std::collections::HashSet<_> =
            sent.iter().map(|(socket, query)| (*socket, query[0], query[1])).collect();
        assert_eq!(distinct.len(), sent.len());
    }

    #[test]
    fn a_sender_that_is_late_by_its_whole_schedule_gives_up() {
        let mut lane = lane(1000, 0, 1, 1);
        assert!(!lane.is_hopeless(START + 2 * SECOND_NS) && lane.is_hopeless(START + 2 * SECOND_NS + 1));
        send_all(&mut lane, START + SECOND_NS);
        assert!(!lane.is_hopeless(u64::MAX), "all is sent");
    }

    #[test]
    fn a_tardy_sender_catches_up_in_small_batches() {
        let lane = lane(100_000, 0, 1, 4);
        let batch = lane.due(START + 100_000_000).unwrap();
        assert!(batch.queries <= 10, "1 % of a 10 ms window is 10 queries, not {}", batch.queries);
        assert_eq!(lane.due(START).unwrap().queries, 1);
        assert_eq!(lane.due(START - 1), None);
    }

    proptest! {
        #[test]
        fn any_datagram_is_taken(octets in prop::collection::vec(any::<u8>(), 0..120), flip in 0usize..90, with: u8) {
            let mut lane = lane(1000, 0, 1, 1);
            let sent = send_all(&mut lane, START + 10_000_000);
            lane.receive(START, 0, &octets);
            let mut reply = answer(&sent[3].1);
            let at = flip % reply.len();
            reply[at] ^= with;
            lane.receive(START + 20_000_000, 0, &reply);
            let stats = lane.finish();
            prop_assert_eq!(stats.valid + stats.invalid + stats.late + stats.unexpected, 2);
        }
    }
}
