//! What a search looks for: the rate, or the number of connections that the server can hold.

use clap::{Args, ValueEnum};

use crate::EXIT_USAGE;
use crate::failure::Failure;
use crate::measurement::{ModeArg, SearchOptions};
use crate::options::{TesterArgs, TransportArgs, rate};
use campaign::Plan;

/// Options of what is looked for.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Search")]
pub(super) struct SoughtOptions {
    /// What the search looks for
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    search_for: SoughtArg,
    /// Rate of all trials of a search for connections, in q/s [default: 1000]
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<u64>,
    /// Highest number of standing connections to try [default: 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_connections: Option<u32>,
}

/// `--search-for`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum SoughtArg {
    /// The highest rate at which every query is answered.
    #[default]
    Rate,
    /// The highest number of connections that stand through a trial, while queries go over all of them at
    /// --rate and every query is answered.
    Connections,
}

/// The rate of the trials, unless told otherwise, in q/s.
const RATE_QPS: u64 = 1000;
/// The highest number of connections to try, unless told otherwise.
const CONNECTIONS_MAX: u32 = 10_000;

impl SoughtOptions {
    /// The plan for what is looked for. A search for connections stops at the very number unless a width is
    /// given.
    ///
    /// # Errors
    /// Options that do not go together.
    pub(super) fn apply(
        &self,
        plan: Plan,
        search: &SearchOptions,
        (transport, tester): (&TransportArgs, &TesterArgs),
    ) -> Result<Plan, Failure> {
        let refuse = |message: String| Err(Failure::new(EXIT_USAGE, message));
        let own = [(self.rate.is_some(), "--rate"), (self.max_connections.is_some(), "--max-connections")];
        if self.search_for == SoughtArg::Rate {
            return match own.into_iter().find(|(given, _)| *given) {
                Some((_, option)) => refuse(format!("{option} is for --search-for connections")),
                None => Ok(plan),
            };
        }
        let of_rates = [
            (search.min_rate.is_some(), "--min-rate"),
            (search.max_rate.is_some(), "--max-rate"),
            (search.goals.are_given() || search.mode == Some(ModeArg::Mlr), "--search mlr"),
        ];
        if let Some((_, option)) = of_rates.into_iter().find(|(given, _)| *given) {
            return refuse(format!(
                "{option} is for a search for the rate; --search-for connections has --rate and --max-connections"
            ));
        }
        transport.check_standing()?;
        let threads = u64::from(tester.threads).max(tester.cpus.len() as u64);
        let most = u64::from(self.max_connections.unwrap_or(CONNECTIONS_MAX));
        if most < threads {
            return refuse(format!(
                "--max-connections: each of the {threads} threads has one connection at least"
            ));
        }
        let rate_qps = self.rate.unwrap_or(RATE_QPS);
        Ok(Plan {
            preset: "custom",
            width_pct: search.width.unwrap_or(0.0),
            range_qps: [rate_qps; 2],
            connections_range: Some([threads, most]),
            ..plan
        })
    }
}
