//! The path of one search: load over trial, and the bracket it narrows.

use maud::{Markup, html};
use record::standing::{Rule, Standings};
use record::{Outcome, Results, Run, Sought, Trial};

use super::MARKS;
use crate::select::{Tally, outcome_word};
use crate::svg::{Chart, Frame, Scale, Shape, Size, Tick, area, at, label, path, shape, x_axis, y_axis};
use record::number::{count, real, share};

/// The trials of a run, drawn to the scale of all runs; nothing if it has none. `number` counts from 1.
pub fn search(results: &Results, number: usize, size: Size) -> Option<Chart> {
    let run = results.runs.get(number.checked_sub(1)?).filter(|run| !run.trials.is_empty())?;
    let trials = &run.trials[..run.trials.len().min(MARKS)];
    let sought = results.sought();
    let top = results
        .runs
        .iter()
        .flat_map(|run| run.trials.iter().take(MARKS))
        .map(|trial| sought.of_trial(trial))
        .max();
    let domain = (0.0, top.unwrap_or(0) as f64 * 1.06);
    let ticks = Tick::of(&Scale::linear(domain, (0.0, 1.0)), 4, |value| real(value, 0));
    let mut frame = Frame::new(size, Tick::longest(&ticks), 7);
    if size == Size::Small {
        (frame.top, frame.bottom) = (30.0, frame.bottom + 4.0);
    }
    let y = Scale::linear(domain, (frame.bottom, frame.top));
    let x = Scale::linear((0.5, trials.len() as f64 + 0.5), (frame.left, frame.right));
    let every = trials.len().div_ceil(8);
    let numbers = (1..=trials.len()).step_by(every);
    let numbers: Vec<Tick> =
        numbers.map(|trial| Tick { value: trial as f64, label: trial.to_string() }).collect();
    let body = html! {
        @if let Some(rule) = Rule::of(&results.settings.search) {
            (area(&bracket((rule, sought), trials, &x, &y), "", "The bracket that was left before each trial"))
        }
        (y_axis(&frame, &y, &ticks, sought.unit()))
        (x_axis(&frame, &x, &numbers, "trial", false))
        (points(trials, sought, &x, &y))
        @if run.found() > 0 { (found(run, &frame, &y)) }
    };
    let tally = Tally::of(trials);
    let text = format!(
        "Path of search {number}: {} passed, {} failed, {} void; it found {}",
        tally.pass,
        tally.fail,
        tally.void,
        sought.in_words(run.found())
    );
    Some(Chart::new(&frame, text, body))
}

fn found(run: &Run, frame: &Frame, y: &Scale) -> Markup {
    let level = y.at(run.found() as f64);
    html! {
        path.rule.main d={ "M" (at(frame.left)) " " (at(level)) "H" (at(frame.right)) } {}
        (label((frame.right + 4.0, level), "strong", &count(run.found())))
    }
}

fn points(trials: &[Trial], sought: Sought, x: &Scale, y: &Scale) -> Markup {
    let place = |index: usize, trial: &Trial| (x.at(index as f64 + 1.0), y.at(sought.of_trial(trial) as f64));
    let places: Vec<(f64, f64)> =
        trials.iter().enumerate().map(|(index, trial)| place(index, trial)).collect();
    html! {
        path.trace d=(path(&places)) {}
        @for (index, (trial, place)) in trials.iter().zip(&places).enumerate() {
            (shape(Shape::of(trial.outcome), *place, outcome_word(trial.outcome), &title(index + 1, trial, sought)))
        }
    }
}

fn title(number: usize, trial: &Trial, sought: Sought) -> String {
    let load = sought.in_words(sought.of_trial(trial));
    let what = format!("Trial {number}: {load}, {}", outcome_word(trial.outcome));
    let missing = trial.failed_queries();
    match (trial.outcome, &trial.void) {
        (Outcome::Void, Some(reason)) => format!("{what}: {reason}"),
        (Outcome::Fail, _) => {
            format!("{what}: {} without a valid answer ({})", count(missing), share(missing, trial.scheduled))
        }
        _ => what,
    }
}

/// The outline of the bracket before each trial: above it the lowest load that failed by the rule of the
/// search, below it the highest that passed.
fn bracket((rule, sought): (Rule, Sought), trials: &[Trial], x: &Scale, y: &Scale) -> Vec<(f64, f64)> {
    let ceiling = trials.iter().map(|trial| sought.of_trial(trial)).max().unwrap_or(0);
    let mut upper = Vec::with_capacity(2 * trials.len());
    let mut lower = Vec::with_capacity(2 * trials.len());
    for index in 0..trials.len() {
        let before = trials[..index].iter();
        let standings = Standings::new(
            rule,
            before.map(|trial| (sought.of_trial(trial), trial.outcome, trial.loss_ratio())),
        );
        let low = standings.passed().unwrap_or(0);
        let high = standings.failed().unwrap_or(ceiling);
        for edge in [x.at(index as f64 + 0.5), x.at(index as f64 + 1.5)] {
            upper.push((edge, y.at(high as f64)));
            lower.push((edge, y.at(low as f64)));
        }
    }
    upper.into_iter().chain(lower.into_iter().rev()).collect()
}
