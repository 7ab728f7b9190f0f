//! Latency by slowest percentile, both axes logarithmic: the tail is where servers differ.

use maud::{Markup, html};
use record::{Results, Trial};

use super::MARKS;
use crate::select::best_pass;
use crate::svg::{Chart, Frame, Item, Scale, Shape, Size, Tick, legend, line, shape, x_axis, y_axis};
use record::number::{brief_time_ns, count, rate_of, short, time_of};

/// Curves of runs that are drawn at most.
const CURVES: usize = 40;
/// Shares below this are not drawn, in percent.
const SHARE_MIN: f64 = 1e-5;

/// The trial at half rate in front of the trials at the rates found; nothing if no trial has a curve.
pub fn latency(results: &Results, size: Size) -> Option<Chart> {
    let half = results.latency_trial.as_ref().filter(|trial| !curve(trial).is_empty());
    let best = results.runs.iter().enumerate().filter_map(|(index, run)| Some((index + 1, best_pass(run)?)));
    let best: Vec<(usize, &Trial)> =
        best.filter(|(_, trial)| !curve(trial).is_empty()).take(CURVES).collect();
    let all: Vec<(f64, f64)> =
        half.into_iter().chain(best.iter().map(|(_, trial)| *trial)).flat_map(curve).collect();
    let (x_domain, y_domain) = domains(&all)?;
    let ticks = Tick::of(&Scale::log(y_domain, (0.0, 1.0)), 9, brief_time_ns);
    let frame = Frame::new(size, Tick::longest(&ticks), 3);
    let x = Scale::log(x_domain, (frame.left, frame.right));
    let y = Scale::log(y_domain, (frame.bottom, frame.top));
    let shares = Tick::of(&x, 8, |value| format!("{} %", plain(value)));
    let body = html! {
        (y_axis(&frame, &y, &ticks, "latency exceeded"))
        (x_axis(&frame, &x, &shares, "by this share of the answers, the slowest", true))
        @for (number, trial) in &best { (curve_of_run(*number, trial, &x, &y)) }
        @if let Some(trial) = half { (curve_of_half(trial, &x, &y)) }
        (legend(&frame, &items(half.is_some(), best.len())))
    };
    Some(Chart::new(&frame, spoken(half, &best), body))
}

fn curve(trial: &Trial) -> Vec<(f64, f64)> {
    let drawn = trial.latency_curve.iter().filter(|(share, time)| *share >= SHARE_MIN && *time > 0);
    drawn.take(MARKS).map(|(share, time)| (*share, *time as f64)).collect()
}

type Range = (f64, f64);

/// The largest share on the left; times with a little room.
fn domains(all: &[(f64, f64)]) -> Option<(Range, Range)> {
    let least = |values: &mut dyn Iterator<Item = f64>| values.min_by(f64::total_cmp);
    let most = |values: &mut dyn Iterator<Item = f64>| values.max_by(f64::total_cmp);
    let shares = (100.0, least(&mut all.iter().map(|point| point.0))?);
    let fastest = least(&mut all.iter().map(|point| point.1))?;
    let slowest = most(&mut all.iter().map(|point| point.1))?;
    Some((shares, (fastest / 1.25, slowest * 1.25)))
}

fn curve_of_run(number: usize, trial: &Trial, x: &Scale, y: &Scale) -> Markup {
    let points: Vec<(f64, f64)> =
        curve(trial).iter().map(|(share, time)| (x.at(*share), y.at(*time))).collect();
    let end = points.last().copied().unwrap_or_default();
    let title = format!(
        "Run {number} at {}: p50 {}, p99 {}, max {}",
        rate_of(trial.rate_qps),
        time_of(trial.latency_ns.p50),
        time_of(trial.latency_ns.p99),
        time_of(trial.latency_ns.max)
    );
    html! {
        (line(&points, "muted"))
        (shape(Shape::Disc, end, "muted", &title))
    }
}

fn curve_of_half(trial: &Trial, x: &Scale, y: &Scale) -> Markup {
    let values = curve(trial);
    let points: Vec<(f64, f64)> = values.iter().map(|(share, time)| (x.at(*share), y.at(*time))).collect();
    html! {
        (line(&points, "half"))
        @for ((share, time), point) in values.iter().zip(&points) {
            (shape(Shape::Disc, *point, "half small", &format!("Slowest {} %: above {}", plain(*share), time_of(*time as u64))))
        }
    }
}

/// A share with as many decimals as it has.
fn plain(share: f64) -> String {
    if share >= 0.001 { short(share) } else { format!("{share:.5}").trim_end_matches('0').to_owned() }
}

fn items(half: bool, runs: usize) -> Vec<Item> {
    let mut items = Vec::new();
    if half {
        items.push(Item { shape: Shape::Stroke, class: "half", text: "half the rate".to_owned() });
    }
    if runs > 0 {
        items.push(Item { shape: Shape::Stroke, class: "muted", text: "what each run found".to_owned() });
    }
    items
}

fn spoken(half: Option<&Trial>, best: &[(usize, &Trial)]) -> String {
    let Some(trial) = half else {
        return format!("Latency at what {} runs found", count(best.len() as u64));
    };
    let times = &trial.latency_ns;
    format!(
        "Latency at {}: median {}, 99th percentile {}, maximum {}",
        rate_of(trial.rate_qps),
        time_of(times.p50),
        time_of(times.p99),
        time_of(times.max)
    )
}
