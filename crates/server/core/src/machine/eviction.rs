//! Queries that are given up without an answer, to make room for others.

use super::{Machine, Notice, Output};
use crate::inflight::{Wait, Zone};

/// So many of the lookups whose try ends first are looked at for one of a zone that has to go.
const LOOKED_AT: usize = 64;

impl Machine {
    /// Makes room for a job: a query that has waited long is the least likely to be waited for still, and a
    /// network that asks for much gives up before the others.
    pub(super) fn evict_job(&mut self, out: &mut impl Output) {
        let Some(slot) = self.jobs.first_to_go() else { return };
        let Some(job) = self.jobs.get(slot) else { return };
        let lookups = [Wait::Main, Wait::Ahead].map(|wait| job.waits_for(wait));
        self.give_up(slot, out);
        lookups.into_iter().flatten().for_each(|lookup| self.upstream_side.abandon(lookup));
    }

    /// Makes room for a lookup: those who wait for the one whose try began first get no answer.
    pub(super) fn evict_oldest_lookup(&mut self, out: &mut impl Output) {
        if let Some((slot, _)) = self.upstream_side.lookups.first_due() {
            self.evict_lookup(slot, out);
        }
    }

    /// Makes room for a lookup of a job in a zone that has as many as it may: a network that has more queries
    /// waiting than the job's gives up one of its own there. Returns whether there is room.
    pub(super) fn make_zone_room(&mut self, job_slot: usize, zone: Zone, out: &mut impl Output) -> bool {
        let share = self.jobs.share_of(job_slot);
        let lookups = self.upstream_side.lookups.oldest_of(zone, LOOKED_AT);
        // What several wait for is not part of a flood. What nobody waits for can go at any time.
        let holders = lookups.filter_map(|(slot, lookup)| match self.jobs.only_waiter(&lookup.waiters) {
            Some(waiter) if waiter != job_slot => Some((slot, self.jobs.share_of(waiter))),
            None if lookup.waiters.is_empty() => Some((slot, u32::MAX)),
            _ => None,
        });
        let heaviest = holders.filter(|&(_, held)| held > share).max_by_key(|&(_, held)| held);
        if let Some((slot, _)) = heaviest {
            self.evict_lookup(slot, out);
        }
        self.upstream_side.lookups.has_zone_room(zone)
    }

    fn evict_lookup(&mut self, slot: u16, out: &mut impl Output) {
        self.upstream_side.end_try(slot);
        let Some(mut waiters) = self.upstream_side.lookups.remove(slot) else { return };
        while let Some((slot, wait)) = self.jobs.pop_waiter(&mut waiters) {
            match (wait, self.jobs.get(slot)) {
                // It is asked for afterwards.
                (Wait::Ahead, Some(job)) if job.state.is_before_a() => {}
                _ => self.give_up(slot, out),
            }
        }
    }

    fn give_up(&mut self, slot: usize, out: &mut impl Output) {
        let Some(client) = self.jobs.get(slot).map(|job| job.client) else { return };
        self.end_job(slot);
        self.stats.evicted += 1;
        out.no_answer(&client);
        out.notice(Notice::Full);
    }
}
