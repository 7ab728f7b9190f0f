//! The closed loops: a query is sent when an answer has arrived. The record labels such trials as closed
//! loops.

use std::collections::VecDeque;

use crate::pacer::{EXPERIMENT_QUERIES, Model};
use crate::stats::Spread;

/// The slots of a lane: each has one query outstanding at most.
#[derive(Clone, Debug)]
pub(super) struct ClosedLoop {
    /// Slots that may send, in the order in which they became free.
    free: VecDeque<u16>,
    /// How many queries each slot may still send in this experiment.
    left: Box<[u32]>,
    /// Queries of a slot in an experiment; `None` without experiments.
    quota: Option<u32>,
    /// Of the queries in flight, by number: their slots. A power of two.
    slots: Box<[u16]>,
    /// The oldest query that may still hold its slot.
    oldest: u64,
    /// Slots whose queries had no connection, and until when they are kept, in ns.
    held: VecDeque<(u64, u16)>,
    idle: usize,
    experiment_from_ns: Option<u64>,
    /// When a query left last.
    pub(super) sent_last_ns: u64,
    /// When a query left or ended last.
    pub(super) last_ns: u64,
    pub(super) experiments: Spread,
}

impl ClosedLoop {
    /// `None` for open-loop models. `ring` queries, a power of two, are remembered.
    pub(super) fn new(model: &Model, ring: usize) -> Option<Self> {
        let (slots, quota) = match *model {
            Model::Window { queries } => (queries, None),
            Model::Experiments { slots, .. } => (slots, Some(EXPERIMENT_QUERIES as u32 / slots.max(1))),
            _ => return None,
        };
        let slots = slots.clamp(1, u16::MAX.into()) as u16;
        Some(Self {
            free: (0..slots).collect(),
            left: vec![quota.unwrap_or(u32::MAX); slots.into()].into_boxed_slice(),
            quota,
            slots: vec![0; ring].into_boxed_slice(),
            oldest: 0,
            held: VecDeque::new(),
            idle: slots.into(),
            experiment_from_ns: None,
            sent_last_ns: 0,
            last_ns: 0,
            experiments: Spread::default(),
        })
    }

    /// How many queries may leave now.
    pub(super) fn ready(&self) -> u64 {
        self.free.len() as u64
    }

    /// The oldest query that may still hold its slot, of those before `next`.
    pub(super) fn oldest(&self, next: u64) -> Option<u64> {
        (self.oldest < next).then_some(self.oldest)
    }

    /// Goes on to the next oldest one.
    pub(super) fn pass_oldest(&mut self) {
        self.oldest += 1;
    }

    /// Query `own` leaves in the next free slot.
    pub(super) fn sent(&mut self, own: u64, now_ns: u64) {
        let Some(slot) = self.free.pop_front() else { return };
        (self.sent_last_ns, self.last_ns) = (now_ns, now_ns);
        let place = own as usize & (self.slots.len() - 1);
        self.slots[place] = slot;
        self.idle -= 1;
        if self.quota.is_some() {
            self.left[usize::from(slot)] -= 1;
            self.experiment_from_ns.get_or_insert(now_ns);
        }
    }

    /// Query `own` was answered, or waited for long enough: its slot is free. Queries that gave up before do
    /// not count again.
    pub(super) fn ended(&mut self, own: u64, at_ns: u64) {
        if own < self.oldest {
            return;
        }
        self.leave(self.slot_of(own), at_ns);
    }

    /// Query `own` had no connection. Its slot is kept until this instant in ns, as if an answer was waited
    /// for: a loop that tried again at once would do nothing else.
    pub(super) fn hold(&mut self, own: u64, until_ns: u64) {
        if own >= self.oldest {
            self.held.push_back((until_ns, self.slot_of(own)));
        }
    }

    /// Frees the slots that were kept for long enough.
    pub(super) fn release(&mut self, now_ns: u64) {
        while let Some((until_ns, slot)) = self.held.front().copied().filter(|held| held.0 <= now_ns) {
            self.held.pop_front();
            self.leave(slot, until_ns);
        }
    }

    /// When the next slot that is kept will be free, in ns.
    pub(super) fn held_until_ns(&self) -> Option<u64> {
        self.held.front().map(|(until_ns, _)| *until_ns)
    }

    fn slot_of(&self, own: u64) -> u16 {
        self.slots[own as usize & (self.slots.len() - 1)]
    }

    fn leave(&mut self, slot: u16, at_ns: u64) {
        self.last_ns = self.last_ns.max(at_ns);
        self.idle += 1;
        if self.left[usize::from(slot)] > 0 {
            self.free.push_back(slot);
        } else if self.idle == self.left.len() && self.left.iter().all(|left| *left == 0) {
            self.experiment_ended(at_ns);
        }
    }

    fn experiment_ended(&mut self, at_ns: u64) {
        if let Some(from_ns) = self.experiment_from_ns.take() {
            self.experiments.add(at_ns.saturating_sub(from_ns) as f64);
        }
        self.left.fill(self.quota.unwrap_or(u32::MAX));
        self.free.extend(0..self.left.len() as u16);
    }
}
