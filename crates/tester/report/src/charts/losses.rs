//! Where the queries of a trial ended, as a flow from the schedule to its ends.

use maud::{Markup, html};
use record::Trial;

use crate::clean::shortened;
use crate::select::place;
use crate::svg::{Chart, Frame, Size, at, band, label};
use record::number::{count, rate_of, share};

/// Ends that are drawn at most; the smallest are put together.
const ENDS: usize = 10;
const TOP: f64 = 34.0;
const FLOW: f64 = 110.0;
/// The least height of a stream: thinner ones would not be seen.
const STREAM_MIN: f64 = 3.0;
const GAP: f64 = 26.0;

struct End {
    name: String,
    number: u64,
    valid: bool,
    /// Of its stream, and where that begins and ends.
    height: f64,
    source: f64,
    sink: f64,
}

impl End {
    fn new(name: String, number: u64, valid: bool) -> Self {
        Self { name, number, valid, height: 0.0, source: 0.0, sink: 0.0 }
    }
}

/// The ends of one trial; nothing if every query got its answer.
pub fn losses(trial: &Trial, size: Size) -> Option<Chart> {
    let streams = placed(ends(trial)?, trial);
    let mut frame = Frame::new(size, 0, 0);
    let last = streams.last()?;
    frame.height = last.sink + last.height.max(GAP) + 4.0;
    let text_room = if size == Size::Narrow { 206.0 } else { 300.0 };
    let (from, to) = (26.0, frame.width - text_room);
    let foot = last.source + last.height;
    let body = html! {
        (label((12.0, 14.0), "strong", &format!("{} due at {}", count(trial.scheduled), rate_of(trial.rate_qps))))
        (band((from - 12.0, TOP), (from, foot), "solid", "Queries that were due"))
        @for end in &streams { (stream(end, trial, (from, to), size)) }
    };
    let missing = trial.scheduled.saturating_sub(trial.valid);
    let spoken =
        format!("Of {} queries, {} got no valid answer in time", count(trial.scheduled), count(missing));
    Some(Chart::new(&frame, spoken, body))
}

/// From above: the streams touch each other at the source and stand apart at the ends.
fn placed(mut ends: Vec<End>, trial: &Trial) -> Vec<End> {
    let (mut source, mut sink) = (TOP, TOP);
    for end in &mut ends {
        let share = end.number as f64 / trial.scheduled as f64;
        end.height = (share.min(1.0) * FLOW).max(if end.number > 0 { STREAM_MIN } else { 0.0 });
        (end.source, end.sink) = (source, sink);
        source += end.height;
        sink += end.height.max(GAP) + if end.valid { 10.0 } else { 0.0 };
    }
    ends
}

fn ends(trial: &Trial) -> Option<Vec<End>> {
    let mut lost: Vec<End> = (trial.losses.iter())
        .filter(|(_, number)| **number > 0)
        .map(|(name, number)| End::new(place(name), *number, false))
        .collect();
    if lost.is_empty() || trial.scheduled == 0 {
        return None;
    }
    lost.sort_by_key(|end| std::cmp::Reverse(end.number));
    if lost.len() > ENDS {
        let rest = lost.split_off(ENDS - 1);
        let number = rest.iter().fold(0, |sum: u64, end| sum.saturating_add(end.number));
        lost.push(End::new(format!("{} other places", rest.len()), number, false));
    }
    lost.insert(0, End::new("valid and in time".to_owned(), trial.valid, true));
    Some(lost)
}

fn stream(end: &End, trial: &Trial, (x1, x2): (f64, f64), size: Size) -> Markup {
    let class = if end.valid { "" } else { "missing" };
    let part = share(end.number, trial.scheduled);
    let text = match size {
        Size::Narrow => format!("{} {}", count(end.number), shortened(&end.name, 22)),
        _ => format!("{} {} ({part})", count(end.number), shortened(&end.name, 30)),
    };
    let title = format!("{}: {} of {} ({part})", end.name, count(end.number), count(trial.scheduled));
    let (y1, y2, height) = (end.source, end.sink, end.height);
    let middle = (x1 + x2) / 2.0;
    let edge = |from: f64, to: f64| format!("C{0} {1} {0} {2} ", at(middle), at(from), at(to));
    html! {
        path.area.(class) d={
            "M" (at(x1)) " " (at(y1)) (edge(y1, y2)) (at(x2)) " " (at(y2)) "v" (at(height))
            (edge(y2 + height, y1 + height)) (at(x1)) " " (at(y1 + height)) "Z"
        } { title { (title) } }
        (band((x2, y2), (x2 + 5.0, y2 + height), if end.valid { "solid" } else { "fail" }, &title))
        (label((x2 + 12.0, y2 + height / 2.0), if end.valid { "strong" } else { "" }, &text))
    }
}
