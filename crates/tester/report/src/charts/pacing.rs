//! How evenly a trial was sent, in windows of 1, 10 and 100 ms.

use maud::{Markup, html};
use record::limits::WINDOW_DEVIATION;
use record::{Trial, Window};

use crate::svg::{Chart, Frame, Item, Scale, Shape, Size, Tick, at, band, label, legend, x_axis};
use record::number::{count, percent, rate_of, real};

const ROW: f64 = 36.0;

/// Nothing if the windows were not counted.
pub fn pacing(trial: &Trial, size: Size) -> Option<Chart> {
    let windows =
        [("1 ms", trial.windows.ms1), ("10 ms", trial.windows.ms10), ("100 ms", trial.windows.ms100)];
    let known: Vec<(&str, Window)> = windows.into_iter().filter(|(_, window)| window.mean > 0.0).collect();
    let of_mean = |number: u64, window: &Window| (number as f64 / window.mean * 100.0).min(1e6);
    let ends = |(_, window): &(&str, Window)| [of_mean(window.fewest, window), of_mean(window.most, window)];
    let all: Vec<f64> = known.iter().flat_map(ends).filter(|value| value.is_finite()).collect();
    let low = all.iter().copied().fold(100.0 - 2.0 * WINDOW_DEVIATION.value, f64::min);
    let high = all.iter().copied().reduce(f64::max)?.max(100.0 + 2.0 * WINDOW_DEVIATION.value);
    let longest = known.iter().map(|(_, window)| worst(window).chars().count()).max()?;
    let mut frame = Frame::new(size, 6, longest.max(9));
    frame.bottom = frame.top + known.len() as f64 * ROW;
    frame.height = frame.bottom + 44.0;
    let x = Scale::linear((low, high), (frame.left, frame.right));
    let ticks =
        Tick::of(&x, if size == Size::Narrow { 4 } else { 8 }, |value| format!("{} %", real(value, 0)));
    let items = [
        Item { shape: Shape::Square, class: "", text: "fewest to most".to_owned() },
        Item { shape: Shape::Square, class: "solid", text: "within the variation".to_owned() },
    ];
    let body = html! {
        (x_axis(&frame, &x, &ticks, "queries of a window, of the mean", true))
        @for (index, (name, window)) in known.iter().enumerate() {
            (row(name, window, (&frame, &x), frame.top + (index as f64 + 0.5) * ROW))
        }
        path."rule main" d={ "M" (at(x.at(100.0))) " " (at(frame.top)) "V" (at(frame.bottom)) } {}
        (legend(&frame, &items))
    };
    let spoken: Vec<String> =
        known.iter().map(|(name, window)| format!("{name} {}", percent(window.worst_pct))).collect();
    let spoken =
        format!("Evenness at {}: the worst window of {}", rate_of(trial.rate_qps), spoken.join(", of "));
    Some(Chart::new(&frame, spoken, body))
}

fn row(name: &str, window: &Window, (frame, x): (&Frame, &Scale), middle: f64) -> Markup {
    let Window { fewest, most, mean, cv_pct, worst_pct, .. } = *window;
    let title = format!(
        "Windows of {name}: {} to {} queries, {} on average; variation {}, the worst {} off",
        count(fewest),
        count(most),
        real(mean, 1),
        percent(cv_pct),
        percent(worst_pct)
    );
    let ends = [fewest, most].map(|number| x.at(number as f64 / mean * 100.0));
    let inner = [100.0 - cv_pct, 100.0 + cv_pct].map(|value| x.at(value).clamp(ends[0], ends[1]));
    html! {
        g.mark {
            (band((frame.left, middle - ROW / 2.0), (frame.right, middle + ROW / 2.0), "reach", &title))
            (band((ends[0], middle - 9.0), ((ends[0] + 1.5).max(ends[1]), middle + 9.0), "", &title))
            (band((inner[0], middle - 9.0), ((inner[0] + 1.5).max(inner[1]), middle + 9.0), "solid", &title))
        }
        text.tick x=(at(frame.left - 7.0)) y=(at(middle + 4.0)) text-anchor="end" { (name) }
        (label((frame.right + 6.0, middle), "", &worst(window)))
    }
}

/// How far the worst window is off the schedule.
fn worst(window: &Window) -> String {
    format!("± {}", percent(window.worst_pct))
}
