//! What limited a whole measurement.

use record::{Bottleneck, Cause, FoundConnections, Outcome, Results, Run, SearchMode, SelfTest, Sought};

/// The most frequent cause of the runs' last failures, or who set the highest load where every run passed
/// there. Where void trials ended a search for connections, its last void trial tells: a Tester that holds no
/// more is an end as well, and the searches have no interval.
pub fn bottleneck(results: &Results) -> Option<Bottleneck> {
    let searched = results.settings.search != SearchMode::Fixed && !results.runs.is_empty();
    if searched && results.runs.iter().all(|run| run.at_ceiling) {
        return Some(ceiling(results));
    }
    let deciding = |run: &Run| match run.connections {
        Some(FoundConnections { ended_by_voids: Some(_), .. }) => Outcome::Void,
        _ => Outcome::Fail,
    };
    let failed =
        results.runs.iter().filter_map(|run| run.trials.iter().rfind(|trial| trial.outcome == deciding(run)));
    let causes: Vec<&Bottleneck> = failed.filter_map(|trial| trial.cause.as_ref()).collect();
    let count = |cause: &Cause| causes.iter().filter(|other| other.cause == *cause).count();
    // Of equally frequent causes the first one stands.
    causes.iter().rev().max_by_key(|bottleneck| count(&bottleneck.cause)).copied().cloned()
}

/// Every run passed at the highest load that it might try: who set that.
fn ceiling(results: &Results) -> Bottleneck {
    let highest_qps = results.settings.rate_range_qps[1];
    let (cause, evidence) = if results.sought() == Sought::Connections {
        (
            Cause::MostConnections,
            "every run held as many connections as it was to try (--max-connections); the server may hold more",
        )
    } else if results.selftest.as_ref().is_some_and(|test| allows(test, highest_qps)) {
        (
            Cause::HighestRate,
            "every run passed at the highest rate that it was to try (--max-rate); the server may be faster",
        )
    } else {
        (
            Cause::Certificate,
            "every run passed at the highest rate that the self-test allows; the server may be faster",
        )
    };
    Bottleneck { cause, evidence: evidence.into() }
}

/// Whether the self-test held the rate that was asked for. A self-test that could not has tried more than the
/// rate that it certified in the end, and the measurement then tries no more than this rate.
fn allows(test: &SelfTest, highest_qps: u64) -> bool {
    let gave_way = test.trials.iter().any(|trial| trial.rate_qps > test.required_qps);
    test.passed && test.certified_qps >= highest_qps && !gave_way
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Kind, SelfTest, Trial};

    #[test]
    fn a_ceiling_that_was_told_is_not_the_certificates() {
        let mut results = Results::new(Kind::Bench);
        results.runs = vec![Run { at_ceiling: true, ..Run::default() }];
        assert_eq!(bottleneck(&results).unwrap().cause, Cause::Certificate);
        results.settings.rate_range_qps = [1, 60_000];
        let trials = vec![Trial { rate_qps: 132_000, ..Trial::default() }];
        let test = SelfTest {
            passed: true,
            certified_qps: 60_000,
            required_qps: 132_000,
            trials,
            ..SelfTest::default()
        };
        results.selftest = Some(test.clone());
        assert_eq!(bottleneck(&results).unwrap().cause, Cause::HighestRate);
        // The self-test lowered the highest rate: 100,000 q/s was asked for.
        let higher = Trial { rate_qps: 220_000, outcome: Outcome::Fail, ..Trial::default() };
        results.selftest = Some(SelfTest { trials: [vec![higher], test.trials.clone()].concat(), ..test });
        assert_eq!(bottleneck(&results).unwrap().cause, Cause::Certificate);
    }

    #[test]
    fn a_search_for_connections_names_its_own_end() {
        let mut results = Results::new(Kind::Search);
        results.settings.connections_range = Some([1, 500]);
        let with = |cause, outcome| Trial {
            cause: Some(Bottleneck { cause, evidence: String::new() }),
            outcome,
            ..Trial::default()
        };
        let trials =
            vec![with(Cause::Connections, Outcome::Fail), with(Cause::TesterConnections, Outcome::Void)];
        let found = FoundConnections::default();
        results.runs = vec![Run { at_ceiling: true, connections: Some(found), trials, ..Run::default() }];
        assert_eq!(bottleneck(&results).unwrap().cause, Cause::MostConnections);
        results.runs[0].at_ceiling = false;
        assert_eq!(bottleneck(&results).unwrap().cause, Cause::Connections);
        results.runs[0].connections = Some(FoundConnections { ended_by_voids: Some(300), ..found });
        assert_eq!(bottleneck(&results).unwrap().cause, Cause::TesterConnections);
    }

    #[test]
    fn the_most_frequent_cause_of_the_last_failures_stands_and_the_first_of_equals() {
        let run = |cause: Cause| {
            let cause = Some(Bottleneck { cause, evidence: String::new() });
            Run {
                trials: vec![Trial { outcome: Outcome::Fail, cause, ..Trial::default() }],
                ..Run::default()
            }
        };
        let mut results = Results::new(Kind::Bench);
        assert_eq!(bottleneck(&results), None);
        results.runs = vec![run(Cause::Path), run(Cause::DutCpu)];
        assert_eq!(bottleneck(&results).unwrap().cause, Cause::Path);
        results.runs.push(run(Cause::DutCpu));
        assert_eq!(bottleneck(&results).unwrap().cause, Cause::DutCpu);
    }
}
