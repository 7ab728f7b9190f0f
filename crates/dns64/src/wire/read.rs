//! Messages, read in place.

use super::{HEADER_LENGTH, Header, Malformed, Name, name, rtype};
use crate::effort::Effort;
use crate::steps;

/// The one question of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// QNAME, its case kept; two questions that differ in case only are equal.
    pub name: Name,
    /// QTYPE (RFC 1035 4.1.2).
    pub qtype: u16,
    /// QCLASS (RFC 1035 4.1.2).
    pub qclass: u16,
}

/// The section of a message that a record stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// The answer section.
    Answer = 1,
    /// The authority section.
    Authority = 2,
    /// The additional section.
    Additional = 3,
}

/// One resource record, by its places in the message.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    message: &'a [u8],
    owner_at: usize,
    rdata_at: usize,
    /// The section it stands in.
    pub section: Section,
    /// TYPE (RFC 1035 4.1.3).
    pub rtype: u16,
    /// CLASS; for OPT the requestor's payload size.
    pub class: u16,
    /// TTL in seconds; for OPT the extended RCODE, version and flags.
    pub ttl: u32,
    /// RDATA as it stands, names in it may be compressed.
    pub rdata: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record whose owner and whose type stand at these places.
    ///
    /// # Errors
    /// The record runs over the end of the message.
    pub(crate) fn at(
        message: &'a [u8],
        section: Section,
        owner_at: usize,
        type_at: usize,
    ) -> Result<Self, Malformed> {
        steps::add(1);
        let fixed: &[u8; 10] = message
            .get(type_at..)
            .and_then(<[u8]>::first_chunk)
            .ok_or(Malformed("record runs over the end"))?;
        let word = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        let rdata_at = type_at + fixed.len();
        let rdata = message
            .get(rdata_at..rdata_at + usize::from(word(8)))
            .ok_or(Malformed("RDATA runs over the end"))?;
        Ok(Self {
            message,
            owner_at,
            rdata_at,
            section,
            rtype: word(0),
            class: word(2),
            ttl: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
            rdata,
        })
    }

    /// The owner name.
    ///
    /// # Errors
    /// A malformed name.
    pub fn owner(&self) -> Result<Name, Malformed> {
        Name::parse(self.message, self.owner_at).map(|(name, _)| name)
    }

    /// Whether the owner is `name`, whatever the case; cheaper than to read it.
    ///
    /// # Errors
    /// A malformed name, as far as it is like `name`; no effort is left.
    pub(crate) fn owner_is(&self, name: &Name, effort: &mut Effort) -> Result<bool, Malformed> {
        name.stands_at(self.message, self.owner_at, effort)
    }

    /// [`Record::owner`] with a bound for all names of a message.
    ///
    /// # Errors
    /// A malformed name; no effort is left.
    pub(crate) fn owner_within(&self, effort: &mut Effort) -> Result<Name, Malformed> {
        Name::parse_within(self.message, self.owner_at, effort).map(|(name, _)| name)
    }

    /// Where the owner stands, if it is written as a pointer alone: equal ones are equal names.
    pub(crate) fn owner_pointer(&self) -> Option<[u8; 2]> {
        let pointer = *self.message.get(self.owner_at..)?.first_chunk::<2>()?;
        (pointer[0] & 0xc0 == 0xc0).then_some(pointer)
    }

    /// Whether the owner is written as a pointer to the question's name, as nearly every server writes it.
    pub fn owner_is_question_pointer(&self) -> bool {
        self.message.get(self.owner_at..self.owner_at + 2) == Some(&[0xc0, HEADER_LENGTH as u8])
    }

    /// Where the record begins in its message.
    pub fn position(&self) -> usize {
        self.owner_at
    }

    /// Where its TYPE stands in its message, behind the owner.
    pub(crate) fn type_position(&self) -> usize {
        self.rdata_at - 10
    }

    /// Where its TTL stands in its message, in four octets.
    pub fn ttl_position(&self) -> usize {
        // Before RDATA stand the TTL and two octets of its length.
        self.rdata_at - 6
    }

    /// Where its RDATA begins in its message.
    pub fn rdata_position(&self) -> usize {
        self.rdata_at
    }

    /// A name within RDATA, `offset` octets after its start, and the offset after it.
    ///
    /// # Errors
    /// A malformed name, or one that leaves the RDATA.
    pub fn name_in_rdata(&self, offset: usize) -> Result<(Name, usize), Malformed> {
        self.name_in_rdata_within(offset, &mut Effort::of_one_name())
    }

    /// The same with a bound for all names of a message.
    ///
    /// # Errors
    /// Those of [`Record::name_in_rdata`]; no effort is left.
    pub(crate) fn name_in_rdata_within(
        &self,
        offset: usize,
        effort: &mut Effort,
    ) -> Result<(Name, usize), Malformed> {
        let (name, end) = Name::parse_within(self.message, self.rdata_at + offset, effort)?;
        let end = end - self.rdata_at;
        if end > self.rdata.len() {
            return Err(Malformed("name runs out of its RDATA"));
        }
        Ok((name, end))
    }

    /// SOA.MINIMUM, the last word of an SOA record's RDATA.
    pub fn soa_minimum(&self) -> Option<u32> {
        (self.rtype == rtype::SOA).then(|| self.rdata.last_chunk().map(|word| u32::from_be_bytes(*word)))?
    }
}

/// A message whose header and question have been read.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    octets: &'a [u8],
    /// The header of the message.
    pub header: Header,
    /// QTYPE of the question; a message without one, or with several, is malformed here (RFC 9619).
    pub qtype: u16,
    /// QCLASS (RFC 1035 4.1.2).
    pub qclass: u16,
    records_at: usize,
}

impl<'a> Message<'a> {
    /// Reads the header and the only question.
    ///
    /// # Errors
    /// No header, not exactly one question, or a malformed one, to which a compressed one counts: before it
    /// stands the header alone. The records are read by [`Message::records`].
    pub fn parse(octets: &'a [u8]) -> Result<Self, Malformed> {
        let header = Header::parse(octets)?;
        if header.counts[0] != 1 {
            return Err(Malformed("not exactly one question"));
        }
        let end = name::end_uncompressed(octets, HEADER_LENGTH)?;
        let tail: &[u8; 4] =
            octets.get(end..).and_then(<[u8]>::first_chunk).ok_or(Malformed("question runs over the end"))?;
        let [qtype, qclass] = [[tail[0], tail[1]], [tail[2], tail[3]]].map(u16::from_be_bytes);
        Ok(Self { octets, header, qtype, qclass, records_at: end + 4 })
    }

    /// The question. Where its name need only be looked at, [`Message::qname_octets`] costs no copy.
    pub fn question(&self) -> Question {
        Question { name: Name::of_uncompressed(self.qname_octets()), qtype: self.qtype, qclass: self.qclass }
    }

    /// QNAME in wire format, its case kept.
    pub fn qname_octets(&self) -> &'a [u8] {
        &self.octets[HEADER_LENGTH..self.records_at - 4]
    }

    /// Whether the question is this one, whatever the case of its name (RFC 4343).
    pub fn asks(&self, question: &Question) -> bool {
        (self.qtype, self.qclass) == (question.qtype, question.qclass)
            && self.qname_octets().eq_ignore_ascii_case(question.name.as_wire())
    }

    /// All octets of the message.
    pub fn octets(&self) -> &'a [u8] {
        self.octets
    }

    /// The position after the question.
    pub fn question_end(&self) -> usize {
        self.records_at
    }

    /// The records of all sections in their order. After an error the iterator ends.
    pub fn records(&self) -> Records<'a> {
        Records::new(self.octets, &self.header, self.records_at)
    }

    /// The records of the answer section that could be read.
    pub fn answers(&self) -> impl Iterator<Item = Record<'a>> {
        self.records().map_while(Result::ok).take_while(|record| record.section == Section::Answer)
    }

    /// What the OPT record says, if there is one (RFC 6891 6.1).
    ///
    /// # Errors
    /// Those of [`Message::opt`].
    pub fn edns(&self) -> Result<Option<Edns>, Malformed> {
        Ok(self.opt()?.map(|record| {
            let [extended_rcode, version, high, _] = record.ttl.to_be_bytes();
            Edns { payload_octets: record.class, extended_rcode, version, dnssec_ok: high & 0x80 != 0 }
        }))
    }

    /// The OPT record, if there is one.
    ///
    /// # Errors
    /// Malformed records, more than one OPT, or one with another name than the root.
    pub fn opt(&self) -> Result<Option<Record<'a>>, Malformed> {
        let mut found = None;
        for record in self.records() {
            let record = record?;
            if record.rtype != rtype::OPT || record.section != Section::Additional {
                continue;
            }
            // The name must be the root's (RFC 6891 6.1.2).
            if self.octets().get(record.owner_at) != Some(&0) {
                return Err(Malformed("an OPT record with a name"));
            }
            if found.replace(record).is_some() {
                return Err(Malformed("more than one OPT record"));
            }
        }
        Ok(found)
    }
}

/// The fields of an OPT record (RFC 6891 6.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// The largest UDP payload its sender takes.
    pub payload_octets: u16,
    /// The upper eight bits of the RCODE.
    pub extended_rcode: u8,
    /// The EDNS version; 0 is the only one there is (RFC 6891 6.1.3).
    pub version: u8,
    /// The DO bit (RFC 3225).
    pub dnssec_ok: bool,
}

/// The iterator over a message's records.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    message: &'a [u8],
    at: usize,
    left: [u16; 3],
}

impl<'a> Records<'a> {
    /// The records of a message whose question is known to end at `at`.
    pub fn new(message: &'a [u8], header: &Header, at: usize) -> Self {
        let [_, answers, authorities, additionals] = header.counts;
        Self { message, at, left: [answers, authorities, additionals] }
    }

    fn read(&mut self, section: Section) -> Result<Record<'a>, Malformed> {
        let owner_at = self.at;
        let fixed_at = skip_name(self.message, owner_at)?;
        let record = Record::at(self.message, section, owner_at, fixed_at)?;
        self.at = record.rdata_at + record.rdata.len();
        Ok(record)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        const SECTIONS: [Section; 3] = [Section::Answer, Section::Authority, Section::Additional];
        let index = self.left.iter().position(|&left| left > 0)?;
        self.left[index] -= 1;
        let record = self.read(SECTIONS[index]);
        if record.is_err() {
            self.left = [0; 3];
        }
        Some(record)
    }
}

fn skip_name(message: &[u8], mut at: usize) -> Result<usize, Malformed> {
    loop {
        let &octet = message.get(at).ok_or(Malformed("name runs over the end"))?;
        steps::add(1);
        match octet & 0xc0 {
            0x00 if octet == 0 => return Ok(at + 1),
            0x00 => at += usize::from(octet) + 1,
            0xc0 => return Ok(at + 2),
            _ => return Err(Malformed("reserved label type")),
        }
    }
}
