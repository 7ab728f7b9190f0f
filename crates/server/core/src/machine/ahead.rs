//! A queries that are sent before it is known that A is needed (RFC 6147 5.1.8).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Machine, Output};
use crate::inflight::{Job, State, Wait};
use crate::settings::AQuery;

/// Jobs that wait for their AAAA reply, by the time at which it is late. Those that have ended meanwhile stay
/// until then.
#[derive(Default)]
pub(super) struct Late(BinaryHeap<Reverse<(u64, usize, u64)>>);

impl Late {
    pub fn first_due_ns(&self) -> Option<u64> {
        self.0.peek().map(|Reverse((due_ns, ..))| *due_ns)
    }
}

impl Machine {
    /// The job in this slot has begun to wait: for AAAA, it may be.
    pub(super) fn plan_a(&mut self, now_ns: u64, slot: usize, out: &mut impl Output) {
        let Some(job) = self.jobs.get(slot).filter(|job| job.state == State::NeedsAaaa) else { return };
        match self.settings.asking.a_query {
            AQuery::Afterwards => {}
            AQuery::Together => self.ask_ahead(now_ns, slot, out),
            // Bounded, whatever the jobs that have ended: beyond this they are asked for afterwards.
            AQuery::WhenLate if self.late.0.len() < 4 * self.settings.in_flight => {
                let lookup = job.waits_for(Wait::Main);
                let Some(usual_ns) = lookup.and_then(|lookup| self.upstream_side.usual_ns(lookup)) else {
                    return;
                };
                self.late.0.push(Reverse((now_ns + usual_ns, slot, job.number)));
            }
            AQuery::WhenLate => {}
        }
    }

    /// Asks for A where the AAAA reply is late.
    pub(super) fn ask_late(&mut self, now_ns: u64, out: &mut impl Output) {
        while self.late.first_due_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            let Some(Reverse((_, slot, number))) = self.late.0.pop() else { return };
            let waits = |job: &Job| job.number == number && job.state == State::NeedsAaaa;
            if self.jobs.get(slot).is_some_and(waits) {
                self.ask_ahead(now_ns, slot, out);
            }
        }
    }

    fn ask_ahead(&mut self, now_ns: u64, slot: usize, out: &mut impl Output) {
        let waits = |job: &&Job| job.waits_for(Wait::Ahead).is_none() && job.held.is_none();
        let Some(job) = self.jobs.get(slot).filter(waits) else { return };
        let query = State::NeedsA { ttl_cap_s: 0 }.query(&job.query.asked, &self.settings.routes);
        // It is a guess that A is needed: nobody else is given up for it.
        if !self.upstream_side.has_room_for(&query) || self.recall.is_known(now_ns, &query) {
            return;
        }
        // Where it cannot be asked for now, it is asked for afterwards.
        let _ = self.ask_for(now_ns, slot, Wait::Ahead, &query, out);
    }
}
