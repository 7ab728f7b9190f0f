//! The log: one line for each event on stderr, as `key=value` or JSON.
//!
//! A thread that logs never waits: lines go through a bounded queue to a separate thread, and lines that do
//! not fit are counted. Events of one kind are limited, so that neither an attacker nor a dead upstream
//! server fills a disk.

mod limits;
mod line;
mod writer;

use std::fmt::Display;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use crate::config::{Level, LogChoice, Words};
use line::Style;
use writer::{Item, Shared};

/// Lines that wait to be written, at most.
const QUEUE_LINES: usize = 4096;
/// How long [`Log::flush`] waits for a stderr that is not read.
const FLUSH_PATIENCE: Duration = Duration::from_secs(1);

/// What an event is about: words for `key` and something to print.
pub type Field<'a> = (&'a str, &'a dyn Display);

/// The log. Clones write to the same place.
#[derive(Clone)]
pub struct Log {
    inner: Arc<Inner>,
}

struct Inner {
    level: AtomicU8,
    queries: AtomicBool,
    style: Style,
    queue: SyncSender<Item>,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("level", &self.level()).finish_non_exhaustive()
    }
}

impl Log {
    /// A log on stderr. Where stderr is the system's journal, lines carry its priorities and leave the time
    /// to it.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(choice: &LogChoice) -> std::io::Result<Self> {
        Self::with(choice, writer::stderr_is_journal(), std::io::stderr())
    }

    /// A log that writes to `sink`, with the journal's priorities or the time at the head of each line.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn with(
        choice: &LogChoice,
        journal: bool,
        sink: impl Write + Send + 'static,
    ) -> std::io::Result<Self> {
        let (queue, lines) = sync_channel(QUEUE_LINES);
        let (shared, style) = (Arc::new(Shared::default()), Style { format: choice.format, journal });
        writer::start(sink, lines, Arc::clone(&shared), style)?;
        Ok(Self {
            inner: Arc::new(Inner {
                level: AtomicU8::new(choice.level as u8),
                queries: AtomicBool::new(choice.queries),
                style,
                queue,
                shared,
            }),
        })
    }

    /// A log that nobody reads, for tests.
    #[cfg(test)]
    pub(crate) fn silent() -> Self {
        let choice = LogChoice { level: Level::Error, format: crate::config::Format::Text, queries: false };
        Self::with(&choice, false, std::io::sink()).unwrap()
    }

    /// Events of less weight than this are left out.
    pub fn level(&self) -> Level {
        let number = self.inner.level.load(Ordering::Relaxed);
        Level::VALUES.iter().copied().find(|&level| level as u8 == number).unwrap_or(Level::Info)
    }

    /// Changes the level from now on.
    pub fn set_level(&self, level: Level) {
        self.inner.level.store(level as u8, Ordering::Relaxed);
    }

    /// Changes whether queries are logged.
    pub fn set_queries(&self, queries: bool) {
        self.inner.queries.store(queries, Ordering::Relaxed);
    }

    /// Whether an event of this weight is written: ask before its words are costly.
    pub fn wants(&self, level: Level) -> bool {
        level as u8 <= self.inner.level.load(Ordering::Relaxed)
    }

    /// Whether queries are logged.
    pub fn wants_queries(&self) -> bool {
        self.inner.queries.load(Ordering::Relaxed)
    }

    /// Logs an event. `kind` is a word that programs can look for; ten events of a kind pass at once and one
    /// more each second, the others are counted in the next line of their kind (`suppressed`).
    pub fn event(&self, level: Level, kind: &'static str, message: impl Display, fields: &[Field<'_>]) {
        if !self.wants(level) {
            return;
        }
        let Some(suppressed) = self.inner.shared.limits.take(kind, sys::clock::monotonic_ns()) else {
            return;
        };
        let mut all: Vec<Field<'_>> = Vec::with_capacity(fields.len() + 2);
        all.push(("message", &message));
        all.extend_from_slice(fields);
        if suppressed > 0 {
            all.push(("suppressed", &suppressed));
        }
        self.write(level, kind, &all);
    }

    /// Logs a query of a client, if queries are logged. Only the queue limits these.
    pub fn query(&self, fields: &[Field<'_>]) {
        if self.wants_queries() {
            self.write(Level::Info, "query", fields);
        }
    }

    /// Waits until all lines so far are written, a second at most.
    pub fn flush(&self) {
        let (done, when_done) = sync_channel(1);
        if self.inner.queue.send(Item::Flush(done)).is_ok() {
            // A reader of stderr that does not read must not keep the program from its end.
            let _ = when_done.recv_timeout(FLUSH_PATIENCE);
        }
    }

    fn write(&self, level: Level, kind: &str, fields: &[Field<'_>]) {
        let line = self.inner.style.line(level, kind, sys::clock::realtime_ns(), fields);
        if let Err(TrySendError::Full(_)) = self.inner.queue.try_send(Item::Line(line)) {
            self.inner.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
