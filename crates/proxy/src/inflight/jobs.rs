//! Jobs: clients' queries that wait for lookups.

use std::net::Ipv4Addr;

use super::chain::{Links, List};
use crate::client::{Client, Query};

/// Which question of the job a lookup answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The client's question, which the DNS64 rule has no part in.
    Plain,
    /// AAAA, for the DNS64 rule.
    Aaaa,
    /// A, to synthesize from.
    A {
        /// The limit of the synthesized TTL in seconds.
        ttl_cap_s: u32,
    },
    /// The `in-addr.arpa` name of a synthesized address.
    Reverse {
        /// The address.
        ipv4: Ipv4Addr,
    },
}

/// What a job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The lookup of its stage.
    Main = 0,
    /// The A lookup that runs beside the AAAA lookup.
    Ahead = 1,
}

/// How a lookup ended that ran ahead of its stage.
#[derive(Debug)]
pub enum Held {
    /// With this reply.
    Reply(Box<[u8]>),
    /// Without one, for the reason of this extended error (RFC 8914).
    Failure(u16),
}

/// One client's query.
#[derive(Debug)]
pub struct Job {
    /// Who asked.
    pub client: Client,
    /// What was asked.
    pub query: Query,
    /// The number of the client's view.
    pub view: usize,
    /// Its number, which no other job has.
    pub number: u64,
    /// What it is at.
    pub stage: Stage,
    /// No try starts for it that could end later.
    pub deadline_ns: u64,
    /// When a stale answer is given, if there is one.
    pub stale_at_ns: u64,
    /// The last question failed before: that is remembered (RFC 9520).
    pub failed_before: bool,
    /// The end of the A lookup that was sent ahead.
    pub held: Option<Held>,
    /// The slots of the lookups it waits for, by [`Wait`].
    waits: [Option<u16>; 2],
    /// It stands in the list of jobs that have not been looked at for a stale answer.
    young: bool,
}

impl Job {
    /// A job that waits for nothing yet.
    pub fn new(
        client: Client,
        query: Query,
        view: usize,
        stage: Stage,
        deadline_ns: u64,
        number: u64,
    ) -> Self {
        Self {
            client,
            query,
            view,
            number,
            stage,
            deadline_ns,
            stale_at_ns: u64::MAX,
            failed_before: false,
            held: None,
            waits: [None; 2],
            young: false,
        }
    }

    /// The same query, waiting for nothing.
    pub fn again(&self) -> Self {
        Self::new(self.client, self.query, self.view, self.stage, self.deadline_ns, self.number)
    }

    /// The slot of the lookup it waits for.
    pub fn waits_for(&self, wait: Wait) -> Option<u16> {
        self.waits[wait as usize]
    }
}

/// A fixed number of slots.
pub struct Jobs {
    slots: Vec<Option<Job>>,
    free: Vec<u32>,
    /// Two places for each job: what it waits for by [`Wait`].
    waiting: Links,
    ages: Links,
    young: List,
    old: List,
}

impl Jobs {
    /// Room for `slots` jobs, 1 to 65535.
    pub fn new(slots: usize) -> Self {
        let count = slots.clamp(1, usize::from(u16::MAX));
        Self {
            slots: std::iter::repeat_with(|| None).take(count).collect(),
            free: (0..count as u32).rev().collect(),
            waiting: Links::new(2 * count),
            ages: Links::new(count),
            young: List::default(),
            old: List::default(),
        }
    }

    /// The number of jobs.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether no more can be taken.
    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Takes a slot; gives the job back when all are taken.
    pub fn insert(&mut self, mut job: Job) -> Result<usize, Box<Job>> {
        let Some(slot) = self.free.pop() else { return Err(Box::new(job)) };
        let slot = slot as usize;
        (job.young, job.waits) = (true, [None; 2]);
        self.ages.append(&mut self.young, slot);
        self.slots[slot] = Some(job);
        Ok(slot)
    }

    /// Frees the slot of a job that waits for nothing any more; returns the job.
    pub fn remove(&mut self, slot: usize) -> Option<Job> {
        let job = self.slots.get_mut(slot)?.take()?;
        let list = if job.young { &mut self.young } else { &mut self.old };
        self.ages.remove(list, slot);
        self.free.push(slot as u32);
        Some(job)
    }

    /// The job in a slot.
    pub fn get(&self, slot: usize) -> Option<&Job> {
        self.slots.get(slot)?.as_ref()
    }

    /// Likewise, to change it.
    pub fn get_mut(&mut self, slot: usize) -> Option<&mut Job> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// The job that came first.
    pub fn oldest(&self) -> Option<usize> {
        self.old.first().or(self.young.first())
    }

    /// The first job that was not looked at for a stale answer, and when it is to be.
    pub fn first_young(&self) -> Option<(usize, u64)> {
        let slot = self.young.first()?;
        Some((slot, self.get(slot)?.stale_at_ns))
    }

    /// The job has been looked at.
    pub fn grow_old(&mut self, slot: usize) {
        let Some(job) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        if std::mem::replace(&mut job.young, false) {
            self.ages.remove(&mut self.young, slot);
            self.ages.append(&mut self.old, slot);
        }
    }

    /// Lets the job wait for a lookup, whose list of waiters this is. It waits for none by this [`Wait`] yet.
    pub fn wait(&mut self, slot: usize, wait: Wait, lookup: u16, waiters: &mut List) {
        let Some(job) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        job.waits[wait as usize] = Some(lookup);
        self.waiting.append(waiters, 2 * slot + wait as usize);
    }

    /// Takes the job out of a lookup's list of waiters.
    pub fn leave(&mut self, slot: usize, wait: Wait, waiters: &mut List) {
        let Some(job) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        if job.waits[wait as usize].take().is_some() {
            self.waiting.remove(waiters, 2 * slot + wait as usize);
        }
    }

    /// Takes the first waiter out of a lookup's list.
    pub fn pop_waiter(&mut self, waiters: &mut List) -> Option<(usize, Wait)> {
        let first = waiters.first()?;
        let (slot, wait) = (first / 2, if first % 2 == 0 { Wait::Main } else { Wait::Ahead });
        self.waiting.remove(waiters, first);
        if let Some(job) = self.get_mut(slot) {
            job.waits[wait as usize] = None;
        }
        Some((slot, wait))
    }
}

#[cfg(test)]
mod tests {
    use dns64::rewrite::Asked;
    use dns64::wire::{Name, Question};

    use super::*;
    use crate::client::Channel;

    fn job() -> Job {
        let client = Client {
            address: ([127, 0, 0, 1], 1).into(),
            listener: 0,
            channel: Channel::Udp { socket: 0, local: None },
        };
        let asked = Asked {
            id: 1,
            question: Question { name: Name::ROOT, qtype: 28, qclass: 1 },
            recursion_desired: true,
            checking_disabled: false,
            dnssec_ok: false,
        };
        let query = Query { asked, wants_ad: false, edns: None };
        Job::new(client, query, 0, Stage::Aaaa, 9, 1)
    }

    #[test]
    fn waiters_come_in_the_order_they_came() {
        let mut jobs = Jobs::new(3);
        let mut waiters = List::default();
        let slots: Vec<usize> = (0..3).map(|_| jobs.insert(job()).unwrap()).collect();
        assert!(jobs.is_full() && jobs.insert(job()).is_err());
        for &slot in &slots {
            jobs.wait(slot, Wait::Main, 7, &mut waiters);
        }
        jobs.wait(slots[0], Wait::Ahead, 7, &mut waiters);
        jobs.leave(slots[1], Wait::Main, &mut waiters);
        jobs.leave(slots[1], Wait::Ahead, &mut waiters);
        assert_eq!(jobs.get(slots[1]).unwrap().waits_for(Wait::Main), None);
        let order: Vec<_> = std::iter::from_fn(|| jobs.pop_waiter(&mut waiters)).collect();
        assert_eq!(order, [(slots[0], Wait::Main), (slots[2], Wait::Main), (slots[0], Wait::Ahead)]);
        assert!(waiters.is_empty());
    }

    #[test]
    fn the_oldest_is_known_also_after_a_look_for_stale_answers() {
        let mut jobs = Jobs::new(3);
        let slots: Vec<usize> = (0..3).map(|_| jobs.insert(job()).unwrap()).collect();
        jobs.grow_old(slots[0]);
        jobs.grow_old(slots[0]);
        assert_eq!(jobs.oldest(), Some(slots[0]));
        assert_eq!(jobs.first_young().unwrap().0, slots[1]);
        jobs.remove(slots[0]);
        assert_eq!(jobs.oldest(), Some(slots[1]));
        jobs.remove(slots[1]);
        jobs.remove(slots[2]);
        assert!(jobs.is_empty() && jobs.oldest().is_none() && jobs.remove(slots[2]).is_none());
    }
}
