//! What a person sees of certificates: `--certificates`, and the lists of `sextant selftest`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;

use super::common::{Failure, print, print_json};
use super::{EXIT_UNFIT, EXIT_USAGE};
use crate::campaign::Plan;
use crate::campaign::certificate::fit::{Needed, best};
use crate::campaign::certificate::store::{CertificateStore, Stored};
use crate::campaign::certificate::{Certificate, Conditions};
use crate::report::number::count as grouped;

/// Where certificates are kept.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Certificates")]
pub struct CertificateArgs {
    /// Where certificates are kept [default: sextant/certificates below XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    pub certificates: Option<PathBuf>,
}

impl CertificateArgs {
    /// The place.
    ///
    /// # Errors
    /// None is known.
    pub fn store(&self) -> Result<CertificateStore, Failure> {
        CertificateStore::new(self.certificates.as_deref()).map_err(|error| Failure::new(EXIT_UNFIT, error))
    }

    /// All that can be read; on standard error a line for each that cannot. Without a place there are none.
    pub fn read(&self) -> Vec<Stored> {
        let (stored, complaints) = self.store().map(|store| store.read_all()).unwrap_or_default();
        for complaint in complaints {
            // Without a standard error there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "sextant: {complaint}");
        }
        stored
    }

    /// The certificate that holds for a plan, or why none does.
    ///
    /// # Errors
    /// None holds.
    pub fn fitting(&self, conditions: Conditions, plan: &Plan) -> Result<Stored, String> {
        best(&self.read(), &Needed::new(conditions, plan)).cloned()
    }
}

/// `--list`.
///
/// # Errors
/// Nobody can be told.
pub fn list(args: &CertificateArgs, json: bool) -> Result<(), Failure> {
    let place = args.store()?.directory().display().to_string();
    let stored = args.read();
    if json {
        let all: Vec<&Certificate> = stored.iter().map(|one| &one.certificate).collect();
        return print_json(&all);
    }
    if stored.is_empty() {
        return print(&format!(
            "There are no certificates in {place}; sextant selftest --rate N makes one.\n"
        ));
    }
    let mut text = format!("In {place}:\n");
    for one in &stored {
        let Certificate { issued_utc, certified_qps, conditions, trial_s, .. } = &one.certificate;
        let (io, auth_io) = (&conditions.measurer.io, auth_io(&one.certificate));
        let _ = writeln!(
            text,
            "  {issued_utc}  up to {:>11} q/s  {:<8}  Measurer {io}, AuthDNS {auth_io}, {trial_s} s  {}",
            grouped(*certified_qps),
            conditions.path.kind,
            one.name()
        );
    }
    print(&text)
}

/// `--show`: the certificate in the file of that name, or the newest one.
///
/// # Errors
/// There is none.
pub fn show(args: &CertificateArgs, name: &str, json: bool) -> Result<(), Failure> {
    let stored = args.read();
    let found = match name {
        "newest" => stored.last(),
        name => stored.iter().find(|one| one.name() == name || one.path.as_os_str() == name),
    };
    let Some(found) = found else {
        let place = args.store()?.directory().display().to_string();
        let message = format!(
            "there is no certificate '{name}' in {place}; sextant selftest --list shows those there are"
        );
        return Err(Failure::new(EXIT_USAGE, message));
    };
    if json { print_json(&found.certificate) } else { print(&text(&found.certificate)) }
}

/// A certificate as a person reads it.
fn text(certificate: &Certificate) -> String {
    let Certificate { tool, issued_utc, certified_qps, required_qps, conditions, .. } = certificate;
    let (machine, path) = (&conditions.machine, &conditions.path);
    let mut text =
        format!("{tool} may measure rates up to {} q/s here (RFC 8219 9.2.1)\n\n", grouped(*certified_qps));
    let mut row = |label: &str, value: String| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {label:<12}  {value}");
        }
    };
    row("issued", issued_utc.clone());
    row("because", because(certificate, *required_qps));
    row("schedule", certificate.pacing.clone());
    let hypervisor = if machine.hypervisor.is_empty() {
        String::new()
    } else {
        format!(", virtual ({})", machine.hypervisor)
    };
    row("machine", format!("{} x {}{hypervisor}", machine.processors, machine.processor));
    row("", format!("identity {}, boot {} (hashes)", known(&machine.id), known(&machine.boot)));
    row("kernel", machine.kernel.clone());
    row("path", path.to_string());
    row("Measurer", conditions.measurer.to_string());
    row("AuthDNS", conditions.auth.to_string());
    row("queries", conditions.workload.to_string());
    row("command", certificate.command.join(" "));
    let deciding = certificate.trials.last().map_or_else(String::new, crate::report::trial_text);
    format!("{text}\nThe deciding trial, of {}:\n{deciding}", certificate.trials.len())
}

fn because(certificate: &Certificate, required_qps: u64) -> String {
    format!(
        "at {} q/s for {} s every answer was valid and came within {} s",
        grouped(required_qps),
        certificate.trial_s,
        certificate.timeout_s
    )
}

fn known(hash: &str) -> &str {
    if hash.is_empty() { "unknown" } else { hash }
}

fn auth_io(certificate: &Certificate) -> &str {
    let io = &certificate.conditions.auth.io;
    if io.is_empty() { "elsewhere" } else { io }
}
