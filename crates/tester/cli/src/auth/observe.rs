//! The options that make the AuthDNS observe its clients, and the text of the observation.

use std::sync::Arc;

use clap::Args;
use record::identifiers::Analysis;

use authdns::{OBSERVED_QUERIES, Observer};
use report::observed_text;

/// The most queries that can be kept: 3.2 GB of them.
const QUERIES_MAX: u64 = 100_000_000;

/// Options for observing.
#[derive(Args, Clone, Debug)]
pub struct ObserveArgs {
    /// Print at the end what the queries show: queries for each name, repetitions, and how well IDs and
    /// source ports protect against forged answers (RFC 5452). The first N queries are kept, 32 octets each
    /// [default N: 1000000]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = DEFAULT,
        value_parser = clap::value_parser!(u64).range(1..=QUERIES_MAX))]
    pub observe: Option<u64>,
}

const DEFAULT: &str = "1000000";
const _: () = assert!(OBSERVED_QUERIES == 1_000_000);

impl ObserveArgs {
    /// The observer, if one is wanted.
    pub fn observer(&self) -> Option<Arc<Observer>> {
        self.observe.map(|queries| Observer::new(queries as usize))
    }
}

/// What was seen, for people.
pub fn text(analysis: &Analysis) -> String {
    format!("\nWhat the queries show:\n{}", observed_text(analysis))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn parse(arguments: &[&str]) -> Result<ObserveArgs, clap::Error> {
        let command = ObserveArgs::augment_args(Command::new("auth"));
        ObserveArgs::from_arg_matches(&command.try_get_matches_from([&["auth"], arguments].concat())?)
    }

    #[test]
    fn observing_is_an_option_with_a_bound() {
        let capacity =
            |arguments: &[&str]| parse(arguments).unwrap().observer().map(|observer| observer.capacity());
        assert_eq!((capacity(&[]), capacity(&["--observe"])), (None, Some(OBSERVED_QUERIES)));
        assert_eq!(capacity(&["--observe=5000"]), Some(5000));
        assert!(parse(&["--observe=0"]).unwrap_err().to_string().contains("1..=100000000"));
    }
}
