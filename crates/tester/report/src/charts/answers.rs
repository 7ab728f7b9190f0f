//! A trial's answers second by second: how long they took, and what they said.

use maud::{Markup, html};
use record::{Answers, Trial};

use super::series::{PARTS_MIN, STRIP, strip};
use super::{MARKS, Span};
use crate::svg::{Chart, Frame, Item, Scale, Shape, Size, Tick, band, legend, line, path, x_axis, y_axis};
use record::number::{brief_time_ns, count, rate_of, short, time_of};

const NAMED: usize = 3;
/// What all answers should say.
const GOOD: &str = "NOERROR";

/// Nothing if the trial was too short to show a course, or its answers were not looked at one by one.
pub fn answers(trial: &Trial, size: Size) -> Option<Chart> {
    let seconds: Vec<(f64, &Answers)> = trial
        .answers
        .iter()
        .take(MARKS)
        .enumerate()
        .map(|(second, answers)| (second as f64, answers))
        .collect();
    let times = || seconds.iter().flat_map(|(_, of)| [of.p50_ns, of.max_ns]).filter(|&time| time > 0);
    if seconds.len() < PARTS_MIN {
        return None;
    }
    let domain = (times().min()? as f64 / 1.25, times().max()? as f64 * 1.25);
    let ticks = Tick::of(&Scale::log(domain, (0.0, 1.0)), 6, brief_time_ns);
    let mut frame = Frame::new(size, Tick::longest(&ticks), 1);
    let floor = frame.bottom;
    frame.bottom -= STRIP + 14.0;
    let end = (seconds.len() as f64).min(trial.duration_s.max(1.0));
    let x = Scale::linear((0.0, end), (frame.left, frame.right));
    let y = Scale::log(domain, (frame.bottom, frame.top));
    let whole = Frame { bottom: floor, ..frame };
    let wanted = if size == Size::Narrow { 5 } else { 10 };
    let course = |of: fn(&Answers) -> u64| -> Vec<(f64, f64)> {
        let known = seconds.iter().filter(|(_, answers)| of(answers) > 0);
        known.map(|(at, answers)| (x.at(at + 0.5), y.at(of(answers) as f64))).collect()
    };
    let others: Vec<Span> = seconds
        .iter()
        .map(|(at, answers)| Span { from: x.at(*at), to: x.at((at + 1.0).min(end)), number: other(answers) })
        .collect();
    let body = html! {
        (y_axis(&frame, &y, &ticks, "latency"))
        (x_axis(&whole, &x, &Tick::of(&x, wanted, short), "seconds", false))
        path.rule d=(path(&course(|answers| answers.max_ns))) {}
        (line(&course(|answers| answers.p99_ns), "muted"))
        (line(&course(|answers| answers.p50_ns), "half"))
        (strip(&others, &said(trial), x.at(0.0), (floor - STRIP, floor)))
        @for (at, of) in &seconds { (reach(*at, of, (&x, end), &frame)) }
        (legend(&frame, &items()))
    };
    let spoken = format!(
        "Latency of the trial at {} second by second: the longest {}; {}",
        rate_of(trial.rate_qps),
        time_of(times().max()?),
        said(trial)
    );
    Some(Chart::new(&frame, spoken, body))
}

/// Answers that said something else.
fn other(answers: &Answers) -> u64 {
    let others = answers.rcodes.iter().filter(|(rcode, _)| *rcode != GOOD);
    others.fold(0, |sum: u64, (_, number)| sum.saturating_add(*number))
}

/// What the other answers of the whole trial said.
fn said(trial: &Trial) -> String {
    let mut others: Vec<(&String, &u64)> = trial.rcodes.iter().filter(|(rcode, _)| *rcode != GOOD).collect();
    if others.is_empty() {
        return format!("every answer said {GOOD}");
    }
    others.sort_by_key(|(_, number)| std::cmp::Reverse(**number));
    let named: Vec<String> =
        others.iter().take(NAMED).map(|(rcode, number)| format!("{rcode} {}", count(**number))).collect();
    format!("answers that said something else than {GOOD}: {}", named.join(", "))
}

/// The values of a second, for the pointer anywhere above it.
fn reach(at: f64, of: &Answers, (x, end): (&Scale, f64), frame: &Frame) -> Markup {
    let mut title = format!(
        "From {} s: half within {}, 99 of 100 within {}, the longest {}",
        short(at),
        time_of(of.p50_ns),
        time_of(of.p99_ns),
        time_of(of.max_ns)
    );
    for (rcode, number) in of.rcodes.iter().take(NAMED) {
        title += &format!(", {rcode} {}", count(*number));
    }
    let ends = (x.at(at), x.at((at + 1.0).min(end)));
    html! { g.mark { (band((ends.0, frame.top), (ends.1, frame.bottom + STRIP + 14.0), "reach", &title)) } }
}

fn items() -> Vec<Item> {
    let item = |shape, class, text: &str| Item { shape, class, text: text.to_owned() };
    vec![
        item(Shape::Stroke, "half", "median"),
        item(Shape::Stroke, "muted", "99 of 100"),
        item(Shape::Stroke, "dashed", "longest"),
        item(Shape::Square, "fail", "not NOERROR"),
    ]
}
