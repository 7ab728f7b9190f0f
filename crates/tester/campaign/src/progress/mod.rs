//! The progress on the terminal while a measurement runs. Silent when standard error is no terminal.

mod dashboard;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::search::Bracket;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use measurer::live::Counts;
use record::{Outcome, Sought, Trial};

use crate::detail::Detail;
use crate::watch::Watch;
use dashboard::Dashboard;
use record::number::count as grouped;
use report::trial_text;

/// What is under way, and the lines that stay.
pub struct Progress {
    screen: Screen,
    watch: Arc<Watch>,
}

enum Screen {
    /// A line on a terminal; hidden where there is none.
    Line(ProgressBar),
    Dashboard(Box<Dashboard>),
    /// Plain lines, now and then, for a pipe.
    Plain,
}

/// What the line under way says.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// For example `search 2/3`.
    pub phase: String,
    /// The trial's rate in q/s; 0 where answers set the pace.
    pub rate_qps: u64,
    /// Where the search looks for connections: how many stand through the trial.
    pub connections: Option<u64>,
    /// How long the trial takes at most.
    pub length: Duration,
    /// The search's bracket so far.
    pub bracket: Option<Bracket>,
    /// When everything will be over.
    pub left: Option<Duration>,
}

/// How often the line is drawn.
const TICK: Duration = Duration::from_millis(100);
/// How often all lines of a dashboard are.
const TICK_ALL: Duration = Duration::from_millis(250);
/// How often a plain line is written.
const PLAIN: Duration = Duration::from_secs(5);

impl Status {
    /// What the search under way looks for.
    fn sought(&self) -> Sought {
        if self.connections.is_some() { Sought::Connections } else { Sought::Rate }
    }
}

impl Progress {
    /// For a terminal on standard error, if there is one and `quiet` is not set. `watch` is told of every
    /// trial shown.
    pub fn new(quiet: bool, watch: &Arc<Watch>) -> Self {
        let quiet = quiet || Detail::chosen() == Detail::Quiet;
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        let style =
            ProgressStyle::with_template("  {bar:20.cyan/dim} {msg}").unwrap_or(ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("━╸━"));
        Self { screen: Screen::Line(bar), watch: Arc::clone(watch) }
    }

    /// A dashboard on standard error; plain lines where that is no terminal.
    pub fn live(watch: &Arc<Watch>) -> Self {
        let screen = Dashboard::new().map_or(Screen::Plain, |board| Screen::Dashboard(Box::new(board)));
        Self { screen, watch: Arc::clone(watch) }
    }

    /// Whether anybody sees it.
    pub fn is_shown(&self) -> bool {
        match &self.screen {
            Screen::Line(bar) => !bar.is_hidden(),
            Screen::Dashboard(_) | Screen::Plain => true,
        }
    }

    /// Writes a line that stays.
    pub fn say(&self, line: &str) {
        match &self.screen {
            Screen::Line(bar) => bar.println(line),
            Screen::Dashboard(board) => board.say(line),
            Screen::Plain => plain(line),
        }
    }

    /// Shows what is under way between trials, until something else is.
    pub(crate) fn note(&self, line: &str) {
        match &self.screen {
            Screen::Line(bar) => bar.set_message(line.to_owned()),
            Screen::Dashboard(board) => board.note(line),
            Screen::Plain => plain(&format!("  {line}")),
        }
    }

    /// Writes a finished trial, as much of it as was asked for.
    pub(crate) fn say_trial(&self, phase: &str, trial: &Trial, sought: Sought) {
        self.say(&trial_line(phase, trial, sought));
        if Detail::chosen() == Detail::Full {
            self.say(&trial_text(trial));
        }
    }

    /// Shows a trial while `work` runs it.
    pub fn during<T>(&self, doing: &Status, work: impl FnOnce() -> T) -> T {
        // Who watches is told of rates.
        let bracket = doing.bracket.filter(|_| doing.sought() == Sought::Rate);
        self.watch.begin(&doing.phase, doing.rate_qps, bracket);
        let result = self.drawn_during(doing, work);
        self.watch.end();
        result
    }

    fn drawn_during<T>(&self, doing: &Status, work: impl FnOnce() -> T) -> T {
        if !self.is_shown() {
            return work();
        }
        let (started, before) = (Instant::now(), self.watch.live.counts());
        let done = AtomicBool::new(false);
        let pause = match &self.screen {
            Screen::Line(_) => TICK,
            Screen::Dashboard(_) => TICK_ALL,
            Screen::Plain => PLAIN,
        };
        std::thread::scope(|scope| {
            let ticker = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    self.draw(doing, started.elapsed(), &self.watch.live.counts().since(before));
                    std::thread::park_timeout(pause);
                }
            });
            let result = work();
            done.store(true, Ordering::Relaxed);
            ticker.thread().unpark();
            result
        })
    }

    fn draw(&self, doing: &Status, elapsed: Duration, counts: &Counts) {
        match &self.screen {
            Screen::Line(bar) => {
                let length_ms = u64::try_from(doing.length.as_millis()).unwrap_or(u64::MAX).max(1);
                bar.set_length(length_ms);
                bar.set_position((elapsed.as_millis() as u64).min(length_ms));
                bar.set_message(under_way(doing, elapsed, counts));
            }
            Screen::Dashboard(board) => board.draw(doing, elapsed, counts, &self.watch),
            // A trial that has just begun has nothing to tell, and its end has a line of its own.
            Screen::Plain if elapsed < PLAIN => {}
            Screen::Plain => plain(&format!("  {}", under_way(doing, elapsed, counts))),
        }
    }

    /// Removes what is under way.
    pub fn clear(&self) {
        match &self.screen {
            Screen::Line(bar) => bar.finish_and_clear(),
            Screen::Dashboard(board) => board.clear(),
            Screen::Plain => {}
        }
    }
}

/// A line on standard error; without it there is nobody to tell.
fn plain(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// The trial so far. What went wrong is shown once there is something.
fn under_way(doing: &Status, elapsed: Duration, counts: &Counts) -> String {
    let rate = if doing.rate_qps > 0 {
        format!(" at {} q/s", grouped(doing.rate_qps))
    } else {
        " (closed loop)".to_owned()
    };
    let connections =
        doing.connections.map_or_else(String::new, |n| format!(", {}", Sought::Connections.in_words(n)));
    let mut line = format!(
        "{}{rate}{connections}  {:.1} of {:.1} s  {} sent, {} valid",
        doing.phase,
        elapsed.as_secs_f64(),
        doing.length.as_secs_f64(),
        grouped(counts.sent),
        grouped(counts.valid)
    );
    let failures = [("invalid", counts.invalid), ("late", counts.late), ("lost", counts.lost)];
    for (what, count) in failures.into_iter().chain([("not sent", counts.send_errors)]) {
        if count > 0 {
            line += &format!(", {} {what}", grouped(count));
        }
    }
    if let Some(bracket) = doing.bracket {
        line += &format!("  {}", bracket_text(bracket, doing.sought()));
    }
    if let Some(left) = doing.left {
        line += &format!("  about {} left", short_duration(left.saturating_sub(elapsed)));
    }
    line
}

pub(crate) fn bracket_text(bracket: Bracket, sought: Sought) -> String {
    format!("between {} and {}", grouped(bracket.passed), sought.in_words(bracket.failed))
}

/// A finished trial in a line.
fn trial_line(phase: &str, trial: &Trial, sought: Sought) -> String {
    let (load, unit) = (grouped(sought.of_trial(trial)), sought.unit());
    let words = match trial.outcome {
        Outcome::Pass => format!("pass   p99 {} µs", grouped(trial.latency_ns.p99 / 1000)),
        Outcome::Void => format!("void   {}", trial.void.as_deref().unwrap_or_default()),
        Outcome::Fail => {
            let places: Vec<String> = trial
                .losses
                .iter()
                .map(|(place, count)| format!("{} {}", place.as_str().replace('_', " "), grouped(*count)))
                .collect();
            let cause = || trial.cause.as_ref().map(|found| found.evidence.clone()).unwrap_or_default();
            let words = if places.is_empty() { cause() } else { places.join(", ") };
            format!("fail   {words}")
        }
    };
    format!("  {phase:<13} {load:>9} {unit}  {words}")
}

/// For example `2 h 05 min`, `1 min 10 s`, `8 s`.
pub fn short_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::LossPlace;

    #[test]
    fn durations_are_short() {
        let text = |seconds| short_duration(Duration::from_secs(seconds));
        assert_eq!([text(8), text(70), text(7500)], ["8 s", "1 min 10 s", "2 h 05 min"]);
    }

    #[test]
    fn the_line_under_way_says_what_goes_wrong_once_it_does() {
        let doing = Status { phase: "trial".into(), rate_qps: 5000, ..Status::default() };
        let mut counts = Counts { sent: 1200, valid: 1100, ..Counts::default() };
        let line = under_way(&doing, Duration::from_secs(1), &counts);
        assert!(line.contains("trial at 5,000 q/s") && line.ends_with("1,200 sent, 1,100 valid"), "{line}");
        counts.lost = 100;
        assert!(under_way(&doing, Duration::from_secs(1), &counts).ends_with("1,100 valid, 100 lost"));
        let standing = Status { connections: Some(512), ..doing.clone() };
        let line = under_way(&standing, Duration::from_secs(1), &counts);
        assert!(line.contains("trial at 5,000 q/s, 512 connections  1.0 of"), "{line}");
        let closed = under_way(&Status { rate_qps: 0, ..doing }, Duration::from_secs(1), &counts);
        assert!(closed.starts_with("trial (closed loop)  1.0 of"), "{closed}");
    }

    #[test]
    fn a_failed_trial_says_where_it_lost() {
        let losses = [(LossPlace::ServerSocketDrop, 1200), (LossPlace::Late, 4)].into();
        let trial = Trial { rate_qps: 62_500, outcome: Outcome::Fail, losses, ..Trial::default() };
        let line = trial_line("search 1/3", &trial, Sought::Rate);
        assert!(line.contains("62,500 q/s") && line.contains("late 4, server socket drop 1,200"), "{line}");
    }
}
