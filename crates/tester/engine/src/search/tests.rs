use super::*;
use proptest::prelude::*;

const TRIAL_NS: u64 = 1_000_000_000;
const INPUT: TrialInput = TrialInput { rate_qps: 50_000, duration_ns: TRIAL_NS };
/// Of a failure that may have been a pause of the machine.
const MARGINAL: f64 = 0.01;

fn point(rate_qps: u64, outcome: Outcome) -> Point {
    let loss_ratio = if outcome == Outcome::Fail { MARGINAL } else { 0.0 };
    Point { rate_qps, duration_ns: TRIAL_NS, outcome, loss_ratio }
}

fn spec(mode: Mode) -> SearchSpec {
    SearchSpec { mode, low_qps: 10, high_qps: 100_000, trial_ns: TRIAL_NS, width_pct: 1.0, voids_max: 3 }
}

/// Searches a server that answers everything up to `capacity` q/s.
fn search(spec: &SearchSpec, mut outcome: impl FnMut(u64) -> Outcome) -> (Next, Vec<Point>) {
    let mut history = Vec::new();
    loop {
        match next(spec, &history) {
            Next::Try(TrialInput { rate_qps, .. }) => history.push(point(rate_qps, outcome(rate_qps))),
            end => return (end, history),
        }
        assert!(history.len() < 100, "the search does not end");
    }
}

fn up_to(capacity: u64) -> impl Fn(u64) -> Outcome {
    move |rate| if rate <= capacity { Outcome::Pass } else { Outcome::Fail }
}

#[test]
fn the_ceiling_and_the_floor_end_the_search() {
    let (end, history) = search(&spec(Mode::Rfc8219), up_to(1_000_000));
    assert_eq!(end, Next::Found(SearchResult { qps: 100_000, stop_width_qps: 0, at_ceiling: true }));
    assert_eq!(history.last().unwrap().rate_qps, 100_000);
    let (end, _) = search(&spec(Mode::Rfc8219), up_to(0));
    assert_eq!(end, Next::Found(SearchResult { qps: 0, stop_width_qps: 10, at_ceiling: false }));
}

#[test]
fn a_void_trial_is_repeated_and_many_end_the_search() {
    let mut voids = 2;
    let (end, history) = search(&spec(Mode::Rfc8219), |rate| {
        if rate == 50_000 && voids > 0 {
            voids -= 1;
            return Outcome::Void;
        }
        up_to(60_000)(rate)
    });
    assert!(matches!(end, Next::Found(found) if found.qps <= 60_000 && found.qps > 59_000), "{end:?}");
    assert!(history[..3].iter().all(|point| point.rate_qps == 50_000));
    assert_eq!(search(&spec(Mode::Verify), |_| Outcome::Void).0, Next::Unfit(50_000));
}

#[test]
fn verify_wants_two_failures() {
    let mut first = true;
    let mut once = |rate| {
        if rate == 50_000 && std::mem::take(&mut first) {
            return Outcome::Fail;
        }
        up_to(60_000)(rate)
    };
    let (end, history) = search(&spec(Mode::Verify), &mut once);
    assert!(matches!(end, Next::Found(found) if found.qps > 59_000), "{end:?}");
    let fails_at = |rate| history.iter().filter(|p| p.rate_qps == rate && p.outcome == Outcome::Fail).count();
    assert_eq!((fails_at(50_000), fails_at(75_000)), (1, 2));

    first = true;
    let plain = |rate| {
        if rate == 50_000 && std::mem::take(&mut first) { Outcome::Fail } else { up_to(60_000)(rate) }
    };
    let (end, _) = search(&spec(Mode::Rfc8219), plain);
    assert!(
        matches!(end, Next::Found(found) if found.qps < 50_000),
        "one unlucky trial excludes the upper half"
    );
}

#[test]
fn only_marginal_failures_are_verified() {
    let spec = spec(Mode::Verify);
    let fail = |loss_ratio| Point { loss_ratio, ..point(50_000, Outcome::Fail) };
    assert_eq!(next(&spec, &[fail(0.05)]), spec.trial(50_000));
    assert_eq!(next(&spec, &[fail(0.06)]), spec.trial(25_000));
    let trial = |valid| Trial { outcome: Outcome::Fail, scheduled: 1000, valid, ..Trial::default() };
    let marginal = |trial: &Trial, validity| Point::of(INPUT, trial, validity).is_marginal();
    assert!(marginal(&trial(950), Validity::Strict) && !marginal(&trial(949), Validity::Strict));
    let compat = Trial { valid_compat: 999, ..trial(0) };
    assert!(marginal(&compat, Validity::Compat) && !marginal(&compat, Validity::Strict));
}

#[test]
fn a_fixed_rate_is_tried_as_often_as_told() {
    let (end, history) = search(&spec(Mode::Fixed { trials: 4 }), up_to(100_000));
    assert_eq!(end, Next::Found(SearchResult { qps: 100_000, stop_width_qps: 0, at_ceiling: true }));
    assert_eq!(history.len(), 4);
    assert!(
        matches!(search(&spec(Mode::Fixed { trials: 1 }), up_to(5)).0, Next::Found(found) if found.qps == 0)
    );
}

#[test]
fn inversions_are_counted() {
    let history = [point(10, Outcome::Fail), point(20, Outcome::Pass), point(30, Outcome::Fail)];
    assert_eq!(loss_inversions(&history), 1);
    assert_eq!(loss_inversions(&history[2..]), 0);
}

proptest! {
    #[test]
    fn a_steady_server_is_found_within_the_width(capacity in 10u64..99_000, verify: bool) {
        let mode = if verify { Mode::Verify } else { Mode::Rfc8219 };
        let (end, _) = search(&spec(mode), up_to(capacity));
        let Next::Found(found) = end else { return Err(TestCaseError::fail(format!("{end:?}"))) };
        prop_assert!(found.qps <= capacity);
        prop_assert!(found.qps + found.stop_width_qps > capacity);
        prop_assert!(found.stop_width_qps as f64 <= (found.qps as f64 * 0.01).max(1.0));
    }

    #[test]
    fn any_server_ends_the_search(outcomes in prop::collection::vec(0u8..3, 100)) {
        let mut outcomes = outcomes.into_iter();
        search(&spec(Mode::Verify), |_| match outcomes.next() {
            Some(0) => Outcome::Void,
            Some(1) => Outcome::Pass,
            _ => Outcome::Fail,
        });
    }
}

/// A server that answers so many and no more.
fn answering(capacity: u64) -> impl Fn(TrialInput) -> Point {
    move |TrialInput { rate_qps, duration_ns }| {
        let loss_ratio = 1.0 - capacity.min(rate_qps) as f64 / rate_qps as f64;
        let outcome = if loss_ratio > 0.0 { Outcome::Fail } else { Outcome::Pass };
        Point { rate_qps, duration_ns, outcome, loss_ratio }
    }
}

fn search_mlr(spec: &SearchSpec, mut trial: impl FnMut(TrialInput) -> Point) -> (SearchResult, Vec<Point>) {
    let mut history = Vec::new();
    loop {
        match next(spec, &history) {
            Next::Try(input) => history.push(trial(input)),
            Next::Found(found) => return (found, history),
            Next::Unfit(_) => panic!("no trial was void"),
        }
    }
}

#[test]
fn mlr_ends_at_the_ceiling_and_at_the_floor() {
    let spec = spec(Mode::Mlr(Goal::rfc2544(1.0)));
    let (found, history) = search_mlr(&spec, answering(1_000_000));
    assert_eq!(found, SearchResult { qps: 100_000, stop_width_qps: 0, at_ceiling: true });
    assert_eq!(history.len(), 3, "one trial of each length: {history:?}");
    let (found, _) = search_mlr(&spec, answering(0));
    assert_eq!(found, SearchResult { qps: 0, stop_width_qps: 10, at_ceiling: false });
}

#[test]
fn mlr_repeats_void_trials_as_they_were() {
    let spec = spec(Mode::Mlr(Goal::csit(0.5)));
    let void = Point { outcome: Outcome::Void, loss_ratio: 0.3, ..point(100_000, Outcome::Fail) };
    assert_eq!(next(&spec, &[void]), spec.trial(100_000));
    let other = Point { loss_ratio: 0.2, ..void };
    assert_eq!(next(&spec, &[void, other, void]), Next::Unfit(100_000));
    assert_eq!(goal_bounds(&spec, &Goal::csit(0.5), &[void])[0].upper_qps, None, "it says nothing");
}

proptest! {
    #[test]
    fn mlr_finds_a_steady_server_within_the_width(capacity in 10u64..99_000, goals in 0usize..4) {
        let goals = [Goal::ladder(60 * TRIAL_NS, 1.0), Goal::rfc2544(1.0), Goal::tst009(1.0), Goal::csit(0.5)]
            [goals].clone();
        let spec = spec(Mode::Mlr(goals.clone()));
        let (found, history) = search_mlr(&spec, answering(capacity));
        prop_assert!(found.qps <= capacity && found.qps + found.stop_width_qps > capacity);
        for (goal, bounds) in goals.iter().zip(goal_bounds(&spec, &goals, &history)) {
            let (lower, upper) = (bounds.lower_qps.unwrap() as f64, bounds.upper_qps.unwrap() as f64);
            prop_assert!(upper - lower <= upper * goal.width_pct / 100.0 + 1.0, "{bounds:?}");
            // What loses this share exactly is no high-loss trial.
            let limit = capacity as f64 / (1.0 - goal.loss_ratio) + 1e-6;
            prop_assert!(lower <= limit && limit < upper + 1.0, "{bounds:?} around {limit}");
            prop_assert!(bounds.conditional_qps <= capacity as f64 + 1e-6);
        }
    }

    #[test]
    fn any_server_ends_mlr(losses in prop::collection::vec(0.0f64..0.02, 300), goals in 0usize..3) {
        let goals = [Goal::ladder(60 * TRIAL_NS, 1.0), Goal::tst009(1.0), Goal::csit(0.5)][goals].clone();
        let mut losses = losses.into_iter();
        let (_, history) = search_mlr(&spec(Mode::Mlr(goals)), |TrialInput { rate_qps, duration_ns }| {
            let loss_ratio = (losses.next().unwrap_or(0.0) - 0.01).max(0.0);
            let outcome = if loss_ratio > 0.0 { Outcome::Fail } else { Outcome::Pass };
            Point { rate_qps, duration_ns, outcome, loss_ratio }
        });
        prop_assert!(history.len() < 400, "{} trials", history.len());
    }
}

/// 0.5 s at 13,596 q/s are 6798 queries in 0.49999 s: taken for a short trial, it would be repeated without
/// end.
#[test]
fn a_trial_is_as_long_as_was_asked() {
    let trial =
        Trial { rate_qps: 13_596, duration_s: 0.499_99, scheduled: 6798, valid: 6798, ..Trial::default() };
    let input = TrialInput { rate_qps: 13_596, duration_ns: TRIAL_NS / 2 };
    assert_eq!(Point::of(input, &trial, Validity::Strict).duration_ns, TRIAL_NS / 2);
}
