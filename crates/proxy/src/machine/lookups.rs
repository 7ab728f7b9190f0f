//! Lookups: joined, started, ended.

use dns64::wire::{Question, rtype};

use super::jobs::Known;
use super::recall::Wanted;
use super::{Machine, Output};
use crate::ede::code;
use crate::inflight::chain::List;
use crate::inflight::{Lookup, Stage, Wait, Way};

impl Machine {
    /// Lets the job in a slot wait for its question: with others, if that is in flight already.
    pub(super) fn attach(&mut self, now_ns: u64, job_slot: usize, wait: Wait, out: &mut impl Output) {
        let Some(job) = self.jobs.get(job_slot) else { return };
        let stage = match wait {
            Wait::Main => job.stage,
            Wait::Ahead => Stage::A { ttl_cap_s: 0 },
        };
        let (wanted, deadline_ns) = (self.wanted(job, stage), job.deadline_ns);
        let shared = wanted.is_shared().then(|| self.hash.of(&wanted));
        let running = shared.and_then(|shared| self.lookups.find(shared, &wanted.question));
        if let Some(slot) = running {
            self.stats.coalesced += 1;
            return self.wait_for(job_slot, wait, slot);
        }
        let Some(slot) = self.insert(now_ns, &wanted, shared, deadline_ns, None, out) else {
            let known = Known::Failure(code::NO_REACHABLE_AUTHORITY);
            return match wait {
                Wait::Main => self.resume(now_ns, job_slot, known, out),
                // It is asked for afterwards.
                Wait::Ahead => {}
            };
        };
        self.wait_for(job_slot, wait, slot);
        self.try_once(now_ns, slot, out);
    }

    fn wait_for(&mut self, job_slot: usize, wait: Wait, slot: u16) {
        if let Some(lookup) = self.lookups.get_mut(slot) {
            self.jobs.wait(job_slot, wait, slot, &mut lookup.waiters);
        }
    }

    /// Asks again for what is about to expire, while there is plenty of room.
    pub(super) fn prefetch(&mut self, now_ns: u64, wanted: &Wanted, out: &mut impl Output) {
        let shared = self.hash.of(wanted);
        if self.lookups.find(shared, &wanted.question).is_some()
            || self.lookups.room() < self.settings.in_flight / 2
        {
            return;
        }
        let deadline_ns = now_ns + self.settings.asking.deadline_ns;
        if let Some(slot) = self.insert(now_ns, wanted, Some(shared), deadline_ns, None, out) {
            self.stats.prefetches += 1;
            self.try_once(now_ns, slot, out);
        }
    }

    /// Asks each upstream server for a name of our own, to see whether the question comes back.
    pub fn look_for_loops(&mut self, now_ns: u64, out: &mut impl Output) {
        if !self.settings.asking.loop_probe {
            return;
        }
        for (group, members) in self.settings.clone().groups.iter().enumerate() {
            for &upstream in members {
                let Some(name) = self.shared.loops.name(upstream) else { continue };
                let question = Question { name, qtype: rtype::TXT, qclass: dns64::wire::CLASS_IN };
                let wanted = Wanted {
                    question,
                    recursion_desired: true,
                    checking_disabled: false,
                    dnssec_ok: false,
                    group,
                };
                let slot = self.insert(now_ns, &wanted, None, now_ns, Some(upstream), out);
                if let Some(slot) = slot {
                    self.try_once(now_ns, slot, out);
                }
            }
        }
    }

    /// A new lookup without a try. `None` where no upstream server has room for it.
    fn insert(
        &mut self,
        now_ns: u64,
        wanted: &Wanted,
        shared: Option<u64>,
        deadline_ns: u64,
        upstream: Option<usize>,
        out: &mut impl Output,
    ) -> Option<u16> {
        self.leave_loops_out();
        let upstream = match upstream {
            Some(upstream) => upstream,
            None => self.upstreams.choose(wanted.group, now_ns, &mut self.random)?,
        };
        if self.lookups.room() == 0 {
            self.evict_oldest_lookup(out);
        }
        let lookup = Lookup {
            question: wanted.question,
            recursion_desired: wanted.recursion_desired,
            checking_disabled: wanted.checking_disabled,
            dnssec_ok: wanted.dnssec_ok,
            group: wanted.group,
            shared,
            deadline_ns,
            tries_left: self.settings.asking.tries,
            mismatches: 0,
            upstream,
            way: Way::None,
            id: 0,
            sent_ns: now_ns,
            case_bits: [0; 32],
            waiters: List::default(),
        };
        self.lookups.insert(lookup, now_ns + self.settings.asking.timeout_ns)
    }

    fn leave_loops_out(&mut self) {
        let epoch = self.shared.loops.epoch();
        if epoch != self.loops_seen {
            self.loops_seen = epoch;
            self.shared.loops.found().for_each(|upstream| self.upstreams.leave_out(upstream));
        }
    }

    /// Ends a lookup whose try has ended: all who wait for it go on.
    pub(super) fn complete(&mut self, now_ns: u64, slot: u16, known: Known<'_>, out: &mut impl Output) {
        let Some(mut waiters) = self.lookups.remove(slot) else { return };
        // All leave the list before the first goes on, for going on may start a lookup in the same slot.
        let mut woken = std::mem::take(&mut self.buffers.woken);
        woken.extend(std::iter::from_fn(|| self.jobs.pop_waiter(&mut waiters)));
        for (slot, wait) in woken.drain(..) {
            match wait {
                Wait::Main => self.resume(now_ns, slot, known, out),
                Wait::Ahead => self.hold(now_ns, slot, known, out),
            }
        }
        self.buffers.woken = woken;
    }

    /// Ends a lookup without a reply, and remembers that (RFC 9520).
    pub(super) fn fail_lookup(&mut self, now_ns: u64, slot: u16, cause: u16, out: &mut impl Output) {
        self.end_try(slot);
        if let Some(lookup) = self.lookups.get(slot) {
            self.remember_failure(now_ns, &wanted_of(lookup), lookup.shared, cause);
        }
        self.complete(now_ns, slot, Known::Failure(cause), out);
    }

    pub(super) fn remember_failure(&self, now_ns: u64, wanted: &Wanted, shared: Option<u64>, cause: u16) {
        if shared.is_some() {
            let first_ttl_s = self.settings.caching.failure_ttl_s;
            self.shared.cache.insert_failure(&wanted.key(), first_ttl_s, cause, now_ns);
        }
    }
}

/// The question of a lookup.
pub(super) fn wanted_of(lookup: &Lookup) -> Wanted {
    Wanted {
        question: lookup.question,
        recursion_desired: lookup.recursion_desired,
        checking_disabled: lookup.checking_disabled,
        dnssec_ok: lookup.dnssec_ok,
        group: lookup.group,
    }
}
