//! How many different values there are, and how evenly they are used.

use serde::{Deserialize, Serialize};

use super::Seen;
use super::sequence::{Steps, TESTED_MIN, Test, VALUES, congruence_pct, evenness_tests, order_tests, steps};
use super::significance::two_sided;

/// The name of the test that looks at repeated IDs.
pub(crate) const EQUAL_PAIRS: &str = "equal pairs";

/// The use of one 16-bit field: the ID or the source port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Values looked at.
    pub count: u64,
    /// Different ones.
    pub distinct: u64,
    /// The lowest.
    pub lowest: u16,
    /// The highest.
    pub highest: u16,
    /// How often the most frequent one is, in percent.
    pub most_common_pct: f64,
    /// Shannon's entropy of the values seen, in bits; at most log2 of their count.
    pub shannon_bits: f64,
    /// The min-entropy by the most common value, the lower end of its 99 % interval (NIST SP 800-90B 6.3.1),
    /// in bits. Few values cannot show much of it.
    pub min_entropy_bits: f64,
    /// The size of the pool that equal values point to: pairs of values, divided by the pairs that are equal.
    /// It is right for a pool of equally likely values, and the reciprocal of the collision probability for
    /// any other.
    pub pool: f64,
    /// The pool is larger than that: fewer than three pairs are equal.
    pub pool_is_larger: bool,
    /// From value to value, in the order that shows most.
    pub steps: Steps,
    /// How often a linear congruence through the three values before foretells the next, in percent; of IDs
    /// only.
    pub congruence_pct: f64,
    /// What chance has to say; empty for fewer than 200 values.
    pub tests: Vec<Test>,
}

/// The IDs of queries in the order of their arrival.
pub(crate) fn of_ids(queries: &[Seen]) -> Spread {
    let ids: Vec<u16> = queries.iter().map(|query| query.id).collect();
    let mut spread = Spread { congruence_pct: congruence_pct(&ids), ..of(&ids) };
    // A counter for each socket looks like noise between sockets.
    let by_port = steps(queries.iter().map(|query| ((query.client, query.port), query.id)), true);
    if by_port.common_pct > spread.steps.common_pct && by_port.predictable {
        spread.steps = by_port;
    }
    spread.tests.extend(evenness_tests(&ids));
    spread.tests.extend(collision_test(&spread));
    spread
}

/// The source ports of queries in the order of their arrival.
pub(crate) fn of_ports(queries: &[Seen]) -> Spread {
    of(&queries.iter().map(|query| query.port).collect::<Vec<_>>())
}

fn of(values: &[u16]) -> Spread {
    let mut counts = vec![0u32; VALUES];
    for &value in values {
        counts[usize::from(value)] += 1;
    }
    let n = values.len() as f64;
    let used = || counts.iter().filter(|count| **count > 0).map(|&count| f64::from(count));
    let most = used().fold(0.0, f64::max) / n.max(1.0);
    let pairs = n * (n - 1.0) / 2.0;
    let equal = equal_pairs(used());
    Spread {
        count: values.len() as u64,
        distinct: used().count() as u64,
        lowest: values.iter().copied().min().unwrap_or_default(),
        highest: values.iter().copied().max().unwrap_or_default(),
        most_common_pct: 100.0 * most,
        shannon_bits: used().map(|count| count / n * (n / count).log2()).sum(),
        min_entropy_bits: min_entropy_bits(most, n),
        pool: if pairs > 0.0 { (pairs / equal.max(3.0)).max(1.0) } else { 0.0 },
        pool_is_larger: equal < 3.0 && pairs > 0.0,
        steps: steps(values.iter().map(|&value| ((), value)), false),
        congruence_pct: 0.0,
        tests: order_tests(values),
    }
}

fn equal_pairs(counts: impl Iterator<Item = f64>) -> f64 {
    counts.map(|count| count * (count - 1.0) / 2.0).sum()
}

fn min_entropy_bits(most: f64, n: f64) -> f64 {
    if n < 2.0 {
        return 0.0;
    }
    let upper = most + 2.576 * (most * (1.0 - most) / (n - 1.0)).sqrt();
    upper.min(1.0).recip().log2()
}

/// Whether equal values are as many as independent draws of all 2^16 values give: more of them come from a
/// smaller pool, fewer from a permutation or from IDs that are kept unique.
fn collision_test(spread: &Spread) -> Option<Test> {
    let n = spread.count as f64;
    let expected = n * (n - 1.0) / 2.0 / VALUES as f64;
    let equal = if spread.pool_is_larger { 0.0 } else { expected * VALUES as f64 / spread.pool };
    // Chance gives them a variance of about their number.
    let statistic = (equal - expected) / expected.sqrt();
    (spread.count >= TESTED_MIN as u64 && expected >= 10.0).then(|| Test {
        name: EQUAL_PAIRS.to_owned(),
        statistic,
        p_value: two_sided(statistic),
    })
}
