//! The rate limit of each network of clients: a token bucket.
//!
//! The table has a fixed size and is shared by all threads without a lock. A network is counted as long as
//! its entry stays, and the emptiest bucket is the last to give its place to another network. Two threads
//! that make or replace an entry at the same moment may let a few queries too many pass: a lock would cost
//! more than that.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use siphasher::sip::SipHasher13;

use crate::settings::RateLimit;

/// Networks that are known at once, and those among them that share a cache line.
const ENTRIES: usize = 65_536;
const WAYS: usize = 4;
const SETS: usize = ENTRIES / WAYS;

/// What becomes of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is within the limit.
    Pass,
    /// It is above: answer with TC, so that a client with a true address comes again by TCP.
    Slip,
    /// It is above: no answer.
    Drop,
}

/// The buckets of all client networks: /24 of IPv4, /56 of IPv6.
pub struct Buckets {
    sets: Box<[Set]>,
    hash: SipHasher13,
    interval_ns: u64,
    /// How far ahead of the time a bucket may be: an empty one is so far.
    ahead_max_ns: u64,
    slip: u32,
}

/// One cache line of entries.
#[derive(Default)]
#[repr(align(64))]
struct Set {
    /// Which network an entry is for, by its hash; 0 is free.
    tags: [AtomicU32; WAYS],
    /// Queries above the limit since the entry was made.
    above: [AtomicU32; WAYS],
    /// When the bucket will be full again, if nothing is taken; this one number is the whole bucket (GCRA).
    full_at_ns: [AtomicU64; WAYS],
}

impl Buckets {
    /// All buckets full. The seed must be secret: nobody may choose networks that share a set.
    pub fn new(limit: RateLimit, seed: [u8; 32]) -> Self {
        let interval_ns = 1_000_000_000 / u64::from(limit.per_second.max(1));
        Self {
            sets: std::iter::repeat_with(Set::default).take(SETS).collect(),
            hash: SipHasher13::new_with_key(&std::array::from_fn(|at| seed[at])),
            interval_ns,
            ahead_max_ns: interval_ns * u64::from(limit.burst.max(1) - 1),
            slip: limit.slip,
        }
    }

    /// Takes a token for a query of `client` out of the bucket of its network.
    pub fn take(&self, client: IpAddr, now_ns: u64) -> Verdict {
        let hash = self.hash.hash(&network(client).to_ne_bytes());
        let set = &self.sets[hash as usize % SETS];
        let tag = ((hash >> 32) as u32).max(1);
        let way = set.way_of(tag, now_ns);
        // A bucket ahead of the time by the whole burst is empty. Otherwise a token leaves.
        let take = |full_at_ns: u64| {
            let start_ns = full_at_ns.max(now_ns);
            (start_ns - now_ns <= self.ahead_max_ns).then_some(start_ns.saturating_add(self.interval_ns))
        };
        if set.full_at_ns[way].fetch_update(Relaxed, Relaxed, take).is_ok() {
            return Verdict::Pass;
        }
        let above = set.above[way].fetch_add(1, Relaxed).wrapping_add(1);
        if self.slip > 0 && above.is_multiple_of(self.slip) { Verdict::Slip } else { Verdict::Drop }
    }
}

impl Set {
    /// The entry of a network; a new one takes the place of the bucket that is full, or will be first.
    fn way_of(&self, tag: u32, now_ns: u64) -> usize {
        if let Some(way) = self.tags.iter().position(|found| found.load(Relaxed) == tag) {
            return way;
        }
        let full_at_ns = |way: &usize| self.full_at_ns[*way].load(Relaxed);
        let way = (0..WAYS).min_by_key(full_at_ns).unwrap_or(0);
        self.tags[way].store(tag, Relaxed);
        self.above[way].store(0, Relaxed);
        // A bucket that is full already is left as it is: another thread may take the first token right now.
        if self.full_at_ns[way].load(Relaxed) > now_ns {
            self.full_at_ns[way].store(now_ns, Relaxed);
        }
        way
    }
}

/// The network of a client as one number: /24 of IPv4, /56 of IPv6. The families do not meet.
pub(crate) fn network(client: IpAddr) -> u64 {
    match client.to_canonical() {
        IpAddr::V4(v4) => 1 << 56 | u64::from(v4.to_bits() >> 8),
        IpAddr::V6(v6) => (v6.to_bits() >> 72) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    fn buckets(per_second: u32, burst: u32, slip: u32) -> Buckets {
        Buckets::new(RateLimit { per_second, burst, slip }, [7; 32])
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// How many of `count` queries at one time pass.
    fn passed(buckets: &Buckets, client: &str, now_ns: u64, count: usize) -> usize {
        (0..count).filter(|_| buckets.take(address(client), now_ns) == Verdict::Pass).count()
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let buckets = buckets(10, 20, 0);
        assert_eq!(passed(&buckets, "10.0.0.1", S, 50), 20);
        assert_eq!(passed(&buckets, "10.0.0.1", S, 50), 0);
        assert_eq!(passed(&buckets, "10.0.0.1", S + S / 10, 50), 1);
        assert_eq!(passed(&buckets, "10.0.0.1", 2 * S, 50), 9);
        assert_eq!(passed(&buckets, "10.0.0.1", 100 * S, 50), 20, "no more than the burst is saved up");
        assert_eq!(passed(&buckets, "10.0.0.1", 99 * S, 50), 0, "a clock of another thread may be behind");
    }

    #[test]
    fn a_network_shares_a_bucket_and_others_have_their_own() {
        let buckets = buckets(1, 1, 0);
        for (first, same, other) in [
            ("192.0.2.1", "192.0.2.255", "192.0.3.1"),
            ("::ffff:198.51.100.1", "198.51.100.2", "198.51.101.1"),
            ("2001:db8:0:100::1", "2001:db8:0:1ff:ffff::", "2001:db8:0:200::1"),
            ("::", "0:0:0:ff::", "0.0.0.0"),
        ] {
            assert_eq!(passed(&buckets, first, S, 1), 1, "{first}");
            assert_eq!(passed(&buckets, same, S, 1), 0, "{same}");
            assert_eq!(passed(&buckets, other, S, 1), 1, "{other}");
        }
    }

    #[test]
    fn every_nth_query_above_the_limit_slips() {
        for slip in 0..4 {
            let buckets = buckets(1, 1, slip);
            let client = address("192.0.2.1");
            assert_eq!(buckets.take(client, S), Verdict::Pass);
            for above in 1..20u32 {
                let slips = slip > 0 && above.is_multiple_of(slip);
                let expected = if slips { Verdict::Slip } else { Verdict::Drop };
                assert_eq!(buckets.take(client, S), expected, "query {above} above, slip {slip}");
            }
        }
    }

    #[test]
    fn a_flood_from_many_networks_does_not_free_one_that_is_over_its_limit() {
        let buckets = buckets(1, 1000, 0);
        assert_eq!(passed(&buckets, "192.0.2.1", S, 2000), 1000);
        for network in 0..200_000u32 {
            let client = IpAddr::V4((0x0a00_0000 | network << 8).into());
            assert_eq!(buckets.take(client, S), Verdict::Pass);
        }
        assert_eq!(passed(&buckets, "192.0.2.1", S, 10), 0);
        assert_eq!(size_of_val(&*buckets.sets), 1 << 20);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test asks from several threads")]
    fn threads_share_the_buckets() {
        let buckets = buckets(1, 1000, 0);
        let count = || passed(&buckets, "192.0.2.1", S, 1000);
        let sum: usize = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(count));
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        // Each thread may make an entry of its own for its first query.
        assert!((1000..=1000 + 4).contains(&sum), "{sum}");
    }

    proptest! {
        #[test]
        fn no_more_than_burst_and_rate_pass(
            per_second in 1u32..10_000, burst in 1u32..100, steps in prop::collection::vec(0u64..S / 10, 1..300),
        ) {
            let buckets = buckets(per_second, burst, 2);
            let (mut now_ns, mut count) = (S, 0u64);
            for step_ns in &steps {
                now_ns += step_ns;
                count += u64::from(buckets.take(address("192.0.2.1"), now_ns) == Verdict::Pass);
            }
            let tokens = u64::from(burst) + (now_ns - S) / buckets.interval_ns;
            prop_assert!(count <= tokens, "{count} of {tokens}");
            // And no query is refused as long as the bucket cannot be empty.
            prop_assert!(count >= (steps.len() as u64).min(burst.into()));
        }

        #[test]
        fn any_limit_and_time_are_taken(per_second: u32, burst: u32, slip: u32, now_ns: u64, client: u128) {
            let buckets = buckets(per_second, burst, slip);
            prop_assert_eq!(buckets.take(IpAddr::V6(client.into()), now_ns), Verdict::Pass);
        }
    }
}
