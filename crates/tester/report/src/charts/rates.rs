//! The load that each repetition found as a point, with median, P1 and P99.

use maud::{Markup, html};
use record::{Results, Run, Sought, Summary};

use super::{RUNS, spread};
use crate::held::of_run;
use crate::svg::{
    Chart, Frame, Item, Scale, Shape, Size, Tick, at, band, label, legend, shape, x_axis, y_axis,
};
use crate::words::upper_first;
use record::number::{count, plural, real};

/// Every run that found a load; nothing if none did.
pub fn rates(results: &Results, size: Size) -> Option<Chart> {
    let runs = results.runs.iter().take(RUNS).enumerate().map(|(index, run)| (index + 1, run));
    let runs: Vec<(usize, &Run)> = runs.filter(|(_, run)| run.found() > 0).collect();
    let (last, _) = *runs.last()?;
    let domain = domain(&runs);
    let ticks = Tick::of(&Scale::linear(domain, (0.0, 1.0)), 5, |value| real(value, 0));
    let frame = Frame::new(size, Tick::longest(&ticks), 15);
    let y = Scale::linear(domain, (frame.bottom, frame.top));
    let x = Scale::linear((0.5, last as f64 + 0.5), (frame.left, frame.right));
    let sought = results.sought();
    let every = last.div_ceil(if size == Size::Narrow { 8 } else { 20 });
    let numbers = (1..=last).step_by(every);
    let numbers: Vec<Tick> = numbers.map(|run| Tick { value: run as f64, label: run.to_string() }).collect();
    let body = html! {
        (y_axis(&frame, &y, &ticks, sought.unit()))
        (x_axis(&frame, &x, &numbers, "run", false))
        @if let Some(summary) = results.found() { (statistics(summary, &frame, &y)) }
        @for (number, run) in &runs { (point(results, *number, run, x.at(*number as f64), &y)) }
        (legend(&frame, &items(&runs, sought, size)))
    };
    let seen = results.found().map_or_else(String::new, |summary| {
        format!(": median {}, P1 {}, P99 {}", real(summary.median, 0), count(summary.p1), count(summary.p99))
    });
    Some(Chart::new(
        &frame,
        format!(
            "{} found by each of {}{seen}",
            upper_first(sought.noun()),
            plural(runs.len(), "run", "runs")
        ),
        body,
    ))
}

/// From the lowest to the highest, and never so near that a small difference looks large.
fn domain(runs: &[(usize, &Run)]) -> (f64, f64) {
    let low = runs.iter().map(|(_, run)| run.found()).min().unwrap_or(0) as f64;
    let high =
        runs.iter().map(|(_, run)| run.found().saturating_add(run.stop_width())).max().unwrap_or(0) as f64;
    let margin = ((high - low) * 0.15).max((high + low) * 0.02);
    ((low - margin).max(0.0), high + margin)
}

fn point(results: &Results, number: usize, run: &Run, x: f64, y: &Scale) -> Markup {
    let (found, sought) = (run.found() as f64, results.sought());
    let above = y.at(found + run.stop_width() as f64);
    let note = match (run.ended_by_voids(), run.at_ceiling, run.complete) {
        (Some(_), ..) => "; void trials left one above it undecided",
        (None, true, _) => "; at the ceiling: may be higher",
        (None, false, false) => "; the search was broken off",
        (None, false, true) => "",
    };
    let mark = if run.came_to_its_end() { (Shape::Disc, "pass") } else { (Shape::Diamond, "void") };
    let title = format!(
        "Run {number}: {}, which held {}; bracket up to {}{note}",
        sought.in_words(run.found()),
        of_run(results, run).words(),
        sought.in_words(run.found().saturating_add(run.stop_width()))
    );
    html! {
        path.error d={ "M" (at(x)) " " (at(y.at(found))) "V" (at(above)) "m-4 0h8" } {}
        (shape(mark.0, (x, y.at(found)), mark.1, &title))
    }
}

fn statistics(summary: &Summary, frame: &Frame, y: &Scale) -> Markup {
    let mut values = [
        (summary.p1 as f64, "P1", "rule"),
        (summary.median, "Median", "rule main"),
        (summary.p99 as f64, "P99", "rule"),
    ];
    values.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut places = values.map(|(value, _, _)| y.at(value));
    spread(&mut places, 16.0, frame.top, frame.bottom);
    html! {
        @if let Some(interval) = &summary.median_interval {
            @let title = format!("{:.1} % confidence interval of the median", interval.confidence_pct);
            (band((frame.left, y.at(interval.low as f64)), (frame.right, y.at(interval.high as f64)), "", &title))
        }
        @for ((value, name, class), place) in values.iter().zip(places) {
            @let line = at(y.at(*value));
            path class=(class) d={ "M" (at(frame.left)) " " (line) "H" (at(frame.right)) } {}
            @let weight = if *name == "Median" { "strong" } else { "" };
            (label((frame.right + 7.0, place), weight, &format!("{name} {}", real(*value, 0))))
        }
    }
}

fn items(runs: &[(usize, &Run)], sought: Sought, size: Size) -> Vec<Item> {
    let text = match size {
        Size::Narrow => "found, up to what failed".to_owned(),
        _ => format!("{} found; the stroke ends at the lowest above it that failed", sought.noun()),
    };
    let mut items = vec![Item { shape: Shape::Disc, class: "pass", text }];
    if runs.iter().any(|(_, run)| !run.came_to_its_end()) {
        items.push(Item {
            shape: Shape::Diamond,
            class: "void",
            text: "broken off, or ended by void trials".to_owned(),
        });
    }
    items
}
