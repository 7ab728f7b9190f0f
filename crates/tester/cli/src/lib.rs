//! Options, resolved once into a configuration before any work.
#![forbid(unsafe_code)]

pub mod auth;
pub mod bench;
pub mod campaign;
mod certificates;
pub mod compare;
pub mod convert;
pub mod echo;
mod failure;
mod goals;
pub mod import;
pub mod lab;
mod measurement;
mod options;
pub mod output;
mod outputs;
pub mod peers;
pub mod preflight;
pub mod report;
pub mod search;
pub mod selftest;
mod site;
pub mod trial;
pub mod zone;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use ::campaign::Detail;
use ::campaign::series::COMMANDS;

pub use failure::Failure;

/// The measured thing failed.
pub(crate) const EXIT_FAILED: u8 = 1;
/// Bad usage or configuration.
pub(crate) const EXIT_USAGE: u8 = 2;
/// The environment or the Tester is not fit to measure.
pub const EXIT_UNFIT: u8 = 3;

/// Benchmark DNS64 and other DNS servers by RFC 8219, and say how far the numbers can be trusted
#[derive(Debug, Parser)]
#[command(name = "sextant", version, propagate_version = true, after_help = EXAMPLES)]
pub struct Cli {
    /// Run in this network namespace ('ip netns' lists them, 'sextant lab up' makes some)
    #[arg(long, global = true, value_name = "NAME", help_heading = "Everywhere")]
    netns: Option<String>,
    /// Print only errors on standard error
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Everywhere")]
    quiet: bool,
    /// Print every figure of each trial
    #[arg(short, long, global = true, help_heading = "Everywhere")]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  sextant bench                       measure dns64d on this machine, in about two minutes
  sextant bench --peer unbound        the same with Unbound (from its Debian package)
  sextant bench --dut '[::1]:53'      a server that you run; it must forward dns64perf.test to the AuthDNS
  sextant trial --server '[::1]:53' --rate 10000 --duration 10
Colours are left out where NO_COLOR is set.
Exit codes: 0 done, 1 the measured thing failed, 2 bad usage or configuration, 3 not fit to measure";

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure a server: self-test, rate search and report
    Bench(bench::BenchArgs),
    /// Run many measurements that one file describes, for example those of a paper
    Campaign(campaign::CampaignArgs),
    /// Run one trial: a constant rate, another load model, or a closed loop
    Trial(trial::TrialArgs),
    /// Search for the highest rate of a server that runs already
    Search(search::SearchArgs),
    /// Run the self-test of RFC 8219 9.2.1: the highest rate that this Tester may measure
    Selftest(selftest::SelftestArgs),
    /// Run the AuthDNS, the authoritative server of the Tester
    Auth(auth::AuthArgs),
    /// Write the AuthDNS's zone as a master file, and another server's configuration for it
    Zone(zone::Arguments),
    /// Look for limits of this machine that would distort a measurement
    Preflight(preflight::PreflightArgs),
    /// List, configure and run the servers that can be measured
    Peers(peers::Args),
    /// Run a reflector, which returns every query as a response
    Echo(echo::EchoArgs),
    /// Make network namespaces for Tester, DUT and AuthDNS on this machine
    Lab(lab::LabArgs),
    /// Render the report of a result directory again
    Report(report::Args),
    /// Convert a capture (pcap, pcapng) to a compact file, which trial --input replays from disk
    Convert(convert::ConvertArgs),
    /// Compare two results, or find the changes in a series of results
    Compare(compare::CompareArgs),
}

/// Parses the command line, does what it asks and returns the exit code.
pub fn main() -> ExitCode {
    // clap exits with 2 on bad usage, as we do.
    let Cli { netns, quiet, verbose, command } = Cli::parse();
    match (quiet, verbose) {
        (true, _) => Detail::Quiet.choose(),
        (_, true) => Detail::Full.choose(),
        _ => Detail::Usual.choose(),
    }
    // Before any thread is started: a thread has the namespace of the one that started it.
    if let Some(error) = netns.and_then(|name| sys::netns::enter(&name).err()) {
        return complain(&error.into());
    }
    let outcome = match command {
        Command::Bench(args) => bench::run(&args),
        Command::Campaign(args) => campaign::run(&args),
        Command::Trial(args) => trial::run(&args),
        Command::Search(args) => search::run(&args),
        Command::Selftest(args) => selftest::run(&args),
        Command::Auth(args) => return auth::run(&args),
        Command::Zone(args) => zone::run(&args),
        Command::Preflight(args) => preflight::run(&args),
        Command::Echo(args) => echo::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Peers(args) => peers::run(&args)
            .map_err(|error| Failure::new(error.exit_code(), error))
            .map(|()| ExitCode::SUCCESS),
        Command::Convert(args) => convert::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Report(args) => {
            report::run(&args).map_err(|error| Failure::new(EXIT_USAGE, error)).map(|()| ExitCode::SUCCESS)
        }
    };
    outcome.unwrap_or_else(|failure| complain(&failure))
}

/// About how long a command line of `bench`, `search` or `trial` takes, if it can be run at all.
///
/// # Errors
/// What is wrong with it, in one line.
fn forecast(arguments: &[String]) -> Result<Duration, String> {
    let words = std::iter::once("sextant").chain(arguments.iter().map(String::as_str));
    let parsed = Cli::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        first.strip_prefix("error: ").unwrap_or(first).to_owned()
    })?;
    match parsed.command {
        Command::Bench(args) => args.forecast(),
        Command::Search(args) => args.forecast(),
        Command::Trial(args) => args.forecast(),
        Command::Preflight(args) => args.forecast(),
        _ => return Err(format!("only {} can be parts of a campaign", COMMANDS.join(", "))),
    }
    .map_err(|failure| failure.to_string())
}

/// Says what went wrong in one line.
fn complain(failure: &Failure) -> ExitCode {
    // The exit code says it too, where standard error is gone.
    let _ = writeln!(std::io::stderr(), "sextant: {failure}");
    ExitCode::from(failure.code)
}
