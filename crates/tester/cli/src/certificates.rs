//! Certificates on the command line: `--certificates`, and the lists of `sextant selftest`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;

use super::{EXIT_UNFIT, EXIT_USAGE};
use crate::failure::{Failure, print, print_json};
use campaign::Plan;
use campaign::certificate::{Certificate, CertificateStore, Conditions, Needed, Stored, best};
use record::number::count as grouped;

/// Where certificates are kept.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Certificates")]
pub(crate) struct CertificateArgs {
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
    let place = args.store()?.directory.display().to_string();
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
        let Conditions { path, io, auth, .. } = conditions;
        let (limit, name) = (grouped(*certified_qps), one.name());
        let _ = writeln!(
            text,
            "  {issued_utc}  up to {limit:>11} q/s  {path:<8}  Measurer {io}, AuthDNS {auth}, {trial_s} s  {name}"
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
        let place = args.store()?.directory.display().to_string();
        let message = format!(
            "there is no certificate '{name}' in {place}; sextant selftest --list shows those there are"
        );
        return Err(Failure::new(EXIT_USAGE, message));
    };
    if json { print_json(&found.certificate) } else { print(&text(&found.certificate)) }
}

/// A certificate as a person reads it.
fn text(certificate: &Certificate) -> String {
    let Certificate { certified_qps, required_qps, trial_s, timeout_s, .. } = certificate;
    let mut text = format!(
        "this Tester may measure rates up to {} q/s here (RFC 8219 9.2.1)\n\n",
        grouped(*certified_qps)
    );
    let because = format!(
        "at {} q/s for {trial_s} s every answer was valid and came within {timeout_s} s",
        grouped(*required_qps)
    );
    let command = certificate.command.join(" ");
    let before = [
        ("issued", certificate.issued_utc.as_str()),
        ("because", &because),
        ("schedule", &certificate.pacing),
        ("names", &certificate.names),
    ];
    let rows = before.into_iter().chain(certificate.conditions.rows()).chain([("command", command.as_str())]);
    for (label, value) in rows.filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(text, "  {label:<24}  {value}");
    }
    let deciding = certificate.trials.last().map_or_else(String::new, report::trial_text);
    format!("{text}\nThe deciding trial, of {}:\n{deciding}", certificate.trials.len())
}
