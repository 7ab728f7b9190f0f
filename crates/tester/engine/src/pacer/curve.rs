//! Rates that change in many straight parts: after each corner of a curve a known number of queries is due.
//!
//! The curve counts billionths of a query, which are nanoseconds times queries per second. Its parts are
//! fractions of whole numbers, and each instant is computed from the corners alone: no error adds up.

use super::SECOND_NS;

/// So many billionths are a query.
const QUERY: u128 = SECOND_NS as u128;

/// A corner of a curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Corner {
    /// In ns after the start.
    pub at_ns: u64,
    /// What is due until then, in billionths of a query.
    pub due: u128,
}

/// The straight part between two corners, and of a curve that ends the part after its last corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    from: Corner,
    to: Corner,
}

impl Part {
    /// Whether query `n` is due in it.
    pub fn holds(&self, n: u64) -> bool {
        let needed = u128::from(n) * QUERY;
        self.from.due <= needed && needed < self.to.due
    }

    /// When query `n`, which is due in it, is due: the last ns at which the curve has not passed `n`.
    pub fn due_ns(&self, n: u64) -> u64 {
        let above = (u128::from(n) * QUERY).saturating_sub(self.from.due);
        let (length_ns, rise) = (u128::from(self.to.at_ns - self.from.at_ns), self.to.due - self.from.due);
        // At the end of a curve nothing rises any more.
        let ns = (above * length_ns).checked_div(rise).unwrap_or(0);
        self.from.at_ns.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// How many queries n have n before the curve at `at_ns`, which lies in this part.
    fn count(&self, at_ns: u64) -> u64 {
        let length_ns = u128::from((self.to.at_ns - self.from.at_ns).max(1));
        let (into_ns, rise) = (u128::from(at_ns - self.from.at_ns), self.to.due - self.from.due);
        let due = self.from.due * length_ns + into_ns * rise;
        u64::try_from(due.div_ceil(QUERY * length_ns)).unwrap_or(u64::MAX)
    }

    /// Its rate in q/s, rounded up.
    fn rate_qps(&self) -> u64 {
        let length_ns = u128::from((self.to.at_ns - self.from.at_ns).max(1));
        u64::try_from((self.to.due - self.from.due).div_ceil(length_ns)).unwrap_or(u64::MAX)
    }
}

/// A curve by its corners, which never fall. The first is at 0 and 0.
pub(super) trait Curve {
    /// The number of parts, at least 1.
    fn parts(&self) -> u64;

    /// Corner `index`, from 0 up to and with the number of parts.
    fn corner(&self, index: u64) -> Corner;

    /// Whether the curve goes on after its last corner as it began.
    fn repeats(&self) -> bool;

    /// The part in which query `n` is due; for all that are never due, the end.
    fn part_of(&self, n: u64) -> Part {
        let needed = u128::from(n) * QUERY;
        let end = self.corner(self.parts());
        let rounds = if self.repeats() { needed / end.due.max(1) } else { 0 };
        let rest = needed - rounds * end.due;
        self.part_before(rounds, self.first(|corner| corner.due > rest))
    }

    /// How many queries are due within so many ns.
    fn count(&self, elapsed_ns: u64) -> u64 {
        let end = self.corner(self.parts());
        let at_ns =
            if self.repeats() { elapsed_ns.saturating_add(1) } else { elapsed_ns.min(end.at_ns - 1) + 1 };
        let rounds = if self.repeats() { at_ns / end.at_ns } else { 0 };
        let rest_ns = at_ns - rounds * end.at_ns;
        self.part_before(rounds.into(), self.first(|corner| corner.at_ns > rest_ns)).count(at_ns)
    }

    /// The first corner of which `is_beyond` is true; all after it are beyond, too. One more than there are
    /// if none is.
    fn first(&self, is_beyond: impl Fn(Corner) -> bool) -> u64 {
        let (mut low, mut high) = (0, self.parts() + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_beyond(self.corner(middle)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// The part that ends with corner `index` after so many rounds; after the last corner, the end.
    fn part_before(&self, rounds: u128, index: u64) -> Part {
        let end = self.corner(self.parts());
        let round = |corner: Corner| Corner {
            at_ns: corner
                .at_ns
                .saturating_add(u64::try_from(rounds).unwrap_or(u64::MAX).saturating_mul(end.at_ns)),
            due: corner.due + rounds * end.due,
        };
        let to = index.min(self.parts());
        Part { from: round(self.corner(index.saturating_sub(1))), to: round(self.corner(to)) }
    }

    /// The highest rate of a part in q/s, rounded up, at least 1.
    fn peak_qps(&self) -> u64 {
        let rates = (1..=self.parts()).map(|index| self.part_before(0, index).rate_qps());
        rates.max().unwrap_or(1).max(1)
    }
}
