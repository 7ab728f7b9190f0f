//! The loop of a job: from an event to the reply that the job needs next, until the job waits or has ended.

use dns64::rule;
use dns64::wire::{Malformed, Message};

use super::client_side::{Origin, count_passed};
use super::recall::Recalled;
use super::stale::Allowed;
use super::upstream_side::NotAsked;
use super::{Machine, Output};
use crate::answer::{ExtendedErrors, reply_octets_max};
use crate::ede::code;
use crate::inflight::state::is_error;
use crate::inflight::{Event, Failure, Held, Network, Next, UpstreamQuery, Wait};

/// What is known of the reply that a job needs.
enum Known {
    /// Nothing: the job waits for a lookup.
    Nothing,
    /// There is no such reply.
    Failure(Failure),
    /// The reply of the A lookup that was sent ahead.
    Ahead(Box<[u8]>),
    /// A reply that the cache has; `ageing` means that it expires soon and is to be asked for again. It is in
    /// the cache's buffer if it was `copied`; otherwise no answer made of it would fit the client's datagram.
    Cached { ageing: bool, copied: bool },
}

impl Machine {
    /// Takes an event to the job in a slot, and the job as far as what is known leads it: to its end, or to a
    /// lookup that it waits for.
    pub(super) fn advance(&mut self, now_ns: u64, slot: usize, event: Event<'_>, out: &mut impl Output) {
        let mut needs = self.step(now_ns, slot, event, out);
        while needs {
            needs = match self.known(now_ns, slot, out) {
                Known::Nothing => return,
                Known::Failure(failure) => self.step(now_ns, slot, Event::Failure(failure), out),
                Known::Ahead(octets) => self.step(now_ns, slot, event_of(&Message::parse(&octets)), out),
                Known::Cached { ageing, copied } => {
                    let renewal = self
                        .jobs
                        .get(slot)
                        .filter(|_| ageing)
                        .map(|job| job.upstream_query(&self.settings.routes));
                    let needs = if copied {
                        let octets = std::mem::take(&mut self.recall.octets);
                        let needs = self.step(now_ns, slot, event_of(&Message::parse(&octets)), out);
                        self.recall.octets = octets;
                        needs
                    } else {
                        self.send_to_a_stream(now_ns, slot, out)
                    };
                    if let Some(query) = renewal {
                        self.prefetch(now_ns, &query, out);
                    }
                    needs
                }
            };
        }
    }

    /// Takes one event to a job; returns whether the job needs another reply now. If not, it has ended.
    fn step(&mut self, now_ns: u64, slot: usize, event: Event<'_>, out: &mut impl Output) -> bool {
        let Some(job) = self.jobs.get(slot) else { return false };
        if let Event::Reply(reply) = event
            && reply.octets().len() > reply_octets_max(&self.settings, &job.client, &job.query)
        {
            return self.send_to_a_stream(now_ns, slot, out);
        }
        let (view, asked) = (&self.settings.views[job.view], &job.query.asked);
        let in_time = self.settings.asking.in_time(now_ns, job.deadline_ns);
        let next = job.state.next(view, asked, in_time, event);
        if allowed_stale(event, next).is_some_and(|allowed| self.answer_stale(now_ns, slot, allowed, out)) {
            self.end_job(slot);
            return false;
        }
        let Some(job) = self.jobs.get_mut(slot) else { return false };
        let stats = &mut self.stats;
        match next {
            Next::Ask(state) => {
                job.state = state;
                return true;
            }
            Next::Answer { reply, strip } => {
                count_passed(job, reply, stats);
                let source = Origin { state: job.state, reply, strip, notes: ExtendedErrors::of(reply) };
                self.client_side.answer(now_ns, job, source, stats, out);
            }
            Next::Fail(failure) => {
                let causes = [Some(failure.cause), failure.remembered.then_some(code::CACHED_ERROR)];
                self.client_side.fail(now_ns, &job.client, &job.query, causes, stats, out);
            }
        }
        self.end_job(slot);
        false
    }

    /// Ends a job whose reply is too long for its client's datagrams by far: the answer says so with TC, and
    /// nothing else is done for it. The job needs no other reply.
    fn send_to_a_stream(&mut self, now_ns: u64, slot: usize, out: &mut impl Output) -> bool {
        if let Some(job) = self.jobs.get(slot) {
            self.client_side.truncate(now_ns, &job.client, &job.query, &mut self.stats, out);
        }
        self.end_job(slot);
        false
    }

    /// What is known of the reply that a job needs. Where that is nothing, the job waits for a lookup from
    /// now on.
    fn known(&mut self, now_ns: u64, slot: usize, out: &mut impl Output) -> Known {
        let Some(job) = self.jobs.get_mut(slot) else { return Known::Nothing };
        // What was asked ahead is A.
        if !job.state.is_before_a() {
            match job.held.take() {
                Some(Held::Reply(octets)) => return Known::Ahead(octets),
                Some(Held::Failure(failure)) => return Known::Failure(failure),
                None => {
                    if let Some(lookup) = job.waits_for(Wait::Ahead) {
                        // It is no guess any more.
                        let network = self.upstream_side.lookups.network(job.client.address.ip());
                        self.upstream_side.lookups.wanted_by(lookup, network);
                        return Known::Nothing;
                    }
                }
            }
        }
        let query = job.upstream_query(&self.settings.routes);
        let octets_max = reply_octets_max(&self.settings, &job.client, &job.query);
        match self.recall.get(now_ns, &query, octets_max, &mut self.stats) {
            Some(Recalled::Fresh { ageing, copied }) => Known::Cached { ageing, copied },
            Some(Recalled::Failure(failure)) => Known::Failure(failure),
            None => match self.wait(now_ns, slot, &query, out) {
                Ok(()) => Known::Nothing,
                Err(not_asked) => Known::Failure(Failure::new(not_asked.cause())),
            },
        }
    }

    /// Lets a job wait for its lookup. The job keeps its place among those that wait already.
    fn wait(
        &mut self,
        now_ns: u64,
        slot: usize,
        query: &UpstreamQuery,
        out: &mut impl Output,
    ) -> Result<(), NotAsked> {
        if self.jobs.is_full() {
            self.evict_job(out);
        }
        self.jobs.queue(slot);
        self.ask_for(now_ns, slot, Wait::Main, query, out)?;
        self.plan_a(now_ns, slot, out);
        Ok(())
    }

    /// Takes a job out of its slot and out of every lookup's list.
    pub(super) fn end_job(&mut self, slot: usize) {
        for wait in [Wait::Main, Wait::Ahead] {
            let lookup = self.jobs.get(slot).and_then(|job| job.waits_for(wait));
            let Some(number) = lookup else { continue };
            if let Some(lookup) = self.upstream_side.lookups.get_mut(number) {
                self.jobs.leave(slot, wait, &mut lookup.waiters);
                if lookup.waiters.is_empty() {
                    self.upstream_side.lookups.count_for(number, Network::NOBODY);
                }
            }
        }
        self.jobs.remove(slot);
    }
}

/// The stale answers that may be given instead of what follows from an event.
fn allowed_stale(event: Event<'_>, next: Next<'_>) -> Option<Allowed> {
    match next {
        // A failure that passes must not lead a site with native addresses through NAT64.
        Next::Ask(_) if event.is_error() => Some(Allowed::Native),
        Next::Answer { reply, .. } if is_error(reply) && !rule::failed_validation(reply) => {
            Some(Allowed::All)
        }
        Next::Fail(failure) if !rule::is_validation_failure(failure.cause) => Some(Allowed::All),
        _ => None,
    }
}

/// The event that a parsed message is.
fn event_of<'m>(parsed: &'m Result<Message<'m>, Malformed>) -> Event<'m> {
    match parsed {
        Ok(reply) => Event::Reply(reply),
        Err(Malformed(_)) => Event::Failure(Failure::new(code::OTHER)),
    }
}
