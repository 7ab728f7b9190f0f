//! Lookups: joined, started, ended.

use dns64::wire::{CLASS_IN, Question, rtype};

use super::upstream_side::{NewLookup, NotAsked};
use super::{Machine, Output};
use crate::inflight::{Event, Failure, Network, UpstreamQuery, Wait};

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
        let Some(job) = self.jobs.get(job_slot) else { return Ok(()) };
        let (deadline_ns, client) = (job.deadline_ns, job.client.address.ip());
        let network = match wait {
            Wait::Main => self.upstream_side.lookups.network(client),
            // It is a guess that the reply is needed: all others go before it.
            Wait::Ahead => Network::NOBODY,
        };
        let shared = self.upstream_side.shared_hash(query);
        let slot = match self.upstream_side.lookups.find(shared, &query.question) {
            Some(slot) => {
                self.stats.coalesced += 1;
                self.upstream_side.lookups.wanted_by(slot, network);
                slot
            }
            None => {
                self.enter_zone(network, query, out)?;
                let new = NewLookup { shared: Some(shared), network, deadline_ns, upstream: None };
                self.start_lookup(now_ns, query, new, out)?
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
        let is_full = lookups.full_zone(self.upstream_side.zone_of(query)).is_some();
        if is_full || running.is_some() || lookups.room() < self.settings.in_flight / 2 {
            return;
        }
        let deadline_ns = now_ns + self.settings.asking.deadline_ns;
        let new = NewLookup { shared: Some(shared), network: Network::NOBODY, deadline_ns, upstream: None };
        if self.start_lookup(now_ns, query, new, out).is_ok() {
            self.stats.prefetches += 1;
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
                let new = NewLookup {
                    shared: None,
                    network: Network::NOBODY,
                    deadline_ns: now_ns,
                    upstream: Some(upstream),
                };
                // A server that cannot be asked now is not asked for anything else either.
                let _ = self.start_lookup(now_ns, &query, new, out);
            }
        }
    }

    /// Sees that the zone of a query has room for another lookup, for a client of this network.
    fn enter_zone(
        &mut self,
        network: Network,
        query: &UpstreamQuery,
        out: &mut impl Output,
    ) -> Result<(), NotAsked> {
        let zone = self.upstream_side.zone_of(query);
        while let Some(crowd) = self.upstream_side.lookups.full_zone(zone) {
            if !self.make_room(network, crowd, out) {
                self.stats.zone_limited += 1;
                return Err(NotAsked::ZoneFull);
            }
        }
        Ok(())
    }

    /// The server for a new lookup. Where those of its group are full, a heavier network than the client's
    /// gives up a lookup there.
    fn choose_server(
        &mut self,
        now_ns: u64,
        query: &UpstreamQuery,
        network: Network,
        out: &mut impl Output,
    ) -> Result<usize, NotAsked> {
        let chosen = self.upstream_side.choose(now_ns, query.group);
        if chosen != Err(NotAsked::ServersFull) {
            return chosen;
        }
        match self.upstream_side.heaviest_server(query.group, network) {
            Some(crowd) if self.make_room(network, crowd, out) => {
                self.upstream_side.choose(now_ns, query.group)
            }
            _ => {
                self.stats.server_limited += 1;
                chosen
            }
        }
    }

    /// Starts a lookup, and makes room for it if need be. That there is no room is our own affair: it is not
    /// remembered as a failure of the name (RFC 9520).
    fn start_lookup(
        &mut self,
        now_ns: u64,
        query: &UpstreamQuery,
        new: NewLookup,
        out: &mut impl Output,
    ) -> Result<u16, NotAsked> {
        let upstream = match new.upstream {
            Some(given) => given,
            None => self.choose_server(now_ns, query, new.network, out)?,
        };
        if self.upstream_side.lookups.room() == 0 {
            self.evict_first_lookup(out);
        }
        let slot = self.upstream_side.insert(now_ns, query, new, upstream).ok_or(NotAsked::ServersFull)?;
        match self.upstream_side.send(now_ns, slot, &mut self.stats, out) {
            Ok(()) => Ok(slot),
            Err(not_asked) => {
                self.upstream_side.lookups.remove(slot);
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

    /// Ends a lookup where another try was not possible. That no try was left is remembered (RFC 9520); a
    /// limit of our own is not.
    pub(super) fn end_unless_asked(
        &mut self,
        now_ns: u64,
        slot: u16,
        asked: Result<(), NotAsked>,
        out: &mut impl Output,
    ) {
        match asked {
            Ok(()) => {}
            Err(NotAsked::NoServer) => self.fail_lookup(now_ns, slot, NotAsked::NoServer.cause(), out),
            Err(ours) => self.end_lookup(now_ns, slot, Event::Failure(Failure::new(ours.cause())), out),
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
