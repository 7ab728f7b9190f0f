//! Adds counts and histograms that programs in the kernel have collected.

use std::ops::Range;

use super::{MS_NS, Stats, WINDOW_NS};
use crate::pacer::Schedule;

impl Stats {
    /// The number of windows of 1 ms that a schedule is counted in; the last one is open.
    pub fn windows_of(schedule: &Schedule) -> u64 {
        (schedule.end_ns() - schedule.start_ns).div_ceil(MS_NS) + 1
    }

    /// Adds queries sent in the window of 1 ms of that number, from 0; windows after the last count for it.
    pub fn add_sent(&mut self, window: usize, queries: u64) {
        let last = self.sent_by_ms.len() - 1;
        let own = &mut self.sent_by_ms[window.min(last)];
        *own = own.saturating_add(u32::try_from(queries).unwrap_or(u32::MAX));
        self.sent += queries;
    }

    /// Adds queries that were sent so late, in ns.
    pub fn add_lateness(&mut self, lateness_ns: u64, queries: u64) {
        self.lateness_ns.saturating_record_n(lateness_ns, queries);
    }

    /// Adds valid answers with a latency from the scheduled instant, in ns.
    pub fn add_latency(&mut self, latency_ns: u64, answers: u64) {
        self.valid += answers;
        self.latency_sum_ns = self.latency_sum_ns.saturating_add(latency_ns.saturating_mul(answers));
        self.latency_ns.saturating_record_n(latency_ns, answers);
    }

    /// Adds valid answers with a latency from the sending, in ns.
    pub fn add_latency_from_send(&mut self, latency_ns: u64, answers: u64) {
        self.latency_from_send_ns.saturating_record_n(latency_ns, answers);
    }

    /// Counts valid answers by the window of 10 ms that their queries were due in: `valid_among` says how
    /// many there are among the queries of these numbers.
    pub fn count_by_window(&mut self, mut valid_among: impl FnMut(Range<u64>) -> u64) {
        let last = self.valid_by_window.len().saturating_sub(1);
        let mut first = 0;
        for window in 0..self.valid_by_window.len() {
            let end_ns = self.schedule.start_ns + (window as u64 + 1) * WINDOW_NS;
            // What is due at the very end of a window belongs to the next one.
            let end =
                if window == last { self.schedule.queries } else { self.schedule.due_count(end_ns - 1) };
            let valid = u32::try_from(valid_among(first..end)).unwrap_or(u32::MAX);
            self.valid_by_window[window] = self.valid_by_window[window].saturating_add(valid);
            first = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_from_elsewhere_count_like_single_notes() {
        let schedule = Schedule::new(7_000_000, 1500, 2_500_000_000);
        let (mut single, mut imported) = (Stats::new(schedule), Stats::new(schedule));
        assert_eq!(Stats::windows_of(&schedule), 2501);
        let is_valid = |n: u64| n.is_multiple_of(3);
        for n in 0..schedule.queries {
            let due_ns = schedule.due_ns(n);
            single.note_sent(due_ns, due_ns + 50);
            imported.add_sent(((due_ns + 50 - schedule.start_ns) / MS_NS) as usize, 1);
            imported.add_lateness(50, 1);
            if is_valid(n) {
                single.note_valid(due_ns, 50, due_ns + 1000);
                imported.add_latency(1000, 1);
                imported.add_latency_from_send(950, 1);
            }
        }
        imported.count_by_window(|numbers| numbers.filter(|&n| is_valid(n)).count() as u64);
        assert_eq!(single.series(), imported.series());
        assert_eq!(single.failures(false), imported.failures(false));
        assert_eq!(single.windows(), imported.windows());
        assert_eq!((single.sent, single.valid), (imported.sent, imported.valid));
        assert_eq!(single.latency_sum_ns, imported.latency_sum_ns);
        assert_eq!(single.latency_from_send(), imported.latency_from_send());
        assert_eq!(
            (single.latency(), single.schedule_error()),
            (imported.latency(), imported.schedule_error())
        );
    }
}
