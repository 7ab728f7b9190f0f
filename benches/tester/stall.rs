//! Coordinated omission: the server is stopped for 200 ms, and every query due meanwhile must show it.
//!
//! Arithmetic: queries come evenly at rate R. The one due x after the stop began waits for the rest of the
//! stop, S - x, and for the queue before it. It is empty again at x = E, and between the two the latency
//! falls in a straight line, S (1 - x / E). S is timed at the signals, E is where the latency is back to
//! normal.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use figures::tester::Stall;
use signal_hook::consts::signal::{SIGCONT, SIGSTOP};

use crate::place::{Placement, Target};
use crate::tools::{Load, Tool};

const RATE_QPS: u64 = 50_000;
const DURATION_S: u64 = 8;
/// The server is stopped so long after the start of the tool, in the middle of its run.
const STOP_AFTER: Duration = Duration::from_secs(4);
const STOP: Duration = Duration::from_millis(200);
/// Queries slower than this met the stop.
const SLOW_S: f64 = 0.02;
/// Below this the queue is empty.
const NORMAL_S: f64 = 0.001;

/// Runs it some times.
///
/// # Errors
/// The server or the tool cannot be started, or the tool's record cannot be read.
pub fn measure(place: &Placement, rounds: usize) -> io::Result<Stall> {
    let mut stall = Stall::default();
    for _ in 0..rounds {
        let rows = [&mut stall.slow, &mut stall.p99_ms, &mut stall.p999_ms];
        for (row, (measured, expected)) in rows.into_iter().zip(once(place)?) {
            row[0].push(measured);
            row[1].push(expected);
            row[2].push((measured / expected - 1.0) * 100.0);
        }
    }
    Ok(stall)
}

/// Measured and expected: slow queries, p99 and p99.9 in ms.
fn once(place: &Placement) -> io::Result<[(f64, f64); 3]> {
    let server = place.serve(Target::Sockets)?;
    let pid = server.pid();
    let stopper = std::thread::spawn(move || -> io::Result<f64> {
        std::thread::sleep(STOP_AFTER);
        sys::process::signal(pid, SIGSTOP)?;
        let stopped = Instant::now();
        std::thread::sleep(STOP);
        sys::process::signal(pid, SIGCONT)?;
        Ok(stopped.elapsed().as_secs_f64())
    });
    let log = place.scratch("stall.csv");
    let mut options = Target::Sockets.sextant_options();
    options.extend(["--queries".to_owned(), log.display().to_string()]);
    let load = Load { rate_qps: Some(RATE_QPS), duration_s: DURATION_S, timeout_s: 1.0, sextant: options };
    Tool::Sextant("udp").run(place, &load)?;
    let stop_s =
        stopper.join().map_err(|_| io::Error::other("the thread that stops the server ended early"))??;
    let latencies_s = latencies(&log)?;

    let affected = affected(&latencies_s) as f64;
    let slow = latencies_s.iter().filter(|&&latency_s| latency_s > SLOW_S).count() as f64;
    let mut sorted = latencies_s;
    sorted.sort_by(f64::total_cmp);
    let measured_ms =
        |share: f64| sorted[((sorted.len() as f64 * share) as usize).min(sorted.len() - 1)] * 1e3;
    let affected = affected / (1.0 - NORMAL_S / stop_s);
    let expected_ms = |share: f64| stop_s * (1.0 - sorted.len() as f64 * (1.0 - share) / affected) * 1e3;
    Ok([
        (slow, affected * (1.0 - SLOW_S / stop_s)),
        (measured_ms(0.99), expected_ms(0.99)),
        (measured_ms(0.999), expected_ms(0.999)),
    ])
}

/// How many queries in a row, the slowest among them, waited: those due from the stop on until the queue was
/// empty.
fn affected(latencies_s: &[f64]) -> usize {
    let slowest =
        (0..latencies_s.len()).max_by(|&a, &b| latencies_s[a].total_cmp(&latencies_s[b])).unwrap_or(0);
    let waited = |latency_s: &&f64| **latency_s > NORMAL_S;
    let (before, after) = latencies_s.split_at(slowest);
    before.iter().rev().take_while(waited).count() + after.iter().take_while(waited).count()
}

/// The latencies of all queries, from the scheduled instant, in seconds.
fn latencies(log: &Path) -> io::Result<Vec<f64>> {
    let text = std::fs::read_to_string(log)?;
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let at = head.iter().position(|&name| name == "latency_ns");
    let at = at.ok_or_else(|| io::Error::other("the list of queries has no column latency_ns"))?;
    Ok(lines.filter_map(|line| line.split(',').nth(at)?.parse::<f64>().ok()).map(|ns| ns / 1e9).collect())
}
