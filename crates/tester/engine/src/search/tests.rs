use super::*;
use proptest::prelude::*;
use record::standing::Standing;

const TRIAL_NS: u64 = 1_000_000_000;
const INPUT: TrialInput = TrialInput { load: 50_000, duration_ns: TRIAL_NS };
/// Of a failure that may have been a pause of the machine.
const MARGINAL: f64 = 0.01;

const AT_CEILING: Next =
    Next::Found(SearchResult { load: 100_000, stop_width: 0, at_ceiling: true, ended_by_voids: None });

fn point(load: u64, outcome: Outcome) -> Point {
    let loss_ratio = if outcome == Outcome::Pass { 0.0 } else { MARGINAL };
    Point { load, duration_ns: TRIAL_NS, outcome, loss_ratio }
}

fn spec(mode: Mode) -> SearchSpec {
    SearchSpec { mode, low: 10, high: 100_000, trial_ns: TRIAL_NS, width_pct: 1.0, voids_max: 3 }
}

/// Searches a server that answers everything up to `capacity` q/s.
fn search(spec: &SearchSpec, mut outcome: impl FnMut(u64) -> Outcome) -> (Next, Vec<Point>) {
    let mut history = Vec::new();
    loop {
        match next(spec, &history) {
            Next::Try(TrialInput { load, .. }) => history.push(point(load, outcome(load))),
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
    assert_eq!(end, AT_CEILING);
    assert_eq!(history.last().unwrap().load, 100_000);
    let (end, _) = search(&spec(Mode::Rfc8219), up_to(0));
    assert_eq!(
        end,
        Next::Found(SearchResult { load: 0, stop_width: 10, at_ceiling: false, ended_by_voids: None })
    );
}

#[test]
fn a_void_trial_is_repeated() {
    let mut voids = 2;
    let (end, history) = search(&spec(Mode::Rfc8219), |rate| {
        if rate == 50_000 && voids > 0 {
            voids -= 1;
            return Outcome::Void;
        }
        up_to(60_000)(rate)
    });
    assert!(matches!(end, Next::Found(found) if found.load <= 60_000 && found.load > 59_000), "{end:?}");
    assert!(history[..3].iter().all(|point| point.load == 50_000));
}

#[test]
fn the_search_goes_on_below_a_rate_that_void_trials_left_undecided() {
    for mode in [Mode::Rfc8219, Mode::Verify] {
        let (end, history) = search(&spec(mode.clone()), |_| Outcome::Void);
        assert_eq!(end, Next::Unfit(10));
        let tried: Vec<u64> = history.iter().map(|point| point.load).collect();
        let for_an_end = [3125, 781, 195, 48, 12, 10];
        assert_eq!(tried, [&[50_000; 3], &[25_000; 3], &[12_500; 3], &for_an_end[..]].concat());
        for void_load in [75_000, 62_500, 50_000] {
            let (end, _) = search(&spec(mode.clone()), |rate| {
                if rate == void_load { Outcome::Void } else { up_to(void_load - 1000)(rate) }
            });
            let Next::Found(found) = end else { panic!("{end:?}") };
            assert!((void_load - 1600..void_load).contains(&found.load), "{found:?}");
            let decided_by = (found.load + found.stop_width < void_load, found.ended_by_voids);
            assert_eq!(decided_by, (true, None), "a failure below decided: {found:?}");
        }
        let (end, _) =
            search(&spec(mode.clone()), |rate| if rate > 60_000 { Outcome::Void } else { Outcome::Pass });
        let Next::Found(found) = end else { panic!("{end:?}") };
        let undecided = found.ended_by_voids.unwrap();
        assert!((59_000..=60_000).contains(&found.load) && undecided > 60_000, "{found:?}");
        assert_eq!((found.load + found.stop_width, found.at_ceiling), (100_000, false), "nothing failed");
    }
}

#[test]
fn the_search_goes_on_above_where_a_void_trial_had_all_answers() {
    let spec = spec(Mode::Rfc8219);
    let complete = Point { loss_ratio: 0.0, ..point(50_000, Outcome::Void) };
    assert_eq!(next(&spec, &[complete, point(50_000, Outcome::Void), complete]), spec.trial(75_000));
    let failed = point(75_000, Outcome::Fail);
    assert_eq!(bracket(&spec, &[complete, complete, complete, failed]).passed, 0, "it proves nothing");
}

#[test]
fn void_trials_end_a_search_with_a_low_rate_that_had_all_answers() {
    for mode in [Mode::Rfc8219, Mode::Verify] {
        let spec = spec(mode);
        let mut history = Vec::new();
        let end = loop {
            let Next::Try(TrialInput { load, .. }) = next(&spec, &history) else {
                break next(&spec, &history);
            };
            let loss_ratio = if load > 1000 { 0.3 } else { 0.0 };
            history.push(Point { loss_ratio, ..point(load, Outcome::Void) });
        };
        let (last, before) = (history[history.len() - 1], history[history.len() - 2]);
        assert!(last.load <= 1000 && before.load > 1000, "{history:?}");
        assert_eq!((end, last.duration_ns), (Next::Unfit(last.load), TRIAL_NS));
    }
    // MLRsearch begins with short trials, in which a low rate had its answers.
    let mlr = spec(Mode::Mlr(Goal::ladder(TRIAL_NS, 1.0)));
    let is_short = |input: &TrialInput| input.duration_ns < TRIAL_NS;
    let mut history = Vec::new();
    while let Next::Try(input) = next(&mlr, &history) {
        let (TrialInput { load, duration_ns }, answered) = (input, is_short(&input) || input.load <= 100);
        let loss_ratio = if answered { 0.0 } else { 0.3 };
        history.push(Point { load, duration_ns, outcome: Outcome::Void, loss_ratio });
        assert!(history.len() < 100, "{history:?}");
    }
    let last = history[history.len() - 1];
    assert!(last.duration_ns == TRIAL_NS && last.loss_ratio == 0.0, "{history:?}");
    let (end, history) = search(&spec(Mode::Rfc8219), or_void);
    assert!(
        matches!(end, Next::Found(found) if found.load == 781 && found.ended_by_voids.is_some()),
        "{end:?}"
    );
    assert!(history.len() < 20, "{history:?}");
}

/// A machine on which trials above 1000 q/s are void.
fn or_void(rate: u64) -> Outcome {
    if rate <= 1000 { Outcome::Pass } else { Outcome::Void }
}

#[test]
fn three_times_as_many_voids_and_more_than_counted_trials_end_the_search() {
    let mut trials = 0;
    let (end, history) = search(&spec(Mode::Rfc8219), |rate| {
        trials += 1;
        // Two voids before every trial that counts: never three in a row.
        if trials % 3 == 0 { up_to(60_000)(rate) } else { Outcome::Void }
    });
    let Next::Found(found) = end else { panic!("{end:?}") };
    assert_eq!((found.load, found.ended_by_voids, history.len()), (56_250, Some(59_375), 13));
}

#[test]
fn a_contested_rate_is_decided_by_a_third_trial() {
    let spec = spec(Mode::Verify);
    let trials =
        |outcomes: &[Outcome]| -> Vec<Point> { outcomes.iter().map(|&of| point(50_000, of)).collect() };
    let (pass, fail) = (Outcome::Pass, Outcome::Fail);
    for open in [&[fail][..], &[fail, pass], &[pass, fail]] {
        assert_eq!(next(&spec, &trials(open)), spec.trial(50_000), "{open:?}");
        assert_eq!(bracket(&spec, &trials(open)), Bracket { passed: 0, failed: 100_001 }, "{open:?}");
    }
    for failed in [&[fail, fail][..], &[fail, pass, fail], &[pass, fail, fail]] {
        assert_eq!(next(&spec, &trials(failed)), spec.trial(25_000), "{failed:?}");
    }
    for passed in [&[pass][..], &[pass, pass], &[fail, pass, pass], &[pass, fail, pass]] {
        assert_eq!(next(&spec, &trials(passed)), spec.trial(75_000), "{passed:?}");
    }
}

#[test]
fn the_rate_found_is_confirmed_and_the_search_goes_on_below_where_that_fails() {
    let mut at_first = [Outcome::Pass, Outcome::Fail, Outcome::Fail].into_iter();
    let mut first = None;
    let (end, history) = search(&spec(Mode::Verify), |rate| {
        if first.is_none() && rate > 59_400 && rate <= 60_000 {
            first = Some(rate);
        }
        if Some(rate) == first { at_first.next().unwrap() } else { up_to(60_000)(rate) }
    });
    let Next::Found(found) = end else { panic!("{end:?}") };
    let first = first.unwrap();
    assert!(found.load < first && found.load + found.stop_width == first, "{found:?} below {first}");
    let passed = history.iter().filter(|point| point.load == found.load);
    assert_eq!(passed.map(|point| point.outcome).collect::<Vec<_>>(), [Outcome::Pass; 2]);
}

#[test]
fn by_the_rfc_one_unlucky_trial_excludes_the_upper_half() {
    for (mode, unlucky) in [(Mode::Rfc8219, true), (Mode::Verify, false)] {
        let mut first = true;
        let (end, _) = search(&spec(mode), |rate| {
            if rate == 50_000 && std::mem::take(&mut first) { Outcome::Fail } else { up_to(60_000)(rate) }
        });
        assert!(matches!(end, Next::Found(found) if (found.load < 50_000) == unlucky), "{end:?}");
    }
}

#[test]
fn a_clear_failure_decides_alone() {
    let spec = spec(Mode::Verify);
    let fail = |loss_ratio| Point { loss_ratio, ..point(50_000, Outcome::Fail) };
    assert_eq!(next(&spec, &[fail(0.05)]), spec.trial(50_000));
    assert_eq!(next(&spec, &[fail(0.06)]), spec.trial(25_000));
    let trial = |valid| Trial { outcome: Outcome::Fail, scheduled: 1000, valid, ..Trial::default() };
    let loss = |trial: &Trial, validity| Point::of(INPUT, trial, validity).loss_ratio;
    assert_eq!(loss(&trial(950), Validity::Strict), 0.05);
    let compat = Trial { valid_compat: 999, ..trial(0) };
    assert_eq!((loss(&compat, Validity::Compat), loss(&compat, Validity::Strict)), (0.001, 1.0));
}

#[test]
fn a_fixed_rate_is_tried_as_often_as_told() {
    let (end, history) = search(&spec(Mode::Fixed { trials: 4 }), up_to(100_000));
    assert_eq!(end, AT_CEILING);
    assert_eq!(history.len(), 4);
    assert!(
        matches!(search(&spec(Mode::Fixed { trials: 1 }), up_to(5)).0, Next::Found(found) if found.load == 0)
    );
}

#[test]
fn inversions_are_counted() {
    let history = [(10, Outcome::Fail), (20, Outcome::Fail), (20, Outcome::Pass), (30, Outcome::Fail)];
    let history = history.map(|(qps, outcome)| point(qps, outcome));
    assert_eq!(loss_inversions(&history), 2, "also at the very rate");
    assert_eq!(loss_inversions(&history[2..]), 0);
}

proptest! {
    #[test]
    fn a_steady_server_is_found_within_the_width(capacity in 10u64..99_000, verify: bool) {
        let mode = if verify { Mode::Verify } else { Mode::Rfc8219 };
        let (end, _) = search(&spec(mode), up_to(capacity));
        let Next::Found(found) = end else { return Err(TestCaseError::fail(format!("{end:?}"))) };
        prop_assert!(found.load <= capacity);
        prop_assert!(found.load + found.stop_width > capacity);
        prop_assert!(found.stop_width as f64 <= (found.load as f64 * 0.01).max(1.0));
    }

    /// Whatever the trials show, a bisection ends, and its result is what its rule makes of all its trials.
    #[test]
    fn any_server_ends_the_search_by_its_rule(
        trials in prop::collection::vec((0u8..8, 0.0f64..0.1), 0..60),
        seed: u64,
        verify: bool,
    ) {
        let spec = spec(if verify { Mode::Verify } else { Mode::Rfc8219 });
        let mut trials = trials.into_iter();
        let mut random = record::random::Sequence::new(seed, 0);
        let mut history = Vec::new();
        let end = loop {
            match next(&spec, &history) {
                Next::Try(TrialInput { load, duration_ns }) => {
                    // When the list is at its end, fair coins go on.
                    let (which, loss) = trials.next().unwrap_or_else(|| {
                        (1 + (random.unit() * 7.0) as u8, random.unit() * 0.06)
                    });
                    let outcome = [Outcome::Void, Outcome::Pass, Outcome::Fail][usize::from(which.min(4)) % 3];
                    let loss_ratio = if outcome == Outcome::Pass { 0.0 } else { loss };
                    history.push(Point { load, duration_ns, outcome, loss_ratio });
                }
                end => break end,
            }
            prop_assert!(history.len() < 2000, "the search does not end");
        };
        obeys_its_rule(&spec, &history, end)?;
    }

    /// The same of histories that no search would have made: they end as soon as voids or the rule say so,
    /// and whatever is found then obeys the rule.
    #[test]
    fn any_history_is_judged_by_the_rule(
        history in prop::collection::vec((10u64..40, 0u8..3, 0.0f64..0.1), 0..40),
        verify: bool,
    ) {
        let spec = SearchSpec { high: 40, ..spec(if verify { Mode::Verify } else { Mode::Rfc8219 }) };
        let point = |(load, which, loss): (u64, u8, f64)| {
            let outcome = [Outcome::Void, Outcome::Pass, Outcome::Fail][usize::from(which)];
            let loss_ratio = if outcome == Outcome::Pass { 0.0 } else { loss };
            Point { loss_ratio, ..point(load, outcome) }
        };
        let history: Vec<Point> = history.into_iter().map(point).collect();
        let now = bracket(&spec, &history);
        prop_assert!(now.passed < now.failed);
        obeys_its_rule(&spec, &history, next(&spec, &history))?;
    }
}

/// By RFC 8219's rule no trial at or below the result failed; by the other one the result was confirmed, no
/// rate below it failed, and no rate is left open. Only void trials end a search before.
fn obeys_its_rule(spec: &SearchSpec, history: &[Point], end: Next) -> Result<(), TestCaseError> {
    let Next::Found(found) = end else { return Ok(()) };
    let at_or_below = |point: &&Point| point.load <= found.load;
    let failed = history.iter().filter(at_or_below).filter(|point| point.outcome == Outcome::Fail).count();
    let standings = bisection::standings(spec, history);
    if spec.mode == Mode::Rfc8219 {
        prop_assert_eq!(failed, 0);
    }
    for point in history.iter().filter(at_or_below) {
        prop_assert!(standings.of(point.load) != Standing::Failed, "{:?} below {:?}", point, found);
    }
    if found.ended_by_voids.is_some() {
        return Ok(());
    }
    prop_assert_eq!(standings.open(), None);
    if found.load > 0 {
        prop_assert_eq!(standings.of(found.load), Standing::Passed);
        let above = standings.of(found.load + found.stop_width);
        prop_assert!(found.at_ceiling || above == Standing::Failed, "{:?}", found);
    }
    Ok(())
}

/// A server that answers so many and no more.
fn answering(capacity: u64) -> impl Fn(TrialInput) -> Point {
    move |TrialInput { load, duration_ns }| {
        let loss_ratio = 1.0 - capacity.min(load) as f64 / load as f64;
        let outcome = if loss_ratio > 0.0 { Outcome::Fail } else { Outcome::Pass };
        Point { load, duration_ns, outcome, loss_ratio }
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
    assert_eq!(found, SearchResult { load: 100_000, stop_width: 0, at_ceiling: true, ended_by_voids: None });
    assert_eq!(history.len(), 3, "one trial of each length: {history:?}");
    let (found, _) = search_mlr(&spec, answering(0));
    assert_eq!(found, SearchResult { load: 0, stop_width: 10, at_ceiling: false, ended_by_voids: None });
}

#[test]
fn mlr_repeats_void_trials_as_they_were() {
    let spec = spec(Mode::Mlr(Goal::csit(0.5)));
    let void = Point { outcome: Outcome::Void, loss_ratio: 0.3, ..point(100_000, Outcome::Fail) };
    assert_eq!(next(&spec, &[void]), spec.trial(100_000));
    let other = Point { loss_ratio: 0.2, ..void };
    assert_eq!(next(&spec, &[void, other]), spec.trial(100_000));
    let below = next(&spec, &[void, other, void]);
    assert!(matches!(below, Next::Try(input) if input.load < 100_000), "{below:?}");
    assert_eq!(goal_bounds(&spec, &Goal::csit(0.5), &[void])[0].upper_qps, None, "it says nothing");
}

proptest! {
    #[test]
    fn mlr_finds_a_steady_server_within_the_width(capacity in 10u64..99_000, goals in 0usize..4) {
        let goals = [Goal::ladder(60 * TRIAL_NS, 1.0), Goal::rfc2544(1.0), Goal::tst009(1.0), Goal::csit(0.5)]
            [goals].clone();
        let spec = spec(Mode::Mlr(goals.clone()));
        let (found, history) = search_mlr(&spec, answering(capacity));
        prop_assert!(found.load <= capacity && found.load + found.stop_width > capacity);
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
        let (_, history) = search_mlr(&spec(Mode::Mlr(goals)), |TrialInput { load, duration_ns }| {
            let loss_ratio = (losses.next().unwrap_or(0.0) - 0.01).max(0.0);
            let outcome = if loss_ratio > 0.0 { Outcome::Fail } else { Outcome::Pass };
            Point { load, duration_ns, outcome, loss_ratio }
        });
        // Two goals, some 14 loads for each, and up to 21 trials at a load (csit).
        prop_assert!(history.len() < 600, "{} trials", history.len());
    }
}

/// 0.5 s at 13,596 q/s are 6798 queries in 0.49999 s: taken for a short trial, it would be repeated without
/// end.
#[test]
fn a_trial_is_as_long_as_was_asked() {
    let trial =
        Trial { rate_qps: 13_596, duration_s: 0.499_99, scheduled: 6798, valid: 6798, ..Trial::default() };
    let input = TrialInput { load: 13_596, duration_ns: TRIAL_NS / 2 };
    assert_eq!(Point::of(input, &trial, Validity::Strict).duration_ns, TRIAL_NS / 2);
}
