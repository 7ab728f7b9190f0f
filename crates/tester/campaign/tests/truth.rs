//! No sentence, page, drawing, table or row of the checklist contradicts a trial of the record.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use proptest::prelude::*;
use record::statistics::summarize;
use record::{Goal, Kind, Outcome, RateInterval, Results, Run, Trial};
use report::compare::{Named, pair, pair_text};

/// A record of the quick preset by an older rule, in which one pass outvoted one failure.
fn outvoted() -> Results {
    serde_json::from_str(include_str!("../../report/tests/fixtures/results-outvoted.json")).unwrap()
}

/// Without breaks of lines, spaces that do not break, and tags.
fn flat(text: &str) -> String {
    text.replace('\u{a0}', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Everything that says something of the rate.
fn everything(results: &Results) -> Vec<(String, String)> {
    let of = |name: &str, text: String| (name.to_owned(), flat(&text));
    let mut all = vec![
        of("verdict", report::verdict(results)),
        of("text", report::text(results)),
        of("page", report::html(results)),
    ];
    all.extend(report::svg_figures(results).into_iter().map(|(name, text)| (name, flat(&text))));
    all.extend(report::tables(results).into_iter().map(|(name, text)| (name, flat(&text))));
    all
}

/// What only a rate may claim at or below which nothing was lost.
const CLAIMS: [&str; 4] = ["without losing", "held it", "Safe rate", "without loss"];

#[test]
fn a_record_whose_failures_were_outvoted_is_told_so() {
    let results = outvoted();
    let verdict = report::verdict(&results);
    assert!(verdict.starts_with(
        "dns64d 0.1.0 answered 83,203 q/s, but not in every trial: the rate held in 7 of 11 trials of 2 s at or below it; \
         4 lost 3.14 %, 2.77 %, 1.66 % and 0.93 %. Every one of 3 runs found that rate or a higher one (median 86,718 q/s; \
         the runs lie 12.16 % apart)."
    ), "{verdict}");
    for (file, text) in everything(&results) {
        for claim in CLAIMS {
            assert!(!text.contains(claim), "{file} says {claim:?}");
        }
    }
    let losses = "4 of 11 trials at 83,203 q/s or below lost queries: 5,230 (3.14 %) at 83,203 q/s, 4,422 (2.77 %) at \
                  79,687 q/s, 2,489 (1.66 %) at 75,000 q/s and 1,527 (0.93 %) at 82,031 q/s. By the rule of RFC 8219, \
                  where every trial counts, the rate lies below 75,000 q/s.";
    for text in [report::text(&results), report::html(&results)] {
        assert!(flat(&text).contains(losses));
    }
    let page = flat(&report::html(&results));
    assert!(page.contains("Rate found: held in 7 of 11 trials of 2 s at or below it; 4 lost 3.14 %"));
    let tables = report::tables(&results);
    let summary = &tables.iter().find(|(name, _)| name == "summary.tex").unwrap().1;
    assert!(summary.contains("83,203 q/s held in 7 of 11 trials of 2 s"), "{summary}");
    let figures = report::svg_figures(&results);
    let rates = &figures.iter().find(|(name, _)| name == "rates.svg").unwrap().1;
    assert!(rates.contains("Run 1: 83,203 q/s, which held in 4 of 7 trials of 2 s"), "{rates}");
}

#[test]
fn a_comparison_names_the_losses() {
    let results = outvoted();
    let named = Named { name: "a", results: &results };
    let compared = flat(&pair_text(&pair(named, named, None, 2.0).unwrap()));
    assert!(
        compared.contains("a: 83,203 q/s held in 7 of 11 trials of 2 s at or below it; 4 lost"),
        "{compared}"
    );
}

#[test]
fn a_search_that_voids_ended_says_where_and_between_what() {
    let mut results = outvoted();
    results.runs[1].ended_by_voids_qps = Some(93_750);
    results.runs[2].ended_by_voids_qps = Some(90_000);
    let found_qps = results.runs[2].qps;
    results.runs[2].trials.retain(|trial| trial.rate_qps <= found_qps);
    let said = "Void trials left 93,750 q/s undecided in run 2: its rate lies between 93,750 q/s and 94,921 q/s. Void \
                trials left 90,000 q/s undecided in run 3: its rate is at least 86,718 q/s.";
    assert!(report::verdict(&results).contains(said), "{}", report::verdict(&results));
    assert_eq!(flat(&report::html(&results)).matches(said).count(), 1, "in the verdict alone");
    results.runs[0] = Run { qps: 0, complete: false, ..results.runs[0].clone() };
    results.runs[0].ended_by_voids_qps = Some(75_000);
    assert!(
        report::verdict(&results)
            .contains("Void trials left 75,000 q/s undecided in run 1, and no rate passed.")
    );
}

#[test]
fn where_void_trials_ended_every_search_an_interval_is_the_result() {
    let mut results = outvoted();
    results.runs.iter_mut().for_each(|run| run.ended_by_voids_qps = Some(90_000));
    results.summary = None;
    let said = "The rate of dns64d 0.1.0 lies between 43,359 q/s and 94,921 q/s: 43,359 q/s held in the only trial of 2 s \
                at or below it, and 94,921 q/s failed. 0 of 30 trials void";
    let verdict = report::verdict(&results);
    assert!(verdict.starts_with(said), "{verdict}");
    for (file, text) in &everything(&results)[..3] {
        assert!(text.contains(said), "{file}: {text}");
        assert_eq!(
            text.matches("Void trials kept every search from its end.").count(),
            usize::from(file != "verdict")
        );
    }
    assert!(flat(&report::html(&results)).contains("<strong>43,359 to 94,921</strong>"));
    let tables = report::tables(&results);
    let interval = &tables.iter().find(|(name, _)| name == "interval.csv").unwrap().1;
    assert!(interval.contains("43359") && interval.contains("94921"), "{interval}");
    let named = Named { name: "a", results: &results };
    let refused = flat(&pair(named, named, None, 2.0).unwrap_err().to_string());
    assert!(refused.contains("the rate is known to be between 43,359 q/s and 94,921 q/s alone"), "{refused}");
}

#[test]
fn short_trials_are_said_to_overstate() {
    let mut results = outvoted();
    assert!(!report::text(&results).contains("overstate"), "4.2 ms are less than the width of the search");
    for trial in results.runs.iter_mut().flat_map(|run| &mut run.trials) {
        trial.latency_ns.max = 240_000_000;
    }
    let said = "Trials of 2 s may overstate the rate by up to 12.00 %: the last answers took up to 240 ms.";
    assert_eq!(flat(&report::text(&results)).matches(said).count(), 1, "as a caveat alone");
}

prop_compose! {
    fn trial()(
        step in 1u64..12,
        outcome in prop_oneof![3 => Just(Outcome::Pass), 2 => Just(Outcome::Fail), 1 => Just(Outcome::Void)],
        // A trial may fail although every query had an answer: the cache was not filled beforehand.
        failed in prop_oneof![1 => Just(0), 4 => 1u64..2000],
    ) -> Trial {
        let scheduled = step * 2000;
        let failed = if outcome == Outcome::Pass { 0 } else { failed.min(scheduled) };
        Trial {
            rate_qps: step * 1000,
            duration_s: 2.0,
            outcome,
            void: (outcome == Outcome::Void).then(|| "the Tester was late".to_owned()),
            scheduled,
            sent: scheduled,
            answered: scheduled - failed,
            valid: scheduled - failed,
            lost: failed,
            ..Trial::default()
        }
    }
}

prop_compose! {
    /// Runs whose rates follow no rule: the report must be true of any of them.
    fn record()(
        runs in prop::collection::vec((prop::collection::vec(trial(), 1..14), any::<prop::sample::Index>(), any::<bool>()), 1..5),
        latency_trial in prop::option::of(trial()),
        interrupted in prop::option::of(prop::collection::vec(trial(), 1..6)),
        search in prop::sample::select(vec!["rfc8219", "verify", "fixed", "mlr"]),
        allowed_pct in prop_oneof![3 => Just(None), 1 => Just(Some(0.0)), 1 => Just(Some(5.0))],
    ) -> Results {
        let mut results = Results::new(Kind::Bench);
        results.dut.name = "server".into();
        results.settings.search = search.into();
        results.settings.timeout_s = 1.0;
        results.settings.goals = allowed_pct.map(|loss_pct| Goal { loss_pct, ..Goal::default() }).into_iter().collect();
        results.runs = runs.into_iter().map(|(trials, which, by_voids)| {
            let qps = which.get(&trials).rate_qps;
            let ended_by_voids_qps = by_voids.then_some(qps + 1000);
            Run { qps, stop_width_qps: 1000, complete: true, ended_by_voids_qps, trials, ..Run::default() }
        }).collect();
        results.latency_trial = latency_trial;
        let rates: Vec<u64> = results.runs.iter().map(|run| run.qps).collect();
        results.summary = summarize(&rates, 1000);
        results.runs.extend(interrupted.map(|trials| Run { trials, ..Run::default() }));
        results.checklist = engine::checklist::checklist(&results);
        results.verdict = Some("server answered anything without losing a query in every one of 9 runs.".into());
        results
    }
}

/// All trials at or below the rate that are not void, and those of them that lost more than allowed.
fn counted<'a>(
    results: &Results,
    trials: impl Iterator<Item = &'a Trial>,
    rate_qps: u64,
) -> (usize, Vec<&'a Trial>) {
    let allowed = results.settings.goals.first().map_or(0.0, |goal| goal.loss_pct / 100.0);
    let all: Vec<&Trial> =
        trials.filter(|trial| trial.outcome != Outcome::Void && trial.rate_qps <= rate_qps).collect();
    let share = |trial: &Trial| (trial.scheduled - trial.valid) as f64 / trial.scheduled as f64;
    let failed = |trial: &&Trial| {
        trial.outcome == Outcome::Fail && (trial.valid == trial.scheduled || share(trial) > allowed)
    };
    let lost = all.iter().copied().filter(failed).collect();
    (all.len(), lost)
}

/// How a rate held, as every text must say it.
fn expected(all: usize, failed: &[&Trial]) -> String {
    let trials = if all == 1 { "trial" } else { "trials" };
    let lossy = failed.iter().filter(|trial| trial.valid < trial.scheduled).count();
    let held = format!("held in {} of {all} {trials} of 2 s at or below it", all - failed.len());
    match (all, failed.len() - lossy, lossy) {
        (0, ..) => "held in no trial of the record".to_owned(),
        (1, 0, 0) => "held in the only trial of 2 s at or below it".to_owned(),
        (all, 0, 0) => format!("held in every one of {all} trials of 2 s at or below it"),
        (_, otherwise, 0) => format!("{held}; {otherwise} failed without a lost query"),
        (_, _, lossy) => format!("{held}; {lossy} lost"),
    }
}

/// The row of the checklist with this text.
fn is_kept(results: &Results, text: &str) -> Option<bool> {
    results.checklist.iter().find(|row| row.text.contains(text)).unwrap().kept
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// The same of an interval: no trial that counts failed at or below what the texts give as its lower end,
    /// none passed at or above its upper end, and nothing claims more.
    #[test]
    fn no_interval_contradicts_a_trial(mut results in record()) {
        results.runs.iter_mut().for_each(|run| run.ended_by_voids_qps = Some(run.qps + 1));
        results.summary = None;
        let found = RateInterval::of(&results).unwrap();
        let (least_qps, below_qps) = (found.at_least_qps, found.below_qps);
        let allowed = results.settings.goals.first().map_or(0.0, |goal| goal.loss_pct / 100.0);
        for trial in results.runs.iter().flat_map(|run| &run.trials).chain(&results.latency_trial) {
            match trial.outcome {
                Outcome::Void => {}
                Outcome::Fail if trial.loss_ratio() > allowed || trial.loss_ratio() <= 0.0 => {
                    prop_assert!(trial.rate_qps > least_qps);
                }
                _ => prop_assert!(below_qps.is_none_or(|below_qps| trial.rate_qps < below_qps)),
            }
        }
        let rate = record::number::rate_of;
        let said = match (least_qps, below_qps) {
            // The trials say nothing.
            (0, None) => return Ok(()),
            (0, Some(below_qps)) => format!("is below {}", rate(below_qps)),
            (_, None) => format!("is at least {}", rate(least_qps)),
            (_, Some(below_qps)) => format!("lies between {} and {}", rate(least_qps), rate(below_qps)),
        };
        let (said, texts) = (flat(&said), everything(&results));
        for (file, text) in &texts[..3] {
            prop_assert!(text.contains(&said), "{} lacks {:?}: {}", file, said, text);
        }
        for (file, text) in &texts {
            prop_assert!(!CLAIMS.iter().any(|claim| text.contains(claim)), "{}", file);
        }
    }

    /// A row of the checklist is kept only where no trial says otherwise.
    #[test]
    fn no_row_contradicts_a_trial(results in record()) {
        let rate_qps = results.summary.as_ref().unwrap().p1;
        let failed = |trial: &&Trial| trial.outcome == Outcome::Fail;
        let all = results.runs.iter().flat_map(|run| &run.trials).chain(&results.latency_trial);
        let below = all.filter(failed).filter(|trial| trial.rate_qps <= rate_qps).count();
        let complete = || results.runs.iter().filter(|run| run.complete);
        let of_runs = complete().flat_map(|run| run.trials.iter().filter(failed).filter(|trial| trial.rate_qps <= run.qps)).count();
        if below + of_runs > 0 {
            prop_assert!(is_kept(&results, "every query got a valid answer") != Some(true));
        }
        if of_runs > 0 && results.settings.goals.is_empty() {
            prop_assert!(is_kept(&results, "The error of the search") != Some(true));
        }
        // Runs of this few, and trials of 2 s, keep neither.
        prop_assert!(is_kept(&results, "repeated at least 20 times") != Some(true));
        prop_assert!(is_kept(&results, "lasts at least 60 s") != Some(true));
    }

    /// If any trial at or below the rate that is not void failed, nothing claims that every trial held,
    /// and sentence, text, page and figures have the numbers. If none did, the sentence says so.
    #[test]
    fn nothing_contradicts_a_trial(results in record()) {
        let rate_qps = results.summary.as_ref().unwrap().p1;
        let trials = results.runs.iter().flat_map(|run| &run.trials).chain(&results.latency_trial);
        let (all, lost) = counted(&results, trials, rate_qps);
        let said = expected(all, &lost);
        let texts = everything(&results);
        for (file, text) in &texts[..3] {
            prop_assert!(text.contains(&said), "{} lacks {:?}: {}", file, said, text);
        }
        let is_everywhere = all > 0 && lost.is_empty();
        for (file, text) in &texts {
            for claim in CLAIMS {
                prop_assert!(is_everywhere || !text.contains(claim), "{} says {:?}: {}", file, claim, said);
            }
        }
        let verdict = &texts[0].1;
        let without_loss = results.settings.goals.first().is_none_or(|goal| goal.loss_pct == 0.0);
        prop_assert_eq!(verdict.contains("without losing a query"), is_everywhere && without_loss);
        let share = |trial: &Trial| (trial.scheduled - trial.valid) as f64 / trial.scheduled as f64;
        let lossy: Vec<&Trial> = lost.iter().copied().filter(|trial| share(trial) > 0.0).collect();
        if let Some(worst) = lossy.iter().map(|trial| share(trial)).reduce(f64::max) {
            let worst = record::number::percent(worst * 100.0);
            prop_assert!(verdict.contains(&format!("{} lost {worst}", lossy.len())), "{} lost {}: {}", lossy.len(), worst, verdict);
        }
        if !lost.is_empty() {
            let lowest = lost.iter().map(|trial| trial.rate_qps).min().unwrap();
            let below = format!("the rate lies below {}", record::number::rate_of(lowest));
            prop_assert!(texts[1].1.contains(&below) && texts[2].1.contains(&below), "{}", below);
        }
        let rates = &texts.iter().find(|(name, _)| name == "rates.svg").unwrap().1;
        for (index, run) in results.runs.iter().filter(|run| run.complete).enumerate() {
            let (all, lost) = counted(&results, run.trials.iter(), run.qps);
            let said = format!("Run {}: {}, which {}", index + 1, record::number::rate_of(run.qps), expected(all, &lost));
            prop_assert!(rates.contains(&said), "{} in {}", said, rates);
        }
    }
}
