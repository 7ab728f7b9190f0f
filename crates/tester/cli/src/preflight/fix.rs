//! `sextant preflight --fix`: runs commands that correct findings, each after a confirmation.

use std::io::{self, BufRead};
use std::process::{Command, ExitCode, Stdio};

use super::super::EXIT_UNFIT;
use super::{PreflightArgs, exit_code, in_words, print_findings};
use crate::failure::Failure;
use record::preflight::{Finding, Severity};

/// Asks for each finding that has a command, runs those that are wanted, and judges the machine anew.
///
/// # Errors
/// Standard input or output is gone.
pub fn run(args: &PreflightArgs, findings: &[Finding]) -> Result<ExitCode, Failure> {
    let mut mended = 0;
    let mendable = findings.iter().filter(|finding| finding.is_command && finding.severity > Severity::Ok);
    for finding in mendable {
        eprint!("{}Run this command? [y/N] ", in_words(finding));
        if !says_yes(&mut io::stdin().lock())? {
            eprintln!("left as it is");
            continue;
        }
        match shell(&finding.remedy) {
            Ok(()) => mended += 1,
            Err(why) => eprintln!("sextant: {}: {why}", finding.what),
        }
    }
    if mended == 0 {
        eprintln!("nothing was changed");
        return Ok(exit_code(findings));
    }
    let (_, again) = args.examine()?;
    eprintln!("changed until the next boot; this is how it is now:");
    print_findings(&again)?;
    Ok(exit_code(&again))
}

/// Whether the next line says yes; the end of the input does not.
fn says_yes(input: &mut impl BufRead) -> Result<bool, Failure> {
    let mut line = String::new();
    input.read_line(&mut line).map_err(|error| Failure::new(EXIT_UNFIT, error))?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn shell(command: &str) -> Result<(), String> {
    let status =
        Command::new("sh").args(["-ec", command]).stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the command failed ({status})")),
        Err(error) => Err(format!("the command could not be run: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_one() {
        let yes = |mut text: &[u8]| says_yes(&mut text).unwrap();
        assert!(yes(b"y\n") && yes(b"YES\n") && yes(b" y"));
        assert!(!yes(b"\n") && !yes(b"") && !yes(b"n\n") && !yes(b"yesterday\n"));
    }

    #[test]
    fn a_command_that_fails_says_so() {
        assert_eq!(shell("true"), Ok(()));
        assert!(shell("exit 3").unwrap_err().contains("exit status: 3"));
        assert!(shell("false; true").is_err(), "it ends at the first failure");
    }
}
