//! What a caveat does to the rate. The effect decides the place of the caveat among the others.

use std::cmp::Ordering;

/// What a caveat does to the rate that is given; each is more than those before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// Nothing.
    None,
    /// The rate may be another one, and the trials do not show by how much.
    Unknown,
    /// The trials show that the rate may be off by so much, in percent of it.
    Percent(f64),
    /// The rate is a bound: the true one may lie anywhere beyond it.
    Bound,
    /// The rate cannot be believed.
    Worthless,
}

impl Effect {
    /// The share of the rate where one is known and is not 0.
    pub fn of_percent(pct: f64) -> Self {
        if pct > 0.0 { Self::Percent(pct) } else { Self::None }
    }

    /// The order by how much the rate is affected.
    pub fn total_cmp(&self, other: &Self) -> Ordering {
        let (rank, pct) = self.rank();
        let (other_rank, other_pct) = other.rank();
        rank.cmp(&other_rank).then(pct.total_cmp(&other_pct))
    }

    fn rank(self) -> (u8, f64) {
        match self {
            Self::None => (0, 0.0),
            Self::Unknown => (1, 0.0),
            Self::Percent(pct) => (2, pct),
            Self::Bound => (3, 0.0),
            Self::Worthless => (4, 0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_ordered_by_what_they_do_to_the_rate() {
        let ascending = [
            Effect::of_percent(0.0),
            Effect::Unknown,
            Effect::of_percent(0.1),
            Effect::Percent(30.0),
            Effect::Bound,
            Effect::Worthless,
        ];
        assert!(ascending.is_sorted_by(|a, b| a.total_cmp(b).is_lt()));
        assert_eq!(Effect::of_percent(f64::NAN), Effect::None);
    }
}
