//! The instants of one lane, one after another: the same as [`Schedule::due_ns`] gives, without its
//! divisions.

use super::curve::{Curve, Part};
use super::poisson::Arrivals;
use super::{Model, SECOND_NS, Schedule};

/// Walks through the instants of a lane's queries.
#[derive(Clone, Debug)]
pub struct Cursor {
    schedule: Schedule,
    /// The number of the next query.
    number: u64,
    lanes: u64,
    way: CursorState,
}

#[derive(Clone, Debug)]
enum CursorState {
    /// An exact sum: whole nanoseconds and a rest in units of 1 / rate ns.
    Constant {
        next_ns: u64,
        rest: u64,
        step_ns: u64,
        step_rest: u64,
    },
    Poisson(Arrivals),
    /// The part of a curve that the last query was due in.
    Curve(Part),
    Formula,
}

impl Cursor {
    /// At the first query of lane `lane` (from 0) of `lanes` (at least 1).
    pub fn new(schedule: Schedule, lane: u64, lanes: u64) -> Self {
        let lanes = lanes.max(1);
        let way = match schedule.model {
            Model::Constant => {
                let rate = u128::from(schedule.rate_qps);
                let split = |n: u64| {
                    let ns = u128::from(n) * u128::from(SECOND_NS);
                    ((ns / rate) as u64, (ns % rate) as u64)
                };
                let ((first_ns, rest), (step_ns, step_rest)) = (split(lane), split(lanes));
                CursorState::Constant { next_ns: schedule.start_ns + first_ns, rest, step_ns, step_rest }
            }
            Model::Poisson { seed } => {
                let queries = schedule.queries.saturating_sub(lane).div_ceil(lanes);
                CursorState::Poisson(Arrivals::new(seed, lane, queries, schedule.duration_ns))
            }
            Model::Sine(sine) => CursorState::Curve(sine.part_of(lane)),
            Model::Rates(rates) => CursorState::Curve(rates.part_of(lane)),
            _ => CursorState::Formula,
        };
        Self { schedule, number: lane, lanes, way }
    }

    /// Moves the schedule, and with it all instants that are still to come.
    pub fn start_at(&mut self, start_ns: u64) {
        if let CursorState::Constant { next_ns, .. } = &mut self.way {
            *next_ns = *next_ns - self.schedule.start_ns + start_ns;
        }
        self.schedule.start_ns = start_ns;
    }

    /// When the lane's next query is due, in ns; each call goes on to the one after it.
    #[inline]
    pub fn next_ns(&mut self) -> u64 {
        match &mut self.way {
            CursorState::Constant { next_ns, rest, step_ns, step_rest } => {
                let due_ns = *next_ns;
                *rest += *step_rest;
                let carry = *rest >= self.schedule.rate_qps;
                *rest -= if carry { self.schedule.rate_qps } else { 0 };
                *next_ns = due_ns.saturating_add(*step_ns + u64::from(carry));
                due_ns
            }
            CursorState::Poisson(arrivals) => self.schedule.start_ns + arrivals.next_ns(),
            CursorState::Curve(part) => {
                let n = self.number;
                if !part.holds(n) {
                    match self.schedule.model {
                        Model::Sine(sine) => *part = sine.part_of(n),
                        Model::Rates(rates) => *part = rates.part_of(n),
                        _ => {}
                    }
                }
                self.number = n.saturating_add(self.lanes);
                self.schedule.start_ns.saturating_add(part.due_ns(n))
            }
            CursorState::Formula => {
                let due_ns = self.schedule.due_ns(self.number);
                self.number = self.number.saturating_add(self.lanes);
                due_ns
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_sum_is_the_formula_for_ever(
            rate_qps in 1u64..100_000_000, lanes in 1u64..70, lane in 0u64..70, start_ns in 0u64..1 << 60,
        ) {
            let schedule = Schedule::new(start_ns, rate_qps, 3600 * SECOND_NS);
            let lane = lane % lanes;
            let mut cursor = Cursor::new(schedule, lane, lanes);
            for own in 0..5000 {
                prop_assert_eq!(cursor.next_ns(), schedule.due_ns(own * lanes + lane));
            }
        }

        #[test]
        fn other_models_follow_their_formula(lanes in 1u64..5, text in "burst:[1-9]|ramp:[1-9]0-9[0-9]|steps:[1-9]0,[1-9]00|sine:[1-9]0-[1-9]000/[1-3]") {
            let schedule = Schedule::with_model(3, 1000, 2 * SECOND_NS, text.parse().unwrap());
            let mut cursor = Cursor::new(schedule, lanes - 1, lanes);
            for n in (lanes - 1..schedule.queries).step_by(lanes as usize) {
                prop_assert_eq!(cursor.next_ns(), schedule.due_ns(n));
            }
        }
    }
}
