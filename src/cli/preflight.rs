//! `sextant preflight`: what limits this machine.

use std::process::ExitCode;

use clap::Args;
use engine::record::{Finding, Severity};

use super::common::{Failure, print, print_json};
use super::{EXIT_FAILED, EXIT_UNFIT};
use crate::lab::environment::{Manifest, preflight};

/// Options of `sextant preflight`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Example:
  sextant preflight
Exit codes: 0 fit, 1 something should be mended, 3 nothing can be measured here")]
pub struct PreflightArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the findings; the exit code is 3 if nothing can be measured here, 1 if something should be mended.
///
/// # Errors
/// Standard output is gone.
pub fn run(args: &PreflightArgs) -> Result<ExitCode, Failure> {
    let manifest = Manifest::take();
    let findings: Vec<Finding> = preflight(&manifest).into_iter().map(Into::into).collect();
    if args.json {
        print_json(&findings)?;
    } else {
        print(&findings.iter().map(in_words).collect::<String>())?;
    }
    let worst = findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Info);
    Ok(ExitCode::from(match worst {
        Severity::Info => 0,
        Severity::Warning => EXIT_FAILED,
        Severity::Fatal => EXIT_UNFIT,
    }))
}

fn in_words(finding: &Finding) -> String {
    let Finding { severity, what, evidence, remedy } = finding;
    let mark = match severity {
        Severity::Info => "ok     ",
        Severity::Warning => "warning",
        Severity::Fatal => "FATAL  ",
    };
    let mut text = format!("{mark}  {what:<16} {evidence}\n");
    if *severity != Severity::Info {
        text += &format!("         {:<16} -> {remedy}\n", "");
    }
    text
}
