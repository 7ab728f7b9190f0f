//! The certificate of the self-test, as `sextant selftest` keeps it.

use std::io;
use std::path::Path;

use figures::auth::Certificate;
use serde_json::Value;

/// What a certificate says of its deciding trial.
///
/// # Errors
/// The file is not there, or is no certificate.
pub fn read(path: &Path) -> io::Result<Certificate> {
    let bad = |what: &dyn std::fmt::Display| io::Error::other(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| bad(&error))?;
    let json: Value = serde_json::from_str(&text).map_err(|error| bad(&error))?;
    let field = |name: &str| {
        let number = json.get(name).and_then(Value::as_f64);
        number.ok_or_else(|| bad(&format!("has no {name}: is it a certificate?")))
    };
    Ok(Certificate {
        required_qps: field("required_qps")?,
        trial_s: field("trial_s")?,
        timeout_s: field("timeout_s")?,
        certified_qps: field("certified_qps")?,
    })
}
