//! The memory that clients can take up by what they send and do not take: the octets of their queries and
//! answers that wait, bounded for all connections together.
//!
//! A connection may hold much while others hold little. When all hold too much, a connection ends: that which
//! holds the most, of the network that holds the most.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::usage::Usage;
use crate::Limits;

/// The octets that wait for all connections.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// Below zero for a moment where a connection was forgotten between the two halves of a charge.
    waiting_octets: AtomicI64,
    max_octets: AtomicI64,
}

impl Budget {
    pub fn set_limits(&self, limits: &Limits) {
        let octets = i64::try_from(limits.waiting_octets_max()).unwrap_or(i64::MAX);
        self.max_octets.store(octets, Ordering::Relaxed);
    }

    /// How many octets wait.
    pub fn waiting_octets(&self) -> u64 {
        u64::try_from(self.waiting_octets.load(Ordering::Relaxed)).unwrap_or(0)
    }

    pub fn is_exceeded(&self) -> bool {
        self.waiting_octets.load(Ordering::Relaxed) > self.max_octets.load(Ordering::Relaxed)
    }

    /// Counts these octets no more: their connection was told to end, and lets go of them when it does.
    pub fn forget(&self, octets: u64) {
        self.add(-(octets as i64));
    }

    fn add(&self, octets: i64) {
        self.waiting_octets.fetch_add(octets, Ordering::Relaxed);
    }
}

/// Octets of one connection that wait. They are let go of when this is dropped.
pub(crate) struct Charge {
    budget: Arc<Budget>,
    usage: Arc<Usage>,
    octets: usize,
}

impl Charge {
    pub fn new(budget: &Arc<Budget>, usage: &Arc<Usage>, octets: usize) -> Self {
        let mut charge = Self { budget: budget.clone(), usage: usage.clone(), octets: 0 };
        charge.resize(octets);
        charge
    }

    /// Waits for so many octets instead.
    pub fn resize(&mut self, octets: usize) {
        let more = octets as i64 - self.octets as i64;
        if more != 0 && self.usage.add_waiting(more) {
            self.budget.add(more);
        }
        self.octets = octets;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Protocol;

    #[test]
    fn what_a_connection_holds_when_it_is_cut_counts_no_more() {
        let budget = Arc::new(Budget::default());
        let [kept, cut] = [(); 2].map(|()| Usage::new(Protocol::Tcp, &Limits::default(), 0));
        let _kept = Charge::new(&budget, &kept, 10);
        let mut held = Charge::new(&budget, &cut, 100);
        held.resize(50);
        assert_eq!((budget.waiting_octets(), cut.waiting_octets()), (60, 50));
        budget.forget(cut.cut());
        assert_eq!(budget.waiting_octets(), 10);
        let later = Charge::new(&budget, &cut, 7);
        held.resize(90);
        drop((held, later));
        assert_eq!((budget.waiting_octets(), cut.waiting_octets()), (10, 0));
    }
}
