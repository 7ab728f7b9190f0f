//! Certificates as files: written whole or not at all, and checked when they are read.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use record::{CertificateUse, SelfTest};
use ring::digest::{SHA256, digest};

use super::{Certificate, SCHEMA};
use crate::store::write_whole;

/// No certificate is longer, in octets.
const FILE_OCTETS_MAX: u64 = 8 << 20;
/// So many of the newest are read.
const FILES_MAX: usize = 1000;
/// A file's name ends with so many hexadecimal digits of the SHA-256 digest of its contents.
const DIGEST_DIGITS: usize = 16;

/// A certificate and its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The file it was read from.
    pub path: PathBuf,
    /// The contents of the file.
    pub certificate: Certificate,
}

impl Stored {
    /// The file's name.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// What it says, for a record without a self-test of its own.
    pub(crate) fn as_selftest(&self) -> SelfTest {
        let Certificate { required_qps, certified_qps, timeout_s, pacing, .. } = self.certificate.clone();
        SelfTest {
            required_qps,
            passed: true,
            certified_qps,
            timeout_s,
            pacing,
            certificate: Some(self.in_record()),
            ..SelfTest::default()
        }
    }

    /// What the record of a measurement says of it.
    pub(crate) fn in_record(&self) -> CertificateUse {
        let Certificate { issued_utc, required_qps, trial_s, conditions, .. } = &self.certificate;
        CertificateUse {
            file: self.path.display().to_string(),
            issued_utc: issued_utc.clone(),
            required_qps: *required_qps,
            trial_s: *trial_s,
            path: conditions.path.clone(),
        }
    }
}

/// A directory of certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateStore {
    /// It is made when the first certificate is kept.
    pub directory: PathBuf,
}

impl CertificateStore {
    /// The directory chosen, or `sextant/certificates` where this user's programs keep their state (XDG Base
    /// Directory Specification): below `XDG_STATE_HOME`, or `.local/state` of the home directory.
    ///
    /// # Errors
    /// Neither is known.
    pub fn new(chosen: Option<&Path>) -> io::Result<Self> {
        let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = || absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
        let directory = chosen.map(Path::to_path_buf).or_else(|| Some(state()?.join("sextant/certificates")));
        let message =
            "there is no place for certificates: set HOME or XDG_STATE_HOME, or use --certificates DIR";
        Ok(Self { directory: directory.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, message))? })
    }

    /// Keeps a certificate; returns its file. The name begins with the time of issue.
    ///
    /// # Errors
    /// It cannot be written, and where.
    pub fn keep(&self, certificate: &Certificate) -> io::Result<PathBuf> {
        let mut text = serde_json::to_vec_pretty(certificate)?;
        text.push(b'\n');
        let Certificate { issued_utc, certified_qps, conditions, .. } = certificate;
        // Colons are awkward in file names.
        let (time, digest) = (issued_utc.replace(':', ""), &sha256(&text)[..DIGEST_DIGITS]);
        let name = format!("{time}-{}-{certified_qps}qps-{digest}.json", conditions.path);
        let written =
            fs::create_dir_all(&self.directory).and_then(|()| write_whole(&self.directory, &name, &text));
        written.map(|()| self.directory.join(name)).map_err(|error| {
            let message = format!("cannot keep the certificate in {}: {error}", self.directory.display());
            io::Error::new(error.kind(), message)
        })
    }

    /// The certificates from the oldest to the newest, and what is wrong with files that were left out, a
    /// line for each.
    pub fn read_all(&self) -> (Vec<Stored>, Vec<String>) {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Default::default(),
            Err(error) => {
                let complaint = format!("cannot read certificates in {}: {error}", self.directory.display());
                return (Vec::new(), vec![complaint]);
            }
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        paths.drain(..paths.len().saturating_sub(FILES_MAX));
        let (mut stored, mut complaints) = (Vec::new(), Vec::new());
        for path in paths {
            match read(&path) {
                Ok(certificate) => stored.push(Stored { path, certificate }),
                Err(why) => complaints.push(format!("certificate {} ignored: {why}", path.display())),
            }
        }
        (stored, complaints)
    }
}

/// The SHA-256 digest as lower-case hexadecimal digits.
pub(super) fn sha256(octets: &[u8]) -> String {
    digest(&SHA256, octets).as_ref().iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Reads a certificate.
///
/// # Errors
/// What is wrong with the file.
fn read(path: &Path) -> Result<Certificate, String> {
    #[derive(serde::Deserialize)]
    struct Version {
        schema: u32,
    }
    let mut octets = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_OCTETS_MAX).read_to_end(&mut octets));
    read.map_err(|error| error.to_string())?;
    let broken = |error: serde_json::Error| format!("it is no whole certificate ({error})");
    let Version { schema } = serde_json::from_slice(&octets).map_err(broken)?;
    if schema != SCHEMA {
        let other = if schema > SCHEMA { "a newer" } else { "an older" };
        return Err(format!("{other} program wrote it (schema {schema})"));
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    if !stem.ends_with(&sha256(&octets)[..DIGEST_DIGITS]) {
        return Err("it was changed after it was written: its name has another digest".into());
    }
    serde_json::from_slice(&octets).map_err(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(issued_utc: &str) -> Certificate {
        let trial = record::Trial { duration_s: 1.0 / 3.0, ..Default::default() };
        Certificate {
            schema: SCHEMA,
            issued_utc: issued_utc.into(),
            certified_qps: 7,
            timeout_s: 0.1 + 0.2,
            trials: vec![trial],
            ..Certificate::default()
        }
    }

    #[test]
    fn what_is_kept_comes_back_in_its_order() {
        let base = tempfile::tempdir().unwrap();
        let store = CertificateStore::new(Some(&base.path().join("deep/down"))).unwrap();
        assert_eq!(store.read_all(), (Vec::new(), Vec::new()));
        for issued in ["2026-01-02T03:04:06Z", "2026-01-02T03:04:05Z"] {
            store.keep(&certificate(issued)).unwrap();
        }
        let (stored, complaints) = store.read_all();
        assert!(complaints.is_empty(), "{complaints:?}");
        let issued: Vec<&str> = stored.iter().map(|one| one.certificate.issued_utc.as_str()).collect();
        assert_eq!(issued, ["2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"]);
        assert!(stored[0].name().starts_with("2026-01-02T030405Z-"));
        assert_eq!(sha256(b"abc")[..8], *"ba7816bf", "FIPS 180-2, B.1");
    }

    #[test]
    fn what_is_damaged_changed_or_newer_is_left_out_with_a_line() {
        let base = tempfile::tempdir().unwrap();
        let store = CertificateStore::new(Some(base.path())).unwrap();
        let path = store.keep(&certificate("2026-01-02T03:04:05Z")).unwrap();
        let whole = fs::read_to_string(&path).unwrap();
        let complaint = |text: &[u8]| {
            fs::write(&path, text).unwrap();
            let (stored, complaints) = store.read_all();
            assert!(stored.is_empty() && complaints.len() == 1, "{complaints:?}");
            assert!(complaints[0].contains(path.to_str().unwrap()) && complaints[0].lines().count() == 1);
            complaints[0].clone()
        };
        let changed = whole.replace("\"certified_qps\": 7", "\"certified_qps\": 9");
        assert!(complaint(changed.as_bytes()).contains("was changed"));
        let newer = whole.replace("\"schema\": 2", "\"schema\": 3");
        assert!(complaint(newer.as_bytes()).contains("a newer program wrote it (schema 3)"));
        for length in 0..whole.len() - 1 {
            complaint(&whole.as_bytes()[..length]);
        }
        assert!(complaint(b"\xff\xfe").contains("no whole certificate"));
        fs::write(&path, &whole).unwrap();
        assert_eq!(store.read_all().0.len(), 1);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("file");
        fs::write(&file, "x").unwrap();
        let store = CertificateStore::new(Some(&file)).unwrap();
        let error = store.keep(&certificate("2026-01-02T03:04:05Z")).unwrap_err();
        assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
        assert_eq!(store.read_all().1.len(), 1);
    }
}
