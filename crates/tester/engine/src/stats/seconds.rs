//! The answers of each second: how long they took, and what they said.

use crate::matcher::rcode_name;
use record::Answers;

/// Parts of an octave (a doubling of the latency) that are told apart.
const PARTS: usize = 4;
/// Up to two to the power of this, in ns, latencies are not told apart: a microsecond.
const FIRST: u32 = 10;
/// Above two to the power of this, in ns, neither: 68 seconds.
const LAST: u32 = 36;
const BUCKETS: usize = (LAST - FIRST) as usize * PARTS;

/// What came of the queries that were due in one second.
#[derive(Clone, Debug)]
pub(super) struct Second {
    max_ns: u64,
    latencies: [u32; BUCKETS],
    rcodes: [u32; 16],
}

impl Second {
    pub const EMPTY: Self = Self { max_ns: 0, latencies: [0; BUCKETS], rcodes: [0; 16] };

    #[inline]
    pub fn note_valid(&mut self, latency_ns: u64) {
        self.max_ns = self.max_ns.max(latency_ns);
        self.latencies[bucket(latency_ns)] += 1;
    }

    #[inline]
    pub(crate) fn note_rcode(&mut self, rcode: u8) {
        self.rcodes[usize::from(rcode & 15)] += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        self.max_ns = self.max_ns.max(other.max_ns);
        super::add(&mut self.latencies, &other.latencies);
        super::add(&mut self.rcodes, &other.rcodes);
    }

    pub fn answers(&self) -> Answers {
        let named = self.rcodes.iter().zip(0u8..).filter(|(count, _)| **count > 0);
        Answers {
            p50_ns: self.quantile_ns(0.5),
            p99_ns: self.quantile_ns(0.99),
            max_ns: self.max_ns,
            rcodes: named.map(|(count, rcode)| (rcode_name(rcode), u64::from(*count))).collect(),
        }
    }

    /// What that share of the latencies does not exceed: the upper end of its bucket.
    fn quantile_ns(&self, quantile: f64) -> u64 {
        let total: u64 = self.latencies.iter().map(|&count| u64::from(count)).sum();
        let wanted = (quantile * total as f64).ceil() as u64;
        let mut below = 0;
        let found = self.latencies.iter().position(|&count| {
            below += u64::from(count);
            below >= wanted.max(1)
        });
        found.map_or(0, |bucket| end_ns(bucket).min(self.max_ns))
    }
}

#[inline]
fn bucket(latency_ns: u64) -> usize {
    let latency_ns = latency_ns.clamp(1 << FIRST, (1 << LAST) - 1);
    let octave = latency_ns.ilog2();
    let part = (latency_ns >> (octave - PARTS.ilog2())) as usize % PARTS;
    (octave - FIRST) as usize * PARTS + part
}

fn end_ns(bucket: usize) -> u64 {
    let (octave, part) = (FIRST as usize + bucket / PARTS, bucket % PARTS);
    ((PARTS + part + 1) as u64) << (octave - PARTS.ilog2() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_latency_has_a_bucket_that_ends_above_it(latency_ns in any::<u64>()) {
            let end_ns = end_ns(bucket(latency_ns));
            prop_assert!(bucket(latency_ns) < BUCKETS);
            if (1 << FIRST..1 << LAST).contains(&latency_ns) {
                prop_assert!(latency_ns < end_ns && end_ns <= latency_ns + latency_ns / 4 + 1);
            }
        }
    }

    #[test]
    fn percentiles_are_those_of_the_second() {
        let mut second = Second::EMPTY;
        assert_eq!(second.answers(), Answers::default());
        for latency_ns in (1..=100).map(|n| n * 1_000_000) {
            second.note_valid(latency_ns);
            second.note_rcode(if latency_ns == 1_000_000 { 2 } else { 0 });
        }
        let mut twice = second.clone();
        twice.merge(&second);
        let told = twice.answers();
        assert!((50_000_000..=63_000_000).contains(&told.p50_ns), "{told:?}");
        assert!((99_000_000..=100_000_000).contains(&told.p99_ns), "{told:?}");
        assert_eq!(told.max_ns, 100_000_000);
        assert_eq!((told.rcodes["NOERROR"], told.rcodes["SERVFAIL"]), (198, 2));
    }
}
