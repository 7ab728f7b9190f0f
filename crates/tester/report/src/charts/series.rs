//! A trial second by second: what was sent, what was answered, and when queries failed.

use maud::{Markup, html};
use record::{Interval, Trial};

use super::{MARKS, Span};
use crate::svg::{Chart, Frame, Item, Scale, Shape, Size, Tick, band, label, legend, line, x_axis, y_axis};
use record::number::{count, rate, rate_of, real, short};

/// Parts of a trial below which its course tells nothing.
pub const PARTS_MIN: usize = 4;
/// Height of a strip below a course.
pub(super) const STRIP: f64 = 46.0;

/// Nothing if the trial has too few parts to show a course.
pub fn series(trial: &Trial, size: Size) -> Option<Chart> {
    let parts = parts(trial);
    if parts.len() < PARTS_MIN {
        return None;
    }
    let highest = parts.iter().map(|part| part.sent_qps.max(part.valid_qps)).max_by(f64::total_cmp)?;
    let domain = (0.0, highest * 1.1);
    let ticks = Tick::of(&Scale::linear(domain, (0.0, 1.0)), 4, |value| real(value, 0));
    let mut frame = Frame::new(size, Tick::longest(&ticks), 1);
    let floor = frame.bottom;
    frame.bottom -= STRIP + 14.0;
    let end = parts.last().map_or(1.0, |part| part.start_s + part.length_s);
    let x = Scale::linear((0.0, end), (frame.left, frame.right));
    let y = Scale::linear(domain, (frame.bottom, frame.top));
    let whole = Frame { bottom: floor, ..frame };
    let wanted = if size == Size::Narrow { 5 } else { 10 };
    let span = |part: &Part| Span {
        from: x.at(part.start_s),
        to: x.at(part.start_s + part.length_s),
        number: part.failed,
    };
    let failures: Vec<Span> = parts.iter().map(span).collect();
    let words = match parts.iter().map(|part| part.failed).max() {
        None | Some(0) => "every query got its valid answer in time".to_owned(),
        Some(most) => format!("failed, at most {} in a part", count(most)),
    };
    let body = html! {
        (y_axis(&frame, &y, &ticks, "q/s"))
        (x_axis(&whole, &x, &Tick::of(&x, wanted, short), "seconds", false))
        (line(&steps(&parts, &x, &y, |part| part.sent_qps), "muted"))
        (line(&steps(&parts, &x, &y, |part| part.valid_qps), "valid"))
        (strip(&failures, &words, x.at(0.0), (floor - STRIP, floor)))
        @for part in &parts { (reach(part, &x, &frame)) }
        (legend(&frame, &items()))
    };
    let failed = parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.failed));
    let spoken = format!(
        "The trial at {} second by second; {} queries failed",
        rate_of(trial.rate_qps),
        count(failed)
    );
    Some(Chart::new(&frame, spoken, body))
}

struct Part {
    start_s: f64,
    length_s: f64,
    sent_qps: f64,
    valid_qps: f64,
    failed: u64,
}

fn parts(trial: &Trial) -> Vec<Part> {
    let shown: Vec<&Interval> = trial.series.iter().take(MARKS).collect();
    let end =
        if shown.len() < trial.series.len() { trial.series[shown.len()].start_s } else { trial.duration_s };
    let ends = shown.iter().skip(1).map(|next| next.start_s).chain([end]);
    let part = |(from, end): (&&Interval, f64)| {
        let length_s = end - from.start_s;
        let whole = length_s.is_finite() && length_s > 1e-3;
        let each = |number: u64| if whole { number as f64 / length_s } else { 0.0 };
        whole.then(|| Part {
            start_s: from.start_s,
            length_s,
            sent_qps: each(from.sent),
            valid_qps: each(from.valid),
            failed: from.failed,
        })
    };
    shown.iter().zip(ends).filter_map(part).collect()
}

fn steps(parts: &[Part], x: &Scale, y: &Scale, value: fn(&Part) -> f64) -> Vec<(f64, f64)> {
    let ends =
        |part: &Part| [part.start_s, part.start_s + part.length_s].map(|at| (x.at(at), y.at(value(part))));
    parts.iter().flat_map(ends).collect()
}

/// What is few among many has a strip of its own below a course, or it would not be seen.
pub(super) fn strip(spans: &[Span], words: &str, left: f64, (top, floor): (f64, f64)) -> Markup {
    let most = spans.iter().map(|span| span.number).max().unwrap_or(0);
    let height = Scale::linear((0.0, most.max(1) as f64), (floor, top + 14.0));
    let line = if most == 0 { floor - 12.0 } else { top + 4.0 };
    html! {
        (label((left + 6.0, line), "quiet", words))
        @for Span { from, to, number } in spans.iter().filter(|span| span.number > 0) {
            @let inset = ((to - from) * 0.12).min(3.0);
            (band((from + inset, height.at(*number as f64).min(floor - 2.0)), (to - inset, floor), "fail", ""))
        }
    }
}

/// The values of a part, for the pointer anywhere above it.
fn reach(part: &Part, x: &Scale, frame: &Frame) -> Markup {
    let title = format!(
        "From {} s: sent {}, valid {}, {} failed",
        short(part.start_s),
        rate(part.sent_qps),
        rate(part.valid_qps),
        count(part.failed)
    );
    let ends = (x.at(part.start_s), x.at(part.start_s + part.length_s));
    html! { g.mark { (band((ends.0, frame.top), (ends.1, frame.bottom + STRIP + 14.0), "reach", &title)) } }
}

fn items() -> Vec<Item> {
    let item = |shape, class, text: &str| Item { shape, class, text: text.to_owned() };
    vec![
        item(Shape::Stroke, "valid", "valid answers"),
        item(Shape::Stroke, "muted", "sent"),
        item(Shape::Square, "fail", "failed"),
    ]
}
