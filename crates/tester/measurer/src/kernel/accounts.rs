//! What the programs count, in memory shared with them: `struct account` of `bpf/measurer.h`, and two bits a
//! query.

use std::ops::Range;
use std::sync::atomic::Ordering;

use engine::matcher::Defect;
use engine::pacer::Schedule;
use engine::stats::Stats;

use super::parameters::Parameters;
use crate::live::Counts;
use sys::bpf::{BpfError, Object, Shared};

/// The words of `struct account`, in its order.
mod word {
    pub const START_NS: usize = 0;
    pub const ENABLED: usize = 1;
    pub const NEXT: usize = 2;
    pub const DUE_NS: usize = 3;
    pub const DUE_REST: usize = 4;
    pub const WINDOW: usize = 5;
    pub const WINDOW_END_NS: usize = 6;
    pub const IN_WINDOW: usize = 7;
    pub const FIRST_SENT_AT: usize = 10;
    pub const SENT: usize = 11;
    pub const ANSWERED: usize = 12;
    pub const LATE: usize = 13;
    pub const DUPLICATES: usize = 14;
    pub const UNEXPECTED: usize = 15;
    pub const OVERFLOW: usize = 16;
    pub const UNREADABLE: usize = 17;
    pub const DOUBTFUL: usize = 18;
    pub const COMPAT: usize = 19;
    pub const PASSED: usize = 20;
    pub const RCODES: usize = 32;
    pub const FAILED_RCODES: usize = RCODES + 16;
    pub const LATENESS: usize = FAILED_RCODES + 16;
    pub const LATENCY: usize = LATENESS + super::BUCKETS;
    pub const LATENCY_FROM_SEND: usize = LATENCY + super::BUCKETS;
    pub const END: usize = LATENCY_FROM_SEND + super::BUCKETS;
}

/// Histograms: exact up to 127 ns, then 128 buckets for each power of two.
const BUCKET_BITS: u32 = 7;
const BUCKETS: usize = 4096;
/// A millisecond in ns.
const MS_NS: u64 = 1_000_000;
/// The start of a trial that has none yet: whatever the sink sees is before it, so that late answers of an
/// earlier trial are nobody's. The instants after it still fit 64 bits.
const NOT_STARTED_NS: u64 = 1 << 63;

/// All accounts of a trial.
#[derive(Debug)]
pub(super) struct Accounts {
    accounts: Shared,
    answered: Shared,
    failed: Shared,
    windows: Shared,
    processors: usize,
    queries: u64,
    bits: BitPlaces,
    /// Entries of a lane's ring of sending times.
    sent_of_lane: u64,
}

/// Where the bits of queries stand: those of each lane side by side, from a cache line of their own on.
#[derive(Clone, Copy, Debug)]
struct BitPlaces {
    lanes: u64,
    lane_words: u64,
}

impl BitPlaces {
    /// The word with the bit of query `n`, and the bit.
    fn of(self, n: u64) -> (u64, u64) {
        let (lane, index) = (n % self.lanes, n / self.lanes);
        (lane * self.lane_words + index / 64, 1 << (index % 64))
    }

    /// The words with the bits of these queries, and which bits of them these are.
    fn among(self, numbers: &Range<u64>) -> impl Iterator<Item = (u64, u64)> {
        let (Self { lanes, lane_words }, Range { start, end }) = (self, numbers.clone());
        (0..lanes).flat_map(move |lane| {
            // The lane's queries below a number.
            let below = |n: u64| n.saturating_sub(lane).div_ceil(lanes);
            let (start, end) = (below(start), below(end));
            (start / 64..end.div_ceil(64)).map(move |word| {
                let from = start.saturating_sub(word * 64);
                let beyond = (word * 64 + 64).saturating_sub(end);
                let within = u64::MAX << from & u64::MAX.checked_shr(beyond as u32).unwrap_or(0);
                (lane * lane_words + word, within)
            })
        })
    }
}

/// The sizes of the maps for a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    processors: usize,
    bit_words: usize,
    windows: usize,
    sent: usize,
}

impl Sizes {
    pub(super) fn of(parameters: &Parameters, processors: usize) -> Self {
        Self {
            processors,
            bit_words: (parameters.lanes * parameters.lane_words) as usize,
            windows: parameters.windows as usize,
            sent: (parameters.lanes * (parameters.sent_mask + 1)) as usize,
        }
    }

    /// The maps by their names. All are below 2^32, for so are the queries and the windows.
    pub(super) fn entries(&self) -> [(&'static str, u32); 5] {
        [
            ("accounts", self.processors as u32),
            ("answered", self.bit_words as u32),
            ("failed", self.bit_words as u32),
            ("windows", self.windows as u32),
            ("sent_at", self.sent as u32),
        ]
    }
}

impl Accounts {
    /// Shares the maps of a loaded object.
    pub(super) fn share(
        object: &mut Object,
        parameters: &Parameters,
        sizes: &Sizes,
    ) -> Result<Self, BpfError> {
        let mut share = |map: &str, words| Shared::new(object.take_map(map)?, words);
        let accounts = Self {
            accounts: share("accounts", sizes.processors * word::END)?,
            answered: share("answered", sizes.bit_words)?,
            failed: share("failed", sizes.bit_words)?,
            windows: share("windows", sizes.windows)?,
            processors: sizes.processors,
            queries: parameters.queries,
            bits: BitPlaces { lanes: parameters.lanes, lane_words: parameters.lane_words },
            sent_of_lane: parameters.sent_mask + 1,
        };
        accounts.set_start(NOT_STARTED_NS);
        Ok(accounts)
    }

    /// Tells all processors when the trial starts, and those of lanes which queries are theirs.
    pub(super) fn start(&self, schedule: &Schedule, processors_of_lanes: &[usize]) {
        self.set_start(schedule.start_ns);
        for (lane, &processor) in processors_of_lanes.iter().enumerate() {
            self.set(processor, word::NEXT, lane as u64);
            self.set(processor, word::DUE_NS, schedule.due_ns(lane as u64));
            self.set(processor, word::DUE_REST, rest_of(schedule, lane as u64));
            self.set(processor, word::FIRST_SENT_AT, lane as u64 * self.sent_of_lane);
            self.set(processor, word::WINDOW, 0);
            self.set(processor, word::WINDOW_END_NS, schedule.start_ns + MS_NS);
            // The program looks at nothing before this is set.
            self.accounts.words()[processor * word::END + word::ENABLED].store(1, Ordering::Release);
        }
    }

    fn set_start(&self, start_ns: u64) {
        for processor in 0..self.processors {
            self.set(processor, word::START_NS, start_ns);
        }
    }

    fn set(&self, processor: usize, word: usize, value: u64) {
        self.accounts.words()[processor * word::END + word].store(value, Ordering::Relaxed);
    }

    fn get(&self, processor: usize, word: usize) -> u64 {
        self.accounts.get(processor * word::END + word)
    }

    fn sum(&self, word: usize) -> u64 {
        (0..self.processors).map(|processor| self.get(processor, word)).sum()
    }

    /// Whether the lane of a processor has sent all its queries.
    pub(super) fn is_sent(&self, processor: usize) -> bool {
        self.get(processor, word::NEXT) >= self.queries
    }

    /// Whether every query has been answered, one way or the other.
    pub(super) fn all_answered(&self) -> bool {
        self.sum(word::ANSWERED) >= self.queries
    }

    /// Frames that the sink took from the device.
    pub(super) fn taken(&self) -> u64 {
        [word::ANSWERED, word::DUPLICATES, word::UNEXPECTED].iter().map(|&word| self.sum(word)).sum()
    }

    /// Frames that the sink left to the stack.
    pub(super) fn passed(&self) -> u64 {
        self.sum(word::PASSED)
    }

    /// Answers that could not be read or handed over: the Measurer's own losses.
    pub(super) fn own_drops(&self) -> u64 {
        self.sum(word::OVERFLOW) + self.sum(word::UNREADABLE)
    }

    /// What was counted so far, with what user space has judged.
    pub(super) fn counts(&self, judged: &Stats) -> Counts {
        let (answered, late) = (self.sum(word::ANSWERED), self.sum(word::LATE));
        let refused = (1..16).map(|rcode| self.sum(word::FAILED_RCODES + rcode)).sum::<u64>();
        let doubtful = self.sum(word::DOUBTFUL) + self.sum(word::OVERFLOW);
        Counts {
            sent: self.sum(word::SENT),
            // The counters are read one after the other while they are counted up.
            valid: answered.saturating_sub(late + refused + doubtful) + judged.valid,
            invalid: refused + judged.invalid,
            late,
            duplicates: self.sum(word::DUPLICATES),
            unexpected: self.sum(word::UNEXPECTED),
            ..Counts::default()
        }
    }

    /// Notes that the answer to query `n` was found wrong.
    pub(super) fn mark_failed(&self, n: u64) {
        let (word, bit) = self.bits.of(n);
        if let Some(word) = self.failed.words().get(word as usize) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Adds everything that the programs counted. No lane may be at work any more.
    pub(super) fn add_to(&self, stats: &mut Stats) {
        for (window, queries) in self.windows.words().iter().enumerate() {
            stats.add_sent(window, queries.load(Ordering::Relaxed));
        }
        for processor in 0..self.processors {
            // What was sent in the window that is not over yet.
            stats.add_sent(self.get(processor, word::WINDOW) as usize, self.get(processor, word::IN_WINDOW));
            self.each_bucket(processor, word::LATENESS, |ns, count| stats.add_lateness(ns, count));
            self.each_bucket(processor, word::LATENCY, |ns, count| stats.add_latency(ns, count));
            self.each_bucket(processor, word::LATENCY_FROM_SEND, |ns, count| {
                stats.add_latency_from_send(ns, count);
            });
        }
        stats.valid_compat += self.sum(word::COMPAT);
        stats.late += self.sum(word::LATE);
        stats.duplicates += self.sum(word::DUPLICATES);
        stats.unexpected += self.sum(word::UNEXPECTED);
        for rcode in 0..16u8 {
            stats.rcodes[usize::from(rcode)] += self.sum(word::RCODES + usize::from(rcode));
            let failed = self.sum(word::FAILED_RCODES + usize::from(rcode));
            if failed > 0 {
                stats.invalid += failed;
                *stats.defects.entry(Defect::Rcode(rcode).to_string()).or_default() += failed;
            }
        }
        stats.count_by_window(|numbers| self.valid_among(numbers));
    }

    fn each_bucket(&self, processor: usize, first: usize, mut take: impl FnMut(u64, u64)) {
        for bucket in 0..BUCKETS {
            let count = self.get(processor, first + bucket);
            if count > 0 {
                take(middle_of(bucket as u64), count);
            }
        }
    }

    /// How many of these queries were answered and not marked as failed.
    fn valid_among(&self, numbers: Range<u64>) -> u64 {
        let valid = |word: usize| self.answered.get(word) & !self.failed.get(word);
        let words = self.bits.among(&numbers);
        words.map(|(word, within)| u64::from((valid(word as usize) & within).count_ones())).sum()
    }
}

/// What is left of n * 10^9 / rate, by which the program keeps the schedule exact.
fn rest_of(schedule: &Schedule, n: u64) -> u64 {
    (u128::from(n) * 1_000_000_000 % u128::from(schedule.rate_qps)) as u64
}

/// The time in the middle of a bucket, in ns.
fn middle_of(bucket: u64) -> u64 {
    let exponent = (bucket >> BUCKET_BITS) as u32;
    if exponent < 2 {
        // Exact: one ns each.
        return bucket;
    }
    let mantissa = (1 << BUCKET_BITS) + (bucket & ((1 << BUCKET_BITS) - 1));
    let width = 1 << (exponent - 1);
    mantissa * width + width / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects;
    use proptest::prelude::*;
    use sys::bpf::layout::Layout;

    #[test]
    fn accounts_are_laid_out_as_in_the_program() {
        let layout = Layout::of(objects::MEASURER, "account").unwrap();
        // The program's own: two words after IN_WINDOW, and those up to RCODES.
        let expected = [
            ("start_ns", word::START_NS),
            ("enabled", word::ENABLED),
            ("next", word::NEXT),
            ("due_ns", word::DUE_NS),
            ("due_rest", word::DUE_REST),
            ("window", word::WINDOW),
            ("window_end_ns", word::WINDOW_END_NS),
            ("in_window", word::IN_WINDOW),
            ("clock_ns", word::IN_WINDOW + 1),
            ("clock_uses", word::IN_WINDOW + 2),
            ("first_sent_at", word::FIRST_SENT_AT),
            ("sent", word::SENT),
            ("answered", word::ANSWERED),
            ("late", word::LATE),
            ("duplicates", word::DUPLICATES),
            ("unexpected", word::UNEXPECTED),
            ("overflow", word::OVERFLOW),
            ("unreadable", word::UNREADABLE),
            ("doubtful", word::DOUBTFUL),
            ("compat", word::COMPAT),
            ("passed", word::PASSED),
            ("padding", word::PASSED + 1),
            ("rcodes", word::RCODES),
            ("failed_rcodes", word::FAILED_RCODES),
            ("lateness_ns", word::LATENESS),
            ("latency_ns", word::LATENCY),
            ("latency_from_send_ns", word::LATENCY_FROM_SEND),
        ];
        assert_eq!(layout.offsets(), expected.map(|(name, word)| (name, 8 * word)));
        assert_eq!(layout.octets, 8 * word::END);
    }

    proptest! {
        #[test]
        fn each_query_of_a_range_has_its_bit(lanes in 1u64..9, start in 0u64..2000, length in 0u64..2000) {
            let bits = BitPlaces { lanes, lane_words: 64 };
            let mut found: Vec<(u64, u64)> = Vec::new();
            for (word, within) in bits.among(&(start..start + length)) {
                found.extend((0..64).map(|bit| (word, 1 << bit)).filter(|(_, bit)| within & bit != 0));
            }
            let mut expected: Vec<_> = (start..start + length).map(|n| bits.of(n)).collect();
            expected.sort_unstable();
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }

    /// The rule of `bucket_of` in `bpf/measurer.h`.
    fn bucket_of(ns: u64) -> u64 {
        if ns >> BUCKET_BITS == 0 {
            return ns;
        }
        let shift = u64::from(ns.ilog2() - BUCKET_BITS);
        ((shift + 1) << BUCKET_BITS) + (ns >> shift & ((1 << BUCKET_BITS) - 1))
    }

    #[test]
    fn buckets_are_less_than_one_percent_wide() {
        for bucket in 0..BUCKETS as u64 {
            assert_eq!(bucket_of(middle_of(bucket)), bucket);
        }
        for ns in [1, 127, 128, 300, 5_000, 123_456, 7_654_321, 2_000_000_000, (1 << 37) - 1] {
            let middle = middle_of(bucket_of(ns));
            assert!(middle.abs_diff(ns) as f64 <= ns as f64 * 0.004, "{ns}: {middle}");
        }
        assert_eq!(bucket_of((1 << 37) - 1), BUCKETS as u64 - 129);
    }
}
