//! The trial in windows of 10 ms: in which of them queries failed that were due there, and in which of them
//! the Tester paused or made up for a pause.
//!
//! A failure may be the Tester's only where both coincide. A failure lies in the window in which its query
//! was due, whenever the query was sent or the failure was noticed.

use std::ops::Range;

use super::{MS_NS, SECOND_NS, Stats, WINDOW_DEVIATION};
use record::limits::AFTER_A_PAUSE;

/// The length of a window in ns.
pub const WINDOW_NS: u64 = 10 * MS_NS;
/// The same in ms.
const WINDOW_MS: usize = (WINDOW_NS / MS_NS) as usize;
/// Windows of a second.
pub(super) const WINDOWS_PER_SECOND: usize = (SECOND_NS / WINDOW_NS) as usize;

/// The number of windows of a trial of that length; the last one may be shorter.
pub(super) fn windows_of(duration_ns: u64) -> usize {
    duration_ns.div_ceil(WINDOW_NS) as usize
}

/// A pause of the Tester, the burst that made up for the pause, and the time after it in which a queue that
/// the burst filled may still be full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// From the window before the first uneven one, where the pause may have begun.
    pub windows: Range<usize>,
    /// Queries that were sent in another window than they were due in.
    pub displaced: u64,
}

impl Stats {
    /// The window that an instant is in; what is due at the very end counts for the last one.
    #[inline]
    pub(super) fn window_at(&self, instant_ns: u64) -> usize {
        let window = instant_ns.saturating_sub(self.schedule.start_ns) / WINDOW_NS;
        (window as usize).min(self.valid_by_window.len().saturating_sub(1))
    }

    /// Notes a query that was sent late, where the load comes in bursts.
    #[cold]
    pub(super) fn note_tardy(&mut self, due_ns: u64, now_ns: u64) {
        let Some(last) = self.tardy_by_window.len().checked_sub(1) else { return };
        let sent = (now_ns.saturating_sub(self.schedule.start_ns) / WINDOW_NS) as usize;
        let due = self.window_at(due_ns);
        self.tardy_by_window[due] -= 1;
        self.tardy_by_window[sent.min(last)] += 1;
    }

    /// Notes a wrong answer that dns64perf++ takes for valid.
    #[cold]
    pub(crate) fn note_compat_alone(&mut self, due_ns: u64) {
        self.compat_by_window.resize(self.valid_by_window.len(), 0);
        let window = self.window_at(due_ns);
        self.compat_by_window[window] += 1;
    }

    /// The queries of each window without a valid answer in time; with `compat`, by dns64perf++'s rule. What
    /// was counted elsewhere may not be known by windows; then the sum is not that of the trial.
    pub fn failures(&self, compat: bool) -> Vec<u32> {
        let windows = self.valid_by_window.iter().enumerate();
        let failures = windows.map(|(window, &valid)| {
            let alone = if compat { self.compat_by_window.get(window).copied().unwrap_or(0) } else { 0 };
            let due = u32::try_from(self.due_in(window)).unwrap_or(u32::MAX);
            due.saturating_sub(valid).saturating_sub(alone)
        });
        failures.collect()
    }

    /// The queries due in a window.
    pub(crate) fn due_in(&self, window: usize) -> u64 {
        let from_ns = self.schedule.start_ns + window as u64 * WINDOW_NS;
        if window + 1 < self.valid_by_window.len() {
            return self.due_between(from_ns, from_ns + WINDOW_NS);
        }
        if self.schedule.is_closed_form() {
            return self.schedule.queries - self.due_between(self.schedule.start_ns, from_ns);
        }
        let rest = self.due_by_ms.get(window * WINDOW_MS..).unwrap_or_default();
        rest.iter().map(|&count| u64::from(count)).sum()
    }

    /// The pauses of the Tester in their order; none overlaps another.
    pub fn pauses(&self) -> Vec<Pause> {
        let deviations = self.deviations();
        let mut pauses: Vec<Pause> = Vec::new();
        let mut at = 0;
        while at < deviations.len() {
            if deviations[at].abs() <= self.tolerance(at) {
                at += 1;
                continue;
            }
            let first = self.origin(&deviations, at);
            let (end, displaced) = self.made_good(&deviations, at);
            let after = ((end - first) as f64 * AFTER_A_PAUSE.value / 100.0).ceil().max(1.0) as usize;
            let windows = first.saturating_sub(1)..end + after;
            match pauses.last_mut().filter(|last| windows.start < last.windows.end) {
                Some(last) => {
                    last.windows.end = last.windows.end.max(windows.end);
                    last.displaced += displaced;
                }
                None => pauses.push(Pause { windows, displaced }),
            }
            at = end;
        }
        pauses
    }

    /// For each window, how many more queries were sent than were due in it; at the end those sent after the
    /// end. A burst takes its time, and where it falls among the windows says nothing: of bursts, the queries
    /// sent more than half a window late are looked at alone.
    fn deviations(&self) -> Vec<i64> {
        if !self.tardy_by_window.is_empty() {
            return self.tardy_by_window.iter().map(|&count| count.into()).collect();
        }
        let (after_the_end, within) = self.sent_by_ms.split_last().unwrap_or((&0, &[]));
        let deviation = |(window, counts): (usize, &[u32])| {
            counts.iter().map(|&count| i64::from(count)).sum::<i64>() - self.due_in(window) as i64
        };
        let deviations = within.chunks(WINDOW_MS).enumerate().map(deviation);
        deviations.chain([i64::from(*after_the_end)]).collect()
    }

    /// What a window may deviate by and still be even: more than a query that was sent a moment late can
    /// make. [`Stats::windows`] counts the windows that exceed it.
    fn tolerance(&self, window: usize) -> i64 {
        if !self.tardy_by_window.is_empty() {
            return 0;
        }
        let due = if window < self.valid_by_window.len() { self.due_in(window) } else { 0 };
        1 + (self.whole(due, WINDOW_MS) * WINDOW_DEVIATION.value / 100.0) as i64
    }

    /// The first window of a pause that shows at this one. Where few queries are due, only the burst after a
    /// pause is uneven: it began where as many are missing as the burst has too many.
    fn origin(&self, deviations: &[i64], at: usize) -> usize {
        let latest = (self.lateness_ns.max() / WINDOW_NS) as usize + 1;
        let (mut first, mut unexplained) = (at, deviations[at]);
        while unexplained > self.tolerance(at) && first > at.saturating_sub(latest) {
            first -= 1;
            unexplained += deviations[first];
        }
        first
    }

    /// The window after the one in which the queries were made good that are missing since this one, and how
    /// many were displaced meanwhile.
    fn made_good(&self, deviations: &[i64], at: usize) -> (usize, u64) {
        // A deviation of one is rounding.
        let rounding = i64::from(self.tardy_by_window.is_empty());
        let (mut end, mut missing, mut displaced) = (at, 0, 0);
        while end < deviations.len() && (end == at || missing > self.tolerance(end)) {
            let is_last = end + 1 == deviations.len();
            missing -= deviations[end];
            displaced += (deviations[end] - if is_last { 0 } else { rounding }).max(0);
            end += 1;
        }
        (end, displaced as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacer::{Cursor, Model, Schedule};
    use proptest::prelude::*;

    /// A trial of one second in which so many ns lie between the instant at which a query is due, counted
    /// from the start, and its sending.
    fn sent(rate_qps: u64, model: Model, lateness_ns: impl Fn(u64) -> u64) -> Stats {
        let schedule = Schedule::with_model(7_000_000, rate_qps, SECOND_NS, model);
        let mut stats = Stats::new(schedule);
        let mut cursor = Cursor::new(schedule, 0, 1);
        for _ in 0..schedule.queries {
            let due_ns = cursor.next_ns();
            stats.note_due(due_ns);
            stats.note_sent(due_ns, due_ns + lateness_ns(due_ns - schedule.start_ns));
        }
        stats
    }

    /// Nothing is sent from one instant to the other, in ms; then all of it at once.
    fn pausing(from_ms: u64, until_ms: u64) -> impl Fn(u64) -> u64 {
        move |due_ns| match due_ns {
            due_ns if (from_ms * MS_NS..until_ms * MS_NS).contains(&due_ns) => until_ms * MS_NS - due_ns,
            _ => 0,
        }
    }

    #[test]
    fn a_pause_lasts_from_the_window_before_it_until_as_long_after_it() {
        let pauses = |from_ms, until_ms| sent(10_000, Model::Constant, pausing(from_ms, until_ms)).pauses();
        // Windows 50 to 53 miss queries, 54 has them; as long again after it.
        assert_eq!(pauses(500, 540), [Pause { windows: 49..60, displaced: 399 }]);
        assert_eq!(pauses(505, 510), [Pause { windows: 49..54, displaced: 49 }]);
        assert_eq!(pauses(506, 509), [], "made good within the window");
        assert_eq!(pauses(0, 20), [Pause { windows: 0..6, displaced: 199 }]);
        assert_eq!(pauses(980, 1000), [Pause { windows: 97..104, displaced: 200 }], "sent after the end");
    }

    #[test]
    fn a_pause_is_found_at_any_load() {
        let burst = Model::Burst { queries: 1000 };
        for (rate_qps, model, bound) in [
            // One query a window: only the burst is uneven.
            (100, Model::Constant, 4..=5),
            (10_000, Model::Poisson { seed: 1 }, 400..=600),
            (10_000, "steps:5000,15000".parse().unwrap(), 700..=750),
            (10_000, "ramp:100-20000".parse().unwrap(), 400..=600),
            // The burst that is due at 500 ms.
            (10_000, burst, 1000..=1000),
        ] {
            let pauses = sent(rate_qps, model, pausing(500, 550)).pauses();
            let [pause] = &pauses[..] else { panic!("{model}: {pauses:?}") };
            assert!(pause.windows.contains(&50) && pause.windows.contains(&55), "{model}: {pause:?}");
            assert!(pause.windows.start >= 48 && pause.windows.end <= 64, "{model}: {pause:?}");
            assert!(bound.contains(&pause.displaced), "{model}: {pause:?}");
            assert_eq!(sent(rate_qps, model, |_| 0).pauses(), [], "{model}");
        }
        let closed = sent(10_000, Model::Window { queries: 4 }, |_| 0);
        assert_eq!(closed.pauses(), []);
    }

    #[test]
    fn a_sender_that_is_always_a_little_late_does_not_pause() {
        assert_eq!(sent(50_000, Model::Constant, |due_ns| 300_000 + due_ns % 70_000).pauses(), []);
    }

    #[test]
    fn failures_are_counted_where_their_queries_were_due() {
        for model in ["constant", "poisson:3", "burst:64", "ramp:100-20000"] {
            let model: Model = model.parse().unwrap();
            let schedule = Schedule::with_model(5, 10_000, 2_345_000_000, model);
            let mut halves = [Stats::new(schedule), Stats::new(schedule)];
            let mut cursor = Cursor::new(schedule, 0, 1);
            let mut expected = vec![0; 235];
            for n in 0..schedule.queries {
                let due_ns = cursor.next_ns();
                let half = &mut halves[(n % 2) as usize];
                half.note_due(due_ns);
                match n % 7 {
                    0 => expected[((due_ns - 5) / WINDOW_NS) as usize] += 1,
                    1 => half.note_compat_alone(due_ns),
                    _ => half.note_valid(due_ns, 0, due_ns + 900 * MS_NS),
                }
            }
            let [mut all, other] = halves;
            all.merge(other);
            assert_eq!(all.failures(true), expected, "{model}");
            let strictly: u64 = all.failures(false).iter().map(|&count| u64::from(count)).sum();
            assert_eq!(strictly, schedule.queries - all.valid, "{model}");
        }
    }

    proptest! {
        /// Whatever the sending, pauses are in order and apart, lie about the trial, and displaced no more
        /// than the whole trial did.
        #[test]
        fn pauses_are_apart_and_displace_no_more_than_all(
            rate_qps in 50u64..20_000,
            stalls in prop::collection::vec((0u64..1000, 1u64..200), 0..6),
            burst in any::<bool>(),
        ) {
            let model = if burst { Model::Burst { queries: 50 } } else { Model::Constant };
            let until = |due_ns: u64| {
                let until = |(from_ms, for_ms): &(u64, u64)| pausing(*from_ms, from_ms + for_ms)(due_ns);
                stalls.iter().map(until).max().unwrap_or(0)
            };
            let stats = sent(rate_qps, model, until);
            let pauses = stats.pauses();
            prop_assert!(pauses.is_sorted_by(|one, next| one.windows.end <= next.windows.start));
            prop_assert!(pauses.iter().all(|pause| pause.windows.start <= 100 && !pause.windows.is_empty()));
            let displaced: u64 = pauses.iter().map(|pause| pause.displaced).sum();
            prop_assert!(displaced <= stats.displaced(), "{displaced} of {}", stats.displaced());
        }
    }
}
