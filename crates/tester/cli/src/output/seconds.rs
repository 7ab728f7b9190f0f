//! What a running measurement counts, told each second: a line, and a page of metrics in a file.
//!
//! A thread of its own reads the counters that the Measurer's threads add to anyway.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use campaign::Watch;
use measurer::live::Counts;
use serde::Serialize;

use super::sink::{named, replace};

/// How often something is told.
const EVERY: Duration = Duration::from_secs(1);
/// How often the thread looks whether the first trial has begun, or the measurement has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinesTo {
    /// `-` is standard output.
    pub path: PathBuf,
    /// Lines are JSON objects; else they are comma-separated values.
    pub json: bool,
}

/// The page of metrics at the moment.
pub(crate) type Page = Box<dyn Fn() -> String + Send>;

/// The thread that tells; dropping it ends it.
pub(crate) struct Seconds {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Seconds {
    /// Begins: `prepare` runs first in the thread. Seconds count from the beginning of the first trial.
    ///
    /// # Errors
    /// A file cannot be written; the message names it.
    pub fn start(
        watch: Arc<Watch>,
        lines: Option<&LinesTo>,
        page: Option<(PathBuf, Page)>,
        prepare: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let lines = lines.map(Lines::new).transpose()?;
        if let Some((path, page)) = &page {
            replace(path, page().as_bytes())?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let teller = Teller { watch, lines, page, stop: Arc::clone(&stop) };
        let work = move || {
            prepare();
            teller.run()
        };
        let thread = std::thread::Builder::new().name("seconds".into()).spawn(work)?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Tells what is left, and ends.
    ///
    /// # Errors
    /// What could not be written, in one line.
    pub fn finish(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Seconds {
    fn drop(&mut self) {
        // The measurement has failed, and that is what the user is told.
        let _ = self.end();
    }
}

struct Teller {
    watch: Arc<Watch>,
    lines: Option<Lines>,
    page: Option<(PathBuf, Page)>,
    stop: Arc<AtomicBool>,
}

impl Teller {
    fn run(mut self) -> io::Result<()> {
        while self.watch.now().trials == 0 {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
        let began = Instant::now();
        let mut due = EVERY;
        loop {
            let is_over = self.stop.load(Ordering::Relaxed);
            let elapsed = began.elapsed();
            if is_over || elapsed >= due {
                self.tell(elapsed)?;
                // A thread that came late tells one long second, not two at once.
                due = EVERY * (elapsed.as_secs() as u32 + 1);
            }
            if is_over {
                return Ok(());
            }
            std::thread::sleep(LOOK.min(due.saturating_sub(began.elapsed())));
        }
    }

    fn tell(&mut self, elapsed: Duration) -> io::Result<()> {
        if let Some(lines) = &mut self.lines {
            lines.write(elapsed, &self.watch)?;
        }
        self.page.as_ref().map_or(Ok(()), |(path, page)| replace(path, page().as_bytes()))
    }
}

/// The columns of a line. Counts are those since the line before; the lines of a measurement add up to its
/// counts.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Line {
    unix_s: f64,
    end_s: f64,
    phase: String,
    rate_qps: u64,
    sent: u64,
    valid: u64,
    invalid: u64,
    late: u64,
    lost: i64,
    send_errors: u64,
    duplicates: u64,
    unexpected: u64,
    own_drops: u64,
    mean_latency_us: Option<f64>,
}

struct Lines {
    out: Box<dyn Write + Send>,
    to: LinesTo,
    told: Counts,
    is_first: bool,
}

impl Lines {
    fn new(to: &LinesTo) -> io::Result<Self> {
        let out: Box<dyn Write + Send> = if to.path == Path::new("-") {
            Box::new(io::stdout())
        } else {
            Box::new(File::create(&to.path).map_err(|error| named(&to.path, &error))?)
        };
        Ok(Self { out, to: to.clone(), told: Counts::default(), is_first: true })
    }

    fn write(&mut self, elapsed: Duration, watch: &Watch) -> io::Result<()> {
        let (now, counts) = (watch.now(), watch.live.counts());
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = Line {
            unix_s: milliseconds(unix),
            end_s: milliseconds(elapsed),
            phase: now.phase,
            rate_qps: now.rate_qps,
            ..Line::between(self.told, counts)
        };
        self.told = counts;
        let text = self.text(&line).map_err(io::Error::other)?;
        self.is_first = false;
        let written = self.out.write_all(&text).and_then(|()| self.out.flush());
        written.map_err(|error| named(&self.to.path, &error))
    }

    /// With the names of the columns before the first line of a table.
    fn text(&self, line: &Line) -> io::Result<Vec<u8>> {
        if self.to.json {
            let mut text = serde_json::to_vec(line)?;
            text.push(b'\n');
            return Ok(text);
        }
        let mut table = csv::WriterBuilder::new()
            .has_headers(self.is_first)
            .terminator(csv::Terminator::Any(b'\n'))
            .from_writer(Vec::new());
        table.serialize(line)?;
        table.into_inner().map_err(|error| io::Error::other(error.to_string()))
    }
}

impl Line {
    /// What was counted between two readings. The number of lost queries falls when a late answer comes.
    fn between(before: Counts, now: Counts) -> Self {
        let new = now.since(before);
        let mean_us = new.latency_sum_ns as f64 / new.valid as f64 / 1000.0;
        Self {
            sent: new.sent,
            valid: new.valid,
            invalid: new.invalid,
            late: new.late,
            lost: now.lost.wrapping_sub(before.lost) as i64,
            send_errors: new.send_errors,
            duplicates: new.duplicates,
            unexpected: new.unexpected,
            own_drops: new.own_drops,
            mean_latency_us: (new.valid > 0).then_some((mean_us * 10.0).round() / 10.0),
            ..Self::default()
        }
    }
}

/// Seconds to a thousandth.
fn milliseconds(time: Duration) -> f64 {
    time.as_millis() as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(sent: u64, valid: u64, lost: u64, latency_sum_ns: u64) -> Counts {
        Counts { sent, valid, lost, latency_sum_ns, ..Counts::default() }
    }

    #[test]
    fn a_line_has_what_was_counted_since_the_line_before() {
        let line = Line::between(counts(100, 90, 10, 90_000), counts(150, 130, 8, 1_090_000));
        assert_eq!((line.sent, line.valid, line.lost, line.mean_latency_us), (50, 40, -2, Some(25.0)));
        assert_eq!(Line::between(counts(5, 5, 0, 9), counts(5, 5, 0, 9)), Line::default());
    }

    #[test]
    fn tables_name_their_columns_once() {
        let base = tempfile::tempdir().unwrap();
        let watch: Arc<Watch> = Arc::default();
        watch.begin("trial", 500, None);
        let written = |name: &str, json: bool| {
            let path = base.path().join(name);
            let mut lines = Lines::new(&LinesTo { path: path.clone(), json }).unwrap();
            lines.write(Duration::from_millis(1001), &watch).unwrap();
            lines.write(Duration::from_millis(2000), &watch).unwrap();
            std::fs::read_to_string(path).unwrap()
        };
        let table = written("seconds.csv", false);
        assert_eq!(table.lines().count(), 3);
        assert!(table.starts_with("unix_s,end_s,phase,rate_qps,sent,valid,invalid,late,lost,"), "{table}");
        assert!(table.lines().nth(1).unwrap().ends_with(",1.001,trial,500,0,0,0,0,0,0,0,0,0,"), "{table}");
        let lines = written("seconds.jsonl", true);
        let last: serde_json::Value = serde_json::from_str(lines.lines().nth(1).unwrap()).unwrap();
        assert_eq!((&last["end_s"], &last["mean_latency_us"]), (&2.0.into(), &serde_json::Value::Null));
    }

    #[test]
    fn files_are_there_from_the_start_and_what_fails_is_named() {
        let base = tempfile::tempdir().unwrap();
        let page = || (base.path().join("sextant.prom"), Box::new(|| "# EOF\n".to_owned()) as Page);
        let start = |path: PathBuf| {
            let lines = LinesTo { path, json: false };
            Seconds::start(Arc::default(), Some(&lines), Some(page()), || ())
        };
        // Nothing is told where no trial began.
        start(base.path().join("seconds.csv")).unwrap().finish().unwrap();
        assert_eq!(std::fs::read_to_string(base.path().join("seconds.csv")).unwrap(), "");
        assert_eq!(std::fs::read_to_string(base.path().join("sextant.prom")).unwrap(), "# EOF\n");
        let error = start(base.path().join("none/seconds.csv")).err().unwrap().to_string();
        assert!(error.starts_with("cannot write ") && error.contains("none/seconds.csv: "), "{error}");
        let watch: Arc<Watch> = Arc::default();
        watch.begin("trial", 1, None);
        let full = LinesTo { path: "/dev/full".into(), json: true };
        let error = Seconds::start(watch, Some(&full), None, || ()).unwrap().finish().unwrap_err();
        assert!(error.to_string().starts_with("cannot write /dev/full: No space left"), "{error}");
    }
}
