//! Search goals: when the trials at a load make the load a lower or an upper bound (RFC 9971, MLRsearch).

use record::Outcome;

use super::Point;

/// What a search looks for: the highest load at which queries are lost seldom enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Goal loss ratio, from 0 to below 1: a trial that lost a larger share is a high-loss trial.
    pub loss_ratio: f64,
    /// Goal exceed ratio, from 0 to below 1: the share of the time that may be spent in high-loss trials.
    pub exceed_ratio: f64,
    /// Goal initial trial duration in ns, at least 1: how long the first, coarse trials last.
    pub initial_ns: u64,
    /// Goal final trial duration in ns: trials of this length or longer are full-length.
    pub final_ns: u64,
    /// Goal duration sum in ns: so much time of full-length trials decides a load for certain.
    pub sum_ns: u64,
    /// Goal width in percent: the search stops when (upper - lower) / upper is no larger.
    pub width_pct: f64,
}

/// One second in ns.
const SECOND_NS: u64 = 1_000_000_000;

impl Goal {
    /// The goals of RFC 8219 and of two bounds beside it in one search: no loss at all, then at most 0.01 %
    /// and 0.5 % in half of the time. All trials that decide last `final_ns`.
    pub fn ladder(final_ns: u64, width_pct: f64) -> Vec<Self> {
        let initial_ns = (final_ns / 8).clamp(SECOND_NS / 4, SECOND_NS).min(final_ns);
        let rung = |loss_ratio, exceed_ratio| Self {
            loss_ratio,
            exceed_ratio,
            initial_ns,
            final_ns,
            sum_ns: final_ns,
            width_pct,
        };
        vec![rung(0.0, 0.0), rung(0.0001, 0.5), rung(0.005, 0.5)]
    }

    /// The throughput of RFC 2544: one trial of 60 s without loss.
    pub fn rfc2544(width_pct: f64) -> Vec<Self> {
        vec![Self {
            loss_ratio: 0.0,
            exceed_ratio: 0.0,
            initial_ns: SECOND_NS,
            final_ns: 60 * SECOND_NS,
            sum_ns: 60 * SECOND_NS,
            width_pct,
        }]
    }

    /// The binary search with loss verification of ETSI GS NFV-TST 009: of two trials of 60 s one may lose
    /// queries.
    pub fn tst009(width_pct: f64) -> Vec<Self> {
        let [goal] = Self::rfc2544(width_pct)[..] else { return Vec::new() };
        vec![Self { exceed_ratio: 0.5, sum_ns: 120 * SECOND_NS, ..goal }]
    }

    /// The two goals of FD.io CSIT: 21 trials of 1 s, half of which may lose more than nothing, or than 0.5
    /// %.
    pub fn csit(width_pct: f64) -> Vec<Self> {
        let goal = |loss_ratio| Self {
            loss_ratio,
            exceed_ratio: 0.5,
            initial_ns: SECOND_NS,
            final_ns: SECOND_NS,
            sum_ns: 21 * SECOND_NS,
            width_pct,
        };
        vec![goal(0.0), goal(0.005)]
    }

    /// From coarse and short to this goal itself, each about twice as narrow as the one before.
    pub(super) fn targets(&self) -> Vec<Target> {
        let growth = |to_ns: u64| to_ns.max(1) as f64 / self.initial_ns.max(1) as f64;
        let (length, sum) = (growth(self.final_ns), growth(self.sum_ns.max(self.final_ns)));
        // A step in length must be worth the trials that it repeats.
        let coarser = (sum.log(4.0).floor() as i32).clamp(0, COARSER_MAX);
        let grown = |by: f64, level: i32| {
            (self.initial_ns as f64 * by.powf(f64::from(level) / f64::from(coarser.max(1)))) as u64
        };
        let narrow = 1.0 - self.width_pct / 100.0;
        let target = |level: i32| Target {
            loss_ratio: self.loss_ratio,
            exceed_ratio: self.exceed_ratio,
            trial_ns: if level == coarser { self.final_ns } else { grown(length, level) },
            sum_ns: if level == coarser { self.sum_ns } else { grown(sum, level) },
            width_ratio: 1.0 - narrow.powi(1 << (coarser - level)),
        };
        (0..=coarser).map(target).collect()
    }
}

/// Targets before the goal itself.
const COARSER_MAX: i32 = 2;

/// A goal, or a coarser and shorter one on the way to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Target {
    pub loss_ratio: f64,
    pub exceed_ratio: f64,
    pub trial_ns: u64,
    pub sum_ns: u64,
    pub width_ratio: f64,
}

/// What the trials at a load say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Whatever further trials show, the goal is met.
    Lower,
    /// Whatever further trials show, it is not.
    Upper,
    Undecided,
}

/// Durations of the trials at one load, in ns.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    full_low: f64,
    full_high: f64,
    short_low: f64,
    short_high: f64,
}

/// The loss by which a trial is classified. No goal allows a failure without a loss: the server failed before
/// the trial.
fn loss_ratio(trial: &Point) -> f64 {
    if trial.outcome == Outcome::Fail && trial.loss_ratio <= 0.0 { 1.0 } else { trial.loss_ratio }
}

impl Target {
    fn sums<'a>(&self, trials: impl IntoIterator<Item = &'a Point>) -> Sums {
        let mut sums = Sums::default();
        for trial in trials {
            let full = trial.duration_ns >= self.trial_ns;
            let high = loss_ratio(trial) > self.loss_ratio;
            *match (full, high) {
                (true, false) => &mut sums.full_low,
                (true, true) => &mut sums.full_high,
                (false, false) => &mut sums.short_low,
                (false, true) => &mut sums.short_high,
            } += trial.duration_ns as f64;
        }
        sums
    }

    /// Classifies a load by all its trials that are not void (RFC 9971, load classification): once as if all
    /// that is missing of the duration sum had high loss, once as if it had low loss. Short trials count only
    /// against a load, and only as far as other short trials do not balance them.
    pub fn classify<'a>(&self, trials: impl IntoIterator<Item = &'a Point>) -> Class {
        let sums = self.sums(trials);
        let balancing = sums.short_low * self.exceed_ratio / (1.0 - self.exceed_ratio);
        let high = sums.full_high + (sums.short_high - balancing).max(0.0);
        let whole = (sums.full_low + high).max(self.sum_ns as f64);
        let allowed = whole * self.exceed_ratio;
        match (high <= allowed, whole - sums.full_low <= allowed) {
            (true, true) => Class::Lower,
            (false, false) => Class::Upper,
            _ => Class::Undecided,
        }
    }

    /// Whether a load has trials that count for this target and for no much shorter one.
    pub(crate) fn is_begun<'a>(&self, trials: impl IntoIterator<Item = &'a Point>) -> bool {
        let sums = self.sums(trials);
        2.0 * (sums.full_low + sums.full_high) >= self.sum_ns as f64
    }

    /// The conditional throughput at a load in q/s (RFC 9971): what was answered in the worst trial that the
    /// exceed ratio does not forgive, full-length trials from the one with the least loss on.
    pub fn conditional_qps<'a>(&self, load: u64, trials: impl IntoIterator<Item = &'a Point> + Clone) -> f64 {
        let sums = self.sums(trials.clone());
        let mut full: Vec<&Point> =
            trials.into_iter().filter(|trial| trial.duration_ns >= self.trial_ns).collect();
        full.sort_by(|a, b| loss_ratio(a).total_cmp(&loss_ratio(b)));
        let whole = (sums.full_low + sums.full_high).max(self.sum_ns as f64);
        let mut remaining = whole * (1.0 - self.exceed_ratio);
        let mut quantile_loss_ratio = None;
        for trial in full {
            if quantile_loss_ratio.is_some() && remaining <= 0.0 {
                break;
            }
            quantile_loss_ratio = Some(loss_ratio(trial));
            remaining -= trial.duration_ns as f64;
        }
        let of_quantile = if remaining > 0.0 { 1.0 } else { quantile_loss_ratio.unwrap_or(1.0) };
        load as f64 * (1.0 - of_quantile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trials(of: &[(u64, f64)]) -> Vec<Point> {
        let point = |&(seconds, loss_ratio): &(u64, f64)| Point {
            load: 1000,
            duration_ns: seconds * SECOND_NS,
            outcome: if loss_ratio > 0.0 { Outcome::Fail } else { Outcome::Pass },
            loss_ratio,
        };
        of.iter().map(point).collect()
    }

    fn class(goal: Goal, of: &[(u64, f64)]) -> Class {
        goal.targets().last().unwrap().classify(&trials(of))
    }

    #[test]
    fn rfc2544_wants_one_whole_trial_and_forgives_nothing() {
        let goal = Goal::rfc2544(0.5)[0];
        assert_eq!(class(goal, &[]), Class::Undecided);
        assert_eq!(class(goal, &[(1, 0.0), (7, 0.0)]), Class::Undecided, "short trials pass nothing");
        assert_eq!(class(goal, &[(60, 0.0)]), Class::Lower);
        assert_eq!(class(goal, &[(60, 0.0), (60, 1e-6)]), Class::Upper);
        assert_eq!(class(goal, &[(1, 1e-6)]), Class::Upper, "a short trial fails all the same");
    }

    #[test]
    fn tst009_wants_two_of_three_or_fewer() {
        let goal = Goal::tst009(0.5)[0];
        assert_eq!(class(goal, &[(60, 0.0)]), Class::Lower, "the second trial may lose what it will");
        assert_eq!(class(goal, &[(60, 0.1)]), Class::Undecided, "the second trial may still be good");
        assert_eq!(class(goal, &[(60, 0.1), (60, 0.0)]), Class::Lower);
        assert_eq!(class(goal, &[(60, 0.1), (60, 0.1)]), Class::Upper);
        assert_eq!(class(goal, &[(60, 0.1), (1, 0.1)]), Class::Upper, "excess of short trials counts");
        assert_eq!(class(goal, &[(60, 0.1), (1, 0.1), (1, 0.0)]), Class::Undecided, "balanced ones do not");
    }

    #[test]
    fn csit_decides_by_eleven_of_twenty_one() {
        let goal = Goal::csit(0.5)[1];
        let many = |good: usize, bad: usize| [vec![(1, 0.004); good], vec![(1, 0.006); bad]].concat();
        assert_eq!(class(goal, &many(10, 10)), Class::Undecided);
        assert_eq!(class(goal, &many(11, 10)), Class::Lower);
        assert_eq!(class(goal, &many(10, 11)), Class::Upper);
    }

    #[test]
    fn a_failure_without_a_loss_is_allowed_by_no_goal() {
        let failed = Point { outcome: Outcome::Fail, ..trials(&[(1, 0.0)])[0] };
        let goal = Goal { sum_ns: SECOND_NS, exceed_ratio: 0.0, ..Goal::csit(0.5)[1] };
        assert_eq!(goal.targets().last().unwrap().classify(&[failed]), Class::Upper);
    }

    #[test]
    fn conditional_throughput_is_that_of_the_quantile() {
        let at =
            |goal: Goal, of: &[(u64, f64)]| goal.targets().last().unwrap().conditional_qps(1000, &trials(of));
        assert_eq!(at(Goal::rfc2544(0.5)[0], &[(60, 0.0)]), 1000.0);
        // Half of 120 s is forgiven: the better of the two counts.
        assert_eq!(at(Goal::tst009(0.5)[0], &[(60, 0.25), (60, 0.0)]), 1000.0);
        // Half of 21 s remains: the eleventh of the sorted trials.
        let of: Vec<(u64, f64)> = (0..21).map(|n| (1, f64::from(n) / 1000.0)).collect();
        assert_eq!(at(Goal::csit(0.5)[1], &of), 990.0);
        assert_eq!(at(Goal::csit(0.5)[1], &of[..3]), 0.0, "what is missing counts as lost");
    }

    #[test]
    fn targets_grow_towards_the_goal() {
        let seconds = |goal: Goal| -> Vec<(f64, f64)> {
            let targets = goal.targets();
            targets.iter().map(|t| (t.trial_ns as f64 / 1e9, t.sum_ns as f64 / 1e9)).collect()
        };
        let lengths = seconds(Goal::rfc2544(0.5)[0]);
        assert_eq!((lengths.len(), lengths[0], lengths[2]), (3, (1.0, 1.0), (60.0, 60.0)));
        assert!((lengths[1].0 - 60f64.sqrt()).abs() < 1e-6);
        let lengths = seconds(Goal::csit(0.5)[0]);
        assert_eq!((lengths[0], lengths[2]), ((1.0, 1.0), (1.0, 21.0)));
        assert_eq!(seconds(Goal { final_ns: SECOND_NS, ..Goal::csit(0.5)[0] }).len(), 3);
        let widths: Vec<f64> = Goal::csit(0.5)[0].targets().iter().map(|target| target.width_ratio).collect();
        assert!((widths[2] - 0.005).abs() < 1e-12 && (widths[1] - 0.009975).abs() < 1e-12, "{widths:?}");
    }
}
