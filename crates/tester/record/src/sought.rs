//! What a search looked for, and how its numbers are written.

use crate::number::{count, plural, rate_of, real};
use crate::{Results, Run, Summary, Trial};

/// What a search looked for: the load of its trials (RFC 9971), all else being equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    /// The highest rate, in q/s.
    Rate,
    /// The highest number of connections that stand through a trial, at one rate.
    Connections,
}

impl Results {
    /// What its searches looked for.
    pub fn sought(&self) -> Sought {
        if self.settings.connections_range.is_some() { Sought::Connections } else { Sought::Rate }
    }

    /// What its runs found, in the unit of [`Results::sought`]; `None` if no run came to its end.
    pub fn found(&self) -> Option<&Summary> {
        match self.sought() {
            Sought::Rate => self.summary.as_ref(),
            Sought::Connections => self.connections.as_ref(),
        }
    }

    /// Lowest and highest load that its searches may try, likewise.
    pub fn range(&self) -> [u64; 2] {
        self.settings.connections_range.unwrap_or(self.settings.rate_range_qps)
    }
}

impl Run {
    /// What its search looked for.
    pub fn sought(&self) -> Sought {
        if self.connections.is_some() { Sought::Connections } else { Sought::Rate }
    }
}

impl Sought {
    /// The load of a trial.
    pub fn of_trial(self, trial: &Trial) -> u64 {
        match self {
            Self::Rate => trial.rate_qps,
            Self::Connections => {
                trial.connections.as_ref().map_or(0, |seen| seen.transport.connections as u64)
            }
        }
    }

    /// A load in words: `60,000 q/s`, `500 connections`.
    pub fn in_words(self, load: u64) -> String {
        match self {
            Self::Rate => rate_of(load),
            Self::Connections => {
                plural(usize::try_from(load).unwrap_or(usize::MAX), "connection", "connections")
            }
        }
    }

    /// A mean of loads in words.
    pub fn mean_in_words(self, load: f64) -> String {
        format!(
            "{} {}",
            real(load, usize::from(load.fract() != 0.0 && self == Self::Connections)),
            self.unit()
        )
    }

    /// Two loads in words: `1 to 500 connections`.
    pub fn range_in_words(self, [low, high]: [u64; 2]) -> String {
        format!("{} to {}", count(low), self.in_words(high))
    }

    /// The unit.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Rate => "q/s",
            Self::Connections => "connections",
        }
    }

    /// What a load is: a noun in the singular.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Connections => "number of connections",
        }
    }

    /// The noun with its unit, as the head of a column.
    pub fn head(self) -> &'static str {
        match self {
            Self::Rate => "Rate, q/s",
            Self::Connections => "Connections",
        }
    }

    /// The option that sets the highest load to try.
    pub fn highest_option(self) -> &'static str {
        match self {
            Self::Rate => "--max-rate",
            Self::Connections => "--max-connections",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Connections, Kind, Transport};

    #[test]
    fn numbers_have_the_unit_of_what_was_sought() {
        let mut results = Results::new(Kind::Search);
        let connections = Connections {
            transport: Transport { connections: 37, ..Transport::default() },
            ..Connections::default()
        };
        let trial = Trial { rate_qps: 1000, connections: Some(connections), ..Trial::default() };
        let said = |results: &Results| results.sought().in_words(results.sought().of_trial(&trial));
        assert_eq!(said(&results), "1,000 q/s");
        results.settings.connections_range = Some([1, 5000]);
        assert_eq!(said(&results), "37 connections");
        assert_eq!(results.sought().range_in_words(results.range()), "1 to 5,000 connections");
        assert_eq!(results.sought().mean_in_words(36.5), "36.5 connections");
        let found = crate::FoundConnections { most: 37, stop_width: 1, ended_by_voids: Some(40) };
        let run = Run { qps: 1000, complete: true, connections: Some(found), ..Run::default() };
        assert_eq!((run.found(), run.stop_width(), run.came_to_its_end()), (37, 1, false));
        assert_eq!((Run { qps: 9, ..Run::default() }).found(), 9);
    }
}
