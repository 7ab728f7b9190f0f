//! What of the machine bears on the rate: what took processor time during the trials, and the findings of the
//! preflight.

use record::limits::{FOREIGN_LOAD_WARNING, STEAL_WARNING};
use record::preflight::subject;
use record::{Cause, Finding, Observation, Outcome, Results, Severity, Trial};

use super::{Caveat, Effect, caveat};
use record::number::percent;

/// The caveats about the machine.
pub fn caveats(results: &Results) -> impl Iterator<Item = Caveat> {
    let findings = results.environment.findings.iter().filter(|found| found.severity != Severity::Info);
    stolen(results).into_iter().chain(other_load(results)).chain(findings.map(|found| of(results, found)))
}

fn stolen(results: &Results) -> Option<Caveat> {
    let pct = mean(results, |seen| seen.steal_pct)?;
    let text = format!(
        "The hypervisor took {} of a processor during the trials that count. Remedy: a machine with dedicated processors.",
        percent(pct)
    );
    (pct > STEAL_WARNING.value)
        .then(|| caveat(Severity::Warning, Effect::Percent(pct), "The machine was taken away", text))
}

/// Where the server's process is not known, its own time counts as that of other programs.
fn other_load(results: &Results) -> Option<Caveat> {
    let pct = mean(results, |seen| seen.dut_cpu_pct.and(seen.foreign_cpu_pct))?;
    let text = format!(
        "Programs other than Tester and server used {} of a processor during the trials that count. Remedy: end other \
         programs (top shows them).",
        percent(pct)
    );
    (pct > FOREIGN_LOAD_WARNING.value)
        .then(|| caveat(Severity::Warning, Effect::Percent(pct), "Other load on this machine", text))
}

/// Over the trials of the searches that are not void.
fn mean(results: &Results, share_pct: impl Fn(&Observation) -> Option<f64>) -> Option<f64> {
    let seen = counted(results).filter_map(|trial| trial.observation.as_ref());
    let shares: Vec<f64> = seen.filter_map(share_pct).collect();
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}

fn counted(results: &Results) -> impl Iterator<Item = &Trial> {
    results.runs.iter().flat_map(|run| &run.trials).filter(|trial| trial.outcome != Outcome::Void)
}

fn of(results: &Results, finding: &Finding) -> Caveat {
    let remedy = if finding.remedy.is_empty() { "" } else { ". Remedy: " };
    let text = format!("{}{remedy}{}", finding.evidence.trim_end_matches('.'), finding.remedy);
    let title = finding.what.trim_end_matches('.');
    caveat(finding.severity, bearing(results, finding), title, text.trim_start_matches(". "))
}

/// What the finding does to the rate, as far as the trials show it.
fn bearing(results: &Results, finding: &Finding) -> Effect {
    let is_limit = |cause: &Cause| results.bottleneck.as_ref().is_some_and(|found| found.cause == *cause);
    let dropped = |trial: &Trial| trial.observation.as_ref().is_some_and(|seen| seen.softnet_drops > Some(0));
    let shows = match finding.what.as_str() {
        _ if finding.severity == Severity::Fatal => return Effect::Worthless,
        // They are from before the measurement: the trials have their own readings.
        subject::OTHER_LOAD | subject::STEAL | subject::KERNEL_WARNINGS => false,
        subject::RECEIVE_BUFFERS => is_limit(&Cause::DutSocket),
        subject::BACKLOG => counted(results).any(dropped),
        _ => true,
    };
    if shows { Effect::Unknown } else { Effect::None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Bottleneck, Kind, Run};

    fn results(seen: Observation) -> Results {
        let trial = |outcome, observation| Trial { outcome, observation, ..Trial::default() };
        let void = Observation { steal_pct: Some(90.0), ..Observation::default() };
        let trials = vec![trial(Outcome::Pass, Some(seen)), trial(Outcome::Void, Some(void))];
        let mut results = Results::new(Kind::Bench);
        results.runs = vec![Run { trials, ..Run::default() }];
        results
    }

    #[test]
    fn load_is_told_from_the_trials_that_count() {
        let seen = |steal_pct, foreign_cpu_pct| Observation {
            steal_pct: Some(steal_pct),
            foreign_cpu_pct: Some(foreign_cpu_pct),
            dut_cpu_pct: Some(95.0),
            ..Observation::default()
        };
        let effects = |seen| -> Vec<Effect> { caveats(&results(seen)).map(|caveat| caveat.effect).collect() };
        assert_eq!(effects(seen(0.5, 5.0)), []);
        assert_eq!(effects(seen(22.0, 5.0)), [Effect::Percent(22.0)]);
        assert_eq!(effects(seen(0.0, 30.0)), [Effect::Percent(30.0)]);
        assert_eq!(effects(Observation { dut_cpu_pct: None, ..seen(0.0, 130.0) }), []);
    }

    #[test]
    fn a_finding_bears_on_the_rate_where_the_trials_do_not_contradict() {
        let finding = |what: &str| Finding {
            severity: Severity::Warning,
            what: what.into(),
            evidence: "seen".into(),
            remedy: "do".into(),
        };
        let mut measured = results(Observation::default());
        let bearing = |results: &Results, what| bearing(results, &finding(what));
        for what in ["steal", "other load", "receive buffers", "backlog", "kernel warnings"] {
            assert_eq!(bearing(&measured, what), Effect::None, "{what}");
        }
        assert_eq!(bearing(&measured, "turbo"), Effect::Unknown);
        let (cause, evidence) = (Cause::DutSocket, String::new());
        measured.bottleneck = Some(Bottleneck { cause, evidence });
        assert_eq!(bearing(&measured, "receive buffers"), Effect::Unknown);
        let drops = Observation { softnet_drops: Some(1), ..Observation::default() };
        assert_eq!(bearing(&results(drops), "backlog"), Effect::Unknown);
        let fatal = Finding { severity: Severity::Fatal, ..finding("steal") };
        assert_eq!(super::bearing(&measured, &fatal), Effect::Worthless);
    }
}
