//! How many queries a connection has before the client's next one takes its place.

use std::f64::consts::TAU;
use std::fmt;
use std::str::FromStr;

use record::random;

/// The law of the number of queries of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueriesEach {
    /// Half of the connections have at most so many queries; 0: connections do not end.
    pub median: u64,
    /// The standard deviation of the logarithm of the numbers, up to 3, where they are drawn (lognormal); 0:
    /// all connections have the median.
    pub sigma: f64,
}

/// A text that names no law.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoLaw;

/// The most queries of a connection that has an end.
const QUERIES_MAX: f64 = u32::MAX as f64;
/// The random numbers of a client have nothing to do with those of names and other clients.
const LIVES_STREAM: u64 = 0x11f3_5000_0000_0000;
/// So many standard deviations above the mean are never met.
const DEVIATIONS: f64 = 6.0;

impl QueriesEach {
    /// Every connection has this number; 0: connections do not end.
    pub fn fixed(queries: u64) -> Self {
        Self { median: queries, sigma: 0.0 }
    }

    /// The mean; `None` if connections do not end.
    pub fn mean(self) -> Option<f64> {
        (self.median > 0).then(|| self.median as f64 * (self.sigma.powi(2) / 2.0).exp())
    }

    /// How many connections begin while so many queries are sent, at most: where numbers are drawn, with
    /// what chance adds.
    pub fn opened_at_most(self, queries: f64) -> f64 {
        let Some(mean) = self.mean() else { return 0.0 };
        let opened = queries / mean;
        let variance = if self.sigma > 0.0 { opened * self.sigma.powi(2).exp() } else { 0.0 };
        (opened + DEVIATIONS * variance.sqrt()).min(queries)
    }

    /// How many queries connection `number` of a client has; the first one has the number 0.
    ///
    /// The first one is met in its midst, as if the clients had asked for long: long connections are met more
    /// often, in proportion to their length. Connections then end and begin evenly from the first moment on.
    pub fn of(self, seed: u64, client: u64, number: u64) -> u64 {
        /// 2^64 divided by the golden ratio: multiples of it, modulo 2^64, lie evenly however many there are.
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        if self.median == 0 {
            return u64::MAX;
        }
        let normal = normal(seed, client, number);
        if number > 0 {
            return self.drawn(normal);
        }
        // In proportion to its length, a lognormal length has the median times e^(sigma²) in the middle.
        let length = self.drawn(normal + self.sigma);
        let place = client.wrapping_mul(GOLDEN);
        1 + ((u128::from(place) * u128::from(length)) >> 64) as u64
    }

    fn drawn(self, normal: f64) -> u64 {
        (self.median as f64 * (self.sigma * normal).exp()).round().clamp(1.0, QUERIES_MAX) as u64
    }
}

/// A number of the standard normal distribution (Box and Muller).
fn normal(seed: u64, client: u64, number: u64) -> f64 {
    let unit = |index| random::unit(random::at(seed, LIVES_STREAM ^ client, index));
    let (radius, turn) = (unit(number.wrapping_mul(2)), unit(number.wrapping_mul(2).wrapping_add(1)));
    (-2.0 * radius.ln()).sqrt() * (TAU * turn).cos()
}

impl fmt::Display for NoLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "write a number, or lognormal:MEDIAN,SIGMA with SIGMA from 0.01 to 3, for example lognormal:20,1",
        )
    }
}

impl std::error::Error for NoLaw {}

impl fmt::Display for QueriesEach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sigma {
            0.0 => write!(f, "{}", self.median),
            sigma => write!(f, "lognormal:{},{sigma}", self.median),
        }
    }
}

impl FromStr for QueriesEach {
    type Err = NoLaw;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some(law) = text.strip_prefix("lognormal:") else {
            return text.parse::<u32>().map(|queries| Self::fixed(queries.into())).map_err(|_| NoLaw);
        };
        let (median, sigma) = law.split_once(',').ok_or(NoLaw)?;
        let median = median.parse::<u32>().ok().filter(|&median| median > 0).ok_or(NoLaw)?;
        let sigma = sigma.parse().ok().filter(|sigma| (0.01..=3.0).contains(sigma)).ok_or(NoLaw)?;
        Ok(Self { median: median.into(), sigma })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWN: QueriesEach = QueriesEach { median: 20, sigma: 1.0 };

    #[test]
    fn laws_are_read_and_written() {
        for text in ["0", "10", "lognormal:20,1", "lognormal:1,0.5"] {
            assert_eq!(text.parse::<QueriesEach>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "-1",
            "x",
            "lognormal",
            "lognormal:20",
            "lognormal:0,1",
            "lognormal:20,0",
            "lognormal:20,NaN",
        ] {
            assert_eq!(text.parse::<QueriesEach>(), Err(NoLaw), "{text}");
        }
    }

    #[test]
    fn first_connections_end_evenly() {
        let each = QueriesEach::fixed(10);
        let lives: Vec<u64> = (0..1000).map(|client| each.of(1, client, 0)).collect();
        for life in 1..=10 {
            let clients = lives.iter().filter(|&&other| other == life).count();
            assert!((95..=105).contains(&clients), "{clients} live for {life}");
        }
        // Not only of all, but of any that follow one another.
        assert!(lives.windows(20).all(|some| some.iter().filter(|&&life| life == 1).count() <= 4));
        assert_eq!((each.of(1, 7, 1), each.of(1, 7, 99)), (10, 10));
        assert_eq!(QueriesEach::fixed(0).of(1, 7, 0), u64::MAX);
        assert_eq!(QueriesEach::fixed(1).of(1, 7, 0), 1);
    }

    #[test]
    fn drawn_numbers_have_their_median_and_follow_the_seed() {
        let drawn = |seed| (0..20_000).map(move |n| DRAWN.of(seed, n % 100, 1 + n / 100));
        let mut lengths: Vec<u64> = drawn(1).collect();
        assert!(lengths.iter().copied().eq(drawn(1)) && !lengths.iter().copied().eq(drawn(2)));
        lengths.sort_unstable();
        assert!((19..=21).contains(&lengths[10_000]), "{}", lengths[10_000]);
        // One sigma below and above: 20 / e and 20 e.
        assert!(
            (7..=8).contains(&lengths[3173]) && (52..=57).contains(&lengths[16_827]),
            "{}",
            lengths[16_827]
        );
        let mean = lengths.iter().sum::<u64>() as f64 / 20_000.0;
        assert!((mean / DRAWN.mean().unwrap() - 1.0).abs() < 0.05, "{mean}");
    }

    #[test]
    fn connections_of_drawn_lengths_begin_evenly_from_the_start() {
        const CLIENTS: u64 = 4000;
        const WINDOW: u64 = 30;
        let mut opened = [0u64; 10];
        for client in 0..CLIENTS {
            let (mut at, mut number) = (DRAWN.of(1, client, 0), 0);
            while let Some(window) = opened.get_mut((at / WINDOW) as usize) {
                *window += 1;
                number += 1;
                at += DRAWN.of(1, client, number);
            }
        }
        let expected = (CLIENTS * WINDOW) as f64 / DRAWN.mean().unwrap();
        for opened in opened {
            assert!((opened as f64 / expected - 1.0).abs() < 0.1, "{opened} of {expected}");
            assert!((opened as f64) < DRAWN.opened_at_most((CLIENTS * WINDOW) as f64));
        }
    }

    #[test]
    fn chance_has_room_where_numbers_are_drawn() {
        assert_eq!(QueriesEach::fixed(0).opened_at_most(1e6), 0.0);
        assert_eq!(QueriesEach::fixed(10).opened_at_most(1e6), 1e5);
        let most = DRAWN.opened_at_most(1e6);
        assert!((1.0..1.1).contains(&(most * DRAWN.mean().unwrap() / 1e6)), "{most}");
        assert_eq!(QueriesEach { median: 1, sigma: 1.0 }.opened_at_most(2.0), 2.0, "each has a query");
    }
}
