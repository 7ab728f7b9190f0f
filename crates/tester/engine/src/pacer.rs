//! When the n-th query is due.
//!
//! The schedule is absolute: late queries do not move the instants of later queries (Lencse and Pivoda,
//! *Checking and Increasing the Accuracy of the Dns64perf++ Measurement Tool*, show what happens to testers
//! that move them), and the schedule never waits for an answer. Only a closed loop ([`Model::is_closed`]) has
//! no schedule: the answers set the pace, and results are labelled as those of a closed loop.

mod cursor;
mod curve;
mod model;
mod poisson;
mod ramp;
mod rates;
mod recorded;
mod replay;
mod sine;
mod steps;

use curve::Curve;

pub use cursor::Cursor;
pub use model::{BURST_MAX, EXPERIMENT_QUERIES, Model, ModelError, SLOTS_MAX};
pub use rates::{Held, Rates};
pub use recorded::{Counts, Recorded};
pub use replay::Times;
pub use sine::{PERIOD_MAX_S, Sine};
pub use steps::{STEPS_MAX, Steps};

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// An absolute schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The instant of query 0 (for Poisson the begin of the time in which it falls), in ns on the caller's
    /// clock.
    pub start_ns: u64,
    /// Queries per second on average, at least 1. In a closed loop the most that the accounts have room for.
    pub rate_qps: u64,
    /// How many queries there are; in a closed loop the most that may be sent.
    pub queries: u64,
    /// How the queries lie in time.
    pub model: Model,
    /// The length that was asked for, in ns.
    duration_ns: u64,
}

impl Schedule {
    /// A schedule at a constant rate; a rate of 0 is taken as 1.
    pub fn new(start_ns: u64, rate_qps: u64, duration_ns: u64) -> Self {
        Self::with_model(start_ns, rate_qps, duration_ns, Model::Constant)
    }

    /// A schedule of any model. Where the model has rates of its own, [`Schedule::rate_qps`] is their
    /// average.
    pub fn with_model(start_ns: u64, rate_qps: u64, duration_ns: u64, model: Model) -> Self {
        let duration_ns = match model {
            Model::Replay(times) => duration_ns.min(times.length_ns()),
            Model::Rates(rates) => duration_ns.min(rates.length_ns()),
            Model::Recorded(recorded) => duration_ns.min(recorded.length_ns()),
            _ => duration_ns,
        };
        let average = |queries: u64| {
            let average = u128::from(queries) * u128::from(SECOND_NS) / u128::from(duration_ns.max(1));
            u64::try_from(average).unwrap_or(u64::MAX).max(1)
        };
        let of_its_own = match model {
            Model::Steps(steps) => Some(steps.queries(duration_ns)),
            Model::Ramp { from_qps, to_qps } => Some(ramp::count(from_qps, to_qps, duration_ns, duration_ns)),
            Model::Sine(sine) => Some(duration_ns.checked_sub(1).map_or(0, |last_ns| sine.count(last_ns))),
            Model::Rates(rates) => Some(duration_ns.checked_sub(1).map_or(0, |last_ns| rates.count(last_ns))),
            Model::Replay(times) => Some(times.queries(duration_ns)),
            Model::Recorded(recorded) => Some(recorded.queries()),
            _ => None,
        };
        let (rate_qps, queries) = of_its_own.map_or_else(
            || {
                let rate_qps = rate_qps.max(1);
                let queries = u128::from(rate_qps) * u128::from(duration_ns) / u128::from(SECOND_NS);
                (rate_qps, u64::try_from(queries).unwrap_or(u64::MAX))
            },
            |queries| (average(queries), queries),
        );
        let queries = match model {
            Model::Experiments { count: Some(count), .. } => {
                queries.min(u64::from(count) * EXPERIMENT_QUERIES)
            }
            _ => queries,
        };
        Self { start_ns, rate_qps, queries, model, duration_ns }
    }

    /// The instant at which query `n` is due, in whole nanoseconds; no error adds up. Of a Poisson process
    /// only its [`Cursor`] knows the instants, of a recording only its feed, and a closed loop has none: then
    /// it is where a constant rate would have it.
    pub fn due_ns(&self, n: u64) -> u64 {
        let offset_ns = match self.model {
            Model::Steps(steps) => steps.due_ns(n, self.duration_ns),
            Model::Ramp { from_qps, to_qps } => ramp::due_ns(from_qps, to_qps, self.duration_ns, n),
            Model::Sine(sine) => sine.part_of(n).due_ns(n),
            Model::Rates(rates) => rates.part_of(n).due_ns(n),
            Model::Replay(times) => times.due_ns(n),
            Model::Burst { queries } => constant_ns(n - n % u64::from(queries.max(1)), self.rate_qps),
            _ => constant_ns(n, self.rate_qps),
        };
        self.start_ns.saturating_add(offset_ns)
    }

    /// How many queries are due at `now_ns` or before, by the same rule as [`Schedule::due_ns`].
    pub(crate) fn due_count(&self, now_ns: u64) -> u64 {
        let Some(elapsed_ns) = now_ns.checked_sub(self.start_ns) else { return 0 };
        let count = match self.model {
            Model::Steps(steps) => steps.count(elapsed_ns, self.duration_ns),
            Model::Ramp { from_qps, to_qps } => {
                // Query n is due when the curve has reached n, so one more is due than it has passed.
                ramp::count(from_qps, to_qps, self.duration_ns, elapsed_ns.min(self.duration_ns))
                    .saturating_add(1)
            }
            Model::Sine(sine) => sine.count(elapsed_ns),
            Model::Rates(rates) => rates.count(elapsed_ns),
            Model::Replay(times) => times.count(elapsed_ns),
            Model::Burst { queries } => {
                constant_count(elapsed_ns, self.rate_qps).next_multiple_of(u64::from(queries.max(1)))
            }
            _ => constant_count(elapsed_ns, self.rate_qps),
        };
        count.min(self.queries)
    }

    /// The end of the schedule: the instant at which the query after the last would be due.
    pub fn end_ns(&self) -> u64 {
        match self.model {
            Model::Constant => self.due_ns(self.queries),
            _ => self.start_ns.saturating_add(self.duration_ns),
        }
    }

    /// The highest rate within the schedule, in q/s: what queues and rings must hold.
    pub fn peak_qps(&self) -> u64 {
        match self.model {
            Model::Steps(steps) => steps.rates_qps().iter().copied().max().unwrap_or(1),
            Model::Ramp { from_qps, to_qps } => from_qps.max(to_qps),
            Model::Sine(sine) => sine.peak_qps(),
            Model::Rates(rates) => rates.peak_qps(),
            Model::Replay(times) => times.peak_qps(),
            Model::Recorded(recorded) => recorded.peak_qps(),
            _ => self.rate_qps,
        }
    }

    /// How many queries are due within any span of so many ns; of a Poisson process on average.
    pub fn due_within(&self, span_ns: u64) -> u64 {
        match self.model {
            Model::Replay(times) => return times.most_within(span_ns),
            Model::Recorded(recorded) => return recorded.most_within(span_ns),
            _ => {}
        }
        let at_peak = u128::from(self.peak_qps()) * u128::from(span_ns) / u128::from(SECOND_NS);
        // A whole burst is due at once, however low the rate is.
        let at_once = if let Model::Burst { queries } = self.model { queries } else { 1 };
        u64::try_from(at_peak).unwrap_or(u64::MAX).saturating_add(at_once.into())
    }

    /// Whether it is over when its queries are sent, although its time is not: a closed loop of so many
    /// experiments.
    pub(crate) fn ends_by_count(&self) -> bool {
        match self.model {
            Model::Experiments { count: Some(count), .. } => {
                self.queries == u64::from(count) * EXPERIMENT_QUERIES
            }
            _ => false,
        }
    }

    /// Whether [`Schedule::due_ns`] and [`Schedule::due_count`] say when queries are due. If not, they are
    /// counted as they come.
    pub(crate) fn is_closed_form(&self) -> bool {
        !matches!(self.model, Model::Poisson { .. } | Model::Recorded(_)) && !self.model.is_closed()
    }
}

/// n / rate in ns, rounded down.
fn constant_ns(n: u64, rate_qps: u64) -> u64 {
    (u128::from(n) * u128::from(SECOND_NS) / u128::from(rate_qps)) as u64
}

/// How many n have n / rate <= elapsed, both rounded as [`constant_ns`] does.
fn constant_count(elapsed_ns: u64, rate_qps: u64) -> u64 {
    // The first n that is due after now: n * second / rate >= elapsed + 1. Where 64 bits hold the product, as
    // in all but very long trials, the division by a constant costs next to nothing.
    let later = u128::from(elapsed_ns) + 1;
    let product = later * u128::from(rate_qps);
    match u64::try_from(product) {
        Ok(product) => product.div_ceil(SECOND_NS),
        Err(_) => u64::try_from(product.div_ceil(u128::from(SECOND_NS))).unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_that_do_not_divide_a_second_are_exact() {
        for rate_qps in [70_000, 105_000, 150_000, 7, 1_000_003] {
            let schedule = Schedule::new(5, rate_qps, 10 * SECOND_NS);
            assert_eq!(schedule.queries, rate_qps * 10);
            assert_eq!(schedule.end_ns(), 5 + 10 * SECOND_NS);
        }
    }

    #[test]
    fn bursts_come_at_once_at_the_average_rate() {
        for burst in [16, 64, 256, 1024] {
            let model = Model::Burst { queries: burst };
            let schedule = Schedule::with_model(7, 10_000, SECOND_NS, model);
            assert_eq!(schedule.queries, 10_000);
            let burst = u64::from(burst);
            assert_eq!(schedule.due_ns(burst - 1), 7);
            assert_eq!(schedule.due_ns(burst), 7 + burst * 100_000);
            assert_eq!(schedule.due_count(7), burst);
            assert_eq!(schedule.due_count(7 + burst * 100_000 - 1), burst);
            assert_eq!(schedule.due_count(7 + SECOND_NS), 10_000);
            assert_eq!(schedule.due_within(SECOND_NS / 1000), 10 + burst);
        }
    }

    #[test]
    fn averages_of_models_with_their_own_rates() {
        let steps = Schedule::with_model(0, 1, 3 * SECOND_NS, "steps:10000,20000,50000".parse().unwrap());
        assert_eq!((steps.queries, steps.rate_qps, steps.peak_qps()), (80_000, 26_666, 50_000));
        let ramp = Schedule::with_model(0, 1, 2 * SECOND_NS, "ramp:1000-3000".parse().unwrap());
        assert_eq!((ramp.queries, ramp.rate_qps, ramp.peak_qps()), (4000, 2000, 3000));
        let loops = Schedule::with_model(0, 1000, SECOND_NS, "experiments:4x2".parse().unwrap());
        assert_eq!(loops.queries, 512);
    }

    fn model() -> impl Strategy<Value = Model> {
        prop_oneof![
            Just(Model::Constant),
            (1u32..2000).prop_map(|queries| Model::Burst { queries }),
            prop::collection::vec(1u64..5_000_000, 1..8)
                .prop_map(|rates| { Model::Steps(Steps::new(&rates).expect("at most 16 rates above 0")) }),
            (1u64..5_000_000, 1u64..5_000_000)
                .prop_map(|(from_qps, to_qps)| Model::Ramp { from_qps, to_qps }),
            (1u64..1_000_000, 0u64..4_000_000, 1u64..PERIOD_MAX_S).prop_map(|(low, more, period_s)| {
                Model::Sine(Sine::new(low, low + more, period_s).expect("rates and period that fit"))
            }),
            prop::collection::vec((0u64..5_000_000_000, 1u64..100 * SECOND_NS), 1..20).prop_map(
                |mut held| {
                    held.push((1000, SECOND_NS));
                    let held: Vec<Held> = held
                        .into_iter()
                        .map(|(rate_mqps, length_ns)| Held { rate_mqps, length_ns })
                        .collect();
                    Model::Rates(Rates::new("rates", &held).expect("one above 0"))
                }
            ),
            prop::collection::vec(0u64..2 * SECOND_NS, 1..20).prop_map(|mut instants_ns| {
                instants_ns.sort_unstable();
                Model::Replay(Times::new(instants_ns).expect("some, and sorted"))
            }),
        ]
    }

    proptest! {
        #[test]
        fn count_and_instant_agree(
            model in model(), rate_qps in 1u64..20_000_000, share in 0.0f64..1.0, start_ns in 0u64..1 << 60,
            duration_ns in 1u64..86_400 * SECOND_NS,
        ) {
            let schedule = Schedule::with_model(start_ns, rate_qps, duration_ns, model);
            let n = (schedule.queries.saturating_sub(1) as f64 * share) as u64;
            if schedule.queries > 0 {
                let due = schedule.due_ns(n);
                prop_assert!(due <= schedule.end_ns());
                prop_assert!(schedule.due_count(due) > n, "{} of {n}", schedule.due_count(due));
                if due > start_ns {
                    prop_assert!(schedule.due_count(due - 1) <= n);
                }
            }
            prop_assert_eq!(schedule.due_count(u64::MAX), schedule.queries);
        }

        #[test]
        fn instants_never_go_back(model in model(), duration_ns in 1u64..100 * SECOND_NS, from in 0u64..100_000) {
            let schedule = Schedule::with_model(0, 1000, duration_ns, model);
            for n in from..(from + 200).min(schedule.queries.saturating_sub(1)) {
                prop_assert!(schedule.due_ns(n) <= schedule.due_ns(n + 1));
            }
        }
    }
}
