//! A measurement at a glance while it runs: rate, latency, losses, processors, search.
//!
//! Lines of bars below those that stay (`indicatif`). What is drawn is a function of [`Pulse`], the last
//! second in numbers; it is read by the thread that draws, never by those that measure.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use engine::search::Bracket;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use measurer::live::{Counts, LATENCY_BOUNDS_NS, LATENCY_BUCKETS};
use record::Observation;

use super::{Status, bracket_text, short_duration};
use crate::watch::{Server, Watch};
use lab::observe::{Observer, Snapshot};
use record::number::{brief_time_ns, count as grouped, real};

/// The time over which rates, latencies and processors are averaged.
const PULSE: Duration = Duration::from_secs(1);
/// Rates that the little chart shows.
const HISTORY: usize = 40;
/// Width of the bracket in characters.
const BRACKET: usize = 40;
/// A full bar of a processor's share, in tenths of a percent.
const FULL: u64 = 1000;

/// The last second of a measurement.
#[derive(Clone, Debug, Default)]
struct Pulse {
    /// Queries sent and valid answers, in a second.
    rates: [f64; 2],
    /// What half, 90, 99 and 99.9 % of the valid answers did not exceed, in ns; none without answers.
    latencies_ns: [Option<u64>; 4],
    /// What the machine's counters said.
    machine: Option<Observation>,
}

/// Everything read at one moment.
struct Reading {
    at: Instant,
    counts: Counts,
    latency: [u64; LATENCY_BUCKETS],
    machine: Snapshot,
}

/// What is remembered between two drawings.
struct Memory {
    last: Option<Reading>,
    pulse: Pulse,
    /// Valid answers in a second, the newest last.
    history: Vec<f64>,
}

/// The lines on the terminal.
pub(crate) struct Dashboard {
    all: MultiProgress,
    head: ProgressBar,
    trial: ProgressBar,
    rate: ProgressBar,
    latency: ProgressBar,
    losses: ProgressBar,
    processors: [ProgressBar; 4],
    search: ProgressBar,
    memory: Mutex<Memory>,
}

impl Dashboard {
    /// On standard error, if that is a terminal.
    pub fn new() -> Option<Self> {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        if all.is_hidden() {
            return None;
        }
        let line = |name: &'static str, template: &str, length: u64| {
            let style = ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar());
            let bar = all.add(ProgressBar::new(length));
            bar.set_style(style.progress_chars("━╸━"));
            bar.set_prefix(name);
            bar
        };
        let (text, bar) = ("  {prefix:<10.bold} {msg}", "  {prefix:<10.bold} {bar:24.cyan/dim} {msg}");
        Some(Self {
            head: line("", "\n  {msg:.cyan.bold}", 1),
            trial: line("trial", bar, 1),
            rate: line("answers", text, 1),
            latency: line("latency", text, 1),
            losses: line("losses", text, 1),
            processors: ["server", "Tester", "others", "hypervisor"].map(|name| line(name, bar, FULL)),
            search: line("search", text, 1),
            memory: Mutex::new(Memory { last: None, pulse: Pulse::default(), history: Vec::new() }),
            all,
        })
    }

    /// Writes a line that stays, above all.
    pub fn say(&self, text: &str) {
        // A terminal that is gone shows nothing.
        let _ = self.all.println(text);
    }

    /// Shows a line in place of the trial.
    pub fn note(&self, text: &str) {
        self.trial.set_position(0);
        self.trial.set_message(text.to_owned());
        self.trial.tick();
    }

    /// Draws the moment: `elapsed` of the trial, and its counts so far.
    pub fn draw(&self, doing: &Status, elapsed: Duration, counts: &Counts, watch: &Watch) {
        let mut memory = self.memory.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        memory.look(watch);
        let (server, Memory { pulse, history, .. }) = (watch.server(), &*memory);
        self.head.set_message(head(doing, elapsed, server.as_ref()));
        let length_ms = doing.length.as_millis().max(1) as u64;
        self.trial.set_length(length_ms);
        self.trial.set_position((elapsed.as_millis() as u64).min(length_ms));
        self.trial.set_message(trial(doing, elapsed));
        self.rate.set_message(rates(pulse, history));
        self.latency.set_message(latencies(pulse));
        self.losses.set_message(losses(counts, pulse));
        for (bar, (share_pct, text)) in self.processors.iter().zip(processors(pulse)) {
            bar.set_position((share_pct.unwrap_or(0.0) * 10.0).clamp(0.0, FULL as f64) as u64);
            bar.set_message(text);
        }
        self.search.set_message(doing.bracket.map_or_else(|| "–".into(), |of| bracket(of, doing)));
        for line in [&self.head, &self.trial, &self.rate, &self.latency, &self.losses, &self.search] {
            line.tick();
        }
    }

    pub fn clear(&self) {
        let _ = self.all.clear();
    }
}

impl Memory {
    /// Reads everything, once in a second.
    fn look(&mut self, watch: &Watch) {
        if self.last.as_ref().is_some_and(|last| last.at.elapsed() < PULSE) {
            return;
        }
        let server = watch.server();
        let (pids, port) = server.map_or((Vec::new(), 0), |server| (server.pids, server.port));
        let now = Reading {
            at: Instant::now(),
            counts: watch.live.counts(),
            latency: watch.live.latency(),
            machine: Observer::new(&pids, &[port]).snapshot(),
        };
        if let Some(last) = &self.last {
            self.pulse = now.since(last, port);
            self.history.push(self.pulse.rates[1]);
            let old = self.history.len().saturating_sub(HISTORY);
            self.history.drain(..old);
        }
        self.last = Some(now);
    }
}

impl Reading {
    fn since(&self, last: &Self, port: u16) -> Pulse {
        let counts = self.counts.since(last.counts);
        let elapsed_s = (self.at - last.at).as_secs_f64().max(1e-3);
        let buckets = std::array::from_fn(|at| self.latency[at].saturating_sub(last.latency[at]));
        let machine = self.machine.since(&last.machine).to_record((counts.sent, counts.valid), port);
        Pulse {
            rates: [counts.sent, counts.valid].map(|count| count as f64 / elapsed_s),
            latencies_ns: [0.5, 0.9, 0.99, 0.999].map(|quantile| within_ns(&buckets, quantile)),
            machine: Some(machine),
        }
    }
}

/// Whole percents: tenths would dance.
fn percent(value: f64) -> String {
    format!("{} %", real(value, 0))
}

/// The bound that this share of the answers did not exceed.
fn within_ns(buckets: &[u64; LATENCY_BUCKETS], quantile: f64) -> Option<u64> {
    let total: u64 = buckets.iter().sum();
    let wanted = (quantile * total as f64).ceil().max(1.0) as u64;
    let mut below = 0;
    let found = buckets.iter().position(|count| {
        below += count;
        below >= wanted
    })?;
    Some(LATENCY_BOUNDS_NS.get(found).copied().unwrap_or(u64::MAX))
}

fn head(doing: &Status, elapsed: Duration, server: Option<&Server>) -> String {
    let mut text = server.map_or_else(String::new, |server| format!("{}: ", server.name));
    text += &doing.phase;
    if let Some(left) = doing.left {
        text += &format!(", about {} left", short_duration(left.saturating_sub(elapsed)));
    }
    text
}

fn trial(doing: &Status, elapsed: Duration) -> String {
    let rate = match doing.rate_qps {
        0 => "closed loop".to_owned(),
        rate => format!("{} q/s", grouped(rate)),
    };
    format!("{rate}, {:.1} of {:.1} s", elapsed.as_secs_f64(), doing.length.as_secs_f64())
}

fn rates(pulse: &Pulse, history: &[f64]) -> String {
    let [sent, valid] = pulse.rates.map(|rate| grouped(rate as u64));
    format!("{valid} valid of {sent} sent in a second  {}", sparkline(history))
}

/// A bar of eight heights for each value.
fn sparkline(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().fold(1.0, f64::max);
    values.iter().map(|value| BARS[((value / most * 7.0).round() as usize).min(7)]).collect()
}

fn latencies(pulse: &Pulse) -> String {
    let shares = ["half", "90 %", "99 %", "99.9 %"];
    let told = shares.iter().zip(pulse.latencies_ns).filter_map(|(share, within_ns)| {
        let within_ns = within_ns?;
        let time = if within_ns == u64::MAX { "longer".to_owned() } else { brief_time_ns(within_ns as f64) };
        Some(format!("{share} ≤ {time}"))
    });
    let told: Vec<String> = told.collect();
    match (told.is_empty(), pulse.rates[1] > 0.0) {
        (false, _) => told.join("   "),
        // A Measurer in the kernel keeps them to itself until then.
        (true, true) => "known at the end of the trial".to_owned(),
        (true, false) => "no valid answer in the last second".to_owned(),
    }
}

/// Of the trial under way; then what was dropped where in the last second.
fn losses(counts: &Counts, pulse: &Pulse) -> String {
    let of_trial = [
        ("lost", counts.lost),
        ("late", counts.late),
        ("invalid", counts.invalid),
        ("not sent", counts.send_errors),
    ];
    let machine = pulse.machine.as_ref();
    let seen = |of: fn(&Observation) -> Option<u64>| machine.and_then(of).unwrap_or(0);
    let places = [
        ("at the server's socket", seen(|seen| seen.dut_socket_drops)),
        ("in the kernel", seen(|seen| seen.softnet_drops)),
        ("at the Tester's device", seen(|seen| seen.device_tx_drops)),
    ];
    let of_trial: Vec<String> = (of_trial.iter().filter(|(_, count)| *count > 0))
        .map(|(what, count)| format!("{} {what}", grouped(*count)))
        .collect();
    let places: Vec<String> = (places.iter().filter(|(_, count)| *count > 0))
        .map(|(place, count)| format!("{} dropped {place} in the last second", grouped(*count)))
        .collect();
    let all = [of_trial, places].concat();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

/// Server, Tester, others, hypervisor: the share of one processor in percent, and words.
fn processors(pulse: &Pulse) -> [(Option<f64>, String); 4] {
    let Some(seen) = &pulse.machine else { return std::array::from_fn(|_| (None, String::new())) };
    let tester_pct = seen
        .tester_cpu_us_per_query
        .map(|each_us| each_us * pulse.rates[0] / 1e4)
        .filter(|pct| pct.is_finite());
    let said = |value: Option<f64>| value.map_or_else(|| "not known".to_owned(), percent);
    let server = match (&seen.dut_hottest_thread, seen.dut_hottest_thread_pct) {
        (Some(thread), Some(pct)) => {
            format!("{}, its thread {thread} {}", said(seen.dut_cpu_pct), percent(pct))
        }
        _ => said(seen.dut_cpu_pct),
    };
    [
        (seen.dut_cpu_pct, server),
        (tester_pct, said(tester_pct)),
        (seen.foreign_cpu_pct, said(seen.foreign_cpu_pct)),
        (seen.steal_pct, said(seen.steal_pct)),
    ]
}

/// The bracket as a part of the line from 0 to the lowest load that failed, and the load tried in it.
fn bracket(of: Bracket, doing: &Status) -> String {
    let at = |load: u64| {
        let share = load as f64 / of.failed.max(1) as f64;
        ((share * (BRACKET - 1) as f64).round() as usize).min(BRACKET - 1)
    };
    let (passed, tried) = (at(of.passed), at(doing.connections.unwrap_or(doing.rate_qps)));
    let drawn: String = (0..BRACKET)
        .map(|place| match place {
            _ if place == tried => '●',
            _ if place < passed => '━',
            _ => '┄',
        })
        .collect();
    format!("{drawn}  {}", bracket_text(of, doing.sought()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_says_the_last_second() {
        let machine = Observation {
            dut_cpu_pct: Some(93.0),
            dut_hottest_thread: Some("worker-0".into()),
            dut_hottest_thread_pct: Some(91.0),
            dut_socket_drops: Some(12),
            tester_cpu_us_per_query: Some(4.0),
            steal_pct: Some(0.5),
            ..Observation::default()
        };
        let mut buckets = [0; LATENCY_BUCKETS];
        (buckets[2], buckets[5], buckets[19]) = (60, 39, 1);
        let pulse = Pulse {
            rates: [62_500.0, 62_400.0],
            latencies_ns: [0.5, 0.9, 0.99, 0.999].map(|quantile| within_ns(&buckets, quantile)),
            machine: Some(machine),
        };
        let doing = Status {
            phase: "search 2/3".into(),
            rate_qps: 62_500,
            length: Duration::from_secs(2),
            left: Some(Duration::from_secs(42)),
            ..Status::default()
        };
        let server = Server { name: "dns64d 0.1.0".into(), pids: Vec::new(), port: 53 };
        let elapsed = Duration::from_millis(1500);
        assert_eq!(head(&doing, elapsed, Some(&server)), "dns64d 0.1.0: search 2/3, about 40 s left");
        assert_eq!(trial(&doing, elapsed), "62,500 q/s, 1.5 of 2.0 s");
        assert_eq!(rates(&pulse, &[1.0, 4.0, 8.0]), "62,400 valid of 62,500 sent in a second  ▂▅█");
        assert_eq!(latencies(&pulse), "half ≤ 50 µs   90 % ≤ 500 µs   99 % ≤ 500 µs   99.9 % ≤ longer");
        let counts = Counts { lost: 12, ..Counts::default() };
        assert_eq!(losses(&counts, &pulse), "12 lost, 12 dropped at the server's socket in the last second");
        let [server, tester, others, hypervisor] = processors(&pulse);
        assert_eq!(server.1, "93 %, its thread worker-0 91 %");
        assert_eq!((tester.1.as_str(), others.1.as_str()), ("25 %", "not known"));
        assert_eq!(hypervisor.0, Some(0.5));
        let drawn = bracket(Bracket { passed: 25_000, failed: 100_000 }, &doing);
        assert!(drawn.starts_with("━━━━━━━━━━┄") && drawn.contains("┄●┄"), "{drawn}");
        assert_eq!(latencies(&Pulse::default()), "no valid answer in the last second");
        assert_eq!(losses(&Counts::default(), &Pulse::default()), "none");
    }
}
