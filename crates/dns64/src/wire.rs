//! DNS messages on the hot paths: read in place, written into a caller's buffer, no allocation (RFC 1035 4).
//!
//! Reading never panics and always ends: compression pointers must point backwards, counts are bounded by the octets.

use std::fmt;

/// The length of a DNS header in octets.
pub const HEADER_LENGTH: usize = 12;
/// The longest name in wire format, with the root label (RFC 1035 2.3.4).
pub const NAME_LENGTH_MAX: usize = 255;

/// The most compression pointers that are followed in one name: as many as a name has labels.
const POINTERS_MAX: usize = NAME_LENGTH_MAX / 2;

/// Resource record types, by their IANA numbers.
pub mod rtype {
    #![allow(missing_docs)]
    pub const A: u16 = 1;
    pub const NS: u16 = 2;
    pub const CNAME: u16 = 5;
    pub const SOA: u16 = 6;
    pub const PTR: u16 = 12;
    pub const MX: u16 = 15;
    pub const TXT: u16 = 16;
    pub const AAAA: u16 = 28;
    pub const SRV: u16 = 33;
    pub const DNAME: u16 = 39;
    pub const OPT: u16 = 41;
    pub const DS: u16 = 43;
    pub const RRSIG: u16 = 46;
    pub const ANY: u16 = 255;
}

/// The class IN.
pub const CLASS_IN: u16 = 1;

/// Response codes, by their IANA numbers.
pub mod rcode {
    #![allow(missing_docs)]
    pub const NOERROR: u8 = 0;
    pub const FORMERR: u8 = 1;
    pub const SERVFAIL: u8 = 2;
    pub const NXDOMAIN: u8 = 3;
    pub const NOTIMP: u8 = 4;
    pub const REFUSED: u8 = 5;
    /// Extended: BADVERS (RFC 6891 9).
    pub const BADVERS: u16 = 16;
}

/// The octets are no well-formed DNS message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(
    /// What is wrong with them.
    pub &'static str,
);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed DNS message: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// The second and third 16-bit words and the counts of a header (RFC 1035 4.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The transaction ID.
    pub id: u16,
    /// QR, opcode, AA, TC, RD, RA, Z, AD, CD and RCODE as they stand on the wire.
    pub flags: u16,
    /// QDCOUNT, ANCOUNT, NSCOUNT and ARCOUNT.
    pub counts: [u16; 4],
}

impl Header {
    #![allow(missing_docs)]
    pub const QR: u16 = 0x8000;
    pub const AA: u16 = 0x0400;
    pub const TC: u16 = 0x0200;
    pub const RD: u16 = 0x0100;
    pub const RA: u16 = 0x0080;
    pub const AD: u16 = 0x0020;
    pub const CD: u16 = 0x0010;
    pub const OPCODE: u16 = 0x7800;
    pub const RCODE: u16 = 0x000f;

    /// Reads the first twelve octets.
    ///
    /// # Errors
    /// Fewer octets than that.
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let head: &[u8; HEADER_LENGTH] = octets.first_chunk().ok_or(Malformed("shorter than a header"))?;
        let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        Ok(Self { id: word(0), flags: word(2), counts: [word(4), word(6), word(8), word(10)] })
    }

    /// Whether any of the bits of `mask` is set.
    pub fn has(&self, mask: u16) -> bool {
        self.flags & mask != 0
    }

    /// The opcode, 0 to 15.
    pub fn opcode(&self) -> u8 {
        ((self.flags & Self::OPCODE) >> 11) as u8
    }

    /// The response code in the header, 0 to 15.
    pub fn rcode(&self) -> u8 {
        (self.flags & Self::RCODE) as u8
    }
}

/// A domain name in uncompressed wire format, its case kept.
#[derive(Clone, Copy)]
pub struct Name {
    octets: [u8; NAME_LENGTH_MAX],
    length: u8,
}

impl Name {
    /// The root.
    pub const ROOT: Self = Self { octets: [0; NAME_LENGTH_MAX], length: 1 };

    /// Reads a name that may be compressed; returns it with the position after it.
    ///
    /// # Errors
    /// A label of a reserved kind, a pointer that does not point backwards, a name of over 255 octets, or no end.
    pub fn parse(message: &[u8], at: usize) -> Result<(Self, usize), Malformed> {
        let mut name = Self::ROOT;
        let mut length = 0usize;
        let mut position = at;
        let mut end = None;
        let mut lowest = at;
        let mut pointers = 0;
        loop {
            let &octet = message.get(position).ok_or(Malformed("name runs over the end"))?;
            match octet & 0xc0 {
                0x00 => {
                    let label = message
                        .get(position..=position + usize::from(octet))
                        .ok_or(Malformed("label runs over the end"))?;
                    let place = name
                        .octets
                        .get_mut(length..length + label.len())
                        .ok_or(Malformed("name over 255 octets"))?;
                    place.copy_from_slice(label);
                    length += label.len();
                    position += label.len();
                    if octet == 0 {
                        name.length = length as u8;
                        return Ok((name, end.unwrap_or(position)));
                    }
                }
                0xc0 => {
                    let &low = message.get(position + 1).ok_or(Malformed("pointer runs over the end"))?;
                    let target = usize::from(octet & 0x3f) << 8 | usize::from(low);
                    // Strictly backwards from everything read so far: no loop is possible.
                    if target >= lowest {
                        return Err(Malformed("compression pointer does not point backwards"));
                    }
                    // One before each label is plenty; thousands in a row would cost a reader its time.
                    pointers += 1;
                    if pointers > POINTERS_MAX {
                        return Err(Malformed("too many compression pointers"));
                    }
                    end.get_or_insert(position + 2);
                    position = target;
                    lowest = target;
                }
                _ => return Err(Malformed("reserved label type")),
            }
        }
    }

    /// Reads a name from text without escapes, for example `dns64perf.test`; a dot at the end may be left out.
    ///
    /// # Errors
    /// An empty label, one of over 63 octets, or a name of over 255.
    pub fn from_text(text: &str) -> Result<Self, Malformed> {
        let mut name = Self::ROOT;
        let text = text.strip_suffix('.').unwrap_or(text);
        let mut length = 0;
        for label in text.split('.').filter(|_| !text.is_empty()) {
            if label.is_empty() || label.len() > 63 {
                return Err(Malformed("a label must have 1 to 63 characters"));
            }
            let place = name
                .octets
                .get_mut(length..=length + label.len())
                .ok_or(Malformed("name over 255 octets"))?;
            place[0] = label.len() as u8;
            place[1..].copy_from_slice(label.as_bytes());
            length += label.len() + 1;
        }
        *name.octets.get_mut(length).ok_or(Malformed("name over 255 octets"))? = 0;
        name.length = length as u8 + 1;
        Ok(name)
    }

    /// The wire format, with the root label at its end.
    pub fn as_wire(&self) -> &[u8] {
        &self.octets[..usize::from(self.length)]
    }

    /// The labels without the root.
    pub fn labels(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.as_wire();
        std::iter::from_fn(move || {
            let (&length, tail) = rest.split_first().filter(|(length, _)| **length != 0)?;
            let (label, tail) = tail.split_at(usize::from(length));
            rest = tail;
            Some(label)
        })
    }

    /// The name without its first label; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        let skip = usize::from(self.octets[0]) + 1;
        (skip > 1).then(|| {
            let mut parent = Self::ROOT;
            let rest = &self.as_wire()[skip..];
            parent.octets[..rest.len()].copy_from_slice(rest);
            parent.length = rest.len() as u8;
            parent
        })
    }

    /// This name with `new` in the place of `old`, which is an ending of it (RFC 6672 2.2).
    ///
    /// # Errors
    /// `old` is longer than the name, or the new name has over 255 octets.
    pub fn with_ending(&self, old: &Self, new: &Self) -> Result<Self, Malformed> {
        let kept = self.as_wire().len().checked_sub(old.as_wire().len());
        let kept = &self.as_wire()[..kept.ok_or(Malformed("ending longer than the name"))?];
        let mut name = Self::ROOT;
        let length = kept.len() + new.as_wire().len();
        let place = name.octets.get_mut(..length).ok_or(Malformed("name over 255 octets"))?;
        place[..kept.len()].copy_from_slice(kept);
        place[kept.len()..].copy_from_slice(new.as_wire());
        name.length = length as u8;
        Ok(name)
    }

    /// Whether this is `ancestor` or a name below it, whatever the case.
    pub fn is_under(&self, ancestor: &Self) -> bool {
        let (own, other) = (self.as_wire(), ancestor.as_wire());
        let Some(skip) = own.len().checked_sub(other.len()) else { return false };
        let mut at = 0;
        while at < skip {
            at += usize::from(own[at]) + 1;
        }
        at == skip && own[skip..].eq_ignore_ascii_case(other)
    }
}

impl PartialEq for Name {
    /// Whatever the case (RFC 4343). Length octets are below 64 and so are never letters.
    fn eq(&self, other: &Self) -> bool {
        self.as_wire().eq_ignore_ascii_case(other.as_wire())
    }
}

impl Eq for Name {}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.length == 1 {
            return f.write_str(".");
        }
        for label in self.labels() {
            for &octet in label {
                match octet {
                    b'.' | b'\\' => write!(f, "\\{}", char::from(octet))?,
                    0x21..=0x7e => write!(f, "{}", char::from(octet))?,
                    _ => write!(f, "\\{octet:03}")?,
                }
            }
            f.write_str(".")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The one question of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// QNAME, its case kept; two questions that differ in case only are equal.
    pub name: Name,
    /// QTYPE.
    pub qtype: u16,
    /// QCLASS.
    pub qclass: u16,
}

/// Where a record stands.
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
    /// TYPE.
    pub rtype: u16,
    /// CLASS; for OPT the requestor's payload size.
    pub class: u16,
    /// TTL in seconds; for OPT the extended RCODE, version and flags.
    pub ttl: u32,
    /// RDATA as it stands, names in it may be compressed.
    pub rdata: &'a [u8],
}

impl<'a> Record<'a> {
    /// The owner name.
    ///
    /// # Errors
    /// A malformed name.
    pub fn owner(&self) -> Result<Name, Malformed> {
        Name::parse(self.message, self.owner_at).map(|(name, _)| name)
    }

    /// Whether the owner is written as a pointer to the question's name, as nearly every server writes it.
    pub fn owner_is_question_pointer(&self) -> bool {
        self.message.get(self.owner_at..self.owner_at + 2) == Some(&[0xc0, HEADER_LENGTH as u8])
    }

    /// A name within RDATA, `offset` octets after its start, and the offset after it.
    ///
    /// # Errors
    /// A malformed name, or one that leaves the RDATA.
    pub fn name_in_rdata(&self, offset: usize) -> Result<(Name, usize), Malformed> {
        let (name, end) = Name::parse(self.message, self.rdata_at + offset)?;
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
    /// The header.
    pub header: Header,
    /// The question; a message without one, or with several, is malformed here (RFC 9619).
    pub question: Question,
    records_at: usize,
}

impl<'a> Message<'a> {
    /// Reads the header and the only question.
    ///
    /// # Errors
    /// No header, not exactly one question, or a malformed one, to which a compressed one counts: before it stands
    /// the header alone. The records are read by [`Message::records`].
    pub fn parse(octets: &'a [u8]) -> Result<Self, Malformed> {
        let header = Header::parse(octets)?;
        if header.counts[0] != 1 {
            return Err(Malformed("not exactly one question"));
        }
        let (name, end) = Name::parse(octets, HEADER_LENGTH)?;
        if end != HEADER_LENGTH + name.as_wire().len() {
            return Err(Malformed("compressed question"));
        }
        let tail: &[u8; 4] =
            octets.get(end..).and_then(<[u8]>::first_chunk).ok_or(Malformed("question runs over the end"))?;
        let question = Question {
            name,
            qtype: u16::from_be_bytes([tail[0], tail[1]]),
            qclass: u16::from_be_bytes([tail[2], tail[3]]),
        };
        Ok(Self { octets, header, question, records_at: end + 4 })
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
    /// Malformed records, or more than one OPT.
    pub fn edns(&self) -> Result<Option<Edns>, Malformed> {
        let mut found = None;
        for record in self.records() {
            let record = record?;
            if record.rtype != rtype::OPT || record.section != Section::Additional {
                continue;
            }
            if found.is_some() {
                return Err(Malformed("more than one OPT record"));
            }
            let [extended_rcode, version, high, _] = record.ttl.to_be_bytes();
            found = Some(Edns {
                payload_octets: record.class,
                extended_rcode,
                version,
                dnssec_ok: high & 0x80 != 0,
            });
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
    /// The EDNS version, 0.
    pub version: u8,
    /// The DO bit.
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
        let fixed: &[u8; 10] = self
            .message
            .get(fixed_at..)
            .and_then(<[u8]>::first_chunk)
            .ok_or(Malformed("record runs over the end"))?;
        let word = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        let rdata_at = fixed_at + fixed.len();
        let rdata = self
            .message
            .get(rdata_at..rdata_at + usize::from(word(8)))
            .ok_or(Malformed("RDATA runs over the end"))?;
        self.at = rdata_at + rdata.len();
        Ok(Record {
            message: self.message,
            owner_at,
            rdata_at,
            section,
            rtype: word(0),
            class: word(2),
            ttl: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
            rdata,
        })
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
        match octet & 0xc0 {
            0x00 if octet == 0 => return Ok(at + 1),
            0x00 => at += usize::from(octet) + 1,
            0xc0 => return Ok(at + 2),
            _ => return Err(Malformed("reserved label type")),
        }
    }
}

/// The message does not fit into the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow;

/// How many names a [`Writer`] remembers for compression.
const COMPRESSION_TARGETS: usize = 24;

/// Writes a message into a buffer, with name compression; the case of every name is kept.
pub struct Writer<'b> {
    buffer: &'b mut [u8],
    length: usize,
    targets: [u16; COMPRESSION_TARGETS],
    targets_used: usize,
}

impl<'b> Writer<'b> {
    /// Starts a message: header with zero counts and the question.
    ///
    /// # Errors
    /// The buffer is too small.
    pub fn new(buffer: &'b mut [u8], id: u16, flags: u16, question: &Question) -> Result<Self, Overflow> {
        let mut writer = Self { buffer, length: 0, targets: [0; COMPRESSION_TARGETS], targets_used: 0 };
        let mut header = [0; HEADER_LENGTH];
        header[..2].copy_from_slice(&id.to_be_bytes());
        header[2..4].copy_from_slice(&flags.to_be_bytes());
        header[5] = 1;
        writer.put(&header)?;
        writer.name(&question.name)?;
        writer.put(&question.qtype.to_be_bytes())?;
        writer.put(&question.qclass.to_be_bytes())?;
        Ok(writer)
    }

    /// Adds a record whose RDATA holds no compressible name. On overflow nothing of it stays.
    ///
    /// # Errors
    /// The record does not fit.
    pub fn record(
        &mut self,
        section: Section,
        owner: &Name,
        rtype: u16,
        class: u16,
        ttl: u32,
        rdata: &[u8],
    ) -> Result<(), Overflow> {
        self.record_with(section, owner, rtype, class, ttl, |writer| writer.put(rdata))
    }

    /// Adds a record whose RDATA `write_rdata` writes. On overflow nothing of it stays.
    ///
    /// # Errors
    /// The record does not fit.
    pub fn record_with(
        &mut self,
        section: Section,
        owner: &Name,
        rtype: u16,
        class: u16,
        ttl: u32,
        write_rdata: impl FnOnce(&mut Self) -> Result<(), Overflow>,
    ) -> Result<(), Overflow> {
        let (length, targets_used) = (self.length, self.targets_used);
        let written = self.try_record(section, owner, rtype, class, ttl, write_rdata);
        if written.is_err() {
            (self.length, self.targets_used) = (length, targets_used);
        }
        written
    }

    fn try_record(
        &mut self,
        section: Section,
        owner: &Name,
        rtype: u16,
        class: u16,
        ttl: u32,
        write_rdata: impl FnOnce(&mut Self) -> Result<(), Overflow>,
    ) -> Result<(), Overflow> {
        self.name(owner)?;
        let [type_high, type_low] = rtype.to_be_bytes();
        let [class_high, class_low] = class.to_be_bytes();
        let [a, b, c, d] = ttl.to_be_bytes();
        self.put(&[type_high, type_low, class_high, class_low, a, b, c, d, 0, 0])?;
        let rdata_at = self.length;
        write_rdata(self)?;
        let rdata_length = u16::try_from(self.length - rdata_at).map_err(|_| Overflow)?;
        self.buffer[rdata_at - 2..rdata_at].copy_from_slice(&rdata_length.to_be_bytes());
        let count_at = 4 + 2 * section as usize;
        let count = u16::from_be_bytes([self.buffer[count_at], self.buffer[count_at + 1]]);
        let count = count.checked_add(1).ok_or(Overflow)?;
        self.buffer[count_at..count_at + 2].copy_from_slice(&count.to_be_bytes());
        Ok(())
    }

    /// Copies a record of another message: names in its RDATA are decompressed where the type may hold compressed
    /// ones (RFC 3597 4). `Ok(false)` means that its names are malformed and nothing was written.
    ///
    /// # Errors
    /// The record does not fit.
    pub fn copy(&mut self, record: &Record<'_>, ttl: u32) -> Result<bool, Overflow> {
        let Ok(owner) = record.owner() else { return Ok(false) };
        let (first, names) = match record.rtype {
            rtype::NS | rtype::CNAME | rtype::PTR | rtype::DNAME => (0, 1),
            rtype::MX => (2, 1),
            rtype::SRV => (6, 1),
            rtype::SOA => (0, 2),
            _ => (0, 0),
        };
        let mut rdata_names = [Name::ROOT; 2];
        let mut at = first;
        for name in &mut rdata_names[..names] {
            let Ok((read, end)) = record.name_in_rdata(at) else { return Ok(false) };
            (*name, at) = (read, end);
        }
        let Record { section, rtype, class, rdata, .. } = *record;
        let may_compress = !matches!(rtype, rtype::DNAME | rtype::SRV);
        self.record_with(section, &owner, rtype, class, ttl, |writer| {
            writer.put(&rdata[..first])?;
            for name in &rdata_names[..names] {
                if may_compress { writer.name(name)? } else { writer.put(name.as_wire())? }
            }
            writer.put(&rdata[at..])
        })?;
        Ok(true)
    }

    /// Adds an OPT record (RFC 6891 6.1).
    ///
    /// # Errors
    /// The record does not fit.
    pub fn edns(&mut self, edns: &Edns, options: &[u8]) -> Result<(), Overflow> {
        let flags = if edns.dnssec_ok { 0x80 } else { 0 };
        let ttl = u32::from_be_bytes([edns.extended_rcode, edns.version, flags, 0]);
        self.record(Section::Additional, &Name::ROOT, rtype::OPT, edns.payload_octets, ttl, options)
    }

    /// Adds octets as they are.
    ///
    /// # Errors
    /// They do not fit.
    pub fn put(&mut self, octets: &[u8]) -> Result<(), Overflow> {
        let place = self.buffer.get_mut(self.length..self.length + octets.len()).ok_or(Overflow)?;
        place.copy_from_slice(octets);
        self.length += octets.len();
        Ok(())
    }

    /// Adds a name, compressed where an equal ending stands in the message already (RFC 1035 4.1.4).
    ///
    /// # Errors
    /// It does not fit.
    pub fn name(&mut self, name: &Name) -> Result<(), Overflow> {
        let wire = name.as_wire();
        let mut at = 0;
        while wire[at] != 0 {
            if let Some(target) = self.find(&wire[at..]) {
                return self.put(&(0xc000 | target).to_be_bytes());
            }
            self.remember();
            let next = at + 1 + usize::from(wire[at]);
            self.put(&wire[at..next])?;
            at = next;
        }
        self.put(&[0])
    }

    fn find(&self, ending: &[u8]) -> Option<u16> {
        self.targets[..self.targets_used]
            .iter()
            .copied()
            .find(|&target| self.stands_at(usize::from(target), ending))
    }

    /// Whether the name written at `at` is `ending`, octet for octet.
    fn stands_at(&self, mut at: usize, mut ending: &[u8]) -> bool {
        loop {
            let octet = self.buffer[at];
            if octet & 0xc0 == 0xc0 {
                at = usize::from(u16::from_be_bytes([octet & 0x3f, self.buffer[at + 1]]));
                continue;
            }
            let label_length = usize::from(octet) + 1;
            let (Some(label), Some(written)) =
                (ending.get(..label_length), self.buffer[..self.length].get(at..at + label_length))
            else {
                return false;
            };
            if label != written {
                return false;
            }
            if octet == 0 {
                return true;
            }
            ending = &ending[label_length..];
            at += label_length;
        }
    }

    fn remember(&mut self) {
        if self.targets_used < COMPRESSION_TARGETS && self.length < 0x4000 {
            self.targets[self.targets_used] = self.length as u16;
            self.targets_used += 1;
        }
    }

    /// Sets flag bits in the header that stands already.
    pub fn set_flags(&mut self, mask: u16) {
        let flags = u16::from_be_bytes([self.buffer[2], self.buffer[3]]) | mask;
        self.buffer[2..4].copy_from_slice(&flags.to_be_bytes());
    }

    /// The number of octets written.
    pub fn finish(self) -> usize {
        self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn question(text: &str) -> Question {
        Question { name: Name::from_text(text).unwrap(), qtype: rtype::AAAA, qclass: CLASS_IN }
    }

    #[test]
    fn writes_what_the_domain_crate_reads() {
        let mut buffer = [0; 512];
        let asked = question("www.Example.com");
        let mut writer = Writer::new(&mut buffer, 7, Header::QR | Header::RA, &asked).unwrap();
        writer.record(Section::Answer, &asked.name, rtype::AAAA, CLASS_IN, 60, &[9; 16]).unwrap();
        let host = Name::from_text("ns.example.com").unwrap();
        let zone = Name::from_text("Example.com").unwrap();
        writer.record_with(Section::Authority, &zone, rtype::NS, CLASS_IN, 60, |w| w.name(&host)).unwrap();
        writer
            .edns(&Edns { payload_octets: 1232, extended_rcode: 0, version: 0, dnssec_ok: true }, &[])
            .unwrap();
        let length = writer.finish();

        let message = domain::base::Message::from_octets(&buffer[..length]).unwrap();
        assert_eq!(message.sole_question().unwrap().qname().to_string(), "www.Example.com");
        let records: Vec<_> =
            message.answer().unwrap().map(|record| record.unwrap().owner().to_string()).collect();
        assert_eq!(records, ["www.Example.com"]);
        let authority = message.authority().unwrap().next().unwrap().unwrap();
        assert_eq!(authority.owner().to_string(), "Example.com");
        assert!(message.opt().unwrap().dnssec_ok());
        let ours = Message::parse(&buffer[..length]).unwrap();
        assert_eq!(ours.edns().unwrap().unwrap().payload_octets, 1232);
        let (read, _) = ours.records().nth(1).unwrap().unwrap().name_in_rdata(0).unwrap();
        assert_eq!(read, host);
    }

    #[test]
    fn a_record_that_does_not_fit_leaves_no_trace() {
        let asked = question("a.test");
        let mut buffer = [0; 40];
        let mut writer = Writer::new(&mut buffer, 1, 0, &asked).unwrap();
        let before = writer.length;
        assert_eq!(writer.record(Section::Answer, &asked.name, 28, 1, 0, &[0; 16]), Err(Overflow));
        assert_eq!(writer.finish(), before);
        assert_eq!(buffer[7], 0);
    }

    #[test]
    fn hostile_names_are_refused() {
        let with_name = |name: &[u8]| [&[0u8; 5][..], &[1], &[0; 6], name, &[0, 28, 0, 1]].concat();
        for (name, reason) in [
            (&[0xc0, 12][..], "pointer to itself"),
            (&[1, b'a', 0xc0, 12], "pointer to its own start"),
            (&[0xc0, 200], "pointer beyond the end"),
            (&[0x40, 1], "reserved label"),
            (&[63, b'a'], "label over the end"),
            (&[0xc0, 0], "pointer into the header, where a root label stands"),
        ] {
            assert!(Message::parse(&with_name(name)).is_err(), "{reason}");
        }
    }

    #[test]
    fn a_row_of_pointers_ends() {
        let mut octets = vec![0];
        octets.extend((0..200u16).flat_map(|n| (0xc000 | (2 * n).saturating_sub(1)).to_be_bytes()));
        assert!(Name::parse(&octets, 2 * 127 - 1).is_ok());
        assert!(Name::parse(&octets, 2 * 128 - 1).is_err());
    }

    #[test]
    fn an_ending_gives_way_to_another() {
        let name = |text: &str| Name::from_text(text).unwrap();
        assert_eq!(name("a.b.c").with_ending(&name("b.c"), &name("d")), Ok(name("a.d")));
        assert_eq!(name("a.b").with_ending(&Name::ROOT, &name("c")), Ok(name("a.b.c")));
        assert!(name("a").with_ending(&name("a.b"), &Name::ROOT).is_err());
        let long = name(&format!("{0}.{0}.{0}.{0}", "x".repeat(62)));
        assert!(name("abcd.b").with_ending(&name("b"), &long).is_err());
    }

    #[test]
    fn names_compare_by_labels() {
        let name = |text| Name::from_text(text).unwrap();
        assert!(name("a.B.test").is_under(&name("b.TEST")));
        assert!(name("b.test").is_under(&name("b.test")));
        assert!(!name("ab.test").is_under(&name("b.test")));
        assert!(name("b.test").is_under(&Name::ROOT));
        assert_eq!(name("a.b").parent(), Some(name("b")));
        assert_eq!(Name::ROOT.parent(), None);
        assert!(Name::from_text("a..b").is_err());
        assert!(Name::from_text(&"a.".repeat(200)).is_err());
        assert_eq!(name("a.b.").to_string(), "a.b.");
    }

    proptest! {
        #[test]
        fn any_octets_are_read_without_a_panic(octets in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(message) = Message::parse(&octets) {
                let _ = message.edns();
                let mut buffer = [0; 600];
                let mut writer = Writer::new(&mut buffer, 0, 0, &message.question).unwrap();
                for record in message.records().flatten() {
                    let _ = record.owner();
                    let _ = writer.copy(&record, 1);
                }
            }
        }

        #[test]
        fn records_agree_with_the_domain_crate(tail in prop::collection::vec(any::<u8>(), 0..120), counts in prop::array::uniform3(0u8..3)) {
            let mut octets = vec![0, 1, 0x80, 0, 0, 1, 0, counts[0], 0, counts[1], 0, counts[2], 1, b'a', 0, 0, 28, 0, 1];
            octets.extend(tail);
            let ours = Message::parse(&octets).unwrap().records().map_while(Result::ok)
                .take_while(|record| record.section == Section::Answer).count();
            let theirs = domain::base::Message::from_octets(&octets).unwrap().answer().unwrap()
                .map_while(Result::ok).count();
            // Theirs also checks owner names where they stand; ours when they are asked for.
            prop_assert!(ours >= theirs);
        }
    }
}
