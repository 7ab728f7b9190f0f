//! Queries that are given up without an answer, to make room for others.

use super::{Machine, Notice, Output};
use crate::inflight::{Network, Wait};

impl Machine {
    /// Makes room for a job: the network with the most queries gives up the one that has waited longest. Its
    /// lookups are the first to go from now on.
    pub(super) fn evict_job(&mut self, out: &mut impl Output) {
        if let Some(slot) = self.jobs.first_to_go() {
            self.give_up(slot, out);
        }
    }

    /// Makes room for a lookup: one that nobody waits for goes, or else one of the network with the most.
    pub(super) fn evict_first_lookup(&mut self, out: &mut impl Output) {
        if let Some(slot) = self.upstream_side.lookups.first_to_go() {
            self.evict_lookup(slot, out);
        }
    }

    /// Makes room for a lookup for this network in a crowd that has as many as it may: a network that has
    /// more there gives up one of its own. Returns whether one was given up.
    pub(super) fn make_room(&mut self, network: Network, crowd: u64, out: &mut impl Output) -> bool {
        // What nobody waits for takes no room from others.
        let first = (network != Network::NOBODY)
            .then(|| self.upstream_side.lookups.first_to_go_for(network, crowd))
            .flatten();
        if let Some((slot, _)) = first {
            self.evict_lookup(slot, out);
        }
        first.is_some()
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
