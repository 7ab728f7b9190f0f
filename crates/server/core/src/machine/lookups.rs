//! Lookups: joined, started, ended.

use dns64::wire::{CLASS_IN, Question, rtype};

use super::upstream_side::NotAsked;
use super::{Machine, Output};
use crate::inflight::{Event, Failure, UpstreamQuery, Wait};

impl Machine {
    /// Lets the job in a slot wait for the reply to a query: with others, if that is in flight already.
    pub(super) fn ask_for(
        &mut self,
        now_ns: u64,
        job_slot: usize,
        wait: Wait,
        query: &UpstreamQuery,
        out: &mut impl Output,
    ) -> Result<(), NotAsked> {
        let Some(deadline_ns) = self.jobs.get(job_slot).map(|job| job.deadline_ns) else { return Ok(()) };
        let shared = self.upstream_side.shared_hash(query);
        let slot = match self.upstream_side.lookups.find(shared, &query.question) {
            Some(slot) => {
                self.stats.coalesced += 1;
                slot
            }
            None => {
                self.enter_zone(job_slot, query, out)?;
                self.start_lookup(now_ns, query, Some(shared), deadline_ns, None, out)?
            }
        };
        if let Some(lookup) = self.upstream_side.lookups.get_mut(slot) {
            self.jobs.wait(job_slot, wait, slot, &mut lookup.waiters);
        }
        Ok(())
    }

    /// Asks again for what is about to expire, while there is plenty of room.
    pub(super) fn prefetch(&mut self, now_ns: u64, query: &UpstreamQuery, out: &mut impl Output) {
        let shared = self.upstream_side.shared_hash(query);
        let lookups = &self.upstream_side.lookups;
        let running = lookups.find(shared, &query.question);
        let is_full = !lookups.has_zone_room(self.upstream_side.zone_of(query));
        if is_full || running.is_some() || lookups.room() < self.settings.in_flight / 2 {
            return;
        }
        let deadline_ns = now_ns + self.settings.asking.deadline_ns;
        match self.start_lookup(now_ns, query, Some(shared), deadline_ns, None, out) {
            Ok(_) | Err(NotAsked::NoId) => self.stats.prefetches += 1,
            Err(NotAsked::NoServer | NotAsked::ZoneFull) => {}
        }
    }

    /// Asks upstream servers for a name of our own: all of them if this machine shall look for `loops`, to
    /// see whether the question comes back, and those of which it is not known whether they keep the spelling
    /// of names. Where no probes are wanted, the first answers tell how servers spell.
    pub fn probe(&mut self, now_ns: u64, loops: bool, out: &mut impl Output) {
        if !self.settings.asking.loop_probe {
            return;
        }
        for (group, members) in self.settings.clone().groups.iter().enumerate() {
            for &upstream in members {
                if !loops && !self.upstream_side.wants_spelling(upstream) {
                    continue;
                }
                let Some(name) = self.upstream_side.loops.name(upstream) else { continue };
                let query = UpstreamQuery {
                    question: Question { name, qtype: rtype::TXT, qclass: CLASS_IN },
                    checking_disabled: false,
                    dnssec_ok: false,
                    group,
                };
                // A server that cannot be asked now is not asked for anything else either.
                let _ = self.start_lookup(now_ns, &query, None, now_ns, Some(upstream), out);
            }
        }
    }

    /// Sees that the zone of a query has room for another lookup, for the job in a slot.
    fn enter_zone(
        &mut self,
        job_slot: usize,
        query: &UpstreamQuery,
        out: &mut impl Output,
    ) -> Result<(), NotAsked> {
        let zone = self.upstream_side.zone_of(query);
        if self.upstream_side.lookups.has_zone_room(zone) || self.make_zone_room(job_slot, zone, out) {
            return Ok(());
        }
        self.stats.zone_limited += 1;
        Err(NotAsked::ZoneFull)
    }

    /// Starts a lookup, at this server if one is given, and makes room for it if need be. That no ID is free
    /// is remembered as a failure (RFC 9520).
    fn start_lookup(
        &mut self,
        now_ns: u64,
        query: &UpstreamQuery,
        shared: Option<u64>,
        deadline_ns: u64,
        upstream: Option<usize>,
        out: &mut impl Output,
    ) -> Result<u16, NotAsked> {
        let upstream = self.upstream_side.choose(now_ns, query, upstream)?;
        if self.upstream_side.lookups.room() == 0 {
            self.evict_oldest_lookup(out);
        }
        let slot = self.upstream_side.insert(now_ns, query, shared, deadline_ns, upstream);
        let slot = slot.ok_or(NotAsked::NoServer)?;
        match self.upstream_side.send(now_ns, slot, &mut self.stats, out) {
            Ok(()) => Ok(slot),
            Err(not_asked) => {
                self.upstream_side.lookups.remove(slot);
                if shared.is_some() {
                    self.recall.keep_failure(now_ns, query, not_asked.cause());
                }
                Err(not_asked)
            }
        }
    }

    /// Ends a lookup whose try has ended: all who wait for it go on.
    pub(super) fn end_lookup(&mut self, now_ns: u64, slot: u16, event: Event<'_>, out: &mut impl Output) {
        let Some(mut waiters) = self.upstream_side.lookups.remove(slot) else { return };
        // All leave the list before the first goes on, for going on may start a lookup in the same slot.
        let mut woken = std::mem::take(&mut self.woken);
        woken.extend(std::iter::from_fn(|| self.jobs.pop_waiter(&mut waiters)));
        for (slot, wait) in woken.drain(..) {
            match self.jobs.get_mut(slot) {
                Some(job) if wait == Wait::Ahead && job.state.is_before_a() => job.hold(event),
                _ => self.advance(now_ns, slot, event, out),
            }
        }
        self.woken = woken;
    }

    /// Ends a lookup where another try was not possible, and remembers that (RFC 9520).
    pub(super) fn end_unless_asked(
        &mut self,
        now_ns: u64,
        slot: u16,
        asked: Result<(), NotAsked>,
        out: &mut impl Output,
    ) {
        if let Err(not_asked) = asked {
            self.fail_lookup(now_ns, slot, not_asked.cause(), out);
        }
    }

    /// Ends a lookup without a reply, and remembers that (RFC 9520).
    pub(super) fn fail_lookup(&mut self, now_ns: u64, slot: u16, cause: u16, out: &mut impl Output) {
        self.upstream_side.end_try(slot);
        if let Some(lookup) = self.upstream_side.lookups.get(slot).filter(|lookup| lookup.shared.is_some()) {
            self.recall.keep_failure(now_ns, &lookup.query, cause);
        }
        self.end_lookup(now_ns, slot, Event::Failure(Failure::new(cause)), out);
    }
}
