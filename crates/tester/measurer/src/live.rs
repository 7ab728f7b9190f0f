//! The counts of a running trial, for readers such as an exporter or a progress line.
//!
//! Each of the Measurer's threads adds what has changed every 10 ms, so that readers and Measurer never wait
//! for each other. Counts are therefore up to 10 ms old, and latencies up to 200 ms: each time one bucket is
//! updated.

use std::sync::atomic::{AtomicU64, Ordering};

use engine::lane::Lane;
use engine::stats::Stats;

/// Upper bounds of the latency buckets in ns; the last bucket, above all of these, has none.
pub const LATENCY_BOUNDS_NS: [u64; 19] = [
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];
/// The buckets, with the one that has no bound.
pub const LATENCY_BUCKETS: usize = LATENCY_BOUNDS_NS.len() + 1;

/// How often a thread tells what it has counted, in ns.
const TELL_EVERY_NS: u64 = 10_000_000;

/// Makes [`Counts`] and its form as an array, in which threads add them up, of one list.
macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts over all threads and all trials since the start of the program.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The number of fields of [`Counts`].
        const COUNTS: usize = [$(stringify!($name)),*].len();

        impl Counts {
            fn to_array(self) -> [u64; COUNTS] {
                [$(self.$name),*]
            }

            fn from_array([$($name),*]: [u64; COUNTS]) -> Self {
                Self { $($name),* }
            }
        }
    };
}

counts! {
    /// Queries that the kernel took.
    sent,
    /// Queries that it did not take.
    send_errors,
    /// Answered in time and rightly.
    valid,
    /// Answered in time, but wrong.
    invalid,
    /// Answered after the timeout.
    late,
    /// Past their timeout and not answered. A late answer takes one back.
    lost,
    /// Second and later answers.
    duplicates,
    /// Datagrams that belong to no query.
    unexpected,
    /// Answers dropped at the Measurer's own sockets or rings; known at the end of each trial.
    own_drops,
    /// Sum of the latencies of valid answers from the scheduled instant, in ns.
    latency_sum_ns,
}

impl Counts {
    fn of(stats: &Stats, lost: u64, own_drops: u64) -> Self {
        Self {
            sent: stats.sent,
            send_errors: stats.send_errors,
            valid: stats.valid,
            invalid: stats.invalid,
            late: stats.late,
            lost,
            duplicates: stats.duplicates,
            unexpected: stats.unexpected,
            own_drops,
            latency_sum_ns: stats.latency_sum_ns,
        }
    }

    /// What was counted since an earlier reading.
    pub fn since(self, earlier: Self) -> Self {
        let earlier = earlier.to_array();
        let mut values = self.to_array();
        values.iter_mut().zip(earlier).for_each(|(now, then)| *now = now.saturating_sub(then));
        Self::from_array(values)
    }
}

/// The counts of all threads.
#[derive(Debug, Default)]
pub struct Live {
    counts: [AtomicU64; COUNTS],
    latency: [AtomicU64; LATENCY_BUCKETS],
    standing: AtomicU64,
}

impl Live {
    /// The connections that stand before the first query is due; 0 until they do, and without connections.
    pub fn standing(&self) -> u64 {
        self.standing.load(Ordering::Relaxed)
    }

    /// Tells how many stand.
    pub fn set_standing(&self, connections: u64) {
        self.standing.store(connections, Ordering::Relaxed);
    }

    /// The counts now.
    pub fn counts(&self) -> Counts {
        Counts::from_array(std::array::from_fn(|index| self.counts[index].load(Ordering::Relaxed)))
    }

    /// Valid answers in each of the latency buckets (not cumulative).
    pub fn latency(&self) -> [u64; LATENCY_BUCKETS] {
        std::array::from_fn(|index| self.latency[index].load(Ordering::Relaxed))
    }
}

/// A thread's way of telling.
#[derive(Debug)]
pub struct Reporter<'a> {
    live: &'a Live,
    told: [u64; COUNTS],
    told_latency: [u64; LATENCY_BUCKETS],
    bucket: usize,
    due_ns: u64,
}

impl<'a> Reporter<'a> {
    /// One that has told nothing yet.
    pub fn new(live: &'a Live) -> Self {
        Self { live, told: [0; COUNTS], told_latency: [0; LATENCY_BUCKETS], bucket: 0, due_ns: 0 }
    }

    /// Tells what the lane has counted, if it is time again.
    pub fn tell(&mut self, now_ns: u64, lane: &mut Lane) {
        if now_ns < self.due_ns {
            return;
        }
        self.due_ns = now_ns + TELL_EVERY_NS;
        let lost = lane.lost_so_far(now_ns);
        self.add(Counts::of(lane.stats(), lost, 0));
        self.add_latency(self.bucket, lane.stats());
        self.bucket = (self.bucket + 1) % LATENCY_BUCKETS;
    }

    /// Tells what was counted elsewhere, if it is time again.
    pub(crate) fn tell_counts(&mut self, now_ns: u64, count: impl FnOnce() -> Counts) {
        if now_ns >= self.due_ns {
            self.due_ns = now_ns + TELL_EVERY_NS;
            self.add(count());
        }
    }

    /// Tells what there is at the end, all of it.
    pub fn finish(mut self, stats: &Stats, own_drops: u64) {
        let lost = stats.sent.saturating_sub(stats.valid + stats.invalid + stats.late);
        self.add(Counts::of(stats, lost, own_drops));
        (0..LATENCY_BUCKETS).for_each(|bucket| self.add_latency(bucket, stats));
    }

    /// Adds what has changed. Differences wrap, so that a count may fall.
    fn add(&mut self, counts: Counts) {
        let now = counts.to_array();
        for ((shared, told), now) in self.live.counts.iter().zip(&mut self.told).zip(now) {
            if now != *told {
                shared.fetch_add(now.wrapping_sub(*told), Ordering::Relaxed);
                *told = now;
            }
        }
    }

    /// The histogram's own resolution, three digits, is finer than the bounds matter.
    fn add_latency(&mut self, bucket: usize, stats: &Stats) {
        let histogram = &stats.latency_ns;
        let above = |bound: &u64| histogram.next_non_equivalent(*bound);
        let low_ns = bucket.checked_sub(1).and_then(|below| LATENCY_BOUNDS_NS.get(below)).map_or(0, above);
        let high_ns = LATENCY_BOUNDS_NS.get(bucket).copied().unwrap_or(u64::MAX);
        let now = histogram.count_between(low_ns, high_ns);
        self.live.latency[bucket].fetch_add(now.wrapping_sub(self.told_latency[bucket]), Ordering::Relaxed);
        self.told_latency[bucket] = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::pacer::Schedule;

    fn stats(latencies_ns: &[u64]) -> Stats {
        let schedule = Schedule::new(0, 1000, 1_000_000_000);
        let mut stats = Stats::new(schedule);
        for (n, latency_ns) in latencies_ns.iter().enumerate() {
            let due_ns = schedule.due_ns(n as u64);
            stats.note_sent(due_ns, due_ns);
            stats.note_valid(due_ns, 0, due_ns + latency_ns);
        }
        stats
    }

    #[test]
    fn two_threads_add_up_and_a_count_may_fall() {
        let live = Live::default();
        let (mut one, two) = (Reporter::new(&live), Reporter::new(&live));
        let mut first = stats(&[5, 10_000, 10_500, 3_000_000_000, 99_000_000_000]);
        one.add(Counts::of(&first, 3, 0));
        assert_eq!((live.counts().sent, live.counts().lost), (5, 3));
        first.late += 1;
        first.sent += 1;
        one.finish(&first, 2);
        two.finish(&stats(&[7, 10_001]), 0);
        let counts = live.counts();
        assert_eq!((counts.sent, counts.valid, counts.late, counts.lost), (8, 7, 1, 0));
        assert_eq!(counts.own_drops, 2);
        assert_eq!(counts.latency_sum_ns, 5 + 10_000 + 10_500 + 3_000_000_000 + 99_000_000_000 + 7 + 10_001);
        let latency = live.latency();
        assert_eq!(latency.iter().sum::<u64>(), 7);
        // 10,001 ns shares the histogram's step with 10,000 ns.
        assert_eq!((latency[0], latency[1], latency[17], latency[19]), (4, 1, 1, 1));
        assert_eq!(counts.since(counts), Counts::default());
    }
}
