//! Expired answers, given when no fresh answer is available (RFC 8767).

use dns64::wire::{Message, rcode, rtype};

use super::client_side::Origin;
use super::recall::Recall;
use super::{Machine, Output};
use crate::answer::{ExtendedErrors, reply_octets_max};
use crate::cache::Found;
use crate::ede::code;
use crate::inflight::{Event, Job, Next, State, UpstreamQuery};
use crate::settings::Settings;

/// Which stale answers may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowed {
    /// Each of them.
    All,
    /// Those without synthesized addresses.
    Native,
}

/// What is remembered that answers a job, whatever its age.
enum StaleAnswer {
    /// Nothing.
    Nothing,
    /// A reply that is too long for the client's datagrams by far.
    TooLong,
    /// A reply to the question of this state, in [`Recall::octets`].
    Reply {
        state: State,
        /// Excluded AAAA records are taken out.
        strip: bool,
    },
}

impl Machine {
    /// Gives stale answers to the clients that have waited long enough for fresh ones. The lookups go on.
    pub(super) fn serve_waiting_stale(&mut self, now_ns: u64, out: &mut impl Output) {
        while let Some((slot, due_ns)) = self.jobs.first_young() {
            if due_ns > now_ns {
                return;
            }
            self.jobs.grow_old(slot);
            if self.answer_stale(now_ns, slot, Allowed::All, out) {
                self.end_job(slot);
            }
        }
    }

    /// Answers a job from what is remembered, whatever its age; false where that is not enough. The job stays
    /// as it is.
    pub(super) fn answer_stale(
        &mut self,
        now_ns: u64,
        slot: usize,
        allowed: Allowed,
        out: &mut impl Output,
    ) -> bool {
        let Some(job) = self.jobs.get(slot) else { return false };
        let (state, strip) = match self.recall.stale_answer(now_ns, &self.settings, job, allowed) {
            StaleAnswer::Nothing => return false,
            StaleAnswer::TooLong => {
                self.client_side.truncate(now_ns, &job.client, &job.query, &mut self.stats, out);
                return true;
            }
            StaleAnswer::Reply { state, strip } => (state, strip),
        };
        let Ok(reply) = &Message::parse(&self.recall.octets) else { return false };
        let nxdomain = reply.header.rcode() == rcode::NXDOMAIN;
        let mut notes = ExtendedErrors::none();
        notes.say(if nxdomain { code::STALE_NXDOMAIN_ANSWER } else { code::STALE_ANSWER });
        self.stats.stale_answers += 1;
        let origin = Origin { state, reply, strip, notes };
        self.client_side.answer(now_ns, job, origin, &mut self.stats, out);
        true
    }
}

impl Recall {
    /// When a job that begins now is given a stale answer, if there is one.
    pub fn stale_at_ns(&self, now_ns: u64) -> u64 {
        let stale = self.caching.stale.filter(|_| self.cache.keeps());
        stale.map_or(u64::MAX, |stale| now_ns + stale.client_timer_ns)
    }

    /// Leads a job from its state on by what is remembered alone, to a reply that answers it.
    fn stale_answer(&mut self, now_ns: u64, settings: &Settings, job: &Job, allowed: Allowed) -> StaleAnswer {
        let (view, asked) = (&settings.views[job.view], &job.query.asked);
        let octets_max = reply_octets_max(settings, &job.client, &job.query);
        let mut state = job.state;
        loop {
            let found = self.get_stale(now_ns, &state.query(asked, &settings.routes), octets_max);
            if found.is_some_and(|found| !found.copied) {
                return StaleAnswer::TooLong;
            }
            let (Some(_), Ok(reply)) = (found, Message::parse(&self.octets)) else {
                return StaleAnswer::Nothing;
            };
            // Nothing is asked upstream, so nothing can be too late.
            match state.next(view, asked, true, Event::Reply(&reply)) {
                Next::Ask(next) if allowed == Allowed::All => state = next,
                Next::Answer { strip, .. } => return StaleAnswer::Reply { state, strip },
                Next::Ask(_) | Next::Fail(_) => return StaleAnswer::Nothing,
            }
        }
    }

    /// Looks for a reply that may be given in spite of its age (RFC 8767 5); its TTLs are set so.
    fn get_stale(&mut self, now_ns: u64, query: &UpstreamQuery, octets_max: usize) -> Option<Found> {
        let stale = self.caching.stale?;
        let found = self.cache.get_within(&query.key(), now_ns, octets_max, &mut self.octets)?;
        if found.stale_s > stale.age_max_s {
            return None;
        }
        if found.ttl_left_s == 0 && found.copied {
            raise_ttls(&mut self.octets, stale.ttl_s);
        }
        Some(found)
    }
}

/// Sets every TTL that is lower to `ttl_s`; the fields of OPT are no TTL.
fn raise_ttls(message: &mut [u8], ttl_s: u32) {
    let Ok(parsed) = Message::parse(message) else { return };
    let records = parsed.records().map_while(Result::ok);
    let low = records.filter(|record| record.rtype != rtype::OPT && record.ttl < ttl_s);
    // Found first, written then: the message cannot be read and changed at once.
    let places: Vec<usize> = low.map(|record| record.ttl_position()).collect();
    for place in places {
        message[place..place + 4].copy_from_slice(&ttl_s.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns64::wire::{CLASS_IN, Header, Name, Question, Section, Writer};

    #[test]
    fn many_ttls_are_raised_in_one_pass() {
        let question = Question { name: Name::ROOT, qtype: rtype::A, qclass: CLASS_IN };
        let mut buffer = vec![0; 65_535];
        let mut writer = Writer::new(&mut buffer, 1, Header::QR, &question).unwrap();
        (0..3600).for_each(|_| {
            writer.record(Section::Answer, &Name::ROOT, rtype::A, CLASS_IN, 0, &[1; 4]).unwrap();
        });
        let length = writer.finish();
        let steps = dns64::steps::of(|| raise_ttls(&mut buffer[..length], 30));
        assert!((3600..3 * 3600).contains(&steps), "{steps}");
    }

    #[test]
    fn low_ttls_are_raised_and_others_are_not() {
        let question =
            Question { name: Name::from_text("a.test").unwrap(), qtype: rtype::A, qclass: CLASS_IN };
        let mut buffer = [0; 4096];
        let mut writer = Writer::new(&mut buffer, 1, Header::QR, &question).unwrap();
        for number in 0..100u8 {
            let ttl_s = if number % 2 == 0 { 0 } else { 300 };
            writer.record(Section::Answer, &question.name, rtype::A, CLASS_IN, ttl_s, &[number; 4]).unwrap();
        }
        let length = writer.finish();
        raise_ttls(&mut buffer[..length], 30);
        let ttls: Vec<u32> =
            Message::parse(&buffer[..length]).unwrap().answers().map(|record| record.ttl).collect();
        assert_eq!(ttls, [30, 300].repeat(50));
        raise_ttls(&mut [0xff; 40], 30);
    }
}
