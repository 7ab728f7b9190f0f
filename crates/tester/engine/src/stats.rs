//! Counts and distributions of a trial; merging them is lossless.

mod import;
mod seconds;
mod windows;

use std::collections::BTreeMap;
use std::net::IpAddr;

use hdrhistogram::Histogram;

use crate::connections::{Breakdown, ConnectionStats};
use crate::matcher::Defect;
use crate::pacer::{Model, SECOND_NS, Schedule};
use crate::querylog::QueryLog;
use crate::times;
use record::limits::WINDOW_DEVIATION;
use record::{Answers, Experiments, Interval, Latency, ScheduleError, Window, Windows};
use seconds::Second;
pub use windows::{Pause, WINDOW_NS};
use windows::{WINDOWS_PER_SECOND, windows_of};

/// A millisecond in ns.
const MS_NS: u64 = 1_000_000;
/// Of loads that come in bursts, a query sent so late, in ns, was displaced: half a window.
const TARDY_NS: u64 = WINDOW_NS / 2;
/// Everything counted by one thread, or by all after [`Stats::merge`].
#[derive(Clone, Debug)]
pub struct Stats {
    /// Queries that the kernel took.
    pub sent: u64,
    /// Queries that it did not take.
    pub send_errors: u64,
    /// Queries that never left, because their connection never came to be or took no more; they are not in
    /// `sent`.
    pub never_left: u64,
    /// Queries that left and whose connection ended before their answer and their timeout.
    pub cut_off: u64,
    /// All of these by what ended them.
    pub broken: BTreeMap<Breakdown, u64>,
    /// What became of the connections; none with datagrams.
    pub connections: Option<Box<ConnectionStats>>,
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
    /// RCODEs of first answers, in time or late, by their number.
    pub rcodes: [u64; 16],
    /// How often queries were due, but the file or pipe that they come from had none ready.
    pub starved: u64,
    /// Why there were no more queries before the end of the schedule.
    pub ran_out: Option<String>,
    /// Of a closed loop: from its start to the end of its last query, in ns.
    pub active_ns: u64,
    /// Of a closed loop of experiments: how long they took.
    pub experiments: Spread,
    /// Defects of invalid answers; wrong addresses are one kind, the first is kept.
    pub defects: BTreeMap<String, u64>,
    /// The first wrong address, with the one expected.
    pub wrong_address: Option<(IpAddr, IpAddr)>,
    /// Every single query, where [`crate::lane::LaneSpec::log`] asked for it.
    pub log: Option<QueryLog>,
    schedule: Schedule,
    sent_by_ms: Vec<u32>,
    /// Counted only where the schedule has no closed form.
    due_by_ms: Vec<u32>,
    by_second: Vec<Second>,
    /// Valid answers by the window of [`WINDOW_NS`] that their queries were due in.
    valid_by_window: Vec<u32>,
    /// Likewise wrong answers that dns64perf++ takes for valid; empty before the first one.
    compat_by_window: Vec<u32>,
    /// Of loads that come in bursts: the queries sent after [`TARDY_NS`], by window, less those due in it.
    tardy_by_window: Vec<i32>,
}

impl Stats {
    /// Empty ones for a trial.
    pub fn new(schedule: Schedule) -> Self {
        let duration_ns = schedule.end_ns() - schedule.start_ns;
        let by_ms = (duration_ns.div_ceil(MS_NS) + 1) as usize;
        let windows = windows_of(duration_ns);
        let bursts = matches!(schedule.model, Model::Burst { .. } | Model::Replay(_) | Model::Recorded(_));
        Self {
            sent: 0,
            send_errors: 0,
            never_left: 0,
            cut_off: 0,
            broken: BTreeMap::new(),
            connections: None,
            valid: 0,
            invalid: 0,
            late: 0,
            valid_compat: 0,
            duplicates: 0,
            unexpected: 0,
            unexpected_reasons: BTreeMap::new(),
            latency_ns: times::histogram(),
            latency_sum_ns: 0,
            latency_from_send_ns: times::histogram(),
            lateness_ns: times::histogram(),
            rcodes: [0; 16],
            starved: 0,
            ran_out: None,
            active_ns: 0,
            experiments: Spread::default(),
            defects: BTreeMap::new(),
            wrong_address: None,
            log: None,
            schedule,
            // What is sent after the end of the schedule falls into the last, open window.
            sent_by_ms: vec![0; by_ms],
            due_by_ms: vec![0; if schedule.is_closed_form() { 0 } else { by_ms }],
            by_second: vec![Second::EMPTY; windows.div_ceil(WINDOWS_PER_SECOND)],
            valid_by_window: vec![0; windows],
            compat_by_window: Vec::new(),
            tardy_by_window: vec![0; if bursts { windows + 1 } else { 0 }],
        }
    }

    /// About how much memory [`Stats::new`] allocates for a schedule, in octets.
    pub fn memory_octets(schedule: &Schedule) -> u64 {
        let duration_ns = schedule.end_ns() - schedule.start_ns;
        2 * (duration_ns / MS_NS + duration_ns / WINDOW_NS) * size_of::<u32>() as u64
            + duration_ns / SECOND_NS * size_of::<Second>() as u64
    }

    /// Moves the schedule before anything is counted.
    pub(crate) fn start_at(&mut self, start_ns: u64) {
        self.schedule.start_ns = start_ns;
    }

    /// Notes when a query is due, where the schedule has no closed form.
    pub(crate) fn note_due(&mut self, due_ns: u64) {
        let window = (due_ns.saturating_sub(self.schedule.start_ns) / MS_NS) as usize;
        if let Some(last) = self.due_by_ms.len().checked_sub(1) {
            self.due_by_ms[window.min(last)] += 1;
        }
    }

    /// Notes the sending of a query.
    #[inline]
    pub fn note_sent(&mut self, due_ns: u64, now_ns: u64) {
        self.sent += 1;
        let lateness_ns = now_ns.saturating_sub(due_ns);
        self.lateness_ns.saturating_record(lateness_ns);
        if lateness_ns >= TARDY_NS {
            self.note_tardy(due_ns, now_ns);
        }
        let window = (now_ns.saturating_sub(self.schedule.start_ns) / MS_NS) as usize;
        let last = self.sent_by_ms.len() - 1;
        self.sent_by_ms[window.min(last)] += 1;
    }

    /// Takes a sending back that the kernel refused.
    pub fn note_send_errors(&mut self, count: u64) {
        self.sent -= count.min(self.sent);
        self.send_errors += count;
    }

    /// Notes a query that has no answer by a fault of its connection, and whether the query had left.
    #[cold]
    pub(crate) fn note_broken(&mut self, why: Breakdown, had_left: bool) {
        *self.broken.entry(why).or_default() += 1;
        if had_left {
            self.cut_off += 1;
        } else {
            self.never_left += 1;
            self.sent = self.sent.saturating_sub(1);
        }
    }

    /// Notes a valid answer.
    #[inline]
    pub fn note_valid(&mut self, due_ns: u64, lateness_ns: u64, now_ns: u64) {
        self.valid += 1;
        let latency_ns = now_ns.saturating_sub(due_ns);
        self.latency_ns.saturating_record(latency_ns);
        self.latency_sum_ns = self.latency_sum_ns.saturating_add(latency_ns);
        self.latency_from_send_ns.saturating_record(latency_ns.saturating_sub(lateness_ns));
        let window = self.window_at(due_ns);
        if let Some(count) = self.valid_by_window.get_mut(window) {
            *count += 1;
        }
        if let Some(second) = self.by_second.get_mut(window / WINDOWS_PER_SECOND) {
            second.note_valid(latency_ns);
        }
    }

    /// Notes the RCODE of an answer in time.
    #[inline]
    pub(crate) fn note_rcode(&mut self, due_ns: u64, rcode: u8) {
        let second = self.window_at(due_ns) / WINDOWS_PER_SECOND;
        if let Some(second) = self.by_second.get_mut(second) {
            second.note_rcode(rcode);
        }
    }

    /// Notes an answer in time that is wrong.
    #[cold]
    pub fn note_invalid(&mut self, defect: Defect, expected: IpAddr) {
        self.invalid += 1;
        *self.defects.entry(defect.to_string()).or_default() += 1;
        if let Defect::WrongAddress(address) = defect {
            self.wrong_address.get_or_insert((address, expected));
        }
    }

    /// Notes a datagram that belongs to no query.
    #[cold]
    pub(crate) fn note_unexpected(&mut self, reason: &'static str) {
        self.unexpected += 1;
        *self.unexpected_reasons.entry(reason).or_default() += 1;
    }

    /// Adds what another thread counted in the same trial.
    pub fn merge(&mut self, other: Self) {
        self.sent += other.sent;
        self.send_errors += other.send_errors;
        self.never_left += other.never_left;
        self.cut_off += other.cut_off;
        for (why, count) in other.broken {
            *self.broken.entry(why).or_default() += count;
        }
        match (&mut self.connections, other.connections) {
            (Some(own), Some(others)) => own.merge(&others),
            (own, others) => *own = own.take().or(others),
        }
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
        add(&mut self.rcodes, &other.rcodes);
        self.starved += other.starved;
        self.active_ns = self.active_ns.max(other.active_ns);
        self.ran_out = self.ran_out.take().or(other.ran_out);
        self.experiments.merge(&other.experiments);
        for (defect, count) in other.defects {
            *self.defects.entry(defect).or_default() += count;
        }
        self.wrong_address = self.wrong_address.or(other.wrong_address);
        add(&mut self.sent_by_ms, &other.sent_by_ms);
        add(&mut self.due_by_ms, &other.due_by_ms);
        for (own, others) in self.by_second.iter_mut().zip(&other.by_second) {
            own.merge(others);
        }
        add(&mut self.valid_by_window, &other.valid_by_window);
        self.compat_by_window.resize(self.compat_by_window.len().max(other.compat_by_window.len()), 0);
        add(&mut self.compat_by_window, &other.compat_by_window);
        add(&mut self.tardy_by_window, &other.tardy_by_window);
        match (&mut self.log, other.log) {
            (Some(own), Some(others)) => own.merge(others),
            (own, others) => *own = own.take().or(others),
        }
    }

    /// Latencies of valid answers from the scheduled instant.
    pub fn latency(&self) -> Latency {
        times::summarize(&self.latency_ns)
    }

    /// Latencies of valid answers from the sending.
    pub(crate) fn latency_from_send(&self) -> Latency {
        times::summarize(&self.latency_from_send_ns)
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
        self.valid_by_window
            .chunks(WINDOWS_PER_SECOND)
            .enumerate()
            .map(|(second, valid)| {
                let valid = valid.iter().map(|&count| u64::from(count)).sum();
                let from = second as u64 * SECOND_NS;
                let due = self.due_between(start_ns + from, start_ns + from + SECOND_NS);
                let ms = (from / MS_NS) as usize;
                let last = second + 1 == self.by_second.len();
                let end = if last { self.sent_by_ms.len() } else { ms + 1000 };
                let sent = self.sent_by_ms[ms..end].iter().map(|&count| u64::from(count)).sum();
                Interval { start_s: second as f64, sent, valid, failed: due.saturating_sub(valid) }
            })
            .collect()
    }

    /// The answers of each of these seconds; empty where they were not looked at one by one.
    pub fn answers(&self) -> Vec<Answers> {
        let answers: Vec<Answers> = self.by_second.iter().map(Second::answers).collect();
        if answers.iter().all(|second| second.rcodes.is_empty()) { Vec::new() } else { answers }
    }

    /// How even the sending was.
    pub fn windows(&self) -> Windows {
        Windows { ms1: self.window(1), ms10: self.window(10), ms100: self.window(100) }
    }

    /// Queries that were sent in another 10 ms window than they were due in. A burst takes its time, and
    /// where it falls among the windows says nothing: of bursts it is those sent more than half such a window
    /// late.
    pub fn displaced(&self) -> u64 {
        if matches!(self.schedule.model, Model::Burst { .. } | Model::Replay(_) | Model::Recorded(_)) {
            return self.lateness_ns.count_between(TARDY_NS, times::MAX_NS);
        }
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

    /// A window is uneven only if it is off by more than one query, which a query sent a moment late can
    /// make.
    fn window(&self, length_ms: usize) -> Window {
        let nominal = self.nominal(length_ms);
        let (mut worst_pct, mut squares, mut off, mut windows) = (0f64, 0f64, 0f64, 0f64);
        let (mut fewest, mut total, mut most) = (u64::MAX, 0, 0);
        for (sent, due) in self.counts(length_ms) {
            (fewest, total, most) = (fewest.min(sent), total + sent, most.max(sent));
            let deviation = sent.abs_diff(due) as f64;
            let whole = self.whole(due, length_ms);
            worst_pct = worst_pct.max(deviation / whole * 100.0);
            off += f64::from(u8::from((deviation - 1.0) / whole * 100.0 > WINDOW_DEVIATION.value));
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
            fewest,
            mean: total as f64 / windows,
            most,
        }
    }

    /// The queries of a window of so many milliseconds at the average rate.
    fn nominal(&self, length_ms: usize) -> f64 {
        self.schedule.rate_qps as f64 * length_ms as f64 / 1000.0
    }

    /// What the deviation of such a window is a share of, where so many queries are due in it.
    fn whole(&self, due: u64, length_ms: usize) -> f64 {
        match self.schedule.model {
            Model::Steps(_) | Model::Ramp { .. } | Model::Sine(_) => due.max(1) as f64,
            // Where hardly any query is due, one that is a moment late would count for much.
            Model::Replay(_) | Model::Recorded(_) | Model::Rates(_) => {
                self.nominal(length_ms).max(due as f64)
            }
            _ => self.nominal(length_ms),
        }
    }

    fn due_between(&self, from_ns: u64, to_ns: u64) -> u64 {
        if !self.schedule.is_closed_form() {
            let window = |instant_ns: u64| {
                ((instant_ns - self.schedule.start_ns) / MS_NS).min(self.due_by_ms.len() as u64) as usize
            };
            return self.due_by_ms[window(from_ns)..window(to_ns)]
                .iter()
                .map(|&count| u64::from(count))
                .sum();
        }
        let before =
            |instant_ns: u64| instant_ns.checked_sub(1).map_or(0, |last| self.schedule.due_count(last));
        before(to_ns) - before(from_ns)
    }
}

/// Number, mean and spread of values; adding them up loses nothing (T. Chan, G. Golub, R. LeVeque 1979).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    count: u64,
    mean: f64,
    squares: f64,
    max: f64,
}

impl Spread {
    /// Adds one value to the sums.
    pub fn add(&mut self, value: f64) {
        self.merge(&Self { count: 1, mean: value, squares: 0.0, max: value });
    }

    /// Adds what another thread counted; the order makes no difference.
    pub fn merge(&mut self, other: &Self) {
        let count = self.count + other.count;
        if count == 0 {
            return;
        }
        let distance = other.mean - self.mean;
        let share = other.count as f64 / count as f64;
        self.squares += other.squares + distance * distance * self.count as f64 * share;
        self.mean += distance * share;
        self.max = if self.count == 0 { other.max } else { self.max.max(other.max) };
        self.count = count;
    }

    /// For the record; `None` if there is no value.
    pub fn to_record(&self) -> Option<Experiments> {
        let variance = if self.count > 1 { self.squares / (self.count - 1) as f64 } else { 0.0 };
        (self.count > 0).then(|| Experiments {
            count: self.count,
            mean_ns: self.mean,
            sd_ns: variance.sqrt(),
            max_ns: self.max,
        })
    }
}

fn add<T: Copy + std::ops::AddAssign>(own: &mut [T], others: &[T]) {
    for (own, other) in own.iter_mut().zip(others) {
        *own += *other;
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
        let windows = stats.windows();
        for window in [windows.ms1, windows.ms10, windows.ms100] {
            assert_eq!((window.worst_pct, window.cv_pct, window.off_pct), (0.0, 0.0, 0.0));
        }
        assert_eq!(windows.ms10.fewest, windows.ms10.most);
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
        assert_eq!((windows.ms10.fewest, windows.ms10.mean, windows.ms10.most), (500, 1000.0, 1500));
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

    #[test]
    fn spreads_add_up() {
        let (mut whole, mut halves) = (Spread::default(), [Spread::default(); 2]);
        for value in [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0] {
            whole.add(value);
            halves[usize::from(value > 4.5)].add(value);
        }
        let [mut merged, other] = halves;
        merged.merge(&other);
        for spread in [whole, merged] {
            let record = spread.to_record().unwrap();
            assert_eq!((record.count, record.mean_ns, record.max_ns), (8, 5.0, 9.0));
            assert!((record.sd_ns - (32.0f64 / 7.0).sqrt()).abs() < 1e-9);
        }
        assert_eq!(Spread::default().to_record(), None);
    }

    #[test]
    fn uneven_models_are_even_where_sent_is_what_was_due() {
        for model in ["poisson:3", "steps:1000,50000", "ramp:100-20000", "burst:256"] {
            let model: Model = model.parse().unwrap();
            let schedule = Schedule::with_model(1_000_000, 10_000, SECOND_NS, model);
            let (mut perfect, mut stalled) = (Stats::new(schedule), Stats::new(schedule));
            let mut cursor = crate::pacer::Cursor::new(schedule, 0, 1);
            let stall = schedule.start_ns + 700 * MS_NS;
            for _ in 0..schedule.queries {
                let due = cursor.next_ns();
                for stats in [&mut perfect, &mut stalled] {
                    stats.note_due(due);
                }
                perfect.note_sent(due, due);
                let late = (stall..stall + 150 * MS_NS).contains(&due);
                stalled.note_sent(due, if late { stall + 150 * MS_NS } else { due });
            }
            let windows = perfect.windows();
            for window in [windows.ms1, windows.ms10, windows.ms100] {
                assert_eq!((window.worst_pct, window.off_pct), (0.0, 0.0), "{model}");
            }
            assert_eq!(perfect.displaced(), 0, "{model}");
            assert!(stalled.windows().ms10.off_pct > 2.0 || model == Model::Burst { queries: 256 });
            assert!(stalled.displaced() > 700, "{model}: {}", stalled.displaced());
            let due: u64 = perfect.series().iter().map(|interval| interval.failed).sum();
            assert_eq!(due, schedule.queries, "{model}");
        }
    }
}
