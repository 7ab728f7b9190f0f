//! The options of the signed zone and of the trust anchor.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, io};

use clap::Args;

use authdns::{Signing, SigningKey, TrustAnchor};

/// Signatures hold from this long before the start, for resolvers whose clocks are slow.
const BEFORE: Duration = Duration::from_secs(3600);
const DAY_S: u64 = 86_400;
/// Longer would not be told from the past (RFC 4034 3.1.5).
const DAYS_MAX: i64 = 20_000;
/// No private key is nearly as long.
const KEY_FILE_OCTETS_MAX: u64 = 65_536;

/// Options of the signatures.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "DNSSEC")]
pub struct SigningArgs {
    /// Sign the zone: answers to queries with the DO bit are signed when the query arrives
    #[arg(long)]
    pub signed: bool,
    /// Private key of BIND's dnssec-keygen -a ED25519 (K*.private) [default: made from --key-seed]
    #[arg(long, value_name = "FILE", requires = "signed", conflicts_with = "key_seed", value_parser = key_file)]
    pub key: Option<SigningKey>,
    /// Text from which the key is derived; the same text gives the same key
    #[arg(long, value_name = "TEXT", requires = "signed", default_value = "sextant")]
    pub key_seed: String,
    /// Start of the validity of the signatures, for example 2030-01-01T00:00:00Z
    /// [default: an hour before the start]
    #[arg(long, value_name = "TIME", requires = "signed", value_parser = humantime::parse_rfc3339_weak)]
    pub signed_from: Option<SystemTime>,
    /// Validity of the signatures, in days
    #[arg(long, value_name = "DAYS", requires = "signed", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=DAYS_MAX))]
    pub signed_days: u16,
    /// Write the trust anchor of the signed zone into a file: DS and DNSKEY records; those of reverse zones
    /// into FILE.ZONE
    #[arg(long, value_name = "FILE", requires = "signed")]
    pub trust_anchor: Option<PathBuf>,
}

impl SigningArgs {
    /// How the zone is signed, if it is.
    pub fn signing(&self) -> Option<Signing> {
        let from = self.signed_from.or_else(|| SystemTime::now().checked_sub(BEFORE)).unwrap_or(UNIX_EPOCH);
        let from_s = from.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.signed.then(|| Signing {
            key: self.key.clone().unwrap_or_else(|| SigningKey::from_seed(&self.key_seed)),
            // Modulo 2^32, as the field is.
            inception_s: from_s as u32,
            expiration_s: (from_s + u64::from(self.signed_days) * DAY_S) as u32,
        })
    }

    /// Writes the files of trust anchors, if they are asked for: FILE for the suffix, FILE.ZONE for a reverse
    /// zone, because Knot Resolver takes one zone in each.
    ///
    /// # Errors
    /// A file cannot be written: one line with its name.
    pub(crate) fn write_trust_anchors(&self, anchors: &[TrustAnchor]) -> Result<(), String> {
        let Some(file) = &self.trust_anchor else { return Ok(()) };
        for (number, anchor) in anchors.iter().enumerate() {
            let mut path = file.clone().into_os_string();
            if number > 0 {
                path.push(format!(".{}", anchor.zone.trim_end_matches('.')));
            }
            let path = PathBuf::from(path);
            fs::write(&path, anchor.file_text())
                .map_err(|error| format!("--trust-anchor {}: {error}", path.display()))?;
        }
        Ok(())
    }
}

fn key_file(path: &str) -> Result<SigningKey, String> {
    let text = read_text(Path::new(path), KEY_FILE_OCTETS_MAX)?;
    SigningKey::from_private_key_file(&text)
}

/// Reads a file of at most so many octets of text.
pub(crate) fn read_text(path: &Path, octets_max: u64) -> Result<String, String> {
    let read = || {
        let mut text = String::new();
        let mut limited = io::Read::take(fs::File::open(path)?, octets_max + 1);
        io::Read::read_to_string(&mut limited, &mut text)?;
        Ok::<_, io::Error>(text)
    };
    let text = read().map_err(|error| format!("cannot read it: {error}"))?;
    if text.len() as u64 > octets_max {
        return Err(format!("longer than {octets_max} octets"));
    }
    Ok(text)
}
