//! Numbers in the order in which they were used: can the next be told from the last ones?

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::significance::{chi_square, two_sided};

/// How many 16-bit values there are.
pub(crate) const VALUES: usize = 1 << 16;
/// With fewer values the tests say nothing.
pub(crate) const TESTED_MIN: usize = 200;
/// Bins of the test for evenness.
const BINS: usize = 64;
/// Values in a group of the permutation test, and the orders these can have.
const GROUP: usize = 4;
const ORDERS: usize = 24;

/// A test of the hypothesis that values are drawn at random, each by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// What it looks at.
    pub name: String,
    /// Its statistic: a normal z or a chi-square.
    pub statistic: f64,
    /// How likely chance alone gives a statistic so far out.
    pub p_value: f64,
}

/// The steps from one value to the next, modulo 2^16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steps {
    /// Steps of +1, in percent.
    pub one_pct: f64,
    /// The step that is most often.
    pub common: i32,
    /// How often it is, in percent.
    pub common_pct: f64,
    /// Whether it is more often than chance would have it.
    pub predictable: bool,
    /// Whether they are the steps between queries of one source port, not between all.
    pub by_port: bool,
}

/// The steps between consecutive values of each group; one group makes them the steps of the whole.
pub fn steps<G: Eq + std::hash::Hash>(values: impl Iterator<Item = (G, u16)>, by_port: bool) -> Steps {
    let mut last: HashMap<G, u16> = HashMap::new();
    let mut counts = vec![0u32; VALUES];
    let mut total = 0u32;
    for (group, value) in values {
        if let Some(before) = last.insert(group, value) {
            counts[usize::from(value.wrapping_sub(before))] += 1;
            total += 1;
        }
    }
    let Some((common, &count)) = counts.iter().enumerate().max_by_key(|(_, count)| **count) else {
        return Steps::default();
    };
    if total == 0 {
        return Steps { by_port, ..Steps::default() };
    }
    let pct = |count: u32| 100.0 * f64::from(count) / f64::from(total);
    // The largest of 65,536 Poisson numbers stays below this but for one case in many millions.
    let mean = f64::from(total) / VALUES as f64;
    let by_chance = mean + 7.0 * mean.sqrt() + 8.0;
    Steps {
        one_pct: pct(counts[1]),
        common: i32::from(common as u16 as i16),
        common_pct: pct(count),
        predictable: f64::from(count) > by_chance,
        by_port,
    }
}

/// How often x' = a*x + c modulo 2^16, with the a and c that the three values before show, foretells a value,
/// in percent: a linear congruential generator, or the lower half of one of 32 bits. Chance would do it once
/// in 65,536 times.
pub fn congruence_pct(values: &[u16]) -> f64 {
    let (mut tried, mut right) = (0u32, 0u32);
    for four in values.windows(4) {
        let step = |at: usize| four[at + 1].wrapping_sub(four[at]);
        // Only odd numbers have an inverse modulo a power of two.
        if step(0) % 2 == 1 {
            let factor = step(1).wrapping_mul(inverse(step(0)));
            tried += 1;
            right += u32::from(step(2) == factor.wrapping_mul(step(1)));
        }
    }
    if right > 8 { 100.0 * f64::from(right) / f64::from(tried) } else { 0.0 }
}

/// The inverse of an odd number modulo 2^16: each round of Newton's doubles the bits that are right, from
/// three on.
fn inverse(odd: u16) -> u16 {
    (0..3).fold(odd, |x, _| x.wrapping_mul(2u16.wrapping_sub(odd.wrapping_mul(x))))
}

/// The tests of order: they hold for any set of values that is drawn from at random.
pub(crate) fn order_tests(values: &[u16]) -> Vec<Test> {
    if values.len() < TESTED_MIN {
        return Vec::new();
    }
    [serial_correlation(values), runs(values), permutations(values)].into_iter().flatten().collect()
}

/// The tests of evenness over all 2^16 values: of the upper bits, and of the lower ones.
pub(crate) fn evenness_tests(values: &[u16]) -> Vec<Test> {
    if values.len() < TESTED_MIN {
        return Vec::new();
    }
    let even = |name: &str, bin: &dyn Fn(u16) -> usize| {
        let mut counts = [0u32; BINS];
        for &value in values {
            counts[bin(value)] += 1;
        }
        chi_square_test(name, &counts)
    };
    vec![
        even("evenness, upper bits", &|value| usize::from(value >> 10)),
        even("evenness, lower bits", &|value| usize::from(value) % BINS),
    ]
}

/// Chi-square against equally likely bins (Knuth, The Art of Computer Programming 2, 3.3.1).
fn chi_square_test(name: &str, counts: &[u32]) -> Test {
    let total: u32 = counts.iter().sum();
    let expected = f64::from(total) / counts.len() as f64;
    let statistic = counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
    Test { name: name.to_owned(), statistic, p_value: chi_square(statistic, counts.len() as f64 - 1.0) }
}

/// The correlation of each value with the next: near normal with variance 1/n if there is none.
fn serial_correlation(values: &[u16]) -> Option<Test> {
    let n = values.len() as f64;
    let mean = values.iter().map(|&value| f64::from(value)).sum::<f64>() / n;
    let apart = |value: u16| f64::from(value) - mean;
    let square: f64 = values.iter().map(|&value| apart(value).powi(2)).sum();
    let product: f64 = values.windows(2).map(|pair| apart(pair[0]) * apart(pair[1])).sum();
    let statistic = product / square * n.sqrt();
    // Equal values have no variance.
    (square > 0.0).then(|| Test {
        name: "serial correlation".to_owned(),
        statistic,
        p_value: two_sided(statistic),
    })
}

/// The runs test of Wald and Wolfowitz about the median: too few runs cluster, too many alternate.
fn runs(values: &[u16]) -> Option<Test> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let median = sorted[sorted.len() / 2];
    let sides: Vec<bool> =
        values.iter().filter(|value| **value != median).map(|value| *value > median).collect();
    let above = sides.iter().filter(|side| **side).count() as f64;
    let (n, below) = (sides.len() as f64, sides.len() as f64 - above);
    let mean = 2.0 * above * below / n + 1.0;
    let variance = (mean - 1.0) * (mean - 2.0) / (n - 1.0);
    let count = 1.0 + sides.windows(2).filter(|pair| pair[0] != pair[1]).count() as f64;
    let statistic = (count - mean) / variance.sqrt();
    (variance > 0.0).then(|| Test {
        name: "runs about the median".to_owned(),
        statistic,
        p_value: two_sided(statistic),
    })
}

/// The permutation test (Knuth 3.3.2 P): all orders of four consecutive values are equally likely. Groups
/// with equal values say nothing.
fn permutations(values: &[u16]) -> Option<Test> {
    let mut counts = [0u32; ORDERS];
    for group in values.chunks_exact(GROUP) {
        let mut order = 0;
        let mut equal = false;
        // The rank of each among those that follow, in mixed radix, numbers the orders.
        for (at, value) in group.iter().enumerate() {
            let later = &group[at + 1..];
            equal |= later.contains(value);
            order = order * (GROUP - at) + later.iter().filter(|other| *other < value).count();
        }
        if !equal {
            counts[order] += 1;
        }
    }
    // Five in each bin make chi-square a fair approximation.
    let enough = counts.iter().sum::<u32>() >= 5 * ORDERS as u32;
    enough.then(|| chi_square_test("permutations of four", &counts))
}
