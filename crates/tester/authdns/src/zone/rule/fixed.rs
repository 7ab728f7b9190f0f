//! Fixed records, from a master file (RFC 1035 5) that the `domain` crate reads.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use dns64::names;
use dns64::wire::{Name, rtype};
use domain::base::iana::Class;
use domain::base::rdata::ComposeRecordData;
use domain::base::{Name as DomainName, ToName};
use domain::zonefile::inplace::{Entry, ScannedRecord, Zonefile};

use super::cut::Tree;
use super::node::Redirect;
use super::sets::RecordSet;

/// The largest set of records, so that every one fits into an answer over TCP.
const SET_OCTETS_MAX: usize = 4096;

/// A file of records: its text, and what it is called in messages.
#[derive(Clone, PartialEq, Eq)]
pub struct RecordsFile {
    /// The path, for messages.
    pub name: Arc<str>,
    /// What stands in it: a master file whose relative names end in the suffix.
    pub text: Arc<str>,
}

impl fmt::Debug for RecordsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordsFile({}, {} octets)", self.name, self.text.len())
    }
}

/// What is wrong with a file of records, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordsError {
    /// The path of the file, for messages.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what to do.
    pub reason: String,
}

impl fmt::Display for RecordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}: {}", self.file, self.line, self.reason)
    }
}

/// The records of one type at a name of the file.
#[derive(Clone, Debug)]
pub(crate) struct FixedSet {
    pub rtype: u16,
    ttl_s: u32,
    rdatas: Vec<Vec<u8>>,
}

impl FixedSet {
    /// The set under its owner as the question spells it.
    pub fn at(&self, owner: Name) -> RecordSet {
        RecordSet::new(owner, self.rtype, self.ttl_s, self.rdatas.clone())
    }
}

/// All fixed records by their owners in lower case; names that others stand below have no sets.
#[derive(Clone, Debug, Default)]
pub struct Fixed {
    nodes: HashMap<Box<[u8]>, Vec<FixedSet>>,
    /// Whether there are DNAME records, which also stand for the names below them.
    redirects: bool,
    /// Whether a name is one of the rule's hosts.
    pub covers_hosts: bool,
    suffix_octets: usize,
}

impl Fixed {
    /// Reads the file; records without a TTL of their own have `ttl_s`.
    ///
    /// # Errors
    /// The first line that is no record of this zone.
    pub fn read(file: &RecordsFile, suffix: &Name, ttl_s: u32) -> Result<Self, RecordsError> {
        let error = |line, reason| RecordsError { file: file.name.clone(), line, reason };
        let mut reader = Zonefile::with_capacity(file.text.len() + 32);
        let preamble = format!("$TTL {ttl_s}\n");
        reader.extend_from_slice(preamble.as_bytes());
        reader.extend_from_slice(file.text.as_bytes());
        reader.extend_from_slice(b"\n");
        reader.set_origin(
            DomainName::from_octets(suffix.as_wire().to_vec().into()).unwrap_or(DomainName::root_bytes()),
        );
        reader.set_default_class(Class::IN);
        let mut fixed = Self { suffix_octets: suffix.as_wire().len(), ..Self::default() };
        let mut line = 1;
        loop {
            let entry = next_entry(&mut reader).map_err(|(at, reason)| error(at.max(line), reason))?;
            let at = reader.current_offset().saturating_sub(preamble.len());
            line = line.max(line_of(&file.text, at));
            match entry {
                Some(Entry::Record(record)) => {
                    fixed.add(&record, suffix).map_err(|reason| error(line, reason))?;
                }
                Some(Entry::Include { .. }) => {
                    return Err(error(
                        line,
                        "$INCLUDE is not followed; put the records into this file".into(),
                    ));
                }
                None => return Ok(fixed),
            }
        }
    }

    fn add(&mut self, record: &ScannedRecord, suffix: &Name) -> Result<(), String> {
        let owner = own_name(record.owner())?;
        let rtype = record.rtype().to_int();
        check_owner(&owner, suffix, rtype)?;
        if record.class() != Class::IN {
            return Err(format!("class {}: only IN is answered", record.class()));
        }
        check_type(rtype).map_err(|reason| format!("{}: {reason}", record.rtype()))?;
        let mut rdata = Vec::new();
        // Canonical, so in lower case: it is what is signed.
        if record.data().compose_canonical_rdata(&mut rdata).is_err() {
            return Err("the record's data is too long".into());
        }
        let mut parent = owner.parent();
        while let Some(name) = parent.filter(|name| name.is_under(suffix)) {
            self.nodes.entry(name.as_wire().into()).or_default();
            parent = name.parent();
        }
        let sets = self.nodes.entry(owner.as_wire().into()).or_default();
        add_to(sets, rtype, record.ttl().as_secs(), rdata)?;
        self.redirects |= rtype == rtype::DNAME;
        self.covers_hosts |= owner.parent() == Some(*suffix)
            && owner.labels().next().is_some_and(|label| names::parse_label(label).is_some());
        Ok(())
    }

    /// Whether there is no file, or nothing in it.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// What stands at a name; an empty list where names stand below it only.
    pub fn sets(&self, name: &Name) -> Option<&[FixedSet]> {
        self.nodes.get(name.to_lowercase().as_wire()).map(Vec::as_slice)
    }

    /// The DNAME record above a name.
    pub(crate) fn redirect_above(&self, name: &Name) -> Option<Redirect> {
        let mut above = name.parent().filter(|_| self.redirects);
        while let Some(owner) = above.filter(|above| above.as_wire().len() >= self.suffix_octets) {
            let dname = self.sets(&owner).and_then(|sets| sets.iter().find(|set| set.rtype == rtype::DNAME));
            if let Some((target, _)) = dname.and_then(|set| Name::parse(set.rdatas.first()?, 0).ok()) {
                return Some(Redirect { owner, target });
            }
            above = owner.parent();
        }
        None
    }

    /// The records at the top of the zone of the suffix.
    pub(crate) fn apex_set(&self, tree: &Tree, apex: &Name, rtype: u16) -> Option<RecordSet> {
        self.apex_sets(tree, apex).iter().find(|set| set.rtype == rtype).map(|set| set.at(*apex))
    }

    /// The types at the top of the zone of the suffix.
    pub(crate) fn apex_types(&self, tree: &Tree, apex: &Name) -> Vec<u16> {
        self.apex_sets(tree, apex).iter().map(|set| set.rtype).collect()
    }

    fn apex_sets(&self, tree: &Tree, apex: &Name) -> &[FixedSet] {
        let is_forward = matches!(tree, Tree::Forward) && !self.is_empty();
        is_forward.then(|| self.sets(apex)).flatten().unwrap_or_default()
    }
}

fn own_name(name: &impl ToName) -> Result<Name, String> {
    let name = name.to_canonical_name::<Vec<u8>>();
    Name::parse(name.as_slice(), 0).map(|(name, _)| name).map_err(|malformed| malformed.to_string())
}

fn check_owner(owner: &Name, suffix: &Name, rtype: u16) -> Result<(), String> {
    if !owner.is_under(suffix) {
        return Err(format!(
            "{owner} is not below {suffix}; write names relative to it, without a dot at the end"
        ));
    }
    let mut octets = owner.labels().flatten();
    if owner.labels().next() == Some(b"*") || !octets.all(|octet| octet.is_ascii_graphic()) {
        return Err(format!("{owner}: wildcards and unprintable names are not served; see --rules wildcard"));
    }
    if owner == suffix && matches!(rtype, rtype::CNAME | rtype::DNAME) {
        return Err(format!("{owner}: the top of the zone can be no alias"));
    }
    Ok(())
}

fn check_type(rtype: u16) -> Result<(), &'static str> {
    const NSEC: u16 = 47;
    match rtype {
        rtype::SOA | rtype::NS | rtype::DS => Err("the zone has its own, and no delegations; leave it out"),
        rtype::RRSIG | NSEC | rtype::DNSKEY | rtype::NSEC3 | rtype::NSEC3PARAM => {
            Err("records of a signed zone are made with --signed; leave it out")
        }
        rtype::OPT | 128..=255 => Err("no type of data; leave it out"),
        _ => Ok(()),
    }
}

fn add_to(sets: &mut Vec<FixedSet>, rtype: u16, ttl_s: u32, rdata: Vec<u8>) -> Result<(), String> {
    let is_alias = |rtype| rtype == rtype::CNAME;
    if sets.iter().any(|set| set.rtype != rtype && (is_alias(set.rtype) || is_alias(rtype))) {
        return Err("a name with a CNAME record can have no other records (RFC 1034 3.6.2)".into());
    }
    let at = sets.iter().position(|set| set.rtype == rtype).unwrap_or_else(|| {
        sets.push(FixedSet { rtype, ttl_s, rdatas: Vec::new() });
        sets.len() - 1
    });
    let set = &mut sets[at];
    if set.rdatas.contains(&rdata) {
        return Ok(());
    }
    if !set.rdatas.is_empty() && matches!(rtype, rtype::CNAME | rtype::DNAME) {
        return Err("a name can have one CNAME or DNAME record only".into());
    }
    if set.ttl_s != ttl_s {
        return Err(format!(
            "TTL {ttl_s}, but others of this name and type have {} (RFC 2181 5.2)",
            set.ttl_s
        ));
    }
    // An owner that is a pointer, type, class, TTL and length stand before each.
    let octets: usize = set.rdatas.iter().chain([&rdata]).map(|rdata| rdata.len() + 12).sum();
    if octets > SET_OCTETS_MAX {
        return Err(format!("more than {SET_OCTETS_MAX} octets of records of one name and type"));
    }
    set.rdatas.push(rdata);
    Ok(())
}

/// The next entry of a file, or the line and the reason that there is none. The reader converts what it reads
/// in its place and panics where an escaped text leaves it no room for that (domain 0.12.3).
fn next_entry(reader: &mut Zonefile) -> Result<Option<Entry>, (usize, String)> {
    match catch_unwind(AssertUnwindSafe(|| reader.next_entry())) {
        Ok(entry) => entry.map_err(|failed| syntax_error(&failed.to_string())),
        Err(_) => Err((1, "the reader cannot take this; put every record on a line of its own".into())),
    }
}

/// The library says `line:column: reason`; it has read one line more at the start, and what ends a line
/// counts to the next one.
fn syntax_error(text: &str) -> (usize, String) {
    let mut parts = text.splitn(3, ':');
    let mut number = || parts.next().and_then(|number| number.parse::<usize>().ok()).unwrap_or(1);
    let (line, column) = (number(), number());
    let reason = parts.next().map_or(text, str::trim);
    let line = line.saturating_sub(if column == 1 { 2 } else { 1 }).max(1);
    (line, format!("{reason}; write for example: www 60 A 192.0.2.1"))
}

/// The line that ends at or before an octet of a text.
fn line_of(text: &str, octet: usize) -> usize {
    let read = &text.as_bytes()[..octet.min(text.len())];
    let read = read.strip_suffix(b"\n").unwrap_or(read);
    1 + read.iter().filter(|octet| **octet == b'\n').count()
}
