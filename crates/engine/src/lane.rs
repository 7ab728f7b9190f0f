//! One thread's share of a trial, without its sockets and its clock.
//!
//! Of T lanes, lane k takes the queries k, k + T, k + 2T, ... of the schedule. The number of a query within its lane
//! fixes the socket and the ID, and these lead back to the number: a reply is checked against both with no table of
//! outstanding queries. Then its question must be the one of that query. Neighbouring queries share a socket in small
//! blocks, so that a sender that is behind can catch up with one system call.

mod closed;
mod ids;

use dns64::wire::{HEADER_LENGTH, Header};

use crate::matcher::{Judgement, is_compat, judge};
use crate::pacer::{Cursor, SECOND_NS, Schedule};
use crate::querylog::{Class, Entry, QueryLog};
use crate::stats::Stats;
use crate::workload::{Feed, Workload, question};
use closed::Closed;
use ids::Ids;

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
    /// How long after the last query is due the lane listens, in ns; at least the timeout. Where names are asked several
    /// times, this is also how long after its sending a query is known by its ID.
    pub listen_ns: u64,
    /// Keep a log of every query ([`Stats::log`]).
    pub log: bool,
}

impl LaneSpec {
    /// The number of queries of this lane.
    fn queries(&self) -> u64 {
        self.schedule.queries.saturating_sub(self.lane).div_ceil(self.lanes.max(1))
    }

    /// How many queries are remembered in flight: a quarter more than are sent while the last answer is waited for.
    fn remembered(&self) -> u64 {
        let wait_ns = u128::from(self.timeout_ns.max(self.listen_ns));
        let in_time =
            u128::from(self.schedule.peak_qps() / self.lanes.max(1) + 1) * wait_ns / u128::from(SECOND_NS);
        let mut in_time = u64::try_from(in_time + in_time / 4).unwrap_or(u64::MAX);
        if self.schedule.model.is_closed() {
            // Nobody knows how fast a closed loop gets; it has room for any window at least.
            in_time = in_time.max(CLOSED_REMEMBERED_MIN);
        }
        let ahead = in_time.min(self.queries()).saturating_add(AHEAD);
        ahead.clamp(REMEMBERED_MIN, REMEMBERED_MAX).next_power_of_two()
    }

    /// About how much memory a [`Lane`] allocates, in octets.
    pub fn memory_octets(&self) -> u64 {
        let flights = self.remembered().saturating_mul(size_of::<Flight>() as u64);
        let log = if self.log { QueryLog::memory_octets(self.queries()) } else { 0 };
        (self.queries() / 8)
            .saturating_add(log)
            .saturating_add(flights)
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

/// What is remembered of a query, from shortly before it is due until no answer is waited for.
#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    due_ns: u64,
    /// How late it was sent, in ns.
    lateness_ns: u32,
    /// Of its question, where names are asked several times.
    check: u32,
}

/// A lane at work.
pub struct Lane {
    spec: LaneSpec,
    workload: Workload,
    feed: Option<Box<dyn Feed>>,
    /// The number of queries of this lane.
    queries: u64,
    /// The next to be sent, counted within the lane.
    next: u64,
    batch_max: u64,
    ids: Ids,
    cursor: Cursor,
    closed: Option<Closed>,
    /// By number, modulo their length, which is a power of two.
    flights: Box<[Flight]>,
    /// The instants of the queries before this one are in `flights`.
    known: u64,
    answered: Box<[u64]>,
    answered_in_total: u64,
    /// Words of `answered` whose queries are all past their timeout, and how many of those have no answer.
    overdue: (usize, u64),
    by_name: bool,
    stats: Stats,
}

/// Between two batches of a tardy sender no more than this share of a 10 ms window is sent at once.
const BATCH_SHARE_OF_10_MS: u64 = 100;
/// The largest batch.
const BATCH_MAX: u64 = 64;
/// The instants of so many queries are computed at once, and before they are needed.
const AHEAD: u64 = 2 * BATCH_MAX;
/// The fewest queries that are remembered.
const REMEMBERED_MIN: u64 = 1 << 12;
/// Likewise in a closed loop: many times the largest window.
const CLOSED_REMEMBERED_MIN: u64 = 1 << 20;
/// A number that no memory holds, and whose next power of two is a number still.
const REMEMBERED_MAX: u64 = 1 << 62;

impl Lane {
    /// Allocates everything the lane will need.
    pub fn new(spec: LaneSpec, workload: Workload) -> Self {
        let spec = LaneSpec { lanes: spec.lanes.max(1), sockets: spec.sockets.max(1), ..spec };
        let queries = spec.queries();
        let mut stats = Stats::new(spec.schedule);
        stats.log = spec.log.then(|| QueryLog::new(spec.lane, spec.lanes, queries));
        let batch_max = (spec.schedule.peak_qps() / 100 / BATCH_SHARE_OF_10_MS).clamp(1, BATCH_MAX);
        let remembered = spec.remembered() as usize;
        let mut lane = Self {
            feed: workload.open(spec.lane, spec.lanes),
            queries,
            next: 0,
            batch_max,
            ids: Ids::new(spec.sockets, batch_max),
            cursor: Cursor::new(spec.schedule, spec.lane, spec.lanes),
            closed: Closed::new(&spec.schedule.model, remembered),
            // Written once so that the pages are there before the clock runs.
            flights: vec![Flight { check: 1, ..Flight::default() }; remembered].into_boxed_slice(),
            known: 0,
            answered: vec![0; queries.div_ceil(64) as usize].into_boxed_slice(),
            answered_in_total: 0,
            overdue: (0, 0),
            by_name: workload.is_by_name(),
            stats,
            workload,
            spec,
        };
        lane.look_ahead();
        lane
    }

    /// Moves the schedule, so that the clock is read after everything is allocated. Before the first query only.
    pub fn start_at(&mut self, start_ns: u64) {
        let before_ns = std::mem::replace(&mut self.spec.schedule.start_ns, start_ns);
        self.stats.start_at(start_ns);
        self.cursor.start_at(start_ns);
        for flight in &mut self.flights[..self.known as usize] {
            flight.due_ns = flight.due_ns - before_ns + start_ns;
        }
    }

    /// When the next query is due, in ns; `None` when all are sent. In a closed loop: at once, or when the oldest query
    /// has waited for long enough.
    pub fn next_due_ns(&self) -> Option<u64> {
        if self.next >= self.queries {
            return None;
        }
        let Some(closed) = &self.closed else { return Some(self.flight(self.next).due_ns) };
        match closed.oldest(self.next) {
            Some(oldest) if closed.ready() == 0 => {
                Some(self.flight(oldest).due_ns.saturating_add(self.spec.timeout_ns))
            }
            _ => Some(self.spec.schedule.start_ns),
        }
    }

    /// The queries to send at `now_ns`, all with one socket; `None` if none is due.
    #[inline]
    pub fn due(&mut self, now_ns: u64) -> Option<Batch> {
        if self.closed.is_some() {
            return self.due_in_loop(now_ns);
        }
        if self.next >= self.queries || self.flight(self.next).due_ns > now_ns {
            return None;
        }
        let (socket, left_in_block) = self.ids.next_block();
        let mut most = left_in_block.min(self.batch_max).min(self.queries - self.next);
        if self.feed.is_some() {
            most = most.min(self.fed(now_ns)?);
        }
        let queries = (1..most).find(|ahead| self.flight(self.next + ahead).due_ns > now_ns).unwrap_or(most);
        Some(Batch { socket, queries: queries as usize })
    }

    /// How many queries the feed has ready, if any.
    fn fed(&mut self, now_ns: u64) -> Option<u64> {
        let feed = self.feed.as_mut()?;
        let ready = feed.ready() as u64;
        if ready > 0 {
            return Some(ready);
        }
        if let Some(why) = feed.ended() {
            self.stats.ran_out.get_or_insert(why);
            self.queries = self.next;
        } else if now_ns >= self.spec.schedule.start_ns {
            self.stats.starved += 1;
        }
        None
    }

    /// Likewise in a closed loop: what free slots allow, until the time is over.
    fn due_in_loop(&mut self, now_ns: u64) -> Option<Batch> {
        self.give_up_waiting(now_ns);
        if now_ns < self.spec.schedule.start_ns {
            return None;
        }
        if now_ns >= self.spec.schedule.end_ns() {
            self.queries = self.next;
            return None;
        }
        if self.next >= self.queries {
            if !self.spec.schedule.ends_by_count() && self.stats.ran_out.is_none() {
                self.stats.ran_out = Some(format!(
                    "the closed loop used up the {} queries it had room for before its time was over",
                    self.spec.schedule.queries
                ));
            }
            return None;
        }
        let ready = self.closed.as_ref().map_or(0, Closed::ready);
        let (socket, left_in_block) = self.ids.next_block();
        let mut most = left_in_block.min(self.batch_max).min(self.queries - self.next).min(ready);
        if most > 0 && self.feed.is_some() {
            most = most.min(self.fed(now_ns)?);
        }
        (most > 0).then_some(Batch { socket, queries: most as usize })
    }

    /// Frees the slots of queries whose answers would be late.
    fn give_up_waiting(&mut self, now_ns: u64) {
        let Some(mut closed) = self.closed.take() else { return };
        while let Some(oldest) = closed.oldest(self.next) {
            let waited_ns = now_ns.saturating_sub(self.flight(oldest).due_ns);
            if !self.is_answered(oldest) {
                if waited_ns <= self.spec.timeout_ns {
                    break;
                }
                closed.ended(oldest, now_ns);
            }
            closed.pass_oldest();
        }
        self.closed = Some(closed);
    }

    /// Writes the next query and counts it as sent at `now_ns`; returns its length.
    #[inline]
    pub fn write(&mut self, now_ns: u64, buffer: &mut [u8]) -> usize {
        let own = self.next;
        let (socket, _) = self.ids.next_block();
        let source = self.spec.lane.wrapping_mul(self.spec.sockets).wrapping_add(socket as u64);
        let (number, id) = (self.number(own), self.ids.take());
        let length = match &mut self.feed {
            None => self.workload.write_from(number, id, source, buffer),
            Some(feed) => {
                feed.next().map_or(0, |query| self.workload.write_recorded(query, number, id, source, buffer))
            }
        };
        let due_ns = if let Some(closed) = &mut self.closed {
            closed.sent(own, now_ns);
            self.stats.note_due(now_ns);
            now_ns
        } else {
            self.flight(own).due_ns
        };
        let lateness_ns = u32::try_from(now_ns.saturating_sub(due_ns)).unwrap_or(u32::MAX);
        let check = if self.by_name { 0 } else { check_of(buffer.get(..length).unwrap_or_default()) };
        *self.flight_mut(own) = Flight { due_ns, lateness_ns, check };
        self.stats.note_sent(due_ns, now_ns);
        if let Some(log) = &mut self.stats.log {
            note(log, own, |entry| {
                *entry =
                    Entry { scheduled_ns: due_ns, sent_ns: now_ns, class: Class::Lost, ..Entry::default() };
            });
        }
        self.next += 1;
        if self.known < self.next + BATCH_MAX {
            self.look_ahead();
        }
        length
    }

    /// Computes the instants of the queries that come next.
    #[inline(never)]
    fn look_ahead(&mut self) {
        if self.closed.is_some() {
            return;
        }
        let until = (self.next + AHEAD).min(self.queries);
        for own in self.known..until {
            let due_ns = self.cursor.next_ns();
            self.flight_mut(own).due_ns = due_ns;
            self.stats.note_due(due_ns);
        }
        self.known = until.max(self.known);
    }

    /// Notes that the kernel refused some of the queries just written.
    pub fn note_send_errors(&mut self, count: usize) {
        self.stats.note_send_errors(count as u64);
        if let Some(log) = &mut self.stats.log {
            for own in self.next.saturating_sub(count as u64)..self.next {
                note(log, own, |entry| entry.class = Class::SendError);
            }
        }
    }

    /// Takes a datagram that arrived at `at_ns` at one of the lane's sockets.
    #[inline]
    pub fn receive(&mut self, at_ns: u64, socket: usize, reply: &[u8]) {
        let (own, question_end, header) = match self.identify(socket, reply) {
            Ok(identified) => identified,
            Err(reason) => return self.stats.note_unexpected(reason),
        };
        if self.is_answered(own) {
            self.stats.duplicates += 1;
            return;
        }
        self.answered[(own / 64) as usize] |= 1 << (own % 64);
        self.answered_in_total += 1;
        // It was given up for lost.
        self.overdue.1 -= u64::from(((own / 64) as usize) < self.overdue.0);
        self.stats.rcodes[usize::from(header.rcode())] += 1;
        if let Some(closed) = &mut self.closed {
            closed.ended(own, at_ns);
        }
        // What is not remembered any more was sent longer ago than the timeout.
        let remembered = self.is_remembered(own);
        let Flight { due_ns, lateness_ns, .. } = *self.flight(own);
        if !remembered || at_ns.saturating_sub(due_ns) > self.spec.timeout_ns {
            self.stats.late += 1;
            self.log_answer(own, at_ns, Class::Late, &header);
            return;
        }
        let expected = self.workload.expectation(self.number(own), reply, question_end);
        let Judgement { strict, compat } = judge(expected, &header, reply, question_end);
        self.stats.valid_compat += u64::from(compat);
        match strict {
            Ok(()) => {
                self.stats.note_valid(due_ns, lateness_ns.into(), at_ns);
                self.log_answer(own, at_ns, Class::Valid, &header);
            }
            Err(defect) => {
                self.stats.note_invalid(defect, expected.address());
                self.log_answer(own, at_ns, Class::Invalid, &header);
            }
        }
    }

    #[inline]
    fn log_answer(&mut self, own: u64, at_ns: u64, class: Class, header: &Header) {
        if let Some(log) = &mut self.stats.log {
            note(log, own, |entry| {
                let (rcode, compat) = (header.rcode(), is_compat(header));
                *entry = Entry { received_ns: at_ns, class, rcode, compat, ..*entry };
            });
        }
    }

    /// The query of this lane that the datagram answers, and where its question ends: sent with this socket and ID, with
    /// the same question; or what it is instead.
    #[inline]
    fn identify(&self, socket: usize, reply: &[u8]) -> Result<(u64, usize, Header), &'static str> {
        let header = Header::parse(reply).map_err(|_| "no DNS message")?;
        if !header.has(Header::QR) || header.opcode() != 0 {
            return Err("no response to a query");
        }
        if !self.by_name {
            let found = self.identify_by_id(socket, header.id, reply);
            return found.map(|(own, end)| (own, end, header)).ok_or("wrong question, ID or socket");
        }
        let newest = self.ids.candidates(socket, header.id).next();
        let own = match newest.filter(|&own| self.workload.repeats(self.number(own), reply)) {
            Some(newest) => newest,
            None => self.identify_by_name(socket, header.id, reply)?,
        };
        Ok((own, self.workload.question_end(), header))
    }

    /// In another case, or an older query with the same ID.
    fn identify_by_name(&self, socket: usize, id: u16, reply: &[u8]) -> Result<u64, &'static str> {
        let number = self.workload.number_of(reply).ok_or("wrong question")?;
        let own = number.checked_sub(self.spec.lane).ok_or("wrong socket")? / self.spec.lanes;
        let (own_socket, own_id) = self.ids.of(own);
        match () {
            () if self.number(own) != number => Err("wrong socket"),
            () if own >= self.next => Err("not asked"),
            () if own_id != id => Err("wrong ID"),
            () if own_socket != socket => Err("wrong socket"),
            () => Ok(own),
        }
    }

    /// Of the queries with this socket, ID and question the newest that has no answer yet. Once IDs are used again, an
    /// answer may be taken for that of a later query with the same question; that one's own answer is then taken for the
    /// earlier one's, so that no answer is lost or counted twice.
    fn identify_by_id(&self, socket: usize, id: u16, reply: &[u8]) -> Option<(u64, usize)> {
        let end = question::end(reply)?;
        let check = question::check(reply.get(HEADER_LENGTH..end)?);
        let mut same = self
            .ids
            .candidates(socket, id)
            .take_while(|own| self.is_remembered(*own))
            .filter(|own| self.flight(*own).check == check);
        let newest = same.next()?;
        let open = |own: &u64| !self.is_answered(*own);
        let own = if open(&newest) { newest } else { same.find(open).unwrap_or(newest) };
        Some((own, end))
    }

    /// Whether there is nothing left to wait for at `now_ns`.
    pub fn is_done(&self, now_ns: u64) -> bool {
        self.next >= self.queries
            && (self.answered_in_total >= self.queries || now_ns >= self.listen_until_ns())
    }

    /// Whether the sender is behind by more than the whole schedule and a second: the trial is void long since, and at
    /// the rates that options allow the rest could take hours.
    pub fn is_hopeless(&self, now_ns: u64) -> bool {
        let length_ns = self.spec.schedule.end_ns() - self.spec.schedule.start_ns;
        self.closed.is_none()
            && self.next_due_ns().is_some_and(|due_ns| now_ns.saturating_sub(due_ns) > length_ns + SECOND_NS)
    }

    /// When the lane stops to listen, in ns.
    pub fn listen_until_ns(&self) -> u64 {
        let schedule = &self.spec.schedule;
        let last_ns = if schedule.is_closed_form() {
            schedule.due_ns(schedule.queries.saturating_sub(1))
        } else {
            schedule.end_ns()
        };
        last_ns.saturating_add(self.spec.listen_ns)
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
            let is_waited_for =
                |own| self.is_remembered(own) && now_ns <= self.flight(own).due_ns + self.spec.timeout_ns;
            if last >= self.next || is_waited_for(last) {
                return unanswered.saturating_sub(self.stats.send_errors);
            }
            self.overdue = (words + 1, unanswered + u64::from(self.answered[words].count_zeros()));
        }
    }

    /// What was counted.
    pub fn finish(mut self) -> Stats {
        if let Some(closed) = &self.closed {
            self.stats.experiments = closed.experiments;
            self.stats.active_ns = closed.last_ns.saturating_sub(self.spec.schedule.start_ns);
        }
        self.stats
    }

    #[inline]
    fn number(&self, own: u64) -> u64 {
        own * self.spec.lanes + self.spec.lane
    }

    fn is_remembered(&self, own: u64) -> bool {
        // Instants that are known in advance have taken the places of the oldest.
        own + self.flights.len() as u64 >= self.known.max(self.next)
    }

    fn is_answered(&self, own: u64) -> bool {
        self.answered[(own / 64) as usize] & 1 << (own % 64) != 0
    }

    #[inline]
    fn flight(&self, own: u64) -> &Flight {
        &self.flights[own as usize & (self.flights.len() - 1)]
    }

    #[inline]
    fn flight_mut(&mut self, own: u64) -> &mut Flight {
        &mut self.flights[own as usize & (self.flights.len() - 1)]
    }
}

/// The check value of a query's question.
fn check_of(query: &[u8]) -> u32 {
    let question = question::end(query).and_then(|end| query.get(HEADER_LENGTH..end));
    question.map_or(0, question::check)
}

#[cold]
fn note(log: &mut QueryLog, own: u64, change: impl FnOnce(&mut Entry)) {
    if let Some(entry) = log.entry_mut(own) {
        change(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::workload;
    use crate::workload::{Choice, Feeds, Recording, Variation, WorkloadSpec};
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
        let mut lane = lane(100_000, 0, 1, 4);
        let batch = lane.due(START + 100_000_000).unwrap();
        assert!(batch.queries <= 10, "1 % of a 10 ms window is 10 queries, not {}", batch.queries);
        assert_eq!(lane.due(START).unwrap().queries, 1);
        assert_eq!(lane.due(START - 1), None);
    }

    fn lane_with(text: &str, choice: Choice, sockets: u64) -> Lane {
        let schedule = Schedule::with_model(START, 1000, SECOND_NS, text.parse().unwrap());
        let spec = LaneSpec {
            schedule,
            lane: 0,
            lanes: 1,
            sockets,
            timeout_ns: SECOND_NS / 10,
            listen_ns: SECOND_NS,
            log: true,
        };
        let variation = Variation { choice, ..Variation::default() };
        Lane::new(spec, Workload::new(WorkloadSpec { variation, ..workload(0).spec().clone() }).unwrap())
    }

    /// An answer with any address, or another RCODE.
    fn response(query: &[u8], rcode: u8) -> Vec<u8> {
        let mut reply = query.to_vec();
        reply[2] |= 0x80;
        reply[3] |= rcode;
        reply
    }

    #[test]
    fn the_log_says_what_became_of_each() {
        let mut lane = lane_with("constant", Choice::Each, 2);
        let sent = send_all(&mut lane, START + SECOND_NS);
        lane.note_send_errors(1);
        for (n, (socket, query)) in sent.iter().enumerate().take(10) {
            let due = START + n as u64 * 1_000_000;
            match n % 3 {
                0 => lane.receive(due + 5, *socket, &answer(query)),
                1 => lane.receive(due + 6, *socket, &response(query, 5)),
                _ => lane.receive(due + SECOND_NS, *socket, &answer(query)),
            }
        }
        let stats = lane.finish();
        assert_eq!((stats.rcodes[0], stats.rcodes[5]), (7, 3));
        let log = stats.log.unwrap();
        assert_eq!(log.len(), 1000);
        let entry = |n| log.get(n).copied().unwrap();
        let due = START + 3_000_000;
        let sent_ns = START + SECOND_NS;
        let valid = Entry {
            scheduled_ns: due,
            sent_ns,
            received_ns: due + 5,
            class: Class::Valid,
            rcode: 0,
            compat: true,
        };
        assert_eq!(entry(3), valid);
        assert_eq!((entry(4).class, entry(4).rcode), (Class::Invalid, 5));
        assert_eq!((entry(5).class, entry(10).class), (Class::Late, Class::Lost));
        assert_eq!((entry(10).received_ns, entry(999).class), (0, Class::SendError));
    }

    #[test]
    fn names_asked_often_are_told_apart_by_their_ids() {
        for choice in [Choice::Cached { share_pct: 100, hot_names: 3 }, Choice::Zipf { exponent: 2.0 }] {
            let mut lane = lane_with("constant", choice, 1);
            let sent = send_all(&mut lane, START + SECOND_NS);
            for (n, (socket, query)) in sent.iter().enumerate().rev() {
                let due = START + n as u64 * 1_000_000;
                let other = &sent[(n + 1) % sent.len()].1;
                // The right ID with another question, a wrong ID, then an answer, and it again.
                if query[12..28] != other[12..28] {
                    lane.receive(due, *socket, &response(&[&query[..12], &other[12..]].concat(), 0));
                    lane.stats.unexpected -= 1;
                }
                lane.receive(due, socket + 1, &response(query, 0));
                lane.receive(due + 7, *socket, &response(query, 3));
                lane.receive(due + 9, *socket, &response(query, 3));
            }
            let stats = lane.finish();
            assert_eq!(
                (stats.sent, stats.invalid, stats.duplicates, stats.unexpected),
                (1000, 1000, 1000, 1000)
            );
        }
    }

    #[test]
    fn answers_after_a_wrap_of_the_ids_are_counted_once_each() {
        let schedule = Schedule::new(START, 200_000, SECOND_NS);
        let spec = LaneSpec {
            schedule,
            lane: 0,
            lanes: 1,
            sockets: 1,
            timeout_ns: SECOND_NS / 100,
            listen_ns: 10 * SECOND_NS,
            log: false,
        };
        for choice in [Choice::Each, Choice::Cached { share_pct: 100, hot_names: 1 }] {
            let variation = Variation { choice, any_response: true, ..Variation::default() };
            let spec_of = WorkloadSpec { variation, ..workload(0).spec().clone() };
            let mut lane = Lane::new(spec, Workload::new(spec_of).unwrap());
            let sent = send_all(&mut lane, START + SECOND_NS);
            // All at the end: only the last 10 ms are in time.
            for (socket, query) in &sent {
                lane.receive(START + SECOND_NS, *socket, &response(query, 0));
            }
            assert!(lane.is_done(START + SECOND_NS));
            let stats = lane.finish();
            assert_eq!((stats.valid, stats.late, stats.duplicates, stats.unexpected), (2000, 198_000, 0, 0));
        }
    }

    #[test]
    fn a_poisson_process_sends_what_is_due_and_no_more() {
        let mut lane = lane_with("poisson:3", Choice::Each, 4);
        let (mut now_ns, mut sent) = (START, 0);
        while let Some(due_ns) = lane.next_due_ns() {
            assert!(due_ns >= now_ns && due_ns < START + SECOND_NS);
            now_ns = due_ns;
            sent += send_all(&mut lane, now_ns).len();
        }
        let stats = lane.finish();
        assert_eq!((sent, stats.sent, stats.lateness_ns.max()), (1000, 1000, 0));
        assert_eq!(stats.windows().ms10.worst_pct, 0.0);
    }

    #[test]
    fn a_window_waits_for_answers_and_for_the_timeout() {
        let mut lane = lane_with("closed:3", Choice::Each, 2);
        let first = send_all(&mut lane, START);
        assert_eq!((first.len(), lane.due(START)), (3, None));
        assert_eq!(lane.next_due_ns(), Some(START + SECOND_NS / 10), "the oldest one's timeout");
        lane.receive(START + 5000, first[1].0, &answer(&first[1].1));
        lane.receive(START + 5000, first[1].0, &answer(&first[1].1));
        let second = send_all(&mut lane, START + 6000);
        assert_eq!(second.len(), 1, "a second answer frees nothing");
        let timeout = START + SECOND_NS / 10 + 1;
        assert_eq!(send_all(&mut lane, timeout).len(), 2, "two gave up");
        lane.receive(timeout + 1, first[0].0, &answer(&first[0].1));
        assert_eq!(lane.due(timeout + 1), None, "a late answer frees nothing");
        lane.receive(timeout + 1, second[0].0, &answer(&second[0].1));
        assert_eq!(send_all(&mut lane, timeout + 2).len(), 1, "one came in time");
        assert_eq!(lane.due(START + SECOND_NS), None, "the time is over");
        assert!(lane.next_due_ns().is_none() && lane.is_done(lane.listen_until_ns()));
        let stats = lane.finish();
        assert_eq!((stats.sent, stats.valid, stats.late, stats.duplicates), (7, 2, 1, 1));
        assert_eq!(stats.latency_ns.min(), 5000, "from the sending");
    }

    #[test]
    fn an_experiment_ends_when_all_its_slots_have() {
        let mut lane = lane_with("experiments:4x3", Choice::Each, 2);
        let mut now_ns = START;
        while !lane.is_done(now_ns) {
            let sent = send_all(&mut lane, now_ns);
            assert!(sent.len() <= 4, "one for each slot");
            now_ns += 1000;
            for (socket, query) in &sent {
                lane.receive(now_ns, *socket, &answer(query));
            }
        }
        assert_eq!(now_ns, START + 3 * 64_000, "256 queries in rounds of four");
        let stats = lane.finish();
        let experiments = stats.experiments.to_record().unwrap();
        assert_eq!((experiments.count, experiments.mean_ns, experiments.sd_ns), (3, 64_000.0, 0.0));
        assert_eq!((stats.sent, stats.valid, stats.ran_out), (768, 768, None));
    }

    #[test]
    fn a_slow_file_is_told_from_one_that_ended() {
        #[derive(Debug)]
        struct Trickle;
        struct Drops(usize);
        impl Feeds for Trickle {
            fn open(&self, _: u64, _: u64) -> Box<dyn Feed> {
                Box::new(Drops(0))
            }
        }
        impl Feed for Drops {
            fn ready(&mut self) -> usize {
                self.0 += 1;
                usize::from((2..5).contains(&self.0))
            }
            fn next(&mut self) -> Option<&[u8]> {
                Some(b"\x01a\0\0\x1c\0\x01")
            }
            fn ended(&mut self) -> Option<String> {
                (self.0 > 5).then(|| "it ended".into())
            }
        }
        let recording = Recording::Stream(std::sync::Arc::new(Trickle));
        let choice = Choice::Recorded { recording, whole_messages: false };
        let mut lane = lane_with("constant", choice, 2);
        assert!(send_all(&mut lane, START + SECOND_NS).is_empty(), "nothing was read yet");
        let sent = send_all(&mut lane, START + SECOND_NS);
        assert_eq!(sent.len(), 3);
        lane.receive(START + 10, sent[0].0, &response(&sent[0].1, 3));
        assert_eq!(lane.due(START + SECOND_NS), None);
        assert!(lane.next_due_ns().is_none());
        let stats = lane.finish();
        assert_eq!((stats.starved, stats.valid, stats.ran_out.as_deref()), (2, 1, Some("it ended")));
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
