//! Rates that were recorded, each held for its time.

use super::curve::{Corner, Curve};

/// Rates in the order of their times. A schedule is copied into every lane, so they live as long as the
/// program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    corners: &'static [Corner],
    source: &'static str,
}

/// A rate and for how long it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// In thousandths of a query per second; 0 is a pause.
    pub rate_mqps: u64,
    /// In ns, at least 1.
    pub length_ns: u64,
}

impl Rates {
    /// Rates one after another; `source` names where they were recorded. `None` if all of them are 0, or one
    /// has no length.
    pub fn new(source: &str, held: &[Held]) -> Option<Self> {
        let mut corners = vec![Corner::default()];
        let (mut at_ns, mut due) = (0u64, 0u128);
        for Held { rate_mqps, length_ns } in held {
            at_ns = at_ns.checked_add(*length_ns).filter(|_| *length_ns > 0)?;
            // Thousandths of what a corner counts are added up, and none is lost.
            due += u128::from(*rate_mqps) * u128::from(*length_ns);
            corners.push(Corner { at_ns, due: due / 1000 });
        }
        (due >= 1000).then(|| Self { corners: corners.leak(), source: source.to_owned().leak() })
    }

    /// Where they were recorded.
    pub fn source(&self) -> &'static str {
        self.source
    }

    /// How long they last, in ns.
    pub fn length_ns(&self) -> u64 {
        self.corners.last().map_or(0, |corner| corner.at_ns)
    }
}

impl Curve for Rates {
    fn parts(&self) -> u64 {
        self.corners.len() as u64 - 1
    }

    fn corner(&self, index: u64) -> Corner {
        self.corners.get(index as usize).or(self.corners.last()).copied().unwrap_or_default()
    }

    fn repeats(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacer::{Model, SECOND_NS, Schedule};
    use proptest::prelude::*;

    fn held(rates: &[(u64, u64)]) -> Vec<Held> {
        rates.iter().map(|&(rate_mqps, length_ns)| Held { rate_mqps, length_ns }).collect()
    }

    #[test]
    fn a_pause_has_no_query_and_fractions_of_queries_are_kept() {
        // Half a query each second: one every two seconds, with a pause of a second between.
        let rates = held(&[(500, SECOND_NS), (0, SECOND_NS), (500, SECOND_NS), (2_500, 2 * SECOND_NS)]);
        let rates = Rates::new("rates.csv", &rates).unwrap();
        let schedule = Schedule::with_model(0, 1, 60 * SECOND_NS, Model::Rates(rates));
        assert_eq!((schedule.queries, schedule.end_ns(), schedule.peak_qps()), (6, 5 * SECOND_NS, 3));
        let due: Vec<u64> = (0..6).map(|n| schedule.due_ns(n) / 100_000_000).collect();
        assert_eq!(due, [0, 30, 34, 38, 42, 46]);
        assert_eq!(schedule.due_count(2 * SECOND_NS), 1);
        assert!(Rates::new("", &[]).is_none() && Rates::new("", &held(&[(0, 1)])).is_none());
        assert!(Rates::new("", &held(&[(1_000, 0)])).is_none());
    }

    proptest! {
        #[test]
        fn equal_rates_are_a_constant_rate(rate_qps in 1u64..1_000_000, seconds in 1u64..40, lengths in prop::collection::vec(1u64..SECOND_NS, 1..20)) {
            // Wherever the corners lie, no instant moves.
            let mut parts: Vec<Held> =
                lengths.iter().map(|&length_ns| Held { rate_mqps: rate_qps * 1000, length_ns }).collect();
            parts.push(Held { rate_mqps: rate_qps * 1000, length_ns: seconds * SECOND_NS });
            let model = Model::Rates(Rates::new("", &parts).expect("rates above 0"));
            let duration_ns = seconds * SECOND_NS;
            let (ours, constant) = (Schedule::with_model(9, 1, duration_ns, model), Schedule::new(9, rate_qps, duration_ns));
            prop_assert_eq!((ours.queries, ours.rate_qps), (constant.queries, rate_qps));
            for n in (0..ours.queries).step_by(1 + ours.queries as usize / 100) {
                prop_assert_eq!(ours.due_ns(n), constant.due_ns(n));
            }
        }
    }
}
