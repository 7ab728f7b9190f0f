//! `sextant campaign ab`: two measurements in turns, and whether the second is better.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::super::EXIT_USAGE;
use super::super::compare::between_cells;
use super::{PrintArgs, start};
use crate::failure::{Failure, print};
use campaign::series::Description;
use record::campaign::Form;
use report::compare::pair_text;

const CELLS: [&str; 2] = ["A", "B"];

/// Options of `sextant campaign ab`.
#[derive(Args, Clone, Debug)]
pub(crate) struct AbArgs {
    /// A, the baseline: bench or search with its options, in quotes
    #[arg(value_name = "COMMAND")]
    a: String,
    /// B: the same command with one difference
    #[arg(value_name = "COMMAND")]
    b: String,
    /// Number of rounds. Each round measures A and B, in the order ABBA, so that a slow drift of the machine
    /// favours neither
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Directory [default: results/TIME-ab]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Makes the measurements and compares.
///
/// # Errors
/// A command that cannot be run, a directory that cannot be written; measurements that failed.
pub fn run(args: &AbArgs) -> Result<ExitCode, Failure> {
    let text = description(args);
    let description = Description::parse(&text, "ab").map_err(|error| Failure::new(EXIT_USAGE, error))?;
    let shown = PrintArgs { json: false };
    let (directory, code) = start((description, text), Form::Quick, args.out.as_deref(), &shown)?;
    let again = format!("Again: sextant compare {} --cells {}\n", directory.display(), CELLS.join(","));
    let found = between_cells(&directory, CELLS, THRESHOLD_PCT)?;
    print(&format!("\n{}{again}", pair_text(&found)))?;
    Ok(code)
}

/// Smaller differences do not matter, in percent.
const THRESHOLD_PCT: f64 = 2.0;

/// The campaign, as a file would say it.
fn description(args: &AbArgs) -> String {
    let rounds = args.rounds;
    let mut text = format!(
        "name = \"ab\"\ntitle = \"A and B in turns\"\n\
         about = {}\n[quick]\nrounds = {rounds}\n[full]\nrounds = {rounds}\n",
        quoted(&format!("A: sextant {}. B: sextant {}.", args.a, args.b))
    );
    for (cell, command) in CELLS.iter().zip([&args.a, &args.b]) {
        let mut words = command.split_whitespace();
        let name = words.next().unwrap_or_default();
        let options: Vec<String> = words.map(quoted).collect();
        text += &format!(
            "[[part]]\nname = \"{cell}\"\ncommand = {}\noptions = [{}]\n",
            quoted(name),
            options.join(", ")
        );
    }
    text
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_commands_become_a_campaign_in_turns() {
        let args = AbArgs {
            a: "bench --peer dns64d".into(),
            b: "bench --peer unbound --suffix a\"b".into(),
            rounds: 2,
            out: None,
        };
        let text = description(&args);
        let parsed = Description::parse(&text, "ab").unwrap_or_else(|error| panic!("{error}\n{text}"));
        let visits = campaign::series::visits(&parsed, Form::Quick);
        let cells: String = visits.iter().map(|visit| visit.cell.as_str()).collect();
        assert_eq!(cells, "ABBA");
        assert_eq!(visits[1].arguments, ["bench", "--peer", "unbound", "--suffix", "a\"b"]);
        let nothing = AbArgs { a: String::new(), ..args };
        assert!(Description::parse(&description(&nothing), "ab").is_err());
    }
}
