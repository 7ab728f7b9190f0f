//! Even interleaving by irrational steps: of any run of neighbouring queries, and of every k-th query, the
//! share that falls below a bound is the bound's, to within a few queries.
//!
//! Each choice steps by another irrational number, and none by that of [`dns64::names::has_aaaa`]: so that
//! cached names, query types and names with a AAAA of their own are spread over each other too.

/// The fraction of the square root of 2.
const CACHED_STEP: u32 = 0x6a09_e667;
/// The fraction of the square root of 3.
const TYPE_STEP: u32 = 0xbb67_ae85;
/// That of the square root of 7; the square root of 5 makes the golden ratio, which `has_aaaa` steps by.
const HOT_STEP: u32 = 0xa54f_f53b;

fn step(n: u64, by: u32) -> u32 {
    // The pattern repeats after 2^32 queries.
    (n as u32).wrapping_mul(by)
}

/// Whether query `n` asks a cached name when `share_pct` (0 to 100) of all do.
pub(crate) fn is_cached(n: u64, share_pct: u8) -> bool {
    (u64::from(step(n, CACHED_STEP)) * 100) >> 32 < u64::from(share_pct)
}

/// Where query `n` falls among the query types, of 2^32.
pub fn types(n: u64) -> u32 {
    step(n, TYPE_STEP)
}

/// Which of `names` hot names query `n` asks.
pub fn hot(n: u64, names: u64) -> u64 {
    (u64::from(step(n, HOT_STEP)) * names) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns64::names::has_aaaa;

    #[test]
    fn shares_hold_on_every_stride_and_against_each_other() {
        for share in [0u8, 20, 40, 50, 60, 80, 100] {
            for (start, stride) in [(0u64, 1u64), (77, 2), (1 << 33, 4), (3, 7)] {
                let numbers = (0..10_000).map(|k| start + k * stride);
                let cached: Vec<u64> = numbers.filter(|n| is_cached(*n, share)).collect();
                let expected = usize::from(share) * 100;
                assert!(cached.len().abs_diff(expected) <= 20, "{share} % gave {}", cached.len());
                let native = cached.iter().filter(|n| has_aaaa((**n as u32).into(), 50)).count();
                assert!(native.abs_diff(expected / 2) <= 60, "{native} of {expected} have a AAAA");
                let early = cached.iter().filter(|n| types(**n) < 1 << 31).count();
                assert!(early.abs_diff(expected / 2) <= 60, "{early} of {expected} are of the first type");
            }
        }
    }

    #[test]
    fn all_hot_names_are_asked_equally_often() {
        let mut counts = [0u32; 256];
        (0..25_600).for_each(|n| counts[hot(n, 256) as usize] += 1);
        assert!(counts.iter().all(|count| count.abs_diff(100) <= 10), "{counts:?}");
    }
}
