//! Detects that somebody tries to guess the answers of an upstream server.

/// So many near misses within [`WINDOW_NS`], and the server is asked over streams alone for a while.
pub const NEAR_MISSES_MAX: u32 = 8;
/// Near misses that lie further apart have nothing to do with each other.
const WINDOW_NS: u64 = 60_000_000_000;
/// How long the server is asked over streams alone.
pub const GUARD_NS: u64 = 60_000_000_000;

/// The near misses at one server.
#[derive(Clone, Debug, Default)]
pub(super) struct Guard {
    total: u64,
    misses: u32,
    since_ns: u64,
    until_ns: u64,
}

impl Guard {
    /// An answer had the right question and a wrong ID. Returns whether the server is asked over streams
    /// alone from now on, and was not before.
    pub fn near_miss(&mut self, now_ns: u64) -> bool {
        self.total += 1;
        if now_ns.saturating_sub(self.since_ns) >= WINDOW_NS || self.misses == 0 {
            (self.misses, self.since_ns) = (0, now_ns);
        }
        self.misses += 1;
        if self.misses < NEAR_MISSES_MAX {
            return false;
        }
        let news = !self.is_on(now_ns);
        (self.misses, self.until_ns) = (0, now_ns + GUARD_NS);
        news
    }

    /// Whether the server is asked over streams alone.
    pub fn is_on(&self, now_ns: u64) -> bool {
        now_ns < self.until_ns
    }

    /// All near misses so far.
    pub fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_near_misses_within_a_minute_turn_it_on_for_a_minute() {
        let mut guard = Guard::default();
        for n in 1..NEAR_MISSES_MAX {
            assert!(!guard.near_miss(u64::from(n)) && !guard.is_on(u64::from(n)));
        }
        assert!(guard.near_miss(100) && guard.is_on(100 + GUARD_NS - 1) && !guard.is_on(100 + GUARD_NS));
        assert_eq!(guard.total(), u64::from(NEAR_MISSES_MAX));
    }

    #[test]
    fn a_few_in_an_hour_do_not() {
        let mut guard = Guard::default();
        for n in 0..100 {
            assert!(!guard.near_miss(n * WINDOW_NS / u64::from(NEAR_MISSES_MAX - 2)), "{n}");
        }
    }
}
