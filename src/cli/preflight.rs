//! `sextant preflight`: what limits this machine.

use std::process::ExitCode;

use clap::Args;
use engine::record::Severity;

use super::common::Failure;
use super::{EXIT_FAILED, EXIT_UNFIT};
use crate::lab::environment::{Manifest, preflight};

/// Options of `sextant preflight`.
#[derive(Args, Clone, Debug)]
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
    let findings: Vec<engine::record::Finding> = preflight(&manifest).into_iter().map(Into::into).collect();
    if args.json {
        let text =
            serde_json::to_string_pretty(&findings).map_err(|error| Failure::new(EXIT_UNFIT, error))?;
        println!("{text}");
    } else {
        for finding in &findings {
            let mark = match finding.severity {
                Severity::Info => "ok     ",
                Severity::Warning => "warning",
                Severity::Fatal => "FATAL  ",
            };
            println!("{mark}  {:<16} {}", finding.what, finding.evidence);
            if finding.severity != Severity::Info {
                println!("         {:<16} -> {}", "", finding.remedy);
            }
        }
    }
    let worst = findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Info);
    Ok(ExitCode::from(match worst {
        Severity::Info => 0,
        Severity::Warning => EXIT_FAILED,
        Severity::Fatal => EXIT_UNFIT,
    }))
}
