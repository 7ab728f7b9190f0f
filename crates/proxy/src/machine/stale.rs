//! Answers after their end of life, where no fresh one can be had (RFC 8767).

use dns64::rule::{self, Step, Treatment};
use dns64::wire::{Message, rcode};

use super::{Machine, Output};
use crate::answer::Notes;
use crate::ede::code;
use crate::inflight::{Job, Stage};

impl Machine {
    /// When a job that begins now is given a stale answer, if there is one.
    pub(super) fn stale_at_ns(&self, now_ns: u64) -> u64 {
        let stale = self.settings.caching.stale.filter(|_| self.shared.cache.keeps());
        stale.map_or(u64::MAX, |stale| now_ns + stale.client_timer_ns)
    }

    /// Gives stale answers to the clients that have waited long enough for fresh ones. The lookups go on.
    pub(super) fn serve_waiting_stale(&mut self, now_ns: u64, out: &mut impl Output) {
        while let Some((slot, due_ns)) = self.jobs.first_young() {
            if due_ns > now_ns {
                return;
            }
            self.jobs.grow_old(slot);
            let Some(job) = self.jobs.get(slot) else { continue };
            let again = job.again();
            if self.answer_stale(now_ns, &again, out) {
                self.take_out(slot);
            }
        }
    }

    /// Answers from what is remembered, whatever its age; false where that is not enough. The stage that the job has
    /// reached stays: a denial of AAAA is not forgotten because A cannot be had.
    pub(super) fn answer_stale(&mut self, now_ns: u64, job: &Job, out: &mut impl Output) -> bool {
        if self.settings.caching.stale.is_none() || !self.shared.cache.keeps() {
            return false;
        }
        let mut job = job.again();
        let wanted = self.wanted(&job, job.stage);
        if !self.recall_stale(now_ns, &wanted) {
            return false;
        }
        match self.judge_stale(&job) {
            Some(Step::AskA { ttl_cap_s }) => {
                job.stage = Stage::A { ttl_cap_s };
                let wanted = self.wanted(&job, job.stage);
                self.recall_stale(now_ns, &wanted) && self.send_stale(now_ns, &job, false, out)
            }
            Some(step) => self.send_stale(now_ns, &job, step == Step::StripExcluded, out),
            None => false,
        }
    }

    /// Answers a job whose AAAA lookup has failed from an older reply, if nothing need be synthesized then: a failure
    /// that passes must not lead a site with native addresses through NAT64.
    pub(super) fn answer_stale_native(&mut self, now_ns: u64, job: &Job, out: &mut impl Output) -> bool {
        let wanted = self.wanted(job, job.stage);
        if !self.recall_stale(now_ns, &wanted) {
            return false;
        }
        match self.judge_stale(job) {
            Some(Step::PassThrough) => self.send_stale(now_ns, job, false, out),
            Some(Step::StripExcluded) => self.send_stale(now_ns, job, true, out),
            _ => false,
        }
    }

    /// What the DNS64 rule says of the recalled reply.
    fn judge_stale(&self, job: &Job) -> Option<Step> {
        let reply = Message::parse(&self.buffers.recalled).ok()?;
        let view = &self.settings.views[job.view];
        let (Stage::Aaaa, Some(policy)) = (job.stage, &view.rule) else { return Some(Step::PassThrough) };
        let always = view.always.covers(&job.query.asked.question.name);
        let treatment = if always { Treatment::Always } else { Treatment::Rule };
        Some(rule::next_step(policy, treatment, &job.query.asked, Some(&reply)))
    }

    fn send_stale(&mut self, now_ns: u64, job: &Job, strip: bool, out: &mut impl Output) -> bool {
        let recalled = std::mem::take(&mut self.buffers.recalled);
        let sent = match Message::parse(&recalled) {
            Ok(reply) => {
                let mut notes = Notes::none();
                let nxdomain = reply.header.rcode() == rcode::NXDOMAIN;
                notes.say(if nxdomain { code::STALE_NXDOMAIN_ANSWER } else { code::STALE_ANSWER });
                self.stats.stale_answers += 1;
                self.send(now_ns, job, &reply, strip, notes, out);
                true
            }
            Err(_) => false,
        };
        self.buffers.recalled = recalled;
        sent
    }
}
