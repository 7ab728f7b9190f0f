//! How many events of a kind are written.

use std::sync::{Mutex, PoisonError};

/// Events of a kind that pass at once.
const BURST: u64 = 10;
/// After that, one passes in so long.
const INTERVAL_NS: u64 = 1_000_000_000;

/// A token bucket for each kind. Kinds are words of the program, so their number is bounded.
#[derive(Debug, Default)]
pub(super) struct Limits(Mutex<Vec<Bucket>>);

#[derive(Debug)]
struct Bucket {
    kind: &'static str,
    /// When the bucket is full again, on the monotonic clock.
    full_at_ns: u64,
    suppressed: u64,
}

impl Limits {
    /// Whether an event of a kind may be written at a time on the monotonic clock: how many of its kind were
    /// not written since the last, or nothing where the event is only counted.
    pub(super) fn take(&self, kind: &'static str, now_ns: u64) -> Option<u64> {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = buckets.iter().position(|bucket| bucket.kind == kind).unwrap_or_else(|| {
            buckets.push(Bucket { kind, full_at_ns: 0, suppressed: 0 });
            buckets.len() - 1
        });
        buckets[index].take(now_ns)
    }

    /// The kinds whose suppressed events no line has told of, though one could be written now.
    pub(super) fn untold(&self, now_ns: u64) -> Vec<(&'static str, u64)> {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = buckets.iter_mut().filter(|bucket| bucket.suppressed > 0 && bucket.has_room(now_ns));
        silent.filter_map(|bucket| Some((bucket.kind, bucket.take(now_ns)?))).collect()
    }
}

impl Bucket {
    fn has_room(&self, now_ns: u64) -> bool {
        self.full_at_ns.saturating_sub(now_ns) + INTERVAL_NS <= BURST * INTERVAL_NS
    }

    fn take(&mut self, now_ns: u64) -> Option<u64> {
        if !self.has_room(now_ns) {
            self.suppressed += 1;
            return None;
        }
        self.full_at_ns = self.full_at_ns.max(now_ns) + INTERVAL_NS;
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_pass_at_once_and_one_each_second() {
        let limits = Limits::default();
        let passed = (0..100).filter(|_| limits.take("a", 5) == Some(0)).count();
        assert_eq!(passed, 10);
        assert_eq!(limits.take("b", 5), Some(0));
        assert_eq!(limits.take("a", 5 + INTERVAL_NS), Some(90));
        assert_eq!(limits.take("a", 5 + INTERVAL_NS), None);
        assert_eq!(limits.untold(5 + INTERVAL_NS), []);
        assert_eq!(limits.untold(5 + 2 * INTERVAL_NS), [("a", 1)]);
        assert_eq!(limits.untold(5 + 3 * INTERVAL_NS), []);
    }
}
