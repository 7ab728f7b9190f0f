//! Messages as another DNS library reads them.

use domain::base::iana::Rtype;
use domain::base::name::ToName;
use domain::base::{Message, ParsedRecord, UnknownRecordData};
use domain::rdata::{Cname, Dname};

/// A section of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Answer,
    Authority,
    Additional,
}

/// A record with its owner in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub section: Section,
    pub owner: String,
    pub rtype: u16,
    pub class: u16,
    pub ttl_s: u32,
    /// The target of a CNAME or DNAME record, in lower case.
    pub target: Option<String>,
    pub rdata: Vec<u8>,
}

impl Seen {
    /// The type of the records that a signature is over.
    pub fn signed_type(&self) -> Option<u16> {
        let covered = self.rdata.first_chunk().filter(|_| self.rtype == Rtype::RRSIG.to_int())?;
        Some(u16::from_be_bytes(*covered))
    }
}

/// The records of a message, all of which must be readable and reach to its end.
pub fn records(octets: &[u8]) -> Vec<Seen> {
    let message = Message::from_slice(octets).expect("a header at least");
    let sections = [
        (Section::Answer, message.answer()),
        (Section::Authority, message.authority()),
        (Section::Additional, message.additional()),
    ];
    let mut seen = Vec::new();
    for (section, records) in sections {
        let mut records = records.expect("a section");
        for record in records.by_ref() {
            seen.push(read(section, &record.expect("a record")));
        }
        if section == Section::Additional {
            assert_eq!(records.pos(), octets.len(), "nothing behind the last record");
        }
    }
    seen
}

fn read(section: Section, record: &ParsedRecord<'_, [u8]>) -> Seen {
    let rdata = record.to_record::<UnknownRecordData<&[u8]>>().expect("RDATA").expect("RDATA of any type");
    Seen {
        section,
        owner: text(&record.owner()),
        rtype: record.rtype().to_int(),
        class: record.class().to_int(),
        ttl_s: record.ttl().as_secs(),
        target: target(record),
        rdata: rdata.data().data().to_vec(),
    }
}

fn target(record: &ParsedRecord<'_, [u8]>) -> Option<String> {
    match record.rtype() {
        Rtype::CNAME => record.to_record::<Cname<_>>().ok()?.map(|record| text(record.data().cname())),
        Rtype::DNAME => record.to_record::<Dname<_>>().ok()?.map(|record| text(record.data().dname())),
        _ => None,
    }
}

/// The name of a message's only question, in lower case.
pub fn question_name(octets: &[u8]) -> String {
    let message = Message::from_slice(octets).expect("a header at least");
    text(message.sole_question().expect("a question").qname())
}

fn text(name: &impl ToName) -> String {
    name.to_vec().to_string().to_ascii_lowercase()
}
