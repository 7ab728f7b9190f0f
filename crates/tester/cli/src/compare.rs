//! `sextant compare`: better, same or worse, with confidence.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use record::Results;
use serde::Serialize;

use super::{EXIT_FAILED, EXIT_UNFIT, EXIT_USAGE};
use crate::failure::{Failure, print, print_json};
use campaign::series::joined;
use report;
use report::compare::{ConditionResult, Incomparable, Named, Pair, history, pair};
use report::compare::{history_markdown, history_text, pair_markdown, pair_text};

/// Options of `sextant compare`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  sextant compare results/before results/after
  sextant compare results/before results/after --fail-if 'worse>2%' --markdown
      for CI: 0 if B is certainly not more than 2 % worse, 1 if B certainly is, 3 if the runs do not tell
  sextant compare results/2025-07-31T140211Z-ab --cells A,B
      two cells of a campaign
  sextant compare --history results/*
      where the results changed over time, and stayed changed")]
pub struct CompareArgs {
    /// Result directory of the baseline, then that of the candidate; with --history any number of them
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,
    /// Compare two cells of the campaign in the directory, each with all its measurements
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, conflicts_with_all = ["history", "aa"])]
    cells: Vec<String>,
    /// Find the change points of all results in the order of their times
    #[arg(long)]
    history: bool,
    /// Another result of the server of A; the difference between the two counts as noise (A/A)
    #[arg(long, value_name = "DIR", conflicts_with = "history")]
    aa: Option<PathBuf>,
    /// Differences up to this percentage do not count; noise and stop width raise the threshold
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = percent)]
    threshold: f64,
    /// Exit with 1 if the condition holds and with 3 if the runs do not decide it, for example 'worse>2%'
    #[arg(long, value_name = "CONDITION", value_parser = parse_condition)]
    fail_if: Option<WorseBy>,
    /// Write Markdown, for a pull request
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// `worse>PERCENT%`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct WorseBy {
    pct: f64,
}

fn parse_condition(text: &str) -> Result<WorseBy, String> {
    let form = "write worse>PERCENT%, for example 'worse>2%', in quotes";
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let number = compact.strip_prefix("worse>").and_then(|rest| rest.strip_suffix('%')).ok_or(form)?;
    percent(number).map(|pct| WorseBy { pct })
}

fn percent(text: &str) -> Result<f64, String> {
    let share = text.trim_end_matches('%').parse::<f64>().ok().filter(|share| (0.0..=99.0).contains(share));
    share.ok_or_else(|| format!("'{text}' is not a percentage from 0 to 99"))
}

/// Compares, prints what follows, and says it by the exit code too.
///
/// # Errors
/// A record cannot be read, or the results cannot be compared.
pub fn run(args: &CompareArgs) -> Result<ExitCode, Failure> {
    if !args.cells.is_empty() {
        return args.run_cells();
    }
    let names: Vec<String> = args.directories.iter().map(|dir| dir.display().to_string()).collect();
    let results = args.directories.iter().map(|dir| load(dir)).collect::<Result<Vec<_>, _>>()?;
    let named: Vec<Named<'_>> =
        names.iter().zip(&results).map(|(name, results)| Named { name, results }).collect();
    let met = |worse_by: &dyn Fn(f64) -> ConditionResult| {
        args.fail_if.map_or(ConditionResult::No, |condition| worse_by(condition.pct))
    };
    let met = if args.history {
        let found = history(&named, args.threshold).map_err(incomparable)?;
        args.show(&found, history_text, history_markdown)?;
        met(&|pct| found.worse_by(pct))
    } else {
        let [a, b] = named[..] else {
            let message = format!("give two result directories, not {}; for more use --history", named.len());
            return Err(Failure::new(EXIT_USAGE, message));
        };
        distinct(&args.directories[0], &args.directories[1])?;
        let again = args.aa.as_ref().map(|dir| load(dir).map(|results| (dir.display().to_string(), results)));
        let again = again.transpose()?;
        let again = again.as_ref().map(|(name, results)| Named { name, results });
        let found = pair(a, b, again, args.threshold).map_err(incomparable)?;
        args.show(&found, pair_text, pair_markdown)?;
        met(&|pct| found.worse_by(pct))
    };
    Ok(code(met))
}

fn code(met: ConditionResult) -> ExitCode {
    ExitCode::from(match met {
        ConditionResult::No => 0,
        ConditionResult::Yes => EXIT_FAILED,
        ConditionResult::Unknown => EXIT_UNFIT,
    })
}

/// Compares two cells of the campaign in a directory.
///
/// # Errors
/// There are no such cells, or they cannot be compared.
pub(crate) fn between_cells(directory: &Path, cells: [&str; 2], threshold_pct: f64) -> Result<Pair, Failure> {
    let usage = |why: &dyn std::fmt::Display| Failure::new(EXIT_USAGE, why);
    let series = report::series::load(directory).map_err(|error| usage(&error))?;
    let [a, b] = cells.map(|cell| joined(&series, directory, cell).map_err(|why| usage(&why)));
    let (a, b) = (a?, b?);
    let [name_a, name_b] = cells.map(|cell| format!("{} cell {cell}", directory.display()));
    let [a, b] = [Named { name: &name_a, results: &a }, Named { name: &name_b, results: &b }];
    pair(a, b, None, threshold_pct).map_err(incomparable)
}

impl CompareArgs {
    fn run_cells(&self) -> Result<ExitCode, Failure> {
        let ([directory], [a, b]) = (self.directories.as_slice(), self.cells.as_slice()) else {
            let message = "--cells compares two cells, --cells A,B, of one campaign: give its directory";
            return Err(Failure::new(EXIT_USAGE, message));
        };
        let found = between_cells(directory, [a, b], self.threshold)?;
        self.show(&found, pair_text, pair_markdown)?;
        Ok(code(self.fail_if.map_or(ConditionResult::No, |condition| found.worse_by(condition.pct))))
    }

    fn show<T: Serialize>(
        &self,
        found: &T,
        text: fn(&T) -> String,
        markdown: fn(&T) -> String,
    ) -> Result<(), Failure> {
        match (self.json, self.markdown) {
            (true, _) => print_json(found),
            (_, true) => print(&markdown(found)),
            _ => print(&text(found)),
        }
    }
}

fn load(directory: &Path) -> Result<Results, Failure> {
    report::load(directory).map_err(|error| Failure::new(EXIT_USAGE, error))
}

fn incomparable(why: Incomparable) -> Failure {
    Failure::new(EXIT_USAGE, why)
}

/// A result compared with itself is the same for certain, which says nothing.
fn distinct(a: &Path, b: &Path) -> Result<(), Failure> {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(first), Ok(second)) if first == second => {
            let message = format!("{}: given twice; give two results", b.display());
            Err(Failure::new(EXIT_USAGE, message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_one_form() {
        assert_eq!(parse_condition("worse > 2.5 %"), Ok(WorseBy { pct: 2.5 }));
        for text in ["worse>2", "better>2%", "worse", "worse>x%", "worse>100%", "worse>-1%"] {
            assert!(parse_condition(text).is_err(), "{text}");
        }
    }
}
