//! The rows about the search and its result.

use record::number::count as grouped;
use record::{Outcome, Results, Run, SearchMode, State, Trial};

use super::{Judgement, complete, counted, judged, kept, no_trial, not_kept, open, trials};

/// Residual replies are waited for so long, and then the DUT is left alone so long (RFC 2544 23), in seconds.
const RESIDUAL_S: f64 = 2.0;
const SETTLE_S: f64 = 5.0;
/// Repetitions of the search.
const REPETITIONS: usize = 20;

/// The trials that count and ran at the rate of a run or below.
fn at_or_below(run: &Run) -> impl Iterator<Item = &Trial> {
    run.trials.iter().filter(|trial| trial.outcome != Outcome::Void && trial.rate_qps <= run.qps)
}

fn failed_at_or_below(run: &Run) -> impl Iterator<Item = &Trial> {
    at_or_below(run).filter(|trial| trial.outcome == Outcome::Fail)
}

/// The trials that bear on the rates found: those of each complete run at its rate or below, and all others
/// of the record at the lowest of these rates or below, of which the verdict speaks.
fn concerned(results: &Results) -> impl Iterator<Item = &Trial> {
    let found = || complete(results).filter(|run| run.qps > 0);
    let lowest_qps = found().map(|run| run.qps).min().unwrap_or(0);
    let others = results.runs.iter().filter(|run| !run.complete || run.qps == 0).flat_map(|run| &run.trials);
    let others = others.chain(&results.latency_trial);
    let low = move |trial: &&Trial| trial.outcome != Outcome::Void && trial.rate_qps <= lowest_qps;
    found().flat_map(at_or_below).chain(others.filter(low))
}

pub(super) fn no_loss(results: &Results) -> Judgement {
    if let Some(goal) = results.settings.goals.first().filter(|goal| goal.loss_pct > 0.0) {
        return not_kept(format!("the first goal allows {} % of the queries to be lost", goal.loss_pct));
    }
    let concerned: Vec<&Trial> = concerned(results).collect();
    let all = concerned.len();
    if all == 0 {
        return open("no run has found a rate");
    }
    let failed = || concerned.iter().filter(|trial| trial.outcome == Outcome::Fail);
    match failed().map(|trial| trial.rate_qps).min() {
        None => kept(format!("every one of {all} trials at or below the rates found passed")),
        Some(lowest) => not_kept(format!(
            "{} of {all} trials at or below the rates found failed, the lowest at {} q/s",
            failed().count(),
            grouped(lowest)
        )),
    }
}

pub(super) fn repetitions(results: &Results) -> Judgement {
    let (complete, planned) = (complete(results).count(), results.settings.repetitions as usize);
    if trials(results).next().is_none() {
        return open("nothing was measured");
    }
    if complete < REPETITIONS && planned >= REPETITIONS && results.state == State::Running {
        return open(format!("{complete} of {planned} complete so far"));
    }
    judged(complete >= REPETITIONS, format!("{complete} complete"))
}

pub(super) fn percentiles(results: &Results) -> Judgement {
    let runs = complete(results).count();
    match &results.summary {
        _ if runs == 0 => open("no run is complete"),
        None => not_kept(format!("{runs} runs are complete, and no percentile is given")),
        Some(summary) if summary.n != runs => {
            not_kept(format!("the percentiles are those of {} runs, and {runs} are complete", summary.n))
        }
        Some(summary) => kept(format!("N = {}", summary.n)),
    }
}

pub(super) fn restabilisation(results: &Results) -> Judgement {
    if counted(results).nth(1).is_none() {
        return open("fewer than two trials count: there is no pause between them");
    }
    let (settle_s, listen_s) = (results.settings.settle_s, results.settings.listen_s);
    let pause = format!("a pause of {settle_s} s between trials");
    if settle_s < SETTLE_S {
        return not_kept(pause);
    }
    match listen_s {
        None => open(format!("{pause}; the record does not say how long replies were waited for")),
        Some(listen_s) => judged(
            listen_s >= RESIDUAL_S,
            format!("{pause}; {listen_s} s for the replies to a trial that missed some"),
        ),
    }
}

pub(super) fn search_error(results: &Results) -> Judgement {
    let runs = complete(results).count();
    if results.settings.search == SearchMode::Fixed {
        return open("the rate was given: there was no search");
    }
    if runs == 0 {
        return if counted(results).next().is_none() { no_trial() } else { open("no run is complete") };
    }
    let at_ceiling = complete(results).filter(|run| run.at_ceiling).count();
    if at_ceiling > 0 {
        return not_kept(format!(
            "{at_ceiling} of {runs} runs ended at the highest rate that they might try: the true rate may be higher"
        ));
    }
    let width_qps = complete(results).map(|run| run.stop_width_qps).max().unwrap_or(0);
    let note = format!("the brackets were at most {} q/s wide", grouped(width_qps));
    // Goals allow lossy trials below the rate, and bound it by themselves.
    let contradicted = complete(results).filter(|run| failed_at_or_below(run).next().is_some()).count();
    if results.settings.goals.is_empty() && contradicted > 0 {
        return not_kept(format!(
            "{note}, but in {contradicted} of {runs} runs a trial at or below the rate found failed: the error is larger"
        ));
    }
    kept(note)
}
