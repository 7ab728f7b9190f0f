//! The visits of a campaign, one after the other, with its record kept.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::child::{self, VisitEnd};
use crate::bench::now_utc;
use crate::{Store, short_duration};
use lab::environment::Manifest;
use record::campaign::{FILE, Series, Visit, VisitState};

/// A visit may take so many times as long as forecast, and this on top, before it is ended.
const PATIENCE_TIMES: f64 = 10.0;
const PATIENCE_S: f64 = 600.0;

/// A campaign under way.
pub struct Campaign {
    series: Series,
    store: Store,
    stop: Arc<AtomicBool>,
    bar: ProgressBar,
}

/// How a campaign ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every visit was made; so many of them failed.
    Finished {
        /// Measurements without a result.
        failed: usize,
    },
    /// The user ended it; it can be resumed.
    Interrupted,
}

impl Campaign {
    /// Goes on with a campaign whose record is in the store's directory, or begins it. With `quiet` nothing
    /// is shown.
    pub fn new(series: Series, store: Store, stop: Arc<AtomicBool>, quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        let style =
            ProgressStyle::with_template("  {bar:20.cyan/dim} {msg}").unwrap_or(ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("━╸━"));
        Self { series, store, stop, bar }
    }

    /// Says what will be done, where anybody looks.
    pub fn announce(&self) {
        let open: Vec<usize> = self.series.open().collect();
        let time = short_duration(Duration::from_secs_f64(self.series.forecast_s(open.iter().copied())));
        let Series { title, form, .. } = &self.series;
        self.bar.println(format!("{title}, {} form: {} measurements, about {time}", form.name(), open.len()));
        for visit in &self.series.visits {
            if let VisitState::Missing(why) = &visit.state {
                self.bar.println(format!("  left out: {} (round {}): {why}", visit.cell, visit.round));
            }
        }
    }

    /// Makes every visit that is still to be made; those that the machine spoilt are made once more, at the
    /// end.
    ///
    /// # Errors
    /// The record cannot be written: the disk is full or gone. What was measured stays.
    pub fn run(mut self) -> io::Result<(Series, Outcome)> {
        let open: Vec<usize> = self.series.open().collect();
        self.save()?;
        let void = self.make_all(&open)?;
        self.make_all(&void)?;
        self.bar.finish_and_clear();
        let interrupted = self.stop.load(Ordering::Relaxed);
        if !interrupted {
            self.series.finished_utc = Some(now_utc());
            self.store.save_json("manifest-after.json", &Manifest::take())?;
        }
        self.save()?;
        let is_failed = |visit: &&Visit| matches!(visit.state, VisitState::Failed(_));
        let failed = self.series.visits.iter().filter(is_failed).count();
        let outcome = if interrupted { Outcome::Interrupted } else { Outcome::Finished { failed } };
        Ok((self.series, outcome))
    }

    /// Makes these visits; returns those that were spoilt.
    fn make_all(&mut self, open: &[usize]) -> io::Result<Vec<usize>> {
        let mut void = Vec::new();
        for (done, &index) in open.iter().enumerate() {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let left = Duration::from_secs_f64(self.series.forecast_s(open[done..].iter().copied()).max(0.0));
            if self.make(index, done + 1, open.len(), left)? {
                void.push(index);
            }
        }
        Ok(void)
    }

    /// Makes one visit; whether it was spoilt.
    fn make(&mut self, index: usize, number: usize, of: usize, left: Duration) -> io::Result<bool> {
        let (name, directory) = self.begin(index)?;
        let (arguments, forecast_s) = {
            let visit = &self.series.visits[index];
            (visit.arguments.clone(), visit.forecast_s)
        };
        let longest = Duration::from_secs_f64(forecast_s * PATIENCE_TIMES + PATIENCE_S);
        let started = Instant::now();
        self.bar.set_length((forecast_s * 1000.0) as u64);
        let tick = || {
            let elapsed = started.elapsed();
            let left = short_duration(left.saturating_sub(elapsed));
            self.bar.set_position(elapsed.as_millis() as u64);
            self.bar.set_message(format!("{number} of {of}: {name}, about {left} left"));
        };
        let log = directory.with_extension("log");
        let ended = child::visit(&arguments, &directory, &log, longest, &self.stop, tick)?;
        let (took, is_void) = (started.elapsed(), matches!(ended, VisitEnd::Void(_)));
        let visit = &mut self.series.visits[index];
        visit.state = match ended {
            VisitEnd::Complete => {
                visit.took_s = Some(took.as_secs_f64());
                VisitState::Complete
            }
            VisitEnd::Failed(reason) | VisitEnd::Void(reason) => VisitState::Failed(reason),
            VisitEnd::Interrupted => VisitState::Pending,
        };
        let words = match &visit.state {
            VisitState::Failed(reason) => format!("failed: {reason}; its output is in {}", log.display()),
            VisitState::Pending => "interrupted".to_owned(),
            _ => format!("done in {}", short_duration(took)),
        };
        self.bar.println(format!("  {number} of {of}: {name}: {words}"));
        self.save().map(|()| is_void)
    }

    /// Gives a visit a directory that nobody has, and notes that it is under way.
    fn begin(&mut self, index: usize) -> io::Result<(String, PathBuf)> {
        let visit = &mut self.series.visits[index];
        let of_cell = format!("cells/{}", visit.cell);
        let names = std::iter::once(format!("{of_cell}/{}", visit.round))
            .chain((2..).map(|again| format!("{of_cell}/{}-again-{again}", visit.round)));
        let free = |name: &String| !self.store.directory().join(name).exists();
        let name = names.into_iter().find(free).unwrap_or(of_cell.clone());
        visit.directory = Some(name.clone());
        visit.state = VisitState::Running;
        let words = format!("{} (round {})", visit.cell, visit.round);
        fs::create_dir_all(self.store.directory().join(of_cell))?;
        self.save()?;
        Ok((words, self.store.directory().join(name)))
    }

    fn save(&self) -> io::Result<()> {
        self.store.save_json(FILE, &self.series)
    }
}
