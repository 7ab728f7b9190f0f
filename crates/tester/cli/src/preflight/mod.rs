//! `sextant preflight`: what limits this machine.

mod fix;
mod ladder;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Args;

use super::{EXIT_FAILED, EXIT_UNFIT, EXIT_USAGE};
use crate::failure::{Failure, print, print_json};
use campaign::Store;
use lab::environment::{Manifest, PathDevices, device_named, preflight};
use ladder::LadderArgs;
use record::ladder::Record;
use record::preflight::{Finding, Severity};

/// Options of `sextant preflight`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  sextant preflight
      examines the machine; nothing is sent
  sextant preflight --device eth1 --device eth2
      the machine and the two ports of a Tester or a server, and no other device (docs/two-hosts.md)
  sextant preflight --fix
      the same, then runs commands that correct findings, each after a confirmation
  sextant preflight --ladder
      asks a reflector in a lab, with one worker and more, from one port and more, and in bursts; shows
      what limits a rate before any server does
  sextant preflight --ladder --server '[2001:db8::1]:53'
      the same towards another machine, on which 'sextant echo --listen [::]:53 --threads 8' runs
Exit codes: 0 fit, 1 something should be corrected, 3 nothing can be measured here")]
pub struct PreflightArgs {
    /// Examine this device and no other, also without an address; several with several options
    /// [default: all devices with an address]
    #[arg(long, value_name = "DEVICE")]
    device: Vec<String>,
    /// Also measure with a reflector, for about 15 seconds
    #[arg(long)]
    ladder: bool,
    /// Run the commands that correct findings; each command is shown and needs a confirmation
    #[arg(long)]
    fix: bool,
    /// Keep findings and measurements in this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long, conflicts_with = "fix")]
    json: bool,
    // Last, or its headings would stand above the options after it.
    #[command(flatten)]
    climb: LadderArgs,
}

impl PreflightArgs {
    /// About how long it takes as a part of a campaign.
    ///
    /// # Errors
    /// Without the ladder nothing is measured.
    pub fn forecast(&self) -> Result<Duration, Failure> {
        let message = "without --ladder preflight measures nothing: add it";
        self.ladder.then(|| self.climb.forecast()).ok_or_else(|| Failure::new(EXIT_USAGE, message))
    }

    /// The machine as it is now, and what is wrong with it and with the devices that were asked for.
    fn examine(&self) -> Result<(Manifest, Vec<Finding>), Failure> {
        let mut manifest = Manifest::take();
        for name in &self.device {
            if manifest.devices.iter().all(|device| device.name != *name) {
                let message = format!("--device: this network namespace has no device '{name}'");
                manifest.devices.push(device_named(name).ok_or_else(|| Failure::new(EXIT_USAGE, message))?);
            }
        }
        let path = match self.device.as_slice() {
            [] => PathDevices::Any,
            names => PathDevices::Named(names.iter().cloned().collect()),
        };
        let findings = preflight(&manifest, &path);
        Ok((manifest, findings))
    }
}

/// Prints the findings; the exit code is 3 if nothing can be measured here, 1 if something should be mended.
///
/// # Errors
/// The ladder cannot be climbed, a file cannot be written, or standard output is gone.
pub fn run(args: &PreflightArgs) -> Result<ExitCode, Failure> {
    let unfit = |error: std::io::Error| Failure::new(EXIT_UNFIT, error);
    let store = args.out.as_deref().map(|out| Store::create(out, Some(out), "preflight", SystemTime::now()));
    let store = store.transpose().map_err(unfit)?;
    let (manifest, findings) = args.examine().inspect_err(|_| store.iter().for_each(Store::discard))?;
    let climb = args.ladder.then(|| args.climb.climb(args.json)).transpose();
    let climb = climb.inspect_err(|_| store.iter().for_each(Store::discard))?;
    let record = Record::new(findings, climb);
    if let Some(store) = &store {
        store
            .save_json("ladder.json", &record)
            .and_then(|()| store.save_json("manifest.json", &manifest))
            .map_err(unfit)?;
    }
    if args.json {
        print_json(&record)?;
        return Ok(exit_code(&record.findings));
    }
    print(&record.climb.as_ref().map(ladder::table).unwrap_or_default())?;
    print_findings(&record.findings)?;
    if args.fix { fix::run(args, &record.findings) } else { Ok(exit_code(&record.findings)) }
}

fn exit_code(findings: &[Finding]) -> ExitCode {
    let worst = findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok);
    ExitCode::from(match worst {
        Severity::Ok => 0,
        Severity::Warning => EXIT_FAILED,
        Severity::Fatal => EXIT_UNFIT,
    })
}

fn print_findings(findings: &[Finding]) -> Result<(), Failure> {
    print(&findings.iter().map(in_words).collect::<String>())
}

fn in_words(finding: &Finding) -> String {
    let Finding { severity, what, evidence, cost, remedy, .. } = finding;
    let mark = match severity {
        Severity::Ok => "ok     ",
        Severity::Warning => "warning",
        Severity::Fatal => "FATAL  ",
    };
    let mut text = format!("{mark}  {what:<19} {evidence}\n");
    if *severity != Severity::Ok {
        text += &format!("         {:<19} {cost}\n         {:<19} -> {remedy}\n", "", "");
    }
    text
}
