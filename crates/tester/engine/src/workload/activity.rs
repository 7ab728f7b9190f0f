//! How the queries of a trial are shared by its clients.

use std::fmt;
use std::str::FromStr;

use record::random;

use super::zipf::Zipf;

/// The law of the clients' activity. Which client asks a query follows from the number of the query, before
/// anything is known of sockets and connections.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Activity {
    /// All ask equally often, one after the other.
    #[default]
    InTurn,
    /// The k-th client of a lane asks in proportion to k^-s.
    Zipf {
        /// s, 0.01 to 20.
        exponent: f64,
    },
}

/// A text that names no law.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoActivity;

impl fmt::Display for NoActivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write in-turn, or zipf:S with S from 0.01 to 20, for example zipf:1.1")
    }
}

impl std::error::Error for NoActivity {}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InTurn => f.write_str("in-turn"),
            Self::Zipf { exponent } => write!(f, "zipf:{exponent}"),
        }
    }
}

impl FromStr for Activity {
    type Err = NoActivity;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "in-turn" {
            return Ok(Self::InTurn);
        }
        let exponent = text.strip_prefix("zipf:").and_then(|exponent| exponent.parse().ok());
        let exponent = exponent.filter(|exponent| (0.01..=20.0).contains(exponent)).ok_or(NoActivity)?;
        Ok(Self::Zipf { exponent })
    }
}

/// Draws the client of each query of a lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    law: Zipf,
    seed: u64,
}

/// Names are drawn by the seed itself: whoever asks much shall not therefore ask for popular names.
const CLIENTS_STREAM: u64 = 0xac71;

impl Draw {
    /// For so many clients; `None` where they ask in turn.
    pub fn new(activity: Activity, clients: u64, seed: u64) -> Option<Self> {
        let Activity::Zipf { exponent } = activity else { return None };
        Some(Self { law: Zipf::new(clients, exponent), seed: random::mix(seed ^ CLIENTS_STREAM) })
    }

    /// The client, from 0, that asks query `n` of the trial.
    pub fn client(&self, n: u64) -> u32 {
        u32::try_from(self.law.rank(self.seed, n)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_are_read_and_written() {
        for text in ["in-turn", "zipf:1", "zipf:0.9"] {
            assert_eq!(text.parse::<Activity>().unwrap().to_string(), text);
        }
        for text in ["", "zipf", "zipf:0", "zipf:21", "zipf:x", "zipf:NaN", "lognormal:1"] {
            assert_eq!(text.parse::<Activity>(), Err(NoActivity), "{text}");
        }
    }
}
