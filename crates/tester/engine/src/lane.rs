//! One thread's share of a trial, without its sockets and its clock.
//!
//! Of T lanes, lane k takes the queries k, k + T, k + 2T, ... of the schedule. The number of a query within
//! its lane fixes the socket and the ID, and these lead back to the number: a reply is checked against both
//! with no table of outstanding queries. Then its question must be the one of that query. Neighbouring
//! queries share a socket in small blocks, so that a sender that is behind can catch up with one system call.

mod clients;
mod closed;
mod cookies;
mod fates;
mod ids;
mod signing;

use dns64::wire::{HEADER_LENGTH, Header};

use crate::matcher::{Defect, Judgement, is_compat, judge};
use crate::pacer::{Cursor, Model, SECOND_NS, Schedule};
use crate::querylog::{Class, Entry, QueryLog};
use crate::stats::Stats;
use crate::workload::{Client, Draw, Feed, Workload, question};
use clients::Clients;
use closed::ClosedLoop;
use cookies::Cookies;
use ids::Ids;
use signing::Signing;

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
    /// How long after the last query is due the lane listens, in ns; at least the timeout. Where names are
    /// asked several times, this is also how long after its sending a query is known by its ID.
    pub listen_ns: u64,
    /// Keep a log of every query ([`Stats::log`]).
    pub log: bool,
}

impl LaneSpec {
    /// The number of queries of this lane.
    fn queries(&self) -> u64 {
        match self.schedule.model {
            Model::Recorded(recorded) => recorded.queries_of(self.lane, self.lanes),
            _ => self.schedule.queries.saturating_sub(self.lane).div_ceil(self.lanes.max(1)),
        }
    }

    /// How many queries are remembered in flight: a quarter more than are sent while the last answer is
    /// waited for.
    fn remembered(&self) -> u64 {
        // All recorded queries of a time may be those of one client.
        let lanes = if self.is_recorded() { 1 } else { self.lanes.max(1) };
        let in_time = self.schedule.due_within(self.timeout_ns.max(self.listen_ns)) / lanes;
        let mut in_time = in_time.saturating_add(in_time / 4 + 1);
        if self.schedule.model.is_closed() {
            // Nobody knows how fast a closed loop gets; it has room for any window at least.
            in_time = in_time.max(CLOSED_REMEMBERED_MIN);
        }
        let ahead = in_time.min(self.queries()).saturating_add(AHEAD);
        ahead.clamp(REMEMBERED_MIN, REMEMBERED_MAX).next_power_of_two()
    }

    /// The number of a socket of this lane among those of all lanes: each has its own, whatever the others'
    /// numbers of sockets.
    fn source(&self, socket: usize) -> u64 {
        (socket as u64).wrapping_mul(self.lanes).wrapping_add(self.lane)
    }

    /// Whether instant and client of each query come with it.
    fn is_recorded(&self) -> bool {
        matches!(self.schedule.model, Model::Recorded(_))
    }

    /// About how much memory a [`Lane`] allocates, in octets.
    pub fn memory_octets(&self) -> u64 {
        let remembered = self.remembered();
        // Also where clients ask in turn, which need none of it.
        let clients = Clients::memory_octets(self.sockets, remembered);
        let flights = remembered.saturating_mul(size_of::<Flight>() as u64).saturating_add(clients);
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
    /// Where the number of a query does not tell its client, in the place of `ids`.
    clients: Option<Clients>,
    /// Who asks, where that follows a law.
    draw: Option<Draw>,
    cursor: Cursor,
    closed: Option<ClosedLoop>,
    /// By number, modulo their length, which is a power of two.
    flights: Box<[Flight]>,
    /// The instants of the queries before this one are in `flights`.
    known: u64,
    /// A bit for each query: answered, or lost with its connection.
    answered: Box<[u64]>,
    answered_in_total: u64,
    /// Words of `answered` whose queries are all past their timeout, and how many of those have no answer.
    overdue: (usize, u64),
    by_name: bool,
    /// Where every client has cookies.
    cookies: Option<Cookies>,
    /// Where every query is signed.
    signing: Option<Signing>,
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
        let variation = &workload.spec().variation;
        let in_order = spec.is_recorded() || spec.schedule.model.is_closed();
        let draw = Draw::new(variation.activity, spec.sockets, variation.seed).filter(|_| !in_order);
        let mut lane = Self {
            feed: workload.open(spec.lane, spec.lanes),
            queries,
            next: 0,
            batch_max,
            ids: Ids::new(spec.sockets, batch_max),
            clients: (spec.is_recorded() || draw.is_some()).then(|| Clients::new(spec.sockets, remembered)),
            draw,
            cursor: Cursor::new(spec.schedule, spec.lane, spec.lanes),
            closed: ClosedLoop::new(&spec.schedule.model, remembered),
            // Written once so that the pages are there before the clock runs.
            flights: vec![Flight { check: 1, ..Flight::default() }; remembered].into_boxed_slice(),
            known: 0,
            answered: vec![0; queries.div_ceil(64) as usize].into_boxed_slice(),
            answered_in_total: 0,
            overdue: (0, 0),
            by_name: workload.is_by_name() && draw.is_none(),
            cookies: variation.options.cookie.then(|| Cookies::new(variation.seed, spec)),
            signing: variation.tsig.clone().map(|key| Signing::new(key, remembered)),
            stats,
            workload,
            spec,
        };
        lane.look_ahead();
        lane
    }

    /// Moves the schedule, so that the clock is read after everything is allocated. Before the first query
    /// only.
    pub fn start_at(&mut self, start_ns: u64) {
        let before_ns = std::mem::replace(&mut self.spec.schedule.start_ns, start_ns);
        self.stats.start_at(start_ns);
        self.cursor.start_at(start_ns);
        for flight in &mut self.flights[..self.known as usize] {
            flight.due_ns = flight.due_ns - before_ns + start_ns;
        }
    }

    /// When the next query is due, in ns; `None` when all are sent. In a closed loop: at once, or when the
    /// oldest query has waited for long enough.
    pub fn next_due_ns(&self) -> Option<u64> {
        if self.next >= self.queries {
            return None;
        }
        if self.known == self.next && self.clients.is_some() {
            // Nobody knows before it is read, but that it is not before the last one.
            let last = self.next.checked_sub(1);
            return Some(last.map_or(self.spec.schedule.start_ns, |last| self.flight(last).due_ns));
        }
        let Some(closed) = &self.closed else { return Some(self.flight(self.next).due_ns) };
        let start_ns = self.spec.schedule.start_ns;
        if closed.ready() > 0 {
            return Some(start_ns);
        }
        let oldest = closed.oldest(self.next);
        let oldest_ns = oldest.map(|own| self.flight(own).due_ns.saturating_add(self.spec.timeout_ns));
        oldest_ns.into_iter().chain(closed.held_until_ns()).min().or(Some(start_ns))
    }

    /// The queries to send at `now_ns`, all with one socket; `None` if none is due.
    #[inline]
    pub fn due(&mut self, now_ns: u64) -> Option<Batch> {
        if self.closed.is_some() {
            return self.due_in_loop(now_ns);
        }
        if self.next < self.queries && self.known == self.next && self.clients.is_some() {
            self.fed(now_ns)?;
            self.look_ahead();
        }
        if self.next >= self.queries.min(self.known) || self.flight(self.next).due_ns > now_ns {
            return None;
        }
        let (socket, left_in_block) = self.next_block();
        let mut most = left_in_block.min(self.batch_max).min(self.queries - self.next);
        if self.feed.is_some() {
            most = most.min(self.fed(now_ns)?);
        }
        let queries = (1..most).find(|ahead| self.flight(self.next + ahead).due_ns > now_ns).unwrap_or(most);
        Some(Batch { socket, queries: queries as usize })
    }

    /// The socket of the next query, and how many more share it.
    #[inline]
    fn next_block(&self) -> (usize, u64) {
        match &self.clients {
            None => self.ids.next_block(),
            Some(clients) => clients.block(self.next, self.known.min(self.next + self.batch_max)),
        }
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
        let ready = self.closed.as_ref().map_or(0, ClosedLoop::ready);
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
        closed.release(now_ns);
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
        let socket = self.clients.as_ref().map_or(self.ids.next_block().0, |clients| clients.socket(own));
        let source = self.spec.source(socket);
        let server_cookie = self.cookies.as_ref().map_or(&[][..], |cookies| cookies.of(socket));
        let client = Client { source, server_cookie };
        let id = self.clients.as_mut().map_or_else(|| self.ids.take(), |clients| clients.take(own));
        let number = self.number(own);
        let mut length = match &mut self.feed {
            None => self.workload.write_from(number, id, &client, buffer),
            Some(feed) => feed
                .next()
                .map_or(0, |query| self.workload.write_recorded(query, number, id, &client, buffer)),
        };
        if let Some(signing) = &mut self.signing {
            length = signing.sign(own, now_ns, buffer, length);
        }
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
        if self.spec.is_recorded() {
            return self.look_into_feed(until);
        }
        for own in self.known..until {
            let (due_ns, number) = (self.cursor.next_ns(), self.number(own));
            if let (Some(draw), Some(clients)) = (&self.draw, &mut self.clients) {
                clients.expect(own, draw.client(number));
            }
            self.flight_mut(own).due_ns = due_ns;
            self.stats.note_due(due_ns);
        }
        self.known = until.max(self.known);
    }

    /// Takes over when and by whom the queries are asked that the feed has ready.
    fn look_into_feed(&mut self, until: u64) {
        while self.known < until {
            let (own, ahead) = (self.known, (self.known - self.next) as usize);
            let stamp = self.feed.as_ref().and_then(|feed| feed.stamp(ahead));
            let (Some(stamp), Some(clients)) = (stamp, &mut self.clients) else { return };
            clients.expect(own, stamp.socket);
            let due_ns = self.spec.schedule.start_ns.saturating_add(stamp.after_ns);
            self.flight_mut(own).due_ns = due_ns;
            self.stats.note_due(due_ns);
            self.known += 1;
        }
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

    /// Takes a message that arrived at `at_ns` at one of the lane's sockets; tells whether it is the first
    /// answer to a query.
    #[inline]
    pub fn receive(&mut self, at_ns: u64, socket: usize, reply: &[u8]) -> bool {
        match self.identify(socket, reply) {
            Ok((own, _, _)) if self.is_answered(own) => self.stats.duplicates += 1,
            Ok((own, question_end, header)) if self.has_own_cookie(socket, reply) => {
                self.take_answer(own, at_ns, (reply, question_end), header);
                return true;
            }
            Ok(_) => self.stats.note_unexpected("wrong client cookie"),
            Err(reason) => self.stats.note_unexpected(reason),
        }
        false
    }

    /// Whether a reply has the cookie of its client, if the lane sends cookies (RFC 7873 5.3).
    #[inline]
    fn has_own_cookie(&mut self, socket: usize, reply: &[u8]) -> bool {
        self.cookies.as_mut().is_none_or(|cookies| cookies.take(socket, reply))
    }

    /// Judges the first answer to a query.
    #[inline]
    fn take_answer(&mut self, own: u64, at_ns: u64, (reply, question_end): (&[u8], usize), header: Header) {
        self.end(own);
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
        self.stats.note_rcode(due_ns, header.rcode());
        let expected = self.workload.expectation(self.number(own), reply, question_end);
        let Judgement { mut strict, compat } = judge(expected, &header, reply, question_end);
        if let Some(signing) = &self.signing {
            let verified = signing.verify(own, at_ns, &header, reply, question_end);
            strict = strict.and(verified.map_err(Defect::Tsig));
        }
        self.stats.valid_compat += u64::from(compat);
        match strict {
            Ok(()) => {
                self.stats.note_valid(due_ns, lateness_ns.into(), at_ns);
                self.log_answer(own, at_ns, Class::Valid, &header);
            }
            Err(defect) => {
                self.stats.note_invalid(defect, expected.address());
                if compat {
                    self.stats.note_compat_alone(due_ns);
                }
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

    /// The query of this lane that the datagram answers, and where its question ends: sent with this socket
    /// and ID, with the same question; or what it is instead.
    #[inline]
    fn identify(&self, socket: usize, reply: &[u8]) -> Result<(u64, usize, Header), &'static str> {
        let header = Header::parse(reply).map_err(|_| "no DNS message")?;
        // Of requests with other opcodes, the check value tells the response.
        if !header.has(Header::QR) || (self.by_name && header.opcode() != 0) {
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

    /// Of the queries with this socket, ID and question the newest that has no answer yet. Once IDs are used
    /// again, an answer may be taken for that of a later query with the same question; that one's own answer
    /// is then taken for the earlier one's, so that no answer is lost or counted twice.
    fn identify_by_id(&self, socket: usize, id: u16, reply: &[u8]) -> Option<(u64, usize)> {
        let (end, check) = (question::end(reply)?, check_of(reply));
        let own = match &self.clients {
            None => self.newest_open(self.ids.candidates(socket, id), check),
            Some(clients) => {
                let of_lane = Clients::candidates(self.next, id).take_while(|own| self.is_remembered(*own));
                self.newest_open(of_lane.filter(|own| clients.socket(*own) == socket), check)
            }
        };
        own.map(|own| (own, end))
    }

    /// Of these queries, the newest first, the first one with this question that has no answer; if all have
    /// one, the newest.
    #[inline]
    fn newest_open(&self, candidates: impl Iterator<Item = u64>, check: u32) -> Option<u64> {
        let mut same = candidates
            .take_while(|own| self.is_remembered(*own))
            .filter(|own| self.flight(*own).check == check);
        let newest = same.next()?;
        let open = |own: &u64| !self.is_answered(*own);
        Some(if open(&newest) { newest } else { same.find(open).unwrap_or(newest) })
    }

    /// Whether there is nothing left to wait for at `now_ns`.
    pub fn is_done(&self, now_ns: u64) -> bool {
        self.next >= self.queries
            && (self.answered_in_total >= self.queries || now_ns >= self.listen_until_ns())
    }

    /// Whether the sender is behind by more than the whole schedule and a second: the trial is void long
    /// since, and at the rates that options allow the rest could take hours.
    pub fn is_hopeless(&self, now_ns: u64) -> bool {
        let length_ns = self.spec.schedule.end_ns() - self.spec.schedule.start_ns;
        self.closed.is_none()
            && self.next_due_ns().is_some_and(|due_ns| now_ns.saturating_sub(due_ns) > length_ns + SECOND_NS)
    }

    /// When the lane stops to listen, in ns; of a closed loop this is known when it has sent everything.
    pub fn listen_until_ns(&self) -> u64 {
        let schedule = &self.spec.schedule;
        let last_ns = match &self.closed {
            // It may have sent all its queries long before its time is over.
            Some(closed) => closed.sent_last_ns,
            None if schedule.is_closed_form() => schedule.due_ns(schedule.queries.saturating_sub(1)),
            None => schedule.end_ns(),
        };
        last_ns.saturating_add(self.spec.listen_ns)
    }

    /// What was counted so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Queries that are past their timeout at `now_ns` and have no answer, but for the newest 63 of them.
    /// What the kernel refused to send is not lost.
    pub fn lost_so_far(&mut self, now_ns: u64) -> u64 {
        loop {
            let (words, unanswered) = self.overdue;
            let last = words as u64 * 64 + 63;
            let is_waited_for =
                |own| self.is_remembered(own) && now_ns <= self.flight(own).due_ns + self.spec.timeout_ns;
            if last >= self.next || is_waited_for(last) {
                return (unanswered + self.stats.cut_off).saturating_sub(self.stats.send_errors);
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

    /// Nothing more is waited for of this query.
    #[inline]
    fn end(&mut self, own: u64) {
        self.answered[(own / 64) as usize] |= 1 << (own % 64);
        self.answered_in_total += 1;
        // It was given up for lost.
        self.overdue.1 -= u64::from(((own / 64) as usize) < self.overdue.0);
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

/// The check value of a message's question and its opcode: QUERY, NOTIFY (RFC 1996) and UPDATE, whose zone
/// section has the form of a question (RFC 2136 2.3).
fn check_of(message: &[u8]) -> u32 {
    let question = question::end(message).and_then(|end| message.get(HEADER_LENGTH..end));
    let opcode = message.get(2).map_or(0, |flags| flags >> 3 & 15);
    question.map_or(0, question::check) ^ u32::from(opcode)
}

#[cold]
fn note(log: &mut QueryLog, own: u64, change: impl FnOnce(&mut Entry)) {
    if let Some(entry) = log.entry_mut(own) {
        change(entry);
    }
}

#[cfg(test)]
mod tests;
