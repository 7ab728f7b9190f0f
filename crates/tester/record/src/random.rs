//! Seeded numbers that are reproducible: query n of a trial always has the same numbers, in any order, on any
//! machine.
//!
//! The numbers spread load. They are no secrets.

/// Mixes 64 bits so that every bit of the result depends on each (the finalizer of splitmix64, a bijection).
pub fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// The step of splitmix64: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The `index`-th number of a seed's stream.
pub fn at(seed: u64, stream: u64, index: u64) -> u64 {
    Sequence::new(seed, stream).at(index)
}

/// A number in (0, 1].
pub fn unit(bits: u64) -> f64 {
    ((bits >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// A number below `bound`, which is at most 2^32: all equally likely but for 2^-32.
pub fn below(bits: u64, bound: u64) -> u64 {
    ((bits >> 32) * bound) >> 32
}

/// The numbers of a seed's stream one after another.
#[derive(Clone, Debug)]
pub struct Sequence {
    base: u64,
    index: u64,
}

impl Sequence {
    /// Different streams of one seed have nothing to do with each other.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { base: mix(seed ^ mix(stream.wrapping_add(STEP))), index: 0 }
    }

    fn at(&self, index: u64) -> u64 {
        mix(self.base.wrapping_add(index.wrapping_add(1).wrapping_mul(STEP)))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let bits = self.at(self.index);
        self.index = self.index.wrapping_add(1);
        bits
    }

    /// The next number in (0, 1].
    pub fn unit(&mut self) -> f64 {
        unit(self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_even_and_repeatable() {
        let mut counts = [0u32; 10];
        for index in 0..100_000 {
            counts[below(at(1, 2, index), 10) as usize] += 1;
        }
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 400), "{counts:?}");
        let mut sequence = Sequence::new(1, 2);
        assert_eq!((sequence.bits(), sequence.bits()), (at(1, 2, 0), at(1, 2, 1)));
        assert_ne!(at(1, 2, 0), at(1, 3, 0));
        assert!(unit(0) > 0.0 && unit(u64::MAX) == 1.0);
    }
}
