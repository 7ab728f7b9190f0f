//! Which name query `n` asks.

use std::sync::Arc;

use dns64::NameSpace;

use super::generator::Generator;
use super::recorded::Recording;
use super::spread;
use super::zipf::Zipf;

/// How names are chosen.
#[derive(Clone, Debug, Default)]
pub enum Choice {
    /// Every name once, in their order (RFC 8219 9: all different).
    #[default]
    Each,
    /// A share of the queries asks names that the server has cached (RFC 8219 9.2, optional): the names
    /// before the first one, which [`super::Workload::warm_up`] asks beforehand.
    Cached {
        /// 0 to 100 percent of the queries.
        share_pct: u8,
        /// How many names, 1 to 65,536.
        hot_names: u32,
    },
    /// The names before the first one, over and over, each type of the mix in turn: those that the other
    /// queries take for cached, or all names of a server that keeps them.
    OverAndOver {
        /// Number of different names, at least 1.
        names: u32,
    },
    /// Names by their popularity: the k-th of the range in proportion to k^-s.
    Zipf {
        /// s, above 0, at most 20.
        exponent: f64,
    },
    /// Random labels below the suffix, each once; no answer is expected but a response.
    RandomLabels,
    /// Names and types from templates; a response is expected.
    Generated(Arc<Generator>),
    /// Queries from a file or a pipe; names, suffix and types are theirs, and a response is expected.
    Recorded {
        /// The recorded queries, asked in their order.
        recording: Recording,
        /// Whole messages, sent as they stand but for their ID; else questions.
        whole_messages: bool,
    },
}

/// One of several Measurers that share the names: of N agents, agent K takes every N-th name, beginning with
/// the K-th.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agent {
    /// K, from 0.
    pub index: u32,
    /// N, at least 1.
    pub agents: u32,
}

impl Default for Agent {
    /// The only one.
    fn default() -> Self {
        Self { index: 0, agents: 1 }
    }
}

impl std::str::FromStr for Agent {
    type Err = &'static str;

    /// Reads `K/N` with K from 1 to N.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "write K/N with K from 1 to N and N up to 65536, for example 2/4";
        let (k, n) = text.split_once('/').ok_or(FORM)?;
        let (k, agents): (u32, u32) = (k.parse().map_err(|_| FORM)?, n.parse().map_err(|_| FORM)?);
        if k == 0 || k > agents || agents > 65_536 {
            return Err(FORM);
        }
        Ok(Self { index: k - 1, agents })
    }
}

/// The choice, ready to be asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Picker {
    Each,
    Cached { share_pct: u8, hot_names: u64 },
    OverAndOver { names: u64 },
    Zipf(Zipf),
}

impl Picker {
    /// That of names of the range; `None` where names come from elsewhere.
    pub(super) fn new(choice: &Choice, names: &NameSpace) -> Option<Self> {
        Some(match *choice {
            Choice::Each => Self::Each,
            Choice::Cached { share_pct, hot_names } => {
                Self::Cached { share_pct, hot_names: hot_names.max(1).into() }
            }
            Choice::OverAndOver { names } => Self::OverAndOver { names: names.max(1).into() },
            Choice::Zipf { exponent } => Self::Zipf(Zipf::new(names.size(), exponent)),
            Choice::RandomLabels | Choice::Generated(_) | Choice::Recorded { .. } => return None,
        })
    }

    /// The index of the name of the query whose place among those of all agents and trials is `place`.
    #[inline]
    pub(super) fn index(&self, place: u64, n: u64, first_name: u64, seed: u64) -> u64 {
        match *self {
            Self::Each => place,
            Self::Cached { share_pct, hot_names } => {
                if spread::is_cached(place, share_pct) {
                    first_name.wrapping_sub(1 + spread::hot(place, hot_names))
                } else {
                    place
                }
            }
            Self::OverAndOver { names } => first_name.wrapping_sub(1 + n % names),
            Self::Zipf(zipf) => zipf.rank(seed, place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_read_as_people_count() {
        assert_eq!("2/4".parse(), Ok(Agent { index: 1, agents: 4 }));
        for text in ["0/4", "5/4", "1", "1/0", "a/b", "1/65537", ""] {
            assert!(text.parse::<Agent>().is_err(), "{text}");
        }
    }
}
