//! The thread that writes lines.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use super::limits::Limits;
use super::line::Style;
use crate::config::Level;

/// How often the thread looks for what was left out.
const LOOK: Duration = Duration::from_secs(1);

/// What goes through the queue.
pub(super) enum Item {
    Line(String),
    /// Somebody waits until everything before is written.
    Flush(SyncSender<()>),
}

/// What those who log and the thread both see.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) limits: Limits,
    /// Lines that did not fit into the queue.
    pub(super) lost: AtomicU64,
}

/// Starts the thread; it ends when the last [`super::Log`] is gone.
pub(super) fn start(
    mut sink: impl Write + Send + 'static,
    lines: Receiver<Item>,
    shared: Arc<Shared>,
    style: Style,
) -> std::io::Result<()> {
    let work = move || {
        loop {
            match lines.recv_timeout(LOOK) {
                // Without a stderr to write to there is nobody to tell, and the work goes on; here and below.
                Ok(Item::Line(line)) => drop(sink.write_all(line.as_bytes())),
                Ok(Item::Flush(done)) => {
                    tell(&mut sink, &shared, style);
                    let _ = done.try_send(());
                }
                Err(RecvTimeoutError::Timeout) => tell(&mut sink, &shared, style),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    };
    std::thread::Builder::new().name("dns64d-log".into()).spawn(work).map(drop)
}

/// Tells of what was left out.
fn tell(sink: &mut impl Write, shared: &Shared, style: Style) {
    let now_ns = sys::clock::realtime_ns();
    for (kind, suppressed) in shared.limits.untold(sys::clock::monotonic_ns()) {
        let fields: [super::Field<'_>; 2] =
            [("message", &"more events of this kind were left out"), ("suppressed", &suppressed)];
        let _ = sink.write_all(style.line(Level::Info, kind, now_ns, &fields).as_bytes());
    }
    let lost = shared.lost.swap(0, Ordering::Relaxed);
    if lost > 0 {
        let fields: [super::Field<'_>; 2] =
            [("message", &"lines were left out: stderr is read too slowly"), ("lost", &lost)];
        let _ = sink.write_all(style.line(Level::Warning, "log", now_ns, &fields).as_bytes());
    }
}

/// Whether stderr is the socket of the journal (`JOURNAL_STREAM`, systemd.exec(5)).
pub(super) fn stderr_is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let stderr = std::fs::metadata("/proc/self/fd/2");
    stderr.is_ok_and(|stderr| stream == format!("{}:{}", stderr.dev(), stderr.ino()))
}
