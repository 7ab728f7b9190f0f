//! What connections do to queries beside bringing their answers.

use super::Lane;
use crate::connections::{Breakdown, Fate};
use crate::querylog::Class;

impl Lane {
    /// Takes what became of queries.
    pub fn note_fate(&mut self, fate: Fate) {
        match fate {
            Fate::Left { client, place, waited_ns } => self.note_left(client, place, waited_ns),
            Fate::Lost { client, places, left_before, at_ns, why } => {
                // The newest first: before one that is past its timeout there are none to be found.
                let mut at = self.last_before(client, places.end);
                while let Some((place, own)) = at.filter(|(place, _)| *place >= places.start) {
                    if !self.lose(own, at_ns, place < left_before, why) {
                        break;
                    }
                    at = self.one_before(client, place, own);
                }
            }
        }
    }

    /// The last query of a client with a place before `end`: its place, and its number within the lane.
    fn last_before(&self, client: usize, end: u64) -> Option<(u64, u64)> {
        let Some(clients) = &self.clients else {
            let place = end.checked_sub(1)?;
            return Some((place, self.ids.numbers(client)(place)));
        };
        let mut at = clients.newest(client);
        while let Some((place, own)) = at.filter(|(place, _)| *place >= end) {
            at = self.one_before(client, place, own);
        }
        at
    }

    /// The query of the same client before this one.
    fn one_before(&self, client: usize, place: u64, own: u64) -> Option<(u64, u64)> {
        match &self.clients {
            None => self.last_before(client, place),
            Some(clients) => clients.before(place, own).filter(|_| self.is_remembered(own)),
        }
    }

    /// A query waited for its connection: it was sent later than it was handed over.
    fn note_left(&mut self, client: usize, place: u64, waited_ns: u64) {
        let Some((_, own)) = self.last_before(client, place + 1).filter(|(last, _)| *last == place) else {
            return;
        };
        if own < self.next && self.is_remembered(own) {
            let waited_ns = u32::try_from(waited_ns).unwrap_or(u32::MAX);
            let flight = self.flight_mut(own);
            flight.lateness_ns = flight.lateness_ns.saturating_add(waited_ns);
        }
    }

    /// Whether earlier queries of the same client may be waited for yet.
    fn lose(&mut self, own: u64, at_ns: u64, had_left: bool, why: Breakdown) -> bool {
        if own >= self.next || !self.is_remembered(own) {
            return own >= self.next;
        }
        let overdue = at_ns.saturating_sub(self.flight(own).due_ns) > self.spec.timeout_ns;
        if had_left && overdue {
            // The server was silent for all its time before the connection ended.
            return false;
        }
        if !self.is_answered(own) {
            self.end(own);
            self.stats.note_broken(why, had_left);
            let until_ns = self.flight(own).due_ns.saturating_add(self.spec.timeout_ns);
            match &mut self.closed {
                Some(closed) if !had_left && why.is_before_connection() => closed.hold(own, until_ns),
                Some(closed) => closed.ended(own, at_ns),
                None => {}
            }
            if let Some(log) = &mut self.stats.log {
                super::note(log, own, |entry| entry.class = Class::Lost);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::lane::LaneSpec;
    use crate::lane::tests::{START, answer, send_all};
    use crate::pacer::{Model, SECOND_NS, Schedule};
    use crate::stats::Stats;
    use crate::workload::tests::workload;

    /// 20 queries of two clients, at 1000 q/s with a timeout of 10 ms; the third one of client 0 is answered.
    fn lane() -> Lane {
        let schedule = Schedule::new(START, 1000, SECOND_NS / 50);
        let (timeout_ns, listen_ns) = (10_000_000, SECOND_NS);
        let spec = LaneSpec { schedule, lane: 0, lanes: 1, sockets: 2, timeout_ns, listen_ns, log: true };
        let mut lane = Lane::new(spec, workload(0));
        let sent = send_all(&mut lane, START + SECOND_NS / 50);
        let third = sent.iter().filter(|(socket, _)| *socket == 0).nth(2).unwrap();
        assert!(lane.receive(START + 4_500_000, 0, &answer(&third.1)));
        lane
    }

    fn lost(lane: &mut Lane, (places, left_before): (Range<u64>, u64), at_ns: u64, why: Breakdown) {
        lane.note_fate(Fate::Lost { client: 0, places, left_before, at_ns, why });
    }

    fn counts(stats: &Stats) -> (u64, u64, u64, u64) {
        (stats.sent, stats.valid, stats.cut_off, stats.never_left)
    }

    #[test]
    fn a_connection_takes_those_along_that_have_no_answer() {
        let mut lane = lane();
        // Client 0 has the queries due at 0, 2, 4, ... ms; the first six had left.
        lost(&mut lane, (0..10, 6), START + 10_000_000, Breakdown::Reset);
        assert_eq!(counts(lane.stats()), (16, 1, 5, 4));
        // None of them is lost twice.
        lost(&mut lane, (0..10, 10), START + 10_000_000, Breakdown::Closed);
        assert_eq!(lane.stats().broken, [(Breakdown::Reset, 9)].into());
        assert_eq!(lane.lost_so_far(START), 5);
    }

    #[test]
    fn a_server_that_was_silent_for_the_timeout_stays_silent() {
        let mut lane = lane();
        // Those due at 0 and 2 ms are past their timeout, the one at 4 ms has its answer.
        lost(&mut lane, (0..10, 10), START + 13_000_000, Breakdown::Closed);
        assert_eq!(counts(lane.stats()), (20, 1, 7, 0));
        // What never left was not the server's.
        lost(&mut lane, (0..2, 0), START + 30_000_000, Breakdown::OwnLimit);
        assert_eq!(counts(lane.stats()), (18, 1, 7, 2));
    }

    #[test]
    fn a_closed_loop_without_connections_tries_again_after_the_timeout() {
        let schedule = Schedule::with_model(START, 1000, SECOND_NS, Model::Window { queries: 2 });
        let (timeout_ns, listen_ns) = (10_000_000, SECOND_NS);
        let spec = LaneSpec { schedule, lane: 0, lanes: 1, sockets: 1, timeout_ns, listen_ns, log: false };
        let mut lane = Lane::new(spec, workload(0));
        let sent = send_all(&mut lane, START);
        assert_eq!((sent.len(), lane.next_due_ns()), (2, Some(START + timeout_ns)));
        lost(&mut lane, (0..2, 0), START + 1000, Breakdown::OwnLimit);
        assert_eq!(lane.due(START + 2000), None);
        assert_eq!(lane.next_due_ns(), Some(START + timeout_ns));
        assert_eq!(send_all(&mut lane, START + timeout_ns).len(), 2);
        // A query that was lost with its connection makes room at once.
        lost(&mut lane, (2..4, 4), START + timeout_ns + 1000, Breakdown::Reset);
        assert_eq!(send_all(&mut lane, START + timeout_ns + 2000).len(), 2);
        assert_eq!(lane.stats().never_left, 2);
    }

    #[test]
    fn what_waited_is_not_counted_as_the_servers_time() {
        let mut lane = lane();
        lane.note_fate(Fate::Left { client: 1, place: 0, waited_ns: 0 });
        let before = lane.flight(1).lateness_ns;
        lane.note_fate(Fate::Left { client: 1, place: 0, waited_ns: 7000 });
        assert_eq!(lane.flight(1).lateness_ns, before + 7000);
        lane.note_fate(Fate::Left { client: 1, place: 99, waited_ns: 7000 });
    }
}
