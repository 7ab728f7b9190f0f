//! A server in the foreground: ready, what it uses meanwhile, what it counted, and its end.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::Error;
use lab::observe::{ProcessCounters, ProcessUse, ThreadUse};
use lab::peers::authoritative::{self, ZoneSettings};
use lab::peers::{self, PeerError, PeerSettings, Placement, Probe, RunningPeer, Server};

/// How often a server in the foreground is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Threads that are named; the others are added up.
const THREADS_NAMED: usize = 4;

/// A server to be run, and the question that it must answer first.
pub(super) enum ServerToRun {
    /// A DNS64 server.
    Forwarded(&'static Server, PeerSettings, Probe),
    Zone(&'static Server, ZoneSettings, Placement, Probe),
}

impl ServerToRun {
    fn name(&self) -> &'static str {
        match self {
            Self::Forwarded(peer, ..) => peer.name,
            Self::Zone(server, ..) => server.name,
        }
    }

    fn start(&self, interrupted: &AtomicBool) -> Result<RunningPeer, PeerError> {
        match self {
            Self::Forwarded(peer, settings, probe) => {
                peers::start(peer, settings.clone(), probe, interrupted)
            }
            Self::Zone(server, settings, place, probe) => {
                authoritative::start(server, place, settings.clone(), probe, interrupted)
            }
        }
    }

    fn statistics(&self, running: &RunningPeer) -> io::Result<String> {
        let told = match self {
            Self::Forwarded(peer, ..) => peer.statistics(running.directory()),
            Self::Zone(..) => None,
        };
        told.unwrap_or_else(|| Ok(format!("{} does not tell what it counts", self.name())))
    }
}

/// What is told of a server while it runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReportOptions {
    /// How often its processor time and memory are told; `None`: never.
    pub watch: Option<Duration>,
    /// Whether its own statistics are told at its end.
    pub statistics: bool,
    /// One JSON object for each line.
    pub json: bool,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    Ready { name: &'a str, version: &'a str, listen: String, pid: u32, ready_ms: u64 },
    Use { elapsed_s: f64, cpu_pct: f64, memory_octets: u64, threads: Vec<Thread> },
    Statistics { text: String },
}

#[derive(Serialize)]
struct Thread {
    name: String,
    cpu_pct: f64,
}

/// Starts the server and watches it until it or the user ends.
pub(super) fn run(served: &ServerToRun, telling: ReportOptions, out: &mut impl Write) -> Result<(), Error> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let mut running = served.start(&interrupted)?;
    let ready = Event::Ready {
        name: running.name,
        version: &running.version,
        listen: running.listen.to_string(),
        pid: running.pid(),
        ready_ms: running.ready.after_ns / 1_000_000,
    };
    tell(&ready, telling.json, out)?;
    let mut last = Reading::take(&running);
    while !interrupted.load(Ordering::Relaxed) {
        running.check_alive().map_err(Error::Died)?;
        if telling.watch.is_some_and(|every| last.at.elapsed() >= every) {
            let now = Reading::take(&running);
            if let Some(event) = now.since(&last) {
                tell(&event, telling.json, out)?;
            }
            last = now;
        }
        thread::sleep(LOOK);
    }
    if telling.statistics {
        let text = served.statistics(&running)?;
        tell(&Event::Statistics { text }, telling.json, out)?;
    }
    running.stop();
    Ok(())
}

struct Reading {
    at: Instant,
    counters: Option<ProcessCounters>,
}

impl Reading {
    fn take(running: &RunningPeer) -> Self {
        Self { at: Instant::now(), counters: ProcessCounters::of(running.pid()) }
    }

    fn since(&self, earlier: &Self) -> Option<Event<'static>> {
        let used = self.counters.as_ref()?.since(earlier.counters.as_ref()?);
        let elapsed_s = (self.at - earlier.at).as_secs_f64();
        let ProcessUse { cpu_ns, memory_octets, by_thread, .. } = used;
        let percent = |cpu_ns: u64| cpu_ns as f64 / 1e7 / elapsed_s;
        let threads = by_thread.into_iter().filter(|thread| thread.cpu_ns > 0);
        let threads = threads.map(|ThreadUse { name, cpu_ns, .. }| Thread { name, cpu_pct: percent(cpu_ns) });
        Some(Event::Use { elapsed_s, cpu_pct: percent(cpu_ns), memory_octets, threads: threads.collect() })
    }
}

fn tell(event: &Event<'_>, json: bool, out: &mut impl Write) -> io::Result<()> {
    if json {
        serde_json::to_writer(&mut *out, event)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}", in_words(event).trim_end())?;
    }
    out.flush()
}

fn in_words(event: &Event<'_>) -> String {
    match event {
        Event::Ready { name, version, listen, ready_ms, .. } => {
            format!("{name} {version} answers at {listen} after {ready_ms} ms; Ctrl-C stops it")
        }
        Event::Use { cpu_pct, memory_octets, threads, .. } => {
            let mut text = format!(
                "processor {cpu_pct:.1} %, memory {:.1} MiB",
                *memory_octets as f64 / f64::from(1 << 20)
            );
            for Thread { name, cpu_pct } in threads.iter().take(THREADS_NAMED) {
                // Writing to a String cannot fail.
                let _ = write!(text, "; {name} {cpu_pct:.1} %");
            }
            if let Some(others) = threads.get(THREADS_NAMED..).filter(|others| !others.is_empty()) {
                let cpu_pct: f64 = others.iter().map(|thread| thread.cpu_pct).sum();
                let _ = write!(text, "; {} others {cpu_pct:.1} %", others.len());
            }
            text
        }
        Event::Statistics { text } => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_threads_are_named_and_the_others_added_up() {
        let thread = |cpu_pct| Thread { name: "worker".into(), cpu_pct };
        let threads = [40.0, 30.0, 20.0, 10.0, 2.0, 1.0].map(thread).into();
        let used = Event::Use { elapsed_s: 1.0, cpu_pct: 103.0, memory_octets: 3 << 20, threads };
        let text = in_words(&used);
        assert!(text.starts_with("processor 103.0 %, memory 3.0 MiB; worker 40.0 %; "), "{text}");
        assert!(text.ends_with("; worker 10.0 %; 2 others 3.0 %"), "{text}");
        let mut json = Vec::new();
        tell(&used, true, &mut json).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(
            (json["event"].as_str(), json["threads"][5]["cpu_pct"].as_f64()),
            (Some("use"), Some(1.0))
        );
    }
}
