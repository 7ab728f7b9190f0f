//! Counts and distributions of a trial; merging them is lossless.

mod import;

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::matcher::Defect;
use crate::pacer::{SECOND_NS, Schedule};
use crate::querylog::QueryLog;
use crate::record::{Interval, Latency, ScheduleError, Window, Windows};

/// A millisecond in ns.
const MS_NS: u64 = 1_000_000;
/// A window further off its schedule than this, in percent, is uneven.
pub const UNEVEN_PCT: f64 = 5.0;
/// The longest latency that a histogram holds, in ns: longer ones are counted as this.
const HISTOGRAM_MAX_NS: u64 = 100 * SECOND_NS;

/// Everything counted by one thread, or by all after [`Stats::merge`].
#[derive(Clone, Debug)]
pub struct Stats {
    /// Queries that the kernel took.
    pub sent: u64,
    /// Queries that it did not take.
    pub send_errors: u64,
    /// Answered in time with the right AAAA.
    pub valid: u64,
    /// Answered in time, but wrong.
    pub invalid: u64,
    /// Answered after the timeout.
    pub late: u64,
    /// Answered in time by dns64perf++'s rule.
    pub valid_compat: u64,
    /// Second and later answers.
    pub duplicates: u64,
    /// Datagrams that belong to no query.
    pub unexpected: u64,
    /// Why they belong to none.
    pub unexpected_reasons: BTreeMap<&'static str, u64>,
    /// Of valid answers: from the scheduled instant, in ns.
    pub latency_ns: Histogram<u64>,
    /// Their sum in ns.
    pub latency_sum_ns: u64,
    /// Of valid answers: from the sending, in ns.
    pub latency_from_send_ns: Histogram<u64>,
    /// Of all queries: how late they were sent, in ns.
    pub lateness_ns: Histogram<u64>,
    /// Defects of invalid answers; wrong addresses are one kind, the first is kept.
    pub defects: BTreeMap<String, u64>,
    /// The first wrong address, with the one expected.
    pub wrong_address: Option<(std::net::Ipv6Addr, std::net::Ipv6Addr)>,
    /// Every single query, where [`crate::lane::LaneSpec::log`] asked for it.
    pub log: Option<QueryLog>,
    schedule: Schedule,
    sent_by_ms: Vec<u32>,
    valid_by_second: Vec<u64>,
}

impl Stats {
    /// Empty ones for a trial.
    pub fn new(schedule: Schedule) -> Self {
        let duration_ns = schedule.end_ns() - schedule.start_ns;
        let histogram = || {
            // Three digits of 1 ns to 100 s: the bounds are valid for the crate.
            Histogram::new_with_bounds(1, HISTOGRAM_MAX_NS, 3).expect("constant bounds")
        };
        Self {
            sent: 0,
            send_errors: 0,
            valid: 0,
            invalid: 0,
            late: 0,
            valid_compat: 0,
            duplicates: 0,
            unexpected: 0,
            unexpected_reasons: BTreeMap::new(),
            latency_ns: histogram(),
            latency_sum_ns: 0,
            latency_from_send_ns: histogram(),
            lateness_ns: histogram(),
            defects: BTreeMap::new(),
            wrong_address: None,
            log: None,
            schedule,
            // What is sent after the end of the schedule falls into the last, open window.
            sent_by_ms: vec![0; (duration_ns.div_ceil(MS_NS) + 1) as usize],
            valid_by_second: vec![0; duration_ns.div_ceil(SECOND_NS) as usize],
        }
    }

    /// About how much memory [`Stats::new`] allocates for a schedule, in octets.
    pub fn memory_octets(schedule: &Schedule) -> u64 {
        let duration_ns = schedule.end_ns() - schedule.start_ns;
        duration_ns / MS_NS * size_of::<u32>() as u64 + duration_ns / SECOND_NS * size_of::<u64>() as u64
    }

    /// Moves the schedule before anything is counted.
    pub(crate) fn start_at(&mut self, start_ns: u64) {
        self.schedule.start_ns = start_ns;
    }

    /// Notes the sending of a query.
    pub fn note_sent(&mut self, due_ns: u64, now_ns: u64) {
        self.sent += 1;
        self.lateness_ns.saturating_record(now_ns.saturating_sub(due_ns));
        let window = (now_ns.saturating_sub(self.schedule.start_ns) / MS_NS) as usize;
        let last = self.sent_by_ms.len() - 1;
        self.sent_by_ms[window.min(last)] += 1;
    }

    /// Takes a sending back that the kernel refused.
    pub fn note_send_errors(&mut self, count: u64) {
        self.sent -= count.min(self.sent);
        self.send_errors += count;
    }

    /// Notes a valid answer.
    pub fn note_valid(&mut self, due_ns: u64, lateness_ns: u64, now_ns: u64) {
        self.valid += 1;
        let latency_ns = now_ns.saturating_sub(due_ns);
        self.latency_ns.saturating_record(latency_ns);
        self.latency_sum_ns = self.latency_sum_ns.saturating_add(latency_ns);
        self.latency_from_send_ns.saturating_record(latency_ns.saturating_sub(lateness_ns));
        let second = ((due_ns - self.schedule.start_ns) / SECOND_NS) as usize;
        if let Some(count) = self.valid_by_second.get_mut(second) {
            *count += 1;
        }
    }

    /// Notes an answer in time that is wrong.
    #[cold]
    pub fn note_invalid(&mut self, defect: Defect, expected: std::net::Ipv6Addr) {
        self.invalid += 1;
        *self.defects.entry(defect.to_string()).or_default() += 1;
        if let Defect::WrongAddress(address) = defect {
            self.wrong_address.get_or_insert((address, expected));
        }
    }

    /// Notes a datagram that belongs to no query.
    #[cold]
    pub fn note_unexpected(&mut self, reason: &'static str) {
        self.unexpected += 1;
        *self.unexpected_reasons.entry(reason).or_default() += 1;
    }

    /// Adds what another thread counted in the same trial.
    pub fn merge(&mut self, other: Self) {
        self.sent += other.sent;
        self.send_errors += other.send_errors;
        self.valid += other.valid;
        self.invalid += other.invalid;
        self.late += other.late;
        self.valid_compat += other.valid_compat;
        self.duplicates += other.duplicates;
        self.unexpected += other.unexpected;
        for (reason, count) in other.unexpected_reasons {
            *self.unexpected_reasons.entry(reason).or_default() += count;
        }
        self.latency_sum_ns = self.latency_sum_ns.saturating_add(other.latency_sum_ns);
        for (own, others) in [
            (&mut self.latency_ns, &other.latency_ns),
            (&mut self.latency_from_send_ns, &other.latency_from_send_ns),
            (&mut self.lateness_ns, &other.lateness_ns),
        ] {
            own.add(others).expect("all histograms have the same bounds");
        }
        for (defect, count) in other.defects {
            *self.defects.entry(defect).or_default() += count;
        }
        self.wrong_address = self.wrong_address.or(other.wrong_address);
        add(&mut self.sent_by_ms, &other.sent_by_ms);
        add(&mut self.valid_by_second, &other.valid_by_second);
        match (&mut self.log, other.log) {
            (Some(own), Some(others)) => own.merge(others),
            (own, others) => *own = own.take().or(others),
        }
    }

    /// Latencies of valid answers from the scheduled instant.
    pub fn latency(&self) -> Latency {
        summarize(&self.latency_ns)
    }

    /// Latencies of valid answers from the sending.
    pub fn latency_from_send(&self) -> Latency {
        summarize(&self.latency_from_send_ns)
    }

    /// How late the queries were sent.
    pub fn schedule_error(&self) -> ScheduleError {
        let at = |quantile| self.lateness_ns.value_at_quantile(quantile);
        ScheduleError { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: self.lateness_ns.max() }
    }

    /// Points of the slowest-percentile curve: 100 % down to one query in a million, ten for each decade.
    pub fn latency_curve(&self) -> Vec<(f64, u64)> {
        let total = self.latency_ns.len();
        if total == 0 {
            return Vec::new();
        }
        (0..=60)
            .map(|step| 100.0 * 10f64.powf(-f64::from(step) / 10.0))
            .take_while(|slowest_pct| slowest_pct / 100.0 * total as f64 >= 1.0)
            .map(|slowest_pct| (slowest_pct, self.latency_ns.value_at_quantile(1.0 - slowest_pct / 100.0)))
            .collect()
    }

    /// The trial by seconds.
    pub fn series(&self) -> Vec<Interval> {
        let start_ns = self.schedule.start_ns;
        self.valid_by_second
            .iter()
            .enumerate()
            .map(|(second, &valid)| {
                let from = second as u64 * SECOND_NS;
                let due = self.due_between(start_ns + from, start_ns + from + SECOND_NS);
                let ms = (from / MS_NS) as usize;
                let last = second + 1 == self.valid_by_second.len();
                let end = if last { self.sent_by_ms.len() } else { ms + 1000 };
                let sent = self.sent_by_ms[ms..end].iter().map(|&count| u64::from(count)).sum();
                Interval { start_s: second as f64, sent, valid, failed: due.saturating_sub(valid) }
            })
            .collect()
    }

    /// How even the sending was.
    pub fn windows(&self) -> Windows {
        Windows { ms1: self.window(1), ms10: self.window(10), ms100: self.window(100) }
    }

    /// Queries that were sent in another 10 ms window than they were due in.
    pub fn displaced(&self) -> u64 {
        let after_the_end = u64::from(self.sent_by_ms[self.sent_by_ms.len() - 1]);
        self.counts(10).map(|(sent, due)| sent.saturating_sub(due + 1)).sum::<u64>() + after_the_end
    }

    /// The queries sent and due in each window of so many milliseconds.
    fn counts(&self, length_ms: usize) -> impl Iterator<Item = (u64, u64)> {
        let within = &self.sent_by_ms[..self.sent_by_ms.len() - 1];
        within.chunks_exact(length_ms).enumerate().map(move |(index, counts)| {
            let from = self.schedule.start_ns + (index * length_ms) as u64 * MS_NS;
            let sent = counts.iter().map(|&count| u64::from(count)).sum();
            (sent, self.due_between(from, from + length_ms as u64 * MS_NS))
        })
    }

    /// A window is uneven only if it is off by more than one query, which a query sent a moment late can make.
    fn window(&self, length_ms: usize) -> Window {
        let nominal = self.schedule.rate_qps as f64 * length_ms as f64 / 1000.0;
        let (mut worst_pct, mut squares, mut off, mut windows) = (0f64, 0f64, 0f64, 0f64);
        for (sent, due) in self.counts(length_ms) {
            let deviation = sent.abs_diff(due) as f64;
            worst_pct = worst_pct.max(deviation / nominal * 100.0);
            off += f64::from(u8::from((deviation - 1.0) / nominal * 100.0 > UNEVEN_PCT));
            squares += deviation * deviation;
            windows += 1.0;
        }
        if windows == 0.0 {
            return Window::default();
        }
        Window {
            worst_pct,
            cv_pct: (squares / windows).sqrt() / nominal * 100.0,
            off_pct: off / windows * 100.0,
        }
    }

    fn due_between(&self, from_ns: u64, to_ns: u64) -> u64 {
        let before =
            |instant_ns: u64| instant_ns.checked_sub(1).map_or(0, |last| self.schedule.due_count(last));
        before(to_ns) - before(from_ns)
    }
}

fn add<T: Copy + std::ops::AddAssign>(own: &mut [T], others: &[T]) {
    for (own, other) in own.iter_mut().zip(others) {
        *own += *other;
    }
}

fn summarize(histogram: &Histogram<u64>) -> Latency {
    if histogram.is_empty() {
        return Latency::default();
    }
    let at = |quantile| histogram.value_at_quantile(quantile);
    Latency {
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: histogram.max(),
        mean: histogram.mean(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(rate_qps: u64, duration_ns: u64) -> (Schedule, Stats) {
        let schedule = Schedule::new(1_000_000, rate_qps, duration_ns);
        (schedule, Stats::new(schedule))
    }

    #[test]
    fn a_perfect_sender_has_perfect_windows() {
        let (schedule, mut stats) = stats(70_000, SECOND_NS);
        for n in 0..schedule.queries {
            stats.note_sent(schedule.due_ns(n), schedule.due_ns(n));
        }
        assert_eq!(stats.windows(), Windows::default());
        assert_eq!(stats.schedule_error().max, 0);
        assert_eq!(stats.series().iter().map(|interval| interval.sent).sum::<u64>(), 70_000);
    }

    /// A sender that stops for 5 ms and catches up at once: half a window missing, then half too much.
    #[test]
    fn a_stall_shows_in_the_windows() {
        let (schedule, mut stats) = stats(100_000, SECOND_NS);
        for n in 0..schedule.queries {
            let due = schedule.due_ns(n);
            let after_start = due - schedule.start_ns;
            let late = (95 * MS_NS..100 * MS_NS).contains(&after_start);
            stats.note_sent(due, if late { schedule.start_ns + 100 * MS_NS } else { due });
        }
        let windows = stats.windows();
        assert!((windows.ms10.worst_pct - 50.0).abs() < 0.2, "{windows:?}");
        assert!((windows.ms10.off_pct - 2.0).abs() < 1e-9, "two of a hundred: {windows:?}");
        assert!((499..=500).contains(&stats.displaced()), "{}", stats.displaced());
        assert!(windows.ms1.worst_pct > 400.0);
        assert!((stats.schedule_error().max as f64 - 5e6).abs() < 1e4);
    }

    #[test]
    fn merging_loses_nothing() {
        let (schedule, mut whole) = stats(1000, SECOND_NS);
        let mut halves = [whole.clone(), whole.clone()];
        for n in 0..schedule.queries {
            let (due, at) = (schedule.due_ns(n), schedule.due_ns(n) + n * 1000);
            for stats in [&mut whole, &mut halves[(n % 2) as usize]] {
                stats.note_sent(due, due + n);
                stats.note_valid(due, n, at);
            }
        }
        let [mut merged, other] = halves;
        merged.merge(other);
        assert_eq!(merged.latency(), whole.latency());
        assert_eq!(merged.latency_curve(), whole.latency_curve());
        assert_eq!(merged.series(), whole.series());
        assert_eq!((merged.sent, merged.valid), (1000, 1000));
        assert_eq!(merged.windows(), whole.windows());
    }
}
