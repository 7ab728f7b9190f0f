//! Who was busy during a trial, in percent of one processor.

use maud::html;
use record::Trial;

use crate::clean::shortened;
use crate::select::tester_cpu_pct;
use crate::svg::{Chart, Frame, Scale, Size, Tick, at, band, label, x_axis};
use record::number::{percent, rate_of, real};

const ROW: f64 = 30.0;

/// The row that has a name of its own in the title.
const THREAD: &str = "its busiest thread";

struct Row {
    name: &'static str,
    value: f64,
    class: &'static str,
}

/// Nothing if no processor time was read.
pub fn processors(trial: &Trial, size: Size) -> Option<Chart> {
    let rows = rows(trial);
    if rows.is_empty() {
        return None;
    }
    let longest = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let mut frame = Frame::new(size, longest, 8);
    frame.top = 12.0;
    frame.bottom = frame.top + ROW * rows.len() as f64;
    frame.height = frame.bottom + 44.0;
    let most = rows.iter().map(|row| row.value).fold(100.0, f64::max);
    let x = Scale::linear((0.0, most), (frame.left, frame.right));
    let ticks =
        Tick::of(&x, if size == Size::Narrow { 3 } else { 6 }, |value| format!("{} %", real(value, 0)));
    let body = html! {
        (x_axis(&frame, &x, &ticks, "of one processor", true))
        @for (index, row) in rows.iter().enumerate() {
            @let middle = frame.top + ROW * (index as f64 + 0.5);
            @let end = x.at(row.value);
            text.label x=(at(frame.left - 8.0)) y=(at(middle + 4.0)) text-anchor="end" { (row.name) }
            (band((frame.left, middle - 8.0), (end, middle + 8.0), row.class, &title(row, trial)))
            (label((end + 6.0, middle), "", &percent(row.value)))
        }
    };
    let spoken: Vec<String> = rows.iter().map(|row| format!("{} {}", row.name, percent(row.value))).collect();
    Some(Chart::new(
        &frame,
        format!("Processors at {}: {}", rate_of(trial.rate_qps), spoken.join(", ")),
        body,
    ))
}

fn title(row: &Row, trial: &Trial) -> String {
    let thread = trial.observation.as_ref().and_then(|seen| seen.dut_hottest_thread.as_deref());
    match thread.filter(|_| row.name == THREAD) {
        Some(thread) => format!("{THREAD}, {}: {}", shortened(thread, 40), percent(row.value)),
        None => format!("{}: {}", row.name, percent(row.value)),
    }
}

fn rows(trial: &Trial) -> Vec<Row> {
    let Some(seen) = &trial.observation else { return Vec::new() };
    let all = [
        ("server", seen.dut_cpu_pct, "solid"),
        (THREAD, seen.dut_hottest_thread_pct, ""),
        ("Tester", tester_cpu_pct(trial), "other"),
        ("anything else", seen.foreign_cpu_pct, "other"),
        ("hypervisor", seen.steal_pct, "other"),
    ];
    let known = all.into_iter().filter_map(|(name, value, class)| Some(Row { name, value: value?, class }));
    known.filter(|row| row.value.is_finite()).collect()
}
