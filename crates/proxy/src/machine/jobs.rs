//! What becomes of a job: the loop that it walks until it waits or ends.

use dns64::reverse::in_addr_arpa;
use dns64::rule::{self, Step, Treatment};
use dns64::wire::{Message, Question, rcode, rtype};

use super::recall::{Recalled, Wanted, respelled};
use super::{Machine, Output};
use crate::ede::code;
use crate::inflight::{Held, Job, Stage, Wait};

/// The longest reply that is held for a job, in octets: whatever servers send, a job costs no more memory.
const HELD_OCTETS_MAX: usize = 4_096;

/// What is known of the question that a job is at.
#[derive(Clone, Copy)]
pub(super) enum Known<'m> {
    /// The reply to it.
    Reply(&'m Message<'m>),
    /// There is none, for the reason of this extended error.
    Failure(u16),
}

impl Known<'_> {
    /// Whether it says nothing about the name.
    fn is_error(&self) -> bool {
        match self {
            Self::Reply(reply) => !matches!(reply.header.rcode(), rcode::NOERROR | rcode::NXDOMAIN),
            Self::Failure(_) => true,
        }
    }
}

/// What follows for a job.
enum Next {
    /// It is answered from the reply, without excluded records where `strip` is set.
    Answer { strip: bool },
    /// It asks for A.
    AskA { ttl_cap_s: u32 },
    /// It cannot be answered, for this reason.
    Fail(u16),
}

impl Machine {
    /// Walks a job, which stands in no slot, until it has ended or waits.
    pub(super) fn go_on(&mut self, now_ns: u64, mut job: Job, out: &mut impl Output) {
        loop {
            let wanted = self.wanted(&job, job.stage);
            let Some(recalled) = self.recall(now_ns, &wanted) else { return self.park(now_ns, job, out) };
            if self.take_recalled(now_ns, &mut job, &wanted, recalled, out) {
                return;
            }
        }
    }

    /// The same for a job that waits in a slot and is at its last question. It stays there while it waits, so that
    /// those who wait are in the order in which they came.
    fn go_on_in_slot(&mut self, now_ns: u64, slot: usize, out: &mut impl Output) {
        let Some(job) = self.jobs.get(slot) else { return };
        let wanted = self.wanted(job, job.stage);
        let Some(recalled) = self.recall(now_ns, &wanted) else {
            return self.attach(now_ns, slot, Wait::Main, out);
        };
        let Some(mut job) = self.take_out(slot) else { return };
        let ended = self.take_recalled(now_ns, &mut job, &wanted, recalled, out);
        debug_assert!(ended, "no question follows the last one");
    }

    /// Takes what was recalled; a reply is in its buffer.
    fn take_recalled(
        &mut self,
        now_ns: u64,
        job: &mut Job,
        wanted: &Wanted,
        recalled: Recalled,
        out: &mut impl Output,
    ) -> bool {
        let ageing = match recalled {
            Recalled::Fresh { ageing } => ageing,
            Recalled::Failure(cause) => {
                job.failed_before = true;
                return self.step(now_ns, job, Known::Failure(cause), out);
            }
        };
        let octets = std::mem::take(&mut self.buffers.recalled);
        let ended = match Message::parse(&octets) {
            Ok(reply) => self.step(now_ns, job, Known::Reply(&reply), out),
            Err(_) => self.step(now_ns, job, Known::Failure(code::OTHER), out),
        };
        self.buffers.recalled = octets;
        if ageing {
            self.prefetch(now_ns, wanted, out);
        }
        ended
    }

    /// Goes on with what is known; returns whether the job has ended. If not, it is at its next question.
    fn step(&mut self, now_ns: u64, job: &mut Job, known: Known<'_>, out: &mut impl Output) -> bool {
        match self.judge(now_ns, job, known) {
            Next::AskA { .. } if known.is_error() && self.answer_stale_native(now_ns, job, out) => {}
            Next::AskA { ttl_cap_s } => {
                (job.stage, job.failed_before) = (Stage::A { ttl_cap_s }, false);
                return false;
            }
            Next::Answer { strip } => self.answer(now_ns, job, known, strip, out),
            Next::Fail(cause) => self.end_without_reply(now_ns, job, cause, out),
        }
        true
    }

    /// The lookup that a job in a slot waits for has ended.
    pub(super) fn resume(&mut self, now_ns: u64, slot: usize, known: Known<'_>, out: &mut impl Output) {
        let Some(job) = self.jobs.get(slot) else { return };
        let next = self.judge(now_ns, job, known);
        if let Next::AskA { ttl_cap_s } = next {
            let error = known.is_error().then(|| job.again());
            if !error.is_some_and(|job| self.answer_stale_native(now_ns, &job, out)) {
                return self.resume_with_a(now_ns, slot, ttl_cap_s, out);
            }
        }
        let Some(job) = self.take_out(slot) else { return };
        match next {
            Next::Answer { strip } => self.answer(now_ns, &job, known, strip, out),
            Next::Fail(cause) => self.end_without_reply(now_ns, &job, cause, out),
            Next::AskA { .. } => {}
        }
    }

    /// A job in a slot needs A: that is held already, on its way, or still to be asked for.
    fn resume_with_a(&mut self, now_ns: u64, slot: usize, ttl_cap_s: u32, out: &mut impl Output) {
        let Some(job) = self.jobs.get_mut(slot) else { return };
        job.stage = Stage::A { ttl_cap_s };
        let Some(held) = job.held.take() else {
            if job.waits_for(Wait::Ahead).is_none() {
                self.go_on_in_slot(now_ns, slot, out);
            }
            return;
        };
        match held {
            Held::Failure(cause) => self.resume(now_ns, slot, Known::Failure(cause), out),
            Held::Reply(octets) => match Message::parse(&octets) {
                Ok(reply) => self.resume(now_ns, slot, Known::Reply(&reply), out),
                Err(_) => self.resume(now_ns, slot, Known::Failure(code::OTHER), out),
            },
        }
    }

    /// The A lookup that was sent ahead has ended.
    pub(super) fn hold(&mut self, now_ns: u64, slot: usize, known: Known<'_>, out: &mut impl Output) {
        let Some(job) = self.jobs.get_mut(slot) else { return };
        if job.stage != Stage::Aaaa {
            return self.resume(now_ns, slot, known, out);
        }
        job.held = match known {
            // It is in the cache, or asked for again.
            Known::Reply(reply) if reply.octets().len() > HELD_OCTETS_MAX => None,
            Known::Reply(reply) => Some(Held::Reply(reply.octets().into())),
            Known::Failure(cause) => Some(Held::Failure(cause)),
        };
    }

    /// Puts a job into a slot and lets it wait for its lookup.
    fn park(&mut self, now_ns: u64, job: Job, out: &mut impl Output) {
        if self.jobs.is_full() {
            self.evict_oldest_job(out);
        }
        let slot = match self.jobs.insert(job) {
            Ok(slot) => slot,
            // There is room after an eviction.
            Err(job) => return self.end_without_reply(now_ns, &job, code::OTHER, out),
        };
        self.attach(now_ns, slot, Wait::Main, out);
        self.plan_a(now_ns, slot, out);
    }

    /// What follows from what is known of the job's question (RFC 6147 5.1).
    fn judge(&self, now_ns: u64, job: &Job, known: Known<'_>) -> Next {
        let view = &self.settings.views[job.view];
        let (Stage::Aaaa, Some(policy)) = (job.stage, &view.rule) else {
            return match known {
                Known::Reply(_) => Next::Answer { strip: false },
                Known::Failure(cause) => Next::Fail(cause),
            };
        };
        let asked = &job.query.asked;
        let always = view.always.covers(&asked.question.name);
        let treatment = if always { Treatment::Always } else { Treatment::Rule };
        let step = match known {
            Known::Reply(reply) => rule::next_step(policy, treatment, asked, Some(reply)),
            // An address that was found forged must not be got around by way of A.
            Known::Failure(cause) if rule::is_validation_failure(cause) => return Next::Fail(cause),
            Known::Failure(_) => rule::next_step(policy, treatment, asked, None),
        };
        match (step, known) {
            (Step::PassThrough, _) => Next::Answer { strip: false },
            (Step::StripExcluded, _) => Next::Answer { strip: true },
            (Step::AskA { ttl_cap_s }, _) if self.in_time(now_ns, job.deadline_ns) => {
                Next::AskA { ttl_cap_s }
            }
            (_, Known::Failure(cause)) => Next::Fail(cause),
            (_, Known::Reply(_)) => Next::Fail(code::NO_REACHABLE_AUTHORITY),
        }
    }

    /// The question that answers a stage of a job.
    pub(super) fn wanted(&self, job: &Job, stage: Stage) -> Wanted {
        let asked = &job.query.asked;
        let (name, qtype) = match stage {
            Stage::Plain | Stage::Aaaa => (asked.question.name, asked.question.qtype),
            Stage::A { .. } => (asked.question.name, rtype::A),
            Stage::Reverse { ipv4 } => (in_addr_arpa(ipv4), rtype::PTR),
        };
        Wanted {
            question: Question { name, qtype, qclass: asked.question.qclass },
            recursion_desired: asked.recursion_desired,
            checking_disabled: asked.checking_disabled,
            dnssec_ok: asked.dnssec_ok,
            group: self.settings.routes.group_of(&name),
        }
    }

    /// Takes a job out of its slot and out of every lookup's list.
    pub(super) fn take_out(&mut self, slot: usize) -> Option<Job> {
        for wait in [Wait::Main, Wait::Ahead] {
            let lookup = self.jobs.get(slot)?.waits_for(wait);
            if let Some(lookup) = lookup.and_then(|lookup| self.lookups.get_mut(lookup)) {
                self.jobs.leave(slot, wait, &mut lookup.waiters);
            }
        }
        self.jobs.remove(slot)
    }

    /// The reply in the client's spelling, or as it is where the question is not the client's.
    pub(super) fn spelled_for<'b>(
        job: &Job,
        reply: &Message<'b>,
        buffer: &'b mut Vec<u8>,
    ) -> Option<Message<'b>> {
        match job.stage {
            Stage::Reverse { .. } => Some(*reply),
            _ => respelled(reply, &job.query.asked.question.name, buffer),
        }
    }
}
