//! Queries that are given up without an answer, to make room for others.

use super::{Machine, Notice, Output};
use crate::inflight::Wait;

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
        let Some((slot, _)) = self.upstream_side.lookups.first_due() else { return };
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
