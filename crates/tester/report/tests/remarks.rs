//! The end of a measurement says what bears on its rate, each thing once, the weightiest first.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use record::{Finding, Observation, Outcome, Results, Severity, State};

/// A record of the quick preset: 4 of 11 trials at the rate or below lost queries, the lowest at 75,000 of
/// 83,203 q/s, and its runs lie 12.16 % apart.
fn measured() -> Results {
    let mut results: Results = serde_json::from_str(include_str!("fixtures/results-outvoted.json")).unwrap();
    results.environment.findings.clear();
    results
}

fn finding(what: &str) -> Finding {
    Finding {
        severity: Severity::Warning,
        what: what.into(),
        evidence: format!("{what} was seen"),
        remedy: String::new(),
    }
}

/// The titles of the remarks that are printed, in their order.
fn titles(results: &Results) -> Vec<String> {
    let text = report::brief(results);
    let remarks =
        text.lines().filter_map(|line| line.strip_prefix("  mind  ").or(line.strip_prefix("  note  ")));
    remarks.map(|line| line.split(':').next().unwrap().to_owned()).collect()
}

#[test]
fn the_three_that_do_most_to_the_rate_are_printed() {
    let mut results = measured();
    assert_eq!(
        titles(&results),
        ["Trials shorter than RFC 8219 asks", "Queries were lost at or below the rate"]
    );
    results.environment.findings = ["turbo", "SMT", "device eth1"].map(finding).into();
    for trial in results.runs.iter_mut().flat_map(|run| &mut run.trials) {
        let seen = trial.observation.take().unwrap_or_default();
        trial.observation = Some(Observation { steal_pct: Some(22.0), ..seen });
    }
    let [shorter, lost] = ["Trials shorter than RFC 8219 asks", "Queries were lost at or below the rate"];
    assert_eq!(titles(&results), ["The machine was taken away", shorter, lost]);
    results.state = State::Interrupted;
    assert_eq!((titles(&results)[0].as_str(), titles(&results).len()), ("Interrupted", 3));
    for all in [report::text(&results), report::html(&results)] {
        assert!(
            ["turbo was seen", "SMT was seen", "device eth1 was seen"].iter().all(|seen| all.contains(seen))
        );
    }
}

#[test]
fn what_the_trials_contradict_is_not_printed() {
    let mut results = measured();
    let before = titles(&results);
    results.environment.findings = ["steal", "other load", "backlog", "receive buffers"].map(finding).into();
    assert_eq!(titles(&results), before);
}

#[test]
fn a_verdict_without_a_rate_has_no_remarks() {
    let mut results = measured();
    results.state = State::Failed("the server ended by itself".into());
    results.summary = None;
    for run in &mut results.runs {
        run.qps = 0;
    }
    assert_eq!(titles(&results), Vec::<String>::new());
    assert_eq!(report::brief(&results).matches("the server ended by itself").count(), 1);
}

#[test]
fn nothing_is_said_twice() {
    let mut results = measured();
    results.runs[1].ended_by_voids_qps = Some(93_750);
    for trial in results.runs.iter_mut().flat_map(|run| &mut run.trials) {
        trial.latency_ns.max = if trial.outcome == Outcome::Pass { 240_000_000 } else { 0 };
    }
    let text = report::brief(&results).split_whitespace().collect::<Vec<_>>().join(" ");
    let mut sentences: Vec<&str> = text.split(". ").collect();
    sentences.sort_unstable();
    assert!(sentences.windows(2).all(|pair| pair[0] != pair[1]), "{text}");
    assert_eq!(text.matches("Void trials").count(), 1, "{text}");
    assert_eq!(text.matches("overstate").count(), 1, "{text}");
}
