//! Instants that were recorded: real traffic with its own timing.

use super::SECOND_NS;

/// When each query was asked, in ns after the first, never falling. A schedule is copied into every lane, so
/// they live as long as the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times(&'static [u64]);

impl Times {
    /// Keeps the instants, counted from the first; `None` if there are none or one is before another.
    pub fn new(mut instants_ns: Vec<u64>) -> Option<Self> {
        let first_ns = *instants_ns.first()?;
        if !instants_ns.is_sorted() {
            return None;
        }
        instants_ns.iter_mut().for_each(|instant_ns| *instant_ns -= first_ns);
        Some(Self(instants_ns.leak()))
    }

    /// How long they last: the last one is just within.
    pub(super) fn length_ns(self) -> u64 {
        self.0.last().map_or(1, |last_ns| last_ns.saturating_add(1))
    }

    /// Queries of a schedule of this length.
    pub(super) fn queries(self, duration_ns: u64) -> u64 {
        self.0.partition_point(|&instant_ns| instant_ns < duration_ns) as u64
    }

    /// When query `n` is due, in ns after the start.
    pub(super) fn due_ns(self, n: u64) -> u64 {
        let at = usize::try_from(n).unwrap_or(usize::MAX);
        self.0.get(at).or(self.0.last()).copied().unwrap_or(0)
    }

    /// How many are due after so many ns.
    pub(super) fn count(self, elapsed_ns: u64) -> u64 {
        self.0.partition_point(|&instant_ns| instant_ns <= elapsed_ns) as u64
    }

    /// The most within any span of so many ns.
    pub(super) fn most_within(self, span_ns: u64) -> u64 {
        let (mut from, mut most) = (0, 0);
        for (to, &instant_ns) in self.0.iter().enumerate() {
            while instant_ns - self.0[from] > span_ns {
                from += 1;
            }
            most = most.max(to - from + 1);
        }
        most as u64
    }

    /// The most within any second.
    pub(super) fn peak_qps(self) -> u64 {
        self.most_within(SECOND_NS).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_count_from_the_first_and_never_fall() {
        let times = Times::new(vec![1000, 1000, 1500, 3000]).unwrap();
        assert_eq!((times.length_ns(), times.queries(500), times.queries(501)), (2001, 2, 3));
        assert_eq!(
            [times.due_ns(0), times.due_ns(2), times.due_ns(3), times.due_ns(99)],
            [0, 500, 2000, 2000]
        );
        assert_eq!([times.count(0), times.count(499), times.count(500), times.count(u64::MAX)], [2, 2, 3, 4]);
        assert_eq!([times.most_within(0), times.most_within(500), times.most_within(1500)], [2, 3, 3]);
        assert_eq!(times.peak_qps(), 4);
        assert!(Times::new(vec![]).is_none() && Times::new(vec![2, 1]).is_none());
    }
}
