//! Jobs: clients' queries, each in its slot from its beginning to its end.

use super::chain::{Links, List};
use super::crowds::{ALL, Crowds};
use super::{Event, Failure, State, UpstreamQuery};
use crate::client::{Client, Query};
use crate::domains::Routes;

/// The longest reply that is held for a job, in octets: whatever servers send, a job costs no more memory.
const HELD_OCTETS_MAX: usize = 4_096;

/// What a job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The lookup of its state.
    Main = 0,
    /// The A lookup that runs beside the AAAA lookup.
    Ahead = 1,
}

/// How an A lookup ended that was sent ahead, before its job needed A.
#[derive(Debug)]
pub enum Held {
    /// With this reply.
    Reply(Box<[u8]>),
    /// Without one.
    Failure(Failure),
}

/// How far a job has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    /// It has begun and does not wait.
    New,
    /// It waits, and has not been looked at for a stale answer.
    Young,
    /// It waits, and has been looked at.
    Old,
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
    /// The reply that it needs.
    pub state: State,
    /// No try starts for it that could end later.
    pub deadline_ns: u64,
    /// When a stale answer is given, if there is one.
    pub stale_at_ns: u64,
    /// The end of the A lookup that was sent ahead.
    pub held: Option<Held>,
    /// The slots of the lookups it waits for, by [`Wait`].
    waits: [Option<u16>; 2],
    age: Age,
}

impl Job {
    /// A job that waits for nothing yet; [`Jobs::begin`] gives it its number.
    pub fn new(
        client: Client,
        query: Query,
        view: usize,
        state: State,
        deadline_ns: u64,
        stale_at_ns: u64,
    ) -> Self {
        Self {
            client,
            query,
            view,
            number: 0,
            state,
            deadline_ns,
            stale_at_ns,
            held: None,
            waits: [None; 2],
            age: Age::New,
        }
    }

    /// The query whose reply it needs.
    pub fn upstream_query(&self, routes: &Routes) -> UpstreamQuery {
        self.state.query(&self.query.asked, routes)
    }

    /// The slot of the lookup it waits for.
    pub fn waits_for(&self, wait: Wait) -> Option<u16> {
        self.waits[wait as usize]
    }

    /// Keeps the end of the A lookup that was sent ahead, until the job needs A.
    pub fn hold(&mut self, event: Event<'_>) {
        self.held = match event {
            // A longer reply is in the cache, or asked for again.
            Event::Reply(reply) if reply.octets().len() <= HELD_OCTETS_MAX => {
                Some(Held::Reply(reply.octets().into()))
            }
            Event::Reply(_) | Event::Query => None,
            Event::Failure(failure) => Some(Held::Failure(failure)),
        };
    }
}

/// A fixed number of slots: one for each job that may wait, and one for the job that begins.
pub struct Jobs {
    slots: Vec<Option<Job>>,
    free: Vec<u32>,
    /// Counts the jobs: their numbers.
    begun: u64,
    /// Two places for each job: what it waits for by [`Wait`].
    waiting: Links,
    /// The links of the young ones.
    ages: Links,
    young: List,
    /// Those that wait, in one crowd.
    crowds: Crowds,
}

impl Jobs {
    /// Room for `slots` jobs that wait, 1 to 65535.
    pub fn new(slots: usize) -> Self {
        let count = slots.clamp(1, usize::from(u16::MAX)) + 1;
        Self {
            slots: std::iter::repeat_with(|| None).take(count).collect(),
            free: (0..count as u32).rev().collect(),
            begun: 0,
            waiting: Links::new(2 * count),
            ages: Links::new(count),
            young: List::default(),
            crowds: Crowds::new(count),
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

    /// Whether no slot is left for a job that begins.
    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Puts a job into a slot and gives it a number that no other job has. `None` when all slots are taken.
    pub fn begin(&mut self, job: Job) -> Option<usize> {
        let slot = self.free.pop()? as usize;
        self.begun += 1;
        self.slots[slot] = Some(Job { number: self.begun, ..job });
        Some(slot)
    }

    /// The job in a slot waits from now on. One that has begun is the youngest; one that has waited keeps its
    /// place.
    pub fn queue(&mut self, slot: usize) {
        let Some(job) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        if job.age == Age::New {
            job.age = Age::Young;
            let network = self.crowds.network(job.client.address.ip());
            self.crowds.join(slot, ALL, network);
            self.ages.append(&mut self.young, slot);
        }
    }

    /// Frees the slot of a job that waits for no lookup any more.
    pub fn remove(&mut self, slot: usize) {
        let Some(place) = self.slots.get_mut(slot) else { return };
        let Some(job) = place else { return };
        if job.age == Age::Young {
            self.ages.remove(&mut self.young, slot);
        }
        self.crowds.leave(slot);
        *place = None;
        self.free.push(slot as u32);
    }

    /// The job in a slot.
    pub fn get(&self, slot: usize) -> Option<&Job> {
        self.slots.get(slot)?.as_ref()
    }

    /// Likewise, to change it.
    pub fn get_mut(&mut self, slot: usize) -> Option<&mut Job> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// The job that has to go when there is no room: the oldest of the network with the most jobs that wait.
    /// So a flood of one network gives up its own queries.
    pub fn first_to_go(&self) -> Option<usize> {
        self.crowds.first_to_go(ALL).map(|(slot, _)| slot)
    }

    /// The first job that was not looked at for a stale answer, and when it is to be.
    pub fn first_young(&self) -> Option<(usize, u64)> {
        let slot = self.young.first()?;
        Some((slot, self.get(slot)?.stale_at_ns))
    }

    /// The job has been looked at.
    pub fn grow_old(&mut self, slot: usize) {
        let Some(job) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        if job.age == Age::Young {
            job.age = Age::Old;
            self.ages.remove(&mut self.young, slot);
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
    use dns64::rewrite::ClientQuery;
    use dns64::wire::{Name, Question};

    use super::*;
    use crate::client::Channel;

    fn job() -> Job {
        let client = Client {
            address: ([127, 0, 0, 1], 1).into(),
            listener: 0,
            channel: Channel::Udp { socket: 0, local: None },
        };
        let asked = ClientQuery {
            id: 1,
            question: Question { name: Name::ROOT, qtype: 28, qclass: 1 },
            recursion_desired: true,
            checking_disabled: false,
            dnssec_ok: false,
        };
        let query = Query { asked, wants_ad: false, edns: None };
        Job::new(client, query, 0, State::NeedsAaaa, 9, u64::MAX)
    }

    fn waiting(jobs: &mut Jobs) -> usize {
        let slot = jobs.begin(job()).unwrap();
        jobs.queue(slot);
        slot
    }

    #[test]
    fn waiters_come_in_the_order_they_came() {
        let mut jobs = Jobs::new(3);
        let mut waiters = List::default();
        let slots: Vec<usize> = (0..3).map(|_| waiting(&mut jobs)).collect();
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
    fn the_oldest_is_the_first_to_go_also_after_a_look_for_stale_answers() {
        let mut jobs = Jobs::new(3);
        let slots: Vec<usize> = (0..3).map(|_| waiting(&mut jobs)).collect();
        jobs.grow_old(slots[0]);
        jobs.grow_old(slots[0]);
        jobs.queue(slots[0]);
        assert_eq!(jobs.first_to_go(), Some(slots[0]));
        assert_eq!(jobs.first_young().unwrap().0, slots[1]);
        jobs.remove(slots[0]);
        assert_eq!(jobs.first_to_go(), Some(slots[1]));
        jobs.remove(slots[1]);
        jobs.remove(slots[2]);
        jobs.remove(slots[2]);
        assert!(jobs.is_empty() && jobs.first_to_go().is_none());
    }

    #[test]
    fn the_network_with_the_most_jobs_gives_up_its_oldest() {
        let mut jobs = Jobs::new(5);
        let slots = [1u8, 1, 2, 2, 2].map(|network| {
            let mut job = job();
            job.client.address = ([10, 0, network, 1], 1).into();
            let slot = jobs.begin(job).unwrap();
            jobs.queue(slot);
            slot
        });
        assert_eq!(jobs.first_to_go(), Some(slots[2]));
        jobs.grow_old(slots[0]);
        assert_eq!(jobs.first_to_go(), Some(slots[2]), "whether they have been looked at or not");
        jobs.remove(slots[2]);
        assert_eq!(jobs.first_to_go(), Some(slots[0]), "the oldest of equals");
    }

    #[test]
    fn one_slot_more_is_for_the_job_that_begins() {
        let mut jobs = Jobs::new(2);
        let slots = [(); 2].map(|()| waiting(&mut jobs));
        let begun = jobs.begin(job()).unwrap();
        assert!(jobs.is_full() && jobs.begin(job()).is_none());
        assert_eq!(jobs.first_to_go(), Some(slots[0]), "what has begun is not in the order");
        assert_eq!(slots.map(|slot| jobs.get(slot).unwrap().number), [1, 2]);
        jobs.remove(slots[0]);
        jobs.queue(begun);
        jobs.queue(begun);
        jobs.remove(slots[1]);
        assert_eq!((jobs.first_to_go(), jobs.len()), (Some(begun), 1));
    }
}
