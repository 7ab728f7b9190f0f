//! The result in plain words.

use engine::record::{Results, State};

use crate::report::number::count as grouped;

/// One paragraph that an operator can act on.
pub fn verdict(results: &Results) -> String {
    let sentences = [rate(results), latency(results), limit(results), trust(results)];
    sentences.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn rate(results: &Results) -> Option<String> {
    let name = &results.dut.name;
    let Some(summary) = &results.summary else {
        return Some(format!("No rate of {name} was found: no search came to its end."));
    };
    if summary.p1 == 0 {
        return Some(format!(
            "{name} did not answer every query even at the lowest rate tried, {} q/s.",
            grouped(results.settings.rate_range_qps[0])
        ));
    }
    let runs = match summary.n {
        1 => "one run".to_owned(),
        n => format!("{n} runs"),
    };
    Some(format!(
        "{name} answered every query of {runs} up to {} q/s (P1); the median is {} q/s, P99 {} q/s, dispersion {:.1} %.",
        grouped(summary.p1),
        grouped(summary.median as u64),
        grouped(summary.p99),
        summary.dispersion_pct
    ))
}

fn latency(results: &Results) -> Option<String> {
    let trial = results.latency_trial.as_ref().filter(|trial| trial.valid > 0)?;
    Some(format!(
        "At half of the median rate, half of the answers came within {} µs and 99 % within {} µs.",
        grouped(trial.latency_ns.p50 / 1000),
        grouped(trial.latency_ns.p99 / 1000)
    ))
}

fn limit(results: &Results) -> Option<String> {
    let bottleneck = results.bottleneck.as_ref()?;
    Some(match bottleneck.cause.as_str() {
        "unattributed" => "What limited it is not known: no counter shows where the queries went.".into(),
        cause => format!("What limited it: {cause} ({}).", bottleneck.evidence),
    })
}

fn trust(results: &Results) -> Option<String> {
    let mut doubts = Vec::new();
    match &results.state {
        State::Interrupted => doubts.push("the measurement was interrupted".to_owned()),
        State::Failed(reason) => doubts.push(format!("the measurement ended early: {reason}")),
        State::Running | State::Complete => {}
    }
    if results.settings.trial_s < 60.0 {
        doubts.push(format!("trials lasted {} s where RFC 8219 asks for 60 s", results.settings.trial_s));
    }
    let complete = results.runs.iter().filter(|run| run.complete).count();
    if complete < 20 {
        doubts.push(format!("{complete} of the 20 repetitions that it asks for were run"));
    }
    if results.selftest.is_none() {
        doubts.push("the Tester was not tested before".to_owned());
    }
    let inversions: u32 = results.runs.iter().map(|run| run.loss_inversions).sum();
    if inversions > 0 {
        doubts.push(format!("{inversions} trials failed at rates below one that passed, so the noise is part of the result"));
    }
    (!doubts.is_empty()).then(|| format!("Take it as an orientation: {}.", doubts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::record::{Bottleneck, Run};
    use engine::statistics::summarize;

    fn results(rates: &[u64], trial_s: f64) -> Results {
        let mut results = crate::campaign::bench::empty_results("bench");
        results.dut.name = "dns64d".into();
        results.settings.trial_s = trial_s;
        results.runs = rates.iter().map(|&qps| Run { qps, complete: true, ..Run::default() }).collect();
        results.summary = summarize(rates, 100);
        results
    }

    #[test]
    fn a_short_run_is_called_an_orientation() {
        let mut results = results(&[50_000, 52_000, 51_000], 2.0);
        results.bottleneck = Some(Bottleneck { cause: "DUT CPU".into(), evidence: "at 53,000 q/s: busy".into() });
        let text = verdict(&results);
        assert!(text.starts_with("dns64d answered every query of 3 runs up to 50,000 q/s (P1)"), "{text}");
        assert!(text.contains("DUT CPU") && text.contains("orientation: trials lasted 2 s"), "{text}");
    }

    #[test]
    fn a_full_run_has_no_such_doubt() {
        let mut results = results(&[50_000; 20], 60.0);
        results.selftest = Some(engine::record::SelfTest { passed: true, ..Default::default() });
        assert!(!verdict(&results).contains("orientation"));
    }

    #[test]
    fn a_server_that_answers_nothing_is_named() {
        assert!(verdict(&results(&[0, 0, 0], 2.0)).contains("did not answer every query even at the lowest rate"));
        assert!(verdict(&results(&[], 2.0)).contains("no search came to its end"));
    }
}
