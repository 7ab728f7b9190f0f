//! The keys that are trusted without a signature.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dns64::wire::Name;
use domain::base::iana::{Class, Rtype};
use domain::base::{Name as DomainName, ToName};
use domain::dnssec::validator::anchor::TrustAnchors;
use domain::zonefile::inplace::{Entry, Zonefile};

/// The key-signing keys of the root as IANA publishes them (RFC 7958), of 2017 and 2024.
const IANA: &str = "\
. IN DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D
. IN DS 38696 8 2 683D2D0ACB8C9B712A1948B27F741219298D0A450D612C483AF444A4C0FB2B16
";

/// The longest file of anchors, in octets.
const FILE_OCTETS_MAX: u64 = 1 << 16;

/// Trust anchors: DS or DNSKEY records, mostly of the root.
#[derive(Clone, Debug)]
pub struct Anchors {
    text: Arc<str>,
    owners: Arc<[Name]>,
}

/// Why there are no trust anchors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnchorsError {
    /// The file cannot be read.
    Read(PathBuf, String),
    /// The file is no zone file (RFC 1035 5).
    Syntax(String),
    /// It has a record that is neither DS nor DNSKEY of class IN.
    Record(String),
    /// The file has no DS or DNSKEY record.
    Empty,
}

impl fmt::Display for AnchorsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, reason) => write!(f, "{}: {reason}", path.display()),
            Self::Syntax(reason) => write!(f, "no records as in a zone file: {reason}"),
            Self::Record(rtype) => {
                write!(f, "a record of type {rtype}: write DS or DNSKEY records of class IN")
            }
            Self::Empty => f.write_str("no record in it: write DS or DNSKEY records"),
        }
    }
}

impl std::error::Error for AnchorsError {}

impl Anchors {
    /// The root's key-signing keys of 2017 and 2024, as IANA publishes them.
    pub fn iana() -> Self {
        Self { text: IANA.into(), owners: Arc::new([Name::ROOT]) }
    }

    /// Reads a file of DS and DNSKEY records, one on each line, as in `/usr/share/dns/root.key`.
    ///
    /// # Errors
    /// It cannot be read, or has something else in it.
    pub fn load(path: &Path) -> Result<Self, AnchorsError> {
        let failed = |reason: String| AnchorsError::Read(path.to_owned(), reason);
        let mut text = String::new();
        File::open(path)
            .and_then(|file| file.take(FILE_OCTETS_MAX + 1).read_to_string(&mut text))
            .map_err(|error| failed(error.to_string()))?;
        if text.len() as u64 > FILE_OCTETS_MAX {
            return Err(failed(format!("larger than {FILE_OCTETS_MAX} octets")));
        }
        Self::parse(&text)
    }

    /// Reads such records.
    ///
    /// # Errors
    /// There is something else, or nothing.
    pub fn parse(text: &str) -> Result<Self, AnchorsError> {
        let syntax = |error: &dyn fmt::Display| AnchorsError::Syntax(error.to_string());
        let mut file = Zonefile::from(format!("{text}\n").as_str());
        file.set_default_class(Class::IN);
        let mut owners = Vec::new();
        for entry in file {
            let record = match entry.map_err(|error| syntax(&error))? {
                Entry::Record(record) => record,
                Entry::Include { .. } => return Err(syntax(&"$INCLUDE is not read")),
            };
            if !matches!(record.rtype(), Rtype::DS | Rtype::DNSKEY) || record.class() != Class::IN {
                return Err(AnchorsError::Record(record.rtype().to_string()));
            }
            let owner: DomainName<Vec<u8>> = record.owner().to_name();
            owners.push(Name::parse(owner.as_slice(), 0).map_err(|malformed| syntax(&malformed.0))?.0);
        }
        if owners.is_empty() {
            return Err(AnchorsError::Empty);
        }
        TrustAnchors::from_u8(text.as_bytes()).map_err(|error| syntax(&error))?;
        Ok(Self { text: text.into(), owners: owners.into() })
    }

    /// The anchor that counts for a name, by its owner: the longest.
    pub(crate) fn above(&self, name: &Name) -> Option<&Name> {
        let above = self.owners.iter().filter(|owner| name.is_under(owner));
        above.max_by_key(|owner| owner.as_wire().len())
    }

    /// The same for the validator. Without anchors it would take everything, so an error, which cannot be
    /// after [`Anchors::parse`], must not become the empty set.
    pub(crate) fn for_validator(&self) -> Option<TrustAnchors> {
        TrustAnchors::from_u8(self.text.as_bytes()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_the_root_are_read() {
        let anchors = Anchors::parse(IANA).unwrap();
        assert_eq!(*anchors.owners, [Name::ROOT, Name::ROOT]);
        assert_eq!(anchors.above(&Name::from_text("www.example").unwrap()), Some(&Name::ROOT));
        assert!(Anchors::iana().for_validator().is_some());
    }

    #[test]
    fn the_longest_anchor_counts() {
        let digest = "00".repeat(32);
        let text =
            format!("example. IN DS 1 15 2 {digest}\n; a note\ncorp.example. 60 IN DS 1 15 2 {digest}");
        let anchors = Anchors::parse(&text).unwrap();
        let above = |name| anchors.above(&Name::from_text(name).unwrap()).copied();
        assert_eq!(above("a.corp.example"), Name::from_text("corp.example").ok());
        assert_eq!(above("corp.example"), Name::from_text("corp.example").ok());
        assert_eq!(above("acorp.example"), Name::from_text("example").ok());
        assert_eq!(above("test"), None);
    }

    #[test]
    fn what_is_no_anchor_is_refused() {
        assert_eq!(Anchors::parse("; nothing\n").unwrap_err(), AnchorsError::Empty);
        assert_eq!(
            Anchors::parse("example. IN A 192.0.2.1").unwrap_err(),
            AnchorsError::Record("A".to_owned())
        );
        assert!(matches!(Anchors::parse("example. IN DS x"), Err(AnchorsError::Syntax(_))));
        assert!(matches!(Anchors::parse("relative IN DS 1 15 2 00"), Err(AnchorsError::Syntax(_))));
        assert!(matches!(Anchors::parse("$INCLUDE file"), Err(AnchorsError::Syntax(_))));
        assert!(matches!(Anchors::load(Path::new("/nowhere")), Err(AnchorsError::Read(..))));
        assert!(matches!(Anchors::load(Path::new("/dev/null")), Err(AnchorsError::Empty)));
        assert!(matches!(Anchors::load(Path::new("/dev/zero")), Err(AnchorsError::Read(..))));
    }
}
