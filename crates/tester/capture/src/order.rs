//! Queries in the order of their times, as far as a bounded window of them reaches.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A query that waits for those before it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waiting {
    pub time_ns: u64,
    /// Its number in the capture: those of one instant keep their order.
    pub number: u64,
    pub client: u32,
    pub message: Box<[u8]>,
}

/// Sorts what is nearly sorted.
#[derive(Debug)]
pub(crate) struct Order {
    window: usize,
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// The time of the query given last.
    given_ns: u64,
}

impl Order {
    /// Queries may come so many places late.
    pub fn new(window: usize) -> Self {
        Self { window, waiting: BinaryHeap::new(), given_ns: 0 }
    }

    /// Takes a query. Returns the earliest when the window is full.
    ///
    /// # Errors
    /// One after it was given already.
    pub fn push(&mut self, query: Waiting) -> Result<Option<Waiting>, Late> {
        if query.time_ns < self.given_ns {
            return Err(Late);
        }
        self.waiting.push(Reverse(query));
        Ok(if self.waiting.len() > self.window { self.pop() } else { None })
    }

    /// The earliest query that waits.
    pub fn pop(&mut self) -> Option<Waiting> {
        let Reverse(query) = self.waiting.pop()?;
        self.given_ns = query.time_ns;
        Some(query)
    }
}

/// A query came after one that is later was given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Late;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn times_never_fall_and_nothing_vanishes(
            times in prop::collection::vec(0u64..100, 0..200), window in 0usize..20,
        ) {
            let mut order = Order::new(window);
            let (mut given, mut late) = (Vec::new(), 0);
            for (number, &time_ns) in (0..).zip(&times) {
                match order.push(Waiting { time_ns, number, client: 0, message: Box::default() }) {
                    Ok(query) => given.extend(query),
                    Err(Late) => late += 1,
                }
            }
            given.extend(std::iter::from_fn(|| order.pop()));
            prop_assert_eq!(given.len() + late, times.len());
            prop_assert!(given.is_sorted_by(|a, b| (a.time_ns, a.number) < (b.time_ns, b.number)));
            if window >= times.len() {
                prop_assert_eq!(late, 0);
            }
        }
    }
}
