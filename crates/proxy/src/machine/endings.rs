//! How a client's query ends: answered, failed, or given up.

use dns64::rule;
use dns64::wire::{Malformed, Message, rcode};

use super::jobs::Known;
use super::{Machine, Notice, Output};
use crate::answer::{self, Notes, Outcome, Source};
use crate::client::{Client, Query};
use crate::ede::code;
use crate::inflight::{Job, Lookup, Stage, Wait};

impl Machine {
    /// Answers a job from the reply, or from an older one where the reply is an error.
    pub(super) fn answer(
        &mut self,
        now_ns: u64,
        job: &Job,
        known: Known<'_>,
        strip: bool,
        out: &mut impl Output,
    ) {
        let Known::Reply(reply) = known else { return };
        let failed = !matches!(reply.header.rcode(), rcode::NOERROR | rcode::NXDOMAIN);
        if failed && !rule::failed_validation(reply) && self.answer_stale(now_ns, job, out) {
            return;
        }
        self.count_passed(job, reply, strip);
        self.send(now_ns, job, reply, strip, Notes::of(reply), out);
    }

    /// Sends the answer made from a reply.
    pub(super) fn send(
        &mut self,
        now_ns: u64,
        job: &Job,
        reply: &Message<'_>,
        strip: bool,
        mut notes: Notes<'_>,
        out: &mut impl Output,
    ) {
        let form = self.form(now_ns, &job.client, &job.query);
        let mut respelled = std::mem::take(&mut self.buffers.respelled);
        let reply = Self::spelled_for(job, reply, &mut respelled);
        let mut outcome = Err(Malformed("question of another length"));
        out.to_client(&job.client, |buffer| {
            let written = match &reply {
                Some(reply) => {
                    let view = &self.settings.views[job.view];
                    let turn = job.number as usize;
                    let source = Source { view, query: &job.query, stage: job.stage, turn, reply, strip };
                    source.write(&form, &mut notes, buffer)
                }
                None => Err(Malformed("question of another length")),
            };
            match written {
                Ok((octets, written)) => {
                    outcome = Ok(written);
                    octets
                }
                Err(malformed) => {
                    outcome = Err(malformed);
                    let flags = job.query.asked.answer_flags(rcode::SERVFAIL);
                    answer::write_empty(&form, &job.query.asked, flags, &Notes::none(), buffer)
                }
            }
        });
        self.buffers.respelled = respelled;
        match outcome {
            Ok(Outcome { synthesized, truncated }) => {
                self.stats.answered += 1;
                self.stats.synthesized += u64::from(synthesized);
                self.stats.truncated += u64::from(truncated);
            }
            Err(Malformed(_)) => self.stats.failed += 1,
        }
    }

    /// A job ends without a usable reply: with a stale answer, if there is one, else with SERVFAIL.
    pub(super) fn end_without_reply(&mut self, now_ns: u64, job: &Job, cause: u16, out: &mut impl Output) {
        if rule::is_validation_failure(cause) || !self.answer_stale(now_ns, job, out) {
            let remembered = job.failed_before.then_some(code::CACHED_ERROR);
            self.fail(now_ns, &job.client, &job.query, [Some(cause), remembered], out);
        }
    }

    /// Answers SERVFAIL, for the reasons of these extended errors.
    pub(super) fn fail(
        &mut self,
        now_ns: u64,
        client: &Client,
        query: &Query,
        causes: [Option<u16>; 2],
        out: &mut impl Output,
    ) {
        self.stats.failed += 1;
        let form = self.form(now_ns, client, query);
        let mut notes = Notes::none();
        causes.into_iter().flatten().for_each(|cause| notes.say(cause));
        let flags = query.asked.answer_flags(rcode::SERVFAIL);
        out.to_client(client, |buffer| answer::write_empty(&form, &query.asked, flags, &notes, buffer));
    }

    /// Makes room: the query that has waited longest is the least likely to be waited for still.
    pub(super) fn evict_oldest_job(&mut self, out: &mut impl Output) {
        let Some(slot) = self.jobs.oldest() else { return };
        let Some(job) = self.jobs.get(slot) else { return };
        let lookups = [Wait::Main, Wait::Ahead].map(|wait| job.waits_for(wait));
        let Some(job) = self.take_out(slot) else { return };
        lookups.into_iter().flatten().for_each(|lookup| self.abandon(lookup));
        self.give_up(&job, out);
    }

    /// Ends a lookup that nobody waits for any more, where there is no room for those that somebody needs.
    fn abandon(&mut self, slot: u16) {
        let unwanted = |lookup: &Lookup| lookup.waiters.is_empty();
        if self.lookups.room() == 0 && self.lookups.get(slot).is_some_and(unwanted) {
            self.end_try(slot);
            self.lookups.remove(slot);
        }
    }

    /// Makes room for a lookup: those who wait for the one whose try began first get no answer.
    pub(super) fn evict_oldest_lookup(&mut self, out: &mut impl Output) {
        let Some((slot, _)) = self.lookups.first_due() else { return };
        self.end_try(slot);
        let Some(mut waiters) = self.lookups.remove(slot) else { return };
        while let Some((slot, wait)) = self.jobs.pop_waiter(&mut waiters) {
            match (wait, self.jobs.get(slot)) {
                // It is asked for afterwards.
                (Wait::Ahead, Some(job)) if job.stage == Stage::Aaaa => {}
                _ => {
                    if let Some(job) = self.take_out(slot) {
                        self.give_up(&job, out);
                    }
                }
            }
        }
    }

    fn give_up(&mut self, job: &Job, out: &mut impl Output) {
        self.stats.evicted += 1;
        out.no_answer(&job.client);
        out.notice(Notice::Full);
    }

    /// Why a reply was passed on.
    fn count_passed(&mut self, job: &Job, reply: &Message<'_>, strip: bool) {
        let stats = &mut self.stats;
        let counter = match (job.stage, reply.header.rcode()) {
            (Stage::Aaaa, rcode::NOERROR) => &mut stats.passed_aaaa,
            (Stage::Aaaa, rcode::NXDOMAIN) => &mut stats.passed_nxdomain,
            (Stage::Aaaa, _) => &mut stats.passed_error,
            (Stage::Plain, _) if job.query.asked.question.qtype != dns64::wire::rtype::AAAA => {
                &mut stats.passed_other
            }
            _ => return,
        };
        debug_assert!(!strip || job.stage == Stage::Aaaa);
        *counter += 1;
    }
}
