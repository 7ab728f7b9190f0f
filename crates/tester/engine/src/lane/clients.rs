//! The clients of recorded queries, and those that are drawn by a law. The number of a query does not tell
//! its client, so that each query in flight has its socket in a table. IDs follow from the number within the
//! lane, and lead back to it: two queries in flight share an ID only if 65,536 queries of the lane lie
//! between them.

use super::ids;

/// Sockets of the queries that are remembered.
pub(super) struct Clients {
    /// By number, modulo the length, which is a power of two.
    queries: Box<[Asked]>,
    /// By socket.
    sockets: Box<[Sent]>,
}

#[derive(Clone, Copy, Default)]
struct Asked {
    socket: u32,
    /// How many queries of the lane before it the last query of the same client was; 0 if there was none.
    since_last: u32,
}

#[derive(Clone, Copy, Default)]
struct Sent {
    queries: u64,
    /// The number of the newest.
    newest: u64,
}

impl Clients {
    /// For so many sockets and so many queries that are remembered, a power of two.
    pub fn new(sockets: u64, remembered: usize) -> Self {
        Self {
            // Written once so that the pages are there before the clock runs.
            queries: vec![Asked { socket: 0, since_last: 1 }; remembered].into_boxed_slice(),
            sockets: vec![Sent { newest: 1, ..Sent::default() }; sockets as usize].into_boxed_slice(),
        }
    }

    /// About how much memory that takes, in octets.
    pub fn memory_octets(sockets: u64, remembered: u64) -> u64 {
        sockets
            .saturating_mul(size_of::<Sent>() as u64)
            .saturating_add(remembered.saturating_mul(size_of::<Asked>() as u64))
    }

    /// Notes whose query this will be.
    pub fn expect(&mut self, own: u64, socket: u32) {
        let at = self.at(own);
        self.queries[at].socket = socket.min(self.sockets.len() as u32 - 1);
    }

    /// The socket of a query that is expected or remembered.
    #[inline]
    pub fn socket(&self, own: u64) -> usize {
        self.queries[self.at(own)].socket as usize
    }

    /// The socket of a query, and how many from it on share the socket, below `end`.
    #[inline]
    pub fn block(&self, own: u64, end: u64) -> (usize, u64) {
        let socket = self.socket(own);
        let others = (own + 1..end).find(|&next| self.socket(next) != socket);
        (socket, others.unwrap_or(end) - own)
    }

    /// The ID of the next query, which is being sent.
    #[inline]
    pub fn take(&mut self, own: u64) -> u16 {
        let at = self.at(own);
        let asked = &mut self.queries[at];
        let sent = &mut self.sockets[asked.socket as usize];
        let since_last = if sent.queries == 0 { 0 } else { own - sent.newest };
        asked.since_last = u32::try_from(since_last).unwrap_or(0);
        *sent = Sent { queries: sent.queries + 1, newest: own };
        ids::id_at(own)
    }

    /// The queries before `next` with this ID, the newest first, whoever asked them.
    #[inline]
    pub fn candidates(next: u64, id: u16) -> impl Iterator<Item = u64> {
        ids::places_of(next, id)
    }

    /// The newest query of a client, and its place among the queries of the client.
    pub fn newest(&self, socket: usize) -> Option<(u64, u64)> {
        let sent = self.sockets.get(socket)?;
        Some((sent.queries.checked_sub(1)?, sent.newest))
    }

    /// The query of the same client before a query that is remembered, and its place.
    pub fn before(&self, place: u64, own: u64) -> Option<(u64, u64)> {
        let since_last = u64::from(self.queries[self.at(own)].since_last);
        (since_last > 0).then_some(())?;
        Some((place.checked_sub(1)?, own.checked_sub(since_last)?))
    }

    fn at(&self, own: u64) -> usize {
        own as usize & (self.queries.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::connections::{Breakdown, Fate};
    use crate::lane::tests::START;
    use crate::lane::{Lane, LaneSpec};
    use crate::pacer::{Counts, Model, Recorded, SECOND_NS, Schedule};
    use crate::stats::Stats;
    use crate::workload::tests::workload;
    use crate::workload::{Choice, Feed, Feeds, Recording, Stamp, Variation, Workload, WorkloadSpec};
    use proptest::prelude::*;

    const QUERY: &[u8] = b"\xab\xcd\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x1c\0\x01";

    /// When and by which client each query is asked.
    type Rows = Vec<(u64, u32)>;

    /// Gives the queries of a lane, so many at once.
    #[derive(Debug)]
    struct Rest(Mutex<Rows>, usize);
    struct Taken(Vec<Stamp>, usize, usize);

    impl Feeds for Rest {
        fn open(&self, lane: u64, lanes: u64) -> Box<dyn Feed> {
            let rows = self.0.lock().unwrap();
            let own = rows.iter().map(|(after_ns, client)| (*after_ns, Recorded::place(*client, lanes)));
            let own = own.filter(|(_, place)| place.0 == lane);
            let stamps = own.map(|(after_ns, (_, socket))| Stamp { after_ns, socket });
            Box::new(Taken(stamps.collect(), 0, self.1))
        }
    }

    impl Feed for Taken {
        fn ready(&mut self) -> usize {
            (self.0.len() - self.1).min(self.2 - self.1 % self.2)
        }
        fn next(&mut self) -> Option<&[u8]> {
            self.1 += 1;
            Some(QUERY)
        }
        fn stamp(&self, ahead: usize) -> Option<Stamp> {
            (self.1 % self.2 + ahead < self.2).then(|| self.0.get(self.1 + ahead).copied())?
        }
        fn ended(&mut self) -> Option<String> {
            None
        }
    }

    fn lane(rows: &Rows, at_once: usize, (lane, lanes): (u64, u64), timeout_ns: u64) -> Lane {
        let mut counts = Counts::default();
        rows.iter().for_each(|(after_ns, client)| counts.note(*after_ns, *client));
        let recorded = Recorded::new(counts).unwrap();
        let schedule = Schedule::with_model(0, 1, u64::MAX, Model::Recorded(recorded));
        let sockets = recorded.sockets(lanes) / lanes;
        let spec = LaneSpec { schedule, lane, lanes, sockets, timeout_ns, listen_ns: timeout_ns, log: true };
        let recording = Recording::Stream(Arc::new(Rest(Mutex::new(rows.clone()), at_once)));
        let choice = Choice::Recorded { recording, whole_messages: true };
        let variation = Variation { choice, any_response: true, ..Variation::default() };
        let workload = Workload::new(WorkloadSpec { variation, ..workload(0).spec().clone() }).unwrap();
        let mut lane = Lane::new(spec, workload);
        lane.start_at(START);
        lane
    }

    /// Sends what is due, each query at its instant; when, by which socket, and the query.
    fn send(lane: &mut Lane, now_ns: u64) -> Vec<(u64, usize, Vec<u8>)> {
        let mut sent = Vec::new();
        while let Some(batch) = lane.due(now_ns) {
            for _ in 0..batch.queries {
                let mut query = vec![0; 512];
                let length = lane.write(now_ns, &mut query);
                query.truncate(length);
                sent.push((now_ns - START, batch.socket, query));
            }
        }
        sent
    }

    fn answer(query: &[u8]) -> Vec<u8> {
        let mut answer = query.to_vec();
        answer[2] |= 0x80;
        answer
    }

    fn is_query(query: &[u8]) -> bool {
        query[2..] == QUERY[2..]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn every_query_leaves_at_its_time_by_the_socket_of_its_client(
            rows in prop::collection::vec((0u64..SECOND_NS, 0u32..12), 1..400), at_once in 1usize..70,
            lanes in 1u64..4,
        ) {
            let mut rows = rows;
            rows.sort_by_key(|row| row.0);
            let mut merged: Option<Stats> = None;
            for number in 0..lanes {
                let mut lane = lane(&rows, at_once, (number, lanes), SECOND_NS);
                let own = rows.iter().map(|(at, client)| (*at, Recorded::place(*client, lanes)));
                let own: Vec<_> = own.filter(|(_, place)| place.0 == number).collect();
                let mut sent = Vec::new();
                for (after_ns, _) in &own {
                    sent.extend(send(&mut lane, START + after_ns));
                }
                let expected: Vec<_> = own.iter().map(|(at, (_, socket))| (*at, *socket as usize)).collect();
                prop_assert_eq!(sent.iter().map(|(at, socket, _)| (*at, *socket)).collect::<Vec<_>>(), expected);
                // The newest first, at a wrong socket, at the right one, and again.
                for (at, socket, query) in sent.iter().rev() {
                    prop_assert!(is_query(query));
                    prop_assert!(!lane.receive(START + at + 7, socket + 1, &answer(query)));
                    prop_assert!(lane.receive(START + at + 7, *socket, &answer(query)));
                    prop_assert!(!lane.receive(START + at + 9, *socket, &answer(query)));
                }
                prop_assert!(lane.is_done(START));
                let stats = lane.finish();
                prop_assert_eq!((stats.lateness_ns.max(), stats.duplicates), (0, sent.len() as u64));
                match &mut merged {
                    None => merged = Some(stats),
                    Some(all) => all.merge(stats),
                }
            }
            let stats = merged.unwrap();
            let count = rows.len() as u64;
            prop_assert_eq!((stats.sent, stats.valid, stats.unexpected), (count, count, count));
            prop_assert_eq!((stats.latency_ns.max(), stats.displaced()), (7, 0));
            prop_assert_eq!(stats.log.unwrap().len(), count);
        }
    }

    #[test]
    fn ids_that_come_round_are_told_apart_by_the_socket() {
        let rows: Rows = (0..200_000).map(|n| (n * 1000, (n % 3) as u32)).collect();
        let mut lane = lane(&rows, 512, (0, 1), SECOND_NS);
        let sent = send(&mut lane, START + SECOND_NS / 4);
        assert_eq!(sent.len(), 200_000);
        for (_, socket, query) in &sent {
            lane.receive(START + SECOND_NS / 4, *socket, &answer(query));
        }
        let stats = lane.finish();
        assert_eq!((stats.valid, stats.duplicates, stats.unexpected), (200_000, 0, 0));
    }

    #[test]
    fn a_connection_takes_the_queries_of_its_client_along() {
        // Client 0 has the queries 0, 3, 4 and 6.
        let rows: Rows = (0..).map(|n| n * 1_000_000).zip([0, 1, 1, 0, 0, 2, 0]).collect();
        let mut lane = lane(&rows, 2, (0, 1), 100_000_000);
        let sent = send(&mut lane, START + 10_000_000);
        assert_eq!(sent.len(), 7);
        lane.receive(START + 11_000_000, 0, &answer(&sent[3].2));
        lane.note_fate(Fate::Left { client: 0, place: 2, waited_ns: 5 });
        assert_eq!(lane.flight(4).lateness_ns, 6_000_005);
        let lost = |places, left_before| Fate::Lost {
            client: 0,
            places,
            left_before,
            at_ns: START + 12_000_000,
            why: Breakdown::Reset,
        };
        lane.note_fate(lost(0..3, 3));
        assert_eq!((lane.stats().cut_off, lane.stats().never_left), (2, 0), "the second has its answer");
        lane.note_fate(lost(3..4, 3));
        assert_eq!((lane.stats().cut_off, lane.stats().never_left), (2, 1));
        lane.note_fate(Fate::Left { client: 9, place: 0, waited_ns: 5 });
        lane.note_fate(Fate::Left { client: 2, place: 1, waited_ns: 5 });
        assert_eq!(lane.stats().sent, 6);
    }

    #[test]
    fn a_socket_that_is_none_is_not_used() {
        let mut clients = Clients::new(2, 4096);
        clients.expect(0, 7);
        assert_eq!((clients.socket(0), clients.newest(7)), (1, None));
    }
}
